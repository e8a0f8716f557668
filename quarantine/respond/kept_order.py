"""The manifest of a rebuilt corpus in its parent's numbers: made once, known when repeated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...loader.errors import UsageError
from ...loader.manifest import Manifest
from ...loader.manifest_format import HEADER
from ...loader.rebuilt import rebuilt_manifest

if TYPE_CHECKING:
    from .rebuild_report import RebuildReport


def check_place(place: Path, parent: Manifest, out: Path) -> None:
    """Refuse a manifest directory that holds anything else than the manifest of a rebuild to `out`.

    Raises:
        UsageError: it exists and is another manifest, or none, or it is where the shards go.
    """
    manifest, shards = place.resolve(), out.resolve()
    if manifest.is_relative_to(shards) or shards.is_relative_to(manifest):
        raise UsageError(
            f"the manifest {place} and the shards {out} cannot lie in each other; name a directory "
            "beside it with --keep-order"
        )
    if not place.exists():
        return
    found = Manifest.load(place).header if (place / HEADER).is_file() else None
    if found is None or (found.parent, found.root) != (parent.fingerprint, str(out.absolute())):
        raise UsageError(f"{place} exists, and manifests never change; name a new directory")


def keep_order(place: Path, parent: Manifest, out: Path, report: RebuildReport) -> None:
    """Make the manifest of the rebuilt corpus in `out`, unless an earlier try made it.

    Raises:
        UsageError: `place` holds the manifest of another rebuild.
        CorpusError: the shards are not the parent's without what the report says was removed.
    """
    # What an earlier rebuild removed from the parent stays gone.
    gone = np.union1d(parent.tombstones, np.array(report.removed_documents, np.int64))
    if not place.exists():
        rebuilt_manifest(parent, out, place, gone=gone)
    elif not np.array_equal(Manifest.load(place).tombstones, gone):
        raise UsageError(
            f"{place} is of a rebuild that removed other documents, and manifests never change; "
            "name a new directory"
        )
