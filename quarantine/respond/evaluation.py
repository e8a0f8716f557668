"""Evaluating the scene and a healthy checkpoint, to tell a hurt model from a hurt dashboard."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...loader.errors import FormatError, IncidentError
from ...loader.lineage import owner
from ..diagnose.columns import canonical_names, is_bookkeeping
from ..diagnose.directions import Direction, harm_of
from ..diagnose.series import Series
from .checkpoints import journalled_checkpoints
from .command import Spec
from .rewind import Checkpoint, plan_rewind

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Incident

ENDLESS = frozenset(
    f"{sign}{word}" for sign in ("", "+", "-") for word in ("nan", "inf", "infinity")
)


def evaluation_specs(run: Run, incident: Incident) -> dict[str, Spec]:
    """Return what to evaluate: "healthy" before the onset and "scene" at or after it.

    Raises:
        IncidentError: the run has no checkpoint on one of the two sides.
    """
    opened = incident.opening().summary
    onset, spans = opened["onset"], run.lineage(opened.get("piece"))
    known = [
        c
        for c in journalled_checkpoints(run)
        if (span := owner(spans, c.step)) is not None and span.piece == c.piece
    ]
    after = [c for c in known if c.step >= onset]
    if not after:
        raise IncidentError(
            f"no checkpoint lies at or after the onset at step {onset}; save one of the scene, "
            "or confirm without an evaluation"
        )
    healthy = plan_rewind(known, spans, onset=onset, head_step=onset).checkpoint
    return {"healthy": _spec(run, healthy), "scene": _spec(run, after[0])}


def read_evaluation(path: Path, step: int) -> dict[str, Series]:
    """Return what a harness wrote about the checkpoint at `step`: the last value of each metric.

    Any number beside the bookkeeping (step, time, tokens) is a metric; one is enough.

    Raises:
        FormatError: the file is neither a JSON object nor JSON lines, or holds no number.
    """
    values: dict[str, float] = {}
    for where, row in _rows(path):
        for name, value in row.items():
            number = None if is_bookkeeping(name) else _number(value, f"{where}: {name}")
            if number is not None:
                values[name] = number
    if not values:
        raise FormatError(
            f'{path} holds no metric; write a number under its name, such as {{"mmlu": 0.41}}'
        )
    names = canonical_names(values, {})
    return {
        names[name]: Series(
            name=names[name], steps=np.array([step], np.int64), values=np.array([value])
        )
        for name, value in values.items()
    }


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a file, one in all or one a line, each with words for its place."""
    raw = path.read_bytes()
    try:
        parts = [(str(path), json.loads(raw))]
    except (ValueError, RecursionError):
        parts = []
        for number, line in enumerate(raw.split(b"\n"), 1):
            if line.strip():
                where = f"{path} line {number}"
                try:
                    parts.append((where, json.loads(line)))
                except (ValueError, RecursionError) as error:
                    raise FormatError(f"{where} is no JSON object ({error})") from error
    for where, row in parts:
        if not isinstance(row, dict):
            raise FormatError(f"{where} is no JSON object; write the metrics under their names")
        yield where, row


def _number(value: object, where: str) -> float | None:
    """Return a number, also one that JSON lacks and that was written as a word; None for others."""
    word = isinstance(value, str) and value.strip().lower() in ENDLESS
    if isinstance(value, bool) or not (word or isinstance(value, int | float)):
        return None
    try:
        return float(value)  # type: ignore[arg-type]
    except OverflowError as error:
        raise FormatError(f"{where} is an integer that no float holds") from error


def compared(
    results: Mapping[str, Mapping[str, Series]], worse: Mapping[str, Direction]
) -> list[dict[str, Any]]:
    """Return each metric with its values (healthy, scene) and when it is `worse`, None unknown."""
    ways = {1: "higher", -1: "lower", None: None}
    return [
        {
            "metric": name,
            "worse": ways[harm_of(f"eval/{name}", worse)],
            **{
                side: float(each[name].values[-1]) for side, each in results.items() if name in each
            },
        }
        for name in sorted({name for each in results.values() for name in each})
    ]


def merge_evaluations(results: Mapping[str, Mapping[str, Series]]) -> dict[str, Series]:
    """Return one series per evaluated signal, called eval/NAME, over both checkpoints."""
    names = {name for each in results.values() for name in each}
    return {
        f"eval/{name}": Series(
            name=f"eval/{name}",
            steps=np.concatenate([each[name].steps for each in results.values() if name in each]),
            values=np.concatenate([each[name].values for each in results.values() if name in each]),
        )
        for name in sorted(names)
    }


def _spec(run: Run, checkpoint: Checkpoint) -> Spec:
    return Spec(
        kind="eval",
        run=str(run.path.resolve()),
        checkpoint=checkpoint.path,
        cursor=checkpoint.cursor,
        first=checkpoint.step,
        last=checkpoint.step,
    )
