"""`shardward ledger`: which documents fed which steps."""

from __future__ import annotations

import click

from .ledger_history import check, diff, sql, timeline
from .ledger_places import doc, sample, shard, source
from .ledger_remote import mirror, publish
from .ledger_steps import step, steps
from .ledger_upkeep import export, ingest, rebuild, stats
from .ledger_verify import verify


@click.group()
def ledger() -> None:
    """Ask which documents fed which steps.

    The answer is about the history of the run's head unless --branch, --all or --at says
    otherwise. The first step is 1.

    \b
    Examples:
      shardward ledger step 41237 --run runs/7b
      shardward ledger doc 123456 --run runs/7b --all
      shardward ledger check --run runs/7b
    """


for command in (step, steps, doc, sample, shard, source, diff, timeline, check, verify, sql):
    ledger.add_command(command)
for command in (export, stats, ingest, rebuild, publish, mirror):
    ledger.add_command(command)
