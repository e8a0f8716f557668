"""What a rebuild took out and wrote: the object of `rebuild.json`. Reading it is the only I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...loader.errors import NotFound
from ...loader.formats import check_format, parse_json
from ...loader.unfinished import REPORT

FORMAT = "shardward.rebuild"


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltShard:
    """What became of one shard; `removed` are {doc, row, id}, `written` is None when empty."""

    uri: str
    digest: str
    rows_in: int
    rows_out: int
    removed: tuple[Mapping[str, Any], ...]
    written: str | None
    size: int
    xxh3_128: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildReport:
    """The whole rebuild: rows_in = rows_out + removed."""

    parent: str
    revision: int
    revision_digest: str | None
    created: str
    shards: tuple[RebuiltShard, ...]

    @property
    def rows_in(self) -> int:
        """Documents of the parent corpus."""
        return sum(shard.rows_in for shard in self.shards)

    @property
    def rows_out(self) -> int:
        """Documents written."""
        return sum(shard.rows_out for shard in self.shards)

    @property
    def removed(self) -> int:
        """Documents taken out."""
        return sum(len(shard.removed) for shard in self.shards)

    @property
    def removed_documents(self) -> list[int]:
        """Ordinals, in the parent corpus, of what was taken out."""
        return [int(row["doc"]) for shard in self.shards for row in shard.removed]

    def to_json(self) -> dict[str, Any]:
        """Return the object of `rebuild.json`."""
        return {
            "format": FORMAT,
            "version": 1,
            "parent": self.parent,
            "revision": self.revision,
            "revision_digest": self.revision_digest,
            "created": self.created,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "removed": self.removed,
            "shards": [asdict(shard) for shard in self.shards],
        }


def read_report(out: Path) -> RebuildReport:
    """Return the report of a finished rebuild in `out`."""
    path = out / REPORT
    if not path.exists():
        raise NotFound(f"{out} holds no finished rebuild; run rebuild on it again to finish it")
    value = parse_json(path.read_bytes(), where=str(path))
    check_format(value, name=FORMAT, version=1, where=str(path))
    return RebuildReport(
        parent=value["parent"],
        revision=value["revision"],
        revision_digest=value["revision_digest"],
        created=value["created"],
        shards=tuple(shard_from_json(shard) for shard in value["shards"]),
    )


def shard_from_json(value: Mapping[str, Any]) -> RebuiltShard:
    """Return the shard `asdict` gave."""
    return RebuiltShard(**{**value, "removed": tuple(value["removed"])})
