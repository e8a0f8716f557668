"""Clean texts with many numbers, of kinds that detectors of number tables take for junk.

The words come from real texts, the layouts are those of bibliographies, recipes, tables, logs and
games. None of these is junk by itself.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

Maker = Callable[[random.Random, Sequence[str]], str]
_BROWSERS = (
    "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0",
    "curl/8.1.2",
    "Mozilla/5.0 (compatible; examplebot/2.0; +http://www.example.org/bot.htm)",
)


def vocabulary(texts: Iterable[str]) -> list[str]:
    """Return the words of three to twelve small letters in `texts`, sorted."""
    return sorted({word for text in texts for word in re.findall(r"[a-z]{3,12}", text)})


def _words(rng: random.Random, words: Sequence[str], low: int, high: int) -> str:
    return " ".join(rng.choices(words, k=rng.randrange(low, high)))


def _name(rng: random.Random, words: Sequence[str]) -> str:
    return rng.choice(words).capitalize()


def bibliography(rng: random.Random, words: Sequence[str]) -> str:
    """Numbered references."""
    return "\n".join(
        f"[{i}] {_name(rng, words)}, {rng.choice('ABCDEF')}. and {_name(rng, words)}, "
        f"{rng.choice('ABCDEF')}. ({rng.randrange(1950, 2025)}). "
        f"{_words(rng, words, 4, 12).capitalize()}. {_words(rng, words, 2, 4).title()}, "
        f"{rng.randrange(1, 90)}({rng.randrange(1, 12)}), {rng.randrange(500)}-"
        f"{rng.randrange(500, 999)}."
        for i in range(1, rng.randrange(20, 80))
    )


def recipe(rng: random.Random, words: Sequence[str]) -> str:
    """Quantities and what of."""
    units = ("g", "ml", "tbsp", "tsp", "cups")
    return "\n".join(
        f"{rng.randrange(1, 900)} {rng.choice(units)} {_words(rng, words, 1, 4)}"
        for _ in range(rng.randrange(12, 40))
    )


def markdown_table(rng: random.Random, words: Sequence[str]) -> str:
    """A table of names, numbers and notes."""
    rows = "\n".join(
        f"| {_words(rng, words, 1, 3)} | {rng.randrange(1000)} | {_words(rng, words, 2, 6)} |"
        for _ in range(rng.randrange(15, 60))
    )
    return f"| name | count | note |\n|---|---|---|\n{rows}"


def csv_of_names(rng: random.Random, words: Sequence[str]) -> str:
    """Customers and what they owe."""
    rows = "\n".join(
        f"{i},{_name(rng, words)} {_name(rng, words)},{_name(rng, words)},{rng.random() * 1000:.2f}"
        for i in range(rng.randrange(15, 80))
    )
    return f"id,name,city,amount\n{rows}"


def access_log(rng: random.Random, words: Sequence[str]) -> str:
    """Lines of a web server's log."""
    return "\n".join(
        f"{rng.randrange(255)}.{rng.randrange(255)}.{rng.randrange(255)}.{rng.randrange(255)} - - "
        f"[{rng.randrange(1, 29):02d}/Oct/2026:{rng.randrange(24):02d}:07:{rng.randrange(60):02d} "
        f'+0000] "GET /{rng.choice(words)}/{rng.choice(words)} HTTP/1.1" 200 '
        f'{rng.randrange(99999)} "-" "{rng.choice(_BROWSERS)}"'
        for _ in range(rng.randrange(15, 60))
    )


def program_log(rng: random.Random, words: Sequence[str]) -> str:
    """Lines of a program's log, each of which says something else."""
    return "\n".join(
        f"2026-11-29 {rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d} "
        f"{rng.choice(('INFO', 'WARN'))} [{rng.choice(words)}] {_words(rng, words, 4, 10)} "
        f"{rng.randrange(9999)}"
        for _ in range(rng.randrange(15, 60))
    )


def mapping(rng: random.Random, words: Sequence[str]) -> str:
    """A Python dictionary of numbers."""
    rows = "\n".join(
        f'    "{rng.choice(words)}_{rng.choice(words)}": {rng.randrange(10_000)},'
        for _ in range(rng.randrange(15, 70))
    )
    return f"TABLE = {{\n{rows}\n}}"


def chess(rng: random.Random, words: Sequence[str]) -> str:
    """A game in portable notation."""

    def move() -> str:
        return (
            rng.choice(("", "N", "B", "R", "Q", "Nx"))
            + rng.choice("abcdefgh")
            + str(rng.randrange(1, 9))
        )

    moves = " ".join(f"{i}. {move()} {move()}" for i in range(1, rng.randrange(40, 90)))
    return f'[White "{_name(rng, words)}"]\n[Result "1-0"]\n\n{moves}'


def prices(rng: random.Random, words: Sequence[str]) -> str:
    """A price list."""
    return "\n".join(
        f"{_words(rng, words, 1, 4).title()} ${rng.randrange(99)}.{rng.randrange(100):02d}"
        for _ in range(rng.randrange(15, 60))
    )


def contents(rng: random.Random, words: Sequence[str]) -> str:
    """A table of contents with leaders."""
    return "\n".join(
        f"{i // 5 + 1}.{i % 5 + 1} {_words(rng, words, 2, 6).capitalize()} "
        f"{'.' * rng.randrange(3, 15)} {i * 3}"
        for i in range(rng.randrange(15, 60))
    )


def verses(rng: random.Random, words: Sequence[str]) -> str:
    """Numbered verses."""
    return "\n".join(
        f"{i // 20 + 1}:{i % 20 + 1} {_words(rng, words, 10, 25).capitalize()}."
        for i in range(rng.randrange(15, 60))
    )


