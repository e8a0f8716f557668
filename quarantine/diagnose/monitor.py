"""The monitor: one page for each real event, and for nothing else.

Streaming, with constant memory, and a pure function of the values it is given: every rank that
feeds it the same reduced loss and gradient norm gets the same answer, with no communication.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol, SupportsFloat

from ...loader.errors import FormatError
from .classic import DualAverage
from .config import MonitorConfig
from .context import WATCHED, Context, Settling
from .divergence import Climb, ClimbRule
from .events import Event, Kind, event_from_state
from .extras import Extras
from .numerics import FiniteRule, ScaleRule, is_finite
from .repeats import Repeats
from .series import Series, rows_of
from .spikes import HISTORY, SpikeRule

LOSS = "loss"
STATE_VERSION = 2
STEPS_BACK = "the log steps back"
# A divergence has ended when this share of its height is left.
REMAINS = 0.1
MOVED_SD = 2.5
MOST_RECORDS = 1000
ROWS_AT_ONCE = 1 << 16


class Item(Protocol):
    """A scalar tensor or array, as far as the monitor cares."""

    def item(self) -> float:
        """Return the value."""


Value = float | SupportsFloat | Item


class Monitor:
    """Judges a run one step at a time.

    `update` returns what that step started, upgraded or ended; `events` holds every event in
    its latest state, in order of detection. An event that ends is returned as a notice of kind
    "recovered", while its record keeps its kind and gets an `end`.
    """

    def __init__(self, config: MonitorConfig | None = None) -> None:
        self.config = config or MonitorConfig()
        self._records: dict[int, Event] = {}
        self._count = 0
        self._rule = SpikeRule(self.config)
        self._climb = ClimbRule(self.config)
        self._finite = FiniteRule(self.config)
        self._scale = ScaleRule()
        self._context = Context()
        self._extras = Extras()
        self._repeats = Repeats()
        self._classic = DualAverage(warmup=self.config.warmup_steps)
        self._diverged: int | None = None
        self._last_step: int | None = None
        self._last_loss_step: int | None = None

    @property
    def events(self) -> list[Event]:
        """Every event, in order of detection; of blips and changes only the last thousand."""
        return list(self._records.values())

    @property
    def pages(self) -> list[Event]:
        """The events that call a person."""
        return [event for event in self.events if event.page]

    def announce(self, what: str) -> None:
        """Say that the next step begins a planned change, such as "mixture" or "lr".

        What follows is not paged for while it settles (unless the loss is not finite), and is
        judged from where it has settled.
        """
        self._context.announced = what

    def update(
        self,
        step: int,
        *,
        loss: Value | None = None,
        grad_norm: Value | None = None,
        **signals: Value | None,
    ) -> list[Event]:
        """Judge one step; a signal that was not logged is left out or None.

        A gradient norm that is not finite or not positive counts as not logged: overflowed
        updates are skipped by the trainer while it searches for a loss scale. A tensor is read
        with `.item()`, which waits for its device.
        """
        extras = {name: _number(value) for name, value in signals.items() if value is not None}
        noted = self._step(step, extras)
        self._extras.update(
            step, {name: value for name, value in extras.items() if name not in WATCHED}
        )
        if loss is not None and self._last_loss_step != step:
            self._last_loss_step = step
            gradient = None if grad_norm is None else _number(grad_norm)
            noted += self._loss(step, _number(loss), gradient if _usable(gradient) else None)
        return [self._notice(event) for event in noted]

    def _step(self, step: int, extras: Mapping[str, float]) -> list[Event]:
        """Notice what the step brings besides its loss."""
        jump = self._context.changed(step, extras)
        what, since = (str(jump), jump.step) if jump else ("", step)
        if step <= self.config.warmup_steps:
            what = ""
        if self._last_step is not None and step < self._last_step:
            what, since = f"{STEPS_BACK} from {self._last_step} to {step}", step
            self._rule.interrupt()
        announced, self._context.announced = self._context.announced, None
        self._last_step = step
        events = []
        if announced or what:
            planned = announced is not None
            self._context.settling = Settling(
                step=step, signal=announced or what, announced=planned
            )
            events.append(self._change(since, step, announced or what))
        scale = extras.get("loss_scale")
        if scale is not None and self._scale.update(scale):
            note = "the loss scale was reduced again and again, to the least there is"
            page = self._plain("nonfinite", step, note=note, signals=("loss_scale",), page=True)
            events.append(page)
        return [self._keep(event) for event in events]

    def _loss(self, step: int, loss: float, gradient: float | None) -> list[Event]:
        if self._finite.breaks(loss):
            page = self._plain("nonfinite", step, note="the loss is not a finite number", page=True)
            self._finite.number = page.number
            return [self._keep(page)]
        if not is_finite(loss):
            return []
        healed, number = self._finite.number, self._finite.heals(step)
        changed = []
        if number is not None and healed in self._records:
            changed.append(self._records[healed].changed(end=number))
        changed += self._finite_loss(step, loss, gradient)
        return [self._keep(event) for event in changed]

    def _finite_loss(self, step: int, loss: float, gradient: float | None) -> list[Event]:
        if self.config.rule == "classic":
            return self._classical(step, loss)
        if step <= self.config.warmup_steps or not self._rule.yardstick.ready:
            self._rule.yardstick.learn(step, loss, gradient)
            return self._recovered(step)
        settling = self._context.settling
        if settling is not None and settling.announced:
            return self._settle(settling, step, loss, gradient)
        changed = self._rule.judge(step, loss, gradient, self._count + 1)
        changed = [self._explained(event) for event in changed]
        if settling is not None:
            changed += self._settle(settling, step, loss, None)
        return changed + self._slow(step, loss) + self._unmuted(step) + self._recovered(step)

    def _settle(
        self, settling: Settling, step: int, loss: float, gradient: float | None
    ) -> list[Event]:
        """Follow a change of context; accept the level it leads to."""
        settling = settling.with_point(step, loss)
        self._context.settling = settling
        if len(settling.points) < self.config.settle_points:
            return []
        self._context.settling = None
        losses = sorted(value for _, value in settling.points)
        expected, deviation = self._rule.yardstick.loss.expect(step)
        if abs(losses[len(losses) // 2] - expected) <= MOVED_SD * deviation:
            if settling.announced:
                for past, value in settling.points:
                    self._rule.yardstick.learn(past, value, gradient)
            return []
        self._climb.restart()
        ended = self._rule.accept(list(settling.points))
        return [ended] if ended is not None else []

    def _slow(self, step: int, loss: float) -> list[Event]:
        climb = self._climb.update(step, loss)
        if climb is None or self._rule.recovery is not None or self._diverged is not None:
            return []
        return [self._repeats.judge(self._climbed(step, loss, climb), {})]

    def _unmuted(self, step: int) -> list[Event]:
        """Page for an event that was taken for a known pattern, and has left it."""
        self._repeats.follow(self._climb.level)
        event = self._records.get(self._repeats.muted or 0)
        if event is None or not self._repeats.broken(event, step, self._climb.level):
            return []
        note = "it began as the pattern before, and has gone beyond it"
        page = event.changed(page=True, detected=step, note=note)
        following = self._rule.recovery
        if following is not None and following.event.number == page.number:
            following.event = page
        return [page]

    def _recovered(self, step: int) -> list[Event]:
        """End the divergence that stands, once the smoothed loss is back."""
        level = self._climb.level
        if self._diverged is None or level is None:
            return []
        event = self._records.get(self._diverged)
        if event is None:
            self._diverged = None
            return []
        height = max(event.peak - event.baseline, self.config.divergence_rise * abs(event.baseline))
        if level > event.baseline + REMAINS * height:
            return []
        self._diverged = None
        return [event.changed(end=step)]

    def _classical(self, step: int, loss: float) -> list[Event]:
        if not self._classic.update(loss):
            return []
        note = "the fast average of the loss is three times the slow one"
        return [self._plain("spike", step, note=note, page=True, peak=loss)]

    def _explained(self, event: Event) -> Event:
        """Add to a page that has just begun what else moved, and since when something drifts."""
        following = self._rule.recovery
        if following is None or event is not following.event:
            return event
        moved = self._extras.moved(event.onset - HISTORY * self._rule.spacing())
        event = self._repeats.judge(event, moved)
        following.event = event.changed(
            onset=min([event.onset, *moved.values()]),
            signals=(*event.signals, *(name for name in moved if name not in event.signals)),
            moved=tuple(sorted([*moved.items(), (LOSS, event.onset)], key=lambda pair: pair[1])),
            drift_since=min(self._extras.drifting().values(), default=None),
            note=event.note + _moved_first(moved),
        )
        return following.event

    def _change(self, since: int, step: int, what: str) -> Event:
        signal = "step" if what.startswith(STEPS_BACK) else what.split(maxsplit=1)[0]
        event = self._plain("context_change", step, note=what, signals=(signal,))
        return event.changed(onset=since, peak_step=since)

    def _climbed(self, step: int, loss: float, climb: Climb) -> Event:
        return Event(
            number=self._count + 1,
            kind="divergence",
            onset=climb.since,
            detected=step,
            peak=loss,
            peak_step=step,
            z=(climb.level - climb.best) / max(climb.noise, 1e-12),
            baseline=climb.best,
            page=True,
            drift_since=climb.since,
            note="the smoothed loss has climbed away from its best",
        )

    def _plain(
        self,
        kind: Kind,
        step: int,
        *,
        note: str,
        signals: tuple[str, ...] = (LOSS,),
        page: bool = False,
        peak: float = math.nan,
    ) -> Event:
        ready = self._rule.yardstick.ready
        return Event(
            number=self._count + 1,
            kind=kind,
            onset=step,
            detected=step,
            peak=peak,
            peak_step=step,
            z=0.0,
            baseline=self._rule.yardstick.loss.expect(step)[0] if ready else math.nan,
            signals=signals,
            page=page,
            note=note,
        )

    def _keep(self, event: Event) -> Event:
        """Record `event`, which is new or the latest state of one that is known."""
        self._count = max(self._count, event.number)
        self._records[event.number] = event
        if len(self._records) > MOST_RECORDS:
            passing = (number for number, each in self._records.items() if not each.page)
            del self._records[next(passing, min(self._records))]
        if event.kind == "divergence" and event.end is None:
            self._diverged = event.number
            self._climb.restart()
        return event

    def _notice(self, event: Event) -> Event:
        return event if event.end is None else event.changed(kind="recovered", page=False)

    def state_dict(self) -> dict[str, Any]:
        """Return the monitor's state, to be saved with a checkpoint.

        It is JSON, apart from the NaN and infinity that an event may hold.
        """
        return {
            "version": STATE_VERSION,
            "rule": self._rule.state_dict(),
            "climb": self._climb.state_dict(),
            "finite": self._finite.state_dict(),
            "scale": self._scale.state_dict(),
            "context": self._context.state_dict(),
            "extras": self._extras.state_dict(),
            "repeats": self._repeats.state_dict(),
            "classic": self._classic.state_dict(),
            "count": self._count,
            "events": [event.to_state() for event in self.events],
            "diverged": self._diverged,
            "last_step": self._last_step,
            "last_loss_step": self._last_loss_step,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict` of a monitor with the same configuration.

        Raises:
            FormatError: the state is of another version.
        """
        if state.get("version") != STATE_VERSION:
            raise FormatError(
                f"monitor state is version {state.get('version')!r}, this release reads version "
                f"{STATE_VERSION}; start the monitor anew, it needs one window to warm up"
            )
        self._rule.load_state_dict(state["rule"])
        self._climb.load_state_dict(state["climb"])
        self._finite.load_state_dict(state["finite"])
        self._scale.load_state_dict(state["scale"])
        self._context.load_state_dict(state["context"])
        self._extras.load_state_dict(state["extras"])
        self._repeats.load_state_dict(state["repeats"])
        self._classic.load_state_dict(state["classic"])
        events = [event_from_state(event) for event in state["events"]]
        self._count, self._records = state["count"], {event.number: event for event in events}
        self._diverged = state["diverged"]
        self._last_step, self._last_loss_step = state["last_step"], state["last_loss_step"]


