"""Publishing a run to an object store while it goes on, and mirroring it elsewhere.

What a journal gained between two durable points is one *segment*, an object with a number:
`journal/p000001-r00000-x000/000001.seg`. Revisions, pieces and head entries are numbered objects
as well, and a piece names its ranks and replicas, so a reader finds everything by probing the next
number.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from .errors import IntegrityError, NotFound
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
    log = run / "head.log"
    lines = log.read_bytes().split(b"\n")[:-1] if log.exists() else []
    for sequence, line in enumerate(lines, start=1):
        put(f"head/{sequence:06d}.json", partial(bytes, line + b"\n"))


def publish_run(store: ObjectStore, run: Path) -> int:
    """Publish all that the run in `run` has, and return the journal bytes that were new.

    A run made with a `remote` does this by itself at each checkpoint. Every whole record is
    published; a torn tail is none.

    Raises:
        NotFound: there is no run in `run`.
        IntegrityError: another run was published there.
    """
    if not (run / _FIXED[0]).exists():
        raise NotFound(f"{run} holds no run ({_FIXED[0]} is missing); give its directory")
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
    """Bring the local copy `run` of a published run up to date; return the bytes that it gained.

    The copy is a run directory like any other, to be asked with the ledger.

    Raises:
        NotFound: no run was published there.
        IntegrityError: the local copy is not a beginning of what was published.
    """
    for name in _FIXED:
        data = store.get(name)
        if data is None:
            raise NotFound(f"{store.url} holds no published run ({name} is missing)")
        publish_new(run / name, data)
    gained = 0
    with exclusive_lock(run / "mirror.lock"):
        for piece in _mirror_pieces(store, run):
            for rank in range(piece.dp_size):
                for replica in range(piece.replicas):
                    name = journal_name(piece.piece, rank, replica)
                    gained += _mirror_journal(store, run / "journal" / name)
        _mirror_revisions(store, run)
        _mirror_head(store, run / "head.log")
    return gained


def _mirror_pieces(store: ObjectStore, run: Path) -> list[Piece]:
    pieces: list[Piece] = []
    while (data := store.get(f"pieces/{len(pieces) + 1:06d}.json")) is not None:
        path = piece_path(run / "pieces", len(pieces) + 1)
        pieces.append(Piece.from_json(parse_json(data, where=str(path)), where=str(path)))
        publish_new(path, data)
    return pieces


def _mirror_revisions(store: ObjectStore, run: Path) -> None:
    number = 1
    while (header := store.get(f"{REVISIONS}/{number:06d}.json")) is not None:
        where = f"{store.url} revision {number}"
        payload = store.get(f"{REVISIONS}/{number:06d}.bin") or b""
        publish_revision_files(
            run, Revision.parse(parse_json(header, where=where), payload, where=where)
        )
        number += 1


def _mirror_journal(store: ObjectStore, path: Path) -> int:
    """Append the segments that `path` lacks; a note beside it says how many it has."""
    note = path.with_suffix(".segments")
    number, size = (int(word) for word in note.read_text().split()) if note.exists() else (0, 0)
    gained = 0
    while (data := store.get(segment_key(path.stem, number + 1))) is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if os.fstat(handle).st_size < size:
                raise IntegrityError(
                    f"{path} has fewer bytes than its {number} segments; delete it and "
                    f"{note.name} to fetch them again"
                )
            # A segment that an earlier, killed mirror wrote in part is written over: same bytes.
            _write_all(handle, data, size)
            os.fsync(handle)
        finally:
            os.close(handle)
        sync_directory(path.parent)
        number, size, gained = number + 1, size + len(data), gained + len(data)
        write_atomic(note, f"{number} {size}\n".encode())
    return gained


def _write_all(handle: int, data: bytes, offset: int) -> None:
    """Write all of `data`: a full disk or a limit lets a first call write a part of it."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(handle, rest, offset)
        rest, offset = rest[written:], offset + written


def _mirror_head(store: ObjectStore, path: Path) -> None:
    lines: list[bytes] = []
    while (line := store.get(f"head/{len(lines) + 1:06d}.json")) is not None:
        lines.append(line)
    whole = b"".join(lines)
    have = path.read_bytes() if path.exists() else b""
    if not whole.startswith(have):
        raise IntegrityError(
            f"{path} is not a beginning of what {store.url} holds; it was changed here, "
            "so delete the local copy and mirror again"
        )
    if whole != have:
        write_atomic(path, whole)
