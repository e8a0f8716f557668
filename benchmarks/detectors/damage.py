"""Ways in which text and bytes become junk on their way into a corpus."""

from __future__ import annotations

import base64
import binascii
import html
import json
import quopri
import random
import re
import urllib.parse
from collections.abc import Callable

Damage = Callable[[random.Random, str], str]
DECODINGS: dict[str, Callable[[bytes], str]] = {
    "latin1": lambda raw: raw.decode("latin-1"),
    "utf8": lambda raw: raw.decode("utf-8", "replace"),
    "cp1252": lambda raw: raw.decode("cp1252", "replace"),
    "utf16": lambda raw: raw.decode("utf-16-le", "replace"),
}


def _words(rng: random.Random, text: str, count: int) -> list[str]:
    words = text.split()
    start = rng.randrange(max(1, len(words) - count))
    return words[start : start + count]


def hexdump_c(rng: random.Random, text: str) -> str:
    """As `hexdump -C` prints."""
    data = text.encode()[:1500]
    rows = [data[i : i + 16] for i in range(0, len(data), 16)]
    shown = ["".join(chr(b) if 32 <= b < 127 else "." for b in row) for row in rows]
    return "\n".join(
        f"{16 * i:08x}  {row.hex(' '):<48} |{s}|"
        for i, (row, s) in enumerate(zip(rows, shown, strict=True))
    )


def od_octal(rng: random.Random, text: str) -> str:
    """As `od` prints."""
    data = text.encode()[:2000]
    return "\n".join(
        f"{i:07o} " + " ".join(f"{b:06o}" for b in data[i : i + 16])
        for i in range(0, len(data), 16)
    )


def c_array(rng: random.Random, text: str) -> str:
    """Bytes as a C array, as `xxd -i` prints."""
    data = text.encode()[:1500]
    body = ",\n  ".join(
        ", ".join(f"0x{b:02x}" for b in data[i : i + 12]) for i in range(0, len(data), 12)
    )
    return f"unsigned char data[] = {{\n  {body}\n}};"


def base64_mime(rng: random.Random, text: str) -> str:
    """Base64 in lines of 76."""
    return base64.encodebytes(text.encode()[:3000]).decode()


def base64_url(rng: random.Random, text: str) -> str:
    """URL-safe base64 in one line."""
    return base64.urlsafe_b64encode(rng.randbytes(2500)).decode()


def base64_in_text(rng: random.Random, text: str) -> str:
    """A fifth of text, then base64."""
    return text[:800] + "\n" + base64.encodebytes(rng.randbytes(2400)).decode()


def base85(rng: random.Random, text: str) -> str:
    """Git's base85."""
    return base64.b85encode(rng.randbytes(2500)).decode()


def binhex_hex(rng: random.Random, text: str) -> str:
    """Upper-case hex in lines of 70."""
    line = binascii.hexlify(rng.randbytes(1500)).decode().upper()
    return "\n".join(line[i : i + 70] for i in range(0, len(line), 70))


def percent(rng: random.Random, text: str) -> str:
    """Percent-encoded."""
    return urllib.parse.quote_from_bytes(text.encode("utf-16-le")[:2000])


def entities(rng: random.Random, text: str) -> str:
    """Every character a numeric entity."""
    return "".join(f"&#{ord(c)};" for c in text[:800])


def json_escapes(rng: random.Random, text: str) -> str:
    """Text that is not ASCII as JSON escapes."""
    return json.dumps("".join(chr(ord(c) + 0x400) for c in text[:1000]))


def quoted_printable(rng: random.Random, text: str) -> str:
    """UTF-16 as quoted-printable."""
    return quopri.encodestring(text[:1000].encode("utf-16-le")).decode("latin-1")


def double_escaped_html(rng: random.Random, text: str) -> str:
    """Markup escaped twice."""
    words = _words(rng, text, 200)
    tagged = "".join(f'<td class="x">{word}</td>' for word in words)
    return html.escape(html.escape(tagged))


def loop_of_words(rng: random.Random, text: str) -> str:
    """A passage of 14 to 60 words, 4 to 30 times."""
    return " ".join(_words(rng, text, rng.randrange(14, 61)) * rng.randrange(4, 31))


