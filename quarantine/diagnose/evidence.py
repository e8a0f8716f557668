"""What is known about an event when its cause is asked for; everything but the event may lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from .events import Event
from .series import Series

ChangeKind = Literal[
    "resume", "learning_rate", "batch_size", "mixture", "seq_len", "logging", "evaluation"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something about the run that changed at `step`, planned or found in the log."""

    step: int
    kind: ChangeKind
    announced: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The documents of the event's steps against those of control windows before it.

    Attributes:
        flagged_share: Share of the window's tokens in documents that detectors condemn.
        control_share: The same share over the control windows.
        controls: How many control windows there were.
        loss_share: Share of the window's excess loss in the flagged documents, where
            per-sample losses were recorded.
        defects: Format defects found in the window, such as a batch whose labels are all
            masked, with the documents named.
    """

    flagged_share: float
    control_share: float
    controls: int
    loss_share: float | None = None
    defects: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("flagged_share", "control_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is {getattr(self, name)}; a share is from 0 to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One experiment: the run was tried again, and the event came back or did not.

    `kind` says what was tried: "replay" (the same batches from the same checkpoint), "skip"
    (the suspects left out), "other_state" (the same batches from another checkpoint) or
    "other_data" (other batches from the same checkpoint). `bitwise` is whether a replay gave
    the same numbers, None when that was not compared.
    """

    kind: Literal["replay", "skip", "other_state", "other_data"]
    recurred: bool
    bitwise: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Another run: whether it saw the same data, and whether it spiked at the same steps."""

    same_data: bool
    coincides: bool
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardwareSign:
    """A fault that the machines reported: an XID, ECC or link counter, a checksum that differs."""

    step: int | None
    what: str
    severe: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """The layer whose signal moved first, and how many steps before the loss."""

    layer: str
    signal: str
    steps_ahead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All there is to weigh for one event.

    Attributes:
        event: The event to explain.
        series: Telemetry by name; see `confirm` and docs/monitor.md for the names.
        schedule: The planned learning rate, to be compared with the logged "lr".
        changes: Context changes, of the log and announced.
        window: The documents, when the ledger could name them.
        trials: Experiments made since.
        twins: Runs on the same or other data.
        hardware: Signs of faulty machines.
        lead: The layer that moved before the loss, when probes were on; read from the event
            where it is not given.
        earlier: Events of this run before this one.
    """

    event: Event
    series: Mapping[str, Series] = field(default_factory=dict)
    schedule: Series | None = None
    changes: tuple[Change, ...] = ()
    window: Window | None = None
    trials: tuple[Trial, ...] = ()
    twins: tuple[Twin, ...] = ()
    hardware: tuple[HardwareSign, ...] = ()
    lead: Lead | None = None
    earlier: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        if self.lead is None:
            object.__setattr__(self, "lead", lead_of(self.event))


# Signals of a layer, "signal/LAYER"; shares and losses of a source look alike and are none.
LAYERED = ("grad_norm", "update_ratio", "attention_logit", "activation", "residual")


def lead_of(event: Event) -> Lead | None:
    """Return the layer that left its level before the loss did, as the monitor saw it."""
    loss = dict(event.moved).get("loss", event.onset)
    for name, step in event.moved:
        signal, _, layer = name.partition("/")
        if signal in LAYERED and layer and step < loss:
            return Lead(layer=layer, signal=signal, steps_ahead=loss - step)
    return None


# By the first word of what was announced, or the signal that jumped.
_CHANGES: Mapping[str, ChangeKind] = {
    "step": "resume",
    "resume": "resume",
    "restart": "resume",
    "lr": "learning_rate",
    "learning_rate": "learning_rate",
    "learning": "learning_rate",
    "rate": "learning_rate",
    "batch": "batch_size",
    "batch_size": "batch_size",
    "accumulation": "batch_size",
    "seq_len": "seq_len",
    "sequence": "seq_len",
    "mixture": "mixture",
    "mix": "mixture",
    "logging": "logging",
    "evaluation": "evaluation",
    "eval": "evaluation",
}


def changes_from(events: Iterable[Event]) -> tuple[Change, ...]:
    """Return the context changes among a monitor's events, as evidence.

    One that was announced in words that say nothing about its kind is none.
    """
    found = ((event, _kind(event)) for event in events if event.kind == "context_change")
    return tuple(
        Change(step=event.onset, kind=kind, announced=event.announced, note=event.note)
        for event, kind in found
        if kind is not None
    )


def _kind(event: Event) -> ChangeKind | None:
    return _CHANGES.get(event.signals[0].strip(".,:;=").lower())
