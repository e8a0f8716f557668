"""The drill's directory: who was here, how far it came, and where everything lies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...loader.errors import Busy, UsageError
from ...loader.files import exclusive_lock, write_atomic
from ...loader.formats import canonical_json, check_format, parse_json
from ...loader.run_locks import RankSlot, read_holder, take_slot

FORMAT = "shardward.drill-state"
STATE = "drill.json"
LOCK = ".drill.lock"
FIRST = "corpus"
"""The phase in which a drill collects its text; until that is there, nothing is worth keeping."""
DEFAULT = Path("drill-out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """Paths of one drill."""

    path: Path

    @property
    def corpus(self) -> Path:
        """Parquet shards."""
        return self.path / "corpus"

    @property
    def manifest(self) -> Path:
        """Manifest of the corpus."""
        return self.path / "manifest"

    @property
    def truth(self) -> Path:
        """What was salted; only the final scoring reads it."""
        return self.path / "truth.json"

    @property
    def run(self) -> Path:
        """Run directory."""
        return self.path / "run"

    @property
    def checkpoints(self) -> Path:
        """Weights, optimizer and cursors."""
        return self.path / "checkpoints"

    @property
    def rebuilt(self) -> Path:
        """The corpus without what was quarantined."""
        return self.path / "rebuilt"

    @property
    def rebuilt_manifest(self) -> Path:
        """Manifest of the rebuilt corpus."""
        return self.path / "rebuilt-manifest"

    def note(self, phase: str, facts: dict[str, Any]) -> None:
        """Write down which phase begins, for whoever starts a second drill here."""
        state = {"format": FORMAT, "version": 1, "phase": phase, **facts}
        write_atomic(self.path / STATE, canonical_json(state) + b"\n")


@contextmanager
def claim(out: Path | None) -> Iterator[Directory]:
    """Hold the directory of a new drill; without `out` the next free one under `drill-out`.

    A drill that stopped before it wrote anything but `drill.json` leaves the directory free.

    Raises:
        Busy: another drill is running there.
        UsageError: `out` holds a drill already, finished or not, or anything else.
    """
    path = _next_free() if out is None else out
    _refuse_foreign(path)
    path.mkdir(parents=True, exist_ok=True)
    slot = _lock(path)
    try:
        if not _untouched(path):
            raise UsageError(_stopped(path))
        yield Directory(path=path)
    finally:
        slot.release()


def _next_free() -> Path:
    with exclusive_lock(DEFAULT / ".lock"):
        taken = [int(path.name) for path in DEFAULT.iterdir() if path.name.isdecimal()]
        path = DEFAULT / f"{max(taken, default=0) + 1:04d}"
        path.mkdir()
    return path


def _lock(path: Path) -> RankSlot:
    try:
        return take_slot(path / LOCK, "drill")
    except Busy as error:
        holder = read_holder(path / LOCK)
        who = f"pid {holder.pid} on {holder.host}" if holder else "pid unknown"
        raise Busy(
            f"another drill is running in {path}, {who}; wait for it, or give another --out"
        ) from error


def _refuse_foreign(path: Path) -> None:
    """Refuse what is no directory, or holds files that are no drill's, before it is touched."""
    if not path.exists():
        return
    if not path.is_dir():
        raise UsageError(f"{path} is a file; give --out an empty or new directory")
    names = {entry.name for entry in path.iterdir()}
    if names and not names & {STATE, LOCK}:
        raise UsageError(f"{path} holds other files; give --out an empty or new directory")


def _untouched(path: Path) -> bool:
    """Whether nothing lies there but what a drill writes before it has a corpus."""
    names = {entry.name for entry in path.iterdir()} - {LOCK}
    return not names or (names == {STATE} and _state(path)["phase"] == FIRST)


def _state(path: Path) -> dict[str, Any]:
    value = parse_json((path / STATE).read_bytes(), where=str(path / STATE))
    check_format(value, name=FORMAT, version=1, where=str(path / STATE))
    return value


def _stopped(path: Path) -> str:
    if not (path / STATE).is_file():
        return f"{path} holds other files; give --out an empty or new directory"
    state = _state(path)
    ended = "ended" if state["phase"] == "done" else f"stopped in its phase {state['phase']!r}"
    return (
        f"{path} holds a drill with seed {state['seed']} that {ended}; a drill never goes on "
        f"with another's files: look at them, then give another --out or remove {path}"
    )
