"""Taking rows out of a Parquet file, row group by row group, losing nothing else.

Kept: types, field and key-value metadata, row groups, codec and encoding per column, sorting
columns, page index. Memory is that of one row group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ...loader.sources.contract import reading
from ...loader.sources.opening import open_input

_PLAIN = ("DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT")
# Which rows of [first, first + count) stay, as bool[count].
Keep = Callable[[int, int], npt.NDArray[np.bool_]]


def rewrite_parquet(
    uri: str, location: str, target: Path, keep: Keep, note: Mapping[str, str]
) -> int:
    """Write the kept rows of `location` to `target` and return their number.

    `note` is added to the key-value metadata. A row group without survivors is left out.

    Raises:
        CorpusError: the file cannot be read; `uri` names it.
    """
    with reading(uri):
        source = pq.ParquetFile(open_input(location), pre_buffer=False, memory_map=False)
    with source:
        metadata = source.metadata
        written = first = 0
        with pq.ParquetWriter(target, source.schema_arrow, **writer_options(metadata)) as writer:
            writer.add_key_value_metadata(dict(note))
            for index in range(metadata.num_row_groups):
                count = metadata.row_group(index).num_rows
                kept = keep(first, count)
                first += count
                if kept.any():
                    with reading(uri):
                        rows = source.read_row_group(index, use_threads=False)
                    rows = rows if kept.all() else rows.filter(pa.array(kept))
                    writer.write_table(rows, row_group_size=rows.num_rows)
                    written += rows.num_rows
    return written


def writer_options(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return the `ParquetWriter` options that make a file like the one described."""
    if metadata.num_row_groups == 0:
        return {}
    group = metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    dictionary = [c.path_in_schema for c in columns if _has_dictionary(c)]
    options: dict[str, Any] = {
        "version": metadata.format_version,
        "compression": {c.path_in_schema: _codec(c.compression) for c in columns},
        "use_dictionary": dictionary or False,
        "write_statistics": any(c.is_stats_set for c in columns),
        "write_page_index": any(c.has_offset_index for c in columns),
        "sorting_columns": group.sorting_columns or None,
        "use_deprecated_int96_timestamps": any(c.physical_type == "INT96" for c in columns),
    }
    encodings = {
        c.path_in_schema: name
        for c in columns
        for name in _PLAIN
        if name in c.encodings and c.path_in_schema not in dictionary
    }
    if encodings:
        options["column_encoding"] = encodings
    return options


def _has_dictionary(column: pq.ColumnChunkMetaData) -> bool:
    return bool({"RLE_DICTIONARY", "PLAIN_DICTIONARY"} & set(column.encodings))


def _codec(name: str) -> str:
    return "none" if name == "UNCOMPRESSED" else str(name).lower()
