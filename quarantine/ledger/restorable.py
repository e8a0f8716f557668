"""What the journals cannot give back: rows that only the database still has, or nothing."""

from __future__ import annotations

from collections.abc import Container, Mapping

from ...loader.errors import IntegrityError
from ...loader.run import Run


def shortfalls(run: Run, read: Mapping[str, int]) -> tuple[str, ...]:
    """Return, in words, the journals that are gone or shorter than what was `read` of them."""
    found = []
    for name, size in sorted(read.items()):
        path = run.path / "journal" / name
        there = path.stat().st_size if path.exists() else None
        if there is None:
            found.append(f"journal {name} is gone ({size} bytes of it were read)")
        elif there < size:
            found.append(f"journal {name} has {there} bytes ({size} were read)")
    return tuple(found)


def silent_pieces(run: Run, known: Container[str]) -> dict[int, str]:
    """Return the pieces of the head's history that have no journal on any rank, and the words.

    A trainer opens its journal as it opens its piece, so hardly any crash leaves such a piece.

    Args:
        run: the run.
        known: names of journals that were there before.
    """
    pieces = run.pieces()
    found = {}
    for span in run.lineage():
        ranks = range(pieces[span.piece - 1].dp_size)
        paths = (run.journal_path(span.piece, rank) for rank in ranks)
        if not any(path.name in known or path.exists() for path in paths):
            words = (
                f"piece {span.piece} is in the history of the head and has no journal: it is gone, "
                "or the trainer was killed before its first record; restore it from a copy, or "
                "start again from the last checkpoint"
            )
            found[span.piece] = words
    return found


def check_restorable(run: Run, read: Mapping[str, int], *, what: str) -> None:
    """Refuse to build a database anew that the journals could not fill again.

    Args:
        run: whose journals they are.
        read: how far each journal was read into the database that would be given up.
        what: said first: which database, and why it would be built anew.

    Raises:
        IntegrityError: rows would be lost; the journals are named.
    """
    missing = shortfalls(run, read)
    if missing:
        more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        raise IntegrityError(
            f"{what}, and the journals cannot give back what it holds: "
            f"{', '.join(missing[:3])}{more}; restore them from a copy (a published run with "
            "`shardward ledger mirror`), or give these rows up with "
            "`shardward ledger rebuild --force --yes`, which sets the file aside"
        )
