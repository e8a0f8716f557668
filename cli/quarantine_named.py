"""What the commands of `quarantine` may be about: the options that name it, and its scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ..loader.errors import UsageError
from ..loader.manifest import Manifest
from ..loader.run import Run
from ..quarantine.ledger import Ledger
from ..quarantine.respond.findings import grounds_of, read_findings
from ..quarantine.respond.incident import IncidentStore
from ..quarantine.respond.on_branch import source_of_steps
from ..quarantine.respond.scopes import Scope
from ..quarantine.respond.selection import Selection, check_positions, parse_steps, select
from ..quarantine.respond.suspects import suspect_reasons
from .numbers import COUNT, WHOLE
from .output import say


def selection_options(command: Any) -> Any:
    """Add the options that name documents or positions; they become a Selection."""
    for option in (
        click.option("--doc", "docs", type=WHOLE, multiple=True, help="Document ordinal; repeat."),
        click.option("--content", help="Content hash: all exact copies."),
        click.option("--copies-of", type=WHOLE, help="All exact copies of this document."),
        click.option("--positions", metavar="EPOCH:START-END", help="Raw sample positions."),
        click.option("--shard", help="A whole shard, by its URI in the manifest."),
        click.option("--source", help="A whole source, by name."),
        click.option("--steps", metavar="FIRST-LAST", help="All that these steps were fed."),
        click.option(
            "--branch", type=COUNT, help="The piece that --steps are of; --incident knows its own."
        ),
    ):
        command = option(command)
    return command


def selection_of(named: dict[str, Any]) -> Selection:
    """Return what the options of `selection_options`, `--suspects` and `--from` name."""
    return Selection(
        documents=tuple(named["docs"]),
        content=named["content"],
        copies_of=named["copies_of"],
        positions=named["positions"],
        shard=named["shard"],
        source=named["source"],
        steps=named["steps"],
        suspects=named.get("suspects", False),
        found=named.get("found") is not None,
    )


def scope_of(
    run: Run,
    corpus: Manifest,
    named: dict[str, Any],
    incident: str | None,
    *,
    give_back: bool = False,
) -> Scope:
    """Resolve what was named; only steps need the ledger, and the branch that they are of.

    With `give_back` steps also mean their positions, which a skip may pass over.
    """
    selection, branch = selection_of(named), named["branch"]
    if selection.steps is None:
        if branch is not None:
            raise UsageError("--branch says which steps are meant; give it with --steps")
        scope = select(selection, corpus, plan_id=run.plan_id)
        check_positions(scope, run.plan(), corpus)
        return scope
    spike = IncidentStore(run.path).get(incident) if incident and branch is None else None
    with Ledger.open(run) as ledger:
        first, last = parse_steps(selection.steps)
        source = source_of_steps(run, ledger, first, last, incident=spike, branch=branch)
        say(f"steps {selection.steps} of {source.name}")
        positions = source.steps if give_back else None
        return select(selection, corpus, plan_id=run.plan_id, ledger=source, positions=positions)


def named_grounds(
    run: Run, corpus: Manifest, named: dict[str, Any], incident: str | None
) -> tuple[Mapping[int, dict[str, Any] | str], str]:
    """Return why each document was found, and how many in words; neither for what is named."""
    if named["suspects"]:
        if incident is None:
            raise UsageError("--suspects are those of an incident; name it with --incident")
        suspects = suspect_reasons(IncidentStore(run.path).get(incident))
        return suspects, f"{incident} has {len(suspects)} suspects"
    if named["found"] is None:
        return {}, ""
    found = grounds_of(read_findings(named["found"], corpus))
    if not found:
        raise UsageError(f"{named['found']} names no document that was found; nothing to decide")
    count = "1 document" if len(found) == 1 else f"{len(found)} documents"
    return found, f"{named['found'].name} names {count}"
