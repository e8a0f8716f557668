"""An empty answer says why it is empty."""

from __future__ import annotations

from pathlib import Path

from helpers_ledger import train_really
from test_cli_ledger_limits import shardward


def test_a_document_outside_the_corpus_is_not_found(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path, steps=1)
    outside = shardward("ledger", "doc", 999999999, "--run", run.path)
    unfed = [shardward("ledger", "doc", doc, "--run", run.path) for doc in range(0, 60, 6)]

    assert (outside.exit_code, "there is no document 999999999" in outside.stderr) == (1, True)
    assert {result.exit_code for result in unfed} == {0}
    assert any("fed no step of this history" in result.stderr for result in unfed)


def test_an_epoch_that_was_never_run_is_said(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path)
    never = shardward("ledger", "sample", 5, "--epoch", 99, "--run", run.path)
    ran = shardward("ledger", "sample", 5, "--run", run.path)

    assert "epoch 99 was never run, the epochs are: 0" in never.stderr
    assert "not delivered" not in ran.stderr
