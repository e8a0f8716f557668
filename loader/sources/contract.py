"""What every shard format offers: its blocks, and one block's columns on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from ..errors import CorpusError, UnreachableShard


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One block as its format finds it again.

    Attributes:
        index: number of the block within its shard, from 0.
        first: row of the shard at which it starts.
        documents: rows in it.
        offset: first byte, for formats without an index of their own, else 0.
        size: bytes, for formats without an index of their own, else 0.
    """

    index: int
    first: int
    documents: int
    offset: int = 0
    size: int = 0


class ShardReader(Protocol):
    """An open shard. One thread uses it at a time."""

    def spans(self) -> list[Span]:
        """Return the blocks in row order; may read the whole shard."""

    def names(self) -> tuple[str, ...]:
        """Return the column names, in file order."""

    def read(self, span: Span, columns: Sequence[str]) -> pa.Table:
        """Return `columns` of one block, rows in file order.

        Raises:
            CorpusError: the bytes are not what the format promises.
        """

    def slices(self, span: Span, column: str, rows: int) -> Iterator[pa.Array]:
        """Yield `column` of one block in parts of `rows` rows, or of all; errors as in `read`.

        A format that decodes bit by bit needs less memory that way, and has it in the cache.
        """

    def close(self) -> None:
        """Let go of the file."""


class WholeBlocks(ABC):
    """`slices` for formats that decode a block at once."""

    @abstractmethod
    def read(self, span: Span, columns: Sequence[str]) -> pa.Table:
        """Return columns of one block; see `ShardReader`."""

    def slices(self, span: Span, column: str, rows: int) -> Iterator[pa.Array]:
        """Yield the column as it was decoded, whatever `rows` says."""
        yield from self.read(span, [column])[column].chunks


@contextmanager
def reading(uri: str) -> Iterator[None]:
    """Turn what Arrow and the system say about a bad file into one sentence that names it.

    Arrow reports damage as an OSError too, but only the system gives one a number.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise UnreachableShard(
            f"shard {uri} is missing; restore it, or give the corpus root it moved to"
        ) from error
    except (ConnectionError, TimeoutError) as error:
        raise _unreachable(uri, error) from error
    except (pa.ArrowException, OSError, EOFError, ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _unreachable(uri, error) from error
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise CorpusError(
            f"shard {uri} cannot be read ({reason}); it is truncated, damaged or of another "
            "format: restore it or leave it out"
        ) from error


def _unreachable(uri: str, error: OSError) -> UnreachableShard:
    return UnreachableShard(
        f"shard {uri} cannot be reached ({error.strerror or error or type(error).__name__}); "
        "see to the store, then start again from the last checkpoint"
    )


def require_columns(uri: str, present: Sequence[str], wanted: Sequence[str]) -> None:
    """Refuse a shard without `wanted` columns, naming those it has."""
    for name in wanted:
        if name not in present:
            has = ", ".join(sorted(present)) or "none"
            raise CorpusError(
                f"shard {uri} has no column {name!r}; it has {has}: name one of those with "
                "--column, --id-column or --source-column"
            )
