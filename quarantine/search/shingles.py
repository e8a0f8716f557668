"""The published definition of a shingle, in plain Python, that datasketch itself can use.

    MinHash(num_perm=128, seed=1, hashfunc=shingle_hash).update_batch(shingles(text))

gives the very signature that the kernels write. The kernels are tested against this module.

Normalisation: ignorable characters (zero-width, bidi controls, variation selectors) are dropped,
then NFC, then each character is folded to lower case. Tokens: a run of letters, digits, marks and
underscores is a word; each character of a script written without spaces (Chinese, Japanese, Thai,
Lao, Khmer, Burmese) is a token by itself; everything else separates. A shingle is five successive
tokens; a shorter text is one shingle, a text without tokens has none.
"""

from __future__ import annotations

import unicodedata

from .characters import CLASS_SHIFT, FOLD_MASK, IGNORED, SEPARATOR, SINGLE, character_table

WIDTH = 5
TOKENIZER_VERSION = 1
WORD_PRIME = 0x9E3779B97F4A7C15
SHINGLE_PRIME = 0xD6E8FEB86659FD93
MASK64 = (1 << 64) - 1


def normalise(text: str) -> str:
    """Return `text` without ignorable characters and in NFC (case is folded by `tokens`)."""
    return unicodedata.normalize("NFC", strip_ignored(text))


def strip_ignored(text: str) -> str:
    """Return `text` without zero-width and other ignorable characters."""
    cell = character_table().cell
    hidden = {ord(c) for c in set(text) if cell(ord(c)) >> CLASS_SHIFT & 3 == IGNORED}
    return text.translate(dict.fromkeys(hidden)) if hidden else text


def tokens(text: str) -> list[str]:
    """Return the tokens of `text` in order."""
    cell = character_table().cell
    found: list[str] = []
    word: list[str] = []
    for character in [*normalise(text), "\n"]:
        entry = cell(ord(character))
        kind, folded = entry >> CLASS_SHIFT & 3, chr(entry & FOLD_MASK)
        if kind == IGNORED:
            continue
        if kind in (SEPARATOR, SINGLE) and word:
            found.append("".join(word))
            word = []
        if kind == SINGLE:
            found.append(folded)
        elif kind != SEPARATOR:
            word.append(folded)
    return found


def shingles(text: str) -> list[bytes]:
    """Return the shingles of `text`: tokens joined by one space, UTF-8, repeats kept."""
    words = tokens(text)
    if not words:
        return []
    last = max(len(words) - WIDTH, 0)
    return [" ".join(words[i : i + WIDTH]).encode() for i in range(last + 1)]


def shingle_hash(shingle: bytes) -> int:
    """Return the 32-bit hash of a shingle, the `hashfunc` for datasketch."""
    return shingle_hash64(shingle) & 0xFFFFFFFF


def shingle_hash64(shingle: bytes) -> int:
    """Return the 64-bit hash of a shingle, which exact Jaccard compares.

    Words are multiplicative hashes over code points, joined by a polynomial over words and
    finished with the MurmurHash3 64-bit finaliser.
    """
    total = 0
    for word in shingle.decode().split(" "):
        total = (total * SHINGLE_PRIME + _word_hash(word)) & MASK64
    return _finish(total)


def jaccard(left: str, right: str) -> float:
    """Return the Jaccard index of the two shingle sets; 0.0 when both are empty."""
    a, b = set(shingles(left)), set(shingles(right))
    union = len(a | b)
    return len(a & b) / union if union else 0.0


def _word_hash(word: str) -> int:
    value = 0
    for character in word:
        value = ((value ^ ord(character)) * WORD_PRIME) & MASK64
    return value ^ (value >> 32)


def _finish(value: int) -> int:
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & MASK64
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & MASK64
    return value ^ (value >> 33)
