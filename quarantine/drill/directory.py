"""The drill's directory: who was here, how far it came, and where everything lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...loader.errors import UsageError
from ...loader.files import exclusive_lock, write_atomic
from ...loader.formats import canonical_json, check_format, parse_json

FORMAT = "shardward.drill-state"
STATE = "drill.json"
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


def claim(out: Path | None) -> Directory:
    """Return the directory for a new drill; without `out` the next free one under `drill-out`.

    Raises:
        UsageError: `out` holds a drill already, finished or not, or anything else.
    """
    if out is None:
        with exclusive_lock(DEFAULT / ".lock"):
            taken = [int(path.name) for path in DEFAULT.iterdir() if path.name.isdecimal()]
            path = DEFAULT / f"{max(taken, default=0) + 1:04d}"
            path.mkdir()
        return Directory(path=path)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(_occupied(out))
    out.mkdir(parents=True, exist_ok=True)
    return Directory(path=out)


def _occupied(out: Path) -> str:
    state = out / STATE if out.is_dir() else out
    if out.is_dir() and state.is_file():
        value = parse_json(state.read_bytes(), where=str(state))
        check_format(value, name=FORMAT, version=1, where=str(state))
        ended = "ended" if value["phase"] == "done" else f"stopped in its phase {value['phase']!r}"
        return (
            f"{out} holds a drill with seed {value['seed']} that {ended}; a drill never goes on "
            f"with another's files: look at them, then give another --out or remove {out}"
        )
    what = "holds other files" if out.is_dir() else "is a file"
    return f"{out} {what}; give --out an empty or new directory"
