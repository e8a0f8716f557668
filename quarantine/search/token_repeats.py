"""Periodic repetition in token ids: OLMo 2's rule, a unit of 1 to 13 tokens 32 times or more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .findings import Finding
from .kernels_periods import MAX_PERIOD, word_period

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

REPEATS = 32
NAME, VERSION, FAMILY = "token-period", 2, "repetition"


def periods_of(manifest: Manifest, docs: NDArray[np.int64]) -> list[Finding]:
    """Return the findings over the token ids of `docs`; none of a corpus that is stored as text.

    Raises:
        NotFound: a document is outside the corpus.
    """
    if not manifest.has_token_ids or not len(docs):
        return []
    left = docs[~np.isin(docs, manifest.tombstones)]
    if not len(left):
        return []
    tokens = manifest.documents(left, columns=("tokens",))["tokens"].combine_chunks()
    return list(token_findings(tokens.values.to_numpy(), tokens.offsets.to_numpy(), left))


def token_findings(
    values: NDArray[Any],
    offsets: NDArray[np.int64],
    docs: NDArray[np.int64],
    alive: NDArray[np.bool_] | None = None,
) -> Iterator[Finding]:
    """Yield a finding for each document `values[offsets[i]:offsets[i + 1]]` with such a run.

    Where `alive` is given, the documents for which it is False are left out: what stands in the
    place of a document that was rebuilt away is one token again and again.
    """
    tokens = values.astype(np.uint64)
    for place, doc in enumerate(docs.tolist()):
        if alive is not None and not alive[place]:
            continue
        document = tokens[int(offsets[place]) : int(offsets[place + 1])]
        times, run = (int(value) for value in word_period(document, document.size, MAX_PERIOD))
        if times >= REPEATS:
            share = run / document.size
            yield Finding(
                doc=doc,
                detector=NAME,
                version=VERSION,
                family=FAMILY,
                score=times / (times + REPEATS),
                verdict=True,
                reason=f"a unit of 1 to {MAX_PERIOD} tokens comes {times} times in a row "
                f"(line {REPEATS}); {share:.0%} of the tokens lie in such a run",
                values={"value": float(times), "line": float(REPEATS), "share": share},
            )
