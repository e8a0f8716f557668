"""`shardward incident causes`: what may have caused it, as far as is known."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import click
from rich.console import Console

from ..quarantine.diagnose.advice import advise
from ..quarantine.diagnose.attribution import attribute
from ..quarantine.diagnose.evidence import HardwareSign
from ..quarantine.ledger import Ledger
from ..quarantine.respond.gather import gathered, twin_in
from ..quarantine.respond.safe_text import visible
from .incident_options import find
from .output import emit, json_option, manifest_option, run_option, table
from .respond_options import corpus_of


@click.command()
@click.argument("incident_id", metavar="ID")
@run_option
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
@json_option
def causes(
    *,
    incident_id: str,
    run: Path,
    manifest: Path | None,
    twins: tuple[Path, ...],
    short_run: bool,
    signs: tuple[str, ...],
    as_json: bool,
) -> None:
    """Rank the causes of an incident from all that is known so far; nothing is written.

    Signals, restarts, earlier spikes, changes of rate or batch, the window beside its controls,
    trials, twin runs and what machines reported speak for and against each; "unknown" is an
    answer. Whether the run would recover by itself is weighed against what stayed damaged.

    \b
    Examples:
      shardward incident causes INC-0001 --run runs/7b
      shardward incident causes INC-0001 --twin twin.csv
      shardward incident causes INC-0001 --hardware 'XID 79 on gpu 3'
      shardward incident causes INC-0001 --json
    """
    opened, incident = find(run, incident_id)
    with Ledger.open(opened) as ledger:
        known = gathered(incident, opened, ledger, corpus_of(opened, manifest))
    found_twins = tuple(twin_in(each, known, short_run=short_run) for each in twins)
    hardware = tuple(HardwareSign(step=None, what=visible(sign, 200)) for sign in signs)
    known = replace(known, twins=found_twins, hardware=hardware)
    found = [cause.to_json() for cause in attribute(known)]
    advice = advise(known.event, known.series)

    def render(out: Console) -> None:
        rows = [
            [c["name"], c["score"], "; ".join(c["evidence_for"]), "; ".join(c["evidence_against"])]
            for c in found
        ]
        out.print(table(f"Causes of {incident.id}", ("cause", "score", "for", "against"), rows))
        for remedy in found[0]["remedies"]:
            out.print(f"against {found[0]['name']}: {remedy['what']} ({remedy['effect']})")
        out.print(f"advice: {advice.action}: {'; '.join(advice.reasons)}")

    payload = {"id": incident.id, "causes": found, "advice": asdict(advice)}
    emit(as_json, payload, render)
