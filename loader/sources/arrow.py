"""Arrow IPC, file and stream: a block is a record batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import ipc

from .contract import Span, WholeBlocks, reading, require_columns
from .opening import open_input


class ArrowFileReader(WholeBlocks):
    """Record batches of an Arrow IPC file (Feather version 2)."""

    def __init__(self, uri: str, location: str) -> None:
        self._uri = uri
        with reading(uri):
            self._handle = open_input(location)
            self._file = ipc.open_file(self._handle)
            self._names = tuple(self._file.schema.names)

    def spans(self) -> list[Span]:
        """Return the record batches."""
        first, spans = 0, []
        for index in range(self._file.num_record_batches):
            with reading(self._uri):
                documents = self._file.get_batch(index).num_rows
            spans.append(Span(index=index, first=first, documents=documents))
            first += documents
        return spans

    def names(self) -> tuple[str, ...]:
        """Return the column names."""
        return self._names

    def read(self, span: Span, columns: Sequence[str]) -> pa.Table:
        """Decode one record batch."""
        require_columns(self._uri, self._names, columns)
        with reading(self._uri):
            batch = self._file.get_batch(span.index)
            return pa.Table.from_batches([batch]).select(list(columns))

    def close(self) -> None:
        """Close the file."""
        self._handle.close()


class ArrowStreamReader(WholeBlocks):
    """Record batches of an Arrow IPC stream, found again by their byte offsets.

    A stream has no index. The manifest keeps the extent of each batch; schema and dictionaries
    that precede it are read once per opened shard, and put before the batch again.
    """

    def __init__(self, uri: str, location: str) -> None:
        self._uri = uri
        with reading(uri):
            self._handle = open_input(location)
            self._schema = ipc.read_schema(self._message("schema"))
            self._names = tuple(self._schema.names)
        self._dictionaries: list[tuple[int, pa.Buffer]] | None = None

    def spans(self) -> list[Span]:
        """Return the record batches, walking the whole stream."""
        first, spans = 0, list[Span]()
        for kind, offset, message in self._messages():
            if kind != "record batch":
                continue
            size = self._handle.tell() - offset
            rows = self._decode(offset, message).num_rows
            self._handle.seek(offset + size)
            spans.append(
                Span(index=len(spans), first=first, documents=rows, offset=offset, size=size)
            )
            first += rows
        return spans

    def names(self) -> tuple[str, ...]:
        """Return the column names."""
        return self._names

    def read(self, span: Span, columns: Sequence[str]) -> pa.Table:
        """Decode one record batch."""
        require_columns(self._uri, self._names, columns)
        with reading(self._uri):
            self._handle.seek(span.offset)
            message = self._message("record batch")
            batch = self._decode(span.offset, message)
            return pa.Table.from_batches([batch]).select(list(columns))

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def _message(self, kind: str) -> pa.Message:
        """Return the message that begins here; of another kind, Arrow would take it for `kind`."""
        message = ipc.read_message(self._handle)
        if message.type != kind:
            raise ValueError(f"a {message.type} stands where a {kind} belongs")
        return message

    def _messages(self) -> Iterator[tuple[str, int, pa.Message]]:
        with reading(self._uri):
            self._handle.seek(0)
            while True:
                offset = self._handle.tell()
                try:
                    message = ipc.read_message(self._handle)
                except EOFError:
                    if self._handle.tell() == offset:
                        raise EOFError("the stream has no end marker") from None
                    return
                yield message.type, offset, message

    def _decode(self, offset: int, message: pa.Message) -> pa.RecordBatch:
        with reading(self._uri):
            if not any(pa.types.is_dictionary(field.type) for field in self._schema):
                return ipc.read_record_batch(message, self._schema)
            parts = [self._schema.serialize()]
            parts += [part for at, part in self._dictionary_messages() if at < offset]
            parts.append(message.serialize())
            return ipc.open_stream(b"".join(map(bytes, parts))).read_next_batch()

    def _dictionary_messages(self) -> list[tuple[int, pa.Buffer]]:
        if self._dictionaries is None:
            here = self._handle.tell()
            self._dictionaries = [
                (offset, message.serialize())
                for kind, offset, message in self._messages()
                if kind == "dictionary"
            ]
            self._handle.seek(here)
        return self._dictionaries
