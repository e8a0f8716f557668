"""Rules about the data: the documents of the window, trials and twin runs. Asked last."""

from __future__ import annotations

from collections.abc import Iterator

from .confirm import last_step, source_checks
from .events import Event
from .evidence import Evidence, Trial, Twin, Window
from .rules import (
    CLOSE,
    CONTEXT,
    MODEL,
    RECENT,
    Rule,
    Voice,
    loss_left,
    of_kind,
    row_before,
    say,
    stood,
)
from .series import Series

RISEN_SHARE = 0.1
LEAST_QUIET = 4
AT_ONCE = 0.4


def documents(evidence: Evidence) -> Iterator[Voice]:
    """Compare the window's documents with those of control windows."""
    window = evidence.window
    if window is None:
        return
    for defect in window.defects:
        yield say("bad_data", 5.0, f"format defect: {defect}")
    if window.controls == 0:
        return
    text = (
        f"{window.flagged_share:.0%} of the window's tokens are in condemned documents, "
        f"{window.control_share:.1%} of {window.controls} control windows"
    )
    if _is_worse(window):
        yield say("bad_data", 4.0 if window.flagged_share > 0.3 else 3.0, text)
    else:
        yield say("bad_data", -2.0, text)
    if window.loss_share is not None:
        yield from _losses(window.loss_share)


def _losses(share: float) -> Iterator[Voice]:
    text = f"{share:.0%} of the excess loss is in the condemned documents"
    yield say("bad_data", 2.0 if share > 0.5 else -1.5, text)


def _is_worse(window: Window) -> bool:
    return window.flagged_share - window.control_share > RISEN_SHARE


def trials(evidence: Evidence) -> Iterator[Voice]:
    """Weigh what replays and skips showed."""
    for trial in evidence.trials:
        if trial.kind == "replay":
            yield from _replay(trial)
        elif trial.kind == "skip":
            yield from _skip(trial)
        elif trial.kind == "other_state":
            yield from _other_state(trial)
        else:
            yield from _other_data(trial)


def _replay(trial: Trial) -> Iterator[Voice]:
    if trial.bitwise is False:
        text = "the replay gave different numbers from the same state and batches"
        yield say("hardware", 5.0, text)
        yield say("bad_data", -5.0, text)
    elif trial.recurred:
        text = "the spike came back when the same batches were replayed"
        yield say("bad_data", 1.5, text)
        yield say("data_state", 1.5, text)
        yield say("hardware", -3.0, text)
    else:
        text = "the spike did not come back when the same batches were replayed"
        yield say("hardware", 3.0, text)
        yield say("bad_data", -4.0, text)


def _skip(trial: Trial) -> Iterator[Voice]:
    if trial.recurred:
        text = "the spike came back with the suspects left out"
        yield say("bad_data", -6.0, text)
        yield say("data_state", -4.0, text)
        yield say("learning_rate", 2.5, text, direct=False)
    else:
        text = "the spike stayed away with the suspects left out"
        yield say("bad_data", 2.5, text)
        yield say("data_state", 2.0, text)


def _other_state(trial: Trial) -> Iterator[Voice]:
    if trial.recurred:
        yield say("bad_data", 2.0, "the same batches do harm from another checkpoint too")
        yield say("data_state", -2.0, "the same batches do harm from another checkpoint too")
    else:
        yield say("data_state", 4.0, "the same batches do no harm from another checkpoint")
        yield say("bad_data", -2.5, "the same batches do no harm from another checkpoint")


def _other_data(trial: Trial) -> Iterator[Voice]:
    if trial.recurred:
        text = "other batches from the same checkpoint spike as well"
        yield say("bad_data", -4.0, text)
        yield say("learning_rate", 2.0, text, direct=False)
    else:
        yield say("bad_data", 1.0, "other batches from the same checkpoint do not spike")


def twins(evidence: Evidence) -> Iterator[Voice]:
    """Weigh twin runs: the same data should do the same harm."""
    for twin in evidence.twins:
        yield from _twin(twin)


def _twin(twin: Twin) -> Iterator[Voice]:
    if twin.same_data and twin.coincides:
        yield say("bad_data", 3.0, "a twin run on the same data spikes at the same steps")
    elif twin.same_data:
        text = "a twin run on the same data does not spike there"
        yield say("bad_data", -4.0, text)
        yield say("data_state", 1.0, text)
        yield say("hardware", 0.5, text)
    elif twin.coincides:
        text = "a twin run on other data spikes at the same steps"
        yield say("bad_data", -2.0, text)
        yield say("learning_rate", 1.5, text, direct=False)


