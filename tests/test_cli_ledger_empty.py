"""An empty answer says why it is empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers_ledger import make_run, train, train_really
from test_cli_ledger_limits import shardward


def test_a_document_outside_the_corpus_is_not_found(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path, steps=1)
    outside = shardward("ledger", "doc", 999999999, "--run", run.path)
    unfed = [shardward("ledger", "doc", doc, "--run", run.path) for doc in range(0, 60, 6)]

    assert (outside.exit_code, "there is no document 999999999" in outside.stderr) == (1, True)
    assert {result.exit_code for result in unfed} == {0}
    assert any("fed no step of this history" in result.stderr for result in unfed)


def test_a_sample_outside_of_what_was_run_is_not_found(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path)
    ran = shardward("ledger", "sample", 5, "--run", run.path)
    never = shardward("ledger", "sample", 5, "--epoch", 99, "--run", run.path)
    outside = shardward("ledger", "sample", 999999, "--run", run.path)
    ahead = shardward("ledger", "sample", 40, "--run", run.path)

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert (never.exit_code, never.stdout) == (1, "")
    assert "epoch 99 was never run in this history, the epochs are: 0" in never.stderr
    assert (outside.exit_code, "has no position 999999, its positions" in outside.stderr) == (
        1,
        True,
    )
    assert (ahead.exit_code, "was not delivered in this history" in ahead.stderr) == (0, True)


def test_steps_that_the_history_does_not_reach_are_said(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path)
    result = shardward("ledger", "steps", "90..99", "--run", run.path)

    assert (result.exit_code, "its last is 6" in result.stderr) == (0, True)


def test_rows_too_wide_for_a_table_stand_below_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    run = make_run(tmp_path / "run")
    train(run, [1, 2])
    names = ", ".join(f"{n} / 7.0 AS gradient_norm_{n}" for n in range(14))
    wide = shardward("ledger", "sql", f"SELECT step, {names} FROM effective_steps ORDER BY step",
                     "--run", run.path)  # fmt: skip
    narrow = shardward("ledger", "sql", "SELECT * FROM telemetry_wide", "--run", run.path)

    lines = wide.stdout.splitlines()
    assert [line for line in lines if line.startswith("row ")] == ["row 1", "row 2"]
    assert "  gradient_norm_13  1.85714" in lines
    assert "row 1" not in narrow.stdout
