"""The drill's own small scale; the defaults elsewhere are for real runs."""

from __future__ import annotations

from dataclasses import dataclass

from ...loader.plan import Holdout, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Sizes of a run that fits a laptop; every field is printed at the start of a drill.

    Attributes:
        steps: optimizer steps of the whole run.
        batch: sequences per step.
        seq_len: tokens per sequence.
        width, layers, heads: of the transformer.
        learning_rate: peak of AdamW's schedule; `warmup` steps lead up to it.
        checkpoint_every: steps between checkpoints and held-out evaluations.
        block_documents: documents per row group; `shard_blocks` row groups make a shard.
        holdout_documents: kept out of training for evaluation.
        bulk: binary documents in the bad block.
        scattered: members of each salted family elsewhere.
        reaction: steps the run goes on after the page, until somebody stops it.
        margin: least distance between rewind target and onset.
        watch: steps watched after the resume.
        trend: steps before the onset that the watch learns from.
        rate_factor: what the learning rate is raised by where that is the cause.
        threads: torch threads; fixed, since the count can change the last bits of a sum, and one,
            since two wait for each other a hundred times longer when the cores are shared.
    """

    steps: int = 400
    batch: int = 16
    seq_len: int = 256
    width: int = 64
    layers: int = 2
    heads: int = 4
    learning_rate: float = 4e-3
    warmup: int = 20
    checkpoint_every: int = 20
    block_documents: int = 40
    shard_blocks: int = 10
    holdout_documents: int = 80
    bulk: int = 30
    scattered: int = 17
    reaction: int = 20
    margin: int = 5
    watch: int = 60
    trend: int = 60
    rate_factor: float = 12.0
    threads: int = 1

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one step takes from the corpus."""
        return self.batch * self.seq_len

    def plan(self, *, fingerprint: str, seed: int, separator: int, pad: int) -> Plan:
        """Return the drill's plan: windows of one block, so that a bad block stays together."""
        return Plan(
            fingerprint=fingerprint,
            seed=seed,
            window_blocks=1,
            seq_len=self.seq_len,
            separator=separator,
            pad=pad,
            holdout=Holdout(documents=self.holdout_documents, seed=seed),
        )
