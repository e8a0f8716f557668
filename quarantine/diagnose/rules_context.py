"""Rules about the context of a run: resumes, schedules, mixtures, logging, evaluation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .confirm import HELDOUT_PREFIXES
from .evidence import Change, Evidence
from .repeats import regular_gap
from .rules import (
    Rule,
    Voice,
    last_step,
    level_before,
    loss_left,
    loss_stayed,
    measures_nothing,
    of_kind,
    row_before,
    say,
    stood,
)
from .series import Series

NEAR_STEPS = 10
RATE_TOLERANCE = 0.02
LEAST_RATIO = 0.05
RATIO_POINTS = 24
STILL_NORM = 1.3
NORM_JUMP = 2.0
STILL_HELDOUT = 0.04
SAME_RATIO = 0.06
JUST_BEFORE = 32
# The signals that show whether each part was restored.
_SCHEDULE, _LOADER, _OPTIMIZER = ("lr",), ("share",), ("update_ratio",)
_WEIGHTS = ("activation", "residual", "attention_logit", "output_lse")


def _near(evidence: Evidence, kind: str, before: int = NEAR_STEPS) -> Change | None:
    first, last = _earliest(evidence) - before, loss_left(evidence) + 1
    found = [
        change
        for change in evidence.changes
        if change.kind == kind and first <= change.step <= last
    ]
    return max(found, key=lambda change: change.step) if found else None


def _earliest(evidence: Evidence) -> int:
    """Return the first step at which the event may have begun: what follows the row before it."""
    onset = evidence.event.onset
    before = row_before(evidence, onset)
    return onset if before is None else min(onset, before + 1)


def resume(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a restart just before the event."""
    change = _near(evidence, "resume")
    if change is None:
        yield say("resume_fault", -2.0, "no resume in the steps before the event")
        return
    distance = _earliest(evidence) - change.step
    when = _since(distance, evidence.event.onset - change.step)
    yield say("resume_fault", 6.0 if distance <= 1 else 4.5, f"the event begins {when}")
    if _restored(evidence, change.step):
        text = "from there on rate, sources and layers are as they were before it"
        yield say("resume_fault", -5.0, text)
        return
    yield say("bad_data", -2.0, f"the event begins {when}, which data alone would not do")
    if evidence.event.end is not None:
        yield say("resume_fault", 0.5, "it fades by itself, as a lost optimizer state does")


def _since(least: int, most: int) -> str:
    """Return when an event began, from `least` to `most` steps after a resume."""
    if most <= 1:
        return "on the first resumed step"
    if least <= 1:
        return f"within {most} steps of a resume, at the first loss logged after it"
    return f"{least if least == most else f'{least} to {most}'} steps after a resume"


def _restored(evidence: Evidence, resumed: int) -> bool:
    """Whether all that a resume restores was measured up to where the loss left, and stood still.

    An update is made after its step's loss: the last to be asked is the one before the loss left,
    and the first after the resume at least.
    """
    left = loss_left(evidence)
    parts = ((_SCHEDULE, left), (_LOADER, left), (_WEIGHTS, left))
    for prefixes, last in (*parts, (_OPTIMIZER, max(left - 1, resumed))):
        found = [each for prefix in prefixes for each in of_kind(evidence, prefix)]
        if not any(len(each.between(resumed, last)) for each in found):
            return False
        # What a loader or schedule begins anew has been there before, if long ago.
        if not all(stood(each, resumed, last, points=JUST_BEFORE) for each in found):
            return False
    return True


def schedule(evidence: Evidence) -> Iterator[Voice]:
    """Compare the logged learning rate with the plan."""
    logged, planned = evidence.series.get("lr"), evidence.schedule
    if logged is None or planned is None or not len(logged) or not len(planned):
        return
    left = loss_left(evidence)
    at = _value_at(logged, left)
    should = _value_at(planned, left)
    if at is None or should is None:
        return
    if abs(at - should) <= RATE_TOLERANCE * max(abs(should), 1e-12):
        yield say("learning_rate", -0.5, f"the learning rate {at:.3g} is as planned")
        return
    text = f"the learning rate is {at:.3g} where the schedule says {should:.3g}"
    if _near(evidence, "resume") is not None:
        text += " since a resume just before, as where the scheduler was not restored"
        yield say("resume_fault", 5.0, text)
        yield say("learning_rate", 1.5, text)
        return
    if _near(evidence, "resume", before=2000) is not None:
        yield say("resume_fault", 1.5, text + ", since a resume")
    yield say("learning_rate", 5.0, text)


