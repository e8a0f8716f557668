"""`shardward quarantine` continued: revisions and their impact, bulk decisions, export."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.manifest import Manifest
from ..loader.revision import Revision
from ..loader.run import Run
from ..quarantine.ledger import Ledger
from ..quarantine.respond.bulk import Filter, confirm_count, filter_scope, matching
from ..quarantine.respond.chain import ChainHead
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.export import export_rows
from ..quarantine.respond.findings import evidence_of
from ..quarantine.respond.impact import diff as revision_diff
from ..quarantine.respond.impact import impact as revision_impact
from ..quarantine.respond.mirror import pull_revision, push_revision
from ..quarantine.respond.operations import where_it_stands
from ..quarantine.respond.passed import WINDOWS, Counted, store_passed
from ..quarantine.respond.preview import check_given_back
from ..quarantine.respond.revisions import (
    build_revision,
    check_tombstones,
    latest_revision,
    list_revisions,
    load_revision,
    publish_revision,
)
from ..quarantine.respond.status import Decision
from .numbers import COUNT, SCORE, WHOLE
from .output import (
    acts,
    clean,
    emit,
    json_option,
    manifest_option,
    mutation_options,
    progress,
    run_option,
    table,
)
from .respond_options import Deciding, check_incident, corpus_of, decide, decision_options

MOST_ADDRESS = 8000
"""Characters of an address, and of the command that fetches from it."""


@click.command("diff")
@click.argument("before", type=WHOLE)
@click.argument("after", type=WHOLE)
@run_option
@json_option
def diff_(*, before: int, after: int, run: Path, as_json: bool) -> None:
    """Show what revision AFTER leaves out that BEFORE does not, and the reverse.

    \b
    Examples:
      shardward quarantine diff 1 2 --run runs/7b
    """
    opened = Run.open(run)
    old, new = (load_revision(opened.path, n, manifest=opened.fingerprint) for n in (before, after))
    changed = revision_diff(old, new)

    def render(out: Console) -> None:
        out.print(f"{len(changed.added)} documents more, {len(changed.released)} let in again")
        rows = [["out", d] for d in changed.added] + [["in", d] for d in changed.released]
        rows += [["skip", s] for s in changed.skips_added]
        rows += [["no longer skipped", s] for s in changed.skips_released]
        out.print(table("", ("what", "document or positions"), rows[:200]))

    emit(as_json, asdict(changed), render)


@click.command("show")
@click.argument("number", type=WHOLE)
@run_option
@json_option
def show_(*, number: int, run: Path, as_json: bool) -> None:
    """Show one published revision.

    \b
    Examples:
      shardward quarantine show 1 --run runs/7b --json
    """
    opened = Run.open(run)
    revision = load_revision(opened.path, number, manifest=opened.fingerprint)
    known = sorted(list_revisions(opened.path))
    payload = {**revision.header(), "digest": revision.digest, "published": known}
    hashes = [revision.hashes[i : i + 16].hex() for i in range(0, len(revision.hashes), 16)]
    payload["excluded"] = [
        {"doc": doc, "content": content}
        for doc, content in zip(revision.documents.tolist(), hashes, strict=True)
    ]

    def render(out: Console) -> None:
        facts = [[k, payload[k]] for k in ("number", "digest", "parent", "created", "decisions")]
        facts += [["documents", revision.documents.size], ["skips", len(revision.skips)]]
        out.print(table(f"Revision {number}", ("", ""), facts))
        rows = [[row["doc"], row["content"]] for row in payload["excluded"][:200]]
        out.print(table("", ("doc", "content"), rows))

    emit(as_json, payload, render)


def _next(run: Run, corpus: Manifest) -> tuple[Revision, Revision]:
    """Return the newest revision and the one that publishing now would give."""
    entries = DecisionLog(run.path).entries()
    head = ChainHead(digest=entries[-1].digest if entries else "", count=len(entries))
    parent = latest_revision(run.path, corpus)
    return parent, build_revision(entries, corpus, parent=parent, head=head)


@click.command("impact")
@run_option
@manifest_option
@click.option(
    "--batch", type=COUNT, help="Global batch in samples; that of the last step by default."
)
@click.option("--by", "column", help="A column of the shards to count by, such as the language.")
@json_option
def impact_(
    *, run: Path, manifest: Path | None, batch: int | None, column: str | None, as_json: bool
) -> None:
    """Show what publishing the decisions would change, before it is done.

    \b
    Examples:
      shardward quarantine impact --run runs/7b --batch 2048
      shardward quarantine impact --by language --json
    """
    opened = Run.open(run)
    corpus = corpus_of(opened, manifest)
    before, after = _next(opened, corpus)
    with Ledger.open(opened) as ledger:
        cursor, usual = where_it_stands(opened, ledger)
    found = revision_impact(
        corpus,
        opened.plan(),
        before,
        after,
        cursor=cursor,
        batch=batch or usual,
        group_column=column,
    )

    def render(out: Console) -> None:
        value = found.to_json()
        facts = [[k.replace("_", " "), v] for k, v in value.items() if _single(v)]
        out.print(table(f"Revision {after.number} against {before.number}", ("", ""), facts))
        names = ("name", "documents", "tokens", "of_tokens", "share")
        for title, shares in (("By source", found.sources), (f"By {column}", found.groups)):
            if shares:
                out.print(table(title, names, [[getattr(s, n) for n in names] for s in shares]))

    emit(as_json, found.to_json(), render)


def _single(value: object) -> bool:
    return not isinstance(value, list | tuple | dict)


@click.command("publish")
@run_option
@manifest_option
@click.option(
    "--count",
    is_flag=True,
    help=f"Count what it passes over however long that takes; by default up to {WINDOWS} windows.",
)
@click.option(
    "--to",
    "url",
    metavar="URL",
    help="Also put it there, a directory or any fsspec URL, for trainers on other machines.",
)
@mutation_options
@json_option
def publish_(
    *,
    run: Path,
    manifest: Path | None,
    count: bool,
    url: str | None,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make the decisions a revision; a trainer obeys it from its next cursor load on.

    What it passes over is counted and stored beside it, so that loaders know their exact length
    and find any later step at once. It is safe to repeat, also to count what was left, or with --to
    to put it where quarantine pull fetches it from.

    \b
    Examples:
      shardward quarantine publish --run runs/7b --dry-run
      shardward quarantine publish --run runs/7b --yes
      shardward quarantine publish --run runs/7b --to s3://bucket/runs/7b --yes
    """
    opened = Run.open(run)
    corpus = corpus_of(opened, manifest)
    before, after = _next(opened, corpus)
    check_tombstones(corpus, after)
    changed = revision_diff(before, after)
    act = acts(yes=yes, dry_run=dry_run)
    published = publish_revision(opened.path, corpus) if act else after
    counted = _count(opened, corpus, published, everything=count) if act else Counted()
    address = push_revision(published, url) if act and url and published.number else None
    payload = {
        "done": act,
        "revision": published.number,
        "digest": published.digest,
        "documents": int(published.documents.size),
        "added": len(changed.added),
        "released": len(changed.released),
        "counted_epochs": list(counted.epochs),
        "uncounted_epochs": list(counted.left),
        "address": address,
    }

    def render(out: Console) -> None:
        said = "is" if act else "would be"
        out.print(
            f"revision {published.number} {said} {published.documents.size} documents: "
            f"{len(changed.added)} more, {len(changed.released)} let in again"
            + ("" if act else "; say --yes to publish it")
        )
        if address is not None:
            _say_where(out, address, str(url), published)
        if counted.left:
            epochs = ", ".join(map(str, counted.left))
            out.print(
                f"steps in epoch {epochs} are estimated; to know them, repeat this with --count"
            )

    emit(as_json, payload, render)


