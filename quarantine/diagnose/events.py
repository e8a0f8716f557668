"""What the monitor reports."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Kind = Literal["blip", "spike", "divergence", "nonfinite", "context_change", "recovered"]
KINDS: tuple[Kind, ...] = (
    "blip",
    "spike",
    "divergence",
    "nonfinite",
    "context_change",
    "recovered",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened to a run; a page keeps its `number` when its kind is upgraded.

    Attributes:
        number: Counts the events of one monitor from 1.
        kind: See `KINDS`; only spike, divergence and nonfinite can page.
        onset: First step of the jump over all signals, a gradient precursor included.
        detected: The step at which this event first paged or was first recorded.
        end: First step back on the trend, None while it lasts.
        peak: Largest loss seen in the event (NaN if it was never finite).
        peak_step: Where that was.
        z: The largest deviation from the trend, in standard deviations of the run's noise.
        baseline: The loss that the trend before the event predicted.
        signals: The signals that moved, the loss first.
        page: Whether a person is called.
        count: How often it has happened: a loss that breaks again and again, or rises in a
            pattern, are one page whose count grows.
        moved: (signal, step) in the order in which they left their levels, the loss with its
            own onset; empty where nothing but the loss was known, and the first 64 of more.
        drift_since: First step of a slow climb that came before, which does not move the rewind.
        announced: Whether a change of context was announced, and not found in the log.
        note: One plain sentence for the reader.
    """

    number: int
    kind: Kind
    onset: int
    detected: int
    end: int | None = None
    peak: float
    peak_step: int
    z: float
    baseline: float
    signals: tuple[str, ...] = ("loss",)
    page: bool
    count: int = 1
    moved: tuple[tuple[str, int], ...] = ()
    drift_since: int | None = None
    announced: bool = False
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"event kind {self.kind!r} is unknown; use one of {', '.join(KINDS)}")
        if self.onset > self.detected:
            raise ValueError(
                f"event starts at step {self.onset}, after it was detected at step {self.detected}"
            )

    def changed(self, **fields: Any) -> Event:
        """Return a copy with `fields` replaced."""
        return replace(self, **fields)

    def to_state(self) -> dict[str, Any]:
        """Return every field, for `event_from_state`."""
        moved = [list(pair) for pair in self.moved]
        return asdict(self) | {"signals": list(self.signals), "moved": moved}

    def to_json(self) -> dict[str, Any]:
        """Return the event as `monitor check --json` prints it; numbers that are not finite
        become null."""
        return {
            "number": self.number,
            "kind": self.kind,
            "step": self.detected,
            "onset": self.onset,
            "drift_since": self.drift_since,
            "peak_step": self.peak_step,
            "peak": _finite(self.peak),
            "baseline": _finite(self.baseline),
            "recovered_step": self.end,
            "signals": list(self.signals),
            "moved": [list(pair) for pair in self.moved],
            "score": _finite(self.z),
            "page": self.page,
            "count": self.count,
            "note": self.note,
        }


def event_from_state(state: dict[str, Any]) -> Event:
    """Return the event that `Event.to_state` gave, also after a trip through JSON."""
    moved = tuple((str(name), int(step)) for name, step in state["moved"])
    return Event(**state | {"signals": tuple(state["signals"]), "moved": moved})


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None
