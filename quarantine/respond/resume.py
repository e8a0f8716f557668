"""What a restarted trainer must load after a rewind: `resume.json`, consumed exactly once.

The current orders stand in `resume.json`; every version of them is kept under `resumes/`. The
first launch that asks takes them and leaves a marker. A requeued job gets the same answer until
a newer checkpoint exists on the new branch, and then that checkpoint, so nothing is skipped twice.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...loader.cursor import Cursor
from ...loader.errors import FormatError, IncidentError, IntegrityError
from ...loader.files import exclusive_lock, publish_new, write_atomic
from ...loader.formats import canonical_json, check_format, parse_json, sha256_hex
from ...loader.resume_file import FILE, HISTORY, read_orders
from ...loader.revision_store import load_revision
from ...loader.run_launch import launch_token
from ...loader.run_locks import live_holder
from .checkpoints import newer_checkpoint
from .rewind import Checkpoint
from .watchplan import WatchPlan

if TYPE_CHECKING:
    from ...loader.run import Run

FORMAT = "shardward.resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Orders for a trainer.

    `checkpoint` is what to load, `cursor` what to give the loader (it names the revision),
    `learning_rate_factor` and `clip_factor` multiply what the schedule says from there on, and
    `watch` is the plan to follow, if any. `ready` is false between rewind and resume. `heads` is
    how many entries the head's log has with the rewind in it, so that an older copy of the log is
    known for one (0: not known, in orders of older versions). `kind` is "rewind", or "continue"
    once the orders were carried out and a newer checkpoint exists.
    """

    incident: str
    round: int
    checkpoint: Checkpoint
    cursor: Cursor
    ready: bool = False
    learning_rate_factor: float = 1.0
    clip_factor: float = 1.0
    watch: WatchPlan | None = None
    no_skip: str | None = None
    created: str = ""
    heads: int = 0
    kind: str = "rewind"

    def __post_init__(self) -> None:
        check_factors(self.learning_rate_factor, self.clip_factor)

    @property
    def id(self) -> str:
        """Digest of the orders, 16 hex digits; neither `created` nor `heads` is part of it."""
        value = self._fields()
        del value["created"]
        return sha256_hex(canonical_json(value))[:16]

    @property
    def reason(self) -> str:
        """What to give the loader as its `reason`."""
        return "rewind" if self.kind == "rewind" else "restart"

    def to_json(self) -> dict[str, Any]:
        """Return the orders as the JSON object of `resume.json`."""
        heads = {"heads": self.heads} if self.heads else {}
        return {"format": FORMAT, "version": 1, "id": self.id, **self._fields(), **heads}

    def _fields(self) -> dict[str, Any]:
        return {
            "incident": self.incident,
            "round": self.round,
            "ready": self.ready,
            "checkpoint": self.checkpoint.to_json(),
            "cursor": self.cursor.to_json(),
            "learning_rate_factor": self.learning_rate_factor,
            "clip_factor": self.clip_factor,
            "watch": self.watch.to_json() if self.watch else None,
            "no_skip": self.no_skip,
            "created": self.created,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, where: str = FILE) -> Resume:
        """Return the orders in `value`.

        Raises:
            FormatError: unknown version, or a field is missing or of the wrong kind.
            IntegrityError: the orders were edited by hand.
        """
        check_format(value, name=FORMAT, version=1, where=where)
        try:
            orders = cls(
                incident=value["incident"],
                round=value["round"],
                ready=value["ready"],
                checkpoint=Checkpoint(**value["checkpoint"], cursor=value["cursor"]),
                cursor=Cursor.from_json(value["cursor"], where=where),
                learning_rate_factor=value["learning_rate_factor"],
                clip_factor=value["clip_factor"],
                watch=WatchPlan.from_json(value["watch"]) if value["watch"] else None,
                no_skip=value["no_skip"],
                created=value["created"],
                heads=value.get("heads", 0),
            )
        except (KeyError, TypeError) as error:
            raise FormatError(f"{where} is malformed ({error}); copy it from {HISTORY}/") from error
        if orders.id != value.get("id"):
            raise IntegrityError(
                f"{where} says id {value.get('id')}, its content has {orders.id}; it was edited: "
                "change a resume with the incident commands"
            )
        return orders


