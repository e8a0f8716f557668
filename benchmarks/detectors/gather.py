"""Real files that any Linux machine with Python holds, by kind: clean texts, and binary bytes."""

from __future__ import annotations

import contextlib
import gettext
import gzip
import hashlib
import os
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOTS = ("/usr/share", "/usr/lib", "/usr/include", "/usr/src", "/etc", "/opt")
MOST_CHARACTERS = 8_000
LEAST_CHARACTERS = 300
BINARY_BYTES = 4_000
SKIPPED = ("/proc", "/sys", "/dev", "/shardward", "/node_modules/.cache")

_TEXT = "txt md rst markdown text tex"
_CODE = "c h hpp cpp cc py pyi pl pm rb sh java go rs lua tcl r m4 cmake sql f90 cu cuh js ts css"
_DATA = "po pot json csv tsv html htm svg xml xsd xsl yaml yml toml ini conf desktop dtd ipynb bib"
NAMED_TEXTS = ("README", "COPYING", "LICENSE", "NEWS", "AUTHORS", "METADATA", "copyright")
_BINARY = "so pyc a o ttf otf woff woff2 gz xz bz2 zip png jpg gif ico mo wasm sqlite jar whl npy"
BINARY_SUFFIXES = frozenset(f"{_BINARY} npz pdf pcf tfm parquet".split())
TEXT_KIND = {
    suffix: group
    for group, all_ in {"text": _TEXT, "code": _CODE, "data": _DATA}.items()
    for suffix in all_.split()
}
_LOCALES = "ar fa he ru uk bg el zh_CN zh_TW ja ko th hi bn ta ka hy am km vi tr de fr pl fi hu eu"
LOCALES = frozenset(_LOCALES.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Paths by kind; a kind of text is `group/name`, of bytes its suffix."""

    texts: dict[str, list[Path]]
    binaries: dict[str, list[Path]]


def find(half: int, most: int) -> Found:
    """Return up to `most` paths of each kind, spread over directories, out of one half.

    The halves are told by a hash of a path's first four parts, so that one package's files fall
    into one half.
    """
    texts: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    binaries: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path in _walk():
        package = "/".join(path.parts[:5])
        if hashlib.sha256(package.encode()).digest()[0] & 1 != half:
            continue
        kind = text_kind(path)
        if kind is not None:
            texts[kind][package].append(path)
        suffix = path.suffix[1:].lower()
        if suffix in BINARY_SUFFIXES:
            binaries[suffix][package].append(path)
    return Found(
        texts={kind: _spread(of, most) for kind, of in sorted(texts.items())},
        binaries={kind: _spread(of, most) for kind, of in sorted(binaries.items())},
    )


def text_kind(path: Path) -> str | None:
    """Return the kind of clean text that `path` holds, by its name, or None."""
    name, suffix = path.name, path.suffix[1:].lower()
    if "/man/" in str(path) and suffix == "gz":
        language = path.parts[path.parts.index("man") + 1]
        return f"text/roff_{'en' if language.startswith('man') else language[:2]}"
    if suffix == "mo" and "LC_MESSAGES" in path.parts:
        language = path.parts[path.parts.index("LC_MESSAGES") - 1]
        return f"locale/{language}" if language in LOCALES else None
    if name.startswith("changelog") and suffix == "gz":
        return "text/changelog"
    if name.startswith(NAMED_TEXTS) and suffix in {"", "gz", "txt"}:
        return f"text/{next(n for n in NAMED_TEXTS if name.startswith(n)).lower()}"
    if ".min." in name or suffix not in TEXT_KIND:
        return "junk/min.js" if name.endswith((".min.js", ".min.css")) else None
    return f"{TEXT_KIND[suffix]}/{suffix}"


def clean_text(path: Path) -> str | None:
    """Return a passage of up to MOST_CHARACTERS of a text file, None where it holds no UTF-8."""
    try:
        if path.suffix == ".mo":
            text = _translations(path)
        else:
            raw = _read(path, 400_000)
            text = _cut(raw).decode()
    except (OSError, ValueError, EOFError, AssertionError):
        return None
    if len(text.strip()) < LEAST_CHARACTERS:
        return None
    start = 0
    if len(text) > 4 * MOST_CHARACTERS:
        rng = random.Random(str(path))
        start = text.find("\n", rng.randrange(len(text) - 2 * MOST_CHARACTERS)) + 1
    return text[start : start + MOST_CHARACTERS]


def some_bytes(path: Path) -> bytes | None:
    """Return BINARY_BYTES from a random place of a file, None where it is shorter than 600."""
    try:
        size = path.stat().st_size
        if size < 600:
            return None
        with path.open("rb") as handle:
            handle.seek(random.Random(str(path)).randrange(max(1, size - BINARY_BYTES)))
            return handle.read(BINARY_BYTES)
    except OSError:
        return None


def _walk() -> Iterator[Path]:
    roots = [*ROOTS, sys.prefix, sys.base_prefix]
    seen: set[str] = set()
    for root in roots:
        for folder, folders, names in os.walk(root):
            real = str(Path(folder).resolve())
            if real in seen or real.startswith(SKIPPED):
                folders.clear()
                continue
            seen.add(real)
            for name in names:
                path = Path(real, name)
                if not path.is_symlink():
                    yield path


def _spread(packages: dict[str, list[Path]], most: int) -> list[Path]:
    """Return up to `most` paths, one of each package in turn, in an order by hash."""
    ranked = [
        (place, hashlib.sha256(str(path).encode()).digest(), path)
        for paths in packages.values()
        for place, path in enumerate(
            sorted(paths, key=lambda p: hashlib.sha256(str(p).encode()).digest())
        )
    ]
    return [path for _, _, path in sorted(ranked)[:most]]


def _read(path: Path, most: int) -> bytes:
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as handle:
        data: bytes = handle.read(most)
    return data


def _cut(raw: bytes) -> bytes:
    """Return `raw` without a character that its end cut."""
    for back in range(4):
        with contextlib.suppress(UnicodeDecodeError):
            raw[: len(raw) - back].decode()
            return raw[: len(raw) - back]
    return raw


def _translations(path: Path) -> str:
    with path.open("rb") as handle:
        catalogue = gettext.GNUTranslations(handle)
    messages = vars(catalogue)["_catalog"]
    return "\n".join(str(text) for key, text in messages.items() if key and text != key)
