"""A ledger asked about one branch: steps that a rewind superseded are answered as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...loader.errors import IncidentError, NotFound
from ..ledger.views import ALL, EFFECTIVE, View
from .operations import branch_of_spike

if TYPE_CHECKING:
    import pyarrow as pa

    from ...loader.run import Run
    from ..ledger.ledger import Ledger
    from .incident import Incident


class OnBranch:
    """The answers of `ledger` for the history that leads to branch piece `branch`.

    None stands for the history of the run's head.
    """

    def __init__(self, ledger: Ledger, branch: int | None) -> None:
        self.branch = branch
        self._ledger = ledger

    @property
    def name(self) -> str:
        """The history in words."""
        return "the run's history" if self.branch is None else f"branch piece {self.branch}"

    def step_documents(self, step: int) -> pa.Table:
        """Return what `Ledger.step_documents` does.

        Raises:
            NotFound: the branch has no such step; the message says how far it goes.
        """
        try:
            return self._ledger.step_documents(step, self.branch)
        except NotFound as error:
            last = self._ledger.last_step(self.branch)
            raise NotFound(
                f"step {step} is not recorded in {self.name}, which goes to step {last}; name "
                "steps of it, or the incident whose branch had them"
            ) from error

    def steps(self, first: int, last: int) -> list[dict[str, Any]]:
        """Return the rows of `Ledger.steps`."""
        rows: list[dict[str, Any]] = self._ledger.steps(first, last, self.branch).to_pylist()
        return rows

    def sample_losses(self, step: int) -> pa.Table:
        """Return what `Ledger.sample_losses` does."""
        return self._ledger.sample_losses(step, self.branch)


def on_branch_of(incident: Incident, run: Run, ledger: Ledger) -> OnBranch:
    """Return the ledger as the incident's spike saw it."""
    return OnBranch(ledger, branch_of_spike(incident, run))


def source_of_steps(
    run: Run,
    ledger: Ledger,
    first: int,
    last: int,
    *,
    incident: Incident | None = None,
    branch: int | None = None,
) -> OnBranch:
    """Return the ledger for steps that a person named: of `branch`, else as the incident saw them.

    Raises:
        IncidentError: neither is given, and more than one branch recorded the steps.
        NotFound: there is no such branch.
    """
    if branch is not None:
        run.lineage(branch)
        return OnBranch(ledger, branch)
    if incident is not None:
        return on_branch_of(incident, run, ledger)
    others = _other_branches(run, ledger, first, last)
    if others:
        pieces = " and ".join(str(piece) for piece in others)
        raise IncidentError(
            f"steps {first} to {last} were trained on branch piece {pieces}, which the run "
            "has left: say which steps are meant with --incident, or with --branch"
        )
    return OnBranch(ledger, None)


def _other_branches(run: Run, ledger: Ledger, first: int, last: int) -> tuple[int, ...]:
    """Return the pieces that recorded a step of `first`..`last` which the run has left behind.

    Trials do not count; they never were the run.
    """

    def recorded(view: View) -> set[tuple[int, int]]:
        rows = ledger.steps(first, last, view)
        return set(zip(rows["step"].to_pylist(), rows["piece"].to_pylist(), strict=True))

    trials = {piece.piece for piece in run.pieces() if piece.reason == "trial"}
    left = {piece for _, piece in recorded(ALL) - recorded(EFFECTIVE)}
    return tuple(sorted(left - trials))
