"""`shardward ledger` as a person types it, over a run that a real loader made."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.csv as pa_csv
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from helpers_ledger import cursor, make_run, slice_of, train, train_really
from jsonschema import Draft202012Validator

from shardward.cli.main import cli
from shardward.loader.digest import batch_digest
from shardward.loader.journal import JournalWriter
from shardward.loader.records import prepare_delivered
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


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, list[Any]]:
    return train_really(tmp_path_factory.mktemp("ledger"))


def test_L16_a_step_shows_what_the_batch_said_it_held(trained: tuple[Run, list[Any]]) -> None:
    run, batches = trained
    rows = rows_of(shardward("ledger", "step", 3, "--run", run.path, "--json"))
    segments = batches[2].segments

    assert [row["doc"] for row in rows] == segments.doc.tolist()
    assert [row["token_end"] for row in rows] == segments.end.tolist()
    assert {row["shard"] for row in rows} <= {"part-000.arrow", "part-001.arrow"}


def test_a_step_is_a_table_for_people_with_the_texts(trained: tuple[Run, list[Any]]) -> None:
    arguments = ["ledger", "step", "3", "--run", str(trained[0].path), "--show", "--limit", "2"]
    result = CliRunner(env={"COLUMNS": "160"}).invoke(cli, arguments)

    assert result.exit_code == 0
    assert "part-00" in result.stdout
    assert "more rows" in result.stdout
    shown = result.stdout.partition("\ndocument ")[2]
    segments = trained[1][2].segments
    assert shown.count("⟦") == shown.count("⟧") == 2
    marked = shown.partition("⟦")[2].partition("⟧")[0]
    # The separator behind a document is its last token, and no letter.
    assert len(marked) - int(segments.end[0] - segments.start[0]) in (0, -1)


def test_the_shown_span_is_exactly_the_tokens(trained: tuple[Run, list[Any]]) -> None:
    run, batches = trained
    rows = rows_of(shardward("ledger", "step", 1, "--run", run.path, "--show", "--json"))
    tokens = batches[0].tokens.reshape(-1)
    text = bytes(token for token in tokens.tolist() if token < 256).decode()

    assert "".join(row["text"]["span"] for row in rows) == text


def test_steps_are_listed_and_their_documents(trained: tuple[Run, list[Any]]) -> None:
    run, batches = trained
    rows = rows_of(shardward("ledger", "steps", "2..4", "--run", run.path, "--json"))
    docs = rows_of(shardward("ledger", "steps", 2, 4, "--documents", "--run", run.path, "--json"))

    assert [row["step"] for row in rows] == [2, 3, 4]
    assert [row["digest"] for row in rows] == [
        batch_digest(batch.positions, batch.segments, batch.tokens).to_bytes(16).hex()
        for batch in batches[1:4]
    ]
    assert [row["doc"] for row in docs] == sorted(
        {doc for batch in batches[1:4] for doc in batch.segments.doc.tolist()}
    )


def test_a_document_shows_its_steps(trained: tuple[Run, list[Any]]) -> None:
    run, batches = trained
    doc = int(batches[3].segments.doc[0])
    rows = rows_of(shardward("ledger", "doc", doc, "--run", run.path, "--json"))
    expected = [b.step for b in batches for d in b.segments.doc.tolist() if d == doc]

    assert [row["step"] for row in rows] == expected


def test_a_shard_shows_the_steps_it_fed(trained: tuple[Run, list[Any]]) -> None:
    run, batches = trained
    rows = rows_of(shardward("ledger", "shard", "part-001.arrow", "--run", run.path, "--json"))
    fed = [b.step for b in batches if (b.segments.doc >= 30).any()]

    assert [row["step"] for row in rows] == fed


def test_a_source_shows_the_steps_it_fed(trained: tuple[Run, list[Any]]) -> None:
    run, _ = trained
    name = json.loads(shardward("corpus", "show", "--manifest", run.manifest_path, "--json").stdout)
    rows = rows_of(shardward("ledger", "source", name["sources"][0], "--run", run.path, "--json"))

    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    assert shardward("ledger", "source", "nowhere", "--run", run.path).exit_code == 1


def test_a_sample_shows_when_it_was_delivered(trained: tuple[Run, list[Any]]) -> None:
    run, batches = trained
    rows = rows_of(shardward("ledger", "sample", 9, "--run", run.path, "--show", "--json"))
    batch = batches[2]
    row = batch.positions.tolist().index(9)

    assert [(item["step"], item["doc"]) for item in rows] == [
        (3, doc) for doc in batch.segments.doc[batch.segments.sample == row].tolist()
    ]
    assert rows_of(shardward("ledger", "sample", 40, "--run", run.path, "--json")) == []


def test_verify_reads_the_corpus_and_agrees(trained: tuple[Run, list[Any]]) -> None:
    result = shardward("ledger", "verify", "--run", trained[0].path, "--json")

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["report"] == {"records": 6, "differences": []}


def test_stats_count_what_there_is(trained: tuple[Run, list[Any]]) -> None:
    run, batches = trained
    report = json.loads(shardward("ledger", "stats", "--run", run.path, "--json").stdout)["report"]

    assert report["segments"] == sum(len(batch.segments) for batch in batches)
    assert (report["records"], report["unread_bytes"], report["damaged_bytes"]) == (6, 0, 0)


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_export_writes_every_row(trained: tuple[Run, list[Any]], tmp_path: Path, form: str) -> None:
    run, batches = trained
    out = tmp_path / f"rows.{form}"
    arguments = ("ledger", "export", "--format", form, "--run", run.path, "--out", out)
    assert shardward(*arguments, "--json").exit_code == 0
    assert shardward(*arguments).exit_code == 2

    readers = {"parquet": pq.read_table, "csv": pa_csv.read_csv, "jsonl": pa_json.read_json}
    docs = sorted(readers[form](out)["doc"].to_pylist())
    assert docs == sorted(doc for batch in batches for doc in batch.segments.doc.tolist())


def test_rebuild_gives_the_same_answers(trained: tuple[Run, list[Any]]) -> None:
    run, _ = trained
    query = "SELECT * FROM step_documents ORDER BY ALL"
    before = shardward("ledger", "sql", query, "--run", run.path, "--json").stdout
    asked = shardward("ledger", "rebuild", "--run", run.path)
    done = shardward("ledger", "rebuild", "--run", run.path, "--yes", "--json")

    assert "would make" in asked.stdout
    assert json.loads(done.stdout)["report"]["old"] == "the old ledger was replaced"
    assert shardward("ledger", "sql", query, "--run", run.path, "--json").stdout == before


def test_ingest_says_what_it_read(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2])
    first = json.loads(shardward("ledger", "ingest", "--run", run.path, "--json").stdout)
    second = shardward("ledger", "ingest", "--run", run.path)

    assert (first["report"]["records"], first["report"]["ids"]) == (7, 16)
    assert second.stdout.startswith("0 records")


def test_a_clean_run_passes_the_check(trained: tuple[Run, list[Any]]) -> None:
    result = shardward("ledger", "check", "--run", trained[0].path, "--json")
    answer = json.loads(result.stdout)
    Draft202012Validator(load_schema("ledger-check.v1")).validate(answer)

    assert (result.exit_code, answer["ok"], answer["steps"], answer["problems"]) == (0, True, 6, [])


def test_sql_answers_a_select(trained: tuple[Run, list[Any]]) -> None:
    query = "SELECT step, loss FROM telemetry_wide WHERE step <= 2 ORDER BY step"
    rows = rows_of(shardward("ledger", "sql", query, "--run", trained[0].path, "--json"))

    assert rows == [{"step": 1, "loss": 2.9}, {"step": 2, "loss": 2.8}]


def test_sql_that_changes_something_is_a_usage_error(trained: tuple[Run, list[Any]]) -> None:
    result = shardward("ledger", "sql", "DROP TABLE segments", "--run", trained[0].path)

    assert (result.exit_code, result.stderr.startswith("error: ")) == (2, True)


ENDLESS = "SELECT count(*) FROM range(100000000) a, range(100000000) b WHERE a.range <> b.range"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["step", "99"], 1, "has not been recorded"),
        (["step", "0"], 2, "0 is not in the range"),
        (["steps", "5..2"], 2, "first step is 1"),
        (["steps", "x"], 2, "FIRST..LAST"),
        (["step", str(10**30)], 2, "not in the range"),
        (["steps", f"1..{10**30}"], 2, "no range"),
        (["sample", str(10**30)], 2, "not in the range"),
        (["doc", str(10**30)], 2, "over the largest ordinal"),
        (["doc", "wiki-7"], 2, "no id column"),
        (["step", "1", "--at", f"1:{10**30}"], 1, "no checkpoint"),
        (["step", "1", "--branch", "-1"], 2, "not in the range"),
        (["sql", "SELECT corrupt_block FROM events"], 2, "was refused"),
        (["sql", ENDLESS, "--timeout", "0.2"], 1, "was stopped"),
        (["step", "1", "--all", "--branch", "1"], 2, "exclude each other"),
        (["step", "1", "--branch", "7"], 1, "no piece 7"),
        (["shard", "nope"], 1, "names 0 of 2 shards"),
    ],
)
def test_mistakes_are_explained(
    trained: tuple[Run, list[Any]], arguments: list[str], code: int, words: str
) -> None:
    result = shardward("ledger", *arguments, "--run", trained[0].path)

    assert (result.exit_code, words in result.stderr) == (code, True), result.stderr


def test_a_directory_without_a_run_is_explained(tmp_path: Path) -> None:
    result = shardward("ledger", "step", 1, "--run", tmp_path)

    assert (result.exit_code, "no run" in result.stderr) == (1, True)


def test_a_run_without_its_manifest_still_answers(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2])
    rows = rows_of(shardward("ledger", "step", 2, "--run", run.path, "--json"))

    assert [row["doc"] for row in rows] == list(range(8, 16))
    assert "shard" not in rows[0]


def test_check_exits_5_for_a_sample_delivered_twice(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2])
    with JournalWriter(run.journal_path(1, 0)) as writer:
        record = slice_of(3, 1, 0, 1, positions=slice_of(2, 1, 0, 1).positions)
        writer.append(prepare_delivered(record))
    result = shardward("ledger", "check", "--run", run.path, "--json")

    assert result.exit_code == 5
    kinds = {problem["kind"] for problem in json.loads(result.stdout)["problems"]}
    assert kinds == {"sample_twice"}


def test_the_timeline_and_the_difference_of_two_branches(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 6))
    train(run, range(3, 5), cursor(2, 1), digest=b"another-digest-!")
    timeline = rows_of(shardward("ledger", "timeline", "--run", run.path, "--json"))
    diff = rows_of(shardward("ledger", "diff", 1, 2, "--run", run.path, "--json"))

    assert [(row["piece"], row["last_step"], row["kept_until"]) for row in timeline] == [
        (1, 5, 2), (2, 4, 4),
    ]  # fmt: skip
    assert [(row["step"], row["only_piece"], row["only_other"]) for row in diff] == [
        (3, 0, 0), (4, 0, 0),
    ]  # fmt: skip


def test_ingest_exits_5_where_ranks_disagree(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2], size=2)
    with JournalWriter(run.journal_path(1, 0)) as writer:
        writer.append(prepare_delivered(slice_of(3, 1, 0, 2)))
    with JournalWriter(run.journal_path(1, 1)) as writer:
        writer.append(prepare_delivered(slice_of(3, 1, 1, 2, end=99)))
    first = shardward("ledger", "ingest", "--run", run.path)
    second = shardward("ledger", "ingest", "--run", run.path)

    assert (first.exit_code, second.exit_code) == (5, 0)
    assert (
        "rank 1 recorded positions 8 to 99 of epoch 0 for step 3, rank 0 positions 8 to 12"
    ) in first.stderr


def test_whichever_command_reads_a_disagreement_first_says_so(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2], size=2, ranks=[0], launch="job")
    train(run, [1], size=2, ranks=[1], launch="job")
    with JournalWriter(run.journal_path(1, 1)) as writer:
        writer.append(prepare_delivered(slice_of(2, 1, 1, 2, start=0)))
    first = shardward("ledger", "steps", "1..2", "--run", run.path)

    assert first.exit_code == 0
    assert "rank 1 recorded positions 0 to 8 of epoch 0 for step 2" in first.stderr


def test_branches_are_told_apart(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    train(run, range(1, 6))
    train(run, range(3, 5), cursor(2, 1))
    effective = rows_of(shardward("ledger", "steps", "1..9", "--run", run.path, "--json"))
    everything = rows_of(shardward("ledger", "steps", "1..9", "--run", run.path, "--all", "--json"))
    earlier = rows_of(
        shardward("ledger", "steps", "1..9", "--run", run.path, "--at", "1:5", "--json")
    )

    assert [row["piece"] for row in effective] == [1, 1, 2, 2]
    assert len(everything) == 7
    assert [row["piece"] for row in earlier] == [1] * 5


HOLD = """
import sys
from shardward.quarantine.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""


def test_D1_a_busy_ledger_still_answers_for_a_step_and_exits_4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    train(run, [1, 2])
    monkeypatch.setattr("shardward.quarantine.ledger.ledger_file.WAIT_SECONDS", 0.2)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(run.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        step = shardward("ledger", "step", 2, "--run", run.path, "--json")
        check = shardward("ledger", "check", "--run", run.path)
        holder.communicate("")

    assert (step.exit_code, check.exit_code) == (4, 4)
    assert json.loads(step.stdout)["deliveries"][0]["complete"]
    assert [row["doc"] for row in json.loads(step.stdout)["rows"]] == list(range(8, 16))
    assert f"process {holder.pid} holds the ledger" in step.stderr
