"""The names under which trackers log what the monitor looks for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ALIASES: Mapping[str, tuple[str, ...]] = {
    "step": (
        "step",
        "_step",
        "steps",
        "global_step",
        "train/global_step",
        "trainer/global_step",
        "iteration",
        "iter",
        "update",
        "samples",
        "consumed_samples",
    ),
    "loss": (
        "loss",
        "train_loss",
        "train/loss",
        "loss/train",
        "training_loss",
        "lm loss",
        "lm_loss",
        "lm-loss-training/lm loss",
        "loss/train/total",
        "cross_entropy",
        "train/ce loss",
    ),
    "grad_norm": (
        "grad_norm",
        "gradnorm",
        "grad norm",
        "grad-norm",
        "train/grad_norm",
        "gradient_norm",
        "global_grad_norm",
        "total_norm",
        "gnorm",
        "optim/total_grad_norm",
        "l2_norm/grad/global",
    ),
    "lr": (
        "lr",
        "learning_rate",
        "learning-rate",
        "learning rate",
        "train/learning_rate",
        "train/lr",
        "lr-adamw/pg1",
        "optim/lr",
    ),
    "loss_scale": ("loss_scale", "loss-scale", "loss scale", "scale"),
    "batch_size": ("batch_size", "global_batch_size", "batch-size", "global batch size"),
    "seq_len": ("seq_len", "sequence_length", "seqlen"),
    "clip_rate": ("clip_rate", "clipped", "clip", "train/clip_rate"),
    "step_time": ("step_time", "step_time_s", "iter_time_s", "iteration-time", "dt"),
    "heldout_loss": ("heldout_loss", "eval_loss", "val_loss", "eval/loss", "validation_loss"),
}

BOOKKEEPING = frozenset(
    {
        *ALIASES["step"],
        *("piece", "branch", "rank", "replica", "pid", "micro", "epoch", "train/epoch"),
        *("time", "timestamp", "wall_time", "_timestamp", "_runtime", "runtime", "elapsed"),
        *("tokens", "num_tokens", "consumed_tokens", "tokens_seen", "total_flos"),
    }
)
"""Columns that say where, when and how far a row is. They are no signals of the model's health: the
branch piece jumps at each restart, and whatever jumps first would name the onset."""


def is_bookkeeping(column: str) -> bool:
    """Return whether a column places its row instead of measuring the run."""
    return column.strip().lower() in BOOKKEEPING


def canonical_names(columns: Iterable[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return {column: name} for every column; `chosen` maps a name to the column meant for it.

    The first usual name wins where a log has two of them; a column that is not known keeps its
    own name, unless another column bears that.
    """
    columns = list(columns)
    names = {column: name for name, column in chosen.items()}
    taken = set(chosen)
    # The first column of each spelling; those that were chosen are spoken for.
    plain: dict[str, str] = {}
    for column in columns:
        if column not in names:
            plain.setdefault(column.strip().lower(), column)
    for name, aliases in ALIASES.items():
        if name in taken:
            continue
        found = next((plain[alias] for alias in aliases if alias in plain), None)
        if found is not None:
            names[found] = name
            taken.add(name)
    own = {column: renamed(column) if column in taken else column for column in columns}
    return {column: names.get(column, own[column]) for column in columns}


def renamed(column: str) -> str:
    """Return the name of a column that is not known, where another column bears its own."""
    return f"{column} (column)"
