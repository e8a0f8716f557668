"""What each character says about a text: its group, and the bytes that code pages write for it.

A text read in a wrong code page is told by this: turned back into that page's bytes, its characters
above ASCII are UTF-8 again. And no language puts certain groups side by side: a box-drawing line
beside a letter, a small letter before a capital in Cyrillic, Greek beside Hebrew. The tables come
from block ranges and from Python's codecs of frozen standards, not from `unicodedata`, so that they
are the same under every release of Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto
from functools import cache

import numpy as np
from numpy.typing import NDArray

BMP = 0x10000
SPACE_BIT = 1 << 5
LEAD_SHIFT, CONTINUATION_SHIFT = 8, 16
CODE_PAGES = ("latin-1", "cp1252", "cp437", "cp1251", "mac_roman", "koi8_r", "cp866", "cp1250")
"""Pages as which UTF-8 is misread; the first holds C1 controls, the others do not."""
_LEADS = (*range(0xC2, 0xC6), 0xCE, 0xCF, 0xD0, 0xD1, *range(0xD7, 0xDC), *range(0xE0, 0xEE), 0xF0)
"""First bytes of the characters of living languages in UTF-8."""
_CYRILLIC_LETTERS = "ЂЃЉЊЌЋЏђѓљњќћџЎўЈҐЁЄЇІіґёєјЅѕї"
"""Read for later bytes by pages that hold Cyrillic, where they follow other letters by right."""


class Group(IntEnum):
    """A group of characters above ASCII; 32 at most."""

    OTHER = 0
    LATIN1_LOWER = auto()
    LATIN1_UPPER = auto()
    LATIN1_SIGN = auto()
    LATIN1_PUNCTUATION = auto()
    LATIN_EXTENDED = auto()
    MODIFIER = auto()
    GREEK_LOWER = auto()
    GREEK_UPPER = auto()
    CYRILLIC_LOWER = auto()
    CYRILLIC_UPPER = auto()
    RIGHT_TO_LEFT = auto()
    INDIC = auto()
    UNSPACED = auto()
    """Thai, Lao, Burmese, Khmer."""
    ALPHABET = auto()
    HANGUL = auto()
    KANA = auto()
    IDEOGRAPH = auto()
    RARE_IDEOGRAPH = auto()
    """In none of the first levels of GB 2312, Big5 and JIS X 0208."""
    EAST_PUNCTUATION = auto()
    WIDE = auto()
    HALF_KANA = auto()
    PUNCTUATION = auto()
    SIGN = auto()
    BOX = auto()
    PICTURE = auto()
    MARK = auto()
    HIDDEN = auto()
    PRIVATE = auto()
    """For private use, or what ASCII read as UTF-16 becomes."""
    REPLACEMENT = auto()
    C1 = auto()
    SPACE = auto()


_RANGES: tuple[tuple[int, int, Group], ...] = (
    (0x0080, 0x009F, Group.C1),
    (0x00A0, 0x00BF, Group.LATIN1_SIGN),
    (0x00C0, 0x00DE, Group.LATIN1_UPPER),
    (0x00DF, 0x00FF, Group.LATIN1_LOWER),
    (0x0100, 0x024F, Group.LATIN_EXTENDED),
    (0x0250, 0x02FF, Group.MODIFIER),
    (0x0300, 0x036F, Group.MARK),
    (0x0370, 0x03AB, Group.GREEK_UPPER),
    (0x03AC, 0x03FF, Group.GREEK_LOWER),
    (0x0400, 0x042F, Group.CYRILLIC_UPPER),
    (0x0430, 0x052F, Group.CYRILLIC_LOWER),
    (0x0530, 0x058F, Group.ALPHABET),
    (0x0590, 0x08FF, Group.RIGHT_TO_LEFT),
    (0x0900, 0x0DFF, Group.INDIC),
    (0x0E00, 0x0EFF, Group.UNSPACED),
    (0x0F00, 0x0FFF, Group.INDIC),
    (0x1000, 0x109F, Group.UNSPACED),
    (0x10A0, 0x10FF, Group.ALPHABET),
    (0x1100, 0x11FF, Group.HANGUL),
    (0x1200, 0x177F, Group.ALPHABET),
    (0x1780, 0x17FF, Group.UNSPACED),
    (0x1800, 0x1DBF, Group.ALPHABET),
    (0x1E00, 0x1EFF, Group.LATIN_EXTENDED),
    (0x1F00, 0x1FFF, Group.GREEK_LOWER),
    (0x2000, 0x200A, Group.SPACE),
    (0x200B, 0x200F, Group.HIDDEN),
    (0x2010, 0x2029, Group.PUNCTUATION),
    (0x202A, 0x202E, Group.HIDDEN),
    (0x202F, 0x205F, Group.PUNCTUATION),
    (0x2060, 0x206F, Group.HIDDEN),
    (0x2070, 0x24FF, Group.SIGN),
    (0x2500, 0x25FF, Group.BOX),
    (0x2600, 0x27BF, Group.PICTURE),
    (0x27C0, 0x2BFF, Group.SIGN),
    (0x2C00, 0x2DFF, Group.ALPHABET),
    (0x2E80, 0x303F, Group.EAST_PUNCTUATION),
    (0x3040, 0x30FF, Group.KANA),
    (0x3100, 0x312F, Group.KANA),
    (0x3130, 0x318F, Group.HANGUL),
    (0x3190, 0x33FF, Group.EAST_PUNCTUATION),
    (0x3400, 0x9FFF, Group.RARE_IDEOGRAPH),
    (0xA000, 0xABFF, Group.ALPHABET),
    (0xAC00, 0xD7AF, Group.HANGUL),
    (0xE000, 0xF8FF, Group.PRIVATE),
    (0xF900, 0xFAFF, Group.RARE_IDEOGRAPH),
    (0xFB1D, 0xFDFF, Group.RIGHT_TO_LEFT),
    (0xFE70, 0xFEFE, Group.RIGHT_TO_LEFT),
    (0xFEFF, 0xFEFF, Group.HIDDEN),
    (0xFF00, 0xFFEF, Group.WIDE),
    (0xFF61, 0xFF9F, Group.HALF_KANA),
    (0xFFFD, 0xFFFD, Group.REPLACEMENT),
)
_PUNCTUATION_IN_LATIN1 = "\u00a0\u00a1\u00aa\u00ab\u00ad\u00b7\u00ba\u00bb\u00bf"
_SPACES = (0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, *range(0x2000, 0x200B))
_MISREAD_UTF16 = (*range(0x2061, 0x2066), *range(0x206A, 0x2070), 0x2072, 0x2073)
"""A letter beside a space in UTF-16 of the wrong byte order."""
_FIRST_LEVELS = (
    ("gb2312", range(0xB0, 0xD8), range(0xA1, 0xFF)),
    ("big5", range(0xA4, 0xC7), range(0x40, 0xFF)),
    ("euc_jp", range(0xB0, 0xD0), range(0xA1, 0xFF)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptTable:
    """What the kernels look up.

    `cells` uint32[65536 + 272]: the BMP, then 4096 code points each. Bits 0 to 4 hold the group,
    bit 5 white space, bits 8 to 15 whether a code page of CODE_PAGES reads a first byte of UTF-8
    as this character, bits 16 to 23 whether it reads a later byte so. `odd` uint32[64]: bit `b` of
    entry `a` says that group `b` does not follow group `a`, in entry `32 + a` that a capital of
    the same script follows a small letter, as in Cyrillic of one old page read as another.
    """

    cells: NDArray[np.uint32]
    odd: NDArray[np.uint32]


@cache
def script_table() -> ScriptTable:
    """Return the table; built once per process in a few milliseconds."""
    cells = np.zeros(BMP + 0x110, dtype=np.uint32)
    for first, last, group in _RANGES:
        cells[first : last + 1] = group
    for character in "\u00d7\u00f7":
        cells[ord(character)] = Group.LATIN1_SIGN
    cells[[ord(character) for character in _PUNCTUATION_IN_LATIN1]] = Group.LATIN1_PUNCTUATION
    common = _first_level_ideographs()
    cells[common] = Group.IDEOGRAPH
    swapped = np.setdiff1d(np.arange(0x2E00, 0x8000, 0x100), [0x3000, *common])
    cells[swapped] = Group.PRIVATE
    cells[list(_MISREAD_UTF16)] = Group.PRIVATE
    cells[BMP + 0x1F] = Group.PICTURE
    cells[BMP + 0x20 : BMP + 0x40] = Group.RARE_IDEOGRAPH
    cells[list(_SPACES)] |= SPACE_BIT
    for bit, page in enumerate(CODE_PAGES):
        for point, shift in _misreadings(page):
            cells[point] |= 1 << (bit + shift)
    return ScriptTable(cells=cells, odd=_odd_neighbours())


def _first_level_ideographs() -> NDArray[np.int64]:
    """Return the ideographs that the standards of Chinese and Japanese hold to be frequent."""
    found: set[int] = set()
    for codec, rows, places in _FIRST_LEVELS:
        # A newline after each pair, so that one that is not assigned takes nothing with it.
        pairs = bytes(byte for row in rows for place in places for byte in (row, place, 10))
        found.update(map(ord, pairs.decode(codec, "ignore")))
    return np.array(sorted(point for point in found if 0x4E00 <= point < 0xA000), dtype=np.int64)


def _misreadings(page: str) -> list[tuple[int, int]]:
    """Return (code point, shift) of what `page` reads for the bytes of UTF-8 above ASCII.

    In CP866 bytes from E0 on are small letters, which any letter may follow.
    """
    found = []
    for byte in range(0x80, 0xF5):
        text = bytes([byte]).decode(page, "ignore")
        if text and byte < 0xC0 and text not in _CYRILLIC_LETTERS:
            found.append((ord(text), CONTINUATION_SHIFT))
        elif text and byte in _LEADS and not (page == "cp866" and byte >= 0xE0):
            found.append((ord(text), LEAD_SHIFT))
    return found


def _odd_neighbours() -> NDArray[np.uint32]:
    latin = (Group.LATIN1_LOWER, Group.LATIN1_UPPER, Group.LATIN_EXTENDED)
    greek = (Group.GREEK_LOWER, Group.GREEK_UPPER)
    cyrillic = (Group.CYRILLIC_LOWER, Group.CYRILLIC_UPPER)
    far = ((Group.RIGHT_TO_LEFT,), (Group.INDIC,), (Group.UNSPACED,), (Group.ALPHABET,))
    east = (Group.HANGUL, Group.KANA, Group.IDEOGRAPH, Group.RARE_IDEOGRAPH)
    scripts = (latin, greek, cyrillic, *far)
    signs = ((Group.LATIN1_SIGN,), (Group.SIGN,), (Group.BOX,))
    kinds = (*scripts, *signs)
    pairs = {(a, b) for x in kinds for y in kinds if x != y for a in x for b in y}
    pairs |= {pair for a in east for x in far for b in x for pair in ((a, b), (b, a))}
    odd = np.zeros(64, dtype=np.uint32)
    for a, b in pairs:
        odd[a] |= np.uint32(1 << b)
    for a, b in (greek, cyrillic):
        odd[32 + a] |= np.uint32(1 << b)
    return odd
