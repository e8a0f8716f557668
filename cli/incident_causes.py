"""`shardward incident causes`: what may have caused it, as far as is known."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ..quarantine.ledger import Ledger
from ..quarantine.respond.gather import rank_causes
from .incident_options import find
from .output import emit, json_option, manifest_option, run_option, table
from .respond_options import corpus_of


@click.command()
@click.argument("incident_id", metavar="ID")
@run_option
@manifest_option
@json_option
def causes(*, incident_id: str, run: Path, manifest: Path | None, as_json: bool) -> None:
    """Rank the causes of an incident from all that is known so far; nothing is written.

    Signals, the window beside its controls, and trials speak for and against each; "unknown" is
    an answer.

    \b
    Examples:
      shardward incident causes INC-0001 --run runs/7b
      shardward incident causes INC-0001 --json
    """
    opened, incident = find(run, incident_id)
    with Ledger.open(opened) as ledger:
        found = rank_causes(incident, opened, ledger, corpus_of(opened, manifest))["causes"]

    def render(out: Console) -> None:
        rows = [
            [c["name"], c["score"], "; ".join(c["evidence_for"]), "; ".join(c["evidence_against"])]
            for c in found
        ]
        out.print(table(f"Causes of {incident.id}", ("cause", "score", "for", "against"), rows))
        for remedy in found[0]["remedies"]:
            out.print(f"against {found[0]['name']}: {remedy['what']} ({remedy['effect']})")

    emit(as_json, {"id": incident.id, "causes": found}, render)
