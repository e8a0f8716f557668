"""Shard formats behind one contract (`contract.ShardReader`)."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import FormatError
from .arrow import ArrowFileReader, ArrowStreamReader
from .contract import ShardReader, Span
from .jsonl import JsonlReader
from .parquet import ParquetReader

__all__ = ["FORMATS", "ShardReader", "Span", "open_shard"]

FORMATS: dict[str, Callable[[str, str], ShardReader]] = {
    "arrow": ArrowFileReader,
    "arrow-stream": ArrowStreamReader,
    "jsonl": JsonlReader,
    "parquet": ParquetReader,
}


def open_shard(kind: str, uri: str, location: str) -> ShardReader:
    """Open the shard at `location`; messages call it `uri`.

    Raises:
        FormatError: `kind` is none of `FORMATS`.
        CorpusError: the file is missing or is not of its format.
    """
    if kind not in FORMATS:
        raise FormatError(
            f"shard {uri} is of format {kind!r}, this release reads {', '.join(sorted(FORMATS))}"
        )
    return FORMATS[kind](uri, location)