def rate_jump(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a learning rate that rose just before the event."""
    logged = evidence.series.get("lr")
    if logged is None:
        return
    left = loss_left(evidence)
    first = max(evidence.event.onset, left - NEAR_STEPS)
    before = level_before(logged, first - NEAR_STEPS, points=8)
    now = _value_at(logged, left)
    if before is None or now is None or before <= 0:
        return
    if now > 1.3 * before:
        yield say("learning_rate", 3.5, f"the learning rate rose from {before:.3g} to {now:.3g}")


def mixture(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a change of sources, announced or visible in the shares of the batch."""
    change = _near(evidence, "mixture")
    moved = _largest_share_move(evidence)
    if change is not None:
        how = "announced" if change.announced else "found"
        yield say("mix_change", 5.0, f"a change of the mixture was {how} at step {change.step}")
        yield say("bad_data", -1.5, "the mixture was changed on purpose")
    elif moved is not None:
        name, before, after = moved
        text = f"source {name} went from {before:.0%} to {after:.0%}"
        yield say("mix_change", 3.5, text)
        yield say("logging", -2.0, f"{text}, which no change of scale does")
    else:
        yield say("mix_change", -1.0, "no change of the mixture is known")


def composition(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a loss that moved although each source kept its own level."""
    total = _ratio(evidence.series.get("loss"), evidence)
    ratios = _source_ratios(evidence)
    if total is None or total < 1 + LEAST_RATIO or len(ratios) < 2:
        return
    if float(np.median(np.abs(np.array(ratios) - 1))) < (total - 1) / 3:
        text = f"the loss is {total:.3g} times its level, most sources kept theirs"
        yield say("mix_change", 2.0, text)
        yield say("logging", -2.0, text)


def _source_ratios(evidence: Evidence) -> list[float]:
    found = [
        _ratio(series, evidence)
        for name, series in evidence.series.items()
        if name.startswith("loss/")
    ]
    return [each for each in found if each is not None]


def _largest_share_move(evidence: Evidence) -> tuple[str, float, float] | None:
    best = None
    for name, series in evidence.series.items():
        if not name.startswith("share/"):
            continue
        before = level_before(series, evidence.event.onset)
        inside = series.between(evidence.event.onset, last_step(evidence))
        if before is None or not len(inside):
            continue
        after = float(np.median(inside))
        if abs(after - before) > 0.15 and (best is None or abs(after - before) > best[0]):
            best = (abs(after - before), name.removeprefix("share/"), before, after)
    return best[1:] if best else None


def ordering(evidence: Evidence) -> Iterator[Voice]:
    """Speak of rises that come as regularly as sources that follow each other."""
    rises = (event for event in evidence.earlier if event.kind in ("spike", "divergence"))
    period = regular_gap([*sorted({event.onset for event in rises}), evidence.event.onset])
    if period is not None:
        text = f"rises come every {period:.0f} steps, as from sources read in order"
        yield say("mix_change", 4.5, text)
        yield say("learning_rate", -2.0, text)


def logging(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a loss that was multiplied while everything behind it stood still."""
    if _near(evidence, "logging") is not None:
        yield say("logging", 4.0, "the logging was changed at this step")
    ratio = _ratio(evidence.series.get("loss"), evidence)
    if ratio is None or abs(ratio - 1) < LEAST_RATIO:
        return
    if ratio < 1 and not measures_nothing(evidence.event):
        return  # the rise is over, and what is left is the fall that training makes
    norm = _ratio(evidence.series.get("grad_norm"), evidence)
    heldout = _ratio(evidence.series.get("heldout_loss"), evidence, points=4)
    if norm is not None:
        jumped = _jumped(evidence)
        still = 1 / STILL_NORM < norm < STILL_NORM and not jumped
        text = f"the loss is {ratio:.3g} times its level, the gradient norm {norm:.3g} times"
        text += " after a jump" if jumped else ""
        yield say("logging", 2.0 if still else -2.5, text)
    if heldout is not None:
        # Training goes on meanwhile: a held-out loss that falls beside a risen loss stood still.
        still = heldout < 1 + STILL_HELDOUT and (ratio > 1 or heldout > 1 - STILL_HELDOUT)
        text = f"the held-out loss is {heldout:.3g} times its level"
        yield say("logging", 2.0 if still else -2.5, text)
    yield from _all_sources(ratio, evidence)


def _jumped(evidence: Evidence) -> bool:
    """Whether the gradient norm left all its values of before, be it for a few steps only."""
    series = evidence.series["grad_norm"]
    before = series.values[(series.steps < evidence.event.onset) & np.isfinite(series.values)]
    inside = series.between(evidence.event.onset, last_step(evidence))
    return bool(len(before) and len(inside) and inside.max() > NORM_JUMP * before[-64:].max())


def _all_sources(ratio: float, evidence: Evidence) -> Iterator[Voice]:
    ratios = _source_ratios(evidence)
    if len(ratios) > 1 and max(abs(each / ratio - 1) for each in ratios) < SAME_RATIO:
        yield say("logging", 2.0, f"the loss of each source is {ratio:.3g} times its level alike")


def _ratio(series: Series | None, evidence: Evidence, points: int = 32) -> float | None:
    """Return the level from where the loss left over the level before the onset, by medians."""
    if series is None:
        return None
    before = level_before(series, evidence.event.onset, points=points)
    later = (series.steps >= loss_left(evidence)) & np.isfinite(series.values)
    after = series.values[later][: min(points, RATIO_POINTS)]
    if before is None or before <= 0 or len(after) < 4:
        return None
    return float(np.median(after)) / before


def nothing_measured(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a loss that fell to nothing or stands still: it is not the model that did it."""
    if measures_nothing(evidence.event):
        text = "the loss measures nothing, as where all labels are masked or one value is logged"
        yield say("logging", 3.5, text, direct=False)
        yield say("bad_data", 3.5, text, direct=False)


def evaluation(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a held-out loss that moved while the training loss did not."""
    if _near(evidence, "evaluation", before=1000) is not None:
        yield say("eval_drift", 3.0, "the evaluation was changed")
    only_heldout = "loss" not in evidence.event.signals and any(
        name.startswith(HELDOUT_PREFIXES) for name in evidence.event.signals
    )
    moved = _moved_evaluation(evidence) if loss_stayed(evidence) else None
    if only_heldout or moved is not None:
        yield say("eval_drift", 3.0, moved or "only the held-out loss moved")
    elif "loss" in evidence.event.signals and not loss_stayed(evidence):
        yield say("eval_drift", -3.0, "the training loss itself moved")


def _moved_evaluation(evidence: Evidence) -> str | None:
    """Return which held-out metric jumped about the event although the training loss did not."""
    onset = evidence.event.onset
    for name, series in sorted(evidence.series.items()):
        earlier = series.between(0, onset - 1)
        later = series.values[(series.steps >= onset) & np.isfinite(series.values)]
        if not name.startswith(HELDOUT_PREFIXES) or len(earlier) < 4 or not len(later):
            continue
        usual = float(np.abs(np.diff(earlier[-32:])).max())
        before, after = float(earlier[-1]), float(later[0])
        if abs(after - before) > max(2 * usual, STILL_HELDOUT * abs(before)):
            return f"{name} went from {before:.4g} to {after:.4g}, the training loss kept its level"
    return None


def _value_at(series: Series, step: int) -> float | None:
    at = np.flatnonzero((series.steps <= step) & np.isfinite(series.values))
    return float(series.values[at[-1]]) if len(at) else None


CONTEXT_RULES: tuple[Rule, ...] = (
    resume,
    schedule,
    rate_jump,
    mixture,
    composition,
    ordering,
    logging,
    nothing_measured,
    evaluation,
)
