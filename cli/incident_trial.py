"""`shardward incident trial`: does the spike come back?"""

from __future__ import annotations

from pathlib import Path

import click

from ..quarantine.respond.command import run_command
from ..quarantine.respond.operations import branch_of_spike, choose_rewind
from ..quarantine.respond.telemetry import ledger_series
from ..quarantine.respond.trial import TRIALS, attach_trial, judge_trial, trial_home, trial_spec
from .incident_options import Asked, act_options, said
from .ledger_options import opened as opened_ledger
from .numbers import SECONDS
from .output import manifest_option, say
from .respond_options import corpus_of


@click.command()
@act_options
@manifest_option
@click.option(
    "--kind",
    type=click.Choice(TRIALS),
    default="replay",
    show_default=True,
    help="The same batches, or the newest revision's hole passed over or held.",
)
@click.option("--command", required=True, help='The trainer, such as "train.sh {spec} {metrics}".')
@click.option(
    "--timeout",
    type=SECONDS,
    help="Seconds after which the trainer is stopped.",
)
def trial(
    asked: Asked,
    *,
    manifest: Path | None,
    kind: str,
    command: str,
    timeout: float | None,
) -> None:
    """Run the steps of the event again with your trainer, on a branch that moves nothing.

    The trainer opens its loader with the cursor in spec.json and reason="trial".

    \b
    Examples:
      shardward incident trial INC-0001 --command "train.sh {spec} {metrics}" --yes
      shardward incident trial INC-0001 --kind skip --command "train.sh {spec} {metrics}" --yes
    """
    opened, incident = asked.run, asked.incident
    with opened_ledger(opened) as ledger:
        plan = choose_rewind(incident, opened, ledger)
        original = ledger_series(ledger, branch_of_spike(incident, opened))
    spec = trial_spec(incident, opened, corpus_of(opened, manifest), plan, kind, original=original)
    what = f"try {kind} of steps {spec.first} to {spec.last} from {spec.checkpoint}"
    if not asked.does:
        facts = {"spec": spec.to_json()}
        said(asked, done=False, what=what, facts=facts)
        return
    say(what)
    found = run_command(command, spec, trial_home(incident, kind), timeout=timeout)
    result = judge_trial(incident, spec, found, original)
    attach_trial(incident, result, actor=asked.actor)
    what = f"{kind}: the spike {'came back' if result.recurred else 'stayed away'}"
    if result.bitwise is not None:
        what += ", the numbers are the same" if result.bitwise else ", the numbers differ"
    said(asked, done=True, what=what, facts=result.to_json())
