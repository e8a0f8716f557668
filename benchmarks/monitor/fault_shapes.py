"""Does attribution hold on runs and logs of other shapes than those its rules were written on?

    python benchmarks/monitor/fault_shapes.py [--seeds 1-2] [--only wide,sgd,pairs,probes-10]

Prints one JSON object a line: for each shape of run (another model, optimizer or batch) and each
shape of log (sampled, thinned, rounded, with signals left out), from telemetry and with the
documents of the window, how many of the faults are named right, unknown or silent, and wrong.
Two faults at once are right where one of them is named first; `both` counts where both are.
"healthy" is a run without a fault. "sparse" are runs ten times as long of which every tenth or
fiftieth step is logged; they take minutes a seed. "all-pairs" are all that are not in `PAIRS`.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import torch
from fault_lab import CONFIG, FAULT, STEPS, TRUTH, Lab, Record, Shape
from faults import OWN_START, evidence_of, seeds_of, with_more

from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.evidence import Evidence
from shardward.quarantine.diagnose.series import Series

SHAPES = {
    "as-written": Shape(),
    "wide": Shape(width=64, depth=4),
    "noisy": Shape(rows=6),
    "adafactor": Shape(optimizer="adafactor", rate=1e-2),
    "sgd": Shape(optimizer="sgd", rate=0.3),
    "lion": Shape(optimizer="lion", rate=3e-4),
}
# Optimizers without second moments can lose none, and one that clips its update hardly minds.
WITHOUT = {
    "sgd": {"epsilon", "moments"},
    "lion": {"epsilon", "moments"},
    "adafactor": {"epsilon", "moments"},
}
PAIRS = ("junk+rate", "junk+resume", "mixture+bitflip", "attention+scaled", "repetition+overflow")
ALL_PAIRS = tuple(
    f"{one}+{other}"
    for one, other in combinations(TRUTH, 2)
    if TRUTH[one] != TRUTH[other] and not {f"{one}+{other}", f"{other}+{one}"} & set(PAIRS)
)
MATRICES = ("telemetry", "documents")
# A second cause of this score is named beside the first.
NAMED = 0.3
PACE = 10
# What trainers log without probes, shares or checksums.
PLAIN = ("loss", "grad_norm", "lr", "loss_scale", "heldout_loss")
PROBED = ("attention_logit", "output_lse", "rare_update_ratio", "update_ratio", "activation")
PROBED += ("residual", "nonfinite", "checksum_mismatch")
Log = Callable[[str, Series], "Series | None"]


def thinned(series: Series, every: int, offset: int = 0) -> Series:
    """Return every k-th step of a series."""
    kept = series.steps % every == offset
    return replace(series, steps=series.steps[kept], values=series.values[kept])


def is_probed(name: str) -> bool:
    """Whether a signal comes from the probes."""
    return name.split("/", maxsplit=1)[0] in PROBED or name.startswith("grad_norm/")


def rounded(series: Series) -> Series:
    """Return a series as bfloat16 holds it."""
    values = torch.tensor(series.values).bfloat16().double().numpy()
    return replace(series, values=np.asarray(values))


def sampled(every: int, offset: int) -> Log:
    """Return a log whose probes and checksums are sampled, as by default."""
    return lambda name, each: thinned(each, every, offset) if is_probed(name) else each


LOGS: dict[str, Log] = {
    "as-written": lambda name, each: each,
    "probes-10": sampled(10, 0),
    "probes-10-five-before": sampled(10, (FAULT - 5) % 10),
    "probes-4-two-before": sampled(4, (FAULT - 2) % 4),
    "no-gradient-norm": lambda name, each: None if name.startswith("grad_norm") else each,
    "no-probes": lambda name, each: None if is_probed(name) else each,
    "loss-only": lambda name, each: each if name == "loss" else None,
    "every-second-step": lambda name, each: thinned(each, 2),
    "every-third-step": lambda name, each: thinned(each, 3),
    "bf16": lambda name, each: rounded(each),
}


def logged(record: Record, log: Log) -> Record:
    """Return what another logger would have kept of a run."""
    kept = {name: log(name, each) for name, each in record.series.items()}
    return replace(record, series={name: each for name, each in kept.items() if each is not None})


def sparse(every: int, offset: int, *, plain: bool) -> Log:
    """Return a log of every k-th step; held-out losses have their own rhythm."""

    def kept(name: str, each: Series) -> Series | None:
        if plain and name not in PLAIN:
            return None
        return each if name == "heldout_loss" else thinned(each, every, offset)

    return kept


def sparse_config(every: int) -> MonitorConfig:
    """Return the scale for a long run of which every k-th step is logged."""
    short = MonitorConfig.for_short_run(max(64, STEPS * PACE // every))
    return short.changed(warmup_steps=500, divergence_steps=200)


def named(evidence: Evidence | None, record: Record, fault: str, matrix: str) -> tuple[str, ...]:
    """Return the first cause and one named beside it, or "no page"."""
    if evidence is None:
        return ("no page",)
    first, *others = attribute(with_more(evidence, record, matrix, fault))
    beside = [each.name for each in others if each.score >= NAMED and each.name != "unknown"]
    return (first.name, *beside)


def verdict(name: str, fault: str) -> str:
    """Return what an answer is worth."""
    if name in ("unknown", "no page"):
        return "silent"
    truths = {TRUTH[each] for each in fault.split("+") if each in TRUTH}
    return "right" if name in truths else "bad_data" if name == "bad_data" else "wrong"


def runs(shape: Shape, faults: list[str], seed: int) -> list[tuple[str, Record]]:
    """Return what broken runs of one shape logged, and a healthy one."""
    common = Lab("none", seed, shape=shape)
    common.train(shape.fault - 1)
    found = [("healthy", common.branch("none", 1.0).run())]
    for fault in faults:
        own = bool(set(fault.split("+")) & set(OWN_START))
        lab = Lab(fault, seed, shape=shape) if own else common.branch(fault, 1.0)
        found.append((fault, lab.run()))
    return found


def tell(
    title: dict[str, object],
    records: list[tuple[str, Record]],
    config: MonitorConfig = CONFIG,
    first: int = FAULT,
) -> None:
    """Print how a shape's runs were answered."""
    pages = [evidence_of(record, config, first) for _, record in records]
    for matrix in MATRICES:
        answered = [
            (fault, named(page, record, fault, matrix))
            for page, (fault, record) in zip(pages, records, strict=True)
        ]
        answers = [(fault, names[0]) for fault, names in answered]
        both = sum(
            {TRUTH.get(each) for each in fault.split("+")} == set(names)
            for fault, names in answered
            if "+" in fault
        )
        alone = sum(len(names) > 1 for fault, names in answered if "+" not in fault)
        healthy = Counter(name for fault, name in answers if fault == "healthy")
        broken = [(fault, name) for fault, name in answers if fault != "healthy"]
        counts = Counter(verdict(name, fault) for fault, name in broken)
        missed = Counter(
            f"{fault}: {name}" for fault, name in broken if verdict(name, fault) != "right"
        )
        row = {"matrix": matrix, "runs": len(broken), "healthy": healthy} | {
            "right": counts["right"],
            "both": both,
            "a_second_named_of_one": alone,
            "unknown_or_no_page": counts["silent"],
            "wrongly_bad_data": counts["bad_data"],
            "otherwise_wrong": counts["wrong"],
            "not_right": missed,
        }
        print(json.dumps(title | row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("1-2"))
    parser.add_argument("--only", default=",".join([*SHAPES, "pairs", *LOGS]))
    options = parser.parse_args()
    only = set(options.only.split(","))
    torch.set_num_threads(1)
    command = {"machine": platform.machine(), "command": " ".join(sys.argv)}
    for name, shape in SHAPES.items():
        faults = [fault for fault in TRUTH if fault not in WITHOUT.get(name, set())]
        logs = {log: LOGS[log] for log in LOGS if name == "as-written" and log in only}
        if name not in only and not logs:
            continue
        records = [pair for seed in options.seeds for pair in runs(shape, faults, seed)]
        for log, change in (logs or {"as-written": LOGS["as-written"]}).items():
            kept = [(fault, logged(record, change)) for fault, record in records]
            tell({"run": name, "log": log} | command, kept)
    for name, pairs in {"pairs": PAIRS, "all-pairs": ALL_PAIRS}.items():
        if name in only:
            records = [pair for seed in options.seeds for pair in runs(Shape(), list(pairs), seed)]
            tell({"run": f"two faults at once, {name}", "log": "as-written"} | command, records)
    if "sparse" in only:
        long = Shape(pace=PACE)
        records = [pair for seed in options.seeds for pair in runs(long, list(TRUTH), seed)]
        for every, offset, plain in product((10, 50), (0, 5), (False, True)):
            log = sparse(every, offset * every // 10, plain=plain)
            kept = [(fault, logged(record, log)) for fault, record in records]
            title = {"run": "long", "every": every, "offset": offset * every // 10, "plain": plain}
            tell(title | command, kept, sparse_config(every), long.fault)


if __name__ == "__main__":
    main()
