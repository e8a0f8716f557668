"""`shardward incident` continued: rewind, skip, resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..loader.errors import UsageError
from ..quarantine.respond import response
from ..quarantine.respond.decisions import DecisionLog
from ..quarantine.respond.incident import Event
from ..quarantine.respond.narrative import count
from ..quarantine.respond.operations import (
    HISTORY_STEPS,
    choose_rewind,
    default_watch_plan,
    skipped_so,
    window_skip,
)
from ..quarantine.respond.orders import check_rewind, check_undecided, unrecorded
from ..quarantine.respond.resume import Resume, check_factors
from ..quarantine.respond.selection import parse_steps
from ..quarantine.respond.status import Decision
from ..quarantine.respond.watchplan import WatchPlan
from .incident_options import (
    Asked,
    act_options,
    done_already,
    log_option,
    read_watch_plan,
    said,
    signals,
)
from .ledger_options import opened as opened_ledger
from .numbers import COUNT, FACTOR, WHOLE
from .output import manifest_option
from .respond_options import corpus_of


@click.command()
@act_options
@click.option(
    "--margin", type=WHOLE, default=0, show_default=True, help="Steps to stay clear of the onset."
)
@click.option("--checkpoint", type=WHOLE, help="Go back to this step's; 0: start over.")
def rewind(
    asked: Asked,
    *,
    margin: int,
    checkpoint: int | None,
) -> None:
    """Move the run's head to the last healthy checkpoint before the onset. Stop the trainer first.

    \b
    Examples:
      shardward incident rewind INC-0001 --dry-run
      shardward incident rewind INC-0001 --margin 100 --yes
    """
    opened, incident = asked.run, asked.incident

    def same(_: Event) -> bool:
        plan = response.rewind_plan(incident)
        return plan.margin == margin and checkpoint in (None, plan.checkpoint.step)

    if done_already(asked, "rewind", same=same):
        return
    check_undecided(opened, incident)
    with opened_ledger(opened) as ledger:
        plan = choose_rewind(incident, opened, ledger, margin=margin, checkpoint=checkpoint)
    check_rewind(opened, incident, plan)
    act = asked.does
    if act:
        response.rewind(incident, opened, plan, actor=asked.actor)
    target = plan.checkpoint
    where = target.path or "no checkpoint: fresh weights"
    what = f"rewind to step {target.step} ({where}), {plan.steps_lost} steps back"
    why = "".join(f"\n  step {c.step}: {why}" for c, why in plan.passed_over)
    facts = {"plan": plan.to_json()}
    said(asked, done=act, what=what + why, facts=facts)


@click.command()
@act_options
@manifest_option
@click.option("--window", metavar="FIRST-LAST", help="Also pass over all positions of these steps.")
@click.option("--no-skip", metavar="REASON", help="Leave nothing out: the cause is not the data.")
def skip(
    asked: Asked,
    *,
    manifest: Path | None,
    window: str | None,
    no_skip: str | None,
) -> None:
    """Publish what was decided as the next revision, or say why nothing is left out.

    \b
    Examples:
      shardward incident skip INC-0001 --yes
      shardward incident skip INC-0001 --window 41230-41237 --yes
      shardward incident skip INC-0001 --no-skip "the learning rate was wrong" --yes
    """
    opened, incident = asked.run, asked.incident
    if window and no_skip:
        raise UsageError("--window skips and --no-skip does not; give one of them")
    if incident.last("skip") is None:
        incident.check("skip")  # before the steps are looked for
    decision = _window_skip(asked, window) if window else None
    if done_already(
        asked, "skip", same=lambda done: skipped_so(opened, done, decision, no_skip=no_skip)
    ):
        return
    corpus = corpus_of(opened, manifest)
    if not asked.does:
        what = f"record that nothing is skipped: {no_skip}" if no_skip else "publish a revision"
        what += f" that passes over {decision.scope.describe()}" if decision else ""
        said(asked, done=False, what=what, facts={})
        return
    if decision:
        DecisionLog(opened.path, manifest=opened.fingerprint).append_once(decision)
    revision = response.skip(incident, opened, corpus, actor=asked.actor, no_skip=no_skip)
    facts = {
        "revision": revision.number,
        "documents": int(revision.documents.size),
        "skips": len(revision.skips),
    }
    what = (
        f"revision {revision.number} leaves out {count(revision.documents.size, 'document')} and "
        f"passes over {count(len(revision.skips), 'range')} of positions"
    )
    said(asked, done=True, what=what, facts=facts)


def _window_skip(asked: Asked, window: str) -> Decision:
    first, last = parse_steps(window)
    with opened_ledger(asked.run) as ledger:
        return window_skip(
            asked.incident, asked.run, ledger, first=first, last=last, actor=asked.actor
        )


@click.command()
@act_options
@log_option
@click.option(
    "--lr-factor", type=FACTOR, default=1.0, show_default=True, help="Multiplies the learning rate."
)
@click.option(
    "--clip-factor", type=FACTOR, default=1.0, show_default=True, help="Multiplies the clip norm."
)
@click.option(
    "--mode", type=click.Choice(["compact", "hold"]), help="What becomes of excluded samples."
)
@click.option("--watch-length", type=COUNT, default=500, show_default=True, help="Steps to watch.")
@click.option(
    "--trend",
    type=click.IntRange(8),
    default=HISTORY_STEPS,
    show_default=True,
    help="Steps before the onset that the watch learns from.",
)
@click.option(
    "--watch-plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="An edited plan; --dry-run --json shows the one that would be used.",
)
def resume(
    asked: Asked,
    *,
    log: Path | None,
    lr_factor: float,
    clip_factor: float,
    mode: Any,
    watch_length: int,
    trend: int,
    watch_plan: Path | None,
) -> None:
    """Make the orders final, with a watch plan: the trainer's next start obeys them.

    \b
    Examples:
      shardward incident resume INC-0001 --dry-run --json
      shardward incident resume INC-0001 --lr-factor 0.5 --watch-length 1000 --yes
    """
    opened, incident = asked.run, asked.incident
    check_factors(lr_factor, clip_factor)

    def wanted() -> WatchPlan:
        if watch_plan is not None:
            return read_watch_plan(watch_plan)
        series = signals(opened, log, incident=incident)
        return default_watch_plan(incident, series, length=watch_length, trend=trend)

    def same(done: Event) -> bool:
        orders = Resume.from_json(incident.evidence(done, "orders"))
        factors = (orders.learning_rate_factor, orders.clip_factor) == (lr_factor, clip_factor)
        return factors and mode in (None, orders.cursor.mode) and orders.watch == wanted()

    if done_already(asked, "resume", same=same):
        return
    left = unrecorded(incident, opened)
    if left is not None:
        plan, what = left.watch, f"record the orders {left.id}, which stand since {left.created}"
        _refuse_change(left, lr_factor, clip_factor, mode, given=watch_plan)
    else:
        plan, what = wanted(), "write the orders"
    act = asked.does
    if act:
        response.resume(
            incident,
            opened,
            actor=asked.actor,
            watch=plan,
            mode=mode,
            learning_rate_factor=lr_factor,
            clip_factor=clip_factor,
        )
    what += f"; {plan.describe()}" if plan else "; without a watch"
    facts = {"watch": plan.to_json() if plan else None}
    said(asked, done=act, what=what, facts=facts)


def _refuse_change(
    left: Resume, lr_factor: float, clip_factor: float, mode: str | None, *, given: Path | None
) -> None:
    """Refuse other orders than those that were written and not recorded.

    Raises:
        UsageError: a trainer may have taken them.
    """
    changed = (
        lr_factor not in (1.0, left.learning_rate_factor)
        or clip_factor not in (1.0, left.clip_factor)
        or mode not in (None, left.cursor.mode)
        or (given is not None and read_watch_plan(given) != left.watch)
    )
    if changed:
        raise UsageError(
            f"the orders {left.id} were written and not recorded, and a trainer may have taken "
            "them: repeat without options, then reopen the incident to change them"
        )


ACTS = (rewind, skip, resume)
