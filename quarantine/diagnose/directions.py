"""Which way a metric points: a loss that rises is worse, an accuracy that rises is better."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal

from ...loader.errors import UsageError

Direction = Literal["higher", "lower"]

# Words as they stand in the names of metrics, between other signs; the last one in a name decides
# ("accuracy_loss" is a loss, "loss/exact_match" a match).
WORSE_WHEN_HIGHER = frozenset(
    {
        "loss",
        "ce",
        "nll",
        "xent",
        "entropy",
        "ppl",
        "perplexity",
        "bpb",
        "bpc",
        "bpt",
        "bits",
        "error",
        "err",
        "wer",
        "cer",
        "mse",
        "mae",
        "rmse",
    }
)
WORSE_WHEN_LOWER = frozenset(
    {
        "acc",
        "accuracy",
        "f1",
        "bleu",
        "rouge",
        "em",
        "match",
        "score",
        "reward",
        "pass",
        "auc",
        "auroc",
        "mrr",
        "ndcg",
        "recall",
        "precision",
        "meteor",
        "chrf",
        "winrate",
    }
)
_WORD = re.compile(r"[a-z]+[0-9]?")


def harm_of(name: str, declared: Mapping[str, Direction]) -> int | None:
    """Return 1 if `name` is worse when higher, -1 when lower, None where nothing says.

    `declared` comes first, by the whole name or by its last part ("eval/NAME").
    """
    said = declared.get(name) or declared.get(name.rpartition("/")[2])
    if said is not None:
        return 1 if said == "higher" else -1
    for word in reversed(_WORD.findall(name.lower())):
        if word in WORSE_WHEN_HIGHER:
            return 1
        if word in WORSE_WHEN_LOWER:
            return -1
    return None


def declared(words: Iterable[str]) -> dict[str, Direction]:
    """Return {metric: direction} of words like "mmlu=lower".

    Raises:
        UsageError: a word is of another form.
    """
    found: dict[str, Direction] = {}
    for word in words:
        name, _, said = word.rpartition("=")
        if not name or said not in ("higher", "lower"):
            raise UsageError(f"--worse {word} is not METRIC=higher or METRIC=lower")
        found[name] = "higher" if said == "higher" else "lower"
    return found
