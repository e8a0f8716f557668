"""The documents of a corpus as text chunks, whatever the corpus holds.

Token ids are decoded by the manifest's tokenizer. Where it is unknown each id becomes a word, so
that copies are found by the same shingles; only what is said about characters has no meaning there.
A document that was rebuilt away is empty, whatever stands in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from .columns import TextChunk, chunk_of, text_chunks

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

LARGE = 1 << 26
"""Bytes from which what is read is large; giving memory back takes a millisecond or two."""


def block_chunk(manifest: Manifest, block: int, most: int | None = None) -> TextChunk:
    """Return the documents of a block, or its first `most`.

    Raises:
        CorruptBlock: the shard no longer holds what was indexed.
    """
    if manifest.has_text:
        return _single(_lean(manifest.block_text(block)).slice(0, most))
    data = manifest.open_block(block)
    last = len(data.offsets) - 1 if most is None else min(most, len(data.offsets) - 1)
    offsets = data.offsets[: last + 1]
    alive = manifest.alive(block)
    gone = None if alive is None else ~alive[:last]
    return _ids_as_words(data.values[: int(offsets[-1])], offsets, gone)


def documents_chunk(
    manifest: Manifest, docs: Sequence[int] | NDArray[np.int64]
) -> tuple[TextChunk, list[str]]:
    """Return documents in the order asked for, and their sources.

    Raises:
        NotFound: a document is outside the corpus.
    """
    column = "text" if manifest.has_text else "tokens"
    table = manifest.documents(docs, columns=(column,))
    sources: list[str] = table["source"].to_pylist()
    if not table.num_rows:
        return chunk_of([]), sources
    chunks = table[column].chunks
    array = _lean(chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks))
    if column == "text":
        return _single(array), sources
    values = array.values.to_numpy(zero_copy_only=False)
    gone = np.isin(np.asarray(docs, np.int64), manifest.tombstones)
    return _ids_as_words(values, array.offsets.to_numpy(), gone), sources


def _lean(read: pa.Array) -> pa.Array:
    """Return `read`; what else it took to read a large array goes back to the system.

    Arrow's allocator keeps the pages, as stored and decompressed, for the next one who asks for
    as much. That is another allocator here, and a page with a giant document is as large as it.
    """
    if read.nbytes >= LARGE:
        pa.default_memory_pool().release_unused()
    return read


def _single(array: pa.Array) -> TextChunk:
    chunks = list(text_chunks(array))
    return chunks[0] if chunks else chunk_of([])


def _ids_as_words(
    values: NDArray[Any], offsets: NDArray[np.int64], gone: NDArray[np.bool_] | None
) -> TextChunk:
    words = pc.cast(pa.array(values), pa.string())
    lists = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), words)
    texts = pc.binary_join(lists, " ").cast(pa.large_string())
    if gone is not None and gone.any():
        texts = pc.if_else(pa.array(gone), pa.scalar("", pa.large_string()), texts)
    return _single(texts)
