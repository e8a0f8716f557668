"""`verify` names the first step, and in it the document, that is no longer what was recorded."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner, Result
from helpers_ledger import train_really
from helpers_loader import write_arrow

from shardward.cli.main import cli
from shardward.loader.errors import UnreachableShard
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger
from shardward.quarantine.ledger.verify import Difference

DOC = 43
BEFORE, SAME_LENGTH = b"block 4 text 3 ", b"block 4 text X "


@pytest.fixture
def trained(tmp_path: Path) -> tuple[Run, list[Any], Path]:
    """Return a run over six blocks of ten documents, its batches, and the second of two shards."""
    run, batches = train_really(tmp_path, steps=15)
    return run, batches, next((tmp_path / "corpus" / "data").glob("part-001*"))


def texts() -> list[list[str]]:
    return [[f"block {b} text {t} " * (1 + (b + t) % 4) for t in range(10)] for b in range(3, 6)]


def steps_of(batches: list[Any], docs: list[int]) -> list[int]:
    return [batch.step for batch in batches if np.isin(docs, batch.segments.doc).any()]


def fed_the_change(batch: Any) -> bool:
    """Whether a span of the document holds a letter that `SAME_LENGTH` changes."""
    of_doc = batch.segments.doc == DOC
    spans = zip(batch.segments.start[of_doc], batch.segments.end[of_doc], strict=True)
    return any(letter % 15 == 13 for start, end in spans for letter in range(start, end))


def differences(run: Run) -> tuple[Difference, ...]:
    with Ledger.open(run) as ledger:
        return ledger.verify(stop_after=99).differences


def shardward(*words: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(word) for word in words])


def test_only_the_steps_of_the_changed_document_differ(
    trained: tuple[Run, list[Any], Path],
) -> None:
    run, batches, shard = trained
    shard.write_bytes(shard.read_bytes().replace(BEFORE, SAME_LENGTH))
    found = differences(run)

    assert [one.step for one in found] == [b.step for b in batches if fed_the_change(b)] != []
    for one in found:
        fed = dict.fromkeys(batches[one.step - 1].segments.doc.tolist())
        suspects = [doc for doc in fed if 40 <= doc < 50]
        assert one.document is not None
        assert (one.document.doc, one.document.among) == (suspects[0], len(suspects))
        assert one.document.shard == "part-001.arrow"
        assert "rows 10 to 19 have digest" in one.document.reason


@pytest.mark.parametrize("change", [lambda t: t + "x", lambda t: t[:-1], lambda _: ""])
def test_a_document_of_another_length_is_named_for_certain(
    trained: tuple[Run, list[Any], Path], change: Callable[[str], str]
) -> None:
    run, batches, shard = trained
    blocks = texts()
    blocks[1][3] = change(blocks[1][3])
    write_arrow(shard, blocks)
    found = differences(run)
    result = shardward("ledger", "verify", "--run", run.path)

    assert [one.step for one in found] == steps_of(batches, [DOC])
    places = [(one.document.doc, one.document.row, one.document.among) for one in found
              if one.document is not None]  # fmt: skip
    assert places == [(DOC, 13, 1)] * len(found)
    assert result.exit_code == 5
    assert (
        f"step {found[0].step} of piece 1, rank 0: document 43 (shard part-001.arrow, row 13)"
        in (result.stderr)
    )


def test_a_block_that_cannot_be_read_names_its_first_document(
    trained: tuple[Run, list[Any], Path],
) -> None:
    run, batches, shard = trained
    shard.write_bytes(b"no arrow file" * 100)
    found = differences(run)

    assert [one.step for one in found] == steps_of(batches, list(range(30, 60)))
    first = next(doc for doc in batches[found[0].step - 1].segments.doc.tolist() if doc >= 30)
    assert found[0].document is not None
    assert (found[0].document.doc, found[0].document.among) == (first, 1)


def test_a_missing_shard_is_an_error_of_its_own(trained: tuple[Run, list[Any], Path]) -> None:
    run, _, shard = trained
    shard.unlink()
    with Ledger.open(run) as ledger, pytest.raises(UnreachableShard, match="part-001"):
        ledger.verify()


def test_only_the_rank_that_was_fed_the_document_differs(tmp_path: Path) -> None:
    run, _ = train_really(tmp_path, steps=1)
    again = Run.create(tmp_path / "two", plan=run.plan(), manifest_path=run.manifest_path)
    with Ledger.open(run) as ledger:
        manifest = ledger.manifest
    fed: set[tuple[int, int]] = set()
    for rank in range(2):
        place = Topology(dp_rank=rank, dp_size=2)
        with ShardLoader(
            manifest, run.plan(), run=again, batch=4, topology=place, launch="two"
        ) as loader:
            for batch in loader:
                loader.observe(batch.step)
                if fed_the_change(batch):
                    fed.add((batch.step, rank))
    shard = next((tmp_path / "corpus" / "data").glob("part-001*"))
    shard.write_bytes(shard.read_bytes().replace(BEFORE, SAME_LENGTH))

    assert {(one.step, one.rank) for one in differences(again)} == fed


def test_a_record_that_lies_about_an_unchanged_corpus_names_no_document(
    trained: tuple[Run, list[Any], Path],
) -> None:
    run, _, _ = trained
    Ledger.open(run).close()
    with duckdb.connect(str(run.path / "ledger.duckdb")) as raw:
        raw.execute("UPDATE deliveries SET digest = '\\x01'::BLOB || digest[2:] WHERE step = 3")
    result = shardward("ledger", "verify", "--run", run.path)
    report = json.loads(shardward("ledger", "verify", "--run", run.path, "--json").stdout)["report"]

    assert [(one["step"], one["document"]) for one in report["differences"]] == [(3, None)]
    assert result.exit_code == 5
    assert "every document is what was indexed" in result.stderr


def test_what_a_rebuild_removed_is_named_as_such(
    trained: tuple[Run, list[Any], Path], tmp_path: Path
) -> None:
    run, batches, _ = trained
    manifest = Path(run.manifest_path)
    step = steps_of(batches, [DOC])[0]
    place = ("--run", run.path)
    for words in (
        ("quarantine", "add", "--doc", str(DOC), "--reason", "junk", *place, "--yes"),
        ("quarantine", "publish", *place, "--yes"),
        ("rebuild", *place, "--out", tmp_path / "out", "--keep-order", tmp_path / "kept", "--yes"),
    ):
        assert shardward(*words).exit_code == 0

    result = shardward("ledger", "verify", *place, "--manifest", tmp_path / "kept")
    assert result.exit_code == 5
    assert f"step {step} of piece 1, rank 0: document {DOC} (shard" in result.output
    assert "the rebuild of this corpus removed it; verify with the manifest" in result.output
    assert shardward("ledger", "verify", *place, "--manifest", manifest).exit_code == 0
