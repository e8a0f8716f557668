"""Whatever the command line answers, Python answers as an Arrow table of the same rows."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from helpers_ledger import train_really
from test_cli_ledger_limits import shardward

from shardward.loader.records import finite_json
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.quarantine.ledger import Ledger, as_table

QUERY = (
    "SELECT step, loss, digest FROM telemetry_wide JOIN deliveries USING (step, piece) ORDER BY ALL"
)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run of two pieces that differ: the second was fed from step 4 on by hand."""
    run, batches = train_really(tmp_path_factory.mktemp("python"), steps=6)
    with Ledger.open(run) as ledger:
        manifest = ledger.manifest
    cursor = batches[2].cursor_after
    with ShardLoader(
        manifest, run.plan(), run=run, batch=8, cursor=cursor, reason="restart", fork=True
    ) as loader:
        for batch in loader:
            loader.observe(batch.step, loss=1.0)
            if batch.step == 6:
                break
    return run


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Return the rows as JSON has them."""
    return [
        {
            name: value.hex()
            if isinstance(value, bytes)
            else value.isoformat()
            if hasattr(value, "isoformat")
            else finite_json(value)
            for name, value in row.items()
        }
        for row in table.to_pylist()
    ]


def rows(run: Run, *words: str | int) -> list[dict[str, Any]]:
    result = shardward("ledger", *words, "--run", run.path, "--json")
    assert result.exit_code == 0, result.output
    found: list[dict[str, Any]] = json.loads(result.stdout)["rows"]
    return found


def test_every_answer_with_rows_has_its_twin(run: Run) -> None:
    with Ledger.open(run) as ledger:
        doc = ledger.step_documents(5)["doc"].to_pylist()[0]
        source = ledger.manifest.source_names[0]
        twins: dict[tuple[str | int, ...], pa.Table] = {
            ("step", 5): ledger.named(ledger.step_documents(5)),
            ("step", 5, "--branch", 1): ledger.named(ledger.step_documents(5, 1)),
            ("steps", "1..6"): ledger.steps(1, 6),
            ("steps", "1..6", "--documents"): ledger.named(ledger.window_documents(1, 6)),
            ("doc", doc): ledger.named(ledger.document_steps(doc)),
            ("sample", 3): ledger.named(ledger.sample(3)),
            ("shard", "part-001.arrow"): ledger.shard_steps("part-001.arrow"),
            ("source", source): ledger.source_steps(source),
            ("diff", 1, 2): ledger.diff(1, 2),
            ("timeline",): ledger.timeline(),
            ("sql", QUERY): ledger.sql(QUERY),
        }
    for words, table in twins.items():
        assert table.num_rows
        assert rows(run, *words) == plain(table), words


@pytest.mark.parametrize("words", [("step", 5), ("doc", 12), ("sample", 3)])
def test_the_shown_texts_have_their_twin(run: Run, words: tuple[str | int, ...]) -> None:
    shown = rows(run, *words, "--show")
    with Ledger.open(run) as ledger:
        ask: dict[str, Callable[[int], pa.Table]] = {
            "step": ledger.step_documents,
            "doc": ledger.document_steps,
            "sample": ledger.sample,
        }
        table = ask[str(words[0])](int(words[1]))
        texts = ledger.texts(table).to_pylist()

    assert [row["text"] for row in shown] == texts
    assert all(text["span"] for text in texts)


def test_check_verify_and_stats_are_tables_too(run: Run) -> None:
    with Ledger.open(run) as ledger:
        stats = as_table(ledger.stats())
        (ledger.run.path / "journal" / "p000002-r00000-x000.swj").rename(run.path / "away")
        problems = as_table(ledger.check())
        shard = Path(ledger.manifest.root) / "part-001.arrow"
        data = shard.read_bytes()
        shard.write_bytes(data.replace(b"text", b"tent"))
        verified = as_table(ledger.verify(stop_after=9))
        shard.write_bytes(data)
        (run.path / "away").rename(run.path / "journal" / "p000002-r00000-x000.swj")

    assert (
        dict(zip(stats["what"].to_pylist(), stats["value"].to_pylist(), strict=True))["pieces"] == 2
    )
    assert problems["kind"].to_pylist() == ["journal_missing"]
    assert verified.num_rows
    assert set(verified["shard"].to_pylist()) == {"part-001.arrow"}
    assert as_table(()).num_rows == 0


def test_every_format_of_an_export_holds_the_same_rows(run: Run, tmp_path: Path) -> None:
    found: list[list[dict[str, Any]]] = []
    for form in ("parquet", "csv", "jsonl"):
        out = tmp_path / f"x.{form}"
        words = ("export", "--table", "effective_steps", "--format", form, "--out", out)
        assert shardward("ledger", *words, "--run", run.path).exit_code == 0
        if form == "jsonl":
            found.append([json.loads(line) for line in out.read_text().splitlines()])
        else:
            table = pq.read_table(out) if form == "parquet" else pa_csv.read_csv(out)
            found.append(table.to_pylist())
    keys = ("step", "piece", "first_position", "samples", "segments", "complete", "time_ns")
    same = [[tuple(row[key] for key in keys) for row in rows_] for rows_ in found]

    assert same[0] == same[1] == same[2]
    assert len(same[0]) == 6


def test_a_full_disk_is_named_by_the_file_of_an_export(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(value: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shardward.quarantine.ledger.export.finite_json", full)
    with Ledger.open(run) as ledger, pytest.raises(OSError, match="No space") as caught:
        ledger.export("telemetry", "jsonl", tmp_path / "x.jsonl")

    assert caught.value.filename == str(tmp_path / "x.jsonl")
    assert not list(tmp_path.iterdir())
