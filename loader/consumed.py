"""What a run has consumed, so that a new stage with another plan or corpus need not repeat it."""

from __future__ import annotations

import numpy as np

from .arrays import Int64Array, concatenate
from .cursor import Cursor
from .errors import MismatchError
from .manifest import Manifest
from .order import EpochOrder, Layout
from .plan import Plan

GONE = bytes(16).hex()
"""Digest of a shard that a rebuilt corpus no longer has; it tells nothing of what it held."""


def consumed_documents(manifest: Manifest, plan: Plan, cursor: Cursor) -> Int64Array:
    """Return the documents of which `plan` hands out a token before `cursor`, sorted int64[n].

    After the first epoch these are all but the held-out ones. What a revision left out counts as
    consumed. Windows are told apart by the cipher alone; the lengths of one are read.

    Raises:
        MismatchError: plan, manifest and cursor do not belong together.
    """
    if (plan.fingerprint, cursor.plan_id) != (manifest.fingerprint, plan.plan_id):
        raise MismatchError(
            f"the plan {plan.plan_id[:12]} is for manifest {plan.fingerprint[:12]}, the cursor of "
            f"plan {cursor.plan_id[:12]}, this is manifest {manifest.fingerprint[:12]}; give the "
            "run's own"
        )
    geometry = manifest.geometry()
    layout = Layout(plan, geometry, manifest.lengths)
    if cursor.epoch:
        found = np.arange(geometry.documents, dtype=np.int64)
    else:
        order = EpochOrder(layout, 0)
        window = order.window_of(cursor.position)
        blocks = order.block_order[: window * plan.window_blocks].tolist()
        first = geometry.first_document
        parts = [np.arange(first[block], first[block + 1], dtype=np.int64) for block in blocks]
        if window < order.windows:
            positions = np.arange(order.window_starts[window], cursor.position, dtype=np.int64)
            parts.append(order.window(window).segments(positions).doc)
        found = concatenate(parts)
    return np.setdiff1d(found, layout.held_out)


def documents_elsewhere(old: Manifest, docs: Int64Array, new: Manifest) -> Int64Array:
    """Return the ordinals that documents of `old` have in `new`, sorted int64[<= n].

    A shard is the same where its bytes are, whatever it is called and however often it is there;
    documents of other shards are left out.
    """
    if old.fingerprint == new.fingerprint:
        return docs
    there: dict[tuple[str, int], list[int]] = {}
    for shard in new.shards:
        if shard.digest != GONE:
            there.setdefault((shard.digest, shard.documents), []).append(shard.first_document)
    parts = []
    for shard in old.shards:
        edges = (shard.first_document, shard.first_document + shard.documents)
        low, high = np.searchsorted(docs, edges)
        inside = docs[low:high] - shard.first_document
        parts += [inside + place for place in there.get((shard.digest, shard.documents), ())]
    return np.unique(concatenate(parts))
