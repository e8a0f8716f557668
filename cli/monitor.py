"""`shardward monitor`: find loss spikes in a training log."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from ..loader.errors import UsageError
from ..quarantine.diagnose.config import MonitorConfig
from ..quarantine.diagnose.events import Event
from ..quarantine.diagnose.monitor import detect
from ..quarantine.diagnose.signals import Log, read_log
from .output import emit, json_option, table

EXIT_FOUND = 3


@click.group()
def monitor() -> None:
    """Find loss spikes in a training log.

    \b
    Examples:
      shardward monitor check train.csv
      shardward monitor check trainer_state.json --json
    """


@monitor.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--step", "step_column", default=None, help="Column of the step.")
@click.option("--loss", "loss_column", default=None, help="Column of the training loss.")
@click.option("--grad-norm", "gradient_column", default=None, help="Column of the gradient norm.")
@click.option("--warmup", type=int, default=None, help="Steps not judged; 500 by default.")
@click.option("--window", type=int, default=None, help="Points in the baseline; 128 by default.")
@click.option(
    "--short-run", is_flag=True, help="Scale warm-up and window to a run of a few hundred steps."
)
@click.option("--blips", is_flag=True, help="List single high losses too, which page nobody.")
@click.option("--no-gate", is_flag=True, help="Exit 0 even when something pages.")
@json_option
@click.pass_context
def check(
    ctx: click.Context,
    *,
    file: Path,
    step_column: str | None,
    loss_column: str | None,
    gradient_column: str | None,
    warmup: int | None,
    window: int | None,
    short_run: bool,
    blips: bool,
    no_gate: bool,
    as_json: bool,
) -> None:
    """List the events of a log: CSV, JSON lines or Hugging Face trainer_state.json.

    Exits 3 when an event pages (a spike, a divergence, a loss that is not finite), so that a
    job can be gated on it.

    \b
    Examples:
      shardward monitor check train.csv
      shardward monitor check wandb.jsonl --loss train/lm_loss --json
      shardward monitor check short.csv --short-run --blips --no-gate
    """
    chosen = {"step": step_column, "loss": loss_column, "grad_norm": gradient_column}
    log = read_log(file, columns={name: each for name, each in chosen.items() if each})
    events = detect(log.series, _config(log, warmup=warmup, window=window, short_run=short_run))
    shown = [event for event in events if event.page or blips or event.kind != "blip"]
    payload = {
        "file": str(file),
        "points": len(log.series["loss"]),
        "signals": sorted(log.series),
        "skipped": list(log.skipped),
        "blips": sum(event.kind == "blip" for event in events),
        "pages": sum(event.page for event in events),
        "events": [event.to_json() for event in shown],
    }
    emit(as_json, payload, lambda console: _render(console, log, events, shown))
    if payload["pages"] and not no_gate:
        ctx.exit(EXIT_FOUND)


def _config(log: Log, *, warmup: int | None, window: int | None, short_run: bool) -> MonitorConfig:
    try:
        config = MonitorConfig()
        if short_run:
            config = MonitorConfig.for_short_run(len(log.series["loss"]))
        given = {"warmup_steps": warmup, "window": window}
        return config.changed(**{name: value for name, value in given.items() if value is not None})
    except ValueError as error:
        raise UsageError(str(error)) from error


def _render(console: Console, log: Log, events: list[Event], shown: list[Event]) -> None:
    for line in log.skipped:
        console.print(f"skipped: {line}")
    if shown:
        columns = ("event", "page", "onset", "paged", "back", "peak", "trend", "score", "signals")
        rows = [
            (
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
            for event in shown
        ]
        console.print(table("", columns, rows))
    blips = sum(event.kind == "blip" for event in events)
    pages = sum(event.page for event in events)
    console.print(f"{len(log.series['loss'])} points, {pages} pages, {blips} blips")
