"""Junk made from real text and bytes, of kinds that the labelled corpus lacks or has few of."""

from __future__ import annotations

import base64
import binascii
import json
import random
from collections.abc import Callable

Maker = Callable[[random.Random, str, str], str]


def _clip(text: str, size: int) -> str:
    return text[:size]


def hex_dump(rng: random.Random, text: str, other: str) -> str:
    """An `xxd` dump."""
    data = text.encode()[:2000]
    rows = [data[i : i + 16] for i in range(0, len(data), 16)]
    return "\n".join(f"{i * 16:08x}: {row.hex(' ', 2)}" for i, row in enumerate(rows))


def hex_line(rng: random.Random, text: str, other: str) -> str:
    """Hex digits in one line."""
    return text.encode()[:2000].hex()


def base32_lines(rng: random.Random, text: str, other: str) -> str:
    """Base32 in lines of 64."""
    line = base64.b32encode(text.encode()[:2000]).decode()
    return "\n".join(line[i : i + 64] for i in range(0, len(line), 64))


def ascii85(rng: random.Random, text: str, other: str) -> str:
    """Ascii85, wrapped."""
    return base64.a85encode(text.encode()[:2000], wrapcol=76).decode()


def uuencoded(rng: random.Random, text: str, other: str) -> str:
    """uuencode."""
    data = rng.randbytes(2000)
    return "".join(binascii.b2a_uu(data[i : i + 45]).decode() for i in range(0, len(data), 45))


def dna(rng: random.Random, text: str, other: str) -> str:
    """FASTA lines."""
    return "\n".join("".join(rng.choice("ACGT") for _ in range(60)) for _ in range(40))


def utf16_as_latin1(rng: random.Random, text: str, other: str) -> str:
    """UTF-16 read as Latin-1: every second character is NUL."""
    return _clip(text, 1500).encode("utf-16-le", "replace").decode("latin-1")


def utf8_as_latin1(rng: random.Random, text: str, other: str) -> str:
    """UTF-8 read as Latin-1, of a text that is not ASCII."""
    return _clip(other, 3000).encode().decode("latin-1")


def utf8_as_cp1252(rng: random.Random, text: str, other: str) -> str:
    """UTF-8 read as Windows-1252, of a text that is not ASCII."""
    return _clip(other, 3000).encode().decode("cp1252", "replace")


def cyrillic_as_latin1(rng: random.Random, text: str, other: str) -> str:
    """Cyrillic letters in KOI8-R or CP1251, read as Latin-1."""
    letters = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъ"
    sizes = [rng.randrange(1, 10) for _ in range(300)]
    words = ["".join(rng.choices(letters, k=size)) for size in sizes]
    return " ".join(words).encode(rng.choice(("koi8-r", "cp1251"))).decode("latin-1")


def random_replaced(rng: random.Random, text: str, other: str) -> str:
    """Random bytes decoded as UTF-8 with replacement."""
    return rng.randbytes(2000).decode("utf-8", "replace")


def numbers_csv(rng: random.Random, text: str, other: str) -> str:
    """A CSV of numbers."""
    return "\n".join(
        ",".join(f"{rng.gauss(0, 100):.4f}" for _ in range(rng.randrange(4, 8))) for _ in range(80)
    )


def sensor_log(rng: random.Random, text: str, other: str) -> str:
    """Log lines of one pattern."""
    return "\n".join(
        f"2026-11-{rng.randrange(1, 30):02d} {rng.randrange(24):02d}:{rng.randrange(60):02d}:07.1 "
        f"INFO node{rng.randrange(9)} temp={rng.random():.3f} fan={rng.randrange(9999)}"
        for _ in range(60)
    )


def json_numbers(rng: random.Random, text: str, other: str) -> str:
    """Minified JSON of arrays of numbers."""
    rows = [{"x": rng.random(), "y": rng.random(), "id": rng.randrange(10**9)} for _ in range(60)]
    return json.dumps(rows, separators=(",", ":"))


def svg_path(rng: random.Random, text: str, other: str) -> str:
    """The data of an SVG path."""
    return "M0 0" + "".join(
        f"c{rng.uniform(-9, 9):.2f},{rng.uniform(-9, 9):.2f} {rng.uniform(-9, 9):.2f},"
        f"{rng.uniform(-9, 9):.2f} {rng.uniform(-9, 9):.2f},{rng.uniform(-9, 9):.2f}"
        for _ in range(150)
    )


def markup(rng: random.Random, text: str, other: str) -> str:
    """HTML with a tag around every few words."""
    words = text.split()[:300]
    return "".join(
        f'<div class="c{rng.randrange(99)}"><span>{" ".join(words[i : i + 2])}</span></div>'
        for i in range(0, len(words), 2)
    )


def emoji_run(rng: random.Random, text: str, other: str) -> str:
    """One emoji over and over after a sentence."""
    return text[:60] + rng.choice("😂🔥💯👍") * 800


def phrase_loop(rng: random.Random, text: str, other: str) -> str:
    """A phrase of the text over and over."""
    words = text.split()
    start = rng.randrange(max(1, len(words) - 12))
    return (" ".join(words[start : start + rng.randrange(2, 13)]) + " ") * 120


def sentence_loop(rng: random.Random, text: str, other: str) -> str:
    """A passage of 30 to 60 words over and over: a period beyond the periodic rules."""
    words = text.split()
    start = rng.randrange(max(1, len(words) - 60))
    return " ".join([" ".join(words[start : start + rng.randrange(30, 60)])] * 25)


def half_junk(rng: random.Random, text: str, other: str) -> str:
    """Clean text, then as much binary."""
    clean = _clip(text, 2000)
    return clean + rng.randbytes(len(clean)).decode("latin-1")


KINDS: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        hex_dump,
        hex_line,
        base32_lines,
        ascii85,
        uuencoded,
        dna,
        utf16_as_latin1,
        utf8_as_latin1,
        utf8_as_cp1252,
        cyrillic_as_latin1,
        random_replaced,
        numbers_csv,
        sensor_log,
        json_numbers,
        svg_path,
        markup,
        emoji_run,
        phrase_loop,
        sentence_loop,
        half_junk,
    )
}
