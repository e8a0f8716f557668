"""A drill small enough for a test: own corpus, small model, quiet or meddling narrators."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from shardward.cli.output import json_text
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

    def phase(self, number: int, total: int, title: str) -> None:
        self.phases.append(title)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        assert all(len(row) == len(columns) for row in rows)

    @contextmanager
    def progress(self, description: str, total: int) -> Iterator[Advance]:
        def advance(n: int = 1, note: str = "") -> None: ...

        yield advance


class Stopping(Quiet):
    """Calls `stop` in the phase `where`, after it heard `calls` more things in it."""

    def __init__(self, where: str, calls: int, stop: Callable[[], None]) -> None:
        super().__init__()
        self._where, self._left, self._stop = where, calls, stop

    def _heard(self) -> None:
        if self.phases and self.phases[-1] == self._where:
            self._left -= 1
            if self._left < 0:
                self._stop()

    def phase(self, number: int, total: int, title: str) -> None:
        super().phase(number, total, title)
        self._heard()

    def say(self, line: str) -> None:
        super().say(line)
        self._heard()

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        super().table(title, columns, rows)
        self._heard()

    @contextmanager
    def progress(self, description: str, total: int) -> Iterator[Advance]:
        def advance(n: int = 1, note: str = "") -> None:
            self._heard()

        yield advance


class Hiding(Quiet):
    """Takes the truth away from the third phase to the end of the last one."""

    def __init__(self, truth: Path) -> None:
        super().__init__()
        self._truth = truth
        self._hidden = truth.with_name("hidden.json")

    def phase(self, number: int, total: int, title: str) -> None:
        super().phase(number, total, title)
        if title == "train":
            self._truth.rename(self._hidden)

    def say(self, line: str) -> None:
        super().say(line)
        if line.startswith("rebuilt:"):
            self._hidden.rename(self._truth)


def as_printed(result: dict[str, Any]) -> dict[str, Any]:
    """Return a drill's result as `--json` prints it."""
    printed: dict[str, Any] = json.loads(json_text({"schema_version": 1, **result}))
    return printed


def killed_at_each_phase(
    out: Path, corpus: str, cause: str, kills: Mapping[str, int]
) -> dict[str, Any]:
    """Play a drill that is killed in each phase of `kills` and goes on; return its result."""
    script = Path(__file__).with_name("helpers_drill_killed.py")
    asked = {"out": str(out), "corpus": corpus, "cause": cause, "kills": dict(kills)}
    played = subprocess.run(
        [sys.executable, str(script), json.dumps(asked)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    result: dict[str, Any] = json.loads(played.stdout)
    return result
