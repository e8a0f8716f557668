"""`shardward quarantine audit`: hold a shard, review a sample, release it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.run import Run
from ..quarantine.respond.audit import (
    Audit,
    audits,
    find_audit,
    finish_audit,
    overruled,
    review,
    start_audit,
)
from ..quarantine.respond.bulk import confirm_count
from ..quarantine.respond.corpus import document_facts
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.narrative import count
from ..quarantine.respond.status import Decision, status_of
from .numbers import WHOLE
from .output import emit, json_option, manifest_option, run_option, say, table
from .respond_options import Deciding, corpus_of, decide, decision_options

expect_option = click.option(
    "--expect",
    type=WHOLE,
    help="How many documents it may let in that earlier decisions left out; must be the count.",
)


@click.command("audit-start")
@click.argument("shard")
@decision_options
@manifest_option
@click.option("--sample", "size", type=int, default=60, show_default=True, help="Documents.")
@click.option("--all", "everything", is_flag=True, help="Review every document.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the sample.")
def audit_start(
    asked: Deciding,
    *,
    shard: str,
    manifest: Path | None,
    size: int,
    everything: bool,
    seed: int,
) -> None:
    """Hold SHARD and draw the sample to review.

    \b
    Examples:
      shardward quarantine audit-start s3.parquet --sample 60 --reason "near the spike" --yes
    """
    opened = asked.run
    corpus = corpus_of(opened, manifest)
    log = DecisionLog(opened.path, manifest=corpus.fingerprint)
    seen = log.head()
    decision = start_audit(
        corpus,
        shard,
        size=None if everything else size,
        seed=seed,
        reason=asked.reason,
        actor=asked.actor,
    )
    decide(log, decision, seen, act=asked.does, as_json=asked.as_json)


@click.command("audit")
@click.argument("shard", required=False)
@run_option
@json_option
def audit_show(*, shard: str | None, run: Path, as_json: bool) -> None:
    """Show the audits of a run, or one with what is left to review.

    \b
    Examples:
      shardward quarantine audit
      shardward quarantine audit s3.parquet --json
    """
    entries = DecisionLog(Run.open(run).path).entries()
    found = audits(entries) if shard is None else [find_audit(entries, shard)]

    def render(out: Console) -> None:
        names = ("shard", "documents", "sample", "reviewed", "condemned", "bad share at most")
        out.print(table("Audits", names, [_audit_row(each) for each in found]))
        if shard is not None and found[0].open:
            out.print("to review: " + ", ".join(map(str, found[0].open)))

    emit(as_json, {"audits": [{**asdict(a), "open": a.open} for a in found]}, render)


def _audit_row(each: Audit) -> list[object]:
    counts = (len(each.sample), len(each.reviewed), len(each.condemned))
    return [each.shard, each.documents, *counts, each.bound]


@click.command("audit-review")
@click.argument("shard")
@click.argument("doc", type=WHOLE)
@click.argument("verdict", type=click.Choice(["ok", "bad"]))
@decision_options
@manifest_option
@expect_option
def audit_review(
    asked: Deciding,
    *,
    shard: str,
    doc: int,
    verdict: str,
    manifest: Path | None,
    expect: int | None,
) -> None:
    """Decide about one sampled document DOC of SHARD: bad condemns it, ok lets it in.

    Where an earlier decision than the audit left the document out, such as that of an incident, it
    is named, and --expect 1 must confirm that ok lets it in all the same. What was condemned, also
    by a review, stays out until that decision is undone.

    \b
    Examples:
      shardward quarantine audit-review s3.parquet 17 bad --reason "binary junk" --yes
      shardward quarantine audit-review s3.parquet 18 ok --reason "prose" --yes
    """

    def decision(audit: Audit) -> Decision:
        bad = verdict == "bad"
        return review(audit, doc, bad=bad, reason=asked.reason, actor=asked.actor)

    if verdict == "ok":
        _warn_of_condemned(asked, doc, manifest)
    _decide(asked, shard, decision, manifest, expect)


@click.command("audit-finish")
@click.argument("shard")
@decision_options
@manifest_option
@expect_option
def audit_finish(asked: Deciding, *, shard: str, manifest: Path | None, expect: int | None) -> None:
    """Release SHARD; what was condemned stays out.

    So does what was left out by document or content. What an earlier decision about steps, a filter
    or the shard itself left out comes back: it is counted, and --expect must confirm the number.

    \b
    Examples:
      shardward quarantine audit-finish s3.parquet --reason "59 of 60 are fine" --yes
      shardward quarantine audit-finish s3.parquet --reason "all fine" --expect 12 --yes
    """

    def decision(audit: Audit) -> Decision:
        return finish_audit(audit, reason=asked.reason, actor=asked.actor)

    _decide(asked, shard, decision, manifest, expect)


def _warn_of_condemned(asked: Deciding, doc: int, manifest: Path | None) -> None:
    """Say where a document stays out, whatever a review says, and what would let it in."""
    facts = document_facts(corpus_of(asked.run, manifest), doc)
    found = status_of(DecisionLog(asked.run.path).entries(), facts)
    if found.state == "condemned" and found.entry is not None:
        number = found.entry.sequence
        say(
            f"warning: document {doc} stays out, since decision {number} condemned it; to let it "
            f"in: shardward quarantine undo {number} --reason WHY --yes"
        )


def _decide(
    asked: Deciding,
    shard: str,
    decision_about: Callable[[Audit], Decision],
    manifest: Path | None,
    expect: int | None,
) -> None:
    """Make the decision of an audit; what else it lets in is said, and must be confirmed."""
    corpus = corpus_of(asked.run, manifest)
    log = DecisionLog(asked.run.path, manifest=corpus.fingerprint)
    seen, entries = log.head(), log.entries()
    audit = find_audit(entries, shard)
    decision = decision_about(audit)
    lets_in: list[dict[str, Any]] = [
        {"decision": entry.sequence, "incident": entry.decision.incident, "documents": documents}
        for entry, documents in overruled(corpus, entries, audit, decision)
    ]
    stands = log.standing(decision)  # typed again; what stood before the audit is no part of it
    once = stands is not None and stands.sequence > audit.hold
    documents = sum(each["documents"] for each in lets_in)
    what = f"this lets in {count(documents, 'document')} left out by " + _named(lets_in)
    if asked.does and not once and (lets_in or expect is not None):
        confirm_count(documents, expect, what=what)
    if lets_in:
        say(f"warning: {what}; quarantine why DOC says for what reason")
    facts = {"lets_in": lets_in}
    decide(log, decision, seen, act=asked.does, as_json=asked.as_json, facts=facts, once=once)


def _named(lets_in: Sequence[Mapping[str, Any]]) -> str:
    """Return in words which decisions left out what is let in."""
    named = (
        f"decision {each['decision']}" + (f" of {each['incident']}" if each["incident"] else "")
        for each in lets_in
    )
    return ", ".join(named) or "earlier decisions"


AUDIT_COMMANDS = (audit_start, audit_show, audit_review, audit_finish)
