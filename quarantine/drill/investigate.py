"""Phases 4 and 5: do other signals agree, and what did the run eat?"""

from __future__ import annotations

from collections.abc import Sequence

from ...loader.errors import IncidentError
from ..diagnose.confirm import Checklist, confirm
from ..diagnose.events import Event
from ..ledger import Ledger
from ..respond import response
from ..respond.curves import curves_json, curves_png
from ..respond.incident import Incident, IncidentStore
from ..respond.window import Window, identify
from .session import ACTOR, Session, by_step, signals

BEFORE = 3
"""Steps before the onset that belong to the window."""
SHOWN = 12


def open_incident(session: Session, event: Event) -> Incident:
    """Open the incident of the monitor's page."""
    return IncidentStore(session.run.path).open(
        onset=event.onset,
        detected=event.detected,
        kind=event.kind,
        actor=ACTOR,
        event=event.to_json(),
        context={"seed": session.seed, "steps": session.steps},
    )


def confirm_event(session: Session, ledger: Ledger, incident: Incident, event: Event) -> Checklist:
    """Ask the other signals, freeze the panels, and record the verdict.

    Raises:
        IncidentError: the checklist does not confirm the event.
    """
    series = signals(ledger)
    checklist = confirm(event, series)
    session.narrator.table(
        f"do other signals agree? {checklist.verdict}",
        ("signal", "agrees", "in the event", "before", "note"),
        [
            (check.signal, _word(check.agrees), check.value, check.baseline, check.note)
            for check in checklist.items
        ],
    )
    panels = {name: by_step(each) for name, each in series.items()}
    picture = {
        "curves": curves_json({"run": {n: panels[n] for n in ("loss", "grad_norm")}}),
        "detection": {"onset": event.onset, "detected": event.detected},
    }
    response.confirm(
        incident,
        verdict=checklist.verdict,
        checklist=checklist.to_json(),
        actor=ACTOR,
        panels={name: sorted(values.items()) for name, values in panels.items()},
        pictures={"panels": curves_png(picture)},
    )
    if checklist.verdict != "confirmed":
        raise IncidentError(
            f"{incident.id} stays {checklist.verdict}: the loss moved at step {event.onset} and no "
            "other signal says so; look at the panels, then confirm or dismiss it by hand"
        )
    return checklist


def _word(agrees: bool | None) -> str:
    return {True: "yes", False: "no", None: "cannot say"}[agrees]


def identify_window(
    session: Session, ledger: Ledger, incident: Incident, event: Event, last: int
) -> Window:
    """Return and record what the steps around the onset were fed, from the ledger."""
    first = max(1, event.onset - BEFORE)
    window = identify(ledger, session.manifest, first=first, last=last)
    response.identify(incident, window, actor=ACTOR)
    rows = window.documents.to_pylist()
    session.narrator.table(
        f"steps {first} to {last}: {len(window.positions)} samples, "
        f"{window.segments.num_rows} segments, {len(rows)} documents, {len(window.shards)} shards",
        ("doc", "id", "shard", "row", "tokens", "steps"),
        [_row(row) for row in rows[:SHOWN]],
    )
    return window


def _row(row: dict[str, object]) -> Sequence[object]:
    steps = f"{row['first_step']}-{row['last_step']}"
    return row["doc"], row["id"], row["shard"], row["row"], row["tokens"], steps


def window_last(event: Event, last_step: int) -> int:
    """Return the last step of the event that was recorded."""
    return last_step if event.end is None else min(last_step, max(event.end - 1, event.detected))
