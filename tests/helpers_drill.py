"""A drill small enough for a test: own corpus, small model, quiet or meddling narrators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from shardward.quarantine.drill.narrator import Advance
from shardward.quarantine.drill.scale import Scale
from shardward.quarantine.drill.texts import Text, machine_texts, name_order

SMALL = Scale(
    steps=160,
    batch=16,
    seq_len=128,
    width=32,
    layers=1,
    heads=2,
    learning_rate=8e-3,
    checkpoint_every=10,
    block_documents=20,
    shard_blocks=6,
    holdout_documents=40,
    bulk=16,
    scattered=10,
    reaction=12,
    watch=30,
)


@cache
def real_texts() -> tuple[Text, ...]:
    """Return 800 documents of this machine."""
    return tuple(sorted(machine_texts(), key=lambda text: name_order(text.id))[:800])


def own_corpus(directory: Path) -> str:
    """Write a corpus as a user might have it, and return a pattern for it."""
    directory.mkdir()
    pq.write_table(
        pa.table({"text": [text.text for text in real_texts()]}), directory / "own.parquet"
    )
    return str(directory / "*.parquet")


class Quiet:
    """Hears everything and keeps the phases."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.lines: list[str] = []

    def phase(self, number: int, title: str) -> None:
        self.phases.append(title)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        assert all(len(row) == len(columns) for row in rows)

    @contextmanager
    def progress(self, description: str, total: int) -> Iterator[Advance]:
        def advance(n: int = 1, note: str = "") -> None: ...

        yield advance


class Interrupting(Quiet):
    """Presses Ctrl-C in the phase `where`, after `calls` reports of progress in it."""

    def __init__(self, where: str, calls: int = 0) -> None:
        super().__init__()
        self._where = where
        self._calls = calls

    def phase(self, number: int, title: str) -> None:
        super().phase(number, title)
        if title == self._where and not self._calls:
            raise KeyboardInterrupt

    @contextmanager
    def progress(self, description: str, total: int) -> Iterator[Advance]:
        left = self._calls

        def advance(n: int = 1, note: str = "") -> None:
            nonlocal left
            left -= 1
            if left == 0 and self.phases[-1] == self._where:
                raise KeyboardInterrupt

        yield advance


class Hiding(Quiet):
    """Takes the truth away from the third phase to the end of the last one."""

    def __init__(self, truth: Path) -> None:
        super().__init__()
        self._truth = truth
        self._hidden = truth.with_name("hidden.json")

    def phase(self, number: int, title: str) -> None:
        super().phase(number, title)
        if title == "train":
            self._truth.rename(self._hidden)

    def say(self, line: str) -> None:
        super().say(line)
        if line.startswith("rebuilt:"):
            self._hidden.rename(self._truth)
