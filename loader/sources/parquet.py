"""Parquet: a block is a row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from .contract import Span, reading, require_columns
from .opening import is_remote, open_input

BUFFER = 1 << 16
"""Bytes of a local file that are read at a time, instead of a whole column chunk into fresh memory;
a store would be asked too often."""


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
                buffer_size=0 if is_remote(location) else BUFFER,
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

    def slices(self, span: Span, column: str, rows: int) -> Iterator[pa.Array]:
        """Decode one row group's column `rows` rows at a time."""
        require_columns(self._uri, self._names, [column])
        with reading(self._uri):
            batches = self._file.iter_batches(
                batch_size=rows, row_groups=[span.index], columns=[column], use_threads=False
            )
        while True:
            with reading(self._uri):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch.column(column)

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)
