"""Which cursors a run accepts. Pure: the answers come from pieces, head and cursor alone."""

from __future__ import annotations

from collections.abc import Sequence

from .cursor import Cursor
from .errors import MismatchError, NotFound, SupersededCursor
from .head import Head
from .lineage import leaves_at
from .pieces import Piece

AGREED = ("topology", "reason", "revision", "revision_digest", "mode", "record", "terms")
"""Fields of a piece that every rank of a launch must bring alike."""


def check_cursor(cursor: Cursor, plan_id: str) -> None:
    """Refuse a cursor of another plan.

    Raises:
        MismatchError: with both plan ids.
    """
    if cursor.plan_id != plan_id:
        raise MismatchError(
            f"the cursor is of plan {cursor.plan_id[:12]}, the run of plan {plan_id[:12]}; "
            "load a checkpoint of this run, or start a new run for the new plan"
        )


def check_same_cursor(piece: Piece, cursor: Cursor) -> None:
    """Refuse a rank that loads another cursor than the rank that opened `piece`.

    Raises:
        MismatchError: with both values.
    """
    if cursor.to_json() != dict(piece.cursor):
        raise MismatchError(
            f"this rank loads step {cursor.step} of piece {cursor.piece}, the launch "
            f"{piece.launch!r} opened piece {piece.piece} from step {piece.cursor.get('step')} of "
            f"piece {piece.cursor.get('piece')}; give all ranks one checkpoint, and each start "
            "(a rewind within a process too) a launch token of its own"
        )


def check_join(piece: Piece, ours: Piece) -> None:
    """Refuse a rank that would not take the samples that the others leave for it.

    Args:
        piece: opened by the first rank of the launch.
        ours: what this rank would have opened.

    Raises:
        MismatchError: with both values.
    """
    for name in AGREED:
        mine, theirs = getattr(ours, name), getattr(piece, name)
        if mine != theirs:
            raise MismatchError(
                f"this rank brings {name} {mine}, the launch {piece.launch!r} opened piece "
                f"{piece.piece} with {theirs}; give all ranks of a start the same {name}"
            )


def check_load(
    pieces: Sequence[Piece],
    head: Head | None,
    cursor: Cursor,
    *,
    reason: str,
    revision: int,
    fork: bool,
) -> None:
    """Refuse a cursor that does not exist in the run or that the head has left behind.

    A cursor of piece p at step s may be loaded if p is in the lineage of the head and s is not
    after the step at which that lineage leaves p; and with no revision older than the head's.

    Raises:
        NotFound: the cursor names a piece that the run does not have.
        MismatchError: the cursor's step is outside its piece.
        SupersededCursor: naming the head.
    """
    _check_exists(pieces, cursor)
    if head is None or fork or reason == "trial":
        return
    stands = f"piece {head.piece} " + ("(running)" if head.step is None else f"step {head.step}")
    if cursor.piece is not None:
        last = leaves_at(pieces, head.piece, head.step, cursor.piece)
        if last is not None and cursor.step > last:
            kept = f"only its steps up to {last}" if last >= 0 else "none of its steps"
            raise SupersededCursor(
                f"the cursor stands at step {cursor.step} of piece {cursor.piece}, but the run's "
                f"head is {stands} after a {head.reason}, whose history keeps {kept}; load the "
                "head's checkpoint, or say fork=True to go on from the superseded one"
            )
    if revision < head.revision:
        raise SupersededCursor(
            f"this load brings revision {revision}, the run's head is {stands} with revision "
            f"{head.revision}; load that revision or a later one, or say fork=True"
        )


def _check_exists(pieces: Sequence[Piece], cursor: Cursor) -> None:
    if cursor.piece is None:
        if cursor.step:
            raise MismatchError(
                f"the cursor has step {cursor.step} but no piece, so it is of no run; "
                "load the cursor that the run's checkpoint holds"
            )
        return
    if not 0 < cursor.piece <= len(pieces):
        raise NotFound(
            f"the cursor names piece {cursor.piece}, the run has {len(pieces)}; "
            "it is of another run, or the pieces directory is incomplete"
        )
    if cursor.step < pieces[cursor.piece - 1].fork_step:
        raise MismatchError(
            f"the cursor stands at step {cursor.step} of piece {cursor.piece}, which starts after "
            f"step {pieces[cursor.piece - 1].fork_step}; the cursor was edited or is of another run"
        )
