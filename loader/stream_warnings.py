"""What a loader says, once or per block, when a step holds less than it should."""

from __future__ import annotations

import logging

from .head import Head
from .lineage import leaves_at
from .prepared import PreparedStep
from .run import Run

LOG = logging.getLogger(__name__)
BLANKED_SHARE_WARNING = 0.02


def warn_if_started_over(run: Run, head: Head) -> None:
    """Log that a run whose head was `head` begins at step 1 again."""
    if head.step is None:
        LOG.warning(
            "the run in %s has got to piece %d and starts again at step 1, since no cursor was "
            "given; to go on, load a checkpoint and pass its cursor",
            run.path,
            head.piece,
        )


def warn_if_left_behind(run: Run, piece: int, step: int) -> None:
    """Log that the run's head was moved away from under a living trainer.

    Nothing is raised: what the trainer saves is kept, but no later start accepts it.
    """
    head = run.head()
    pieces = run.pieces()
    if head is None or pieces[piece - 1].reason == "trial":
        return
    last = leaves_at(pieces, head.piece, head.step, piece)
    if last is not None and step > last:
        LOG.warning(
            "the run's head was moved to piece %d step %s by a %s; this trainer's checkpoint of "
            "step %d of piece %d will be refused: stop it and start again from the head",
            head.piece,
            "(running)" if head.step is None else head.step,
            head.reason,
            step,
            piece,
        )


class StepWarnings:
    """Logs masked blocks, and the first step that a revision blanks too much of.

    Args:
        revision: number of the revision in force.
    """

    def __init__(self, revision: int) -> None:
        self._revision = revision
        self._blocks = 0
        self._said = False

    def check(self, step: PreparedStep) -> None:
        """Look at a step that is about to be delivered."""
        for lost in step.lost:
            self._blocks += 1
            LOG.warning(
                "documents %d to %d are masked from step %d on, block %d stays unreadable: %s; "
                "'shardward quarantine held' proposes a revision without them",
                lost.first_document,
                lost.first_document + lost.documents - 1,
                step.step,
                lost.block,
                lost.error,
            )
        share = step.blanked_share
        if share <= BLANKED_SHARE_WARNING or self._said or not self._revision:
            return
        self._said = True
        LOG.warning(
            "%.1f %% of the tokens of step %d are blanked by revision %d%s; "
            "rebuild the corpus without the quarantined documents to use these places again",
            100 * share,
            step.step,
            self._revision,
            f" and {self._blocks} masked blocks" if self._blocks else "",
        )
