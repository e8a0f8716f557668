"""A small torch model that is broken in twelve known ways, on the CPU.

Each run is a pure function of (fault, seed, strength, shape): synthetic sources with their own
bigrams, a decoder-only transformer, AdamW, probes on. The fault begins at step 140 of 220;
strength 1 is what the rules of attribution were written on, 0.5 is half of it. "junk+rate" are
two faults at once. Another `Shape` is another model, optimizer or batch.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from small_model import Model
from torch import Tensor, nn
from torch.nn import functional

from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.evidence import Change, Window
from shardward.quarantine.diagnose.probes import Probes
from shardward.quarantine.diagnose.series import Series

STEPS, FAULT, LASTS = 220, 140, 6
VOCABULARY, LENGTH, HEADS = 64, 33, 4
RARE = 4
# What Adam and Adafactor call them.
SECOND_MOMENTS = {"exp_avg_sq", "row_var", "col_var", "variance"}
SOURCES = ("web", "code", "books")
TRUTH = {
    "junk": "bad_data",
    "repetition": "bad_data",
    "rate": "learning_rate",
    "attention": "attention_logits",
    "output": "output_logits",
    "epsilon": "adam_epsilon",
    "overflow": "numerics",
    "bitflip": "hardware",
    "moments": "resume_fault",
    "loader": "resume_fault",
    "mixture": "mix_change",
    "scaled": "logging",
}
CONFIG = MonitorConfig.for_short_run(STEPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How a run is trained; the defaults are what the rules of attribution were written on.

    `pace` is how many times as long the run, its calm part and bad batches last.
    """

    width: int = 32
    depth: int = 2
    rows: int = 24
    optimizer: str = "adamw"
    rate: float = 3e-3
    pace: int = 1

    @property
    def steps(self) -> int:
        """Steps of the run."""
        return STEPS * self.pace

    @property
    def fault(self) -> int:
        """The step at which the fault begins."""
        return FAULT * self.pace

    @property
    def lasts(self) -> int:
        """Steps for which bad batches come."""
        return LASTS * self.pace


class Lion(torch.optim.Optimizer):
    """The sign of a momentum (Chen et al. 2023), without second moments."""

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Move each weight by the learning rate, whatever its gradient's size."""
        del closure
        for group in self.param_groups:
            for weight in group["params"]:
                kept = self.state[weight].setdefault("momentum", torch.zeros_like(weight))
                weight.sub_(group["lr"] * (0.9 * kept + 0.1 * weight.grad).sign())
                kept.lerp_(weight.grad, 0.01)


@dataclass
class Record:
    """What a run left behind."""

    series: dict[str, Series]
    schedule: Series
    changes: tuple[Change, ...]
    window: Window


