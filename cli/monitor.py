"""`shardward monitor`: find loss spikes in a training log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.errors import UsageError
from ..loader.files import write_atomic
from ..quarantine.diagnose.chart import html_chart, text_chart
from ..quarantine.diagnose.compare import Comparison
from ..quarantine.diagnose.compare import compare as compare_runs
from ..quarantine.diagnose.config import MonitorConfig
from ..quarantine.diagnose.events import Event
from ..quarantine.diagnose.judged import Judged, judge_log
from ..quarantine.diagnose.picture import png_chart
from ..quarantine.diagnose.replay import detect
from ..quarantine.diagnose.signals import Log, read_log
from .output import emit, json_option, progress, say, table

EXIT_FOUND = 3
PROGRESS_ROWS = 200_000
PROGRESS_BYTES = 64 << 20


@click.group()
def monitor() -> None:
    """Find loss spikes in a training log.

    \b
    Examples:
      shardward monitor check train.csv
      shardward monitor check trainer_state.json --json
      shardward monitor compare run-a.csv run-b.csv
    """


def columns_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name columns and scale the monitor."""
    for option in (
        click.option(
            "--short-run", is_flag=True, help="Scale the monitor to a run of a few hundred steps."
        ),
        click.option(
            "--rule",
            type=click.Choice(["robust", "classic"]),
            default="robust",
            show_default=True,
            help="'classic' is the dual average (0.99, ratio 3), for those who want it.",
        ),
        click.option("--window", type=int, default=None, help="Points in the trend; 128."),
        click.option("--warmup", type=int, default=None, help="First steps, not judged; 500."),
        click.option("--grad-norm", "gradient", default=None, help="Column of the gradient norm."),
        click.option("--loss", default=None, help="Column of the training loss."),
        click.option("--step", default=None, help="Column of the step."),
    ):
        command = option(command)
    return command


@monitor.command()
@click.argument("file", type=click.Path(path_type=Path))
@columns_options
@click.option("--blips", is_flag=True, help="List single high losses too, which page nobody.")
@click.option("--no-gate", is_flag=True, help="Exit 0 even when something pages.")
@click.option(
    "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Write a .html or .png chart."
)
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    /,
    *,
    file: Path,
    blips: bool,
    no_gate: bool,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """List the events of a log: CSV, TSV, JSON lines, trainer_state.json or a TensorBoard file.

    Exits 3 when an event pages (a spike, a divergence, a loss that is not finite), so that a
    job can be gated on it.

    \b
    Examples:
      shardward monitor check train.csv
      shardward monitor check wandb.jsonl --loss train/lm_loss --json
      shardward monitor check short.csv --short-run --blips --no-gate
      shardward monitor check train.csv --plot train.html
    """
    if plot is not None and plot.suffix not in (".html", ".png"):
        raise UsageError(f"--plot {plot} must end in .html or .png")
    found = judge_log(
        file, partial(_config, options), partial(_watch, file), columns=_chosen(options)
    )
    _say_all(file, found)
    _say_if_unjudged(found)
    shown = [event for event in found.events if event.page or blips or event.kind != "blip"]
    payload = {
        "file": str(file),
        "points": found.points,
        "signals": list(found.signals),
        "skipped": list(found.skipped),
        "notes": list(found.notes),
        "blips": found.blips,
        "pages": found.pages,
        "fragility": found.fragile.to_json(),
        "events": [event.to_json() for event in shown],
    }
    if plot is not None:
        _write_plot(plot, file.name, found)
    emit(as_json, payload, lambda console: _render(console, found, shown))
    if payload["pages"] and not no_gate:
        ctx.exit(EXIT_FOUND)


@monitor.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("other", type=click.Path(path_type=Path))
@columns_options
@json_option
def compare(*, run: Path, other: Path, as_json: bool, **options: Any) -> None:
    """Compare the logs of two runs: the same data, and the same spikes?

    The rank correlation of the residuals says whether both saw the same batches. On the same
    data, spikes that coincide make the data suspect; spikes of one run alone clear it.

    \b
    Examples:
      shardward monitor compare run-a.csv run-b.csv
      shardward monitor compare a100.csv h100.csv --json
    """
    log, events = _events(run, options)
    other_log, other_events = _events(other, options)
    scale = _config(options, len(other_log.series["loss"]))
    found = compare_runs(
        log.series,
        other_log.series,
        events,
        other_events,
        least_before=scale.least_points,
        warmup=scale.warmup_steps,
    )
    payload = {"run": str(run), "other": str(other), **found.to_json()}
    emit(as_json, payload, lambda console: _render_comparison(console, found))


