"""Text columns of every Arrow kind as one byte buffer and offsets, copied only where needed."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...loader.errors import CorpusError

SLICE_ROWS = 1 << 16
PART_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TextChunk:
    """Documents as UTF-8: row `r` is `data[offsets[r]:offsets[r + 1]]`.

    `data` is a read-only uint8[bytes] view, `offsets` int64[rows + 1].
    """

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    def raw(self, row: int) -> bytes:
        """Return the bytes of one row."""
        return self.view(row).tobytes()

    def view(self, row: int) -> NDArray[np.uint8]:
        """Return the bytes of one row without a copy."""
        return self.data[int(self.offsets[row]) : int(self.offsets[row + 1])]

    def rows(self, first: int, last: int) -> TextChunk:
        """Return rows `first` to `last` - 1, or as many of them as there are, without a copy."""
        return TextChunk(data=self.data, offsets=self.offsets[first : last + 1])

    def text(self, row: int, most: int | None = None) -> str:
        """Return one row as text, or what its first `most` bytes hold; not UTF-8 is U+FFFD."""
        view = self.view(row)
        end = len(view) if most is None else min(most, len(view))
        while 0 < end < len(view) and view[end] & 0xC0 == 0x80:
            end -= 1  # a character is not cut
        return view[:end].tobytes().decode("utf-8", "replace")

    def characters(self, row: int) -> int:
        """Return the length of `text(row)`, without holding it."""
        decoder, view = getincrementaldecoder("utf-8")("replace"), self.view(row)
        starts = range(0, len(view), PART_BYTES)
        read = sum(len(decoder.decode(view[at : at + PART_BYTES].data)) for at in starts)
        return read + len(decoder.decode(b"", final=True))


def text_chunks(column: Any) -> Iterator[TextChunk]:
    """Yield the chunks of a pyarrow Array or ChunkedArray of strings or bytes, nulls as empty.

    `string`, `large_string`, `binary` and `large_binary` are read in place; views and
    dictionaries are decoded slice by slice.

    Raises:
        CorpusError: the column holds no text.
    """
    arrays = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for array in arrays:
        yield from _array_chunks(array)


def chunk_of(texts: Sequence[bytes | memoryview]) -> TextChunk:
    """Return a chunk holding `texts`."""
    sizes = np.fromiter((len(text) for text in texts), dtype=np.int64, count=len(texts))
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    return TextChunk(data=np.frombuffer(b"".join(texts), dtype=np.uint8), offsets=offsets)


def _array_chunks(array: Any) -> Iterator[TextChunk]:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        yield _view(array, np.int32)
    elif pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        yield _view(array, np.int64)
    elif _decodable(kind):
        for start in range(0, len(array), SLICE_ROWS):
            yield _view(_decoded(array.slice(start, SLICE_ROWS)), np.int64)
    elif pa.types.is_null(kind):
        yield chunk_of([b""] * len(array))
    else:
        raise CorpusError(f"a text column is needed, this one holds {kind}; name a string column")


def _decodable(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        return bool(_textual(kind.value_type))
    return bool(_textual(kind))


def _textual(kind: Any) -> bool:
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
    )
    return any(test(kind) for test in tests)


def _decoded(array: Any) -> Any:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    binary = pa.binary_view() if pa.types.is_string_view(array.type) else array.type
    target = pa.large_binary()
    return array.cast(binary).cast(target)


def _view(array: Any, offset_type: type[np.int32 | np.int64]) -> TextChunk:
    if array.null_count:
        array = array.fill_null(b"" if _is_bytes(array.type) else "")
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return chunk_of([])
    rows = np.frombuffer(offsets, dtype=offset_type)[array.offset : array.offset + len(array) + 1]
    values = np.frombuffer(b"" if data is None else data, dtype=np.uint8)
    values.flags.writeable = False  # one kind of array for the kernels, so each compiles once
    return TextChunk(data=values, offsets=rows.astype(np.int64))


def _is_bytes(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
