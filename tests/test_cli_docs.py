"""Every command explains itself, shows an example and stands in docs/cli.md."""

from __future__ import annotations

import shlex

import click
import pytest
from helpers_cli_docs import PAGE, commands, render

from shardward.cli.main import FAMILIES, cli

COMMANDS = dict(commands())
LEAVES = sorted(path for path, found in COMMANDS.items() if not isinstance(found, click.Group))


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_the_command_has_help_with_an_example(path: str) -> None:
    text = COMMANDS[path].help or ""

    assert "Examples:" in text
    assert "shardward " in text.partition("Examples:")[2]


@pytest.mark.parametrize("path", sorted(COMMANDS))
def test_every_option_and_argument_is_explained(path: str) -> None:
    silent = [
        parameter.name
        for parameter in COMMANDS[path].params
        if isinstance(parameter, click.Option) and not parameter.help and not parameter.hidden
    ]

    assert silent == []


@pytest.mark.parametrize("path", LEAVES)
def test_the_examples_parse(path: str) -> None:
    """An example names a command that exists and only options that it has."""
    block = (COMMANDS[path].help or "").partition("Examples:")[2]
    lines = [line.strip() for line in block.splitlines() if line.strip().startswith("shardward ")]

    for line in lines:
        words = shlex.split(line.partition(" | ")[0], comments=True)
        named = next(" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in COMMANDS)
        known = {option for item in COMMANDS[named].params for option in item.opts} | {"--help"}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known, line


@pytest.mark.parametrize("family", sorted(cli.list_commands(click.Context(cli))))
def test_the_family_table_says_what_the_family_says(family: str) -> None:
    text = (COMMANDS[f"shardward {family}"].help or "").strip().splitlines()[0]

    assert text == FAMILIES[family]


def test_the_page_is_what_the_help_says() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), "run `make docs`"
