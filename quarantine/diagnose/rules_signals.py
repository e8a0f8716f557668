"""Rules about the run's own signals: gradient norm, numerics, logits, optimizer, hardware."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .evidence import Evidence
from .rules import (
    Rule,
    Voice,
    last_step,
    level_before,
    loss_left,
    measures_nothing,
    row_before,
    say,
)
from .series import Series

LEAD_STEPS = 30
LEAST_SCALE = 2.0**-149
RECENT_EVENTS = 3
GROWN_UPDATES = 3.0
LARGE_UPDATE = 0.1
NEAR_STEPS = 10
REFERENCE = 64
LEAST_REFERENCE = 16
ANSWER_STEPS = 4


def gradient(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a gradient norm that rose before the loss; by itself it is a symptom."""
    series = evidence.series.get("grad_norm")
    if series is None:
        return
    before = level_before(series, evidence.event.onset)
    inside = series.between(evidence.event.onset, last_step(evidence))
    if before is None or before <= 0 or not len(inside):
        return
    ratio = float(inside.max()) / before
    if ratio < 2:
        yield say("gradient_explosion", -1.0, f"the gradient norm rose only {ratio:.1f} times")
        return
    climbing = _climbs(inside)
    text = f"the gradient norm reached {ratio:.3g} times its level"
    if evidence.lead is not None and evidence.lead.signal != "attention_logit":
        lead = f"{evidence.lead.layer} moved {evidence.lead.steps_ahead} steps before the loss"
        yield say("gradient_explosion", 2.5, f"{text}, and {lead}")
    elif climbing and ratio > 20:
        text = f"{text}, climbing over several steps"
        yield say("gradient_explosion", 2.0, text, direct=False)
    else:
        text = f"{text}; a symptom unless a layer leads"
        yield say("gradient_explosion", 0.5, text, direct=False)


def _climbs(values: np.ndarray) -> bool:
    top = int(values.argmax())
    return top >= 2 and bool((np.diff(values[: top + 1]) > 0).mean() > 0.7)


def numerics(evidence: Evidence) -> Iterator[Voice]:
    """Speak of overflow: values that are not finite, a falling loss scale, probe counters."""
    if evidence.event.kind == "nonfinite":
        what = "gradient norm" if "grad_norm" in evidence.event.signals else "loss"
        yield say("numerics", 2.0, f"the {what} is not finite")
    scale = evidence.series.get("loss_scale")
    if scale is not None:
        yield from _scale(scale, evidence)
    counts = evidence.series.get("nonfinite")
    if counts is not None:
        inside = counts.between(evidence.event.onset - LEAD_STEPS, last_step(evidence))
        if len(inside) and inside.max() > 0:
            yield say("numerics", 3.0, f"{inside.max():g} values were not finite")


def _scale(scale: Series, evidence: Evidence) -> Iterator[Voice]:
    first = evidence.event.onset - LEAD_STEPS
    row = row_before(evidence, evidence.event.onset)
    values = scale.between(first if row is None else min(first, row), last_step(evidence))
    halved = _halvings(values)
    if halved >= 2:
        yield say("numerics", 3.5, f"the loss scale was reduced {halved} times around the event")
    elif halved == 0:
        yield say("numerics", -1.0, "the loss scale held")


def _halvings(values: np.ndarray) -> int:
    """Return how often the values were reduced, by a half each time, also from row to row.

    What fell to nothing was halved down to the least number of single precision.
    """
    falls = -np.diff(np.log2(np.maximum(values[np.isfinite(values)], LEAST_SCALE)))
    return int(np.ceil(falls[falls > 0] - 1e-9).sum())


def rate_too_high(evidence: Evidence) -> Iterator[Voice]:
    """Speak of small spikes that came before, and of a loss that does not come back."""
    before = [event for event in evidence.earlier if event.kind in ("spike", "divergence")]
    if len(before) >= RECENT_EVENTS:
        text = f"{len(before)} spikes came before this one"
        yield say("learning_rate", 2.5, text, direct=False)
    elif before:
        spikes = "spike" if len(before) == 1 else "spikes"
        text = f"{len(before)} earlier {spikes} in this run"
        yield say("learning_rate", 1.0, text, direct=False)
    if evidence.event.kind == "divergence" and not measures_nothing(evidence.event):
        yield say("learning_rate", 1.5, "the loss does not come back by itself", direct=False)


