"""`shardward quarantine held`: damaged blocks that loaders masked, and a revision without them."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ..loader.run import Run
from ..quarantine.ledger import Ledger
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.held import held_blocks, propose
from .output import acts, emit, json_option, manifest_option, mutation_options, run_option, table
from .respond_options import actor_option, corpus_of, entries_json


@click.command("held")
@run_option
@manifest_option
@actor_option
@mutation_options
@json_option
def held(
    *, run: Path, manifest: Path | None, actor: str, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Show the damaged blocks that loaders masked, and propose to leave their documents out.

    A loader with on_corrupt="hold" masks a block that stays damaged. Restore its shard, or take
    the proposal with --yes and publish: the next load then steps around the documents.

    \b
    Examples:
      shardward quarantine held --run runs/7b
      shardward quarantine held --run runs/7b --yes && shardward quarantine publish --yes
    """
    opened = Run.open(run)
    corpus = corpus_of(opened, manifest)
    log = DecisionLog(opened.path, manifest=corpus.fingerprint)
    seen, entries = log.head(), log.entries()
    with Ledger.open(opened) as ledger:
        blocks = held_blocks(ledger, corpus, entries)
    proposed, act = propose(blocks, actor=actor), acts(yes=yes, dry_run=dry_run)
    done = []
    for decision in proposed if act else ():
        appended = log.append_after(decision, seen=seen)
        seen = log.head()
        done.append(appended.entry)
    documents = sum(len(decision.scope.documents) for decision in proposed)

    def render(out: Console) -> None:
        names = ("block", "shard", "first_document", "documents", "piece", "step", "state", "error")
        rows = [[getattr(block, name) for name in names] for block in blocks]
        out.print(table("Blocks that loaders masked", names, rows))
        if done:
            out.print(
                f"{documents} documents are left out from the next revision on: "
                "shardward quarantine publish"
            )
        elif proposed:
            out.print(f"would quarantine {documents} documents; say --yes to do it")

    payload = {
        "done": bool(done),
        "blocks": [block.to_json() for block in blocks],
        "proposed_documents": documents,
        "decisions": entries_json(done),
    }
    emit(as_json, payload, render)


HELD_COMMANDS = (held,)
