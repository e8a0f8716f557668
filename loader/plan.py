"""The plan: canonical JSON of everything that moves a sample. Its digest is `plan_id`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import BoolArray, Int64Array
from .errors import FormatError
from .formats import Json, canonical_json, check_format, sha256_hex
from .permutation import MASK64, Permutation, derive_key

FORMAT = "shardward.plan"
VERSION = 1
ORDER_VERSION = 1

_HOLDOUT_KEY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdout:
    """Documents kept out of training for evaluation: a seeded sample of the corpus.

    The members are the images of 0..documents-1 under a permutation of all ordinals, so that
    membership needs no table and the sample is uniform over documents, hence over sources.
    """

    documents: int
    seed: int = 0

    def __post_init__(self) -> None:
        if self.documents < 0:
            raise ValueError(f"a hold-out of {self.documents} documents is negative")
        if not 0 <= self.seed <= MASK64:
            raise ValueError(f"the hold-out seed {self.seed} is outside 0..2**64-1")

    def members(self, corpus_documents: int) -> Int64Array:
        """Return the sorted ordinals held out of a corpus of `corpus_documents`, int64[n]."""
        chosen = np.arange(min(self.documents, corpus_documents), dtype=np.int64)
        return np.sort(self._permutation(corpus_documents).forward(chosen))

    def contains(self, docs: Int64Array, corpus_documents: int) -> BoolArray:
        """Return whether each of `docs` is held out, bool[n]."""
        return self._permutation(corpus_documents).inverse(docs) < self.documents

    def _permutation(self, corpus_documents: int) -> Permutation:
        return Permutation(corpus_documents, derive_key(self.seed, _HOLDOUT_KEY))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything that decides which documents a position holds.

    Attributes:
        fingerprint: of the manifest, 64 hex digits.
        seed: 0 <= seed < 2**64.
        window_blocks: blocks shuffled together (W); a window is what a process holds in memory.
        seq_len: tokens per packed sample; None delivers one document per sample.
        separator: token put after each document, or None.
        pad: token that fills a window's last sample and blanked segments.
        lookahead: 1 adds the stream's next token to each sample, for trainers that shift inside.
        holdout: documents that training never sees, or None.
    """

    fingerprint: str
    seed: int
    window_blocks: int = 16
    seq_len: int | None
    separator: int | None
    pad: int
    lookahead: int = 0
    holdout: Holdout | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.seed <= MASK64:
            raise ValueError(f"the seed {self.seed} is outside 0..2**64-1")
        if self.window_blocks < 1:
            raise ValueError(f"a window of {self.window_blocks} blocks is empty; use 1 or more")
        if self.seq_len is not None and self.seq_len < 1:
            raise ValueError(f"seq_len {self.seq_len} is not positive")
        if self.lookahead not in (0, 1):
            raise ValueError(f"lookahead is {self.lookahead}, it can be 0 or 1")
        if self.lookahead and self.seq_len is None:
            raise ValueError("lookahead needs packed samples; give a seq_len")
        if min(self.pad, -1 if self.separator is None else self.separator) < -1 or self.pad < 0:
            raise ValueError("separator and pad are token ids, so they cannot be negative")

    @property
    def packed(self) -> bool:
        """Whether samples are packed to `seq_len` tokens."""
        return self.seq_len is not None

    @property
    def separator_tokens(self) -> int:
        """Tokens that follow each document in the stream: 0 or 1."""
        return 0 if self.separator is None else 1

    @property
    def plan_id(self) -> str:
        """SHA-256 of the canonical JSON, 64 hex digits."""
        return sha256_hex(canonical_json(self.to_json()))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object whose canonical form is digested."""
        holdout = self.holdout
        return {
            "format": FORMAT,
            "version": VERSION,
            "order_version": ORDER_VERSION,
            "manifest": self.fingerprint,
            "seed": self.seed,
            "window_blocks": self.window_blocks,
            "packing": {
                "seq_len": self.seq_len,
                "separator": self.separator,
                "pad": self.pad,
                "lookahead": self.lookahead,
            },
            "holdout": None
            if holdout is None
            else {"documents": holdout.documents, "seed": holdout.seed},
            "mixture": None,
            "stages": [],
        }

    @classmethod
    def from_json(cls, value: Json, *, where: str = "the plan") -> Plan:
        """Return the plan in `value`.

        Raises:
            FormatError: unknown version, a missing field, or a value of the wrong kind.
        """
        check_format(value, name=FORMAT, version=VERSION, where=where)
        if value.get("order_version") != ORDER_VERSION:
            raise FormatError(
                f"{where} has order version {value.get('order_version')!r}, this release knows "
                f"{ORDER_VERSION}; use the release that wrote it"
            )
        if value.get("mixture") is not None or value.get("stages"):
            raise FormatError(f"{where} has a mixture or stages, which version 1 does not define")
        try:
            holdout = value["holdout"]
            return cls(
                fingerprint=value["manifest"],
                seed=value["seed"],
                window_blocks=value["window_blocks"],
                holdout=None if holdout is None else Holdout(**holdout),
                **value["packing"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{where} is malformed: {error}") from error
