"""Whether a cursor stands where the run's own record says that its step ended."""

from __future__ import annotations

import logging

from .cursor import Cursor
from .errors import MismatchError
from .journal_lookup import find_step
from .run import Run

LOG = logging.getLogger(__name__)


def check_recorded(run: Run, cursor: Cursor) -> None:
    """Refuse a cursor that the journal of its piece contradicts.

    Every rank records the whole step's end, so the first rank's journal is enough; one that is not
    here (another machine's disk) is not asked. A step that the journal lost when the machine went
    down is no contradiction, and is logged.

    Raises:
        MismatchError: naming both positions.
    """
    pieces = run.pieces()
    if cursor.piece is None or not 0 < cursor.piece <= len(pieces):
        return
    piece, path = pieces[cursor.piece - 1], run.journal_path(cursor.piece, 0)
    if cursor.step == piece.fork_step:
        opened = Cursor.from_json(piece.cursor)
        _compare(cursor, opened.epoch, opened.position)
    elif cursor.step > piece.fork_step and path.exists():
        record = find_step(path, cursor.step)
        if record is not None:
            _compare(cursor, record.epoch, record.end)
        else:
            LOG.warning(
                "the cursor stands at step %d of piece %d, which %s does not record; the ledger "
                "will show a gap up to it",
                cursor.step,
                cursor.piece,
                path,
            )


def _compare(cursor: Cursor, epoch: int, position: int) -> None:
    if (cursor.epoch, cursor.position) != (epoch, position):
        raise MismatchError(
            f"the cursor stands at epoch {cursor.epoch} position {cursor.position} after step "
            f"{cursor.step} of piece {cursor.piece}, the run recorded epoch {epoch} position "
            f"{position} there; it was edited or is of another run: load the checkpoint's own"
        )
