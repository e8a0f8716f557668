"""The corpus of a drill: collect text, salt it, write shards."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ...loader.errors import CorpusError, IntegrityError
from ...loader.files import write_atomic
from ...loader.formats import canonical_json
from ...loader.index import build_manifest
from ...loader.stream import ShardLoader
from .directory import Directory
from .placement import Blocks, Placement, cut_blocks, large_enough, place, too_small
from .salt import make_salt
from .scale import Scale
from .shards import corpus_digest, write_shards
from .texts import Text, machine_texts, name_order, parts
from .truth import Truth, frozen_truth

OWN_BYTES = 48_000_000
"""Of someone's own corpus no more than this is used, so that a drill stays a drill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """The drill's corpus on disk: `digest` is that of the text before salting."""

    digest: str
    documents: int
    bytes: int
    shards: int
    placement: Placement

    @property
    def bad_documents(self) -> tuple[int, int] | None:
        """First document of the bad block and the one after its last; None without one."""
        bad, blocks = self.placement.bad_block, self.placement.blocks
        if bad is None:
            return None
        low = sum(len(block) for block in blocks[:bad])
        return low, low + len(blocks[bad])


def collect(pattern: str | None) -> list[Text]:
    """Return the text to use, in an order that depends on ids alone.

    Args:
        pattern: path or glob of Parquet, Arrow or JSONL files with a `text` column, or None for
            the text found on this machine.

    Raises:
        CorpusError: files that cannot be read, or without documents.
    """
    texts = machine_texts() if pattern is None else own_texts(pattern)
    return sorted(texts, key=lambda text: name_order(text.id))


def own_texts(pattern: str) -> list[Text]:
    """Return the documents of someone's own files; reads at most `OWN_BYTES`."""
    with tempfile.TemporaryDirectory(prefix="shardward-drill-") as scratch:
        manifest = build_manifest([pattern], Path(scratch) / "manifest")
        texts: list[Text] = []
        size = 0
        for first, column in manifest.iter_text():
            codes = manifest.sources(first, first + len(column))
            for row, content in enumerate(column.to_pylist()):
                name = f"{manifest.source_names[int(codes[row])]}/{first + row}"
                texts += parts(name, manifest.source_names[int(codes[row])], content)
                size += len(content)
            if size > OWN_BYTES:
                break
    if not texts:
        raise CorpusError(
            f"{pattern} holds no document of 200 characters or more; give a corpus with text"
        )
    return texts


def write_corpus(
    texts: list[Text], directory: Directory, *, scale: Scale, seed: int, salted: bool
) -> Corpus:
    """Salt `texts`, write them as shards, and keep the truth apart.

    What a drill before this one left half-done is written anew.

    Raises:
        CorpusError: too little text for the run.
    """
    blocks: Blocks = cut_blocks(texts, scale.block_documents)
    if not large_enough(blocks, scale):
        raise too_small(blocks, scale)
    placement = Placement(blocks=blocks, steps=scale.steps)
    truth = Truth()
    if salted:
        sources = sorted({text.source for text in texts})
        salt = make_salt(seed, sources, bulk=scale.bulk, scattered=scale.scattered)
        placement = place(blocks, salt, scale=scale, seed=seed)
        truth = frozen_truth(salt, texts)
    write_atomic(directory.truth, canonical_json(truth.to_json()) + b"\n")
    shutil.rmtree(directory.corpus, ignore_errors=True)
    shards = write_shards(placement.blocks, directory.corpus, shard_blocks=scale.shard_blocks)
    everything = [text for block in placement.blocks for text in block]
    return Corpus(
        digest=corpus_digest(blocks),
        documents=len(everything),
        bytes=sum(len(text.text.encode()) for text in everything),
        shards=len(shards),
        placement=placement,
    )


def check_placement(loader: ShardLoader, *, first_step: int, low: int, high: int) -> None:
    """Ask the loader's own `preview` whether the bad block comes when it was meant to.

    Args:
        loader: of the run that is about to begin.
        first_step: the step that the block is due at.
        low, high: its documents.

    Raises:
        IntegrityError: it does not; the order would not be a function of plan and manifest.
    """
    documents = loader.preview(first_step + 1).documents
    if not ((documents >= low) & (documents < high)).all():
        raise IntegrityError(
            f"step {first_step + 1} should be fed by documents {low} to {high - 1}, its "
            f"preview names {documents.tolist()}; the order is not what the plan says"
        )
