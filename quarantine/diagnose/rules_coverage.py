"""What was not measured, said beside "unknown": why a cause cannot be told, and what would help."""

from __future__ import annotations

from collections.abc import Iterator

from .evidence import Evidence
from .rules import CLOSE, CONTEXT, MODEL, Rule, Voice, loss_left, of_kind, row_before, say

REMARK = 0.0


def rows(evidence: Evidence) -> Iterator[Voice]:
    """Say that the loss left its level between two rows of the log that lie far apart."""
    left, before = loss_left(evidence), row_before(evidence, loss_left(evidence))
    if before is not None and left - before > CLOSE:
        text = (
            f"the log has no row between the steps {before} and {left}, so what moved first went "
            "unseen; log every step, or every second"
        )
        yield say("unknown", REMARK, text)


def signals(evidence: Evidence) -> Iterator[Voice]:
    """Say what was never logged, and that layers were last sampled before the last calm row."""
    left, before = loss_left(evidence), row_before(evidence, loss_left(evidence))
    if before is None:
        return
    kinds = {**CONTEXT, **MODEL}
    missing = [family for family, prefix in kinds.items() if not of_kind(evidence, prefix)]
    if missing:
        yield say("unknown", REMARK, f"not logged: {', '.join(missing)}")
    last = min(_last_samples(evidence, left), default=before)
    if last < before:
        text = (
            f"layers were last measured at step {last}, {left - last} steps before the loss left "
            "its level; measure them as often as the loss is logged"
        )
        yield say("unknown", REMARK, text)


def _last_samples(evidence: Evidence, left: int) -> Iterator[int]:
    """Yield for each family of the model its last step before `left`."""
    for prefix in MODEL.values():
        steps = [step for each in of_kind(evidence, prefix) for step in each.steps.tolist()]
        earlier = [step for step in steps if step < left]
        if earlier:
            yield max(earlier)


COVERAGE_RULES: tuple[Rule, ...] = (rows, signals)
