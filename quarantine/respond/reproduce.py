"""The commands that give the numbers of a postmortem again, each as a person would type it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from .operations import branch_before, branch_of_spike
from .telemetry import event_of

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Incident

AROUND = 64
"""Steps before the onset whose signals the detection is compared with."""


def commands(incident: Incident, run: Run) -> list[str]:
    """Return the commands for what the incident has come to, in the order of the report."""
    lines = [
        f"incident show {incident.id}",
        *_detection(incident, run),
        *_window(incident, run),
        *_rewind(incident, run),
        *_after(incident, run),
        "incident stability-log",
    ]
    where = shlex.quote(str(run.path))
    return [f"shardward {line} --run {where}" for line in lines]


def _detection(incident: Incident, run: Run) -> list[str]:
    event, piece = event_of(incident), branch_of_spike(incident, run)
    if piece is None:
        return []
    first, last = max(event.onset - AROUND, 1), event.detected + 1
    return [_signals(p, a, b) for p, a, b in _spans(run, piece, first, last)]


def _window(incident: Incident, run: Run) -> list[str]:
    found, piece = incident.last("identify"), branch_of_spike(incident, run)
    if found is None or piece is None:
        return []
    first, last = found.summary["first"], found.summary["last"]
    return [
        f"ledger steps {first}..{last} --documents --branch {piece}",
        f"ledger step {first} --branch {piece}",
        f"scan --incident {incident.id}",
        f"incident causes {incident.id}",
    ]


def _rewind(incident: Incident, run: Run) -> list[str]:
    rewound = incident.last("rewind")
    if rewound is None:
        return []
    piece = branch_before(incident, run)
    first, last = (
        rewound.summary["step"] + 1,
        rewound.summary["step"] + rewound.summary["steps_lost"],
    )
    lost = [f"ledger steps {first}..{last} --branch {piece}"] if first <= last else []
    return [*lost, "ledger timeline"]


def _after(incident: Incident, run: Run) -> list[str]:
    lines = ["quarantine log --verify"]
    rewound, skipped, watched = (incident.last(act) for act in ("rewind", "skip", "watch"))
    if rewound is not None and skipped is not None and not skipped.summary["no_skip"]:
        before, after = rewound.summary["revision"], skipped.summary["revision"]
        lines += [f"quarantine diff {before} {after}", f"quarantine show {after}"]
    head = run.head()
    if head is None or rewound is None or watched is None or head.piece == rewound.summary["piece"]:
        return lines
    first, last = rewound.summary["step"] + 1, watched.summary["seen_to"]
    if first <= last:
        lines += [_signals(p, a, b) for p, a, b in _spans(run, head.piece, first, last)]
        lines.append(f"ledger verify --steps {first}..{last} --branch {head.piece}")
    return lines


def _spans(run: Run, piece: int, first: int, last: int) -> list[tuple[int, int, int]]:
    """Return (piece, first, last) of the pieces that own steps `first`..`last` of a branch."""
    owned = [
        (span.piece, max(first, span.first), last if span.last is None else min(last, span.last))
        for span in run.lineage(piece)
    ]
    return [(number, low, high) for number, low, high in owned if low <= high]


def _signals(piece: int, first: int, last: int) -> str:
    query = (
        f"SELECT step, name, value FROM signals WHERE piece = {piece} "  # noqa: S608 (numbers)
        f"AND step BETWEEN {first} AND {last} ORDER BY step, name"
    )
    return f'ledger sql "{query}"'
