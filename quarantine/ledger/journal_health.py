"""Whether the journals are all there: their first bytes, their lengths, their tails, and the
steps that later pieces, the head, checkpoints or a rewind's orders say they once held."""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

from ...loader.errors import FormatError
from ...loader.formats import parse_json
from ...loader.journal import iter_journal
from ...loader.journal_frame import HEADER, MAGIC, MAX_PAYLOAD, frame_at
from ...loader.pieces import Piece
from ...loader.run import Run
from .check import Problem
from .database import Database
from .ingest import unread, watermarks
from .restorable import silent_pieces

ORDERS = "resume.json"
LENGTH_FIELD = 4
Claim = tuple[int, str]
"""A step, and what names it."""


def journal_problems(database: Database, run: Run, *, limit: int = 100) -> tuple[Problem, ...]:
    """Return up to `limit` problems with the journals of all pieces; see `Problem`.

    Ingest first: what has not been read yet is not judged, but for its tail.
    """
    found = [
        *_shortages(database, run),
        *_beginnings(database, run),
        *_tails(database, run),
        *lost_steps(database, run),
    ]
    # A crash of a node tears many tails; those notes must not push a problem out.
    return tuple(sorted(found, key=lambda problem: not problem.serious)[:limit])


def _shortages(database: Database, run: Run) -> Iterator[Problem]:
    """Nothing in a journal ever goes away, so one that is shorter than what was read was cut."""
    for name, read in sorted(watermarks(database).items()):
        path = run.path / "journal" / name
        if not path.exists():
            yield _problem(
                "journal_missing",
                f"journal {name} is missing, {read} bytes of it were read before; restore it from "
                "a copy",
                name,
            )
        elif (size := path.stat().st_size) < read:
            yield _problem(
                "journal_short",
                f"journal {name} has {size} bytes, {read} were read before; it was cut or "
                "replaced, restore it from a copy",
                name,
            )


def _beginnings(database: Database, run: Run) -> Iterator[Problem]:
    """A journal begins with a whole record, unless its writer was killed in that very write."""
    known = {
        name for (name,) in database.rows("SELECT journal FROM journal_damage WHERE first_byte = 0")
    }
    for path in run.journals():
        if path.name not in known and not _begins_well(path):
            yield _problem(
                "journal_start",
                f"journal {path.name} does not begin with a valid record; it is damaged or no "
                "journal, restore it from a copy",
                path.name,
            )


def _begins_well(path: Path) -> bool:
    with path.open("rb") as file:
        data = file.read(HEADER.size)
        if len(data) < HEADER.size:
            return MAGIC.startswith(data[: len(MAGIC)])
        length = HEADER.unpack(data)[LENGTH_FIELD]
        if data[: len(MAGIC)] != MAGIC or length > MAX_PAYLOAD:
            return False
        payload = file.read(length)
    return len(payload) < length or frame_at(data + payload, 0) is not None


def _tails(database: Database, run: Run) -> Iterator[Problem]:
    for path, read, size in unread(database, run):
        part = next(iter_journal(path, read), None)
        if part is not None and part.end == read:
            yield _problem(
                "journal_tail",
                f"journal {path.name} ends with {size - read} bytes that are no whole record, from "
                f"byte {read} on: its writer was killed in a write, or its end is damaged",
                path.name,
                serious=False,
            )


def lost_steps(database: Database, run: Run) -> Iterator[Problem]:
    """Yield what something else names and no journal holds; ingest first.

    Journals that were read and are gone are left to `_shortages`.
    """
    known = watermarks(database)
    claims = _claims(database, run)
    unheard = silent_pieces(run, known)
    ends = dict(database.rows("SELECT piece, max(step) FROM deliveries GROUP BY piece"))
    for piece in run.pieces():
        claim = claims.get(piece.piece)
        if claim is None or claim[0] < piece.first_step:
            yield from _silent(run, piece, known, unheard.get(piece.piece))
            continue
        missing = [
            path for path in _journals(run, piece) if path.name not in known and not path.exists()
        ]
        for path in missing:
            yield _problem(
                "journal_missing",
                f"journal {path.name} is missing, though {claim[1]} names step {claim[0]} of piece "
                f"{piece.piece}; restore it from a copy",
                path.name,
            )
        end = ends.get(piece.piece, piece.fork_step)
        if end < claim[0] and len(missing) < piece.dp_size:
            yield Problem(
                kind="steps_lost",
                serious=True,
                message=f"no record of steps {end + 1} to {claim[0]} of piece {piece.piece}, "
                f"though {claim[1]} names step {claim[0]}; restore its journals from a copy",
                piece=piece.piece,
                step=end + 1,
            )


def _silent(
    run: Run, piece: Piece, known: Container[str], unheard: str | None
) -> Iterator[Problem]:
    """A problem for a piece of the head's history, said in `unheard`; a note for any other."""
    if any(path.name in known or path.exists() for path in _journals(run, piece)):
        return
    yield Problem(
        kind="piece_silent",
        serious=unheard is not None,
        message=unheard
        or f"piece {piece.piece} has no journal: its trainer ended before it recorded anything, "
        "or the journal is gone",
        piece=piece.piece,
    )


def _journals(run: Run, piece: Piece) -> Iterator[Path]:
    return (run.journal_path(piece.piece, rank) for rank in range(piece.dp_size))


def _claims(database: Database, run: Run) -> dict[int, Claim]:
    """Return the last step of each piece that something else names."""
    named = [
        (item.parent, item.fork_step, f"piece {item.piece}")
        for item in run.pieces()
        if item.parent is not None
    ]
    named += [(head.piece, head.step, "the head") for head in run.heads() if head.step is not None]
    named += [
        (piece, step, "a checkpoint")
        for piece, step in database.rows("SELECT piece, max(step) FROM checkpoints GROUP BY piece")
    ]
    # No rank completes a step that another was not given.
    named += [
        (piece, step, "another rank's completed step")
        for piece, step in database.rows("SELECT piece, max(step) FROM completions GROUP BY piece")
    ]
    claims: dict[int, Claim] = {}
    for piece, step, words in [*named, *_ordered(run)]:
        if step > claims.get(piece, (0, ""))[0]:
            claims[piece] = (step, words)
    return claims


def _ordered(run: Run) -> list[tuple[int, int, str]]:
    """Return what the orders of a rewind name; orders that cannot be read name nothing."""
    path = run.path / ORDERS
    if not path.exists():
        return []
    try:
        value = parse_json(path.read_bytes(), where=str(path))
    except FormatError:
        return []
    cursor = value.get("cursor") if isinstance(value, dict) else None
    if not isinstance(cursor, dict):
        return []
    piece, step = cursor.get("piece"), cursor.get("step")
    return [(piece, step, ORDERS)] if isinstance(piece, int) and isinstance(step, int) else []


def _problem(kind: str, message: str, journal: str, *, serious: bool = True) -> Problem:
    piece, rank, _ = journal.split("-")
    return Problem(
        kind=kind, serious=serious, message=message, piece=int(piece[1:]), rank=int(rank[1:])
    )
