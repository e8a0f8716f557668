"""`shardward incident` continued: open, confirm, identify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from ..loader.errors import UsageError
from ..loader.run import Run
from ..quarantine.diagnose.confirm import Checklist
from ..quarantine.diagnose.confirm import confirm as checklist_of
from ..quarantine.diagnose.directions import declared
from ..quarantine.diagnose.events import Event
from ..quarantine.diagnose.series import Series
from ..quarantine.ledger import Ledger
from ..quarantine.respond import response
from ..quarantine.respond.acquittal import Acquittal
from ..quarantine.respond.command import Spec, command_line, run_command
from ..quarantine.respond.drift import evaluations_json
from ..quarantine.respond.evaluation import (
    compared,
    evaluation_specs,
    merge_evaluations,
    read_evaluation,
)
from ..quarantine.respond.incident import Incident, IncidentStore
from ..quarantine.respond.measures import Comparison
from ..quarantine.respond.on_branch import on_branch_of
from ..quarantine.respond.operations import check_reached, newest_page
from ..quarantine.respond.outlets import check_outlets, page_message
from ..quarantine.respond.selection import parse_steps
from ..quarantine.respond.suspects import families_of, find_suspects, suspects_json
from ..quarantine.respond.telemetry import event_of, panel_pictures, panels
from ..quarantine.respond.window import Window
from ..quarantine.respond.window import identify as identify_window
from ..quarantine.search.findings import Suspect
from ..quarantine.search.incident_window import IncidentWindow
from .incident_options import (
    Asked,
    act_options,
    done_already,
    history_option,
    log_option,
    said,
    signals,
)
from .ledger_options import opened as opened_ledger
from .numbers import SECONDS, WHOLE
from .output import acts, emit, json_option, manifest_option, mutation_options, run_option, say
from .respond_options import actor_option, corpus_of
from .telling import tell, tell_options, undelivered

PANEL_STEPS = 400


@click.command("open")
@run_option
@log_option
@click.option("--onset", type=WHOLE, help="First bad step; the monitor's newest page by default.")
@click.option("--detected", type=WHOLE, help="Step at which it was noticed; the onset by default.")
@click.option("--short-run", is_flag=True, help="Scale the monitor to a few hundred steps.")
@click.option("--separate", is_flag=True, help="Open it although another one covers the spike.")
@tell_options
@actor_option
@mutation_options
@json_option
def open_(
    *,
    run: Path,
    log: Path | None,
    onset: int | None,
    detected: int | None,
    short_run: bool,
    separate: bool,
    outlets: tuple[str, ...],
    repository: str | None,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Open an incident on the newest page of the monitor, or on the steps you name.

    With --to it calls a person: the same incident is resolved there when it is filed. Where the
    receiver does not take the page, the incident is open all the same and the exit code 0: a
    warning and `undelivered` in the JSON say so, and incident deliver sends it again.

    \b
    Examples:
      shardward incident open --run runs/7b --to pagerduty --yes
      shardward incident open --onset 41230 --detected 41237 --yes
    """
    opened = Run.open(run)
    check_outlets(outlets, repository)
    _check_steps(onset, detected)
    if onset is not None and log is None:
        with opened_ledger(opened) as ledger:
            check_reached(opened, ledger.last_step(), onset)
    event = None if onset is not None else _newest_page(opened, log, short_run=short_run)
    kind = event.kind if event else "spike"
    onset = event.onset if event else onset or 0
    detected = event.detected if event else detected or onset
    if not acts(yes=yes, dry_run=dry_run):
        what = f"would open an incident: a {kind} from step {onset}, detected at step {detected}"
        facts: dict[str, Any] = {"done": False, "kind": kind, "onset": onset, "detected": detected}
        emit(as_json, facts, lambda out: out.print(f"{what}; say --yes to do it"))
        return
    incident = IncidentStore(opened.path).open(
        onset=onset,
        detected=detected,
        kind=kind,
        event=event.to_json() if event else {},
        actor=actor,
        separate=separate,
    )
    sent, told = tell(incident, page_message(incident, opened.run_id), outlets, repository)
    found: dict[str, Any] = {
        "kind": kind,
        "onset": onset,
        "detected": detected,
        "sent": sent,
        "undelivered": undelivered(sent),
    }
    asked = Asked(run=opened, incident=incident, actor=actor, does=True, as_json=as_json)
    said(asked, done=True, what="opened" + told, facts=found)


