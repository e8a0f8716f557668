"""Kinds of junk made after all rules stood: what converters, tokenizers and spammers leave behind.

Each was reported first as it came out; `CHANGED_FOR` names those for which a rule changed after
that, which are unseen no more.
"""

from __future__ import annotations

import codecs
import quopri
import random
import string
from collections.abc import Callable

Damage = Callable[[random.Random, str], str]


def _words(rng: random.Random, text: str, count: int) -> list[str]:
    words = text.split()
    start = rng.randrange(max(1, len(words) - count))
    return words[start : start + count]


def rtf_source(rng: random.Random, text: str) -> str:
    """A word processor's file of which nothing was stripped."""
    runs = (
        f"{{\\rtlch\\fcs1 \\af0\\afs{rng.randrange(18, 30)} \\ltrch\\fcs0 "
        f"\\fs{rng.randrange(18, 30)}\\insrsid{rng.randrange(10**7, 10**8)} {word} }}"
        for word in _words(rng, text, 60)
    )
    return "{\\rtf1\\ansi\\deff0\\pard\\plain \\ql \\li0\\ri0\\widctlpar " + "\n".join(runs) + "}"


def pdf_operators(rng: random.Random, text: str) -> str:
    """The content stream of a PDF page."""
    lines = []
    for line in text.splitlines()[:40]:
        pieces = "".join(
            f"({line[i : i + 3]}){-rng.randrange(90)}" for i in range(0, len(line[:60]), 3)
        )
        lines.append(f"BT /F{rng.randrange(1, 6)} 9.96 Tf 72.0 {rng.random() * 800:.2f} Td")
        lines.append(f"[{pieces}] TJ ET")
    return "\n".join(lines)


def style_sheet(rng: random.Random, text: str) -> str:
    """The style sheet of a page in place of its text, without white space."""
    names = [word.lower() for word in _words(rng, text, 200) if word.isalpha()] or ["a"]
    return "".join(
        f".{rng.choice(names)}-{rng.choice(names)}{{margin:0 {rng.randrange(40)}px;"
        f"color:#{rng.randrange(1 << 24):06x};font:{rng.randrange(9, 20)}px/1.5 sans-serif}}"
        for _ in range(60)
    )


def words_joined(rng: random.Random, text: str) -> str:
    """All spaces lost within a line."""
    return "\n".join("".join(line.split()) for line in text[:3000].splitlines())


def byte_pair_markers(rng: random.Random, text: str) -> str:
    """Tokens as a tokenizer writes them, with its sign for a space."""
    sign = rng.choice("Ġ▁")
    return " ".join(
        piece
        for word in _words(rng, text, 250)
        for piece in (sign + word[:4], *(word[i : i + 3] for i in range(4, len(word), 3)))
    )


def look_alikes(rng: random.Random, text: str) -> str:
    """Half the letters replaced by Cyrillic or Greek ones that look the same, as spam does."""
    table = str.maketrans("aceopxyiABEHKMOPCTX", "асеорхуіΑΒΕΗΚΜΟΡСТХ")  # noqa: RUF001
    return "".join(c.translate(table) if rng.random() < 0.5 else c for c in text[:2500])


def product_keys(rng: random.Random, text: str) -> str:
    """Licence keys, five groups of five."""
    signs = string.ascii_uppercase + string.digits
    return "\n".join(
        "-".join("".join(rng.choices(signs, k=5)) for _ in range(5)) for _ in range(60)
    )


def tool_paths(rng: random.Random, text: str) -> str:
    """What a slicer writes for a printer."""
    return "\n".join(
        f"G1 X{rng.random() * 200:.3f} Y{rng.random() * 200:.3f} E{rng.random():.5f}"
        for _ in range(120)
    )


def mail_words(rng: random.Random, text: str) -> str:
    """Headers of mails whose words nobody decoded."""

    def word() -> str:
        said = " ".join(_words(rng, text, 5)).replace("e", "é")[:30]
        body = quopri.encodestring(said.encode(), header=True).decode()
        return "=?UTF-8?Q?" + "".join(body.split("=\n")) + "?="

    return "\n".join(f"Subject: {word()}\n {word()}" for _ in range(25))


def reversed_lines(rng: random.Random, text: str) -> str:
    """Each line from its end, as text of the other direction is laid out."""
    return "\n".join(line[::-1] for line in text[:3000].splitlines())


def rotated_letters(rng: random.Random, text: str) -> str:
    """Each letter 13 places on."""
    return codecs.encode(text[:3000], "rot13")


def memory_map(rng: random.Random, text: str) -> str:
    """The addresses of a process."""
    names = [word for word in _words(rng, text, 40) if word.isalpha()] or ["a"]
    return "\n".join(
        f"{start:012x}-{start + rng.randrange(1, 64) * 4096:012x} r-xp "
        f"{rng.randrange(1 << 24):08x} fe:00 {rng.randrange(10**6)}  "
        f"/usr/lib/lib{rng.choice(names)}.so.{rng.randrange(9)}"
        for start in (rng.randrange(1 << 34) * 4096 for _ in range(50))
    )


def menu(rng: random.Random, text: str) -> str:
    """The menu of a site under each of its pages' titles."""
    entries = " | ".join(" ".join(_words(rng, text, 2)) for _ in range(14))
    return "\n".join(f"{' '.join(_words(rng, text, 4))}\n{entries}" for _ in range(15))


def escaped_twice(rng: random.Random, text: str) -> str:
    """Text in a string in a string: quotes and line ends escaped twice."""
    marked = text[:2000].replace("'", '"').replace(" a ", ' "a" ')
    return marked.replace('"', '\\\\\\"').replace("\n", "\\\\n").replace("\t", "\\\\t")


LATEST: dict[str, Damage] = {
    damage.__name__: damage
    for damage in (
        rtf_source,
        pdf_operators,
        style_sheet,
        words_joined,
        byte_pair_markers,
        look_alikes,
        product_keys,
        tool_paths,
        mail_words,
        reversed_lines,
        rotated_letters,
        memory_map,
        menu,
        escaped_twice,
    )
}
CHANGED_FOR = ("rtf_source", "style_sheet", "byte_pair_markers", "look_alikes", "escaped_twice")
