"""Numbers on the command line: finite ones only, within bounds that make sense."""

from __future__ import annotations

import math
from typing import Any

import click

LARGEST = (1 << 63) - 1
"""The largest step, position or document that the formats can hold."""
YEAR = 366 * 86400.0
"""The longest wait in seconds; more is no wish, and clocks overflow."""


class Finite(click.FloatRange):
    """A range of floats without nan and infinities, which compare with no bound or exceed all."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


SCORE = Finite(min=0)
FACTOR = Finite(min=0, min_open=True)
WHOLE = click.IntRange(0, LARGEST)
COUNT = click.IntRange(1, LARGEST)
SECONDS = Finite(min=0, min_open=True, max=YEAR)
