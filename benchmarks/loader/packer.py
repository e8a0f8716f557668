"""Packing for peers that deliver documents: the cheapest loop there is, the same for all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .documents import SEPARATOR


def packed(documents: Iterable[Any], *, batch: int, seq_len: int) -> Iterator[NDArray[np.uint16]]:
    """Yield uint16[batch, seq_len] of `documents` laid end to end, a separator after each.

    Args:
        documents: one-dimensional arrays or lists of token ids.
    """
    size = batch * seq_len
    stream, filled = np.empty(size, np.uint16), 0
    for document in documents:
        tokens = np.append(np.asarray(document, np.uint16), np.uint16(SEPARATOR))
        taken = 0
        while taken < len(tokens):
            part = tokens[taken : taken + size - filled]
            stream[filled : filled + len(part)] = part
            filled += len(part)
            taken += len(part)
            if filled == size:
                yield stream.reshape(batch, seq_len)
                stream, filled = np.empty(size, np.uint16), 0
