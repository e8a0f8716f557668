"""Trouble with a known truth: real binary, degenerate repetition, copies of one toxic page.

What is salted where is written to a file that only the final scoring reads; ids and sources of
salted documents look like those of their neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from ...loader.errors import CorpusError
from .texts import Text

FAMILIES = ("binary", "repetition", "toxic")
IN_BLOCK = 3
BINARY_BYTES = 1200
REPETITION_CHARACTERS = 2400
TOXIC_SENTENCES = 40
EDITS_PER_HUNDRED = 1.0

_SUBJECTS = ("winner", "friend", "customer", "trader", "member", "guest", "hunter", "gambler")
_VERBS = ("claim", "grab", "unlock", "double", "lose", "drop", "crush", "steal", "multiply")
_OBJECTS = ("pills", "coins", "spins", "loans", "tickets", "watches", "potions", "bonuses")
_MOODS = ("free", "filthy", "instant", "shocking", "secret", "banned", "cheap", "stupid")
_TAILS = ("before midnight", "without risk", "behind their backs", "at no cost", "or regret it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Salt:
    """The salted documents: those of the one bad block, and those to scatter."""

    block: tuple[Text, ...]
    scattered: tuple[Text, ...]
    truth: dict[str, tuple[str, ...]]


def make_salt(seed: int, sources: Sequence[str], *, bulk: int, scattered: int) -> Salt:
    """Return the three families for `seed`.

    Args:
        seed: decides every choice.
        sources: names that the documents hide behind.
        bulk: binary documents of the bad block.
        scattered: members of each family outside it.

    Raises:
        CorpusError: no shared library is installed from which real binary can be taken.
    """
    generator = np.random.default_rng([0x5A17, seed])
    contents = {
        "binary": _binary(generator, bulk + scattered),
        "repetition": _repetition(generator, IN_BLOCK + scattered),
        "toxic": _toxic(generator, IN_BLOCK + scattered),
    }
    names = {
        family: [_disguise(generator, sources, text) for text in texts]
        for family, texts in contents.items()
    }
    cut = {"binary": bulk, "repetition": IN_BLOCK, "toxic": IN_BLOCK}
    return Salt(
        block=tuple(text for family in FAMILIES for text in names[family][: cut[family]]),
        scattered=tuple(text for family in FAMILIES for text in names[family][cut[family] :]),
        truth={family: tuple(text.id for text in names[family]) for family in FAMILIES},
    )


def _disguise(generator: np.random.Generator, sources: Sequence[str], text: str) -> Text:
    source = sources[int(generator.integers(len(sources)))]
    return Text(id=f"{source}/page-{generator.bytes(4).hex()}#0", source=source, text=text)


def _binary(generator: np.random.Generator, count: int) -> list[str]:
    """Return slices of installed shared libraries, decoded as latin-1."""
    libraries = _shared_libraries()
    texts: list[str] = []
    for _ in range(200 * count):
        if len(texts) == count:
            return texts
        path = libraries[int(generator.integers(len(libraries)))]
        offset = int(generator.integers(max(1, path.stat().st_size - BINARY_BYTES)))
        with path.open("rb") as stream:
            stream.seek(offset)
            data = stream.read(BINARY_BYTES)
        if _is_machine_code(data):
            texts.append(data.decode("latin-1"))
    raise CorpusError(
        f"the {len(libraries)} shared libraries of this installation gave only {len(texts)} of "
        f"{count} binary documents; install the drill extra whole"
    )


def _shared_libraries() -> list[Path]:
    found = sorted(
        {
            (file.as_posix(), Path(str(file.locate())))
            for dist in metadata.distributions()
            for file in dist.files or []
            if ".so" in file.suffixes and ".." not in file.parts
        }
    )
    paths = [path for _, path in found if path.is_file() and path.stat().st_size > BINARY_BYTES]
    if not paths:
        raise CorpusError("no installed package holds a shared library; the drill needs real ones")
    return paths


def _is_machine_code(data: bytes) -> bool:
    """Leave out padding, string tables and symbol names, which are not what hurts a run."""
    values = np.frombuffer(data, np.uint8)
    zero = float((values == 0).mean())
    high = float((values >= 128).mean())
    return len(data) == BINARY_BYTES and zero < 0.35 and high > 0.25


def _repetition(generator: np.random.Generator, count: int) -> list[str]:
    """Return loops of a few words, lines said again and again, runs of one character in turn."""
    makers = (_word_loop, _line_loop, _character_run)
    return [makers[index % len(makers)](generator) for index in range(count)]


def _words(generator: np.random.Generator, count: int) -> list[str]:
    """Return invented lower-case words, so that no two loops share a shingle."""
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgk", np.uint8)
    sizes = generator.integers(3, 9, count)
    return [letters[generator.integers(0, letters.size, size)].tobytes().decode() for size in sizes]


def _word_loop(generator: np.random.Generator) -> str:
    loop = " ".join(_words(generator, int(generator.integers(2, 7)))) + " "
    return (loop * (REPETITION_CHARACTERS // len(loop) + 1))[:REPETITION_CHARACTERS]


def _line_loop(generator: np.random.Generator) -> str:
    line = " ".join(_words(generator, int(generator.integers(6, 12)))).capitalize() + ".\n"
    return line * (REPETITION_CHARACTERS // len(line) + 1)


def _character_run(generator: np.random.Generator) -> str:
    runs: list[str] = []
    while sum(map(len, runs)) < REPETITION_CHARACTERS:
        mark = "=-*#._~xo0"[int(generator.integers(10))]
        runs += [" ".join(_words(generator, 3)) + "\n", mark * int(generator.integers(300, 700))]
    return "".join(runs)


def _toxic(generator: np.random.Generator, count: int) -> list[str]:
    """Return copies of one hateful sales page, each with about one word in a hundred changed."""
    page = " ".join(_sentence(generator) for _ in range(TOXIC_SENTENCES)).split(" ")
    copies = []
    for _ in range(count):
        words = list(page)
        edits = max(1, round(len(words) * EDITS_PER_HUNDRED / 100))
        places = generator.choice(len(words), size=edits, replace=False)
        for place, word in zip(places, _words(generator, edits), strict=True):
            words[int(place)] = word
        copies.append(" ".join(words))
    return copies


def _sentence(generator: np.random.Generator) -> str:
    def pick(words: Sequence[str]) -> str:
        return words[int(generator.integers(len(words)))]

    number = int(generator.integers(2, 900))
    return (
        f"Every {pick(_MOODS)} {pick(_SUBJECTS)} must {pick(_VERBS)} {number} {pick(_MOODS)} "
        f"{pick(_OBJECTS)} {pick(_TAILS)}."
    )
