"""`shardward drill`: a full incident on real text, from a clean machine to a filed report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.errors import MissingExtra
from .output import Advance, console, emit, json_option, progress, say, table

PHASES = 13
EXIT_GATE = 3


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Empty or new directory; by default the next free one under drill-out.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True,
              help="Of salt, placement, order and weights.")  # fmt: skip
@click.option(
    "--corpus",
    metavar="PATH_OR_GLOB",
    help="Your own Parquet, Arrow or JSONL files with a text column.",
)
@click.option("--no-salt", is_flag=True, help="Control: a clean run, which must page nobody.")
@json_option
@click.pass_context
def drill(
    ctx: click.Context,
    *,
    out: Path | None,
    seed: int,
    corpus: str | None,
    no_salt: bool,
    as_json: bool,
) -> None:
    """Play a full incident on real text.

    Collects text from this machine, hides trouble in it, trains a small transformer until the
    loss jumps, and responds: confirm, identify, rewind, replay, find, quarantine, resume, watch,
    file, rebuild. Takes about three minutes on two cores and needs no network. Exits 3 when what
    was found does not match what was hidden.

    \b
    Examples:
      shardward drill
      shardward drill --seed 3 --out /tmp/drill-3
      shardward drill --corpus 'data/*.parquet' --json
      shardward drill --no-salt
    """
    _require("torch", "matplotlib")
    from ..quarantine.drill.play import play  # noqa: PLC0415  torch takes seconds to import

    narrator = _Quiet() if as_json else _Teller()
    result = play(narrator, out=out, seed=seed, corpus=corpus, salted=not no_salt)
    emit(as_json, result, lambda target: _summary(target, result))
    if not result["passed"]:
        ctx.exit(EXIT_GATE)


def _require(*modules: str) -> None:
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"the drill needs {' and '.join(missing)}, which is not installed; run: "
            "pip install 'shardward[drill]'"
        )


class _Quiet:
    """Phases and progress on stderr, nothing on stdout."""

    def phase(self, number: int, title: str) -> None:
        say(f"[{number}/{PHASES}] {title}")

    def say(self, line: str) -> None:
        say(f"  {line}")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        say(f"  {title}")

    def progress(self, description: str, total: int) -> AbstractContextManager[Advance]:
        return progress(f"  {description}", total)


class _Teller(_Quiet):
    """The same, with tables and facts on stdout."""

    def __init__(self) -> None:
        self._console = console()

    def phase(self, number: int, title: str) -> None:
        self._console.print(f"\n[{number}/{PHASES}] {title}", style="bold")

    def say(self, line: str) -> None:
        self._console.print(f"  {line}")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        self._console.print(table(title, columns, rows))


def _summary(target: Console, result: dict[str, Any]) -> None:
    target.print()
    target.print(table("summary", ("what", "result"), _facts(result)))
    if result["score"]:
        _scores(target, result["score"])
    target.print(table("what was made", ("what", "where"), list(result["paths"].items())))
    target.print("what to type next", style="bold")
    for command in result["next"]:
        target.print(f"  {command}", soft_wrap=True)


def _facts(result: dict[str, Any]) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("seed", result["seed"]),
        ("corpus", f"{result['corpus']['documents']} documents, {result['corpus']['digest'][:12]}"),
        ("steps", result["steps"]),
    ]
    for incident in result["incidents"]:
        facts += _incident_facts(incident)
    if not result["incidents"]:
        facts.append(("incidents", "none"))
    if result["rebuild"]:
        rebuilt = result["rebuild"]
        rows = f"{rebuilt['rows_in']} in = {rebuilt['rows_out']} out + {rebuilt['removed']} removed"
        facts.append(("rebuild", rows))
    facts.append(("seconds", sum(result["seconds"].values())))
    facts.append(("passed", "yes" if result["passed"] else "NO"))
    return facts


def _incident_facts(incident: dict[str, Any]) -> list[tuple[str, object]]:
    event, found, trial = incident["event"], incident["found"], incident["replay"]
    proof, watch, cause = incident["proof"], incident["watch"], incident["causes"][0]
    return [
        ("incident", f"{incident['id']}, {incident['state']} as {incident['outcome']}"),
        ("onset, page", f"step {event['onset']}, step {event['step']}"),
        ("other signals", incident["checklist"]["verdict"]),
        ("rewound to", f"step {incident['rewind']['step']}"),
        ("replay", f"recurred: {trial['recurred']}, bit for bit: {trial['bitwise']}"),
        ("found", f"{found['culprits']} in the window, {found['relatives']} elsewhere"),
        ("acquitted", f"{found['acquitted']} copies of what the run had eaten before"),
        ("revision", f"{incident['revision']['number']}: {incident['revision']['documents']} out"),
        ("proof", f"{sum(c['holds'] for c in proof['checks'])} of {len(proof['checks'])} hold"),
        ("watch", f"{watch['verdict']} to step {watch['seen_to']}"),
        (
            "likeliest cause",
            f"{cause['name']} {cause['score']:.2f}",
        ),
    ]


def _scores(target: Console, score: dict[str, Any]) -> None:
    columns = ("family", "salted", "found", "recall", "precision")
    rows = [tuple(family[name] for name in columns) for family in score["families"]]
    target.print(table("found against the truth", columns, rows))
    unsalted = [
        (one["doc"], one["id"], "yes" if one["justified"] else "NO", one["reason"])
        for one in score["unsalted"]
    ]
    if unsalted:
        title = "found without having been salted, judged afresh"
        target.print(table(title, ("doc", "id", "justified", "found because"), unsalted))
