"""More ways in which text becomes junk: extraction, wrong code pages, noise, residue, loops.

`UNCHOSEN` names the kinds for which no line, gate or feature was chosen.
"""

from __future__ import annotations

import base64
import math
import random
import string
import textwrap
from collections.abc import Callable

Damage = Callable[[random.Random, str], str]


def cid_codes(rng: random.Random, text: str) -> str:
    """Glyph numbers where a PDF had no map to characters."""
    return " ".join("".join(f"(cid:{ord(c) + 3})" for c in word) for word in text[:700].split())


def zalgo(rng: random.Random, text: str) -> str:
    """Marks piled on every letter."""
    marks = [chr(i) for i in range(0x300, 0x370)]
    return "".join(c + "".join(rng.choices(marks, k=rng.randrange(2, 8))) for c in text[:800])


def zero_width_everywhere(rng: random.Random, text: str) -> str:
    """A zero-width character between all characters."""
    return rng.choice("\u200b\u200c\u200d\u2060\ufeff").join(text[:1500])


def random_letters(rng: random.Random, text: str) -> str:
    """Words of random letters."""
    return " ".join(
        "".join(rng.choices(string.ascii_lowercase, k=rng.randrange(2, 11))) for _ in range(200)
    )


def random_unicode(rng: random.Random, text: str) -> str:
    """Random characters of the Basic Multilingual Plane."""
    points = [*range(0x20, 0xD800), *range(0xE000, 0xFFFE)]
    return "".join(map(chr, rng.choices(points, k=1200)))


def few_controls(rng: random.Random, text: str) -> str:
    """Two in a thousand characters lost to NUL or another control character."""
    return "".join(rng.choice("\0\x01\x02\x0e\x14") if rng.random() < 0.002 else c for c in text)


def stutter_twice(rng: random.Random, text: str) -> str:
    """Every word twice."""
    return " ".join(word for word in text.split()[:200] for _ in range(2))


def loop_without_spaces(rng: random.Random, text: str) -> str:
    """A unit of 14 to 200 letters over and over, without a space."""
    unit = "".join(text.split())[: rng.randrange(14, 200)]
    return unit * math.ceil(4000 / max(1, len(unit)))


def pem(rng: random.Random, text: str) -> str:
    """A key file."""
    body = "\n".join(textwrap.wrap(base64.b64encode(rng.randbytes(1700)).decode(), 64))
    return f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"


def base64_mail(rng: random.Random, text: str) -> str:
    """The headers of a mail, then its body in base64."""
    body = base64.encodebytes(text.encode()[:2500]).decode()
    return f"From: a@example.org\nTo: b@example.org\nContent-Transfer-Encoding: base64\n\n{body}"


def tracking_tokens(rng: random.Random, text: str) -> str:
    """Parameters of links without the links."""

    def token() -> str:
        return base64.urlsafe_b64encode(rng.randbytes(rng.randrange(18, 60))).decode().rstrip("=")

    return "\n".join(f"utm_id={token()}&fbclid={token()}&sid={token()}" for _ in range(25))


def emoji_chain(rng: random.Random, text: str) -> str:
    """A few emoji over and over."""
    return "".join(rng.choices("😂🔥💯👍🎉", k=3)) * 300


def keyword_stuffing(rng: random.Random, text: str) -> str:
    """Three search phrases, repeated in changing order."""
    words = text.split()
    phrases = [" ".join(words[i : i + 3]) for i in (10, 40, 70)]
    return ", ".join(rng.choice(phrases) for _ in range(150))


def template_residue(rng: random.Random, text: str) -> str:
    """Placeholders that nothing filled."""
    names = [word for word in text.split() if word.isalpha()][:40] or ["name"]
    return "\n".join(
        f"{{{{ {rng.choice(names)}.{rng.choice(names)} }}}} {{% if {rng.choice(names)} %}}"
        f"&nbsp;&lt;%= {rng.choice(names)} %&gt;{{% endif %}}"
        for _ in range(50)
    )


def log_spam(rng: random.Random, text: str) -> str:
    """One warning again and again, only its time differs."""
    said = " ".join(text.split()[:8])
    return "\n".join(
        f"2026-11-29 12:{i // 60:02d}:{i % 60:02d} WARN {said} id={rng.randrange(9999)}"
        for i in range(80)
    )


