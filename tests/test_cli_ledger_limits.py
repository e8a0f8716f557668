"""`shardward ledger` at its limits: many rows, odd numbers, missing ranks, ids, a busy file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers_ledger import make_run, train, train_really
from jsonschema import Draft202012Validator

from shardward.cli.main import cli
from shardward.loader import ShardLoader, build_manifest
from shardward.loader.errors import Busy
from shardward.loader.run import Run
from shardward.schemas import load_schema


def shardward(*arguments: str | int | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def rows_of(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    Draft202012Validator(load_schema("ledger-answer.v1")).validate(answer)
    rows: list[dict[str, Any]] = answer["rows"]
    assert answer["count"] == len(rows)
    return rows


def test_a_number_that_json_lacks_is_not_taken_for_a_missing_one(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    query = "SELECT 'nan'::DOUBLE AS a, '-inf'::DOUBLE AS a, NULL AS b, [1.5, 'inf'::DOUBLE] AS c"
    (row,) = rows_of(shardward("ledger", "sql", query, "--run", run.path, "--json"))

    assert row == {"a": "NaN", "a_1": "-Infinity", "b": None, "c": [1.5, "Infinity"]}


def test_a_table_holds_only_the_rows_that_it_shows(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    query = "SELECT i, i + 1 AS a, i + 2 AS b, i + 3 AS c FROM range(3000000) t(i)"
    script = "import re, sys\nfrom pathlib import Path\nfrom shardward.cli.main import main\n"
    script += "sys.argv = sys.argv[1:]\ntry:\n    main()\nexcept SystemExit:\n    pass\n"
    # Not ru_maxrss, which a child inherits from the process that it was forked from.
    script += "status = Path('/proc/self/status').read_text()\n"
    script += "print(int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) // 1024)\n"
    words = ["shardward", "ledger", "sql", query, "--limit", "5", "--run", str(run.path)]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )

    assert "more rows; --json or --limit" in done.stdout
    # Three million rows as Python objects take over a gigabyte.
    assert int(done.stdout.split()[-1]) < 400


def test_many_rows_are_one_json_object(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1])
    query = "SELECT i FROM range(10000) t(i) ORDER BY i"
    rows = rows_of(shardward("ledger", "sql", query, "--run", run.path, "--json"))

    assert [row["i"] for row in rows] == list(range(10000))


def test_a_step_that_ranks_have_not_recorded_is_shown_as_incomplete(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2], size=4, ranks=[0, 2], launch="job")
    train(run, [1], size=4, ranks=[1, 3], launch="job")
    words = ("--run", run.path)
    answer = json.loads(shardward("ledger", "step", 2, *words, "--json").stdout)

    assert "INCOMPLETE; piece 1: 2 of 4 ranks, missing 1, 3" in (
        shardward("ledger", "step", 2, *words).stdout
    )
    assert "INCOMPLETE" not in shardward("ledger", "step", 1, *words).stdout
    Draft202012Validator(load_schema("ledger-answer.v1")).validate(answer)
    assert answer["deliveries"] == [
        {"piece": 1, "dp_size": 4, "ranks": 2, "complete": False, "missing_ranks": [1, 3]}
    ]


def test_documents_are_found_by_the_ids_of_the_corpus(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    lines = [{"text": f"text number {n} " * 4, "id": f"wiki-{n % 19}"} for n in range(20)]
    lines[5]["id"] = "77"
    place = tmp_path / "data" / "a.jsonl"
    place.write_text("".join(json.dumps(line) + "\n" for line in lines))
    manifest = build_manifest([str(tmp_path / "data")], tmp_path / "manifest", id_column="id")
    plan = manifest.plan(seed=1, seq_len=32, window_blocks=1)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with ShardLoader(manifest, plan, run=run, batch=2) as loader:
        for batch in loader:
            loader.observe(batch.step)

    def found(*words: str) -> set[int]:
        result = shardward("ledger", "doc", *words, "--run", run.path, "--json")
        return {row["doc"] for row in rows_of(result)}

    assert found("wiki-3") == {3}
    assert found("wiki-0", "7") == {0, 19, 7}
    assert found("77", "--id") == {5}
    missing = shardward("ledger", "doc", "wiki-99", "--run", run.path)
    assert (missing.exit_code, "no document of the corpus has the id" in missing.stderr) == (
        1,
        True,
    )


def test_a_busy_ledger_answers_for_a_run_that_recorded_runs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, batches = train_really(tmp_path, record="runs")

    def busy(*_: object, **__: object) -> None:
        raise Busy("process 1 holds the ledger")

    monkeypatch.setattr("shardward.quarantine.ledger.ledger_file.Database", busy)
    place = run.manifest_path.rename(tmp_path / "elsewhere")
    words = ("ledger", "step", 2, "--run", run.path)
    step = shardward(*words, "--manifest", place, "--json")
    lost = shardward(*words)

    assert (step.exit_code, "process 1 holds" in step.stderr) == (4, True)
    assert [row["doc"] for row in json.loads(step.stdout)["rows"]] == (
        batches[1].segments.doc.tolist()
    )
    assert (lost.exit_code, "give it with --manifest" in lost.stderr) == (1, True)
