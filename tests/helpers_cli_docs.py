"""docs/cli.md, made from the commands' own help. Run this file to write it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from helpers_tree import ROOT

from shardward.cli.main import cli

PAGE = ROOT / "docs" / "cli.md"
HEAD = """# Commands

Written from the commands' own help by `make docs`; a test compares the two.
Every command that prints data has `--json`: one object with `"schema_version"` on stdout, while
progress goes to stderr. A command that changes something does so only with `--yes`.

| exit code | meaning |
|---|---|
| 0 | ok |
| 1 | error |
| 2 | usage |
| 3 | the gate found something |
| 4 | another process holds the ledger or the run |
| 5 | integrity mismatch |
| 130 | interrupted |
"""


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield (`shardward family command`, command) for every leaf and group, in order."""
    yield from _walk("shardward", cli, click.Context(cli, info_name="shardward"))


def _walk(
    path: str, command: click.Command, ctx: click.Context
) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None
            yield from _walk(
                f"{path} {name}", child, click.Context(child, info_name=name, parent=ctx)
            )


def prose(command: click.Command) -> str:
    """Return the command's help text, with its examples as one code block."""
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    before, mark, examples = text.partition("Examples:\n")
    if not mark:
        return before.strip()
    block, _, after = examples.partition("\n\n")
    shown = "\n".join(line.strip() for line in block.splitlines())
    return "\n\n".join(
        part for part in (before.strip(), f"```\n{shown}\n```", after.strip()) if part
    )


def options(command: click.Command) -> str:
    """Return tables of the command's arguments and options: name, values, default, meaning."""
    ctx = click.Context(command, show_default=True)
    arguments = [param for param in command.params if isinstance(param, click.Argument)]
    shown = [
        param for param in command.params if isinstance(param, click.Option) and not param.hidden
    ]
    usage = [f"Arguments: {' '.join(f'`{item.make_metavar(ctx)}`' for item in arguments)}"]
    table = ["| option | values | meaning |", "|---|---|---|", *(_row(item, ctx) for item in shown)]
    parts = [*(usage if arguments else []), *(["\n".join(table)] if shown else [])]
    return "\n\n".join(parts)


def _row(option: click.Option, ctx: click.Context) -> str:
    extra = option.get_help_extra(ctx)
    choices = option.make_metavar(ctx).strip("[]") if isinstance(option.type, click.Choice) else ""
    values = f"`{choices or option.make_metavar(ctx)}`".replace("|", "`, `")
    values = "" if option.is_flag else values
    notes = {
        "required": option.required,
        "repeatable": option.multiple,
        f"default {extra.get('default', '').strip('()')}": "default" in extra,
        f"range {extra.get('range')}": "range" in extra,
        f"or ${option.envvar}": option.envvar,
    }
    said = ", ".join(note for note, holds in notes.items() if holds)
    meaning = (option.help or "").replace("|", "/")
    names = ", ".join([*option.opts, *option.secondary_opts])
    return f"| `{names}` | {values} | {meaning}{f' ({said})' if said else ''} |"


def render() -> str:
    """Return the whole page."""
    sections = [
        "\n\n".join(part for part in (f"## `{path}`", prose(command), options(command)) if part)
        for path, command in commands()
    ]
    return "\n\n".join([HEAD.strip(), *sections]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