def update_size(evidence: Evidence) -> Iterator[Voice]:
    """Speak of updates that grew, for their weights, before the loss left its level."""
    typical = _grown_updates(evidence)
    if typical is None:
        return
    if typical > GROWN_UPDATES:
        text = f"updates are {typical:.3g} times as large for their weights"
        resumed = any(
            change.kind == "resume" and 0 <= evidence.event.onset - change.step <= NEAR_STEPS
            for change in evidence.changes
        )
        # A lost optimizer state enlarges updates as a high rate does; the resume tells them apart.
        yield say("resume_fault" if resumed else "learning_rate", 2.0, text)
        yield say("logging", -3.0, text)
    else:
        yield say("learning_rate", -0.5, "updates kept their size")


def _grown_updates(evidence: Evidence) -> float | None:
    """Return how many times its size the update of a layer has, by the median of the layers."""
    grown = [
        ratio
        for name, series in evidence.series.items()
        if name.split("/")[0] == "update_ratio"
        and (ratio := _update_growth(series, evidence)) is not None
    ]
    return float(np.median(grown)) if grown else None


def _update_growth(series: Series, evidence: Evidence) -> float | None:
    """Return how much larger the updates just before the loss left are than before the onset.

    Where none of them was sampled those after it are taken, less what the gradient norm grew:
    without a normalising optimizer an update follows its gradient.
    """
    onset, left = evidence.event.onset, loss_left(evidence)
    before = level_before(series, onset - 3, points=32)
    if before is None or before <= 0:
        return None
    causes = series.between(onset - 3, left - 1)[-4:]
    if len(causes):
        return float(causes.max()) / before
    effects = series.between(left, evidence.event.detected)
    return float(np.median(effects)) / before / _norm_growth(evidence) if len(effects) else None


def _norm_growth(evidence: Evidence) -> float:
    series = evidence.series.get("grad_norm")
    before = None if series is None else level_before(series, evidence.event.onset)
    if series is None or before is None or before <= 0:
        return 1.0
    inside = series.between(evidence.event.onset, evidence.event.detected)
    return max(1.0, float(inside.max(initial=0.0)) / before)


def attention(evidence: Evidence) -> Iterator[Voice]:
    """Speak of attention logits that have grown over the run."""
    yield from _growth(evidence, "attention_logit", "attention_logits", 2.0, 20.0)


def output(evidence: Evidence) -> Iterator[Voice]:
    """Speak of output logits whose log-sum-exp has drifted from zero, or left its level at once.

    Attention logits follow many a fault; the output's move with the loss only where they began.
    """
    left, theirs = (_departure(evidence, name) for name in ("output_lse", "attention_logit"))
    if left is None or (theirs is not None and theirs < left):
        yield from _growth(evidence, "output_lse", "output_logits", 2.0, 4.0)
        return
    text = f"output_lse left its level at step {left} and has not come back"
    yield say("output_logits", 3.5, text)
    yield say("attention_logits", -2.0, f"{text}, before any attention logit did")


def _departure(evidence: Evidence, prefix: str) -> int | None:
    """Return the step about the onset from which a signal was off its level up to the peak."""
    event = evidence.event
    since, last = event.onset - NEAR_STEPS, max(last_step(evidence), event.peak_step)
    found = []
    for name, series in evidence.series.items():
        before = series.between(0, since - 1)[-REFERENCE:]
        if name.split("/")[0] != prefix or len(before) < LEAST_REFERENCE:
            continue
        reach = _middle_and_reach(before)[1]
        low, high = float(before.min()) - reach, float(before.max()) + reach
        near = (series.steps >= since) & (series.steps <= last)
        steps, values = series.steps[near], series.values[near]
        off = ~((values >= low) & (values <= high))
        stays = off[::-1].cumprod()[::-1].astype(bool)
        found += steps[stays][:1].tolist()
    first = min(found, default=None)
    return None if first is None or not since < first <= event.onset + ANSWER_STEPS else first


