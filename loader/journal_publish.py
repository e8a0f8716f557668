"""Publishing a run to an object store while it goes on, and mirroring it elsewhere.

What a journal gained between two durable points is one *segment*, an object with a number:
`journal/p000001-r00000-x000/000001.seg`. Revisions, pieces and head entries are numbered objects
as well, and a piece names its ranks and replicas, so a reader finds everything by probing the next
number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import xxhash

from .errors import IntegrityError, NotFound, UsageError
from .files import exclusive_lock, publish_new, sync_directory, write_atomic
from .formats import parse_json
from .journal import iter_journal
from .journal_lookup import journal_name
from .journal_store import ObjectStore
from .pieces import Piece, piece_path
from .revision import Revision
from .revision_store import DIRECTORY as REVISIONS
from .revision_store import list_revisions, publish_revision_files

LARGEST_SEGMENT = 64 << 20
_FIXED = ("run.json", "plan.json")
_HEAD = "head.log"
_NOTE = 200
"""A note that is longer is none."""


class SegmentPublisher:
    """Publishes one journal in segments.

    What is published already is found when it is needed, so a trainer starts while the store is
    away.

    Args:
        store: where segments go.
        journal: the local file.
    """

    def __init__(self, store: ObjectStore, journal: Path) -> None:
        self._store = store
        self._journal = journal
        self._number = 0
        self._offset = 0
        self._known = False

    def found(self) -> int:
        """Return how many bytes of the journal are published."""
        while not self._known:
            data = self._store.get(segment_key(self._journal.stem, self._number + 1))
            self._known = data is None
            if data is not None:
                self._number += 1
                self._offset += len(data)
        return self._offset

    def publish(self, end: int) -> int:
        """Publish the journal up to byte `end` and return the number of its last segment.

        Raises:
            IntegrityError: another process published other bytes under the next number.
        """
        self.found()
        with self._journal.open("rb") as stream:
            while self._offset < end:
                stream.seek(self._offset)
                data = stream.read(min(end - self._offset, LARGEST_SEGMENT))
                self._offset += self._put(segment_key(self._journal.stem, self._number + 1), data)
                self._number += 1
        return self._number

    def _put(self, key: str, data: bytes) -> int:
        """Publish `data` under `key` and return the size of what stands there.

        Another stretch of the same journal may stand there: an earlier one whose answer was lost
        on the way, or that of a process that publishes at the same time. It is then the segment.
        """
        try:
            self._store.put_new(key, data)
        except IntegrityError:
            there = self._store.get(key)
            if not there or not self._holds(there):
                raise
            return len(there)
        return len(data)

    def _holds(self, data: bytes) -> bool:
        """Return whether the journal goes on with `data`."""
        with self._journal.open("rb") as stream:
            stream.seek(self._offset)
            return stream.read(len(data)) == data


def segment_key(journal: str, number: int) -> str:
    """Return the name of segment `number` of a journal."""
    return f"journal/{journal}/{number:06d}.seg"


def publish_run_files(store: ObjectStore, run: Path, known: set[str] | None = None) -> None:
    """Publish what is new among the run's header, plan, revisions, pieces and head entries.

    `known` remembers between calls what is there: published objects never change.
    """
    known = set() if known is None else known

    def put(key: str, read: Callable[[], bytes]) -> None:
        if key not in known:
            store.put_new(key, read())
            known.add(key)

    for name in _FIXED:
        put(name, (run / name).read_bytes)
    for revision, header in sorted(list_revisions(run).items()):
        # The payload comes first, so a header that can be seen always has its payload.
        for suffix in (".bin", ".json"):
            key = f"{REVISIONS}/{revision:06d}{suffix}"
            put(key, header.with_suffix(suffix).read_bytes)
    number = 1
    while (path := piece_path(run / "pieces", number)).exists():
        put(f"pieces/{path.name}", path.read_bytes)
        number += 1
    log = run / _HEAD
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    for sequence, line in enumerate(lines, start=1):
        put(f"head/{sequence:06d}.json", partial(bytes, line + b"\n"))


def publish_run(store: ObjectStore, run: Path) -> int:
    """Publish all that the run in `run` has, and return the journal bytes that were new.

    A run made with a `remote` does this by itself at each checkpoint. Every whole record is
    published; a torn tail is none.

    Raises:
        NotFound: there is no run in `run`.
        UsageError: the place lies in the run's own directory.
        IntegrityError: another run was published there.
    """
    if not (run / _FIXED[0]).exists():
        raise NotFound(f"{run} holds no run ({_FIXED[0]} is missing); give its directory")
    place = store.directory
    if place is not None and place.resolve().is_relative_to(run.resolve()):
        raise UsageError(
            f"{store.url} lies in the run's own directory {run}; publish to a place outside"
        )
    store.check_condition()
    publish_run_files(store, run)
    gained = 0
    for journal in sorted((run / "journal").glob("p*-r*-x*.swj")):
        publisher = SegmentPublisher(store, journal)
        before = publisher.found()
        publisher.publish(_last_record(journal, before))
        gained += publisher.found() - before
    return gained


def _last_record(journal: Path, start: int) -> int:
    """Return the end of the last whole record of `journal`, of which `start` bytes are known."""
    end = start
    for part in iter_journal(journal, start):
        end = part.end
    return end


def mirror(store: ObjectStore, run: Path) -> int:
    """Bring the local copy `run` of a published run up to date; return the bytes fetched.

    The copy is a run directory like any other, to be asked with the ledger. A journal that was cut
    or lost there is fetched again.

    Raises:
        NotFound: no run was published there.
        UsageError: `store` is a run directory and nothing was published, or `run` is no copy.
        IntegrityError: the local copy is not a beginning of what was published, or what was
            published lacks a part; all else is fetched where a journal's end is cut.
    """
    fixed = {name: _fixed(store, name) for name in _FIXED}
    if store.get(_HEAD) is not None:
        raise UsageError(
            f"{store.url} is a run directory and nothing is published there; publish it first: "
            f"shardward ledger publish URL --run {store.url} --yes"
        )
    lock = run / "mirror.lock"
    if (run / _FIXED[0]).exists() and not lock.exists():
        raise UsageError(f"{run} is a run and no copy of one; name another directory for the copy")
    gained, faults = 0, []
    with exclusive_lock(lock):
        for name, data in fixed.items():
            publish_new(run / name, data)
        for piece in _mirror_pieces(store, run):
            for rank in range(piece.dp_size):
                for replica in range(piece.replicas):
                    name = journal_name(piece.piece, rank, replica)
                    copied = _JournalCopy(store, run / "journal" / name)
                    gained += copied.fetch()
                    faults += copied.faults
        _mirror_revisions(store, run)
        _mirror_head(store, run / _HEAD)
    if faults:
        raise IntegrityError("; ".join(faults))
    return gained


def _fixed(store: ObjectStore, name: str) -> bytes:
    data = store.get(name)
    if data is None:
        raise NotFound(
            f"{store.url} holds no published run ({name} is missing); `shardward ledger publish` "
            "puts one there"
        )
    return data


def _objects(store: ObjectStore, key: Callable[[int], str], number: int = 1) -> Iterator[bytes]:
    """Yield the objects `key(number)`, `key(number + 1)`…, of which none may be missing."""
    while True:
        data = store.get(key(number))
        if data is None and store.get(key(number + 1)) is not None:
            data = store.get(key(number))  # both may have been published since the first look
            if data is None:
                raise IntegrityError(
                    f"{store.url}/{key(number)} is gone and later ones are there; restore it from "
                    "a copy of the store, or publish the run to another place"
                )
        if data is None:
            return
        yield data
        number += 1


def _mirror_pieces(store: ObjectStore, run: Path) -> list[Piece]:
    pieces: list[Piece] = []
    for data in _objects(store, "pieces/{:06d}.json".format):
        path = piece_path(run / "pieces", len(pieces) + 1)
        pieces.append(Piece.from_json(parse_json(data, where=str(path)), where=str(path)))
        publish_new(path, data)
    return pieces


def _mirror_revisions(store: ObjectStore, run: Path) -> None:
    headers = _objects(store, (REVISIONS + "/{:06d}.json").format)
    for number, header in enumerate(headers, start=1):
        where = f"{store.url} revision {number}"
        payload = store.get(f"{REVISIONS}/{number:06d}.bin") or b""
        publish_revision_files(
            run, Revision.parse(parse_json(header, where=where), payload, where=where)
        )


class _JournalCopy:
    """The local copy of one published journal.

    A note beside it says how many segments it has, their bytes and the digest of these, so that
    only what is new is fetched as long as the copy is what was fetched. Otherwise every segment is
    compared.

    Attributes:
        faults: what is wrong with what is published, in words.
    """

    def __init__(self, store: ObjectStore, path: Path) -> None:
        self._store = store
        self._path = path
        self._note = path.with_suffix(".segments")
        self.faults: list[str] = []
        self._number, self._size, self._digest = 0, 0, xxhash.xxh3_128()
        self._known()

    def _known(self) -> None:
        """Take the note's word where the copy has the bytes that it speaks of."""
        words = self._note.read_bytes()[:_NOTE].split() if self._note.exists() else []
        if len(words) != len(("segments", "bytes", "digest")) or not self._path.exists():
            return
        if not (words[0].isdigit() and words[1].isdigit()):
            return
        size, digest = int(words[1]), xxhash.xxh3_128()
        with self._path.open("rb") as stream:
            while left := size - stream.tell():
                if not (data := stream.read(min(left, LARGEST_SEGMENT))):
                    return
                digest.update(data)
        if digest.hexdigest().encode() == words[2]:
            self._number, self._size, self._digest = int(words[0]), size, digest

    def fetch(self) -> int:
        """Append the segments that the copy lacks and return their bytes."""
        before, note = self._size, self._words()
        largest = False
        for data in _objects(self._store, partial(segment_key, self._path.stem), self._number + 1):
            self._append(data)
            write_atomic(self._note, self._words())
            largest = len(data) == LARGEST_SEGMENT
        there = self._path.stat().st_size if self._path.exists() else 0
        if there > self._size:
            raise self._changed()
        # A journal that is published in several segments may end in half a record for a moment.
        if self._size > before and not largest and (cut := self._cut(before)):
            self.faults.append(
                f"{self._store.url} has {cut} bytes at the end of {self._path.name} that are no "
                "whole record: a segment was cut or changed there, or its trainer was stopped in "
                "a write; restore it from a copy of the store, or publish the run elsewhere"
            )
            write_atomic(self._note, note)  # so that the next mirror looks there again
        return self._size - before

    def _words(self) -> bytes:
        return f"{self._number} {self._size} {self._digest.hexdigest()}\n".encode()

    def _cut(self, start: int) -> int:
        """Return the bytes after the last whole record; `start` may lie inside of one."""
        ends = (_last_record(self._path, first) for first in (start, 0))
        return min(max(self._size - end, 0) for end in ends)

    def _append(self, data: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            have = os.pread(handle, len(data), self._size)  # of an earlier mirror, perhaps killed
            if not data.startswith(have):
                raise self._changed()
            _write_all(handle, data[len(have) :], self._size + len(have))
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_directory(self._path.parent)
        self._number, self._size = self._number + 1, self._size + len(data)
        self._digest.update(data)

    def _changed(self) -> IntegrityError:
        return IntegrityError(
            f"{self._path} is not a beginning of what {self._store.url} holds; it was changed "
            "here, so delete it and mirror again"
        )


def _write_all(handle: int, data: bytes, offset: int) -> None:
    """Write all of `data`: a full disk or a limit lets a first call write a part of it."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(handle, rest, offset)
        rest, offset = rest[written:], offset + written


def _mirror_head(store: ObjectStore, path: Path) -> None:
    whole = b"".join(_objects(store, "head/{:06d}.json".format))
    have = path.read_bytes() if path.exists() else b""
    if not whole.startswith(have):
        raise IntegrityError(
            f"{path} is not a beginning of what {store.url} holds; it was changed here, "
            "so delete the local copy and mirror again"
        )
    if whole != have:
        write_atomic(path, whole)
