"""The texts of given documents, as `shardward corpus show --docs` prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console

from ..loader.manifest import Manifest
from ..quarantine.search.texts import documents_chunk
from .output import clean, emit, say

AT_ONCE = 1024
"""Documents read together; of each no more is kept than is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The beginning of one document, and where it lies.

    Attributes:
        doc: its ordinal.
        shard: relative to the corpus root.
        row: of the shard, from 0.
        source: name of its source.
        tokens: its length in tokens.
        bytes: its length as UTF-8; None where only ids are known.
        gone: whether a rebuild took it out.
        cut: whether the text goes on.
        text: its text, or its ids as words.
    """

    doc: int
    shard: str
    row: int
    source: str
    tokens: int
    bytes: int | None
    gone: bool
    cut: bool
    text: str


def show_texts(
    manifest: Manifest, docs: Sequence[int], *, most: int, limit: int, as_json: bool
) -> None:
    """Print the first `most` bytes of each document: of the first `limit`, as JSON of all.

    Raises:
        NotFound: a document is outside the corpus.
        CorruptBlock: a shard no longer holds what was indexed.
    """
    manifest.locate(max(docs))  # before anything is read
    if not manifest.has_text:
        say("the tokenizer of these ids is not known, so the ids themselves are shown")
    found = list(_read(manifest, docs if as_json else docs[:limit], most))

    def render(console: Console) -> None:
        for each in found:
            _print(console, each)
        if len(docs) > limit:
            console.print(f"\n{len(docs) - limit} more; raise --limit or use --json")

    payload = {"manifest": manifest.fingerprint, "ids": not manifest.has_text, "documents": found}
    emit(as_json, payload, render)


def _read(manifest: Manifest, docs: Sequence[int], most: int) -> Iterator[Shown]:
    gone = frozenset(manifest.tombstones.tolist())
    for first in range(0, len(docs), AT_ONCE):
        part = docs[first : first + AT_ONCE]
        chunk, _ = documents_chunk(manifest, part)
        for row, doc in enumerate(part):
            place, size = manifest.locate(doc), len(chunk.view(row))
            yield Shown(
                doc=doc,
                shard=place.shard_uri,
                row=place.row,
                source=place.source,
                tokens=int(manifest.lengths(doc, doc + 1)[0]),
                bytes=size if manifest.has_text else None,
                gone=doc in gone,
                cut=size > most,
                text=chunk.text(row, most),
            )


def _print(console: Console, each: Shown) -> None:
    size = f"{each.tokens} tokens" + ("" if each.bytes is None else f", {each.bytes} bytes")
    place = clean(f"row {each.row} of {each.shard}, source {each.source}", limit=400)
    console.print(f"document {each.doc}: {place}, {size}", style="bold", soft_wrap=True)
    if each.gone:
        console.print("  taken out by a rebuild")
    elif not each.text:
        console.print("  empty")
    else:
        # One line whatever the text holds, so that none can look like the next document.
        text = clean(each.text, limit=len(each.text))
        console.print(f"  {text}{'…' if each.cut else ''}", soft_wrap=True)
