"""`shardward drill`: a full incident on real text, from a clean machine to a filed report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.errors import MissingExtra, UsageError
from .output import Advance, clean, console, emit, json_option, progress, say, table

EXIT_GATE = 3
EXIT_INTERRUPTED = 130
MOST_LINE = 1000


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Directory, new or of a drill to go on with; by default the next free under drill-out.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True,
              help="Of salt, placement, order and weights.")  # fmt: skip
@click.option(
    "--corpus",
    metavar="PATH_OR_GLOB",
    help="Your own Parquet, Arrow or JSONL files with a text column.",
)
@click.option(
    "--cause",
    type=click.Choice(["data", "learning-rate"]),
    default="data",
    show_default=True,
    help="What goes wrong: trouble in the text, or a learning rate raised in mid-run.",
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
    cause: Any,
    no_salt: bool,
    as_json: bool,
) -> None:
    """Play a full incident on real text.

    Collects text from this machine, hides trouble in it, trains a small transformer until the
    loss jumps, and responds with the commands of shardward alone: confirm, identify, rewind,
    replay, find, quarantine, resume, watch, file, rebuild. With --cause learning-rate the text is
    clean and the incident ends without a skip. Takes about two minutes on two idle cores and
    needs no network. Exits 3 when what was found does not match what was hidden.

    Every command is printed and kept in commands.log. A drill that was stopped goes on where it
    stood when it is started again with the same options and its --out.

    \b
    Examples:
      shardward drill
      shardward drill --seed 3 --out /tmp/drill-3
      shardward drill --cause learning-rate
      shardward drill --corpus 'data/*.parquet' --json
      shardward drill --no-salt
    """
    if no_salt and cause != "data":
        raise UsageError("--no-salt is a run in which nothing goes wrong; leave out --cause")
    _require("torch", "matplotlib")
    from ..quarantine.drill.play import play  # noqa: PLC0415  torch takes seconds to import

    narrator = _Quiet() if as_json else _Teller()
    try:
        result = play(
            narrator, out=out, seed=seed, corpus=corpus, cause="none" if no_salt else cause
        )
    except KeyboardInterrupt as error:
        if not error.args:
            raise
        say(str(error))  # says that it was interrupted, and how it goes on
        ctx.exit(EXIT_INTERRUPTED)
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

    def phase(self, number: int, total: int, title: str) -> None:
        say(f"[{number}/{total}] {title}")

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

    def phase(self, number: int, total: int, title: str) -> None:
        self._console.print(f"\n[{number}/{total}] {title}", style="bold")

    def say(self, line: str) -> None:
        self._console.print(f"  {clean(line, limit=MOST_LINE)}")

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        self._console.print(table(title, columns, rows))


def _summary(target: Console, result: dict[str, Any]) -> None:
    target.print()
    target.print(table("summary", ("what", "result"), _facts(result)))
    if result["score"]:
        _scores(target, result["score"])
    target.print(table("what was made", ("what", "where"), list(result["paths"].items())))
    for report in (path for name, path in result["paths"].items() if name == "incident_html"):
        target.print(f"the postmortem to read: {report}", soft_wrap=True)
    target.print("what to type next", style="bold")
    for command in result["next"]:
        target.print(f"  {command}", soft_wrap=True)


def _facts(result: dict[str, Any]) -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("seed", result["seed"]),
        ("corpus", f"{result['corpus']['documents']} documents, {result['manifest'][:12]}"),
        ("text before salting", result["corpus"]["digest"][:12]),
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
    event, trial = incident["event"], incident["replay"]
    watch, cause = incident["watch"], incident["causes"][0]
    ended = _skipped(incident) if "found" in incident else _left(incident)
    return [
        ("incident", f"{incident['id']}, {incident['state']} as {incident['outcome']}"),
        ("onset, page", f"step {event['onset']}, step {event['step']}"),
        ("other signals", incident["checklist"]["verdict"]),
        ("rewound to", f"step {incident['rewind']['step']}"),
        ("replay", f"{_came(trial['recurred'])}, {_same(trial['bitwise'])}"),
        *ended,
        ("watch", f"{watch['verdict']} to step {watch['seen_to']}"),
        ("likeliest cause", f"{cause['name']} {cause['score']:.2f}"),
    ]


def _came(recurred: bool) -> str:
    return "the spike came back" if recurred else "the spike did not come back"


def _same(bitwise: bool) -> str:
    return "bit for bit the same" if bitwise else "with other numbers"


def _skipped(incident: dict[str, Any]) -> list[tuple[str, object]]:
    found, revision = incident["found"], incident["revision"]
    checks = incident["proof"]["checks"]
    return [
        ("found", f"{found['culprits']} in the window, {found['relatives']} elsewhere"),
        ("acquitted", f"{found['acquitted']} copies of what the run had eaten before"),
        ("revision", f"{revision['number']}: {revision['documents']} out"),
        ("proof", f"{sum(check['holds'] for check in checks)} of {len(checks)} hold"),
    ]


def _left(incident: dict[str, Any]) -> list[tuple[str, object]]:
    taken = incident["exit"]
    return [
        ("left as", f"{taken['act']}: {taken['reason']}"),
        ("learning rate", f"times {taken['learning_rate_factor']:.4g}; nothing skipped"),
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
        title = "found without having been salted; the truth was frozen before the search"
        target.print(table(title, ("doc", "id", "justified", "found because"), unsalted))