def _middle_and_reach(values: np.ndarray) -> tuple[float, float]:
    """Return the level of `values`, and how far from it is no noise any more."""
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(values - middle)))
    return middle, max(8 * spread, 0.3 * abs(middle))


def _growth(
    evidence: Evidence, prefix: str, cause: str, ratio: float, size: float
) -> Iterator[Voice]:
    """Speak of logits that grew: before the loss left they may be its cause, later its effect."""
    named = sorted(name for name in evidence.series if name.split("/")[0] == prefix)
    left, departed = loss_left(evidence), _departure(evidence, prefix)
    for last in (left - 1, last_step(evidence)):
        for name in named:
            text = _grown(evidence.series[name], last, ratio, size)
            if text is None:
                continue
            if last < left or (departed is not None and departed < left):
                yield say(cause, 4.0, text)
            else:
                yield say(cause, 1.5, f"{text}, with the loss or after it", direct=False)
            return
    if named:
        yield say(cause, -1.5, f"{prefix} kept its level")


def _grown(series: Series, last: int, ratio: float, size: float) -> str | None:
    """Return how the values up to step `last` have grown, None where they have not."""
    finite = np.isfinite(series.values) & (series.steps <= last)
    values = np.abs(series.values[finite])
    if len(values) < 8:
        return None
    early = float(np.median(values[: len(values) // 3]))
    late = float(np.median(values[-4:]))
    if late > size and late > ratio * max(early, 1e-9):
        return f"{series.name} grew from {early:.3g} to {late:.3g}"
    if _runs_away(values):
        return f"{series.name} rises step by step, to {values[-1]:.3g} from {early:.3g}"
    return None


def _runs_away(values: np.ndarray) -> bool:
    """Whether the last four values climb, each time, out of the range of those before.

    A climb that has been going on is none: the four alone must leave that range, and climb
    twice as far as any four before them.
    """
    reference, last = values[-REFERENCE - 4 : -4], values[-4:]
    if len(reference) < LEAST_REFERENCE:
        return False
    middle, reach = _middle_and_reach(reference)
    climb = last[-1] - max(middle, float(reference[-4:].max()))
    usual = float((reference[4:] - reference[:-4]).max())
    return bool((np.diff(last) > 0).all() and climb > max(reach, 2 * usual))


def optimizer(evidence: Evidence) -> Iterator[Voice]:
    """Speak of updates that are large for their weights where second moments are tiny."""
    series = evidence.series.get("rare_update_ratio")
    if series is None:
        return
    before = level_before(series, evidence.event.onset)
    inside = series.between(evidence.event.onset - 3, last_step(evidence))
    if before is None or not len(inside):
        return
    largest = float(inside.max())
    if largest > max(LARGE_UPDATE, 5 * before):
        text = f"an update moved a rarely seen embedding row by {largest:.0%} of its size"
        others = max(1.0, _grown_updates(evidence) or 1.0)
        if largest > GROWN_UPDATES * others * before:
            yield say("adam_epsilon", 4.0, text)
        else:
            text = f"{text}; all other updates grew as well"
            yield say("adam_epsilon", 1.0, text, direct=False)
    else:
        yield say("adam_epsilon", -1.0, "updates of rare embedding rows kept their size")


def hardware(evidence: Evidence) -> Iterator[Voice]:
    """Speak of what the machines reported."""
    for sign in evidence.hardware:
        yield say("hardware", 5.0 if sign.severe else 1.5, sign.what)
    mismatch = evidence.series.get("checksum_mismatch")
    if mismatch is not None:
        inside = mismatch.between(evidence.event.onset - LEAD_STEPS, last_step(evidence))
        if len(inside) and inside.max() > 0:
            yield say("hardware", 5.0, "parameters differ between ranks that must agree")
        elif len(inside):
            yield say("hardware", -1.5, "parameters agree on all ranks")


SIGNAL_RULES: tuple[Rule, ...] = (
    gradient,
    numerics,
    rate_too_high,
    update_size,
    attention,
    output,
    optimizer,
    hardware,
)
