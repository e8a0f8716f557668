"""Are the causes that attribution names the ones that were injected?

    python benchmarks/monitor/faults.py [--seeds 10-17] [--strength 0.5] [--faults junk,rate]

Prints one JSON object for each fault and matrix, and one for the whole. Three matrices: the
telemetry alone, with the documents of the window, and with trials as well. The rules and the
strengths were adjusted on seeds 0 to 2 at strength 1; the default seeds were not looked at.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from dataclasses import replace
from functools import lru_cache, partial
from multiprocessing import get_context

import torch
from fault_lab import CONFIG, FAULT, TRUTH, Lab, Record

from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.evidence import Evidence, Trial, changes_from
from shardward.quarantine.diagnose.replay import detect

MATRICES = ("telemetry", "documents", "trials")
DATA = ("junk", "repetition")
# This one differs from a healthy run before the fault: its sources come in order.
OWN_START = ("loader",)


@lru_cache(maxsize=1)
def healthy(seed: int) -> Lab:
    """Return a run that stands just before its fault, which most faults share."""
    lab = Lab("none", seed)
    lab.train(FAULT - 1)
    return lab


def record_of(fault: str, seed: int, strength: float) -> Record:
    """Return what a broken run logged."""
    if fault in OWN_START:
        return Lab(fault, seed, strength).run()
    return healthy(seed).branch(fault, strength).run()


def evidence_of(
    record: Record, config: MonitorConfig = CONFIG, fault: int = FAULT
) -> Evidence | None:
    """Return what the monitor's first page after the fault gives to explain; None without one."""
    events = detect(record.series, config)
    pages = [event for event in events if event.page]
    found = [event for event in pages if event.detected >= fault]
    if not found:
        return None
    return Evidence(
        event=found[0],
        series=record.series,
        schedule=record.schedule,
        changes=(*record.changes, *changes_from(events)),
        earlier=tuple(event for event in pages if event.detected < fault),
    )


def with_more(evidence: Evidence, record: Record, matrix: str, fault: str) -> Evidence:
    """Return the evidence of a matrix: documents, and trials that behave as the fault would."""
    if matrix == "telemetry":
        return evidence
    evidence = replace(evidence, window=record.window)
    if matrix == "documents":
        return evidence
    replayed = Trial(kind="replay", recurred=fault != "bitflip", bitwise=True)
    skipped = Trial(kind="skip", recurred=fault not in DATA)
    return replace(evidence, trials=(replayed, skipped))


def answer(job: tuple[str, int], strength: float = 1.0) -> dict[str, list[str]]:
    """Return {matrix: [named, its two best with scores]} for one fault and seed."""
    torch.set_num_threads(1)
    fault, seed = job
    record = record_of(fault, seed, strength)
    evidence = evidence_of(record)
    if evidence is None:
        return {matrix: ["no page", ""] for matrix in MATRICES}
    found = {}
    for matrix in MATRICES:
        causes = attribute(with_more(evidence, record, matrix, fault))
        shown = ", ".join(f"{cause.name} {cause.score:.2f}" for cause in causes[:3])
        event = evidence.event
        found[matrix] = [causes[0].name, f"{event.kind}@{event.onset}/{event.detected}: {shown}"]
    return found


def wilson(count: int, total: int) -> list[float]:
    """Return the 95 % interval of a share (Wilson)."""
    if not total:
        return [0.0, 1.0]
    z, share = 1.96, count / total
    middle = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total**2)) / (1 + z * z / total)
    return [round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=seeds_of, default=seeds_of("10-17"))
    parser.add_argument("--strength", type=float, default=1.0)
    parser.add_argument("--faults", default=",".join(TRUTH))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    faults = options.faults.split(",")
    jobs = [(fault, seed) for seed in options.seeds for fault in faults]
    with get_context("spawn").Pool(options.processes) as pool:
        given = pool.map(partial(answer, strength=options.strength), jobs, chunksize=len(faults))
    answers = dict(zip(jobs, given, strict=True))
    machine = {"machine": platform.machine(), "command": " ".join(sys.argv)}
    for matrix in MATRICES:
        named = {job: found[matrix][0] for job, found in answers.items()}
        for fault in faults:
            mine = [named[fault, seed] for seed in options.seeds]
            print(json.dumps({"matrix": matrix, "fault": fault, "named": mine}))
            if options.verbose:
                for seed in options.seeds:
                    print("   ", seed, answers[fault, seed][matrix][1])
        print(json.dumps(summary(matrix, named) | {"strength": options.strength} | machine))


def seeds_of(text: str) -> list[int]:
    """Return the seeds of "10-16", or of "10" alone."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def summary(matrix: str, named: dict[tuple[str, int], str]) -> dict[str, object]:
    """Return the shares that the issue asks for."""
    silent = [job for job, name in named.items() if name in ("unknown", "no page")]
    spoken = [job for job in named if job not in silent]
    right = [job for job in spoken if named[job] == TRUTH[job[0]]]
    other = [job for job in named if TRUTH[job[0]] != "bad_data"]
    wrong = [job for job in other if named[job] == "bad_data"]
    by_fault = {
        fault: sum(job[0] == fault for job in silent) / sum(job[0] == fault for job in named)
        for fault in {job[0] for job in named}
    }
    return {
        "matrix": matrix,
        "runs": len(named),
        "no_page": sum(name == "no page" for name in named.values()),
        "unknown": round(len(silent) / len(named), 4),
        "most_unknown_of_a_fault": round(max(by_fault.values()), 4),
        "right_of_named": round(len(right) / max(len(spoken), 1), 4),
        "wrongly_bad_data": round(len(wrong) / max(len(other), 1), 4),
        "wrongly_bad_data_interval": wilson(len(wrong), len(other)),
    }


if __name__ == "__main__":
    main()