def loop_after_text(rng: random.Random, text: str) -> str:
    """Text, and then as much again of a passage of 14 to 60 words over and over."""
    passage = " ".join(_words(rng, text, rng.randrange(14, 61)))
    return text[:1500] + " " + " ".join([passage] * max(4, 1500 // max(1, len(passage))))


def loop_with_counter(rng: random.Random, text: str) -> str:
    """One sentence with a number that counts up."""
    words = " ".join(_words(rng, text, rng.randrange(6, 15)))
    return "\n".join(f"{words} {i}" for i in range(60))


def loop_of_paragraphs(rng: random.Random, text: str) -> str:
    """Two passages in turn, as paragraphs."""
    two = [" ".join(_words(rng, text, rng.randrange(20, 61))) for _ in range(2)]
    return "\n\n".join(two * 12)


def stutter(rng: random.Random, text: str) -> str:
    """Every word thrice."""
    return " ".join(word for word in _words(rng, text, 150) for _ in range(3))


def sparse_controls(rng: random.Random, text: str) -> str:
    """One character in 40 lost to a control character."""
    bad = [chr(i) for i in range(1, 32) if chr(i) not in "\b\t\n\v\f\r\x1b\x1c\x1d\x1e\x1f"]
    return "".join(rng.choice(bad) if rng.random() < 0.025 else c for c in text[:3000])


def nul_padded(rng: random.Random, text: str) -> str:
    """Fixed-width records padded with NUL."""
    return "".join(word.ljust(16, "\0") for word in _words(rng, text, 150))


def utf16_read_as_latin1(rng: random.Random, text: str) -> str:
    """UTF-16 with its mark, read as Latin-1."""
    return text[:1500].encode("utf-16", "replace").decode("latin-1")


def utf16_swapped(rng: random.Random, text: str) -> str:
    """UTF-16 in the wrong byte order."""
    return text[:1500].encode("utf-16-le", "replace").decode("utf-16-be", "replace")


def replaced_foreign(rng: random.Random, text: str) -> str:
    """Latin-1 bytes of a text with accents, read as UTF-8 with replacement."""
    accents = "éèàüöäñçõåø"
    kept = "".join(rng.choice(accents) if rng.random() < 0.04 else c for c in text[:3000])
    return kept.encode("latin-1", "replace").decode("utf-8", "replace")


MADE: dict[str, Damage] = {
    damage.__name__: damage
    for damage in (
        hexdump_c,
        od_octal,
        c_array,
        base64_mime,
        base64_url,
        base64_in_text,
        base85,
        binhex_hex,
        percent,
        entities,
        json_escapes,
        quoted_printable,
        double_escaped_html,
        loop_of_words,
        loop_after_text,
        loop_with_counter,
        loop_of_paragraphs,
        stutter,
        sparse_controls,
        nul_padded,
        utf16_read_as_latin1,
        utf16_swapped,
        replaced_foreign,
    )
}


def _twice(text: str) -> str:
    return text.encode().decode("latin-1").encode().decode("latin-1")


FOREIGN: dict[str, Damage] = {
    "utf8_read_as_latin1": lambda rng, text: text[:2000].encode().decode("latin-1"),
    "utf8_read_as_cp1252": lambda rng, text: text[:2000].encode().decode("cp1252", "replace"),
    "utf8_read_as_latin1_twice": lambda rng, text: _twice(text[:1200]),
    "utf8_read_as_cp437": lambda rng, text: text[:2000].encode().decode("cp437"),
    "utf8_read_as_cp1251": lambda rng, text: text[:2000].encode().decode("cp1251", "replace"),
    "utf8_read_as_mac": lambda rng, text: text[:2000].encode().decode("mac_roman"),
    "question_marks": lambda rng, text: text[:2000].encode("ascii", "replace").decode(),
}
"""Damage that needs text beyond ASCII."""

NATIVE: dict[str, tuple[str, ...]] = {
    "ru": ("koi8-r", "cp1251", "cp866"),
    "ja": ("shift_jis", "euc_jp"),
    "zh_CN": ("gb18030",),
    "zh_TW": ("big5",),
    "ko": ("euc_kr",),
    "el": ("iso8859-7",),
    "ar": ("cp1256",),
    "he": ("cp1255",),
    "th": ("cp874",),
}
"""Old encodings of a locale's texts, each read as Latin-1."""


def minified(text: str) -> str:
    """Return JavaScript without comments and needless white space, crudely."""
    bare = re.sub(r"/\*.*?\*/|(?m:^\s*//.*$)", "", text, flags=re.S)
    return re.sub(r"\s*([{}();,:=+<>?&|!\-\[\]])\s*", r"\1", re.sub(r"\s+", " ", bare))
