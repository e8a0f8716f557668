"""`shardward quarantine`: what the run may no longer eat, who said so, and taking it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.errors import UsageError
from ..loader.manifest import Manifest
from ..loader.run import Run
from ..quarantine.ledger import Ledger
from ..quarantine.respond.bulk import confirm_count
from ..quarantine.respond.corpus import document_facts
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.incident import IncidentStore
from ..quarantine.respond.listing import excluded_rows
from ..quarantine.respond.on_branch import source_of_steps
from ..quarantine.respond.preview import Preview, check_given_back, preview
from ..quarantine.respond.revisions import decision_anchors
from ..quarantine.respond.scopes import Scope
from ..quarantine.respond.selection import Selection, action_for, parse_steps, select
from ..quarantine.respond.status import Decision, active_skips, status_of
from ..quarantine.respond.suspects import suspect_reasons
from .output import (
    clean,
    emit,
    json_option,
    manifest_option,
    run_option,
    say,
    table,
)
from .quarantine_audit import AUDIT_COMMANDS
from .quarantine_consumed import CONSUMED_COMMANDS
from .quarantine_held import HELD_COMMANDS
from .quarantine_revisions import COMMANDS
from .respond_options import (
    Deciding,
    corpus_of,
    decide,
    decision_options,
    entries_json,
    show_entries,
)


@click.group()
def quarantine() -> None:
    """Decide what the run may no longer eat.

    \b
    Examples:
      shardward quarantine list --run runs/7b
      shardward quarantine add --doc 17 --doc 99 --reason "binary junk" --yes
      shardward quarantine release --doc 17 --reason "a licence, harmless" --yes
      shardward quarantine log --verify
    """


def selection_options(command: Any) -> Any:
    """Add the options that name documents or positions; they become a Selection."""
    for option in (
        click.option("--doc", "docs", type=int, multiple=True, help="Document ordinal; repeat."),
        click.option("--content", help="Content hash: all exact copies."),
        click.option("--copies-of", type=int, help="All exact copies of this document."),
        click.option("--positions", metavar="EPOCH:START-END", help="Raw sample positions."),
        click.option("--shard", help="A whole shard, by its URI in the manifest."),
        click.option("--source", help="A whole source, by name."),
        click.option("--steps", metavar="FIRST-LAST", help="All that these steps were fed."),
        click.option(
            "--branch", type=int, help="The piece that --steps are of; --incident knows its own."
        ),
    ):
        command = option(command)
    return command


def _selection(named: dict[str, Any]) -> Selection:
    return Selection(
        documents=tuple(named["docs"]),
        content=named["content"],
        copies_of=named["copies_of"],
        positions=named["positions"],
        shard=named["shard"],
        source=named["source"],
        steps=named["steps"],
        suspects=named.get("suspects", False),
    )


def _scope(
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
    selection, branch = _selection(named), named["branch"]
    if selection.steps is None:
        if branch is not None:
            raise UsageError("--branch says which steps are meant; give it with --steps")
        return select(selection, corpus, plan_id=run.plan_id)
    spike = IncidentStore(run.path).get(incident) if incident and branch is None else None
    with Ledger.open(run) as ledger:
        first, last = parse_steps(selection.steps)
        source = source_of_steps(run, ledger, first, last, incident=spike, branch=branch)
        say(f"steps {selection.steps} of {source.name}")
        positions = source.steps if give_back else None
        return select(selection, corpus, plan_id=run.plan_id, ledger=source, positions=positions)


@quarantine.command("list")
@run_option
@manifest_option
@click.option("--limit", default=200, show_default=True, help="Rows to show.")
@json_option
def list_(*, run: Path, manifest: Path | None, limit: int, as_json: bool) -> None:
    """Show what is left out right now, and why.

    \b
    Examples:
      shardward quarantine list --run runs/7b
      shardward quarantine list --limit 20 --json
    """
    opened = Run.open(run)
    entries = DecisionLog(opened.path).entries()
    rows, total = excluded_rows(entries, corpus_of(opened, manifest), limit=limit)
    skips = [
        {**part.to_json(), "reason": entry.decision.reason, "decision": entry.sequence}
        for part, entry in active_skips(entries)
    ]

    def render(out: Console) -> None:
        columns = ("doc", "id", "shard", "row", "source", "state", "reason", "actor", "decision")
        values = [[getattr(row, name) for name in columns] for row in rows]
        out.print(table(f"{total} documents are left out", columns, values))
        if skips:
            names = ("epoch", "start", "end", "reason", "decision")
            out.print(table("Positions skipped", names, [[s[n] for n in names] for s in skips]))

    emit(as_json, {"total": total, "documents": rows, "skips": skips}, render)


@quarantine.command()
@decision_options
@manifest_option
@selection_options
@click.option(
    "--as",
    "action",
    type=click.Choice(["quarantine", "condemn", "suspect", "skip"]),
    show_default="quarantine, or skip for --positions",
    help="condemn yields only to undo; suspect is a note; skip takes positions, once.",
)
@click.option("--suspects", is_flag=True, help="All suspects of the --incident.")
@click.option("--expect", type=int, help="How many suspects you looked at; must be the count.")
@click.option("--incident", help="The incident this belongs to.")
def add(
    asked: Deciding,
    *,
    manifest: Path | None,
    action: str | None,
    expect: int | None,
    incident: str | None,
    **named: Any,
) -> None:
    """Leave documents, copies, positions, a shard or a source out of training.

    The decision counts from the next revision: see quarantine publish, or incident skip. The number
    of suspects must be confirmed with --expect; the reason for each is kept as evidence.

    \b
    Examples:
      shardward quarantine add --suspects --incident INC-0001 --reason "junk" --expect 9 --yes
      shardward quarantine add --doc 17 --reason "binary junk" --incident INC-0001 --yes
      shardward quarantine add --shard s3.parquet --reason "under audit" --dry-run
      shardward quarantine add --positions 0:4096-8192 --reason "spike" --yes
    """
    what = action_for(_selection(named), action)
    opened = asked.run
    corpus = corpus_of(opened, manifest)
    log = DecisionLog(opened.path, manifest=corpus.fingerprint)
    seen, act = log.head(), asked.does
    evidence: dict[str, Any] = {}
    if named["suspects"]:
        reasons = _suspects(opened, incident)
        scope = Scope.of_documents(sorted(reasons))
        evidence = {"documents": {str(doc): why for doc, why in reasons.items()}}
        if act:
            confirm_count(len(reasons), expect, what=f"{incident} has {len(reasons)} suspects")
    else:
        scope = _scope(opened, corpus, named, incident)
    decision = Decision(
        action=what,
        scope=scope,
        reason=asked.reason,
        actor=asked.actor,
        incident=incident,
        evidence=evidence,
    )
    decide(log, decision, seen, act=act, as_json=asked.as_json)


def _suspects(run: Run, incident: str | None) -> dict[int, str]:
    if incident is None:
        raise UsageError("--suspects are those of an incident; name it with --incident")
    return suspect_reasons(IncidentStore(run.path).get(incident))


@quarantine.command()
@decision_options
@manifest_option
@selection_options
@click.option("--incident", help="The incident this belongs to.")
def release(
    asked: Deciding,
    *,
    manifest: Path | None,
    incident: str | None,
    **named: Any,
) -> None:
    """Let something back in; a condemned document stays out until its decision is undone.

    Positions and steps are also given back where they were skipped. What a rebuilt corpus no longer
    holds cannot come back to it.

    \b
    Examples:
      shardward quarantine release --doc 17 --reason "a licence, harmless" --yes
      shardward quarantine release --shard s3.parquet --reason "audit found nothing" --yes
      shardward quarantine release --steps 60-65 --incident INC-0001 --reason "harmless" --yes
    """
    opened = asked.run
    corpus = corpus_of(opened, manifest)
    log = DecisionLog(opened.path, manifest=corpus.fingerprint)
    seen = log.head()
    scope = _scope(opened, corpus, named, incident, give_back=True)
    decision = Decision(
        action="release", scope=scope, reason=asked.reason, actor=asked.actor, incident=incident
    )
    check_given_back(corpus, log.entries(), decision)
    act = asked.does
    shown = None if act else _preview(opened, manifest, log, decision)
    decide(log, decision, seen, act=act, as_json=asked.as_json, preview=shown)


@quarantine.command()
@click.argument("number", type=int)
@decision_options
@manifest_option
def undo(
    asked: Deciding,
    *,
    number: int,
    manifest: Path | None,
) -> None:
    """Take back decision NUMBER, whatever it was; an undo can be undone too.

    Without --yes it shows which documents would come back, and what of the run's way ahead they
    touch.

    \b
    Examples:
      shardward quarantine undo 4 --reason "wrong document" --dry-run
      shardward quarantine undo 4 --reason "wrong document" --yes
    """
    opened = asked.run
    log = DecisionLog(opened.path)
    log.entry(number)
    decision = Decision(
        action="undo", scope=Scope.of_entry(number), reason=asked.reason, actor=asked.actor
    )
    check_given_back(corpus_of(opened, manifest), log.entries(), decision)
    act = asked.does
    shown = None if act else _preview(opened, manifest, log, decision)
    decide(log, decision, log.head(), act=act, as_json=asked.as_json, preview=shown)


def _preview(run: Run, manifest: Path | None, log: DecisionLog, decision: Decision) -> Preview:
    with Ledger.open(run) as ledger:
        return preview(run, corpus_of(run, manifest), ledger, log.entries(), decision)


@quarantine.command()
@click.argument("doc", type=int)
@run_option
@manifest_option
@json_option
def why(*, doc: int, run: Path, manifest: Path | None, as_json: bool) -> None:
    """Show the status of document DOC, the decision behind it and all that was ever decided.

    \b
    Examples:
      shardward quarantine why 17 --run runs/7b
    """
    opened = Run.open(run)
    facts = document_facts(corpus_of(opened, manifest), doc)
    found = status_of(DecisionLog(opened.path).entries(), facts)

    def render(out: Console) -> None:
        by = f" by decision {found.entry.sequence}" if found.entry else ""
        out.print(clean(f"document {doc} of {facts.shard} is {found.state}{by}", limit=400))
        if found.trail:
            show_entries(out, "", found.trail)

    payload = {
        "doc": doc,
        "state": found.state,
        "decision": found.entry.sequence if found.entry else None,
        "shard": facts.shard,
        "source": facts.source,
        "content": facts.content,
        "trail": entries_json(found.trail),
    }
    emit(as_json, payload, render)


@quarantine.command("log")
@run_option
@click.option("--verify", is_flag=True, help="Check the chain and every anchor; exit 5 if edited.")
@json_option
def log_(*, run: Path, verify: bool, as_json: bool) -> None:
    """Show every decision ever made, or check that nobody edited them.

    \b
    Examples:
      shardward quarantine log --run runs/7b
      shardward quarantine log --verify
    """
    opened = Run.open(run)
    log = DecisionLog(opened.path)
    payload: dict[str, Any] = {"decisions": entries_json(log.entries())}
    if verify:
        checked = log.verify(decision_anchors(opened.path, opened.fingerprint))
        payload["verified"] = {
            **checked.head.to_json(),
            "anchors": checked.anchors,
            "remarks": list(checked.remarks),
        }

    def render(out: Console) -> None:
        show_entries(out, "Decisions", log.entries())
        if verify:
            found = payload["verified"]
            out.print(
                f"{found['count']} decisions follow one another and fit {found['anchors']} anchors"
            )
            for remark in found["remarks"]:
                out.print(remark)

    emit(as_json, payload, render)


for _command in (*COMMANDS, *AUDIT_COMMANDS, *HELD_COMMANDS, *CONSUMED_COMMANDS):
    quarantine.add_command(_command)
