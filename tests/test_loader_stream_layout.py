"""Two ways to lay a window out, one result; prefetch, stalls and memory."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_loader import arrow_corpus, revision_of, write_parquet
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from shardward.loader import Manifest, Plan, ShardLoader, build_manifest, layout_views
from shardward.loader.arrays import BoolArray, Int64Array
from shardward.loader.blocks import BlockData
from shardward.loader.digest import batch_digest
from shardward.loader.exclusion import Exclusion
from shardward.loader.geometry import Geometry
from shardward.loader.layout_plain import PlainLayout
from shardward.loader.order import EpochOrder, Layout
from shardward.loader.prefetch import Prefetcher
from shardward.loader.revision import Revision
from shardward.loader.row_digest import rows_digest
from shardward.loader.window import Window

FINGERPRINT = "f" * 64


def block_of(lengths: list[int], first: int, dtype: Any) -> BlockData:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = (np.arange(offsets[-1]) * 7 + first) % 250
    return BlockData(values=values.astype(dtype), offsets=offsets)


def window_of(
    blocks: list[list[int]], plan: Plan, excluded: Int64Array, lost: int | None, dtype: Any
) -> Window:
    flat = np.array([n for block in blocks for n in block], np.uint32)
    geometry = Geometry(
        block_documents=np.array([len(block) for block in blocks], np.int64),
        block_tokens=np.array([sum(block) for block in blocks], np.int64),
    )
    order = EpochOrder(Layout(plan, geometry, lambda low, high: flat[low:high]), 0)
    revision = Revision(
        number=1, manifest=FINGERPRINT, documents=excluded, hashes=bytes(16 * excluded.size)
    )
    numbers = order.blocks(0).tolist()
    data = [None if n == lost else block_of(blocks[n], n, dtype) for n in numbers]
    codes = [np.full(len(blocks[n]), n, np.uint16) for n in numbers]
    exclusion = Exclusion(revision, plan_id=plan.plan_id, mode="hold")
    return Window(order, 0, data, codes, exclusion=exclusion, dtype=np.dtype(dtype))


def rows_of(
    window: Window, low: int, high: int, length: int, dtype: Any
) -> tuple[NDArray[Any], BoolArray]:
    shape = (high - low, length)
    tokens, mask = np.empty(shape, dtype), np.empty(shape, np.bool_)
    window.tokens(low, high, tokens)
    window.mask(low, high, mask)
    return tokens, mask


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 40), max_size=8), min_size=1, max_size=5),
    st.integers(1, 30),
    st.sampled_from([0, 1]),
    st.sampled_from([None, 256]),
    st.sets(st.integers(0, 39)),
    st.sampled_from([None, 0]),
    st.sampled_from([np.uint16, np.int32]),
    st.sampled_from([1 << 30, 64]),
)
def test_views_and_plain_copies_give_the_same_rows(
    blocks: list[list[int]],
    seq_len: int,
    lookahead: int,
    separator: int | None,
    excluded: set[int],
    lost: int | None,
    dtype: Any,
    half_buffer: int,
) -> None:
    # Buffers cut every 64 bytes stand for blocks of more than 2 GiB.
    if half_buffer < 2 * np.dtype(dtype).itemsize * (seq_len + lookahead):
        half_buffer = 1 << 30
    documents = sum(len(block) for block in blocks)
    gone = np.array(sorted(doc for doc in excluded if doc < documents), np.int64)
    plan = Plan(
        fingerprint=FINGERPRINT,
        seed=1,
        window_blocks=8,
        seq_len=seq_len,
        separator=separator,
        pad=257,
        lookahead=lookahead,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout_views, "HALF_BUFFER", half_buffer)
        patch.setattr(layout_views, "MAX_BUFFER", 2 * half_buffer - 1)
        views = window_of(blocks, plan, gone, lost, dtype)
        patch.setattr("shardward.loader.window.ViewLayout", PlainLayout)
        plain = window_of(blocks, plan, gone, lost, dtype)
    length, samples = seq_len + lookahead, views.table.samples

    for low, high in [(0, samples), (samples // 3, samples // 2), (samples // 2, samples)]:
        pairs = (rows_of(window, low, high, length, dtype) for window in (views, plain))
        for found, expected in zip(*pairs, strict=True):
            assert found.tolist() == expected.tolist()


def test_batches_are_fresh_and_writable(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, [["some text", "more text"]] * 4)
    plan = manifest.plan(seed=1, seq_len=4)
    with ShardLoader(manifest, plan, batch=2) as one, ShardLoader(manifest, plan, batch=2) as two:
        for a, b in zip(one, two, strict=True):
            kept = b.tokens.copy()
            a.tokens[:] = 0
            assert a.tokens.flags.writeable
            assert (b.tokens == kept).all()


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 30))
def test_the_fast_digest_is_the_specified_one(seed: int, rows: int, length: int) -> None:
    window = window_of([[5, 9, 30, 2], [40]], _plan(length), np.array([1]), None, np.uint16)
    rows = min(rows, window.table.samples)
    tokens, _ = rows_of(window, 0, rows, length, np.uint16)
    segments = window.segments.select(window.segments.sample < rows)
    positions = np.arange(rows, dtype=np.int64) + seed

    expected = batch_digest(positions, segments, tokens).to_bytes(16, "big")

    assert rows_digest(positions, segments, tokens, np.full(rows, length)) == expected


def _plan(seq_len: int) -> Plan:
    return Plan(
        fingerprint=FINGERPRINT, seed=1, window_blocks=8, seq_len=seq_len, separator=256, pad=257
    )


def test_the_prefetcher_stays_within_its_bytes() -> None:
    made: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            made.append(number)
            yield number

    ahead = Prefetcher(items(), lambda item: 10, 40)
    ahead.start()
    time.sleep(0.2)

    assert len(made) <= 6
    taken = []
    for _ in range(100):
        taken.append(ahead.get(1.0, lambda: None))
        ahead.refill()
    assert taken == list(range(100))
    with pytest.raises(StopIteration):
        ahead.get(1.0, lambda: None)
    ahead.close()


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_neither_side_of_the_prefetcher_sleeps_for_ever(limit: int) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        ahead = Prefetcher(iter(range(3000)), lambda item: 1 + item % 3, limit)
        ahead.start()
        for expected in range(3000):
            assert ahead.get(20.0, lambda: pytest.fail("no one woke the other")) == expected
            ahead.refill()
        ahead.close()
    finally:
        sys.setswitchinterval(interval)


def test_an_error_arrives_after_what_came_before_it() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the disk is gone")

    ahead = Prefetcher(items(), lambda item: 1, 10)
    ahead.start()

    assert ahead.get(1.0, lambda: None) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        ahead.get(1.0, lambda: None)


def test_a_stall_names_the_shard_that_is_being_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    manifest = arrow_corpus(tmp_path, [["some text"] * 5] * 2)
    go_on, whole = threading.Event(), manifest.open_block

    def slow(block: int, into: Any) -> BlockData:
        go_on.wait(10)
        return whole(block, into)

    monkeypatch.setattr(manifest, "open_block", slow)
    caplog.set_level(logging.WARNING)
    plan = manifest.plan(seed=1, seq_len=4)
    with ShardLoader(manifest, plan, batch=2, stall_seconds=0.1) as stalled:
        threading.Timer(0.5, go_on.set).start()
        batch = next(stalled)

    assert batch.data_wait > 0.1
    assert stalled.stats.last_data_wait == batch.data_wait
    assert "no data for step 1 after 0 s; reading part-000.arrow for" in caplog.text


def test_a_plan_over_the_memory_budget_is_refused_with_the_remedies(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, [["x" * 1000] * 5] * 4)
    plan = manifest.plan(seed=1, seq_len=4, window_blocks=4)

    with pytest.raises(Exception, match="plan a smaller window_blocks, or raise window_bytes"):
        ShardLoader(manifest, plan, batch=2, window_bytes=10_000)


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def test_L19_memory_stays_flat_over_many_row_groups_and_epochs(tmp_path: Path) -> None:
    texts: list[object] = [f"{number:06d} " * 40 for number in range(20_000)]
    write_parquet(tmp_path / "data" / "a.parquet", {"text": texts}, group=100)
    manifest = build_manifest([str(tmp_path / "data")], tmp_path / "m")
    plan = manifest.plan(seed=1, seq_len=128, window_blocks=4)
    levels = []
    with ShardLoader(manifest, plan, batch=64, epochs=6, prefetch_bytes=1 << 20) as loader:
        for batch in loader:
            loader.observe(batch.step, loss=1.0)
            if batch.step % 500 == 0:
                levels.append(resident())

    assert len(levels) > 6
    assert levels[-1] - levels[1] < 8 << 20


def test_loaders_of_one_manifest_may_run_side_by_side_in_threads(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, [[f"{b} {t} text" for t in range(9)] for b in range(9)])
    plan = manifest.plan(seed=1, seq_len=8, window_blocks=2)
    revision = revision_of(manifest, [4])
    found: list[list[int]] = []

    def read(source: Manifest) -> None:
        with ShardLoader(source, plan, batch=4, revision=revision) as loader:
            found.append([int(batch.tokens.sum()) for batch in loader])

    threads = [threading.Thread(target=read, args=(manifest,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 4
    assert found[1:] == found[:1] * 3


def test_what_was_handed_out_is_dropped_by_the_thread_that_makes_more() -> None:
    dropped: list[str] = []

    class Item:
        def __del__(self) -> None:
            dropped.append(threading.current_thread().name)

    ahead = Prefetcher((Item() for _ in range(100)), lambda item: 10, 100)
    ahead.start()
    for _ in range(100):
        ahead.get(5.0, lambda: None)
        ahead.refill()
        time.sleep(0.001)
    ahead.close()

    assert dropped.count("shardward-prefetch") > 50
