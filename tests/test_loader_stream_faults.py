"""Stores that fail, disks that fill, files that lie: the loader waits, stops or refuses."""

from __future__ import annotations

import errno
import json
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers_loader import arrow_corpus, revision_of

from shardward.loader import Batch, Cursor, Manifest, Plan, Run, ShardLoader
from shardward.loader.cursor import Mode
from shardward.loader.errors import (
    CorruptBlock,
    FormatError,
    IntegrityError,
    MismatchError,
    NotFound,
    ShardwardError,
    UnreachableShard,
    UsageError,
)
from shardward.loader.manifest_format import (
    SHARDS,
    file_digest,
    lengths_name,
    map_table,
    read_header,
    table_bytes,
)
from shardward.loader.revision_store import publish_revision_files

BLOCKS = [[f"block {b} text {t} " * (1 + (b + t) % 4) for t in range(10)] for b in range(6)]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return arrow_corpus(tmp_path, BLOCKS, shards=2)


def loader(manifest: Manifest, plan: Plan, **options: Any) -> ShardLoader:
    return ShardLoader(manifest, plan, **{"batch": 4, **options})


def rows(batches: list[Batch]) -> list[list[int]]:
    return [row.tolist() for batch in batches for row in batch.tokens]


def reseal(manifest: Manifest, name: str) -> None:
    """Make the header vouch for the table `name` as it is now, as a forger would."""
    path = manifest.path / "manifest.json"
    value = json.loads(path.read_text())
    value["tables"][name] = file_digest(manifest.path / name)
    path.write_text(json.dumps(value))
    header = json.loads(path.read_text())
    with pytest.raises(IntegrityError) as refused:
        read_header(manifest.path)
    header["fingerprint"] = str(refused.value).split("its content has ")[1].split(";")[0]
    path.write_text(json.dumps(header))


@pytest.mark.parametrize("on_corrupt", ["stop", "hold"])
def test_L20_an_outage_of_the_store_is_waited_for_and_never_held(
    manifest: Manifest, tmp_path: Path, on_corrupt: str
) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    with loader(manifest, plan) as plain:
        expected = rows(list(plain))
    data, gone = tmp_path / "data", tmp_path / "gone"
    with loader(Manifest.load(manifest.path), plan, threads=0, on_corrupt=on_corrupt) as waits:
        got = rows([next(waits)])
        data.rename(gone)
        back = threading.Timer(0.6, gone.rename, [data])
        back.start()
        got += rows(list(waits))
        back.join()
    data.rename(gone)

    assert got == expected
    with (
        loader(Manifest.load(manifest.path), plan, patience=0.2, on_corrupt=on_corrupt) as stops,
        pytest.raises(UnreachableShard, match="is missing"),
    ):
        list(stops)


