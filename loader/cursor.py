"""The cursor: where a loader stands between two steps, under 1 KB and the same on all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from .errors import FormatError
from .formats import Json, check_format

FORMAT = "shardward.cursor"
VERSION = 1

Mode = Literal["compact", "hold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A step boundary in a run.

    Attributes:
        plan_id: of the plan that positions count in.
        epoch: current epoch, from 0.
        position: raw position from which the next step takes its samples.
        step: last completed step; the loader yields `step + 1` next.
        revision: number of the quarantine revision in force; 0 excludes nothing.
        revision_digest: of that revision; None for revision 0.
        mode: what becomes of excluded samples: `compact` passes them over, `hold` masks them.
        piece: branch piece that wrote the cursor; None before any.
    """

    plan_id: str
    epoch: int = 0
    position: int = 0
    step: int = 0
    revision: int = 0
    revision_digest: str | None = None
    mode: Mode = "compact"
    piece: int | None = None

    def __post_init__(self) -> None:
        for name in ("epoch", "position", "step", "revision"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"{name} is {value!r}, not a non-negative integer")
        if not isinstance(self.plan_id, str):
            raise ValueError(f"plan_id is {self.plan_id!r}, not text")
        if self.piece is not None and (type(self.piece) is not int or self.piece < 1):
            raise ValueError(f"piece is {self.piece!r}, not a positive integer")
        if self.mode not in get_args(Mode):
            raise ValueError(f"mode is {self.mode!r}, not one of {get_args(Mode)}")
        if (self.revision == 0) != (self.revision_digest is None):
            raise ValueError("revision 0 has no digest and every other revision has one")

    def to_json(self) -> dict[str, Any]:
        """Return the cursor as a JSON object."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "plan_id": self.plan_id,
            "epoch": self.epoch,
            "position": self.position,
            "step": self.step,
            "revision": self.revision,
            "revision_digest": self.revision_digest,
            "mode": self.mode,
            "piece": self.piece,
        }

    @classmethod
    def from_json(cls, value: Json, *, where: str = "the cursor") -> Cursor:
        """Return the cursor in `value`.

        Raises:
            FormatError: unknown version, or a field that is missing, unknown or of the wrong kind.
        """
        if not isinstance(value, Mapping):
            raise FormatError(f"{where} is a {type(value).__name__}, not a JSON object")
        check_format(value, name=FORMAT, version=VERSION, where=where)
        fields = {key: item for key, item in value.items() if key not in ("format", "version")}
        missing = set(cls.__dataclass_fields__) - set(fields)
        if missing:
            raise FormatError(f"{where} lacks {sorted(missing)}; load it whole from the checkpoint")
        try:
            return cls(**fields)
        except (TypeError, ValueError) as error:
            raise FormatError(f"{where} is malformed: {error}") from error
