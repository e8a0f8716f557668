"""Taking rows out of a Parquet file, row group by row group, losing nothing else.

Kept: types, whoever wrote the file, field and key-value metadata, row groups, codec and encoding
per column, sorting columns, page index. Memory is that of one row group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ...loader.errors import CorpusError
from ...loader.sources.contract import reading
from ...loader.sources.opening import open_input

_PLAIN = ("DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "BYTE_STREAM_SPLIT")
# A list whose items are not called as the format now asks.
_OTHER_ELEMENT = re.compile(r"\.list\.(?!element(\.|$))")
# Which rows of [first, first + count) stay, as bool[count].
Keep = Callable[[int, int], npt.NDArray[np.bool_]]


def rewrite_parquet(
    uri: str, location: str, target: Path, keep: Keep, note: Mapping[str, str]
) -> int:
    """Write the kept rows of `location` to `target` and return their number.

    `note` is added to the key-value metadata. A row group without survivors is left out.

    Raises:
        CorpusError: the file cannot be read, or its types or values cannot be written again as
            they are; `uri` names it.
    """
    with reading(uri):
        source = _open(uri, location)
    with source:
        with _writing(uri):
            written = _copy(uri, source, target, keep, note)
        changed = _first_change(source, target)
    if changed:
        raise CorpusError(f"{uri}: cannot be rewritten without a change of types: {changed}")
    return written


def _copy(
    uri: str, source: pq.ParquetFile, target: Path, keep: Keep, note: Mapping[str, str]
) -> int:
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


@contextmanager
def _writing(uri: str) -> Iterator[None]:
    """Turn what Arrow says about values it cannot write into one sentence that names the file."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise CorpusError(
            f"{uri}: cannot be rewritten as it is ({error}); write the file anew with a recent "
            "Parquet library and index it again"
        ) from error


def _open(uri: str, location: str) -> pq.ParquetFile:
    """Open a file so that its INT96 timestamps, if it has any, are read without loss."""
    source = _opened(location, "ns")
    if not any(_is_int96(column) for column in _columns(source.schema)):
        return source
    with source, _opened(location, "us") as coarse:
        unit = _lossless_unit(uri, source, coarse)
    return _opened(location, unit)


def _opened(location: str, unit: str) -> pq.ParquetFile:
    return pq.ParquetFile(
        open_input(location), pre_buffer=False, memory_map=False, coerce_int96_timestamp_unit=unit
    )


def _lossless_unit(uri: str, fine: pq.ParquetFile, coarse: pq.ParquetFile) -> str:
    """Return "us" for INT96 timestamps that are whole microseconds, else "ns".

    An INT96 reaches beyond the years 1677 to 2262 that nanoseconds in 64 bits can count; there
    Arrow wraps around, silently. The difference of both readings, modulo 2**64, is the part below
    one microsecond all the same.

    Raises:
        CorpusError: neither unit can hold the values.
    """
    columns = [c.path.partition(".")[0] for c in _columns(fine.schema) if _is_int96(c)]
    below = beyond = False
    for index in range(fine.metadata.num_row_groups):
        here = fine.read_row_group(index, columns, use_threads=False)
        there = coarse.read_row_group(index, columns, use_threads=False)
        for nanos, micros in zip(_instants(here), _instants(there), strict=True):
            below |= bool(np.any(nanos != micros * np.int64(1000)))
            beyond |= bool(np.any(np.abs(micros) > np.iinfo(np.int64).max // 1000))
    if below and beyond:
        raise CorpusError(
            f"{uri}: has INT96 timestamps outside the years 1677 to 2262 beside some finer than "
            "a microsecond, which cannot be rewritten without loss; write the file anew with "
            "64-bit timestamps and index it again"
        )
    return "ns" if below else "us"


def _instants(table: pa.Table) -> Iterator[npt.NDArray[np.int64]]:
    """Yield the timestamps of every leaf of a table as numbers, missing ones left out."""
    waiting = [chunk for column in table.columns for chunk in column.chunks]
    while waiting:
        array = waiting.pop()
        if pa.types.is_timestamp(array.type):
            yield array.drop_null().cast(pa.int64()).to_numpy()
        elif pa.types.is_struct(array.type):
            waiting += array.flatten()
        elif pa.types.is_map(array.type):
            waiting += [array.keys, array.items]
        elif pa.types.is_list(array.type):
            waiting.append(array.flatten())


def _first_change(source: pq.ParquetFile, target: Path) -> str:
    """Return the first column whose type in `target` is another one, or nothing."""
    with pq.ParquetFile(target, coerce_int96_timestamp_unit="ns") as written:
        old, new = source.schema_arrow, written.schema_arrow
        for mine, theirs in zip(_columns(source.schema), _columns(written.schema), strict=False):
            if _is_int96(mine) != _is_int96(theirs):
                return f"{mine.path} was {mine.physical_type} and became {theirs.physical_type}"
        int96 = {c.path.partition(".")[0] for c in _columns(source.schema) if _is_int96(c)}
    if old.names != new.names:
        return f"the columns {old.names} became {new.names}"
    for field in old:
        if field.name not in int96 and not field.equals(new.field(field.name)):
            return f"{field.name} was {field.type} and became {new.field(field.name).type}"
    return ""


def _columns(schema: pq.ParquetSchema) -> list[pq.ColumnSchema]:
    return [schema.column(index) for index in range(len(schema))]


def _is_int96(column: pq.ColumnSchema) -> bool:
    return bool(column.physical_type == "INT96")


def writer_options(metadata: pq.FileMetaData) -> dict[str, Any]:
    """Return the `ParquetWriter` options that make a file like the one described."""
    if metadata.num_row_groups == 0:
        return {}
    group = metadata.row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    dictionary = [c.path_in_schema for c in columns if _has_dictionary(c)]
    options: dict[str, Any] = {
        # Older versions of the format know neither uint32 nor nanoseconds, whatever version the
        # file says: DuckDB and Spark say 1 and write both.
        "version": "2.6",
        "store_decimal_as_integer": any(_is_integer_decimal(c) for c in _columns(metadata.schema)),
        "use_compliant_nested_type": not any(
            _OTHER_ELEMENT.search(c.path_in_schema) for c in columns
        ),
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


def _is_integer_decimal(column: pq.ColumnSchema) -> bool:
    return column.logical_type.type == "DECIMAL" and column.physical_type in ("INT32", "INT64")


def _codec(name: str) -> str:
    return "none" if name == "UNCOMPRESSED" else str(name).lower()