def _newest_page(run: Run, log: Path | None, *, short_run: bool) -> Event:
    series = signals(run, log)
    if log is not None:
        return newest_page(series, short_run=short_run)
    with Ledger.open(run) as ledger:
        return newest_page(series, short_run=short_run, announced=ledger.announced())


def _check_steps(onset: int | None, detected: int | None) -> None:
    if onset is None and detected is not None:
        raise UsageError("--detected goes with --onset; name both, or neither")
    if onset is not None and not 1 <= onset <= (detected or onset):
        raise UsageError(
            f"onset {onset} and detection {detected or onset} are no steps of a spike: the first "
            "step is 1, and nothing is detected before its onset"
        )


@click.command()
@act_options
@log_option
@click.option("--eval", "command", help="Evaluate the scene and a healthy checkpoint: CMD {spec}.")
@click.option(
    "--timeout",
    type=SECONDS,
    help="Seconds after which an evaluation and all it started is stopped.",
)
@click.option(
    "--worse",
    "directions",
    multiple=True,
    metavar="METRIC=WAY",
    help="Whether a metric is worse when higher or lower, where its name does not say; repeat.",
)
@click.option("--accept", help="Go on although the checklist does not confirm it, and why.")
@tell_options
def confirm(
    asked: Asked,
    *,
    log: Path | None,
    command: str | None,
    timeout: float | None,
    directions: tuple[str, ...],
    accept: str | None,
    outlets: tuple[str, ...],
    repository: str | None,
) -> None:
    """Check which signals agree: loss, gradient norm, clip rate, source losses, evaluations.

    "insufficient" is an answer; the incident then stays open until --accept says why.

    --eval wants one number or more, in a JSON object or JSON lines, under any name. Names such as
    "ppl" and "accuracy" say which way is worse, for others --worse does. The answer says which were
    used.

    \b
    Examples:
      shardward incident confirm INC-0001 --yes
      shardward incident confirm INC-0001 --eval "eval.sh {spec} {metrics}" --yes
      shardward incident confirm INC-0001 --eval "eval.sh {spec}" --worse mmlu=lower --yes
      shardward incident confirm INC-0001 --accept "seen on three dashboards" --yes
    """
    worse = declared(directions)
    opened, incident = asked.run, asked.incident
    if _confirmed_so(asked, accept, plain=not (outlets or command)):
        return
    check_outlets(outlets, repository)
    series, event = signals(opened, log, incident=incident), event_of(incident)
    # Refuse before anything is done, as a preview does, what --yes could not carry out.
    specs = {} if command is None else _specs(opened, incident, command)
    evals = _evaluate(incident, specs, command, timeout) if command and asked.does else {}
    checklist = checklist_of(event, series, merge_evaluations(evals), worse=worse)
    first, last = max(event.onset - PANEL_STEPS, 0), event.detected + PANEL_STEPS
    if asked.does:
        response.confirm(
            incident,
            verdict=checklist.verdict,
            checklist=checklist.to_json(),
            panels=panels(series, first=first, last=last),
            pictures=panel_pictures(
                series, onset=event.onset, detected=event.detected, first=first, last=last
            ),
            actor=asked.actor,
            accept=accept,
            evaluations=evaluations_json(evals, specs, worse),
        )
    what = f"record the checklist: {checklist.verdict}" + _items(checklist)
    what += f"\n  would first run {command}" if command and not asked.does else ""
    judged = compared(evals, worse)
    what += _evaluated(judged, worse) if evals else ""
    facts = {**checklist.to_json(), "evaluated": judged}
    if asked.does:
        sent, told = tell(incident, page_message(incident, opened.run_id), outlets, repository)
        facts.update(sent=sent, undelivered=undelivered(sent))
        what += told
    said(asked, done=asked.does, what=what, facts=facts)


def _confirmed_so(asked: Asked, accept: str | None, *, plain: bool) -> bool:
    """Return whether it was confirmed so already; to evaluate or to tell others is more."""
    return done_already(
        asked, "confirm", same=lambda done: plain and done.summary["accepted"] == accept
    )


def _items(checklist: Checklist) -> str:
    words = {True: "agrees", False: "does not agree", None: "cannot say"}
    return "".join(f"\n  {i.signal}: {words[i.agrees]}, {i.note}" for i in checklist.items)


