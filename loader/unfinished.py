"""Corpora that a rebuild began to write and has not finished: no one may take them for whole."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .errors import CorpusError
from .sources.opening import is_remote

WORK = ".rebuild"
"""Directory in a rebuilt corpus that says whose it is; made first."""
REPORT = "rebuild.json"
"""File in a rebuilt corpus that says what was done; made last."""


def refuse_unfinished(locations: Iterable[str]) -> None:
    """Refuse directories, and files anywhere below directories, whose rebuild has not ended.

    Args:
        locations: local paths or patterns; what carries a scheme is left alone.

    Raises:
        CorpusError: there is one; the message names it.
    """
    local = (Path(location).absolute() for location in locations if not is_remote(location))
    places = {place for path in local for place in (path, *path.parents)}
    for directory in sorted(places):
        if (directory / WORK).is_dir() and not (directory / REPORT).exists():
            raise CorpusError(
                f"{directory} holds a rebuild that was not finished, so documents are missing; "
                f"run the same shardward rebuild again to finish it, or remove {directory}"
            )
