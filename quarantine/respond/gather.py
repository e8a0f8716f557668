"""What a postmortem needs beside the steps, worked out from ledger, corpus and decisions."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...loader.errors import IntegrityError, UsageError
from ...loader.order import Layout
from ...loader.revision_store import load_revision
from ..diagnose.attribution import attribute
from ..diagnose.compare import compare
from ..diagnose.config import MonitorConfig
from ..diagnose.evidence import Change, Evidence, Trial, Twin
from ..diagnose.evidence import Window as Shares
from ..diagnose.history import history_of
from ..diagnose.replay import detect
from ..diagnose.signals import read_log
from ..search.triage import triage
from .curves import curves_json
from .operations import HISTORY_STEPS, branch_before, branch_of_spike
from .proof import prove
from .proof_source import corpus_tokens, ledger_steps
from .suspects import judged
from .telemetry import by_step, event_of, ledger_series
from .testimony import Told, told

if TYPE_CHECKING:
    from pathlib import Path

    from ...loader.manifest import Manifest
    from ...loader.run import Run
    from ..ledger.ledger import Ledger
    from .incident import Incident

CURVES = ("loss", "grad_norm")
PROVED_PAST_THE_WINDOW = 16
FLOPS = 6
"""Floating-point operations for each parameter and token of a training step, forward and back."""


def attach_findings(
    incident: Incident, run: Run, manifest: Manifest, ledger: Ledger, *, actor: str
) -> None:
    """Store curves, causes, impact and, once the run was resumed, the proof.

    Raises:
        IntegrityError: the proof fails; it is stored all the same.
    """
    incident.attach("curves", _curves(incident, run, ledger), actor=actor)
    incident.attach("causes", rank_causes(incident, run, ledger, manifest), actor=actor)
    if incident.last("rewind") is None:
        return
    incident.attach("impact", _impact(incident, run, ledger), actor=actor)
    proof = _proof(incident, run, manifest, ledger)
    if proof is None:
        return
    incident.attach("proof", proof, actor=actor)
    if not proof["holds"]:
        broken = next(check for check in proof["checks"] if not check["holds"])
        raise IntegrityError(
            f"the resumed run fails its proof: {broken['name']}: {broken['note']}; stop the "
            "trainer and find out what it was fed"
        )


def _curves(incident: Incident, run: Run, ledger: Ledger) -> dict[str, Any]:
    onset = event_of(incident).onset
    branches = {}
    for name, piece, first in _branches(incident, run):
        series = by_step(ledger_series(ledger, piece))
        low = max(first, onset - HISTORY_STEPS)
        branches[name] = {
            signal: {s: v for s, v in series[signal].items() if s >= low}
            for signal in CURVES
            if signal in series
        }
    return curves_json(branches)


def _branches(incident: Incident, run: Run) -> list[tuple[str, int, int]]:
    """Return (name, piece, first step to show) of the branch before and the one after."""
    head = run.head()
    if head is None:
        return []
    rewound = incident.last("rewind")
    if rewound is None:
        return [("run", branch_of_spike(incident, run) or head.piece, 1)]
    branches = [("before", branch_before(incident, run), 1)]
    first, target = rewound.summary["step"] + 1, rewound.summary["piece"]
    replays = [p.piece for p in run.pieces() if (p.reason, p.parent) == ("trial", target)]
    if replays and incident.attached("trials"):
        branches.append(("replay", replays[-1], first))
    if head.piece != rewound.summary["piece"]:
        branches.append(("after", head.piece, first))
    return branches


def rank_causes(incident: Incident, run: Run, ledger: Ledger, manifest: Manifest) -> dict[str, Any]:
    """Return the causes, the likeliest first, from all that the incident has gathered so far."""
    evidence = gathered(incident, run, ledger, manifest)
    return {"causes": [cause.to_json() for cause in attribute(evidence)]}


def gathered(incident: Incident, run: Run, ledger: Ledger, manifest: Manifest) -> Evidence:
    """Return all that the incident has gathered so far about its cause."""
    known = (incident.attached("trials") or {}).get("trials", [])
    trials = tuple(
        Trial(
            kind="replay" if trial["kind"] == "replay" else "skip",
            recurred=trial["recurred"],
            bitwise=trial.get("bitwise"),
        )
        for trial in known
    )
    watched = _watched_trial(incident)
    piece = _branches(incident, run)[0][1] if run.head() is not None else None
    event, series = event_of(incident), ledger_series(ledger, piece)
    changes, earlier = history_of(series, event, ledger.announced(piece))
    known_of_run = Evidence(
        event=event,
        changes=changes if piece is None else (*_restarts(run, piece), *changes),
        series=series,
        window=_shares(incident, manifest),
        trials=trials if watched is None else (*trials, watched),
        earlier=earlier,
    )
    return with_testimony(known_of_run, told(incident))


def with_testimony(evidence: Evidence, testimony: Told) -> Evidence:
    """Return `evidence` with what the incident was told in the place of what it had been told."""
    return replace(
        evidence,
        hardware=testimony.hardware,
        schedule=testimony.schedule,
        twins=tuple(testimony.twins.values()),
    )


def twin_in(log: Path, evidence: Evidence, *, short_run: bool = False) -> Twin:
    """Return what the log of another run says about the event of `evidence`.

    Raises:
        UsageError: it cannot say: too few steps in common, or too few points at the event.
    """
    other = read_log(log).series
    points = len(other["loss"])
    config = MonitorConfig.for_short_run(points) if short_run else MonitorConfig()
    found = compare(
        evidence.series,
        other,
        [evidence.event],
        detect(other, config),
        least_before=config.least_points,
        warmup=config.warmup_steps,
    )
    twin = found.twin(evidence.event.onset)
    if twin is None:
        raise UsageError(
            f"{log} cannot say whether the event of step {evidence.event.onset} is in it too: it "
            f"has {found.common_points} steps in common with the run, rank correlation "
            f"{found.correlation}, and may have too few points at the event or before it, or be "
            f"in its warm-up there (up to step {config.warmup_steps}; see --short-run)"
        )
    return twin


def _restarts(run: Run, piece: int) -> tuple[Change, ...]:
    """Return where the trainer was started again from a checkpoint, on the way to `piece`.

    A rewind is left out: it answers a spike, whose return after it is the same spike.
    """
    reasons = {each.piece: each.reason for each in run.pieces()}
    return tuple(
        Change(step=span.first, kind="resume")
        for span in run.lineage(piece)
        if reasons[span.piece] == "restart"
    )


def _watched_trial(incident: Incident) -> Trial | None:
    """Return the watch as the trial of a skip, if it tells the skip from everything else.

    A clear watch under another learning rate or clip threshold says nothing about the documents:
    the change may be what helped. A recurrence in spite of such a change still does.
    """
    watched, skipped = incident.last("watch"), incident.last("skip")
    resumed = incident.last("resume")
    if watched is None or skipped is None or resumed is None or skipped.summary["no_skip"]:
        return None
    recurred = watched.summary["verdict"] == "recurrence"
    orders = incident.evidence(resumed, "orders")
    factors = (orders["learning_rate_factor"], orders["clip_factor"])
    if not recurred and factors != (1.0, 1.0):
        return None
    return Trial(kind="skip", recurred=recurred)


def _shares(incident: Incident, manifest: Manifest) -> Shares | None:
    """Return how much of the window and of its controls detectors condemn; None without text.

    What a person left out is no evidence: it would confirm any decision by itself.
    """
    identified = incident.last("identify")
    if identified is None or not manifest.has_text:
        return None
    window = incident.evidence(identified, "window")
    documents, controls = window["documents"], window["control_documents"]
    tokens = dict(zip(documents["doc"], documents["tokens"], strict=True))
    found = judged(incident)
    flagged = set(found) if found is not None else _condemned(manifest, documents["doc"], controls)
    # Each half of the controls is judged beside the other: the rate of verdicts on a calm window.
    halves = (controls[::2], controls[1::2])
    usual = _condemned(manifest, *halves) | _condemned(manifest, *halves[::-1])
    return Shares(
        flagged_share=sum(tokens[doc] for doc in flagged) / max(sum(tokens.values()), 1),
        control_share=len(usual) / max(len(controls), 1),
        controls=len(window["controls"]),
    )


def _condemned(manifest: Manifest, docs: list[int], controls: list[int]) -> set[int]:
    alone = sorted(set(docs).difference(controls))
    found = triage(manifest, alone, controls, tell=str)  # identify told what did not work
    return {suspect.doc for suspect in found if suspect.verdict}


def _impact(incident: Incident, run: Run, ledger: Ledger) -> dict[str, Any]:
    rewound = incident.require("rewind").summary
    first, last = rewound["step"] + 1, rewound["step"] + rewound["steps_lost"]
    before = branch_before(incident, run)
    rows = ledger.steps(first, last, before).to_pylist()
    tokens, seconds = (
        sum(row["target_tokens"] for row in rows),
        _seconds(ledger, before, first, last),
    )
    impact = {
        "steps_lost": rewound["steps_lost"],
        "tokens_lost": tokens,
        "seconds_lost": seconds,
        "rank_seconds_lost": seconds * max((row["dp_size"] or 1 for row in rows), default=1),
    }
    parameters = run.context.get("parameters")
    if isinstance(parameters, int):
        impact["flops_lost"] = FLOPS * parameters * tokens
    return impact


def _seconds(ledger: Ledger, piece: int, first: int, last: int) -> float:
    """Return the seconds from step to step; pauses between branch pieces are not counted."""
    done = [
        (row["piece"], row["done"])
        for span in ledger.spans(piece)
        for row in ledger.sql(
            "SELECT piece, step, max(time_ns) AS done FROM completions "  # noqa: S608 (numbers)
            f"WHERE piece = {span.piece} AND step BETWEEN {max(first - 1, span.first)} "
            f"AND {min(last, last if span.last is None else span.last)} "
            "GROUP BY piece, step ORDER BY step"
        ).to_pylist()
    ]
    gaps = [now[1] - then[1] for then, now in pairwise(done) if then[0] == now[0]]
    return float(sum(gap for gap in gaps if gap > 0)) / 1e9


def _proof(
    incident: Incident, run: Run, manifest: Manifest, ledger: Ledger
) -> dict[str, Any] | None:
    """Prove the steps from the checkpoint to a little past the window."""
    resumed, head = incident.last("resume"), run.head()
    rewound = incident.require("rewind").summary
    if resumed is None or head is None or head.piece == rewound["piece"]:
        return None
    first = rewound["step"] + 1
    last = incident.require("identify").summary["last"] + PROVED_PAST_THE_WINDOW
    steps = ledger_steps(ledger, head.piece, first, last)
    if not steps:
        return None
    number = resumed.summary["revision"]
    plan = run.plan()
    return prove(
        steps,
        piece=head.piece,
        layout=Layout(plan, manifest.geometry(), manifest.lengths),
        revision=load_revision(run.path, number, manifest=manifest.fingerprint),
        before=ledger_steps(ledger, branch_before(incident, run), first, last),
        tokens=corpus_tokens(manifest),
    ).to_json()
