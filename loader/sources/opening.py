"""Finding and opening shards: local paths directly, anything with a scheme through fsspec."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path, PurePosixPath

import fsspec
import pyarrow as pa

from ..errors import CorpusError

SUFFIXES = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".arrows": "arrow-stream",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def is_remote(location: str) -> bool:
    """Tell whether `location` carries a scheme such as `s3://`."""
    return "://" in location


def open_input(location: str) -> pa.NativeFile:
    """Open `location` for random reads.

    Raises:
        OSError: it is not there or not readable.
        ValueError: it is a pipe or a device, which would be waited for without end.
    """
    if is_remote(location):
        return pa.PythonFile(fsspec.open(location, "rb").open(), mode="r")
    if not stat.S_ISREG(Path(location).stat().st_mode):
        raise ValueError("it is not a regular file")
    return pa.OSFile(location, "rb")


def format_of(uri: str) -> str | None:
    """Return the format that the suffix of `uri` names, None for other files."""
    return SUFFIXES.get(PurePosixPath(uri).suffix)


def find_shards(inputs: Sequence[str]) -> tuple[str, list[str]]:
    """Return (root, shard URIs relative to it), sorted by URI whatever the order of `inputs`.

    A directory stands for all shards below it, at any depth; a pattern for what it matches.

    Raises:
        CorpusError: nothing is found, a file named outright has an unknown suffix, or a local one
            is no regular file or has a name that is not UTF-8.
    """
    found: set[str] = set()
    for item in inputs:
        matches = _expand(item)
        if not matches:
            raise CorpusError(f"{item} holds no shard; shards end in {', '.join(sorted(SUFFIXES))}")
        found.update(matches)
    if not found:
        raise CorpusError("no input given; name shard files, directories or patterns")
    root = _common_root(sorted(found))
    return root, sorted(path[len(root) :].lstrip("/") for path in found)


def join(root: str, uri: str) -> str:
    """Return where the shard `uri` of the corpus at `root` lies."""
    return f"{root.rstrip('/')}/{uri}"


def _expand(item: str) -> list[str]:
    system, path = fsspec.core.url_to_fs(item)
    prefix = item[: item.index("://") + 3] if is_remote(item) else ""
    if not prefix:
        path = str(Path(item).absolute())
    if system.isdir(path):
        listed = _below(path, [str(name) for name in system.find(path)])
    elif system.isfile(path):
        if format_of(path) is None:
            raise CorpusError(
                f"{item} is not a known shard format; shards end in {', '.join(sorted(SUFFIXES))}"
            )
        listed = [path]
    else:
        listed = [str(name) for name in system.glob(path) if not _hidden(PurePosixPath(name).name)]
    shards = [prefix + name for name in listed if format_of(name)]
    if not prefix:
        for name in shards:
            _check_local(name)
    return shards


def _check_local(path: str) -> None:
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise CorpusError(
            f"the name of {os.fsencode(path)!r} is not UTF-8, so a manifest cannot hold it; "
            "rename the file"
        ) from error
    file = Path(path)
    try:
        mode = file.stat().st_mode
    except FileNotFoundError as error:
        # It was listed a moment ago: a link that leads nowhere, or a file that is gone since.
        why = f"links to {file.readlink()}, which is missing" if file.is_symlink() else "is gone"
        raise CorpusError(f"{path} {why}; restore that file, or remove the entry") from error
    if not stat.S_ISREG(mode):
        raise CorpusError(f"{path} is not a regular file; copy its content to one, or remove it")


def _below(directory: str, names: list[str]) -> list[str]:
    """Return the files of a directory that are meant as data.

    Not meant are hidden ones, those in hidden directories, and the tables of a manifest that was
    built inside the corpus.
    """
    manifests = {name.rpartition("/")[0] for name in names if name.endswith("/manifest.json")}
    return [
        name
        for name in names
        if not _hidden(name[len(directory) :]) and name.rpartition("/")[0] not in manifests
    ]


def _hidden(path: str) -> bool:
    return any(part.startswith((".", "_")) for part in path.split("/"))


def _common_root(paths: Sequence[str]) -> str:
    first, last = paths[0].split("/")[:-1], paths[-1].split("/")[:-1]
    # Sorted paths differ most between the first and the last.
    shared = [
        one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    ]
    return "/".join(shared) or "/"
