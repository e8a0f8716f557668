"""Document lists on the command line: `7,12-15`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..loader.errors import UsageError
from ..loader.manifest import Manifest
from .numbers import LARGEST

MOST_DOCUMENTS = 1_000_000


class DocumentList(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """Ordinals and inclusive ranges, joined by commas."""

    name = "DOCS"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[int]:
        """Return the ordinals in the order given."""
        if isinstance(value, list):
            return value
        docs: list[int] = []
        for part in str(value).split(","):
            low, _, high = part.strip().partition("-")
            if not low.isdecimal() or (high and not high.isdecimal()):
                self.fail(f"{part!r} is no document; write ordinals like 7,12-15", param, ctx)
            last = int(high) if high else int(low)
            if last > LARGEST or last < int(low) or len(docs) + last - int(low) >= MOST_DOCUMENTS:
                self.fail(f"{part!r} is an empty or enormous range", param, ctx)
            docs.extend(range(int(low), last + 1))
        return docs


def load_manifest(path: Path | None) -> Manifest:
    """Return the manifest named by `--manifest`.

    Raises:
        UsageError: none was named.
    """
    if path is None:
        raise UsageError("name the manifest directory with --manifest or SHARDWARD_MANIFEST")
    return Manifest.load(path)
