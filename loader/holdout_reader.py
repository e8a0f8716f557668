"""The documents that a plan keeps out of training, for evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import MismatchError
from .manifest import Manifest
from .plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HeldOutDocument:
    """One document of the hold-out: its ordinal, the name of its source, its tokens."""

    doc: int
    source: str
    tokens: NDArray[Any]


def held_out(manifest: Manifest, plan: Plan) -> Iterator[HeldOutDocument]:
    """Yield the plan's hold-out in manifest order; only the blocks that have some are read.

    Of a rebuilt corpus, what was removed is left out.

    Raises:
        MismatchError: the plan is for another manifest.
    """
    if plan.fingerprint != manifest.fingerprint:
        raise MismatchError(
            f"the plan is for manifest {plan.fingerprint[:12]}, this is "
            f"{manifest.fingerprint[:12]}; load the plan's own manifest"
        )
    if plan.holdout is None:
        return
    geometry, names = manifest.geometry(), manifest.source_names
    docs = np.setdiff1d(plan.holdout.members(geometry.documents), manifest.tombstones)
    blocks = geometry.block_of(docs)
    for block in np.unique(blocks):
        data, first = manifest.open_block(int(block)), int(geometry.first_document[block])
        codes = manifest.sources(first, first + len(data))
        for doc in docs[blocks == block].tolist():
            tokens = data.document(doc - first)
            yield HeldOutDocument(doc=doc, source=names[codes[doc - first]], tokens=tokens)