def _say_where(out: Console, address: str, url: str, revision: Revision) -> None:
    words = ["shardward", "quarantine", "pull", url, str(revision.number)]
    fetch = shlex.join([*words, "--digest", revision.digest])
    for line in (f"it is at {address}", f"fetch it by: {fetch}"):
        out.print(clean(line, limit=MOST_ADDRESS), soft_wrap=True)


def _count(run: Run, corpus: Manifest, revision: Revision, *, everything: bool) -> Counted:
    limit = None if everything else WINDOWS
    with progress("counting windows", None) as advance:
        return store_passed(run, corpus, revision, windows=limit, advance=advance)


@click.command("pull")
@click.argument("url")
@click.argument("number", type=click.IntRange(1))
@click.option("--digest", required=True, help="The revision_digest of the cursor.")
@run_option
@json_option
def pull_(*, url: str, number: int, digest: str, run: Path, as_json: bool) -> None:
    """Fetch revision NUMBER from URL into a run, as a cursor names it: by number and digest.

    A trainer that starts on another machine gets this one, and no other that bears the number.

    \b
    Examples:
      shardward quarantine pull s3://bucket/runs/7b 2 --digest 4be1…c0 --run runs/7b
    """
    opened = Run.open(run)
    found = pull_revision(url, number, opened.path, manifest=opened.fingerprint, digest=digest)
    documents = int(found.documents.size)
    payload = {"number": found.number, "digest": found.digest, "documents": documents}
    words = f"revision {found.number} leaves out {documents} documents; it is in {opened.path}"
    emit(as_json, payload, lambda console: console.print(words))


