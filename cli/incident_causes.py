"""`shardward incident causes`: what may have caused it, as far as is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..quarantine.diagnose.advice import Advice, advise
from ..quarantine.diagnose.attribution import attribute
from ..quarantine.respond.filing import attach_testimony
from ..quarantine.respond.gather import gathered, twin_in, with_testimony
from ..quarantine.respond.safe_text import visible
from ..quarantine.respond.testimony import KINDS, Told, planned_rate, reported, told
from .incident_options import Asked, act_options
from .ledger_options import opened as opened_ledger
from .output import clean, emit, manifest_option, table
from .respond_options import corpus_of

PATH = 4096
"""No system opens a longer one; of a cut path two twins could have the same."""


@click.command()
@act_options
@manifest_option
@click.option(
    "--twin",
    "twins",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Log of another run to compare with, as monitor compare does; may be repeated.",
)
@click.option("--short-run", is_flag=True, help="Judge the twins as runs of a few hundred steps.")
@click.option(
    "--hardware",
    "signs",
    multiple=True,
    metavar="TEXT",
    help="What a machine reported near the event, such as 'XID 79 on gpu 3'; may be repeated.",
)
@click.option(
    "--schedule",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The planned learning rate: a table with columns step and lr, or the log of a good run.",
)
@click.option(
    "--forget",
    multiple=True,
    type=click.Choice(KINDS),
    help="Weigh no more what the incident was told of this kind; may be repeated.",
)
def causes(
    asked: Asked,
    *,
    manifest: Path | None,
    twins: tuple[Path, ...],
    short_run: bool,
    signs: tuple[str, ...],
    schedule: Path | None,
    forget: tuple[str, ...],
) -> None:
    """Rank the causes of an incident from all that is known so far.

    Signals, restarts, earlier spikes, changes of rate or batch, the window beside its controls,
    trials, twin runs and what machines reported speak for and against each; "unknown" is an
    answer. Whether the run would recover by itself is weighed against what stayed damaged.

    With --yes the incident keeps the ranking and what it is told by --twin, --hardware and
    --schedule, which every later ranking and the postmortem weigh. Else nothing is written.

    \b
    Examples:
      shardward incident causes INC-0001 --run runs/7b
      shardward incident causes INC-0001 --twin twin.csv
      shardward incident causes INC-0001 --hardware 'XID 79 on gpu 3' --yes
      shardward incident causes INC-0001 --schedule plan.csv --yes
      shardward incident causes INC-0001 --json
    """
    opened, incident = asked.run, asked.incident
    with opened_ledger(opened) as ledger:
        known = gathered(incident, opened, ledger, corpus_of(opened, manifest))
    brought = Told(
        hardware=reported(signs),
        schedule=None if schedule is None else planned_rate(schedule, known.event),
        twins={
            visible(str(each), PATH): twin_in(each, known, short_run=short_run) for each in twins
        },
    )
    seen = told(incident)
    testimony = seen.without(forget).joined(brought)
    known = with_testimony(known, testimony)
    found = [cause.to_json() for cause in attribute(known)]
    advice = advise(known.event, known.series)
    if asked.does:
        ranked = {"causes": found}
        attach_testimony(incident, opened, testimony, ranked, seen=seen, actor=asked.actor)
    kept = _kept(asked, testimony, brought=bool(signs or schedule or twins or forget))

    def render(out: Console) -> None:
        _show(out, f"Causes of {incident.id}", found, advice)
        if kept:
            out.print(clean(kept, limit=400))

    payload = {
        "id": incident.id,
        "done": asked.does,
        "causes": found,
        "advice": asdict(advice),
        "told": testimony.to_json(),
    }
    emit(asked.as_json, payload, render)


def _kept(asked: Asked, testimony: Told, *, brought: bool) -> str:
    """Return in words what the incident keeps or would keep."""
    if asked.does:
        told_so = testimony.describe()
        return f"{asked.incident.id} keeps the ranking and what it was told: {told_so}"
    return "say --yes to keep with the incident what it was told" if brought else ""


def _show(out: Console, title: str, found: Sequence[Mapping[str, Any]], advice: Advice) -> None:
    rows = [
        [c["name"], c["score"], "; ".join(c["evidence_for"]), "; ".join(c["evidence_against"])]
        for c in found
    ]
    out.print(table(title, ("cause", "score", "for", "against"), rows))
    for remedy in found[0]["remedies"]:
        out.print(f"against {found[0]['name']}: {remedy['what']} ({remedy['effect']})")
    out.print(f"advice: {advice.action}: {'; '.join(advice.reasons)}")
