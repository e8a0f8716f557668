"""The stability log of a run: every spike, skip, rewind and outcome as one publishable table."""

from __future__ import annotations

import csv
import io
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .incident import Event, Incident, IncidentStore
from .machine import EXITS
from .report import outcome
from .safe_text import markdown_text

COLUMNS = (
    "id", "round", "kind", "onset", "detected", "rewound_to", "steps_lost", "revision", "documents",
    "skipped_ranges", "no_skip", "outcome", "rounds", "next_spike_after",
)  # fmt: skip
SHORT = ("id", "round", "kind", "onset", "rewound_to", "steps_lost", "outcome")
"""The columns of the table for a terminal; the other forms have all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """One round of an incident; `next_spike_after` is the distance in steps to the next onset.

    `rounds` is how many the incident had; the outcome of all but the last is "reopened" unless the
    round ended otherwise.
    """

    id: str
    round: int
    kind: str
    onset: int
    detected: int
    rewound_to: int | None
    steps_lost: int | None
    revision: int | None
    documents: int | None
    skipped_ranges: int | None
    no_skip: str | None
    outcome: str
    rounds: int
    next_spike_after: int | None


def stability_log(run_path: Path) -> list[Spike]:
    """Return every round of all incidents of a run, by onset."""
    rows = [row for incident in IncidentStore(run_path).all() for row in _rounds(incident)]
    rows.sort(key=lambda row: (row.onset, row.id, row.round))
    onsets = sorted({row.onset for row in rows})
    return [replace(row, next_spike_after=_next(row.onset, onsets)) for row in rows]


def as_markdown(spikes: Sequence[Spike]) -> str:
    """Return the table in Markdown."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += [
        "| " + " | ".join(_cell(getattr(spike, name)) for name in COLUMNS) + " |"
        for spike in spikes
    ]
    return "\n".join(lines) + "\n"


def as_csv(spikes: Sequence[Spike]) -> str:
    """Return the table as CSV; a cell that a spreadsheet would run is quoted away."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for spike in spikes:
        writer.writerow([_inert(getattr(spike, name)) for name in COLUMNS])
    return out.getvalue()


def as_json(spikes: Sequence[Spike]) -> list[dict[str, Any]]:
    """Return the rows as JSON objects."""
    return [asdict(spike) for spike in spikes]


def _rounds(incident: Incident) -> Iterator[Spike]:
    events = incident.events()
    opened: Mapping[str, Any] = {}
    for number in range(1, events[-1].round + 1):
        mine = [event for event in events if event.round == number]
        # A reopened round is about the same spike unless it names another.
        opened = next((e.summary for e in mine if "onset" in e.summary), opened)
        last = {event.act: event.summary for event in mine}
        rewound, skipped = last.get("rewind", {}), last.get("skip", {})
        yield Spike(
            id=incident.id,
            round=number,
            kind=opened["kind"],
            onset=opened["onset"],
            detected=opened["detected"],
            rewound_to=rewound.get("step"),
            steps_lost=rewound.get("steps_lost"),
            revision=skipped.get("revision"),
            documents=skipped.get("documents"),
            skipped_ranges=skipped.get("skips"),
            no_skip=skipped.get("no_skip"),
            outcome=_outcome(incident, mine, ended=number < events[-1].round),
            rounds=events[-1].round,
            next_spike_after=None,
        )


def _outcome(incident: Incident, events: Sequence[Event], *, ended: bool) -> str:
    if not ended:
        return outcome(incident)
    for event in reversed(events):
        if event.act in EXITS:
            return EXITS[event.act]
        if event.act == "watch":
            return "resolved" if event.summary["verdict"] == "clear" else "recurrence"
    return "reopened"


def _next(onset: int, onsets: Sequence[int]) -> int | None:
    later = bisect_right(onsets, onset)
    return onsets[later] - onset if later < len(onsets) else None


def _cell(value: object) -> str:
    return "" if value is None else markdown_text(value)


def _inert(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" else value
