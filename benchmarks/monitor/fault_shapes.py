"""Does attribution hold on runs and logs of other shapes than those its rules were written on?

    python benchmarks/monitor/fault_shapes.py [--seeds 1-2] [--only wide,sgd,pairs,probes-10]

Prints one JSON object a line: for each shape of run (another model, optimizer or batch) and each
shape of log (sampled, thinned, rounded, with signals left out), from telemetry and with the
documents of the window, how many of the faults are named right, unknown or silent, and wrong.
Two faults at once are right where one of them is named first. "healthy" is a run without a fault.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from fault_lab import FAULT, TRUTH, Lab, Record, Shape
from faults import OWN_START, evidence_of, seeds_of, with_more

from shardward.quarantine.diagnose.attribution import attribute
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
MATRICES = ("telemetry", "documents")
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


def named(record: Record, fault: str, matrix: str) -> str:
    """Return the first cause, or "no page"."""
    evidence = evidence_of(record)
    if evidence is None:
        return "no page"
    return attribute(with_more(evidence, record, matrix, fault))[0].name


def verdict(name: str, fault: str) -> str:
    """Return what an answer is worth."""
    if name in ("unknown", "no page"):
        return "silent"
    truths = {TRUTH[each] for each in fault.split("+") if each in TRUTH}
    return "right" if name in truths else "bad_data" if name == "bad_data" else "wrong"


def runs(shape: Shape, faults: list[str], seed: int) -> list[tuple[str, Record]]:
    """Return what broken runs of one shape logged, and a healthy one."""
    common = Lab("none", seed, shape=shape)
    common.train(FAULT - 1)
    found = [("healthy", common.branch("none", 1.0).run())]
    for fault in faults:
        own = bool(set(fault.split("+")) & set(OWN_START))
        lab = Lab(fault, seed, shape=shape) if own else common.branch(fault, 1.0)
        found.append((fault, lab.run()))
    return found


def tell(title: dict[str, str], records: list[tuple[str, Record]]) -> None:
    """Print how a shape's runs were answered."""
    for matrix in MATRICES:
        answers = [(fault, named(record, fault, matrix)) for fault, record in records]
        healthy = Counter(name for fault, name in answers if fault == "healthy")
        broken = [(fault, name) for fault, name in answers if fault != "healthy"]
        counts = Counter(verdict(name, fault) for fault, name in broken)
        missed = Counter(
            f"{fault}: {name}" for fault, name in broken if verdict(name, fault) != "right"
        )
        row = {"matrix": matrix, "runs": len(broken), "healthy": healthy} | {
            "right": counts["right"],
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
    if "pairs" in only:
        records = [pair for seed in options.seeds for pair in runs(Shape(), list(PAIRS), seed)]
        tell({"run": "two faults at once", "log": "as-written"} | command, records)


if __name__ == "__main__":
    main()
