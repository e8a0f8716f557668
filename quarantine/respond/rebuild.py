"""Writing the corpus without the documents a revision leaves out: resumable, never half-written.

Each shard is written under a temporary name, read back, and renamed, in a hidden directory; a
marker says so. A second call goes on after the last finished shard, with the same result. When all
are there they are moved to their own names, and `rebuild.json` comes last: until then
`corpus index` refuses the directory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import xxhash

from ...loader.errors import CorpusError, IntegrityError, MismatchError, UsageError
from ...loader.files import (
    exclusive_lock,
    full_disk_named,
    publish_new,
    sync_directory,
    write_atomic,
)
from ...loader.formats import canonical_json, parse_json
from ...loader.sources.opening import join, open_input
from ...loader.unfinished import REPORT, WORK
from .listing import identified
from .rebuild_report import RebuildReport, RebuiltShard, read_report, shard_from_json
from .rebuild_source import Source, source_of
from .revisions import check_tombstones
from .rewrite_other import rewrite_arrow, rewrite_jsonl
from .rewrite_parquet import Keep, rewrite_parquet

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ...loader.manifest_format import Shard
    from ...loader.revision import Revision

STAGING = "shards"
Advance = Callable[[int, str], None]
Int64 = npt.NDArray[np.int64]


def rebuild(
    manifest: Manifest,
    revision: Revision,
    out: Path,
    *,
    documents: Int64 | None = None,
    advance: Advance | None = None,
    tell: Callable[[str], object] = lambda _: None,
) -> RebuildReport:
    """Write every shard without the excluded documents to `out`, and say what was taken out.

    Args:
        manifest: the corpus; it may be a rebuilt one, of which more is taken out then.
        revision: what to leave out; its content hashes are checked before anything is removed.
        out: directory for the shards, under their old relative names.
        documents: take out only these documents of the revision.
        advance: called with (rows, uri) after each shard.
        tell: hears of damaged blocks whose documents were all to go.

    Raises:
        MismatchError: the revision is for another corpus, or `out` holds another rebuild.
        DecisionError: the revision lets in what an earlier rebuild removed.
        IntegrityError: a document is not the one that was excluded, one that stays cannot be read,
            or a written shard is wrong.
        CorpusError: a shard cannot be read.
    """
    if revision.manifest != manifest.fingerprint:
        raise MismatchError(
            f"revision {revision.number} is for corpus {revision.manifest[:12]}, this one is "
            f"{manifest.fingerprint[:12]}; rebuild the corpus the revision was made for"
        )
    check_tombstones(manifest, revision)
    gone = revision.documents if documents is None else np.unique(documents)
    _check_subset(gone, revision)
    _check_outside(manifest, out)
    with full_disk_named(out), exclusive_lock(out / WORK / "lock"):
        _claim(out, manifest, revision, gone)
        shards = []
        for shard in manifest.shards:
            shards.append(_one(manifest, shard, revision, gone, out, tell=tell))
            if advance is not None:
                advance(shard.documents, shard.uri)
        return _finish(out, manifest, revision, tuple(shards))


def _finish(
    out: Path, manifest: Manifest, revision: Revision, shards: tuple[RebuiltShard, ...]
) -> RebuildReport:
    _put_in_place(out, shards)
    if (out / REPORT).exists():
        return read_report(out)
    report = RebuildReport(
        parent=manifest.fingerprint,
        revision=revision.number,
        revision_digest=revision.digest if revision.number else None,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        shards=shards,
    )
    if report.rows_in != report.rows_out + report.removed:
        raise IntegrityError(
            f"{report.rows_in} rows came in, {report.rows_out} went out and {report.removed} were "
            "removed; the shards changed while they were rewritten, rebuild into a new directory"
        )
    publish_new(out / REPORT, canonical_json(report.to_json()))
    return report


def _put_in_place(out: Path, shards: tuple[RebuiltShard, ...]) -> None:
    """Move the finished shards to their own names; a second call moves what is left."""
    for shard in shards:
        staged, target = out / WORK / STAGING / shard.uri, out / shard.uri
        if staged.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            staged.replace(target)
            sync_directory(target.parent)
    shutil.rmtree(out / WORK / STAGING, ignore_errors=True)


def _one(
    manifest: Manifest,
    shard: Shard,
    revision: Revision,
    gone: Int64,
    out: Path,
    *,
    tell: Callable[[str], object],
) -> RebuiltShard:
    marker = out / WORK / f"{shard.first_block:09d}-{shard.digest[:16]}.json"
    staged, target = out / WORK / STAGING / shard.uri, out / shard.uri
    if marker.exists():
        done = shard_from_json(parse_json(marker.read_bytes(), where=str(marker)))
        if done.written is None or done.xxh3_128 in (_digest(staged), _digest(target)):
            return done
    source = source_of(manifest, shard, revision, gone)
    if source.damaged:
        blocks = ", ".join(map(str, source.damaged))
        tell(
            f"shard {shard.uri} is damaged in block {blocks}, of which nothing was to stay; of the "
            "other blocks the text was compared with the index, further columns cannot be"
        )
    removed = _removed(manifest, source.gone)
    rows_out = source.rows - len(removed)
    if rows_out:
        _write(manifest, shard, source, staged, revision)
    done = RebuiltShard(
        uri=shard.uri,
        digest=shard.digest,
        rows_in=source.rows,
        rows_out=rows_out,
        removed=tuple(removed),
        written=shard.uri if rows_out else None,
        size=staged.stat().st_size if rows_out else 0,
        xxh3_128=_digest(staged) if rows_out else None,
    )
    write_atomic(marker, canonical_json(asdict(done)))
    return done


def _write(
    manifest: Manifest, shard: Shard, source: Source, target: Path, revision: Revision
) -> None:
    """Write one shard under a temporary name, check it, and put it in place."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        written = _rewrite(manifest, shard, source, temporary, revision)
        expected = source.rows - source.places.size
        if written != expected:
            raise IntegrityError(
                f"shard {shard.uri} gave {written} rows where the manifest promises {expected} "
                "survivors; it changed since it was indexed, index the corpus anew"
            )
        _sync(temporary)
        temporary.replace(target)
        sync_directory(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _rewrite(
    manifest: Manifest, shard: Shard, source: Source, temporary: Path, revision: Revision
) -> int:
    location = join(manifest.root, shard.uri)
    if not source.places.size:
        with open_input(location) as stream, temporary.open("wb") as out:
            shutil.copyfileobj(stream, out, 1 << 20)
        return source.rows
    keep = _keeper(source.places)
    if shard.format == "parquet":
        note = {
            "shardward.parent": manifest.fingerprint,
            "shardward.revision": revision.digest,
        }
        rewrite_parquet(shard.uri, location, temporary, keep, note)
        return int(pq.read_metadata(temporary).num_rows)
    if shard.format in ("arrow", "arrow-stream"):
        streamed = shard.format == "arrow-stream"
        return rewrite_arrow(
            shard.uri, location, temporary, keep, spans=source.spans, stream=streamed
        )
    if shard.format == "jsonl":
        return rewrite_jsonl(shard.uri, location, temporary, keep, spans=source.spans)
    raise CorpusError(
        f"shard {shard.uri} has the format {shard.format!r}, which rebuild cannot write; "
        "convert the corpus to Parquet"
    )


def _keeper(rows: Int64) -> Keep:
    def keep(first: int, count: int) -> npt.NDArray[np.bool_]:
        low, high = np.searchsorted(rows, (first, first + count))
        mask = np.ones(count, np.bool_)
        mask[rows[low:high] - first] = False
        return mask

    return keep


def _removed(manifest: Manifest, docs: Int64) -> list[dict[str, Any]]:
    if not docs.size:
        return []
    rows = identified(manifest, docs)
    return [{"doc": row["doc"], "row": row["row"], "id": row["id"]} for row in rows]


def _check_subset(gone: Int64, revision: Revision) -> None:
    extra = np.setdiff1d(gone, revision.documents)
    if extra.size:
        raise MismatchError(
            f"document {int(extra[0])} is not excluded by revision {revision.number}; a rebuild "
            "removes only what a revision leaves out"
        )


def _check_outside(manifest: Manifest, out: Path) -> None:
    root = Path(manifest.root)
    if out.resolve() == root.resolve() or root.resolve() in out.resolve().parents:
        raise UsageError(
            f"{out} lies within the corpus at {manifest.root}; originals are never touched, "
            "choose a directory outside it"
        )


def _claim(out: Path, manifest: Manifest, revision: Revision, gone: Int64) -> None:
    """Make `out` belong to this rebuild, or refuse it."""
    value = {
        "parent": manifest.fingerprint,
        "revision": revision.digest,
        "documents": xxhash.xxh3_128_hexdigest(gone.astype("<i8").tobytes()),
    }
    if manifest.header.tombstones:
        # What an earlier rebuild removed is not removed again, so this is another rebuild.
        value["missing"] = xxhash.xxh3_128_hexdigest(manifest.tombstones.astype("<i8").tobytes())
    claim = canonical_json(value)
    path = out / WORK / "claim.json"
    if path.exists() and path.read_bytes() != claim:
        found = parse_json(path.read_bytes(), where=str(path))
        raise MismatchError(
            f"{out} holds a rebuild of corpus {found['parent'][:12]} under revision "
            f"{found['revision'][:12]}, this one is {manifest.fingerprint[:12]} under "
            f"{revision.digest[:12]}; choose an empty directory"
        )
    if not path.exists() and any(p.name != WORK for p in out.iterdir()):
        raise UsageError(f"{out} is not empty and holds no rebuild; choose an empty directory")
    publish_new(path, claim)


def _digest(path: Path) -> str | None:
    """Return the hash of a file's content, None if there is no file."""
    if not path.exists():
        return None
    state = xxhash.xxh3_128()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            state.update(chunk)
    return state.hexdigest()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