@click.command("export")
@run_option
@manifest_option
@click.option("--reasons", is_flag=True, help="Add the reasons, which may quote the text.")
def export_(*, run: Path, manifest: Path | None, reasons: bool) -> None:
    """Print what is left out as JSON lines without any text: hashes, ids, places.

    \b
    Examples:
      shardward quarantine export --run runs/7b > takedown.jsonl
    """
    opened = Run.open(run)
    entries = DecisionLog(opened.path).entries()
    for row in export_rows(entries, corpus_of(opened, manifest), reasons=reasons):
        click.echo(json.dumps({"schema_version": 1, **row}))


@click.command("bulk")
@decision_options
@manifest_option
@click.option("--shard", help="Only documents of this shard.")
@click.option("--source", help="Only documents of this source.")
@click.option("--min-tokens", type=WHOLE, help="At least this long.")
@click.option("--max-tokens", type=WHOLE, help="At most this long.")
@click.option(
    "--findings",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What scan or similar printed with --json, or JSON lines with doc, detector, score.",
)
@click.option("--detector", help="Only findings of this detector.")
@click.option("--min-score", type=SCORE, help="Only findings with at least this score.")
@click.option("--verdict", is_flag=True, help="Only findings whose verdict is yes.")
@click.option(
    "--as",
    "action",
    type=click.Choice(["quarantine", "release", "suspect", "condemn"]),
    default="quarantine",
    show_default=True,
    help="What to decide.",
)
@click.option("--expect", type=WHOLE, help="How many documents you looked at; must be the count.")
@click.option("--incident", help="The incident this belongs to.")
def bulk_(
    asked: Deciding,
    *,
    manifest: Path | None,
    action: str,
    expect: int | None,
    incident: str | None,
    **conditions: Any,
) -> None:
    """Decide about everything a filter names; the count must be confirmed.

    What was found is kept with each document: quarantine why DOC shows it. A filter yields to
    decisions about single documents; quarantine add --from makes such of findings.

    \b
    Examples:
      shardward quarantine bulk --source forum --max-tokens 8 --reason "stubs" --dry-run
      shardward quarantine bulk --findings f.jsonl --min-score 0.9 --reason "junk" --expect 9 --yes
    """
    opened = asked.run
    check_incident(opened, incident)
    corpus = corpus_of(opened, manifest)
    log = DecisionLog(opened.path, manifest=corpus.fingerprint)
    seen = log.head()
    wanted = Filter(**conditions)
    found = matching(wanted, corpus)
    act = asked.does
    if act:
        confirm_count(found.docs.size, expect)
    decision = Decision(
        action=action,
        scope=filter_scope(wanted, found.docs),
        reason=asked.reason,
        actor=asked.actor,
        incident=incident,
        evidence=evidence_of(found.grounds),
    )
    check_given_back(corpus, log.entries(), decision)
    decide(log, decision, seen, act=act, as_json=asked.as_json)


COMMANDS = (diff_, show_, impact_, publish_, pull_, export_, bulk_)
