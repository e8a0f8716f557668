"""Taking rows out of Arrow IPC and JSON lines files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

from ...loader.sources.contract import reading
from ...loader.sources.opening import open_input
from .rewrite_parquet import Keep

CHUNK = 1 << 20
_CODECS = {b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}


def rewrite_arrow(uri: str, location: str, target: Path, keep: Keep, *, stream: bool) -> int:
    """Write the kept rows of an Arrow IPC file or stream, batch by batch; return their number.

    Schema, metadata, dictionaries and the compression of the batches stay. A batch without
    survivors is left out.

    Raises:
        CorpusError: the file cannot be read; `uri` names it.
    """
    with reading(uri):
        handle = open_input(location)
    with handle:
        with reading(uri):
            options = ipc.IpcWriteOptions(compression=_compression(handle, stream=stream))
            source = ipc.open_stream(handle) if stream else ipc.open_file(handle)
        make = ipc.new_stream if stream else ipc.new_file
        with (
            pa.OSFile(str(target), "wb") as sink,
            make(sink, source.schema, options=options) as out,
        ):
            return _copy_batches(_batches(uri, source, stream=stream), out, keep)


def _copy_batches(
    batches: Iterator[pa.RecordBatch], out: ipc.RecordBatchStreamWriter, keep: Keep
) -> int:
    written = first = 0
    for batch in batches:
        kept = keep(first, batch.num_rows)
        first += batch.num_rows
        if kept.any():
            rows = batch if kept.all() else batch.filter(pa.array(kept))
            out.write_batch(rows)
            written += rows.num_rows
    return written


def rewrite_jsonl(uri: str, location: str, target: Path, keep: Keep) -> int:
    """Write the kept lines byte for byte, blank lines left out; return their number.

    Raises:
        CorpusError: the file cannot be read; `uri` names it.
    """
    written = row = 0
    with target.open("wb") as out:
        for line in _lines(uri, location):
            if not line.strip():
                continue
            if keep(row, 1)[0]:
                out.write(line + b"\n")
                written += 1
            row += 1
    return written


def _lines(uri: str, location: str) -> Iterator[bytes]:
    """Yield the lines without their line feeds; what may fail is told as the shard's fault."""
    parts: list[bytes] = []
    with reading(uri):
        handle = open_input(location)
    with handle:
        while True:
            with reading(uri):
                chunk: bytes = handle.read(CHUNK)
            if not chunk:
                break
            head, *others = chunk.split(b"\n")
            parts.append(head)
            for other in others:
                yield b"".join(parts)
                parts = [other]
    yield b"".join(parts)


def _batches(uri: str, source: Any, *, stream: bool) -> Iterator[pa.RecordBatch]:
    index = 0
    while True:
        with reading(uri):
            if not stream and index == source.num_record_batches:
                return
            try:
                batch = source.read_next_batch() if stream else source.get_batch(index)
            except StopIteration:
                return
        yield batch
        index += 1


def _compression(handle: pa.NativeFile, *, stream: bool) -> str | None:
    """Return the codec of the first record batch, told by the magic of its first buffer."""
    handle.seek(0 if stream else 8)
    codec = None
    while codec is None:
        try:
            message = ipc.read_message(handle)
        except (EOFError, pa.ArrowInvalid):
            break
        if message.type == "record batch":
            # A compressed buffer is its raw length as int64, then the frame.
            codec = _CODECS.get(bytes(message.body[8:12])) if message.body else None
            break
    handle.seek(0)
    return codec
