"""What a loader counts while it goes."""

from __future__ import annotations

from dataclasses import dataclass

from .prepared import PreparedStep


@dataclass(slots=True, kw_only=True)
class LoaderStats:
    """Counters since the cursor was loaded.

    Attributes:
        steps: delivered steps.
        tokens: delivered tokens that count in the loss, on this rank.
        blanked_tokens: tokens taken out, on this rank.
        bytes_read: decoded bytes of all windows used.
        bytes_delivered: bytes of delivered tokens.
        data_wait: seconds that the trainer waited for data.
        last_data_wait: the same for the latest step.
        lost_blocks: blocks masked because they could not be read.
    """

    steps: int = 0
    tokens: int = 0
    blanked_tokens: int = 0
    bytes_read: int = 0
    bytes_delivered: int = 0
    data_wait: float = 0.0
    last_data_wait: float = 0.0
    lost_blocks: int = 0

    def add(self, step: PreparedStep, waited: float) -> None:
        """Count one delivered step."""
        self.steps += 1
        self.tokens += step.target_tokens
        self.blanked_tokens += step.blanked_tokens
        self.bytes_read += step.bytes_read
        self.bytes_delivered += step.target_bytes
        self.data_wait += waited
        self.last_data_wait = waited
        self.lost_blocks += len(step.lost)

    @property
    def read_amplification(self) -> float:
        """Bytes read per byte delivered; the start of a window reads all of it."""
        return self.bytes_read / self.bytes_delivered if self.bytes_delivered else 0.0