@dataclass
class Lab:
    """One run under way."""

    fault: str
    seed: int
    strength: float = 1.0
    shape: Shape = Shape()
    rows: list[dict[str, float]] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch.manual_seed(self.seed)
        self.random = np.random.default_rng(self.seed)
        tables = [self._bigrams(index) for index in range(len(SOURCES))]
        self.sums = np.stack(tables).cumsum(2)
        self.faults = set(self.fault.split("+"))
        self.model = Model(VOCABULARY, self.shape.width, HEADS, self.shape.depth, norm=True)
        self.optimizer = self._optimizer()
        self.probes = Probes(self.model, self.optimizer, every=1)
        self.heldout = self._batch(np.array([0.5, 0.3, 0.2]))[0]
        self.scale = 65536.0

    def _optimizer(self) -> torch.optim.Optimizer:
        weights, rate = self.model.parameters(), self._rate(0)
        if self.shape.optimizer == "sgd":
            return torch.optim.SGD(weights, lr=rate, momentum=0.9)
        if self.shape.optimizer == "adafactor":
            return torch.optim.Adafactor(weights, lr=rate)
        if self.shape.optimizer == "lion":
            return Lion(weights, {"lr": rate})
        return torch.optim.AdamW(weights, lr=rate, betas=(0.9, 0.95))

    def _bigrams(self, index: int) -> np.ndarray:
        """Return a transition table over the usual tokens; rare ones are the last few."""
        usual = VOCABULARY - RARE
        random = np.random.default_rng(1000 * self.seed + index)
        table = np.zeros((VOCABULARY, VOCABULARY))
        table[:, :usual] = random.dirichlet(np.full(usual, 0.04 + 0.08 * index), VOCABULARY)
        return table

    def _batch(self, mix: np.ndarray) -> tuple[Tensor, np.ndarray]:
        rows = self.shape.rows
        edges = np.round(np.cumsum(mix) * rows)
        sources = np.searchsorted(edges, np.arange(rows), side="right")
        tokens = np.zeros((rows, LENGTH), dtype=np.int64)
        tokens[:, 0] = self.random.integers(0, VOCABULARY - RARE, rows)
        for place in range(1, LENGTH):
            edges = self.sums[sources, tokens[:, place - 1]]
            draws = self.random.random((rows, 1))
            tokens[:, place] = np.minimum((edges < draws).sum(1), VOCABULARY - 1)
        return torch.from_numpy(tokens), sources

    def _mix(self, step: int) -> np.ndarray:
        if "mixture" in self.faults and step >= self.shape.fault:
            other = np.array([0.05, 0.05, 0.9])
            return self.strength * other + (1 - self.strength) * np.array([0.5, 0.3, 0.2])
        if "loader" in self.faults:
            place = (
                step - self.shape.fault + 60 * (1 - self.strength)
                if step >= self.shape.fault
                else step
            )
            late = min(place / 60, 1.0)
            return (1 - late) * np.array([0.9, 0.05, 0.05]) + late * np.array([0.05, 0.05, 0.9])
        return np.array([0.5, 0.3, 0.2])

    def _data(self, step: int) -> tuple[Tensor, np.ndarray]:
        tokens, sources = self._batch(self._mix(step))
        if "junk" in self.faults and self.shape.fault <= step < self.shape.fault + self.shape.lasts:
            bad = self.random.random(self.shape.rows) < 0.8 * self.strength
            noise = self.random.integers(0, VOCABULARY, (self.shape.rows, LENGTH))
            tokens[torch.from_numpy(bad)] = torch.from_numpy(noise[bad])
        if (
            "repetition" in self.faults
            and self.shape.fault <= step < self.shape.fault + self.shape.lasts
        ):
            for row in np.flatnonzero(self.random.random(self.shape.rows) < 0.8 * self.strength):
                pattern = self.random.integers(0, VOCABULARY, 3)
                tokens[row] = torch.from_numpy(np.tile(pattern, LENGTH // 3))
        if "epsilon" in self.faults and step >= self.shape.fault:
            tokens[:, :: round(3 / self.strength)] = VOCABULARY - 1 - step % RARE
        return tokens, sources

    def _break(self, step: int) -> None:
        """Do to the model or its optimizer what the fault does before `step`."""
        if step < self.shape.fault:
            return
        first = step == self.shape.fault
        if "rate" in self.faults:
            self.optimizer.param_groups[0]["lr"] = self._rate(step)
        if "attention" in self.faults:
            self._scale_queries(1 + 0.35 * self.strength if step < self.shape.fault + 20 else 1.0)
        if "output" in self.faults:
            with torch.no_grad():
                factor = 1 + 0.25 * self.strength if step < self.shape.fault + 12 else 1.0
                self.model.head.weight.mul_(factor)
        if "epsilon" in self.faults and first:
            self._forget_rare_moments()
        if "bitflip" in self.faults and first:
            self._flip()
        if self.faults & {"moments", "loader", "resume"} and first:
            self._resume(step)
        if "overflow" in self.faults:
            self.scale = max(self.scale / 2, 1.0) if step % 2 == 0 else self.scale

    def _rate(self, step: int) -> float:
        """Return the planned learning rate: the fault "rate" plans a peak that is too high."""
        if "rate" in self.faults and step >= self.shape.fault:
            return float(self.shape.rate * 100**self.strength)
        return self.shape.rate

    def _scale_queries(self, factor: float) -> None:
        with torch.no_grad():
            for block in self.model.blocks:
                block.qkv.weight[: 2 * self.shape.width].mul_(factor)
                block.out.weight.mul_(math.sqrt(factor))

    def _forget_rare_moments(self) -> None:
        group = self.optimizer.param_groups[0]
        group["eps"] = 1e-20
        state = self.optimizer.state[self.model.embed.weight]
        state["exp_avg_sq"][-RARE:] = 1e-22
        state["exp_avg"][-RARE:] = state["exp_avg"][:RARE].sign() * 1e-9

    def _flip(self) -> None:
        block = self.model.blocks[self.seed % self.shape.depth]
        with torch.no_grad():
            flat = block.down.weight.view(-1)
            flat[int(self.random.integers(flat.numel()))] *= -(2.0 ** (12 * self.strength))

    def _resume(self, step: int) -> None:
        self.changes.append(Change(step=step, kind="resume"))
        if "moments" in self.faults:
            # The first moments came back with the checkpoint, the second did not.
            for state in self.optimizer.state.values():
                for name in SECOND_MOMENTS & state.keys():
                    state[name].mul_(1e-12**self.strength)

    def run(self) -> Record:
        """Train to the end, and return what was logged."""
        self.train(self.shape.steps)
        return self._record()

    def train(self, last: int) -> None:
        """Train from where the run stands to step `last`."""
        for step in range(len(self.rows) + 1, last + 1):
            self._break(step)
            self.rows.append(self._step(step))

    def branch(self, fault: str, strength: float) -> Lab:
        """Return a copy of this run as it stands before the fault, to be broken in its own way."""
        other = Lab(fault, self.seed, strength, self.shape)
        other.model.load_state_dict(self.model.state_dict())
        other.optimizer.load_state_dict(copy.deepcopy(self.optimizer.state_dict()))
        other.random.bit_generator.state = self.random.bit_generator.state
        other.rows = list(self.rows)
        return other

    def _step(self, step: int) -> dict[str, float]:
        tokens, sources = self._data(step)
        with self.probes.step(step):
            logits = self.model(tokens)
            self.probes.logits(logits)
            each = functional.cross_entropy(
                logits[:, :-1].transpose(1, 2), tokens[:, 1:], reduction="none"
            ).mean(1)
            loss = each.mean()
            broken = self._overflows(step)
            if broken:
                loss = loss * math.inf
            self.optimizer.zero_grad()
            loss.backward()
            self.probes.gradients()
            norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
            if not broken:
                self.optimizer.step()
        return self._values(step, loss, each, sources, norm)

    def _overflows(self, step: int) -> bool:
        every = round(2 / self.strength)
        return "overflow" in self.faults and step >= self.shape.fault + 6 and step % every == 0

    def _values(
        self, step: int, loss: Tensor, each: Tensor, sources: np.ndarray, norm: float
    ) -> dict[str, float]:
        values = {"loss": float(loss.detach()), "grad_norm": norm, "lr": self._rate(step)}
        values |= self.probes.values()
        values["loss_scale"] = self.scale
        values["checksum_mismatch"] = float("bitflip" in self.faults and step >= self.shape.fault)
        for index, name in enumerate(SOURCES):
            mine = each.detach()[torch.from_numpy(sources == index)]
            values[f"share/{name}"] = len(mine) / self.shape.rows
            if len(mine):
                values[f"loss/{name}"] = float(mine.mean())
        if step % 5 == 0:
            with torch.no_grad():
                logits = self.model(self.heldout)
            values["heldout_loss"] = float(
                functional.cross_entropy(logits[:, :-1].transpose(1, 2), self.heldout[:, 1:])
            )
        if "scaled" in self.faults and step >= self.shape.fault:
            for name in ("loss", *(f"loss/{source}" for source in SOURCES)):
                if name in values:
                    values[name] *= math.log(2) ** -self.strength
        return values

    def _record(self) -> Record:
        names = sorted({name for row in self.rows for name in row})
        series = {}
        for name in names:
            at = [index for index, row in enumerate(self.rows) if name in row]
            series[name] = Series(
                name=name,
                steps=np.array(at, dtype=np.int64) + 1,
                values=np.array([self.rows[index][name] for index in at], dtype=np.float64),
            )
        rates = np.array([self._rate(step) for step in range(1, self.shape.steps + 1)])
        schedule = Series(name="lr", steps=np.arange(1, self.shape.steps + 1), values=rates)
        bad = bool(self.faults & {"junk", "repetition"})
        window = Window(
            flagged_share=float(self.random.uniform(0.5, 0.8)) if bad else 0.01,
            control_share=0.01,
            controls=4,
        )
        return Record(series=series, schedule=schedule, changes=tuple(self.changes), window=window)
