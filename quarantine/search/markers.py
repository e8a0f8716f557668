"""Done-markers: what a search found in each shard, so that a stopped search goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ...loader.errors import FormatError
from ...loader.files import write_atomic
from ...loader.formats import canonical_json, check_format, parse_json
from .hits import Hit

FORMAT, VERSION = "shardward.search-marker", 1


@dataclass(frozen=True, slots=True)
class Markers:
    """The markers of one question under `directory`; with None nothing is kept."""

    directory: Path | None
    digest: str

    def load(self, shard: int) -> tuple[Hit, ...] | None:
        """Return the hits of a shard that is done, or None; a torn marker is not done."""
        path = self._path(shard)
        if path is None or not path.exists():
            return None
        try:
            value = parse_json(path.read_bytes(), where=str(path))
            check_format(value, name=FORMAT, version=VERSION, where=str(path))
            return tuple(Hit(**hit) for hit in value["hits"])
        except (FormatError, KeyError, TypeError):
            return None

    def save(self, shard: int, hits: Sequence[Hit]) -> None:
        """Mark a shard as done."""
        path = self._path(shard)
        if path is not None:
            found = [{**hit.to_json(), "score": hit.score} for hit in hits]
            write_atomic(
                path, canonical_json({"format": FORMAT, "version": VERSION, "hits": found})
            )

    def _path(self, shard: int) -> Path | None:
        if self.directory is None:
            return None
        return self.directory / self.digest[:16] / f"{shard:06d}.json"
