"""What a drill came to: the object of `shardward drill --json`, as `schemas/drill.v1.json`."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

from ...loader.formats import canonical_json, sha256_hex
from .finding import Found
from .score import blamed_rightly, score
from .stage import Stage
from .truth import Truth

NOTHING_FOUND = sha256_hex(canonical_json({}))
_OWN = ("seconds", "paths", "next")
Json = dict[str, Any]


def assemble(stage: Stage) -> Json:
    """Return the result of a drill whose phases are all done."""
    cause = stage.state.identity.cause
    ending = {"data": _solved, "learning-rate": _left, "none": _clean}[cause](stage)
    digests = {"findings": NOTHING_FOUND} | ending["digests"]
    seconds = {title: float(done["seconds"]) for title, done in stage.state.done.items()}
    return {**_base(stage), **ending, "digests": digests, "seconds": seconds}


def comparable(result: Json) -> Json:
    """Return what two drills of one seed and corpus share, however often one was stopped.

    Args:
        result: of a drill, as `--json` prints it.

    Returns:
        A copy without times, paths, numbers of branch pieces, and what is derived from them.
    """
    kept = {name: value for name, value in result.items() if name not in _OWN}
    kept["incidents"] = [_comparable(incident) for incident in result["incidents"]]
    if kept["rebuild"]:  # the rebuilt shards name the revision
        kept["rebuild"] = _without(kept["rebuild"], "fingerprint")
    return kept


def _comparable(incident: Json) -> Json:
    # The revision anchors the decision log, which holds times, and the orders name the revision.
    kept = _without(incident, "orders", "refusal")  # the refusal names a piece
    kept["replay"] = _without(kept["replay"], "piece")
    for name, own in (("revision", "digest"), ("proof", "piece")):
        if name in kept:
            kept[name] = _without(kept[name], own)
    return kept


def _without(value: Json, *names: str) -> Json:
    return {name: each for name, each in value.items() if name not in names}


def _base(stage: Stage) -> Json:
    """Return the part of the result that every drill has."""
    made, indexed = stage.state.result("corpus"), stage.state.result("index")
    names = ("digest", "documents", "bytes", "shards", "blocks")
    cause = stage.state.identity.cause
    return {
        "seed": stage.seed,
        "cause": cause,
        "salted": cause == "data",
        "steps": made["steps"],
        "scale": asdict(stage.scale),
        "corpus": {**{name: made[name] for name in names}, "sources": indexed["sources"]},
        "manifest": indexed["fingerprint"],
        "plan": indexed["plan"],
        "placement": made["placement"],
        "fault": stage.session.fault and asdict(stage.session.fault),
    }


def _solved(stage: Stage) -> Json:
    """Return the rest of a drill whose cause was the data."""
    state = stage.state
    found, ended = Found.of(state.result("find")), state.result("rebuild")
    filed = state.result("file")
    scored = score(stage.session.manifest, found, Truth.read(stage.directory.truth))
    return {
        "incidents": [
            {
                **_looked(stage),
                "found": {
                    "suspects": state.result("find")["suspects"],
                    "culprits": len(found.families),
                    "relatives": len(found.relatives),
                    "acquitted": len(state.result("find")["acquitted"]),
                },
                "shards": state.result("quarantine")["shards"],
                "revision": _revision(stage),
                "orders": state.result("resume")["orders"],
                "proof": filed["proof"],
                **_ended(stage),
            }
        ],
        "rebuild": ended["rebuild"],
        "score": scored.to_json(),
        "problems": ended["problems"],
        "digests": ended["digests"] | {"findings": state.result("find")["digest"]},
        "passed": _healthy(stage, ended) and filed["proof"]["holds"] and scored.passed,
        "paths": _paths(stage) | {"rebuilt": str(stage.directory.rebuilt)},
        "next": _next(stage, ended["branch"]),
    }


def _revision(stage: Stage) -> Json:
    resumed, decided = stage.state.result("resume"), stage.state.result("quarantine")
    return {
        "number": resumed["revision"],
        "digest": resumed["revision_digest"],
        "documents": decided["documents"],
    }


def _left(stage: Stage) -> Json:
    """Return the rest of a drill whose cause was not the data."""
    state = stage.state
    weighed, ended = state.result("weigh"), state.result("file")
    right = blamed_rightly(
        weighed["causes"],
        decisions=ended["decisions"],
        revision=state.result("resume")["revision"],
        outcome=ended["outcome"],
    )
    return {
        "incidents": [
            {
                **_looked(stage),
                "exit": {
                    "act": "not-data",
                    "reason": state.result("leave")["reason"],
                    "learning_rate_factor": state.result("leave")["learning_rate_factor"],
                },
                "orders": state.result("resume")["orders"],
                **_ended(stage),
            }
        ],
        "rebuild": None,
        "score": None,
        "blame": right,
        "problems": ended["problems"],
        "digests": ended["digests"],
        "passed": _healthy(stage, ended) and right["passed"],
        "paths": _paths(stage),
        "next": _next(stage, ended["branch"]),
    }


def _clean(stage: Stage) -> Json:
    """Return the rest of a drill in which nothing was to happen."""
    checked, trained = stage.state.result("check"), stage.state.result("train")
    return {
        "incidents": [],
        "pages": checked["pages"],
        "rebuild": None,
        "score": None,
        "problems": checked["problems"],
        "digests": checked["digests"],
        "passed": not checked["problems"] and not checked["pages"] and trained["page"] is None,
        "paths": _paths(stage),
        "next": _next(stage, checked["branch"]),
    }


def _healthy(stage: Stage, ended: Json) -> bool:
    watch, resumed = stage.state.result("watch")["watch"], stage.state.result("resume")
    replay = stage.state.result("replay")
    quiet = watch["verdict"] == "clear" and resumed["page"] is None
    return not ended["problems"] and quiet and replay["recurred"] and replay["bitwise"]


def _looked(stage: Stage) -> Json:
    """Return what was seen of the incident before anything was done about its cause."""
    state = stage.state
    confirmed, identified, rewound = (
        state.result(title) for title in ("confirm", "identify", "rewind")
    )
    return {
        "id": confirmed["id"],
        "state": state.result("file")["state"],
        "outcome": state.result("file")["outcome"],
        "event": confirmed["event"],
        "checklist": confirmed["checklist"],
        "window": {name: identified[name] for name in ("first", "last", "documents", "shards")},
        "rewind": {name: rewound[name] for name in ("step", "steps_lost")},
        "refusal": rewound["refusal"],
        "replay": state.result("replay"),
    }


def _ended(stage: Stage) -> Json:
    return {
        "watch": stage.state.result("watch")["watch"],
        "resumed_page": stage.state.result("resume")["page"],
        "causes": stage.state.result("file")["causes"],
    }


def _paths(stage: Stage) -> dict[str, str]:
    """Return where everything lies, by name."""
    directory = stage.directory
    filed = stage.state.done.get("file", {"result": {"paths": []}})["result"]["paths"]
    named = {
        "corpus": directory.corpus,
        "manifest": directory.manifest,
        "run": directory.run,
        "ledger": directory.run / "ledger.duckdb",
        "checkpoints": directory.checkpoints,
        "commands": directory.commands,
    }
    reports = {path.rsplit("/", 1)[-1].replace(".", "_"): path for path in filed}
    return {name: str(path) for name, path in named.items()} | reports


def _next(stage: Stage, branch: int) -> list[str]:
    """Return what a curious person would type next; `branch` is the piece that spiked."""
    directory, state = stage.directory, stage.state
    run = f"--run {shlex.quote(str(directory.run))}"
    manifest = f"--manifest {shlex.quote(str(directory.manifest))}"
    if "confirm" not in state.done:
        step = state.result("train")["last_step"]
        return [
            f"shardward ledger step {step} {run}",
            f"shardward corpus show {manifest}",
            "shardward drill",
        ]
    incident, onset = state.result("confirm")["id"], state.result("confirm")["event"]["onset"]
    commands = [
        f"shardward incident show {incident} {run}",
        f"shardward ledger step {onset} --branch {branch} {run}",
        f"shardward ledger timeline {run}",
        f"shardward corpus show {manifest}",
    ]
    if state.identity.cause == "data":
        commands += [f"shardward quarantine list {run}", f"shardward quarantine log {run}"]
        return [*commands, "shardward drill --cause learning-rate"]
    return [*commands, f"shardward incident stability-log {run}"]
