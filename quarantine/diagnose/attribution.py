"""Ranked causes of an event, each with the evidence for and against it.

Every rule looks at one kind of evidence and speaks for or against causes with a weight in
natural-log odds; weights add up, and a softmax over the causes, "unknown" among them, gives the
confidences. Rules run in the order context, gradient norm, hardware, data. Two caps keep the
answer honest: "bad data" stays at or below one half without documents, per-sample losses, a
trial or a twin run that speak for it, and "data and state" needs a trial or a twin.
"""

from __future__ import annotations

import math

from .causes import CAUSES, REMEDIES, Cause
from .evidence import Evidence
from .rules import Voice
from .rules_context import CONTEXT_RULES
from .rules_data import DATA_RULES, has_documentary_evidence, has_state_trial
from .rules_signals import SIGNAL_RULES

# A cause without any evidence is e to this less likely than "unknown".
SILENCE = -2.5
CAP_WITHOUT_DOCUMENTS = 0.5


def attribute(evidence: Evidence) -> list[Cause]:
    """Return every cause that something speaks for or against, and "unknown", best first."""
    voices = [
        voice for rule in (*CONTEXT_RULES, *SIGNAL_RULES, *DATA_RULES) for voice in rule(evidence)
    ]
    scores = _scores(voices, evidence)
    heard = {voice.cause for voice in voices} | {"unknown"}
    causes = [_cause(name, scores[name], voices) for name in CAUSES if name in heard]
    return sorted(causes, key=lambda cause: -cause.score)


def _scores(voices: list[Voice], evidence: Evidence) -> dict[str, float]:
    odds = dict.fromkeys(CAUSES, SILENCE) | {"unknown": 0.0}
    for voice in voices:
        odds[voice.cause] += voice.weight
    if not has_state_trial(evidence):
        odds["data_state"] = -math.inf
    scores = _softmax(odds)
    if not has_documentary_evidence(evidence):
        scores = _capped(scores, "bad_data", CAP_WITHOUT_DOCUMENTS)
    return scores


def _softmax(odds: dict[str, float]) -> dict[str, float]:
    highest = max(odds.values())
    shares = {name: math.exp(value - highest) for name, value in odds.items()}
    total = sum(shares.values())
    return {name: share / total for name, share in shares.items()}


def _capped(scores: dict[str, float], name: str, cap: float) -> dict[str, float]:
    """Move what `name` has over `cap` to "unknown"."""
    surplus = max(0.0, scores[name] - cap)
    return scores | {name: scores[name] - surplus, "unknown": scores["unknown"] + surplus}


def _cause(name: str, score: float, voices: list[Voice]) -> Cause:
    mine = [voice for voice in voices if voice.cause == name]
    return Cause(
        name=name,
        score=score,
        evidence_for=tuple(voice.text for voice in mine if voice.weight > 0),
        evidence_against=tuple(voice.text for voice in mine if voice.weight < 0),
        remedies=REMEDIES[name],
    )