def write_resume(run_path: Path, orders: Resume) -> Resume:
    """Publish `orders` under their id and make them the current ones; safe to repeat."""
    kept = run_path / HISTORY / f"{orders.id}.json"
    if kept.exists():
        orders = Resume.from_json(parse_json(kept.read_bytes(), where=str(kept)), where=str(kept))
    else:
        orders = replace(orders, created=orders.created or _now())
        publish_new(kept, canonical_json(orders.to_json()))
    write_atomic(run_path / FILE, canonical_json(orders.to_json()))
    return orders


def read_resume(run_path: Path) -> Resume | None:
    """Return the current orders, or None; errors as in `Resume.from_json`."""
    value = read_orders(run_path)
    return None if value is None else Resume.from_json(value, where=str(run_path / FILE))


def taken_by(run_path: Path, orders: Resume) -> dict[str, Any] | None:
    """Return {launch, time} of the first launch that took `orders`, or None."""
    path = run_path / HISTORY / f"{orders.id}.taken"
    return parse_json(path.read_bytes(), where=str(path)) if path.exists() else None


def resume(run: Run, *, launch: str | None = None) -> Resume | None:
    """Return what the starting trainer must load, or None when no incident gave orders.

    All ranks of one launch get the same answer. `launch` (or SHARDWARD_LAUNCH) names the start
    in the marker that the orders were taken.

    Raises:
        IncidentError: an incident has rewound the run and is not done deciding what to skip.
        NotFound: the revision that the orders name is missing.
    """
    orders = read_resume(run.path)
    if orders is None:
        return None
    if not orders.ready:
        raise IncidentError(
            f"{orders.incident} rewound the run to step {orders.checkpoint.step} and has not said "
            f"what to skip; a start now would eat the same batches: incident show "
            f"{orders.incident} names the next step on the way to incident resume, or leave the "
            "incident (not-data, escalate), which lets the run go on"
        )
    _check_revision(run, orders)
    newer = newer_checkpoint(run, orders.checkpoint)
    if newer is not None:
        return replace(
            orders,
            checkpoint=newer,
            cursor=Cursor.from_json(newer.cursor),
            learning_rate_factor=1.0,
            clip_factor=1.0,
            kind="continue",
        )
    _take(run.path, orders, launch_token(launch, os.environ, processes=1))
    return orders


def trains(run: Run) -> bool:
    """Return whether a trainer holds the run now, as far as its locks can tell; no trial counts."""
    slots = sorted((run.path / "locks").glob("rank-*.lock"))
    return any(live_holder(slot) is not None for slot in slots)


def _take(run_path: Path, orders: Resume, launch: str) -> None:
    path = run_path / HISTORY / f"{orders.id}.taken"
    with exclusive_lock(run_path / "resume.lock"):
        if not path.exists():
            publish_new(path, canonical_json({"launch": launch, "time": _now()}))


def _check_revision(run: Run, orders: Resume) -> None:
    if orders.cursor.revision:
        load_revision(
            run.path,
            orders.cursor.revision,
            manifest=run.fingerprint,
            digest=orders.cursor.revision_digest,
        )


def check_factors(learning_rate: float, clip: float) -> None:
    """Refuse what a trainer cannot multiply its learning rate or its clip norm by.

    Raises:
        IncidentError: one of them is not a positive number.
    """
    for name, value in (("learning_rate_factor", learning_rate), ("clip_factor", clip)):
        if not (math.isfinite(value) and value > 0):
            raise IncidentError(f"{name} is {value}; it must be a positive number")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
