"""The monitor: one page for each real event, and for nothing else.

Streaming, with constant memory, and a pure function of the values it is given: every rank that
feeds it the same reduced loss and gradient norm gets the same answer, with no communication.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from typing import Any

from ...loader.errors import FormatError
from .classic import DualAverage
from .config import MonitorConfig
from .context import WATCHED, Context, Settling
from .divergence import LAG, ClimbRule
from .events import Event
from .extras import Extras
from .numerics import is_finite
from .records import LOSS, STEPS_BACK, Records
from .repeats import Repeats
from .spikes import HISTORY, SpikeRule
from .trouble import Trouble
from .values import Inbox, Observation, Value

STATE_VERSION = 4
# A divergence has ended when this share of its height is left.
REMAINS = 0.1
MOVED_SD = 2.5
# Signals that a page says have moved, the earliest of them.
MOST_MOVED = 64


class Monitor:
    """Judges a run one step at a time.

    `update` returns what that step started, upgraded or ended; `events` holds every event in
    its latest state, in order of detection. An event that ends is returned as a notice of kind
    "recovered", while its record keeps its kind and gets an `end`.
    """

    def __init__(self, config: MonitorConfig | None = None) -> None:
        self.config = config or MonitorConfig()
        self._records = Records()
        self._inbox = Inbox()
        self._early: list[Event] = []
        self._rule = SpikeRule(self.config)
        self._climb = ClimbRule(self.config)
        self._trouble = Trouble(self.config, self._records, self._rule)
        self._context = Context()
        self._extras = Extras()
        self._repeats = Repeats()
        self._classic = DualAverage(warmup=self.config.warmup_steps)
        self._diverged: int | None = None
        self._last_step: int | None = None
        self._last_loss_step: int | None = None

    @property
    def events(self) -> list[Event]:
        """The last thousand events, in order of detection; blips and changes go first."""
        return self._records.events

    @property
    def forgotten(self) -> dict[str, int]:
        """How many older events are only counted: "page", and by kind those that did not page."""
        return dict(self._records.forgotten)

    @property
    def unwatched(self) -> tuple[str, ...]:
        """The first eight signals that are not watched, being beyond the 4,096 others that are."""
        return self._extras.left_out

    @property
    def pages(self) -> list[Event]:
        """The events that call a person."""
        return [event for event in self.events if event.page]

    def announce(self, what: str) -> None:
        """Say that the next step begins a planned change, such as "mixture" or "lr".

        What follows is not paged for while it settles (unless the loss is not finite), and is
        judged from where it has settled.
        """
        self._context.announced = what.strip() or "a change"

    def update(
        self,
        /,
        step: int,
        *,
        loss: Value | None = None,
        grad_norm: Value | None = None,
        **signals: Value | None,
    ) -> list[Event]:
        """Judge one step; a signal that was not logged is left out or None.

        A gradient norm that is not finite or not positive is no measurement: overflowed updates
        are skipped by the trainer while it searches for a loss scale. Only where that goes on and
        on it is an event. Scalars on a device are not waited for: their step is judged at the
        next call, or by `flush`.
        """
        given = {LOSS: loss, "grad_norm": grad_norm, **signals}
        values = {name: value for name, value in given.items() if value is not None}
        announced, self._context.announced = self._context.announced, None
        noted, self._early = self._early, []
        for observation in self._inbox.take(int(step), values, announced):
            noted += self._observe(observation)
        return noted

    def flush(self) -> list[Event]:
        """Judge the step whose values were still on their way from a device, at a run's end."""
        noted, self._early = self._early, []
        for observation in self._inbox.flush():
            noted += self._observe(observation)
        return noted

    def _observe(self, observation: Observation) -> list[Event]:
        step, values = observation.step, observation.values
        loss, gradient = values.pop(LOSS, None), values.pop("grad_norm", None)
        noted = self._step(step, values, observation.announced)
        if values:
            others = {name: value for name, value in values.items() if name not in WATCHED}
            self._extras.update(step, others)
        if gradient is not None:
            noted += self._kept(self._trouble.norm(step, gradient))
        if loss is not None and self._last_loss_step != step:
            self._last_loss_step = step
            usable = gradient is not None and math.isfinite(gradient) and gradient > 0
            noted += self._loss(step, loss, gradient if usable else None)
        return noted

    def _step(self, step: int, extras: Mapping[str, float], announced: str | None) -> list[Event]:
        """Notice what the step brings besides its loss."""
        jump = self._context.changed(step, extras) if extras else None
        # The log may have stepped back since the jump was first seen.
        what, since = (str(jump), min(jump.step, step)) if jump else ("", step)
        if step <= self.config.warmup_steps:
            what = ""
        events: list[Event] = []
        if self._last_step is not None and step < self._last_step:
            what, since = f"{STEPS_BACK} from {self._last_step} to {step}", step
            events += self._kept(self._left_behind(self._last_step, step))
        self._last_step = step
        if announced or what:
            level = self._climb.level
            self._context.begins(step, announced or what, level, announced=announced is not None)
            change = self._records.change(since, step, announced or what)
            events += self._kept([change.changed(announced=announced is not None)])
        if extras:
            events += self._kept(self._trouble.scale(step, extras))
        return events

    def _left_behind(self, last: int, step: int) -> list[Event]:
        """End what is open, since the run was rewound from step `last` to `step`."""
        following = self._rule.recovery
        spiking = None if following is None else following.event.number
        numbers = {spiking, self._diverged, *self._trouble.open_numbers()}
        self._rule.rewound(step)
        self._trouble.interrupt()
        self._climb.restart()
        self._repeats.rewound(step)
        self._extras.rewound(step)
        self._diverged = None
        known = [self._records.get(number) for number in sorted(filter(None, numbers))]
        note = f"the log stepped back to {step} and left it behind"
        return [
            event.changed(end=last, note=f"{event.note}; {note}")
            for event in known
            if event is not None and event.end is None
        ]

    def _loss(self, step: int, loss: float, gradient: float | None) -> list[Event]:
        if not is_finite(loss):
            return self._kept(self._trouble.broken(step))
        healed = self._trouble.finite(step)
        if not healed:
            return self._finite_loss(step, loss, gradient)
        return self._kept(healed) + self._finite_loss(step, loss, gradient)

    def _finite_loss(self, step: int, loss: float, gradient: float | None) -> list[Event]:
        if self.config.rule == "classic":
            return self._kept(self._classical(step, loss))
        if step <= self.config.warmup_steps or not self._rule.yardstick.ready:
            self._rule.yardstick.learn(step, loss, gradient)
            self._trouble.unjudged(step, loss, gradient)
            return self._kept(self._recovered(step))
        settling = self._context.settling
        if settling is not None and settling.announced:
            return self._kept(self._settle(settling, step, loss, gradient))
        collapsed = self._trouble.collapsed(step, loss, gradient)
        if collapsed is not None:
            self._climb.restart()
            return self._kept(collapsed)
        changed = self._rule.judge(step, loss, gradient, self._records.next_number)
        if changed:
            changed = self._kept([each for event in changed for each in self._explained(event)])
        if settling is not None:
            changed += self._kept(self._settle(settling, step, loss, None))
        changed += self._kept(self._slow(step, loss))
        changed += self._kept(self._unmuted(step))
        if self._diverged is not None:
            changed += self._kept(self._recovered(step))
        return changed

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
        level = losses[len(losses) // 2]
        if abs(level - expected) <= MOVED_SD * deviation:
            if settling.level is not None:
                height = level - settling.level
                self._climb.lifted(height, (value for _, value in settling.points))
            if settling.announced:
                for past, value in settling.points:
                    self._rule.yardstick.learn(past, value, gradient)
            return []
        self._climb.restart()
        ended = self._rule.accept(list(settling.points))
        return [ended] if ended is not None else []

    def _slow(self, step: int, loss: float) -> list[Event]:
        climb = self._climb.update(step, loss, self._rule.yardstick.memory.correlation)
        if self._rule.recovery is not None:
            self._climb.followed()
            return []
        if climb is None or self._diverged is not None:
            return []
        reach = LAG * self._rule.spacing()
        climbed = self._records.climbed(step, loss, climb, reach)
        if climbed.number != self._records.next_number:
            return [climbed]
        event = self._repeats.judge(climbed, {}, height=climb.level - climb.best)
        return [event, *self._regrouped()]

    def _regrouped(self) -> list[Event]:
        """Return the earlier rises that a rise has just been counted with, in their new states."""
        known = [(self._records.get(number), more) for number, more in self._repeats.regrouped()]
        return [event.changed(**more(event)) for event, more in known if event is not None]

    def _unmuted(self, step: int) -> list[Event]:
        """Page for an event that was taken for a known pattern, and has left it."""
        self._repeats.follow(step, self._climb.level)
        if self._repeats.muted is None:
            return []
        event = self._records.get(self._repeats.muted)
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
        return [self._records.plain("spike", step, note=note, page=True, peak=loss)]

    def _explained(self, event: Event) -> list[Event]:
        """Add to a page that has just begun what else moved, and since when something drifts."""
        following = self._rule.recovery
        if following is None or event is not following.event:
            return [event]
        moved = self._extras.moved(event.onset - HISTORY * self._rule.spacing())
        event = self._repeats.judge(event, moved)
        moved = dict(islice(moved.items(), MOST_MOVED))
        following.event = event.changed(
            onset=min([event.onset, *moved.values()]),
            signals=(*event.signals, *(name for name in moved if name not in event.signals)),
            moved=tuple(sorted([*moved.items(), (LOSS, event.onset)], key=lambda pair: pair[1])),
            drift_since=min(self._extras.drifting().values(), default=None),
            note=event.note + _moved_first(moved),
        )
        return [following.event, *self._regrouped()]

    def _kept(self, events: list[Event]) -> list[Event]:
        """Record `events`, new ones or the latest states of known ones; return what to tell.

        It is done at once, since the number of the next event follows from those recorded.
        """
        if not events:
            return events
        told = []
        for event in events:
            before = self._records.get(event.number)
            self._records.keep(event)
            stays = event.kind == "divergence" and event.end is None
            is_new = before is None or before.kind != "divergence"
            if stays and is_new and not self._trouble.is_collapse(event):
                self._diverged = event.number
                self._climb.restart()
            ends = event.end is not None and (before is None or before.end is None)
            told.append(event.changed(kind="recovered", page=False) if ends else event)
        return told

    def state_dict(self) -> dict[str, Any]:
        """Return the monitor's state, to be saved with a checkpoint.

        It is JSON, apart from the NaN and infinity that an event may hold. A step whose values
        were still on their way from a device is judged first; the next `update` returns what it
        gave.
        """
        self._early = self.flush()
        return {
            "version": STATE_VERSION,
            "rule": self._rule.state_dict(),
            "climb": self._climb.state_dict(),
            "trouble": self._trouble.state_dict(),
            "context": self._context.state_dict(),
            "extras": self._extras.state_dict(),
            "unwatched": list(self._extras.left_out),
            "repeats": self._repeats.state_dict(),
            "classic": self._classic.state_dict(),
            "records": self._records.state_dict(),
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
        self._trouble.load_state_dict(state["trouble"])
        self._context.load_state_dict(state["context"])
        self._extras.load_state_dict(state["extras"])
        self._extras.left_out = tuple(state.get("unwatched", ()))
        self._repeats.load_state_dict(state["repeats"])
        self._classic.load_state_dict(state["classic"])
        self._records.load_state_dict(state["records"])
        self._diverged = state["diverged"]
        self._last_step, self._last_loss_step = state["last_step"], state["last_loss_step"]


def _moved_first(moved: Mapping[str, int]) -> str:
    """Say which other signal moved first; `moved` is in that order."""
    first = next(iter(moved.items()), None)
    return "" if first is None else f"; {first[0]} moved first, at step {first[1]}"
