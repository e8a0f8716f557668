"""The causes that an event may be given, and what helps against each, cheapest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Effect = Literal["on resume", "needs a restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """Something to do, and when it takes effect."""

    what: str
    effect: Effect = "on resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One hypothesis with its confidence; the scores of all causes add up to 1."""

    name: str
    score: float
    evidence_for: tuple[str, ...] = ()
    evidence_against: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the cause as JSON."""
        return {
            "name": self.name,
            "score": round(self.score, 4),
            "evidence_for": list(self.evidence_for),
            "evidence_against": list(self.evidence_against),
            "remedies": [{"what": each.what, "effect": each.effect} for each in self.remedies],
        }


def _now(*whats: str) -> tuple[Remedy, ...]:
    return tuple(Remedy(what=what) for what in whats)


def _later(*whats: str) -> tuple[Remedy, ...]:
    return tuple(Remedy(what=what, effect="needs a restart") for what in whats)


_SKIP = _now("rewind, skip the window, and quarantine what the detectors condemn")

# Context first, data last: with equal scores this is the order of the answer.
REMEDIES: Mapping[str, tuple[Remedy, ...]] = {
    "resume_fault": _now(
        "restore loader, optimizer and scheduler state from the checkpoint and resume again",
        "compare the learning rate and the first batch with those before the stop",
    ),
    "mix_change": _now(
        "leave the run alone and judge it from the new level",
        "shuffle over a larger window if sources come in order",
    ),
    "logging": _now("repair the logging and judge the run by its gradient norm and held-out loss"),
    "eval_drift": _now("repair the evaluation harness; the training loss did not move"),
    "learning_rate": (
        *_now("lower the peak learning rate", "clip the global gradient norm at 1.0"),
        *_later("lengthen the warm-up", "enlarge the batch", "use beta2 = 0.95"),
    ),
    "attention_logits": (
        *_now("lower the learning rate while the logits are watched"),
        *_later("add QK-norm or a soft cap on the attention logits", "check the parameterisation"),
    ),
    "output_logits": (
        *_now("add a z-loss of 1e-4"),
        *_later("exclude embeddings from weight decay", "soft-cap the output logits"),
    ),
    "adam_epsilon": (
        *_now("raise Adam's epsilon for embeddings", "use beta2 = 0.95"),
        *_later("exclude embeddings from weight decay", "use a larger batch"),
    ),
    "gradient_explosion": (
        *_now("clip the global gradient norm at 1.0", "lower the learning rate"),
        *_later("remove biases and scale residual projections", "check the parameterisation"),
    ),
    "numerics": (
        *_now("compute softmax, norms and reductions in fp32", "use bf16 instead of fp16"),
        *_later("raise the epsilon of the layer norms"),
    ),
    "hardware": _now(
        "drain the node that the signs name and resume from the last checkpoint before them",
        "replay the step on another device before blaming anything else",
    ),
    "data_state": (*_SKIP, *_now("lower the learning rate over the window instead of skipping it")),
    "bad_data": _SKIP,
    "unknown": _now("replay the window from the last checkpoint to see whether it recurs"),
}
CAUSES = tuple(REMEDIES)