def shape(evidence: Evidence) -> Iterator[Voice]:
    """Speak of one source alone that moved: a hint, not a proof."""
    checks = source_checks(evidence.series, evidence.event.onset, last_step(evidence.event))
    answers = [check.agrees for check in checks.values() if check.agrees is not None]
    rose, asked = sum(answers), len(answers)
    if asked > 1 and 0 < rose <= asked / 2:
        text = f"the loss rose in {rose} of {asked} sources only"
        yield say("bad_data", 1.0, text, direct=False)
    elif asked > 1 and rose == asked:
        yield say("bad_data", -0.5, "the loss rose in every source alike")


def elimination(evidence: Evidence) -> Iterator[Voice]:
    """Speak of a jump at once while all that was measured besides stood still.

    Data comes last: what is left when context, logits, optimizer, numerics and hardware were
    looked at and are quiet. Without probes there is nothing to eliminate, and nothing is said.
    """
    left = loss_left(evidence)
    quiet = _quiet_families(evidence, left)
    if len(quiet) < LEAST_QUIET or _near_change(evidence):
        return
    loss = evidence.series.get("loss")
    if loss is None or not _at_once(loss, evidence.event, left):
        return
    text = f"the loss jumped at once while {', '.join(quiet)} stood still"
    if not _known_then(evidence, left):
        text += " when they were last sampled, which was before"
        yield say("bad_data", 0.5, text, direct=False)
        return
    if evidence.event.kind == "divergence" and evidence.event.end is None:
        text += "; but it has not ended, as batches do"
        yield say("bad_data", 2.0, text, direct=False)
        return
    yield say("bad_data", 3.5, text, direct=False)
    if evidence.event.end is not None and _ended_at_once(loss, evidence.event):
        text = "it ended within one step too, as batches do"
        yield say("bad_data", 1.0, text, direct=False)


# Settings that eliminate nothing by standing still, and much by moving.
_SETTINGS = ("lr", "batch_size", "accumulation", "seq_len")


def _quiet_families(evidence: Evidence, left: int) -> list[str]:
    """Return the families that were logged and stood still; none if one of them moved."""
    settings = (evidence.series[name] for name in _SETTINGS if name in evidence.series)
    if not all(stood(each, left, left) for each in settings):
        return []
    quiet = []
    for family, prefix in {**CONTEXT, **MODEL}.items():
        found = of_kind(evidence, prefix)
        last = left if family in CONTEXT else left - 1
        if found and not all(stood(each, left, last) for each in found):
            return []
        quiet += [family] if found else []
    return quiet


def _known_then(evidence: Evidence, left: int) -> bool:
    """Whether context was known at the step `left`, and the model at the logged step before.

    Where more than one step lies between the two, what grew in them went unseen.
    """
    earlier = row_before(evidence, left)
    if earlier is None or left - earlier > CLOSE:
        return False
    for prefixes, first in ((CONTEXT, left), (MODEL, earlier)):
        for prefix in prefixes.values():
            found = of_kind(evidence, prefix)
            if found and not any(len(each.between(first, left)) for each in found):
                return False
    return True


def _near_change(evidence: Evidence) -> bool:
    onset = evidence.event.onset
    near = any(onset - 2 * RECENT <= change.step <= onset + 1 for change in evidence.changes)
    return near or bool(evidence.hardware) or evidence.event.kind == "nonfinite"


def _at_once(loss: Series, event: Event, left: int) -> bool:
    first = loss.between(left, left)
    height = event.peak - event.baseline
    return bool(len(first) and height > 0 and first[0] - event.baseline > AT_ONCE * height)


def _ended_at_once(loss: Series, event: Event) -> bool:
    assert event.end is not None
    last, after = loss.between(event.onset, event.end - 1)[-1:], loss.between(event.end, event.end)
    height = event.peak - event.baseline
    return bool(len(last) and len(after) and last[0] - after[0] > AT_ONCE * height)


def has_documentary_evidence(evidence: Evidence) -> bool:
    """Whether documents, per-sample losses, a trial or a same-data twin speak for bad data."""
    window = evidence.window
    named = window is not None and (bool(window.defects) or _is_worse(window))
    tried = any(trial.kind == "skip" and not trial.recurred for trial in evidence.trials) and any(
        trial.kind == "replay" and trial.recurred for trial in evidence.trials
    )
    twin = any(each.same_data and each.coincides for each in evidence.twins)
    return named or tried or twin


def has_state_trial(evidence: Evidence) -> bool:
    """Whether an experiment compared the same data from two states."""
    tried = any(trial.kind in ("other_state", "skip") for trial in evidence.trials)
    return tried or any(twin.same_data for twin in evidence.twins)


DATA_RULES: tuple[Rule, ...] = (documents, trials, twins, shape, elimination)
