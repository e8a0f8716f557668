"""The last phases: file the incident, write the corpus anew, and ask the record once more."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...loader.errors import IntegrityError
from ...loader.formats import canonical_json, parse_json, sha256_hex
from ...loader.manifest import Manifest
from ...loader.stream import ShardLoader
from ..respond.narrative import count
from .looking import monitor_check
from .stage import Stage

ORDERED = (
    "SELECT sha256(string_agg(concat_ws(',', step, rank, sample_position, doc, token_start, "
    "token_count), ';' ORDER BY step, rank, sample_position, doc, token_start)) FROM segments "
    "WHERE {where}"
)
SIGNALS = (
    "SELECT sha256(string_agg(concat_ws(',', step, rank, name, value), ';' "
    "ORDER BY step, rank, name)) FROM signals WHERE {where}"
)
Json = dict[str, Any]


def file(stage: Stage) -> Json:
    """File the incident: JSON, Markdown, HTML and a picture of the curves."""
    led = stage.incident
    filed = led.act("file")
    home = stage.directory.run / "incidents" / led.id
    paths = sorted(filed["paths"]) if filed else [str(p) for p in sorted(_reports(home))]
    for path in paths:
        stage.narrator.say(f"filed {path}")
    report = parse_json((home / "incident.json").read_bytes(), where=str(home / "incident.json"))
    if report["proof"]:
        _show_proof(stage, report["proof"])
    return {
        "paths": paths,
        "state": report["state"],
        "outcome": report["outcome"],
        "proof": report["proof"],
        "causes": [{"name": c["name"], "score": c["score"]} for c in report["causes"]],
    }


def file_last(stage: Stage) -> Json:
    """File the incident where nothing is left to rebuild."""
    return {**file(stage), **ask_the_record(stage)}


def _reports(home: Path) -> list[Path]:
    return [*home.glob("incident.*"), *home.glob("curves.png")]


def _show_proof(stage: Stage, proof: Json) -> None:
    stage.narrator.table(
        f"proved from the ledger: steps {proof['first']} to {proof['last']}",
        ("statement", "holds", "checked"),
        [(c["name"], "yes" if c["holds"] else "NO", c["checked"]) for c in proof["checks"]],
    )


def rebuild(stage: Stage) -> Json:
    """Write the filtered corpus, index it, load a batch of it, and ask the record.

    Raises:
        IntegrityError: rows were lost, or the rebuilt corpus holds other documents.
    """
    directory, session = stage.directory, stage.session
    report = stage.shell.ask(
        "rebuild", "--out", str(directory.rebuilt), "--incident", stage.incident.id,
        *stage.run, "--yes",
    )  # fmt: skip
    shutil.rmtree(directory.rebuilt_manifest, ignore_errors=True)  # of a start before this one
    child = stage.shell.ask(
        "corpus", "index", str(directory.rebuilt), "--out", str(directory.rebuilt_manifest),
        "--id-column", "id", "--source-column", "source",
    )  # fmt: skip
    if child["documents"] != report["rows_out"]:
        raise IntegrityError(
            f"the rebuilt corpus holds {child['documents']} documents, the rebuild wrote "
            f"{report['rows_out']}"
        )
    manifest = Manifest.load(directory.rebuilt_manifest)
    plan = replace(session.plan, fingerprint=manifest.fingerprint)
    with ShardLoader(manifest, plan, batch=stage.scale.batch) as loader:
        batch = next(loader)
    stage.narrator.say(
        f"rebuilt: {report['rows_in']} rows in = {report['rows_out']} out + {report['removed']} "
        f"removed; indexed as {child['fingerprint'][:12]} and loaded"
    )
    return {
        "rebuild": {
            "rows_in": report["rows_in"],
            "rows_out": report["rows_out"],
            "removed": report["removed"],
            "fingerprint": child["fingerprint"],
            "documents": child["documents"],
            "loaded_tokens": int(batch.target_tokens),
        },
        **ask_the_record(stage),
    }


def check(stage: Stage) -> Json:
    """Judge a run in which nothing was to happen."""
    checked = monitor_check(stage, "train")
    asked = ask_the_record(stage)
    stage.narrator.say(
        f"{stage.state.result('train')['last_step']} steps, {count(checked['pages'], 'page')}, "
        f"{asked['problems']} problems on record"
    )
    return {"pages": checked["pages"], **asked}


def ask_the_record(stage: Stage) -> Json:
    """Return what the record amounts to: problems, decisions, spikes, digests by branch.

    Two drills with one seed and one corpus have the same digests, also where one was stopped and
    went on: pieces are named by what they were for.
    """
    run = stage.run
    checked, timeline = stage.shell.ask("ledger", "check", *run), _timeline(stage)
    decided, spikes = stage.shell.ask_all(
        [("quarantine", "log", *run), ("incident", "stability-log", *run)]
    )
    query = " UNION ALL ".join(
        f"({what.format(where=_where(timeline, piece))})"
        for piece in _roles(timeline)
        for what in (ORDERED, SIGNALS)
    )
    rows = stage.shell.ask("ledger", "sql", query, *run)["rows"]
    return {
        # Notes are no problems: a full disk leaves half a record at the end of a journal.
        "problems": sum(problem["serious"] for problem in checked["problems"]),
        "decisions": len(decided["decisions"]),
        "spikes": len(spikes["spikes"]),
        "branch": _roles(timeline)[0],
        "digests": {
            "ledger": sha256_hex(canonical_json(rows)),
            "decisions": sha256_hex(canonical_json(_timeless(decided["decisions"]))),
        },
    }


def _timeless(decisions: Sequence[Json]) -> list[Json]:
    names = ("action", "scope", "reason", "evidence")
    return [{name: each[name] for name in names} for each in decisions]


def _timeline(stage: Stage) -> dict[int, Json]:
    rows = stage.shell.ask("ledger", "timeline", *stage.run)["rows"]
    return {int(row["piece"]): row for row in sorted(rows, key=lambda row: int(row["piece"]))}


def _roles(timeline: dict[int, Json]) -> list[int]:
    """Return the last piece of each branch that counts: the first run, the trial, the resumed run.

    A piece that was cut short, and gone on from, is part of the branch of the one after it.
    """
    trials = [piece for piece in timeline if timeline[piece]["reason"] == "trial"]
    runs = [piece for piece in timeline if piece not in trials]
    back = next((piece for piece in runs if timeline[piece]["reason"] == "rewind"), max(runs) + 1)
    branches = (
        [piece for piece in runs if piece < back],
        trials,
        [piece for piece in runs if piece >= back],
    )
    return [branch[-1] for branch in branches if branch]


def _where(timeline: dict[int, Json], piece: int) -> str:
    """Return the SQL condition of the steps that lead to the end of `piece`."""
    parts, last = [], None
    at: int | None = piece
    while at is not None:
        row = timeline[at]
        upto = "" if last is None else f" AND step <= {last}"
        parts.append(f"(piece = {at}{upto})")
        at, last = row["parent"], row["fork_step"]
    return f"({' OR '.join(parts)})"
