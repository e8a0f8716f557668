"""Where to rewind to: the last healthy checkpoint before the onset. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...loader.errors import IncidentError
from ...loader.lineage import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Weights after `step`, written by branch piece `piece`, with the cursor that goes on."""

    step: int
    piece: int
    path: str
    cursor: Mapping[str, Any] = field(default_factory=dict)
    healthy: bool = True
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the checkpoint as a JSON object without its cursor."""
        return {"step": self.step, "piece": self.piece, "path": self.path}


@dataclass(frozen=True, slots=True, kw_only=True)
class RewindPlan:
    """The chosen checkpoint, what it costs, and why nearer ones were passed over."""

    checkpoint: Checkpoint
    onset: int
    margin: int
    head_step: int
    passed_over: tuple[tuple[Checkpoint, str], ...]

    @property
    def steps_lost(self) -> int:
        """Steps that will be trained again."""
        return self.head_step - self.checkpoint.step

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON object."""
        return {
            "checkpoint": self.checkpoint.to_json(),
            "cursor": dict(self.checkpoint.cursor),
            "onset": self.onset,
            "margin": self.margin,
            "head_step": self.head_step,
            "steps_lost": self.steps_lost,
            "passed_over": [{**c.to_json(), "why": why} for c, why in self.passed_over],
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RewindPlan:
        """Return the plan `to_json` gave."""
        return cls(
            checkpoint=Checkpoint(**value["checkpoint"], cursor=value["cursor"]),
            onset=value["onset"],
            margin=value["margin"],
            head_step=value["head_step"],
            passed_over=tuple(
                (Checkpoint(**{k: v for k, v in c.items() if k != "why"}), c["why"])
                for c in value["passed_over"]
            ),
        )


def plan_rewind(
    checkpoints: Sequence[Checkpoint],
    lineage: Sequence[Span],
    *,
    onset: int,
    head_step: int,
    margin: int = 0,
    start: Checkpoint | None = None,
) -> RewindPlan:
    """Choose the newest healthy checkpoint of the lineage at least `margin` steps before `onset`.

    The onset is the first bad step, so weights after step onset - 1 are the newest that can be
    healthy. A checkpoint of a superseded branch is never chosen. Where none fits, `start` is, the
    run's start without any step; its path is empty.

    Raises:
        IncidentError: none fits; the message lists why each was passed over.
    """
    if onset < 1 or margin < 0:
        raise IncidentError(f"an onset of {onset} with a margin of {margin} has no meaning")
    passed: list[tuple[Checkpoint, str]] = []
    for checkpoint in sorted(checkpoints, key=lambda c: (c.step, c.piece), reverse=True):
        why = _why_not(checkpoint, lineage, onset, margin)
        if why is None:
            return _plan(checkpoint, onset, margin, head_step, passed)
        passed.append((checkpoint, why))
    if start is not None:
        return _plan(start, onset, margin, head_step, passed)
    raise IncidentError(
        f"no checkpoint lies {margin + 1} or more steps before the onset at step {onset}"
        + "".join(f"; step {c.step}: {why}" for c, why in passed[:8])
        + "; lower the margin, or start over from step 0"
    )


def _plan(
    checkpoint: Checkpoint,
    onset: int,
    margin: int,
    head_step: int,
    passed: Sequence[tuple[Checkpoint, str]],
) -> RewindPlan:
    return RewindPlan(
        checkpoint=checkpoint,
        onset=onset,
        margin=margin,
        head_step=max(head_step, checkpoint.step),
        passed_over=tuple(passed),
    )


def _why_not(
    checkpoint: Checkpoint, lineage: Sequence[Span], onset: int, margin: int
) -> str | None:
    if checkpoint.step >= onset:
        return f"its weights have seen the onset at step {onset}"
    if checkpoint.step >= onset - margin:
        return f"it is within the margin of {margin} steps before the onset"
    if not checkpoint.healthy:
        return checkpoint.note or "it is marked unhealthy"
    if not _on(checkpoint, lineage):
        return f"branch piece {checkpoint.piece} was superseded before step {checkpoint.step}"
    return None


def _on(checkpoint: Checkpoint, lineage: Sequence[Span]) -> bool:
    return any(
        span.piece == checkpoint.piece and (span.last is None or checkpoint.step <= span.last)
        for span in lineage
    )
