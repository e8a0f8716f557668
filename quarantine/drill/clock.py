"""The thirteen phases: announced, written down for a second start, and timed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .directory import Directory
from .narrator import Narrator

TITLES = (
    "corpus", "index", "train", "confirm", "identify", "rewind", "replay",
    "find", "quarantine", "resume", "watch", "file", "rebuild",
)  # fmt: skip


@dataclass(slots=True, kw_only=True)
class Clock:
    """Announces phases and keeps the `seconds` that each took."""

    directory: Directory
    narrator: Narrator
    facts: dict[str, Any]
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, title: str) -> Iterator[None]:
        """Begin the phase `title` and time the block."""
        self.directory.note(title, self.facts)
        self.narrator.phase(TITLES.index(title) + 1, title)
        began = time.monotonic()
        yield
        self.seconds[title] = round(time.monotonic() - began, 2)

    def done(self) -> None:
        """Write down that the drill ended."""
        self.directory.note("done", self.facts)
