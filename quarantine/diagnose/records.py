"""The events of a run so far: numbered, each in its latest state."""

from __future__ import annotations

import math
from typing import Any

from .divergence import Climb
from .events import Event, Kind, event_from_state

LOSS = "loss"
MOST_RECORDS = 1000
PAGE = "page"
STEPS_BACK = "the log steps back"


class Records:
    """The last thousand events, of which pages stay longest, and how many went before them."""

    def __init__(self) -> None:
        self._events: dict[int, Event] = {}
        self._count = 0
        # How many were forgotten: pages, and by kind those that paged nobody.
        self.forgotten: dict[str, int] = {}

    @property
    def events(self) -> list[Event]:
        """The events in order of detection."""
        return list(self._events.values())

    @property
    def next_number(self) -> int:
        """The number of the next event."""
        return self._count + 1

    def get(self, number: int | None) -> Event | None:
        """Return an event, None where there is none of that number any more."""
        return None if number is None else self._events.get(number)

    def keep(self, event: Event) -> None:
        """Record `event`, which is new or the latest state of one that is known."""
        if event.number <= self._count and event.number not in self._events:
            return
        self._count = max(self._count, event.number)
        self._events[event.number] = event
        if len(self._events) > MOST_RECORDS:
            passing = (number for number, each in self._events.items() if not each.page)
            gone = self._events.pop(next(passing, min(self._events)))
            kind = PAGE if gone.page else gone.kind
            self.forgotten[kind] = self.forgotten.get(kind, 0) + 1

    def plain(
        self,
        kind: Kind,
        step: int,
        *,
        note: str,
        signals: tuple[str, ...] = (LOSS,),
        page: bool = False,
        peak: float = math.nan,
        baseline: float = math.nan,
        onset: int | None = None,
    ) -> Event:
        """Return a new event that no deviation from a trend describes."""
        return Event(
            number=self.next_number,
            kind=kind,
            onset=step if onset is None else onset,
            detected=step,
            peak=peak,
            peak_step=step,
            z=0.0,
            baseline=baseline,
            signals=signals,
            page=page,
            note=note,
        )

    def change(self, since: int, step: int, what: str) -> Event:
        """Return a change of context that began at `since` and is noticed at `step`."""
        signal = "step" if what.startswith(STEPS_BACK) else what.split(maxsplit=1)[0]
        event = self.plain("context_change", step, note=what, signals=(signal,), onset=since)
        return event.changed(peak_step=since)

    def climbed(self, step: int, loss: float, climb: Climb, reach: int) -> Event:
        """Return the slow divergence that `climb` is.

        `reach` steps is how far the smoothed loss lags behind. Where a spike that was told as
        recovered began the climb, it was not: the divergence is that spike.
        """
        spike = self._latest_spike()
        if spike is not None and climb.since - reach <= spike.onset <= climb.risen:
            note = "it dipped, but the smoothed loss has not come back since"
            return spike.changed(
                kind="divergence",
                end=None,
                drift_since=climb.since,
                note=f"{spike.note}; {note}",
            )
        return Event(
            number=self.next_number,
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

    def _latest_spike(self) -> Event | None:
        spikes = (each for each in reversed(self._events.values()) if each.kind == "spike")
        return next((each for each in spikes if each.page), None)

    def state_dict(self) -> dict[str, Any]:
        """Return the events as JSON, apart from the NaN and infinity that one may hold."""
        return {
            "count": self._count,
            "events": [event.to_state() for event in self.events],
            "forgotten": dict(self.forgotten),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take `state_dict` back."""
        events = [event_from_state(event) for event in state["events"]]
        self._count, self._events = state["count"], {event.number: event for event in events}
        self.forgotten = dict(state.get("forgotten", {}))
