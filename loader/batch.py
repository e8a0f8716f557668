"""What a trainer receives: one micro-batch of one rank, with everything known about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import BoolArray, Int64Array, UInt16Array
from .cursor import Cursor
from .segments import Segments


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """One micro-batch of one rank.

    Attributes:
        step: optimizer step, from 1.
        micro, micros: which of the step's micro-batches this is, from 0.
        epoch: from 0.
        tokens: [n, length], length is seq_len + lookahead; pad where blanked. uint16 for a
            vocabulary of at most 65,536 ids, else int32; never negative.
        loss_mask: bool[n, length], False on padding and blanked pieces.
        positions: int64[n], raw sample positions; -1 for a padded row.
        segments: delivered pieces; `sample` is the row in this batch.
        sources: uint16[k], source code of each segment's document.
        target_tokens: tokens of this micro-batch that count in the loss.
        global_target_tokens: the same over all ranks and micro-batches of the step.
        blanked_tokens: tokens of this micro-batch that the revision took out.
        cursor_after: what a checkpoint taken after this step must save.
        data_wait: seconds that the trainer waited for this step's data, on its first micro-batch.
    """

    step: int
    micro: int
    micros: int
    epoch: int
    tokens: NDArray[Any]
    loss_mask: BoolArray
    positions: Int64Array
    segments: Segments
    sources: UInt16Array
    target_tokens: int
    global_target_tokens: int
    blanked_tokens: int
    cursor_after: Cursor
    data_wait: float = 0.0

    def book_wait(self, seconds: float) -> None:
        """Set `data_wait`, which is known only when a batch made ahead is handed out."""
        _SET_WAIT(self, seconds)

    @property
    def empty(self) -> bool:
        """Whether the whole step, on all ranks, has no token that counts."""
        return self.global_target_tokens == 0

    @property
    def blanked_token_share(self) -> float:
        """Share of this micro-batch's tokens that the revision took out."""
        return self.blanked_tokens / self.tokens.size if self.tokens.size else 0.0

    def segment_ids(self) -> NDArray[np.int32]:
        """Return int32[n, length]: 1, 2, … per delivered piece in its row, 0 elsewhere."""
        ids = np.zeros(self.tokens.shape, dtype=np.int32)
        slices = self.segments.slices(self.positions.size)
        number = np.arange(len(self.segments)) - slices[self.segments.sample] + 1
        for index, (row, low, high) in enumerate(self._spans()):
            ids[row, low:high] = number[index]
        return ids

    def position_ids(self) -> NDArray[np.int32]:
        """Return int32[n, length]: place of each token in its piece, 0 elsewhere."""
        ids = np.zeros(self.tokens.shape, dtype=np.int32)
        for row, low, high in self._spans():
            ids[row, low:high] = np.arange(high - low, dtype=np.int32)
        return ids

    def cu_seqlens(self) -> NDArray[np.int32]:
        """Return the attention boundaries of the flattened batch, int32[pieces + 1].

        Delivered pieces and the gaps between them (padding, blanked pieces) each are one piece.
        """
        length = self.tokens.shape[1]
        edges = [row * length for row in range(self.tokens.shape[0] + 1)]
        for row, low, high in self._spans():
            edges += [row * length + low, row * length + high]
        return np.unique(np.array(edges, dtype=np.int32))

    def _spans(self) -> list[tuple[int, int, int]]:
        ends = self.segments.offset + self.segments.tokens()
        return list(
            zip(
                self.segments.sample.tolist(),
                self.segments.offset.tolist(),
                ends.tolist(),
                strict=True,
            )
        )


# The slot's own setter: assignment is refused, since the class is frozen.
_SET_WAIT = Batch.__dict__["data_wait"].__set__
