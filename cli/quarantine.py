"""`shardward quarantine`: what the run may no longer eat, who said so, and taking it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.run import Run
from ..quarantine.ledger import Ledger
from ..quarantine.respond.bulk import confirm_count
from ..quarantine.respond.corpus import document_facts
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.findings import evidence_of, found_by, ground_of
from ..quarantine.respond.listing import excluded_rows
from ..quarantine.respond.narrative import count
from ..quarantine.respond.preview import Preview, check_given_back, preview
from ..quarantine.respond.revisions import decision_anchors
from ..quarantine.respond.scopes import Scope
from ..quarantine.respond.selection import action_for
from ..quarantine.respond.status import Decision, active_skips, status_of
from .numbers import COUNT, WHOLE
from .output import (
    clean,
    emit,
    json_option,
    manifest_option,
    run_option,
    table,
)
from .quarantine_audit import AUDIT_COMMANDS
from .quarantine_consumed import CONSUMED_COMMANDS
from .quarantine_held import HELD_COMMANDS
from .quarantine_named import named_grounds, scope_of, selection_of, selection_options
from .quarantine_revisions import COMMANDS
from .respond_options import (
    Deciding,
    check_incident,
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


@quarantine.command("list")
@run_option
@manifest_option
@click.option("--limit", type=COUNT, default=200, show_default=True, help="Rows to show.")
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
@click.option(
    "--from",
    "found",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Documents that scan or similar printed with --json; JSON lines with doc, reason, score.",
)
@click.option("--expect", type=WHOLE, help="How many of these you looked at; must be the count.")
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
    of --suspects, and of what is found --from a file, must be confirmed with --expect; the reason
    for each document is kept, and quarantine why DOC shows it.

    \b
    Examples:
      shardward quarantine add --suspects --incident INC-0001 --reason "junk" --expect 9 --yes
      shardward quarantine add --doc 17 --reason "binary junk" --incident INC-0001 --yes
      shardward quarantine add --from similar.json --reason "relatives" --expect 40 --yes
      shardward quarantine add --shard s3.parquet --reason "under audit" --dry-run
      shardward quarantine add --positions 0:4096-8192 --reason "spike" --yes
    """
    what = action_for(selection_of(named), action)
    opened = asked.run
    check_incident(opened, incident)
    corpus = corpus_of(opened, manifest)
    log = DecisionLog(opened.path, manifest=corpus.fingerprint)
    seen, act = log.head(), asked.does
    grounds, about = named_grounds(opened, corpus, named, incident)
    if about:
        scope = Scope.of_documents(sorted(grounds))
        if act:
            confirm_count(len(grounds), expect, what=about)
    else:
        scope = scope_of(opened, corpus, named, incident)
    decision = Decision(
        action=what,
        scope=scope,
        reason=asked.reason,
        actor=asked.actor,
        incident=incident,
        evidence=evidence_of(grounds),
    )
    decide(log, decision, seen, act=act, as_json=asked.as_json)


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
    check_incident(opened, incident)
    corpus = corpus_of(opened, manifest)
    log = DecisionLog(opened.path, manifest=corpus.fingerprint)
    seen = log.head()
    scope = scope_of(opened, corpus, named, incident, give_back=True)
    decision = Decision(
        action="release", scope=scope, reason=asked.reason, actor=asked.actor, incident=incident
    )
    check_given_back(corpus, log.entries(), decision)
    act = asked.does
    shown = None if act else _preview(opened, manifest, log, decision)
    decide(log, decision, seen, act=act, as_json=asked.as_json, preview=shown)


@quarantine.command()
@click.argument("number", type=COUNT)
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
@click.argument("doc", type=WHOLE)
@run_option
@manifest_option
@json_option
def why(*, doc: int, run: Path, manifest: Path | None, as_json: bool) -> None:
    """Show the status of document DOC, the decision behind it and all that was ever decided.

    Where a search found it, its own reason is shown beside that of the decision, with the score and
    what it is like.

    \b
    Examples:
      shardward quarantine why 17 --run runs/7b
    """
    opened = Run.open(run)
    facts = document_facts(corpus_of(opened, manifest), doc)
    found = status_of(DecisionLog(opened.path).entries(), facts)
    grounds = [
        {"decision": entry.sequence, **ground, "by": found_by(ground)}
        for entry in found.trail
        if (ground := ground_of(entry.decision, doc)) is not None
    ]

    def render(out: Console) -> None:
        by = f" by decision {found.entry.sequence}" if found.entry else ""
        out.print(clean(f"document {doc} of {facts.shard} is {found.state}{by}", limit=400))
        if found.trail:
            show_entries(out, "", found.trail)
        if grounds:
            names = ("decision", "reason", "score", "by", "query_doc")
            out.print(
                table(
                    "Why it was found",
                    (*names[:-1], "like"),
                    [[ground.get(name) for name in names] for ground in grounds],
                )
            )

    payload = {
        "doc": doc,
        "state": found.state,
        "decision": found.entry.sequence if found.entry else None,
        "shard": facts.shard,
        "source": facts.source,
        "content": facts.content,
        "grounds": grounds,
        "trail": entries_json(found.trail),
    }
    emit(as_json, payload, render)


@quarantine.command("log")
@run_option
@click.option("--verify", is_flag=True, help="Check the chain and every anchor; exit 5 if edited.")
@click.option(
    "--limit", type=COUNT, default=200, show_default=True, help="Rows of the table, the newest."
)
@json_option
def log_(*, run: Path, verify: bool, limit: int, as_json: bool) -> None:
    """Show the decisions ever made, or check that nobody edited them. The JSON has all of them.

    \b
    Examples:
      shardward quarantine log --run runs/7b
      shardward quarantine log --limit 20
      shardward quarantine log --verify
    """
    opened = Run.open(run)
    log = DecisionLog(opened.path)
    entries = log.entries()
    payload: dict[str, Any] = {"decisions": entries_json(entries)}
    if verify:
        checked = log.verify(decision_anchors(opened.path, opened.fingerprint))
        payload["verified"] = {
            **checked.head.to_json(),
            "anchors": checked.anchors,
            "remarks": list(checked.remarks),
        }

    def render(out: Console) -> None:
        if len(entries) > limit:
            more = count(len(entries) - limit, "earlier decision")
            out.print(f"{more}; --json or --limit shows all")
        show_entries(out, "Decisions", entries[-limit:])
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
