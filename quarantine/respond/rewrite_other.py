"""Taking rows out of Arrow IPC and JSON lines files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import ipc

from ...loader.sources.contract import Span, reading
from ...loader.sources.opening import open_input
from .rewrite_parquet import Keep

_CODECS = {b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}


def rewrite_arrow(
    uri: str, location: str, target: Path, keep: Keep, *, spans: Sequence[Span], stream: bool
) -> int:
    """Write the kept rows of an Arrow IPC file or stream, batch by batch; return their number.

    Schema, metadata, dictionaries and the compression of the batches stay. A batch without
    survivors is left out; of a file it is not even read. `spans` are the batches with rows.

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
        wanted = [span for span in spans if keep(span.first, span.documents).any()]
        batches = _streamed(uri, source, wanted) if stream else _picked(uri, source, wanted)
        written = 0
        with (
            pa.OSFile(str(target), "wb") as sink,
            make(sink, source.schema, options=options) as out,
        ):
            for span, batch in batches:
                kept = keep(span.first, batch.num_rows)
                rows = batch if kept.all() else batch.filter(pa.array(kept))
                out.write_batch(rows)
                written += rows.num_rows
        return written


def _picked(
    uri: str, source: ipc.RecordBatchFileReader, wanted: Sequence[Span]
) -> Iterator[tuple[Span, pa.RecordBatch]]:
    for span in wanted:
        with reading(uri):
            batch = source.get_batch(span.index)
        yield span, batch


def _streamed(
    uri: str, source: ipc.RecordBatchStreamReader, wanted: Sequence[Span]
) -> Iterator[tuple[Span, pa.RecordBatch]]:
    index = 0
    for span in wanted:
        while index <= span.index:
            with reading(uri):
                batch = source.read_next_batch()
            index += 1
        yield span, batch


def rewrite_jsonl(
    uri: str, location: str, target: Path, keep: Keep, *, spans: Sequence[Span]
) -> int:
    """Write the kept lines byte for byte, blank lines left out; return their number.

    `spans` are the runs of lines that the file has; one of which nothing is kept is not read.

    Raises:
        CorpusError: the file cannot be read; `uri` names it.
    """
    written = 0
    with reading(uri):
        handle = open_input(location)
    with handle, target.open("wb") as out:
        for span in spans:
            kept = keep(span.first, span.documents)
            if kept.any():
                with reading(uri):
                    handle.seek(span.offset)
                    data: bytes = handle.read(span.size)
                lines = [line for line in data.split(b"\n") if line.strip()]
                chosen = [line + b"\n" for line, stays in zip(lines, kept, strict=False) if stays]
                out.writelines(chosen)
                written += len(chosen)
    return written


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
