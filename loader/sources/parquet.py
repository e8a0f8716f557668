"""Parquet: a block is a row group."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from .contract import Span, reading, require_columns
from .opening import open_input


class ParquetReader:
    """Row groups of one Parquet file, decoded on the calling thread alone."""

    def __init__(self, uri: str, location: str) -> None:
        self._uri = uri
        with reading(uri):
            # pre_buffer and memory_map both make resident memory grow with the file.
            self._file = pq.ParquetFile(
                open_input(location),
                pre_buffer=False,
                memory_map=False,
                page_checksum_verification=True,
            )
            self._names = tuple(self._file.schema_arrow.names)

    def spans(self) -> list[Span]:
        """Return the row groups."""
        metadata, first, spans = self._file.metadata, 0, []
        for index in range(metadata.num_row_groups):
            documents = metadata.row_group(index).num_rows
            spans.append(Span(index=index, first=first, documents=documents))
            first += documents
        return spans

    def names(self) -> tuple[str, ...]:
        """Return the column names."""
        return self._names

    def read(self, span: Span, columns: Sequence[str]) -> pa.Table:
        """Decode one row group."""
        require_columns(self._uri, self._names, columns)
        with reading(self._uri):
            return self._file.read_row_group(span.index, columns=list(columns), use_threads=False)

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)
