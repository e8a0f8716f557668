"""`shardward quarantine consumed`: a new stage that repeats nothing of an earlier run."""

from __future__ import annotations

from pathlib import Path

import click

from ..loader.consumed import consumed_documents, documents_elsewhere
from ..loader.errors import UsageError
from ..loader.run import Run
from ..quarantine.ledger import Ledger
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.operations import where_it_stands
from ..quarantine.respond.scopes import Scope
from ..quarantine.respond.status import Decision
from .output import acts, json_option, manifest_option, mutation_options, run_option, say
from .respond_options import actor_option, corpus_of, decide


@click.command("consumed")
@click.argument("earlier", type=click.Path(exists=True, file_okay=False, path_type=Path))
@run_option
@manifest_option
@actor_option
@mutation_options
@json_option
def consumed(
    *,
    earlier: Path,
    run: Path,
    manifest: Path | None,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Leave out of a new run what the run EARLIER was fed, whole documents only.

    For a plan or a corpus that changed: make a new run for it, take the documents out with --yes
    and publish. Packed rows then have holes; rebuild writes the rest as a corpus without them.

    \b
    Examples:
      shardward quarantine consumed runs/stage1 --run runs/stage2 --yes
      shardward rebuild --run runs/stage2 --out rest --yes
    """
    old, new = Run.open(earlier), Run.open(run)
    if old.run_id == new.run_id:
        raise UsageError(f"{earlier} and {run} are one run; make a new run for the new stage")
    source, corpus = corpus_of(old, None), corpus_of(new, manifest)
    with Ledger.open(old) as ledger:
        cursor, _ = where_it_stands(old, ledger)
    found = consumed_documents(source, old.plan(), cursor)
    here = documents_elsewhere(source, found, corpus)
    say(
        f"run {old.run_id} was fed {found.size} documents up to step {cursor.step}, "
        f"{here.size} of them are in this corpus"
    )
    if not here.size:
        raise UsageError(
            "nothing that the earlier run was fed is in this corpus; nothing is left out"
        )
    log = DecisionLog(new.path, manifest=corpus.fingerprint)
    decision = Decision(
        action="quarantine",
        scope=Scope.of_documents(here.tolist()),
        reason=f"run {old.run_id} was fed it up to step {cursor.step}",
        actor=actor,
        evidence={"run": old.run_id, "cursor": cursor.to_json()},
    )
    decide(log, decision, log.head(), act=acts(yes=yes, dry_run=dry_run), as_json=as_json)


CONSUMED_COMMANDS = (consumed,)
