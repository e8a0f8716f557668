"""Driving a trainer: a Python protocol, and a command template for jobs that a scheduler starts.

The command gets the paths of `spec.json` (what to run) and `metrics.jsonl` (where to write one
JSON object a step). It may take as long as its time limit; what it wrote by then is read.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from ...loader.errors import ShardwardError, UsageError
from ...loader.files import write_atomic
from ...loader.formats import canonical_json
from ..diagnose.series import Series
from ..diagnose.signals import read_series

KINDS = ("replay", "skip", "hold", "resume", "eval")
SPEC, METRICS, OUTPUT = "spec.json", "metrics.jsonl", "output.log"
MOST_TAIL = 2000
LEAST_ROOM = 1 << 16
GRACE = 5.0
"""Seconds between asking a command to end and making it."""


class TrainerFailed(ShardwardError):
    """The trainer's command ended badly; the message holds the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """What a trainer is asked to do.

    `kind` is replay (the same batches), skip or hold (under `cursor`'s revision), resume, or eval
    (no training: evaluate the checkpoint). Steps `first`..`last` are meant; `cursor` is what to
    give the loader; trials must be opened with `reason="trial"`.
    """

    kind: str
    run: str
    checkpoint: str
    cursor: Mapping[str, Any]
    first: int
    last: int
    learning_rate_factor: float = 1.0
    clip_factor: float = 1.0
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"unknown kind {self.kind!r}; choose one of {', '.join(KINDS)}")
        if not 0 <= self.first <= self.last:
            raise UsageError(f"steps {self.first} to {self.last} are no range")

    def to_json(self) -> dict[str, Any]:
        """Return the object of `spec.json`."""
        return {
            "format": "shardward.trial-spec",
            "version": 1,
            "kind": self.kind,
            "run": self.run,
            "checkpoint": self.checkpoint,
            "cursor": dict(self.cursor),
            "first": self.first,
            "last": self.last,
            "learning_rate_factor": self.learning_rate_factor,
            "clip_factor": self.clip_factor,
            "extra": dict(self.extra),
        }


class Trainer(Protocol):
    """A trainer in the same process: yields one mapping of signals a step, `step` among them."""

    def train(self, spec: Spec) -> Iterable[Mapping[str, float]]:
        """Carry out `spec`."""


def collect(trainer: Trainer, spec: Spec) -> dict[str, Series]:
    """Let `trainer` carry out `spec` and return what it yielded, as `run_command` does.

    Raises:
        TrainerFailed: it yielded nothing.
    """
    points: dict[str, list[tuple[int, float]]] = {}
    for row in trainer.train(spec):
        for name, value in row.items():
            if name != "step":
                points.setdefault(name, []).append((int(row["step"]), float(value)))
    if not points:
        raise TrainerFailed("the trainer yielded no signals; one mapping a step is expected")
    return {
        name: Series(
            name=name,
            steps=np.array([step for step, _ in rows], np.int64),
            values=np.array([value for _, value in rows], np.float64),
        )
        for name, rows in points.items()
    }


def command_line(template: str, spec: Path, metrics: Path) -> list[str]:
    """Return the words of a template such as "train.sh {spec} {metrics}".

    No shell is involved: placeholders become whole or parts of words, nothing is expanded.

    Raises:
        UsageError: the template is empty or lacks {spec}.
    """
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise UsageError(f"the command {template!r} cannot be split ({error})") from error
    if not words or not any("{spec}" in word for word in words):
        raise UsageError(f"the command {template!r} must name {{spec}}, and may name {{metrics}}")
    return [word.replace("{spec}", str(spec)).replace("{metrics}", str(metrics)) for word in words]


def run_command(
    template: str,
    spec: Spec,
    home: Path,
    *,
    timeout: float | None = None,
    read: Callable[[Path], dict[str, Series]] = read_series,
) -> dict[str, Series]:
    """Write spec.json to `home`, run the command there and return the metrics it wrote.

    `read` reads them from their file; by default as the log of a trainer, which has a loss.

    Raises:
        TrainerFailed: it could not be started, exited non-zero, ran past `timeout` seconds or
            wrote no metrics.
        FormatError: the metrics are malformed.
    """
    home.mkdir(parents=True, exist_ok=True)
    home = home.resolve()
    metrics = home / METRICS
    metrics.unlink(missing_ok=True)
    write_atomic(home / SPEC, canonical_json(spec.to_json()))
    words = command_line(template, home / SPEC, metrics)
    with (home / OUTPUT).open("wb") as output:
        code = _run(words, home, output, timeout)
    if code:
        raise TrainerFailed(
            f"{words[0]} exited with {code}{_no_room(home)}; the end of its output:\n{_tail(home)}"
        )
    if not metrics.exists():
        raise TrainerFailed(f"{words[0]} wrote no {metrics}; one JSON object a step is expected")
    return read(metrics)


def _run(words: list[str], home: Path, output: BinaryIO, timeout: float | None) -> int:
    """Run a command in a session of its own and return its exit code.

    Whatever ends the wait early ends all that the command started, too: a launcher's workers
    would keep the accelerators.
    """
    try:
        process = subprocess.Popen(
            words, cwd=home, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise TrainerFailed(
            f"{words[0]} could not be started ({error.strerror}); check the command"
        ) from error
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired as error:
        raise TrainerFailed(
            f"{words[0]} ran past {timeout} s and was stopped; its output is {output.name}"
        ) from error
    finally:
        if process.returncode is None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask the command's whole process group to end, then make it."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    finally:
        # The group outlives its leader while a worker of it does.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _no_room(home: Path) -> str:
    """Return that the disk is full, if so: then the command could not write why it ended."""
    full = shutil.disk_usage(home).free < LEAST_ROOM
    return f", and there is no space left in {home}" if full else ""


def _tail(home: Path) -> str:
    return (home / OUTPUT).read_bytes()[-MOST_TAIL:].decode("utf-8", "replace")
