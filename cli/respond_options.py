"""What the commands of the response share: the actor, the corpus, and how decisions look."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from ..loader.errors import MismatchError
from ..loader.manifest import Manifest
from ..loader.run import Run
from ..quarantine.respond.chain import ChainHead
from ..quarantine.respond.decisions import Appended, DecisionLog, entry_json
from ..quarantine.respond.incident import IncidentStore
from ..quarantine.respond.preview import Preview
from ..quarantine.respond.status import Decision, Entry
from .output import acts, clean, emit, json_option, mutation_options, run_option, say, table

MOST_NAMED = 40
REASON = click.option("--reason", required=True, help="Why; kept for ever.")
Command = TypeVar("Command", bound=Callable[..., Any])


def actor_option(command: Command) -> Command:
    """Add `--actor NAME` as the parameter `actor`."""
    return click.option(
        "--actor",
        envvar="SHARDWARD_ACTOR",
        default=getpass.getuser,
        show_default="the user's login",
        show_envvar=True,
        help="Who decides; kept for ever.",
    )(command)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding:
    """What every decision is asked with; `does` is whether it shall be made, not only shown."""

    run: Run
    reason: str
    actor: str
    does: bool
    as_json: bool


def decision_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--run`, `--reason`, `--actor`, `--yes`, `--dry-run` and `--json`.

    The command gets them as one `Deciding`, before its own options.
    """

    @wraps(command)
    def asking(
        *,
        run: Path,
        reason: str,
        actor: str,
        yes: bool,
        dry_run: bool,
        as_json: bool,
        **own: Any,
    ) -> None:
        does = acts(yes=yes, dry_run=dry_run)
        command(
            Deciding(run=Run.open(run), reason=reason, actor=actor, does=does, as_json=as_json),
            **own,
        )

    asked = asking
    for option in (json_option, mutation_options, actor_option, REASON, run_option):
        asked = option(asked)
    return asked


def check_incident(run: Run, incident: str | None) -> None:
    """Refuse a decision that names an incident which the run does not have.

    Raises:
        NotFound: the message lists those it has.
    """
    if incident is not None:
        IncidentStore(run.path).get(incident)


def corpus_of(run: Run, manifest: Path | None) -> Manifest:
    """Open the manifest given, or the one the run was made with; it must be the run's.

    Raises:
        MismatchError: it describes another corpus.
    """
    found = Manifest.load(manifest or run.manifest_path)
    if found.fingerprint != run.fingerprint:
        raise MismatchError(
            f"the manifest {found.path} is of corpus {found.fingerprint[:12]}, the run of "
            f"{run.fingerprint[:12]}; give the manifest that the run was made with"
        )
    return found


def entry_rows(entries: Sequence[Entry]) -> list[list[object]]:
    """Return the rows of a table of decisions."""
    return [
        [
            e.sequence,
            e.time[:19],
            e.decision.action,
            e.decision.scope.describe(),
            e.decision.reason,
            e.decision.actor,
            e.decision.incident or "",
        ]
        for e in entries
    ]


ENTRY_COLUMNS = ("number", "time", "action", "scope", "reason", "actor", "incident")


def show_entries(console: Console, title: str, entries: Sequence[Entry]) -> None:
    """Print a table of decisions."""
    console.print(table(title, ENTRY_COLUMNS, entry_rows(entries)))


def entries_json(entries: Sequence[Entry]) -> list[Mapping[str, Any]]:
    """Return decisions for `--json`."""
    return [entry_json(entry) for entry in entries]


def decide(
    log: DecisionLog,
    decision: Decision,
    seen: ChainHead,
    *,
    act: bool,
    as_json: bool,
    preview: Preview | None = None,
    once: bool = False,
    facts: Mapping[str, Any] | None = None,
) -> None:
    """Append `decision` if `act`, and show what was or would be written; nobody is overlooked.

    `preview` is what it would change, shown with what would be written. With `once` nothing is
    written where an earlier decision says the same and still holds. `facts` join the JSON.
    """
    stands = log.standing(decision) if once else None
    done = log.append_after(decision, seen=seen) if act and stands is None else None
    payload = _decided(decision, done if stands is None else Appended(entry=stands))
    payload.update(facts or {})
    if preview is not None:
        payload["preview"] = preview.to_json()
    what = clean(_about(decision), limit=240)

    def render(out: Console) -> None:
        if stands is not None:
            out.print(f"decision {stands.sequence} says so already: {decision.action} {what}")
            return
        if done is None:
            out.print(f"would {decision.action} {what}; say --yes to do it")
            if preview is not None:
                _show_preview(out, preview)
            return
        out.print(f"decision {done.entry.sequence}: {decision.action} {what}")
        if done.earlier:
            show_entries(out, "Meanwhile others decided", done.earlier)

    emit(as_json, payload, render)
    if done is not None and decision.action != "undo" and not as_json:
        say("the run learns of it with the next revision: shardward quarantine publish")


def _show_preview(out: Console, preview: Preview) -> None:
    changes = [
        (title, change)
        for title, change in (("comes back", preview.back), ("goes out", preview.out))
        if change.difference.added or change.difference.skips_added
    ]
    if not changes:
        out.print("it would change nothing: other decisions stand, see quarantine why")
    for title, change in changes:
        difference = change.difference
        facts: list[list[object]] = [
            ["documents", change.documents],
            ["tokens", change.tokens],
            ["samples ahead", change.samples],
            ["first step ahead", change.first_step],
            ["which", ", ".join(map(str, difference.added[:MOST_NAMED]))],
        ]
        facts += [[f"of {each.name}", f"{each.tokens} tokens"] for each in change.sources]
        facts += [
            ["positions", f"{s['start']}-{s['end']} of epoch {s['epoch']}"]
            for s in difference.skips_added
        ]
        out.print(table(title, ("what", "how much"), facts))


def _about(decision: Decision) -> str:
    """Return what is decided about, with the number of documents where the scope was resolved."""
    scope = decision.scope
    if len(scope.documents) == 1 or not scope.documents:
        return scope.describe()
    return f"{scope.describe()}: {len(scope.documents)} documents"


def _decided(decision: Decision, done: Appended | None) -> dict[str, Any]:
    if done is None:
        return {
            "done": False,
            "action": decision.action,
            "scope": decision.scope.to_json(),
            "documents": len(decision.scope.documents),
        }
    return {
        "done": True,
        "decision": entry_json(done.entry),
        "earlier": entries_json(done.earlier),
    }