def _events(file: Path, options: dict[str, Any]) -> tuple[Log, list[Event]]:
    log = read_log(file, columns=_chosen(options))
    _say_all(file, log)
    points = len(log.series["loss"])
    with _watch(file, "judging", points) as advance:
        return log, detect(log.series, _config(options, points), advance=advance)


def _say_all(file: Path, log: Log | Judged) -> None:
    """Say what was left out of a log, and what was put in order."""
    for words in (*(f"skipped, {words}" for words in log.skipped), *log.notes):
        say(f"{file.name}: {words}")


@contextmanager
def _watch(file: Path, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show progress where it may take more than a few seconds."""
    if total < (PROGRESS_BYTES if what == "reading" else PROGRESS_ROWS):
        yield lambda _: None
    else:
        with progress(f"{what} {file.name}", total) as advance:
            yield advance


def _say_if_unjudged(found: Judged) -> None:
    """A log that ends in the warm-up shows no events, and nobody should take that for health."""
    if found.last_step <= found.config.warmup_steps:
        say(
            f"all {found.points} points lie in the warm-up, up to step "
            f"{found.config.warmup_steps}, so no spike was looked for: say --short-run or --warmup"
        )


_COLUMNS = {"step": "step", "loss": "loss", "grad_norm": "gradient"}


def _chosen(options: dict[str, Any]) -> dict[str, str]:
    return {name: options[key] for name, key in _COLUMNS.items() if options[key]}


def _config(options: dict[str, Any], points: int) -> MonitorConfig:
    given = {"warmup_steps": options["warmup"], "window": options["window"]}
    try:
        config = MonitorConfig()
        if options["short_run"]:
            config = MonitorConfig.for_short_run(points)
        changes = {name: value for name, value in given.items() if value is not None}
        return config.changed(rule=options["rule"], **changes)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _write_plot(plot: Path, title: str, found: Judged) -> None:
    if plot.suffix == ".png":
        write_atomic(plot, png_chart(title, found.curve, found.events))
    else:
        write_atomic(plot, html_chart(title, found.curve, found.events).encode())
    say(f"wrote {plot}")


def _render(console: Console, found: Judged, shown: list[Event]) -> None:
    console.print(text_chart(found.curve, found.events, width=min(console.width - 12, 160)))
    if shown:
        columns = ("event", "page", "onset", "paged", "back", "peak", "trend", "score", "signals")
        console.print(table("", columns, [_row(event) for event in shown]))
    fragile = found.fragile
    console.print(
        f"{found.points} points, {found.pages} pages, {found.blips} blips; "
        f"{fragile.spikes_per_thousand:.2f} events per 1,000 points, trend {fragile.trend:+.2f}"
    )
    if fragile.far_share is not None:
        console.print(f"{fragile.far_share:.3%} of the losses are 7 sigma off the mean of 1,000")


def _row(event: Event) -> tuple[object, ...]:
    return (
        event.kind,
        "yes" if event.page else "no",
        event.onset,
        event.detected,
        event.end if event.end is not None else "-",
        event.peak,
        event.baseline,
        event.z,
        ", ".join(event.signals),
    )


def _render_comparison(console: Console, found: Comparison) -> None:
    correlation = "unknown" if found.correlation is None else f"{found.correlation:.3f}"
    verdict = {True: "the same data", False: "other data", None: "cannot say"}[found.same_data]
    console.print(f"{found.common_points} common points, rank correlation {correlation}: {verdict}")
    console.print(f"spikes in both: {', '.join(map(str, found.coinciding)) or 'none'}")
    console.print(f"spikes of the first alone: {', '.join(map(str, found.alone)) or 'none'}")
    if found.unclear:
        steps = ", ".join(map(str, found.unclear))
        console.print(f"spikes for which the second has too few points to tell: {steps}")
