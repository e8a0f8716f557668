"""No option takes a number that is none, or an endless one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import pytest

from shardward.cli.main import cli
from shardward.cli.numbers import Finite


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}".strip(), command


FLOATS: list[tuple[str, click.ParamType[Any]]] = [
    (f"{name} {parameter.opts[0]}", parameter.type)
    for name, command in commands(cli)
    for parameter in command.params
    if isinstance(parameter.type, click.types.FloatParamType)
]


def test_every_option_with_a_float_takes_finite_numbers_only() -> None:
    assert len(FLOATS) >= 9
    assert [name for name, kind in FLOATS if not isinstance(kind, Finite)] == []


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e999", "NaN"])
def test_numbers_that_are_none_or_endless_are_refused(text: str) -> None:
    for _, kind in FLOATS:
        with pytest.raises(click.BadParameter):
            kind.convert(text, None, None)


def test_times_and_factors_are_over_zero() -> None:
    above = [kind for name, kind in FLOATS if name.split("--")[1] != "min-score"]
    for kind in above:
        for text in ("-1", "0", "-1e-300"):
            with pytest.raises(click.BadParameter):
                kind.convert(text, None, None)