def test_a_step_that_could_not_be_recorded_is_not_handed_out_nor_is_any_after_it(
    manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with loader(manifest, plan, run=run) as fails:
        for _ in range(2):
            next(fails)
        with monkeypatch.context() as patch:
            patch.setattr("os.writev", full)
            with pytest.raises(ShardwardError, match="No space"):
                next(fails)
        for _ in range(2):
            with pytest.raises(ShardwardError, match=r"could not be written.* at step 3"):
                next(fails)


def test_a_revision_that_the_run_does_not_have_is_refused(
    manifest: Manifest, tmp_path: Path
) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    revision = revision_of(manifest, [3])

    with pytest.raises(NotFound, match="revision 1 is not in"):
        loader(manifest, plan, run=run, revision=revision)
    publish_revision_files(run.path, revision_of(manifest, [4]))
    with pytest.raises(IntegrityError, match="has digest"):
        loader(manifest, plan, run=run, revision=revision)


@pytest.mark.parametrize(
    "uri", ["../outside.arrow", "/etc/passwd", "a/../../b.arrow", "s3://x/y", ""]
)
def test_a_manifest_cannot_lead_out_of_its_root(manifest: Manifest, uri: str) -> None:
    table = map_table(manifest.path / SHARDS)
    uris = pa.array([uri, *table["uri"].to_pylist()[1:]], pa.string())
    changed = table.set_column(0, table.schema.field("uri"), uris)
    (manifest.path / SHARDS).write_bytes(table_bytes(changed))
    reseal(manifest, SHARDS)

    with pytest.raises(FormatError, match="outside the corpus root"):
        _ = Manifest.load(manifest.path).shards


def test_a_changed_length_is_found_at_the_load_or_by_its_block(manifest: Manifest) -> None:
    path = manifest.path / lengths_name(manifest.header.tokenizer)
    lengths = np.fromfile(path, "<u4")
    lengths[3] += 1
    lengths.tofile(path)
    with pytest.raises(IntegrityError, match="has digest"):
        Manifest.load(manifest.path)
    reseal(manifest, path.name)
    forged = Manifest.load(manifest.path)

    with (
        pytest.raises(IntegrityError, match=r"gives block 0 \(documents 0 to 9\)"),
        loader(forged, forged.plan(seed=1, seq_len=8), on_corrupt="hold") as stops,
    ):
        list(stops)


def test_S10_all_ranks_record_one_combined_signal(manifest: Manifest, tmp_path: Path) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    reported = [{"loss": 2.0}, {"loss": float("nan")}, {"loss": 4.0}]
    with loader(manifest, plan, run=run) as source:
        next(source)
        got = source.observe(1, loss=4.0, reduce=lambda own: [*reported[:2], own])

    assert math.isnan(got["loss"])
    assert got["nonfinite_ranks"] == 1.0


def test_a_signal_that_is_no_number_is_refused_before_anything_is_recorded(
    manifest: Manifest, tmp_path: Path
) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with loader(manifest, plan, run=run) as source:
        next(source)
        with pytest.raises(UsageError, match="the signal loss is a ndarray, not one number"):
            source.observe(1, loss=np.zeros(3))
        assert source.state_dict()["step"] == 0
        assert source.observe(1, loss=np.float32(2.5), lr=None) == {"loss": 2.5}
        assert source.state_dict()["step"] == 1


def test_a_cursor_behind_its_epoch_is_refused_instead_of_ending_silently(
    manifest: Manifest,
) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    cursor = Cursor(plan_id=plan.plan_id, position=10**6)

    with pytest.raises(MismatchError, match="stands at position 1000000 of epoch 0, which has"):
        loader(manifest, plan, cursor=cursor)


def test_a_cursor_after_the_last_epoch_is_refused(manifest: Manifest) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    cursor = Cursor(plan_id=plan.plan_id, epoch=2)

    with pytest.raises(MismatchError, match=r"stands in epoch 2, .* end after 2; ask for more"):
        loader(manifest, plan, cursor=cursor, epochs=2)
    with loader(manifest, plan, cursor=cursor, epochs=3) as more:
        assert next(more).epoch == 2


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("mode", "held", "mode is 'held'; say one of compact, hold"),
        ("end", "stop", "end is 'stop'; say one of drop, pad"),
        ("record", "docs", "record is 'docs'; say one of documents, runs"),
        ("reason", "begin", "reason is 'begin'; say one of start, restart, rewind, trial"),
        ("on_corrupt", "holds", "on_corrupt is 'holds'; say one of stop, hold"),
        ("threads", -1, "threads is -1"),
        ("epochs", 0, "epochs is 0"),
        ("prefetch_bytes", -1, "prefetch_bytes is -1; say 0 for one step at a time, or more"),
        ("stall_seconds", 0.0, "stall_seconds is 0.0; say more than 0, or inf"),
        ("stall_seconds", math.nan, "stall_seconds is nan"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    manifest: Manifest, option: str, value: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        loader(manifest, manifest.plan(seed=8, seq_len=8), **{option: value})


def test_no_bytes_ahead_and_no_watchdog_are_options_too(manifest: Manifest) -> None:
    plan = manifest.plan(seed=8, seq_len=8)
    with loader(manifest, plan) as plain:
        expected = rows(list(plain))
    with loader(manifest, plan, prefetch_bytes=0, stall_seconds=math.inf) as lean:
        assert rows(list(lean)) == expected


def test_a_trainer_whose_run_was_rewound_under_it_is_told_at_its_next_checkpoint(
    manifest: Manifest, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with loader(manifest, plan, run=run) as source:
        for batch in source:
            source.observe(batch.step)
            if batch.step == 3:
                healthy = source.checkpoint(3)
            if batch.step == 5:
                break
        assert not caplog.records
        run.move_head(piece=1, step=3, cursor=Cursor.from_json(healthy), revision=0)
        source.checkpoint(5)

    assert "checkpoint of step 5 of piece 1 will be refused" in caplog.text


@pytest.mark.parametrize(
    "change", [{"position": 1}, {"step": 1}, {"epoch": 1, "position": 0}], ids=str
)
def test_a_cursor_that_the_record_contradicts_is_refused(
    manifest: Manifest, tmp_path: Path, change: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    plan = manifest.plan(seed=8, seq_len=8, window_blocks=2)
    run = Run.create(tmp_path / "run", plan=plan, manifest_path=manifest.path)
    with loader(manifest, plan, run=run, epochs=3) as source:
        for batch in source:
            source.observe(batch.step)
            if batch.step == 3:
                good = source.state_dict()
            if batch.step == 6:
                break
    edited = {**good, **{name: good[name] + by for name, by in change.items()}}

    with pytest.raises(MismatchError, match=r"the run recorded epoch 0 position \d+ there"):
        loader(manifest, plan, run=run, cursor=edited, epochs=3)
    loader(manifest, plan, run=run, cursor=good, epochs=3).close()
    assert not caplog.records


@pytest.mark.parametrize("mode", ["compact", "hold"])
@pytest.mark.parametrize("threads", [0, 2])
def test_L10_a_block_that_a_revision_leaves_out_whole_is_not_read(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, mode: Mode, threads: int
) -> None:
    plan = manifest.plan(seed=3, seq_len=8, window_blocks=2, lookahead=1)
    more: dict[str, Any] = {"revision": revision_of(manifest, range(20, 31)), "mode": mode}
    with loader(manifest, plan, **more) as plain:
        monkeypatch.setattr(type(plain.source.exclusion()), "covers", lambda *_: False)
        expected = [(b.positions.tolist(), b.loss_mask.tolist(), rows([b])) for b in plain]
        monkeypatch.undo()
    whole = manifest.open_block

    def damaged(block: int, into: Any) -> Any:
        if block == 2:
            raise CorruptBlock("block 2 failed its digest")
        return whole(block, into)

    monkeypatch.setattr(manifest, "open_block", damaged)
    with loader(manifest, plan, threads=threads, **more) as around:
        got = [(b.positions.tolist(), b.loss_mask.tolist(), rows([b])) for b in around]

    assert got == expected


def test_whatever_ends_a_reader_reaches_the_trainer(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        """As a reader written in another language raises it."""

    def panics(*_: Any) -> Any:
        raise Panic("a reader gave up")

    monkeypatch.setattr(manifest, "open_block", panics)
    result: list[BaseException] = []

    def train() -> None:
        with loader(manifest, manifest.plan(seed=8, seq_len=8), threads=1) as ends:
            try:
                next(ends)
            except Panic as error:
                result.append(error)

    trainer = threading.Thread(target=train, daemon=True)
    trainer.start()
    trainer.join(20)

    assert [str(error) for error in result] == ["a reader gave up"]


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("steps", [0, 1])
def test_a_closed_loader_hands_nothing_out(manifest: Manifest, threads: int, steps: int) -> None:
    source = loader(manifest, manifest.plan(seed=8, seq_len=8), threads=threads)
    for _ in range(steps):
        next(source)
    source.close()

    with pytest.raises(ShardwardError, match="the loader is closed; make a new one"):
        next(source)
