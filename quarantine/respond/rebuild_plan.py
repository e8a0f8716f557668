"""Which documents a rebuild takes out when only the condemned ones may go."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .corpus import resolver
from .decisions import DecisionLog
from .status import Documents, live_entries

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ...loader.revision import Revision


def condemned_documents(run_path: Path, manifest: Manifest, revision: Revision) -> Documents:
    """Return the sorted documents of `revision` that a live decision condemns."""
    resolve = resolver(manifest)
    condemned = [
        resolve(entry.decision.scope)
        for entry in live_entries(DecisionLog(run_path).entries())
        if entry.decision.action == "condemn"
    ]
    if not condemned:
        return np.empty(0, np.int64)
    return np.intersect1d(np.unique(np.concatenate(condemned)), revision.documents)
