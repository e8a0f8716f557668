"""Real text that any machine with this package holds: sources, documentation, licences."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ...loader.errors import CorpusError

PART_CHARACTERS = 6000
PARTS_PER_FILE = 8
SHORTEST = 200
CODE_BYTES = 8_500_000
PROSE_BYTES = 3_000_000
LEAST_DOCUMENTS = 3_000
LEAST_BYTES = 15_000_000
OWN_NAME = "shardward"
LICENCE_WORDS = ("licen", "copying", "notice", "authors")
PROSE_SUFFIXES = {".txt", ".rst", ".md", ".html"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """One document: its id in the corpus, the source it comes from, and what it says."""

    id: str
    source: str
    text: str


def machine_texts() -> list[Text]:
    """Return the text found on this machine, in an order that depends on the names alone.

    Long files are cut into parts at line ends, so that no file fills a training window.

    Raises:
        CorpusError: less than the drill needs was found.
    """
    texts = [
        *_within("python", CODE_BYTES, _stdlib_files({".py"})),
        *_within("library", CODE_BYTES, _library_files()),
        *_within("documentation", PROSE_BYTES, _stdlib_files(PROSE_SUFFIXES)),
        *_parts_of_all("documentation", _topics()),
        *_within("licence", PROSE_BYTES, _licence_files()),
        *_parts_of_all("description", _descriptions()),
    ]
    size = sum(len(text.text.encode()) for text in texts)
    if len(texts) < LEAST_DOCUMENTS or size < LEAST_BYTES:
        raise CorpusError(
            f"this machine's Python holds {len(texts)} documents of {size / 1e6:.1f} MB, the drill "
            f"needs {LEAST_DOCUMENTS} of {LEAST_BYTES / 1e6:.0f} MB; give your own with --corpus"
        )
    return texts


def parts(name: str, source: str, content: str) -> Iterator[Text]:
    """Yield `content` as documents of at most `PART_CHARACTERS`, cut at line ends where possible.

    Pieces shorter than `SHORTEST` are dropped, and what follows the first `PARTS_PER_FILE` too.
    """
    start, number = 0, 0
    while start < len(content) and number < PARTS_PER_FILE:
        end = min(start + PART_CHARACTERS, len(content))
        if end < len(content):
            end = content.rfind("\n", start + PART_CHARACTERS // 2, end) + 1 or end
        if end - start >= SHORTEST:
            yield Text(id=f"{name}#{number}", source=source, text=content[start:end])
        start, number = end, number + 1


def name_order(name: str) -> bytes:
    """Return a sort key that mixes names well and is the same everywhere."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


def _within(source: str, limit: int, files: Iterable[tuple[str, Path]]) -> Iterator[Text]:
    """Yield parts of files, in name order, until `limit` bytes are reached."""
    size = 0
    for name, path in sorted(set(files), key=lambda pair: name_order(pair[0])):
        for part in parts(f"{source}/{name}", source, _read(path)):
            size += len(part.text.encode())
            yield part
        if size >= limit:
            return


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""  # unreadable or of another encoding: not a text the drill can use


def _stdlib_files(suffixes: set[str]) -> Iterator[tuple[str, Path]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in root.rglob("*"):
        name = path.relative_to(root)
        if path.suffix in suffixes and _wanted(name):
            yield name.as_posix(), path


def _wanted(name: Path) -> bool:
    unwanted = {"site-packages", "dist-packages", "test", "tests", "__pycache__", "idle_test"}
    return not unwanted.intersection(name.parts)


def _distributions() -> list[metadata.Distribution]:
    found = {dist.name: dist for dist in metadata.distributions() if dist.name}
    found.pop(OWN_NAME, None)
    return [found[name] for name in sorted(found)]


def _library_files() -> Iterator[tuple[str, Path]]:
    for dist in _distributions():
        for file in dist.files or []:
            if file.suffix == ".py" and _wanted(Path(file)) and ".." not in file.parts:
                yield file.as_posix(), Path(str(file.locate()))


def _licence_files() -> Iterator[tuple[str, Path]]:
    for dist in _distributions():
        for file in dist.files or []:
            if any(word in file.name.lower() for word in LICENCE_WORDS) and file.suffix != ".py":
                yield file.as_posix(), Path(str(file.locate()))


def _topics() -> Iterator[tuple[str, str]]:
    """Yield the language reference that `help()` shows."""
    from pydoc_data.topics import topics  # noqa: PLC0415  half a megabyte, read on demand

    yield from sorted(topics.items())


def _descriptions() -> Iterator[tuple[str, str]]:
    for dist in _distributions():
        yield dist.name, str(dist.metadata.json.get("description") or "")


def _parts_of_all(source: str, named: Iterable[tuple[str, str]]) -> Iterator[Text]:
    for name, content in named:
        yield from parts(f"{source}/{name}", source, content)
