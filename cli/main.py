"""The `shardward` command: one lazily loaded module per family, and how failures end."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NoReturn

import click

from ..loader.errors import ShardwardError
from ..loader.files import FULL

FAMILIES = {
    "corpus": "Index, show and verify corpora.",
    "ledger": "Ask which documents fed which steps.",
    "monitor": "Find loss spikes in a training log.",
    "incident": "Lead a spike from the page to the postmortem.",
    "quarantine": "Decide what the run may no longer eat.",
    "scan": "Rank junk and duplicates in a corpus.",
    "similar": "Find documents like given ones.",
    "rebuild": "Write the corpus without excluded documents.",
    "drill": "Play a full incident on real text.",
}
"""Family → the first line of its help, here so that `shardward --help` imports none of them."""

EXIT_INTERRUPTED = 130
FULL_DISK = "; free some there, or name a directory on another disk, and run the command again"


class Families(click.Group):
    """A group that imports a command family when it is called, and turns errors into messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the families of this installation."""
        return [name for name in FAMILIES if find_spec(f"{__package__}.{name}")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the family `cmd_name`; None when there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = getattr(import_module(f".{cmd_name}", __package__), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the families from the table above, without importing them."""
        rows = [(name, FAMILIES[name]) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an expected error becomes one line and an exit code."""
        try:
            return super().invoke(ctx)
        except ShardwardError as error:
            _fail(ctx, str(error), error.exit_code)
        except KeyboardInterrupt:
            _fail(ctx, "interrupted", EXIT_INTERRUPTED)
        except BrokenPipeError:
            raise  # click ends quietly when the reader of a pipe has gone
        except OSError as error:
            _fail(ctx, _os_message(error), 1)


def _fail(ctx: click.Context, message: str, exit_code: int) -> NoReturn:
    from .output import clean_lines  # noqa: PLC0415 (rich is slow, and most commands end well)

    click.echo(f"error: {clean_lines(message)}", err=True)
    ctx.exit(exit_code)


def _os_message(error: OSError) -> str:
    what = error.strerror or str(error) or type(error).__name__
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{what[:1].lower()}{what[1:]}{FULL_DISK if error.errno in FULL else ''}"


@click.group(
    cls=Families,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="shardward")
def cli() -> None:
    """Which documents fed step N, and how to go on without them.

    \b
    Examples:
      shardward drill
      shardward corpus index 'data/*.parquet' --out manifest
      shardward ledger step 41237 --run runs/7b

    Exit codes: 0 ok, 1 error, 2 usage, 3 the gate found something, 4 busy, 5 integrity
    mismatch, 130 interrupted.
    """


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    cli(prog_name="shardward")
    raise SystemExit(0)