def _evaluated(rows: Sequence[Mapping[str, Any]], worse: Mapping[str, object]) -> str:
    """Return in words by which metrics the checkpoints were judged, and which could not judge."""
    told = ""
    for row in rows:
        name, way = row["metric"], row["worse"]
        sides = ", ".join(f"{row[side]:g} {side}" for side in ("healthy", "scene") if side in row)
        known = f"{way} is worse" if way else f"say which way is worse: --worse {name}=lower"
        told += f"\n  evaluated by {name} ({known}): {sides}"
    missed = sorted(set(worse) - {row["metric"] for row in rows})
    return told + "".join(f"\n  --worse {name}: no such metric was evaluated" for name in missed)


def _specs(run: Run, incident: Incident, command: str) -> dict[str, Spec]:
    """Return what `command` is to evaluate; refused where it cannot be run."""
    command_line(command, Path("spec.json"), Path("metrics.jsonl"))
    return evaluation_specs(run, incident)


def _evaluate(
    incident: Incident, specs: Mapping[str, Spec], command: str, timeout: float | None
) -> dict[str, dict[str, Series]]:
    return {
        name: run_command(
            command,
            spec,
            incident.path / "work" / f"eval-{name}",
            timeout=timeout,
            read=partial(read_evaluation, step=spec.first),
        )
        for name, spec in specs.items()
    }


@click.command()
@act_options
@manifest_option
@click.option("--steps", metavar="FIRST-LAST", help="From the onset to the detection by default.")
@click.option(
    "--controls", type=WHOLE, default=4, show_default=True, help="Control windows before it."
)
@history_option
def identify(
    asked: Asked,
    *,
    manifest: Path | None,
    steps: str | None,
    controls: int,
    history: int,
) -> None:
    """Find what the steps ate, from the ledger, beside control windows from before.

    \b
    Examples:
      shardward incident identify INC-0001 --yes
      shardward incident identify INC-0001 --steps 41230-41240 --controls 8 --yes
    """
    opened, incident = asked.run, asked.incident
    event = event_of(incident)
    first, last = parse_steps(steps) if steps else (event.onset, max(event.detected, event.onset))
    wanted = (first, last)
    if done_already(
        asked, "identify", same=lambda e: (e.summary["first"], e.summary["last"]) == wanted
    ):
        return
    corpus = corpus_of(opened, manifest)
    with Ledger.open(opened) as ledger:
        source = on_branch_of(incident, opened, ledger)
        window = identify_window(source, corpus, first=first, last=last, controls=controls)
        eaten = IncidentWindow(
            first=first,
            last=last,
            docs=tuple(window.documents["doc"].to_pylist()),
            controls=window.control_documents,
        )
        suspects, free = find_suspects(
            incident, ledger, corpus, eaten, branch=source.branch, history=history, tell=say
        )
    act = asked.does
    if act:
        # The suspects first: a crash between the two leaves a step that can be repeated.
        stored = suspects_json(corpus, suspects, families=families_of(suspects))
        incident.attach("suspects", stored, actor=asked.actor)
        response.identify(incident, window, actor=asked.actor)
    what = f"record {window.documents.num_rows} documents of steps {first} to {last}"
    what += _window_told(window) + _suspects_told(suspects, free)
    facts = {
        "window": window.to_json(),
        "suspects": [s.doc for s in suspects if s.verdict],
        "acquitted": [each.to_json() for each in free],
    }
    said(asked, done=act, what=what, facts=facts)


def _window_told(window: Window) -> str:
    top = [f"\n  {name}: {share:.0%} of tokens" for name, share in list(window.shards.items())[:5]]
    return "".join([*top, *(_compared(each) for each in window.comparisons)])


def _compared(each: Comparison) -> str:
    """Return one measure of the window beside the same of its control windows."""
    name = each.name.replace("_", " ")
    if not each.controls:
        return f"\n  {name}: {each.value:.3g}, no control window before it"
    usual = f"{min(each.controls):.3g} to {max(each.controls):.3g}"
    words = {True: ": unusual", False: "", None: ": too few to compare"}[each.unusual]
    return f"\n  {name}: {each.value:.3g}, in {len(each.controls)} control windows {usual}{words}"


def _suspects_told(suspects: Sequence[Suspect], free: Sequence[Acquittal]) -> str:
    bad = [s for s in suspects if s.verdict]
    told = [f"\n  suspect {s.doc}: {s.reasons[0]}" for s in bad[:5]]
    told += [f"\n  and {len(bad) - 5} more"] if len(bad) > 5 else []
    told += [f"\n  document {each.doc} {each.reason}" for each in free[:5]]
    return "".join(told)


LOOK = (open_, confirm, identify)
