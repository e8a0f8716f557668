"""`shardward quarantine audit`: hold a shard, review a sample, release it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from ..loader.run import Run
from ..quarantine.respond.audit import Audit, audits, find_audit, finish_audit, review, start_audit
from ..quarantine.respond.decisions import DecisionLog
from .numbers import WHOLE
from .output import emit, json_option, manifest_option, run_option, table
from .respond_options import Deciding, corpus_of, decide, decision_options


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
def audit_review(
    asked: Deciding,
    *,
    shard: str,
    doc: int,
    verdict: str,
) -> None:
    """Decide about one sampled document DOC of SHARD: bad condemns it, ok lets it in.

    \b
    Examples:
      shardward quarantine audit-review s3.parquet 17 bad --reason "binary junk" --yes
      shardward quarantine audit-review s3.parquet 18 ok --reason "prose" --yes
    """
    opened = asked.run
    log = DecisionLog(opened.path, manifest=opened.fingerprint)
    seen = log.head()
    decision = review(
        find_audit(log.entries(), shard),
        doc,
        bad=verdict == "bad",
        reason=asked.reason,
        actor=asked.actor,
    )
    decide(log, decision, seen, act=asked.does, as_json=asked.as_json)


@click.command("audit-finish")
@click.argument("shard")
@decision_options
def audit_finish(
    asked: Deciding,
    *,
    shard: str,
) -> None:
    """Release SHARD; what was condemned stays out.

    \b
    Examples:
      shardward quarantine audit-finish s3.parquet --reason "59 of 60 are fine" --yes
    """
    opened = asked.run
    log = DecisionLog(opened.path, manifest=opened.fingerprint)
    seen = log.head()
    decision = finish_audit(
        find_audit(log.entries(), shard), reason=asked.reason, actor=asked.actor
    )
    decide(log, decision, seen, act=asked.does, as_json=asked.as_json)


AUDIT_COMMANDS = (audit_start, audit_show, audit_review, audit_finish)