def utf8_ignored(rng: random.Random, text: str) -> str:
    """Random bytes decoded as UTF-8 with errors ignored."""
    return rng.randbytes(6000).decode("utf-8", "ignore")


def ocr_noise(rng: random.Random, text: str) -> str:
    """One letter in five taken for a digit or sign that looks like it."""
    looks = str.maketrans("olesbgtiaz", "01356971@2")
    return "".join(c.translate(looks) if rng.random() < 0.5 else c for c in text[:3000])


def sql_dump(rng: random.Random, text: str) -> str:
    """Rows of a database dump."""
    rows = ",\n".join(
        f"({rng.randrange(10**6)},'{rng.randbytes(16).hex()}',{rng.random():.6f},NULL)"
        for _ in range(60)
    )
    return f"INSERT INTO `t` VALUES {rows};"


def letters_apart(rng: random.Random, text: str) -> str:
    """A space after every letter, as a PDF can leave it, between words one more or two."""
    apart = " " * rng.randrange(1, 4)
    middle = len(text) // 2
    return apart.join(" ".join(word) for word in text[middle : middle + 1200].split())


MORE: dict[str, Damage] = {
    damage.__name__: damage
    for damage in (
        cid_codes,
        zalgo,
        zero_width_everywhere,
        random_letters,
        random_unicode,
        few_controls,
        stutter_twice,
        loop_without_spaces,
        pem,
        base64_mail,
        tracking_tokens,
        emoji_chain,
        keyword_stuffing,
        template_residue,
        log_spam,
        utf8_ignored,
        ocr_noise,
        sql_dump,
        letters_apart,
    )
}


def _misread(written: str, read: str) -> Damage:
    return lambda rng, text: text[:1500].encode(written, "ignore").decode(read, "replace")


def _loop(rng: random.Random, text: str) -> str:
    start = rng.randrange(max(1, len(text) - 200))
    unit = text[start : start + rng.randrange(15, 90)].replace("\n", "")
    return unit * math.ceil(1500 / max(1, len(unit)))


CROSSED: dict[str, dict[str, Damage]] = {
    "ru": {
        "koi8_read_as_cp1251": _misread("koi8-r", "cp1251"),
        "cp1251_read_as_koi8": _misread("cp1251", "koi8-r"),
        "cp1251_read_as_cp866": _misread("cp1251", "cp866"),
        "cp866_read_as_cp1251": _misread("cp866", "cp1251"),
        "cp1251_read_as_mac": _misread("cp1251", "mac_cyrillic"),
        "utf8_read_as_koi8": _misread("utf-8", "koi8-r"),
        "utf8_read_as_cp866": _misread("utf-8", "cp866"),
    },
    "el": {"greek_read_as_cp1251": _misread("iso8859-7", "cp1251")},
    "he": {"hebrew_read_as_cp1251": _misread("cp1255", "cp1251")},
    "ja": {
        "shift_jis_read_as_cp1252": _misread("shift_jis", "cp1252"),
        "euc_jp_read_as_shift_jis": _misread("euc_jp", "shift_jis"),
        "utf8_read_as_shift_jis": _misread("utf-8", "shift_jis"),
        "japanese_loop": _loop,
    },
    "zh_CN": {
        "utf8_read_as_gbk": _misread("utf-8", "gbk"),
        "gbk_read_as_big5": _misread("gbk", "big5"),
        "gbk_read_as_euc_kr": _misread("gbk", "euc_kr"),
        "chinese_loop": _loop,
    },
    "ko": {"euc_kr_read_as_gbk": _misread("euc_kr", "gbk")},
    "th": {"thai_loop": _loop, "thai_read_as_cp1252": _misread("cp874", "cp1252")},
    "km": {"khmer_loop": _loop},
    "my": {"burmese_loop": _loop},
    "lo": {"lao_loop": _loop},
    "ar": {"arabic_read_as_cp1251": _misread("cp1256", "cp1251")},
}
"""Damage by the locale whose texts it needs."""
UNCHOSEN = (
    "utf8_ignored",
    "sql_dump",
    "greek_read_as_cp1251",
    "thai_read_as_cp1252",
    "arabic_read_as_cp1251",
    "lao_loop",
)
