"""Arrow columns as plain buffers: UTF-8 text or token ids, whatever type a file chose for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..arrays import Int64Array
from ..blocks import LARGEST_DOCUMENT, BlockData
from ..errors import CorpusError


def kind_of(column: pa.ChunkedArray, uri: str, name: str) -> str:
    """Return `text` or `tokens`.

    Raises:
        CorpusError: the column holds neither strings nor lists of integers.
    """
    found = column.type
    if pa.types.is_dictionary(found):
        found = found.value_type
    if _is_string(found):
        return "text"
    if _is_list(found) and pa.types.is_integer(found.value_type):
        return "tokens"
    raise CorpusError(
        f"shard {uri}: column {name!r} is {column.type}, neither text nor lists of integers; "
        "cast it to string, or name another column"
    )


def text_block(column: pa.ChunkedArray, place: str, first: int) -> BlockData:
    """Return the UTF-8 bytes of a text column (uint8 values), rows in order.

    Raises:
        CorpusError: a null or text that is not UTF-8 (lone surrogates included); the message names
            the row, `first` being that of the column's start.
    """
    check_sound(column, place, first)
    _refuse_nulls(column, place, first)
    return _joined([_text_chunk(chunk) for chunk in column.chunks], np.dtype(np.uint8))


def token_block(column: pa.ChunkedArray, place: str, first: int) -> BlockData:
    """Return the token ids of a list column in the type the file has, rows in order.

    Raises:
        CorpusError: a null list or a null inside one, or offsets that lead outside the values.
    """
    chunks = []
    for chunk in column.chunks:
        chunks.append(token_chunk(chunk, place, first))
        first += len(chunk)
    return _joined(chunks, np.dtype(np.uint16))


def token_chunk(chunk: pa.Array, place: str, first: int) -> BlockData:
    """Return the token ids of a list array, views of its memory; errors as in `token_block`."""
    # This runs for every slice of a block, with cold caches: it asks Arrow as little as it can.
    _check_chunk(chunk, place, first)
    if chunk.null_count:
        _refuse_nulls(pa.chunked_array([chunk]), place, first)
    values, offsets = _list_parts(chunk)
    if values.null_count:
        at = int(pc.index(pc.is_null(values), True).as_py())
        row = first + int(np.searchsorted(offsets, at, side="right")) - 1
        raise CorpusError(f"{place} row {row} has a null among its tokens; leave the row out")
    return BlockData(values=values.to_numpy(zero_copy_only=True), offsets=offsets)


def string_array(block: BlockData) -> pa.Array:
    """Return text bytes as an Arrow large_string array, sharing the memory."""
    return pa.LargeStringArray.from_buffers(
        len(block), pa.py_buffer(block.offsets), pa.py_buffer(block.values)
    )


def check_sizes(lengths: Int64Array, place: str, first: int) -> None:
    """Refuse documents whose number of tokens does not fit the manifest's u32."""
    too_long = np.flatnonzero(lengths > LARGEST_DOCUMENT)
    if len(too_long):
        row = int(too_long[0])
        raise CorpusError(
            f"{place} row {first + row} has {int(lengths[row])} tokens, more than "
            f"{LARGEST_DOCUMENT}; split the document"
        )


def check_token_range(block: BlockData, vocabulary: int, place: str, first: int) -> None:
    """Refuse token ids outside 0..vocabulary-1, naming the first row that has one."""
    values: NDArray[Any] = block.values
    if not len(values) or (int(values.min()) >= 0 and int(values.max()) < vocabulary):
        return
    at = int(np.flatnonzero((values < 0) | (values >= vocabulary))[0])
    row = int(np.searchsorted(block.offsets, at, side="right")) - 1
    raise CorpusError(
        f"{place} row {first + row} holds token {int(values[at])}, outside the vocabulary of "
        f"{vocabulary}; restore the tokens, or declare the vocabulary they were made with"
    )


def _is_string(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def check_sound(column: pa.ChunkedArray, place: str, first: int) -> None:
    """Refuse damaged columns before anything follows their offsets or indices into memory.

    Raises:
        CorpusError: naming the row, `first` being that of the column's start.
    """
    for chunk in column.chunks:
        _check_chunk(chunk, place, first)
        first += len(chunk)


def _check_chunk(chunk: pa.Array, place: str, first: int) -> None:
    try:
        chunk.validate(full=True)
    except pa.ArrowException as error:
        row = first + _first_invalid(chunk)
        raise CorpusError(
            f"{place} row {row} is not valid UTF-8, or damaged ({error}); "
            "re-encode it, restore it or leave it out"
        ) from error


def _refuse_nulls(column: pa.ChunkedArray, place: str, first: int) -> None:
    if column.null_count:
        row = first + int(pc.index(pc.is_null(column), True).as_py())
        raise CorpusError(
            f"{place} row {row} is null; leave the row out, or write an empty value on purpose"
        )


def _text_chunk(chunk: pa.Array) -> BlockData:
    if pa.types.is_dictionary(chunk.type):
        # A few distinct texts can repeat to more than 32-bit offsets reach.
        chunk = chunk.dictionary.cast(pa.large_string()).take(chunk.indices)
    if not pa.types.is_string(chunk.type):
        chunk = chunk.cast(pa.large_string())
    width = np.int32 if pa.types.is_string(chunk.type) else np.int64
    _, offsets, data = chunk.buffers()
    return _slice(np.frombuffer(offsets, width) if offsets else None, data, np.uint8, chunk)


def _slice(
    offsets: NDArray[Any] | None, data: pa.Buffer | None, kind: Any, chunk: pa.Array
) -> BlockData:
    if offsets is None or not len(chunk):
        return BlockData(values=np.empty(0, kind), offsets=np.zeros(1, np.int64))
    cut = offsets[chunk.offset : chunk.offset + len(chunk) + 1].astype(np.int64)
    values = np.frombuffer(data, kind) if data is not None and data.size else np.empty(0, kind)
    return BlockData(values=values[cut[0] : cut[-1]], offsets=cut - cut[0])


def _list_parts(chunk: pa.Array) -> tuple[pa.Array, Int64Array]:
    """Return (values of a list array without null lists, int64[rows + 1] offsets into them)."""
    if pa.types.is_fixed_size_list(chunk.type) or not len(chunk):
        size = chunk.type.list_size if len(chunk) else 0
        return chunk.flatten(), np.arange(len(chunk) + 1, dtype=np.int64) * size
    offsets = chunk.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    offsets -= first
    whole = chunk.values
    return whole if last - first == len(whole) else whole.slice(first, last - first), offsets


def _first_invalid(chunk: pa.Array) -> int:
    for number in range(len(chunk)):
        try:
            chunk.slice(number, 1).validate(full=True)
        except pa.ArrowException:
            return number
    return 0


def _joined(chunks: list[BlockData], empty: np.dtype[Any]) -> BlockData:
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        return BlockData(values=np.empty(0, empty), offsets=np.zeros(1, np.int64))
    lengths = np.concatenate([chunk.lengths for chunk in chunks])
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return BlockData(values=np.concatenate([chunk.values for chunk in chunks]), offsets=offsets)
