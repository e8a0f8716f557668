"""The list of what is measured, in the order in which cases take turns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

OURS, PEER = "ours", "peer"
PLACES = (0.0, 0.5, 0.999)
# Small enough for one batch to be left at 99.9 % of the default corpus.
RESUME_BATCH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement.

    Attributes:
        name: of the result.
        group: cases that are run together with `--only`.
        function: `module:function` of this package.
        who: whose environment runs it, `ours` or `peer`.
        prepare: `module:function` that runs once before, or empty.
        options: further arguments of the function.
        versions: distributions whose versions matter.
        repeats: rounds it takes part in; 0 for all.
    """

    name: str
    group: str
    function: str
    who: str = OURS
    prepare: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    versions: tuple[str, ...] = ("pyarrow", "numpy")
    repeats: int = 0


def _throughput() -> list[Case]:
    index = "ours:prepare"
    ours = {
        "ours W=16 inline": {"window": 16, "threads": 0},
        "ours W=16 2 threads": {"window": 16, "threads": 2},
        "ours W=64 inline": {"window": 64, "threads": 0},
    }
    numpy = {
        "careful numpy W=16": {"window": 16, "digest": False},
        "careful numpy W=16 digested": {"window": 16, "digest": True},
    }
    return [
        *(
            Case(
                name=name,
                group="throughput",
                function="limits:decode",
                options={"threads": threads},
            )
            for name, threads in {"limit: decode": 1, "limit: decode 2 threads": 2}.items()
        ),
        *(
            Case(
                name=name,
                group="throughput",
                function="ours:throughput",
                prepare=index,
                options=options,
                versions=("shardward", "pyarrow", "numpy"),
            )
            for name, options in ours.items()
        ),
        *(
            Case(name=name, group="throughput", function="limits:careful_numpy", options=options)
            for name, options in numpy.items()
        ),
        Case(name="limit: memcpy", group="throughput", function="limits:memcpy"),
    ]


def _peers() -> list[Case]:
    # Few batches for slow peers. Grain decodes 16 row groups before its first batch, 36M tokens
    # that the clock does not see, so it has to run for long.
    rows: list[tuple[str, str, str, int, str]] = [
        ("HF streaming", "peers_hf:streaming", "", 4, "datasets"),
        ("HF map-style", "peers_hf:map_style", "", 30, "datasets"),
        ("Mosaic", "peers_mosaic:throughput", "peers_mosaic:prepare", 5, "mosaicml-streaming"),
        ("grain ArrayRecord", "peers_grain:throughput", "peers_grain:prepare", 12, "grain"),
        ("grain Parquet", "peers_grain:parquet", "", 120, "grain"),
        ("LitData", "peers_litdata:throughput", "peers_litdata:prepare", 30, "litdata"),
        ("torchdata", "peers_torchdata:throughput", "", 5, "torchdata"),
    ]
    return [
        Case(
            name=name,
            group="peers",
            function=function,
            who=PEER,
            prepare=prepare,
            options={"batches": batches},
            versions=(package, "pyarrow", "numpy"),
        )
        for name, function, prepare, batches, package in rows
    ]


def _first_batches() -> list[Case]:
    index = "ours:prepare"
    mine = [
        Case(
            name=f"ours W=16 first batch at {100 * place:g} %",
            group="resume",
            function="ours:first_batch",
            prepare=index,
            options={"window": 16, "progress": place, "batch": RESUME_BATCH},
        )
        for place in PLACES
    ]
    peers = [
        ("HF streaming", "peers_hf", "", "datasets"),
        ("Mosaic", "peers_mosaic", "peers_mosaic:prepare", "mosaicml-streaming"),
        ("grain ArrayRecord", "peers_grain", "peers_grain:prepare", "grain"),
        ("LitData", "peers_litdata", "peers_litdata:prepare", "litdata"),
        ("torchdata", "peers_torchdata", "", "torchdata"),
    ]
    theirs = [
        Case(
            name=f"{name} first batch at {100 * place:g} %",
            group="resume-peers",
            function=f"{module}:first_batch",
            who=PEER,
            prepare=prepare,
            options={"progress": place, "batch": RESUME_BATCH},
            versions=(package,),
            repeats=1,
        )
        for name, module, prepare, package in peers
        for place in PLACES
    ]
    return [*mine, *theirs]


def _billion() -> list[Case]:
    made = "billion:prepare"
    places = [
        Case(
            name=f"1e9 documents: first batch at {100 * place:g} %",
            group="billion",
            function="billion:first_batch",
            prepare=made,
            options={"progress": place},
        )
        for place in PLACES
    ]
    return [
        Case(name="1e9 documents: plan", group="billion", function="billion:plan", prepare=made),
        *places,
        Case(
            name="1e9 documents: 1M excluded",
            group="billion",
            function="billion:excluded",
            prepare=made,
            options={"progress": 0.5},
        ),
    ]


CASES: tuple[Case, ...] = (
    *_throughput(),
    *_peers(),
    *_first_batches(),
    *_billion(),
    *(
        Case(
            name=name,
            group="trainer",
            function="ours:training_thread",
            prepare="ours:prepare",
            options={"steps": 200, "compute_ms": 100.0, "work": work},
        )
        for name, work in {
            "training thread, prefetch on": "sleep",
            "training thread that computes, prefetch on": "products",
        }.items()
    ),
    Case(
        name="flat memory over 100k steps",
        group="memory",
        function="ours:flat_memory",
        prepare="ours:prepare",
        options={"steps": 100_000},
        repeats=1,
    ),
)