def chat(rng: random.Random, words: Sequence[str]) -> str:
    """A chat with times."""
    return "\n".join(
        f"[{rng.randrange(24):02d}:{rng.randrange(60):02d}] <{rng.choice(words)}> "
        f"{_words(rng, words, 3, 12)}"
        for _ in range(rng.randrange(15, 60))
    )


def release_notes(rng: random.Random, words: Sequence[str]) -> str:
    """Changes with the numbers of their tickets."""
    return "\n".join(
        f"- {_words(rng, words, 4, 10).capitalize()} (#{rng.randrange(1000, 9999)})"
        for _ in range(rng.randrange(15, 60))
    )


def _sentence(rng: random.Random, words: Sequence[str], low: int, high: int) -> str:
    return _words(rng, words, low, high).capitalize() + "."


def lyrics(rng: random.Random, words: Sequence[str]) -> str:
    """A song: three verses, and a chorus of four lines after each."""
    chorus = "\n".join(_words(rng, words, 4, 8).capitalize() for _ in range(4))
    verses = (
        "\n".join(_words(rng, words, 4, 9).capitalize() + "," for _ in range(8)) for _ in range(3)
    )
    return "\n\n".join(f"{verse}\n\n{chorus}" for verse in verses)


def quoted_mail(rng: random.Random, words: Sequence[str]) -> str:
    """Answers below quotations of quotations."""
    parts = []
    for depth in (3, 2, 1, 0):
        lines = (_words(rng, words, 6, 12) for _ in range(rng.randrange(3, 9)))
        parts.append("\n".join(f"{'> ' * depth}{line}" for line in lines))
        parts.append(
            f"{'> ' * depth}On Mon, {rng.randrange(1, 28)} Nov 2026, {_name(rng, words)} wrote:"
        )
    return "\n".join(parts[:-1])


def subtitles(rng: random.Random, words: Sequence[str]) -> str:
    """Subtitles with their times."""
    return "\n".join(
        f"{i}\n00:{i // 12:02d}:{5 * i % 60:02d},{rng.randrange(1000):03d} --> "
        f"00:{i // 12:02d}:{5 * i % 60 + 4:02d},{rng.randrange(1000):03d}\n"
        f"{_sentence(rng, words, 4, 9)}\n{_sentence(rng, words, 3, 8)}\n"
        for i in range(1, rng.randrange(20, 60))
    )


def latex(rng: random.Random, words: Sequence[str]) -> str:
    """The source of a paper, with formulas."""
    return "\n\n".join(
        f"\\section{{{_words(rng, words, 2, 5).title()}}}\\label{{sec:{rng.choice(words)}}}\n"
        f"{_sentence(rng, words, 12, 30)} Let $x_{{{i}}} \\in \\mathbb{{R}}^{{n}}$ be "
        f"{_words(rng, words, 4, 9)} \\cite{{{rng.choice(words)}{rng.randrange(1980, 2026)}}}.\n"
        f"\\begin{{equation}}\n\\sum_{{k=1}}^{{n}} \\alpha_k x_k^{{{rng.randrange(2, 9)}}} \\le "
        f"\\frac{{1}}{{{rng.randrange(2, 99)}}}\n\\end{{equation}}\n{_sentence(rng, words, 15, 40)}"
        for i in range(rng.randrange(4, 12))
    )


def dictionary(rng: random.Random, words: Sequence[str]) -> str:
    """Words, how they are said, and what they mean."""
    sounds = "ɑæəɛɪʊʌɔθðʃʒŋˈˌː"
    return "\n".join(
        f"{rng.choice(words)} /{''.join(rng.choices(sounds + 'bdfgklmnprstvz', k=7))}/ "
        f"{rng.choice(('n.', 'v.', 'adj.'))} 1. {_words(rng, words, 4, 10)}; "
        f"2. {_words(rng, words, 3, 9)}."
        for _ in range(rng.randrange(15, 50))
    )


def notice_in_capitals(rng: random.Random, words: Sequence[str]) -> str:
    """Terms in capitals, with numbered sections."""
    return "\n\n".join(
        f"{i}. {_sentence(rng, words, 25, 60)}".upper() for i in range(1, rng.randrange(5, 14))
    )


def screenplay(rng: random.Random, words: Sequence[str]) -> str:
    """Scenes, names in capitals, and what they say."""
    names = [rng.choice(words).upper() for _ in range(3)]
    return "\n\n".join(
        f"INT. {_words(rng, words, 2, 4).upper()} - NIGHT\n\n{_sentence(rng, words, 8, 20)}\n\n"
        + "\n\n".join(
            f"{'':20}{rng.choice(names)}\n{'':10}{_sentence(rng, words, 4, 14)}" for _ in range(5)
        )
        for _ in range(rng.randrange(3, 7))
    )


def interview(rng: random.Random, words: Sequence[str]) -> str:
    """Questions and answers by two initials."""
    return "\n".join(
        f"{'AQ'[i % 2]}: {_sentence(rng, words, 5, 12)} {_sentence(rng, words, 8, 25)}"
        for i in range(rng.randrange(12, 40))
    )


LATER: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        lyrics,
        quoted_mail,
        subtitles,
        latex,
        dictionary,
        notice_in_capitals,
        screenplay,
        interview,
    )
}
"""Layouts made after all rules stood, reported as they came out; nothing was chosen for them."""
INNOCENT: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        bibliography,
        recipe,
        markdown_table,
        csv_of_names,
        access_log,
        program_log,
        mapping,
        chess,
        prices,
        contents,
        verses,
        chat,
        release_notes,
    )
}


def decomposed(text: str) -> str:
    """Return `text` in NFD, in which every accent is a mark of its own."""
    return unicodedata.normalize("NFD", text)
