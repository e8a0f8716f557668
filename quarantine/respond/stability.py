"""The stability log of a run: every spike, skip, rewind and outcome as one publishable table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .incident import Incident, IncidentStore
from .report import outcome
from .safe_text import markdown_text

COLUMNS = (
    "id", "kind", "onset", "detected", "rewound_to", "steps_lost", "revision", "documents",
    "skipped_ranges", "no_skip", "outcome", "rounds", "next_spike_after",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """One incident as a row; `next_spike_after` is the distance in steps to the next onset."""

    id: str
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
    """Return all incidents of a run by onset."""
    incidents = IncidentStore(run_path).all()
    onsets = sorted(i.opening().summary["onset"] for i in incidents)
    rows = [_row(incident, onsets) for incident in incidents]
    return sorted(rows, key=lambda row: (row.onset, row.id))


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


def _row(incident: Incident, onsets: Sequence[int]) -> Spike:
    events = incident.events()
    opened = incident.opening().summary
    last = {event.act: event.summary for event in events}
    later = [onset for onset in onsets if onset > opened["onset"]]
    rewound, skipped = last.get("rewind", {}), last.get("skip", {})
    return Spike(
        id=incident.id,
        kind=opened["kind"],
        onset=opened["onset"],
        detected=opened["detected"],
        rewound_to=rewound.get("step"),
        steps_lost=rewound.get("steps_lost"),
        revision=skipped.get("revision"),
        documents=skipped.get("documents"),
        skipped_ranges=skipped.get("skips"),
        no_skip=skipped.get("no_skip"),
        outcome=outcome(incident),
        rounds=events[-1].round,
        next_spike_after=later[0] - opened["onset"] if later else None,
    )


def _cell(value: object) -> str:
    return "" if value is None else markdown_text(value)


def _inert(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in "=+-@\t\r" else value
