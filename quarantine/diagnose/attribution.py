"""Ranked causes of an event, each with the evidence for and against it.

Every rule looks at one kind of evidence and speaks for or against causes with a weight in
natural-log odds; weights add up, and a softmax over the causes, "unknown" among them, gives the
confidences. Rules run in the order context, gradient norm, hardware, data; what was not measured
is remarked, without a weight, beside "unknown". Two caps keep the answer honest: "bad data"
stays at or below one half without documents, per-sample losses, a trial or a twin run that speak
for it, and "data and state" needs a trial or a twin.

A softmax is about causes of which one is true. Where direct evidence makes a second cause
likelier than "unknown" by itself, and the first does not bring it about, both are named: they
share what the two of them have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from .causes import CAUSES, REMEDIES, Cause
from .evidence import Evidence
from .rules import Voice, say
from .rules_context import CONTEXT_RULES
from .rules_coverage import COVERAGE_RULES
from .rules_data import DATA_RULES, has_documentary_evidence, has_state_trial
from .rules_signals import SIGNAL_RULES

RULES = (*CONTEXT_RULES, *SIGNAL_RULES, *DATA_RULES, *COVERAGE_RULES)
# A cause without any evidence is e to this less likely than "unknown".
SILENCE = -2.5
CAP_WITHOUT_DOCUMENTS = 0.5
# What a cause brings about, or is but another reading of.
BRINGS: Mapping[str, frozenset[str]] = {
    "resume_fault": frozenset(
        ("mix_change", "learning_rate", "attention_logits", "output_logits", "adam_epsilon")
    ),
    "learning_rate": frozenset(("attention_logits", "output_logits", "adam_epsilon")),
    "bad_data": frozenset(("data_state",)),
    "data_state": frozenset(("bad_data",)),
}


def attribute(evidence: Evidence) -> list[Cause]:
    """Return every cause that something speaks for or against, and "unknown", best first."""
    voices = [voice for rule in RULES for voice in rule(evidence)]
    scores = _softmax(_odds(voices, evidence))
    pair = _two_at_once(voices, scores)
    if pair:
        scores = _shared(scores, pair)
        voices += _told(pair)
    if not has_documentary_evidence(evidence):
        scores = _capped(scores, "bad_data", CAP_WITHOUT_DOCUMENTS)
    heard = {voice.cause for voice in voices} | {"unknown"}
    causes = [_cause(name, scores[name], voices) for name in CAUSES if name in heard]
    return sorted(causes, key=lambda cause: -cause.score)


def _odds(voices: list[Voice], evidence: Evidence) -> dict[str, float]:
    odds = dict.fromkeys(CAUSES, SILENCE) | {"unknown": 0.0}
    for voice in voices:
        odds[voice.cause] += voice.weight
    if not has_state_trial(evidence):
        odds["data_state"] = -math.inf
    return odds


def _two_at_once(voices: list[Voice], scores: Mapping[str, float]) -> dict[str, float]:
    """Return the two causes that stand on direct evidence of their own, and how firmly.

    How firmly is the chance of a cause against "unknown" alone. Empty where there is one or none.
    """
    alone = {}
    for name in CAUSES:
        mine = [voice for voice in voices if voice.cause == name]
        direct = sum(voice.weight for voice in mine if voice.direct)
        odds = SILENCE + min(direct, sum(voice.weight for voice in mine))
        if name != "unknown" and odds > 0 and scores[name] > 0:
            alone[name] = 1 / (1 + math.exp(-odds))
    ranked = sorted(alone, key=lambda name: -scores[name])
    pair = ranked[:1] + [name for name in ranked[1:] if name not in BRINGS.get(ranked[0], ())][:1]
    return {name: alone[name] for name in pair} if len(pair) > 1 else {}


def _shared(scores: dict[str, float], pair: Mapping[str, float]) -> dict[str, float]:
    both, firmness = sum(scores[name] for name in pair), sum(pair.values())
    return scores | {name: both * firm / firmness for name, firm in pair.items()}


def _told(pair: Mapping[str, float]) -> list[Voice]:
    first, second = pair
    text = "{} has evidence of its own beside it: two causes at once"
    return [say(first, 0.0, text.format(second)), say(second, 0.0, text.format(first))]


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
        evidence_for=tuple(voice.text for voice in mine if voice.weight >= 0),
        evidence_against=tuple(voice.text for voice in mine if voice.weight < 0),
        remedies=REMEDIES[name],
    )
