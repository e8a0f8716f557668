"""The report's sentences, made from its own numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from .machine import EXITS

Report = Mapping[str, Any]
SHOWN_VALUES = 16
"""Logged values of the loss whose median stands for how a stretch of the run went."""


def narrative(report: Report) -> dict[str, str]:
    """Return the fields `summary`, `trigger` and `resolution` of a report."""
    return {
        "summary": _summary(report),
        "trigger": _trigger(report),
        "resolution": _resolution(report),
    }


def count(number: int, noun: str) -> str:
    """Return "1 shard", "2 shards"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def watched(watch: Report) -> str:
    """Return how the watch `watch` (its plan and result) ended, as one sentence."""
    plan, result = watch["plan"], watch["result"]
    return (
        f"Watched steps {plan['first']} to {plan['last']}, seen to {result['seen_to']}: "
        f"{result['verdict']}, {result['reason']}."
    )


def witness(plan: Report) -> str:
    """Return the rule for signals beside the loss, "" where the plan watches none beside it."""
    names = [threshold["signal"] for threshold in plan["thresholds"]]
    others = [name for name in names if name != "loss"]
    if len(others) == len(names) or not others:
        return ""
    return (
        f"A non-loss signal ({', '.join(others)}) recurs only beside a raised loss: strikes while "
        "the loss is within its level, or an end over its own level, are no recurrence."
    )


def bad_first(suspects: Sequence[Report]) -> list[Report]:
    """Return the suspects that were judged bad, then the rest; each as ranked."""
    return sorted(suspects, key=lambda suspect: not suspect.get("verdict"))


def _summary(report: Report) -> str:
    detection, window = report["detection"], report["window"]
    parts = [
        f"A {detection['kind']} began at step {detection['onset']} and was detected at step "
        f"{detection['detected']}."
    ]
    if window:
        documents = count(len(window["documents"]["doc"]), "document")
        parts.append(
            f"Steps {window['first']} to {window['last']} were fed {documents} from "
            f"{count(len(window['shards']), 'shard')}."
        )
    return " ".join([*parts, *_acts(report), f"Outcome: {report['outcome']}."])


def _trigger(report: Report) -> str:
    detection, window = report["detection"], report["window"]
    text = f"The {detection['kind']} began at step {detection['onset']}."
    # Evidence is stored with its keys in order of name, so the first is not the largest.
    shares = window["shards"].items() if window else ()
    top = max(shares, key=lambda each: each[1], default=None)
    if top:
        text += f" {top[1]:.0%} of the window's tokens came from shard {top[0]}."
    if report["causes"]:
        first = report["causes"][0]
        name = first["name"].replace("_", " ")
        text += f" The likeliest cause is {name} (confidence {first['score']:.2f})."
    return text


def _resolution(report: Report) -> str:
    parts = [*_acts(report), *_left(report), *_factors(report)]
    if report["watch"]:
        result = report["watch"]["result"]
        parts.append(f"Watched to step {result['seen_to']}: {result['reason']}.")
    else:
        parts += _went_on(report)
    if report["proof"]:
        parts.append(
            "Proved from the ledger."
            if report["proof"]["holds"]
            else "The proof from the ledger FAILED."
        )
    return " ".join(parts) or f"Outcome: {report['outcome']}."


def _left(report: Report) -> list[str]:
    """Return how the incident was left, with the reason that was given; nothing if it was not."""
    if report["outcome"] not in EXITS.values():
        return []
    left = [event["text"] for event in report["timeline"] if event["act"] in EXITS]
    return [f"Left as {text.rstrip('.')}." for text in left[-1:]]


def _factors(report: Report) -> list[str]:
    return [
        f"The trainer was ordered a {action['what']} of {action['after']:.4g}."
        for action in report["actions"]
        if action["what"].endswith(" factor")
    ]


def _went_on(report: Report) -> list[str]:
    """Return how the resumed run went by its own log, where no watch judged it."""
    loss = {
        branch["name"]: [(s, v) for s, v in branch["series"].get("loss", ()) if v is not None]
        for branch in report["curves"]["branches"]
    }
    after, onset = loss.get("after"), report["detection"]["onset"]
    if not after:
        return []
    text = f"The resumed run was logged to step {after[-1][0]}; its loss ended at {_middle(after)}"
    healthy = [point for point in loss.get("before", ()) if point[0] < onset]
    return [f"{text}, {_middle(healthy)} before the onset." if healthy else f"{text}."]


def _middle(points: Sequence[tuple[int, float]]) -> str:
    return f"{median(value for _, value in points[-SHOWN_VALUES:]):.4g}"


def _acts(report: Report) -> list[str]:
    parts = []
    if report["rewind"]:
        plan = report["rewind"]
        parts.append(
            f"The run was rewound to step {plan['checkpoint']['step']}, "
            f"{count(plan['steps_lost'], 'step')} back."
        )
    skip = report["skip"]
    if skip:
        parts.append(
            f"Nothing was skipped: {skip['no_skip']}."
            if skip["no_skip"]
            else f"Revision {skip['revision']} leaves out {count(skip['documents'], 'document')} "
            f"and {count(skip['skips'], 'range')} of positions."
        )
    return parts