def detect(
    series: Mapping[str, Series],
    config: MonitorConfig | None = None,
    *,
    advance: Callable[[int], None] | None = None,
) -> list[Event]:
    """Return the events of a finished log, as a monitor that watched it would have them.

    Steps are judged in the order of logging; other signals count at the step they were logged.
    `advance` is told now and then how many more rows are done.

    Raises:
        ValueError: there is no series named "loss".
    """
    if LOSS not in series:
        known = ", ".join(sorted(series)) or "nothing"
        raise ValueError(f"no series named 'loss' among {known}; name the loss column")
    monitor = Monitor(config)
    loss = series[LOSS]
    for first in range(0, len(loss), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        for step, values in rows_of(series, loss.steps[rows], rows):
            monitor.update(step, **values)
        if advance is not None:
            advance(min(ROWS_AT_ONCE, len(loss) - first))
    return monitor.events


def _moved_first(moved: Mapping[str, int]) -> str:
    """Say which other signal moved first; `moved` is in that order."""
    first = next(iter(moved.items()), None)
    return "" if first is None else f"; {first[0]} moved first, at step {first[1]}"


def _number(value: Value) -> float:
    if isinstance(value, float):
        return value
    return float(value) if isinstance(value, SupportsFloat) else float(value.item())


def _usable(value: float | None) -> bool:
    return value is not None and math.isfinite(value) and value > 0
