"""The report's sentences, made from its own numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Report = Mapping[str, Any]


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
    top = next(iter(window["shards"].items()), None) if window else None
    if top:
        text += f" {top[1]:.0%} of the window's tokens came from shard {top[0]}."
    if report["causes"]:
        first = report["causes"][0]
        name = first["name"].replace("_", " ")
        text += f" The likeliest cause is {name} (confidence {first['score']:.2f})."
    return text


def _resolution(report: Report) -> str:
    parts = _acts(report)
    if report["watch"]:
        result = report["watch"]["result"]
        parts.append(f"Watched to step {result['seen_to']}: {result['reason']}.")
    if report["proof"]:
        parts.append(
            "Proved from the ledger."
            if report["proof"]["holds"]
            else "The proof from the ledger FAILED."
        )
    return " ".join(parts) or f"Outcome: {report['outcome']}."


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
