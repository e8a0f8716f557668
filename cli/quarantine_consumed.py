"""`shardward quarantine consumed`: a new stage that repeats nothing of an earlier run."""

from __future__ import annotations

from pathlib import Path

import click

from ..loader.consumed import consumed_documents
from ..loader.errors import MismatchError, UsageError
from ..loader.run import Run
from ..quarantine.ledger import Ledger
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.fed_elsewhere import FedElsewhere, fed_elsewhere
from ..quarantine.respond.operations import where_it_stands
from ..quarantine.respond.scopes import Scope
from ..quarantine.respond.status import Decision
from .output import acts, json_option, manifest_option, mutation_options, run_option, say
from .respond_options import actor_option, corpus_of, decide


@click.command("consumed")
@click.argument("earlier", type=click.Path(exists=True, file_okay=False, path_type=Path))
@run_option
@manifest_option
@click.option(
    "--earlier-manifest",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Manifest of EARLIER, where it or its corpus has moved.",
)
@click.option(
    "--allow-unknown", is_flag=True, help="Go on where some of what was fed cannot be looked for."
)
@actor_option
@mutation_options
@json_option
def consumed(
    *,
    earlier: Path,
    run: Path,
    manifest: Path | None,
    earlier_manifest: Path | None,
    allow_unknown: bool,
    actor: str,
    yes: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Leave out of a new run what the run EARLIER was fed, whole documents only.

    For a plan or a corpus that changed: make a new run for it, take the documents out with --yes
    and publish. Packed rows then have holes; rebuild writes the rest as a corpus without them.

    Shards that are the same are known by their bytes. Of shards that a rebuild wrote anew, both
    the earlier and the new ones are read, and every copy of what was fed is left out. Exit 1 if
    earlier shards that have changed cannot be read: what was fed from them may come again.

    \b
    Examples:
      shardward quarantine consumed runs/stage1 --run runs/stage2 --yes
      shardward rebuild --run runs/stage2 --out rest --yes
    """
    old, new = Run.open(earlier), Run.open(run)
    if old.run_id == new.run_id:
        raise UsageError(f"{earlier} and {run} are one run; make a new run for the new stage")
    source, corpus = corpus_of(old, earlier_manifest), corpus_of(new, manifest)
    with Ledger.open(old) as ledger:
        cursor, _ = where_it_stands(old, ledger)
    found = consumed_documents(source, old.plan(), cursor)
    where = fed_elsewhere(source, found, corpus)
    here = where.here
    say(
        f"run {old.run_id} was fed {found.size} documents up to step {cursor.step}: "
        f"{where.found} of them are in this corpus, {where.gone} are not, and {where.unknown} "
        f"could not be looked for; {here.size} documents to leave out"
    )
    if where.unknown and not allow_unknown:
        raise MismatchError(_unknown(where, source.root))
    if not here.size:
        raise UsageError(
            "nothing that the earlier run was fed was found in this corpus; nothing is left out"
        )
    log = DecisionLog(new.path, manifest=corpus.fingerprint)
    decision = Decision(
        action="quarantine",
        scope=Scope.of_documents(here.tolist()),
        reason=f"run {old.run_id} was fed it up to step {cursor.step}",
        actor=actor,
        evidence={"run": old.run_id, "cursor": cursor.to_json()},
    )
    decide(
        log, decision, log.head(), act=acts(yes=yes, dry_run=dry_run), as_json=as_json, once=True
    )


def _unknown(where: FedElsewhere, root: str) -> str:
    more = f" and {len(where.shards) - 3} more" if len(where.shards) > 3 else ""
    return (
        f"{where.unknown} documents that the earlier run was fed lie in shards that this corpus "
        f"does not have and that cannot be read or compared ({', '.join(where.shards[:3])}{more} "
        f"under {root}), so they may be in it and come again; put these shards back, or name a "
        "manifest of them with --earlier-manifest, or go on without with --allow-unknown"
    )


CONSUMED_COMMANDS = (consumed,)
