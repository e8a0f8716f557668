"""Character classes and case folding, frozen at Unicode 14 so that signatures never drift.

A table built from the interpreter's own `unicodedata` would give other signatures after a
Python upgrade; `characters.json` holds the runs instead and its checksum stands in every index.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from ...loader.formats import sha256_hex

SEPARATOR, WORD, SINGLE, IGNORED = 0, 1, 2, 3
CODE_POINTS = 0x110000
FOLD_MASK = 0x1FFFFF
CLASS_SHIFT = 24
UNSTABLE = 1 << 26
"""A text without this bit is its own NFC, so it needs no normalisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CharacterTable:
    """Two-stage table over all code points.

    `pages` is uint16[4352], the cell page of each 256 code points. `cells` is uint32[256 * pages],
    the folded code point in the low 21 bits, the class from bit 24, `UNSTABLE` at bit 26.
    `ascii` is uint8[256]: the folded byte of a word character, 0 for a separator.
    """

    pages: NDArray[np.uint16]
    cells: NDArray[np.uint32]
    ascii: NDArray[np.uint8]
    checksum: str

    def cell(self, code_point: int) -> int:
        """Return the cell of one code point."""
        return int(self.cells[int(self.pages[code_point >> 8]) * 256 + (code_point & 255)])


@cache
def character_table() -> CharacterTable:
    """Return the frozen table; built once per process in a few milliseconds."""
    data = files(__package__).joinpath("characters.json").read_bytes()
    value = json.loads(data)
    cells = np.arange(CODE_POINTS, dtype=np.uint32)
    for start, end, step, delta in value["folds"]:
        cells[start : end + 1 : step] += np.uint32(delta & 0xFFFFFFFF)
    starts = np.array([start for start, _ in value["classes"]] + [CODE_POINTS])
    classes = np.array([entry for _, entry in value["classes"]], dtype=np.uint32)
    cells |= np.repeat(classes, np.diff(starts)) << np.uint32(CLASS_SHIFT)
    return _two_stage(cells, sha256_hex(data)[:16])


def _two_stage(cells: NDArray[np.uint32], checksum: str) -> CharacterTable:
    unique, pages = np.unique(cells.reshape(-1, 256), axis=0, return_inverse=True)
    classes = (cells[:256] >> np.uint32(CLASS_SHIFT)) & np.uint32(3)
    folded = np.where(classes == WORD, cells[:256] & np.uint32(FOLD_MASK), 0).astype(np.uint8)
    folded[128:] = 0
    return CharacterTable(
        pages=np.ascontiguousarray(pages.reshape(-1), dtype=np.uint16),
        cells=np.ascontiguousarray(unique.reshape(-1)),
        ascii=folded,
        checksum=checksum,
    )
