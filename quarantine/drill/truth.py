"""What is wrong with a drill's corpus, frozen before anything is searched for.

Beside the salt it names the junk that the text held already, judged by other means than the
detectors: how far a text compresses, and how much of it cannot be printed. Only the final scoring
reads it.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...loader.formats import parse_json
from .salt import Salt
from .texts import Text

SHINGLE = 5
OVERLAP = 0.2
COMPRESSED = 0.2
UNPRINTABLE = 0.1
WORTH_A_LOOK = 0.3
"""Share that the fastest compression leaves of a text which the best may bring to `COMPRESSED`."""
_ODD = re.compile(r"[^\x20-\x7e\s]")

Shingles = frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """Ids by kind.

    Attributes:
        families: what was salted, by family.
        junk: unsalted documents that are junk.
        copies: unsalted documents that share a fifth of their word 5-grams with a salted one.
    """

    families: Mapping[str, Sequence[str]] = field(default_factory=dict)
    junk: Sequence[str] = ()
    copies: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    @classmethod
    def read(cls, path: Path) -> Truth:
        """Return what `frozen_truth` found and the corpus phase wrote to `path`."""
        return cls(**parse_json(path.read_bytes(), where=str(path)))


def frozen_truth(salt: Salt, texts: Sequence[Text]) -> Truth:
    """Return what is wrong with `texts` once `salt` is in them."""
    salted = [shingles(text.text) for text in (*salt.block, *salt.scattered)]
    known = frozenset().union(*salted)
    return Truth(
        families=salt.truth,
        junk=tuple(text.id for text in texts if is_junk(text.text)),
        copies=tuple(text.id for text in texts if _is_copy(text.text, salted, known)),
    )


def _is_copy(text: str, salted: Sequence[Shingles], known: Shingles) -> bool:
    mine = shingles(text)
    if mine.isdisjoint(known):
        return False
    return any(overlap(mine, other) >= OVERLAP for other in salted)


def shingles(text: str) -> Shingles:
    """Return the word 5-grams of a text, lower case."""
    words = text.lower().split()
    return frozenset(tuple(words[i : i + SHINGLE]) for i in range(max(1, len(words) - SHINGLE + 1)))


def overlap(left: Shingles, right: Shingles) -> float:
    """Return the Jaccard index of two sets of 5-grams."""
    return len(left & right) / len(left | right)


def is_junk(text: str) -> bool:
    """Return whether a text compresses to a fifth, or a tenth of it cannot be printed."""
    data = text.encode("utf-8", "surrogatepass")
    fast = len(zlib.compress(data, 1))
    if fast <= WORTH_A_LOOK * len(data) and len(zlib.compress(data, 9)) <= COMPRESSED * len(data):
        return True
    suspects = _ODD.findall(text)
    odd = sum(not char.isprintable() for char in suspects)
    return odd >= UNPRINTABLE * max(1, len(text))
