"""Version 1 of the core formats, frozen: a change here breaks every run in flight."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardward.loader.arrays import UInt32Array
from shardward.loader.cursor import Cursor
from shardward.loader.digest import add_digests, batch_digest, sample_digest
from shardward.loader.errors import FormatError
from shardward.loader.formats import canonical_json
from shardward.loader.geometry import Geometry
from shardward.loader.order import EpochOrder, Layout
from shardward.loader.permutation import Permutation, derive_key, splitmix64
from shardward.loader.plan import Plan
from shardward.loader.revision import Revision
from shardward.loader.segments import Segments

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden/core.v1.json").read_text())


def test_the_key_schedule_is_pinned() -> None:
    assert [[x, splitmix64(x)] for x, _ in GOLDEN["splitmix64"]] == GOLDEN["splitmix64"]
    assert [[p, derive_key(*p)] for p, _ in GOLDEN["derive_key"]] == GOLDEN["derive_key"]


@pytest.mark.parametrize("case", GOLDEN["permutation"], ids=lambda case: str(case["size"]))
def test_the_cipher_is_pinned(case: dict[str, Any]) -> None:
    cipher = Permutation(case["size"], case["key"])

    images = cipher.forward(np.array(case["indices"], dtype=np.int64))

    assert images.tolist() == case["images"]
    assert cipher.inverse(images).tolist() == case["indices"]


def test_the_plan_is_pinned() -> None:
    plan = Plan.from_json(GOLDEN["plan"]["json"])

    assert plan.to_json() == GOLDEN["plan"]["json"]
    assert plan.plan_id == GOLDEN["plan"]["plan_id"]


def test_the_order_is_pinned() -> None:
    blocks = GOLDEN["order"]["blocks"]
    flat = np.array([n for block in blocks for n in block], dtype=np.uint32)
    geometry = Geometry(
        block_documents=np.array([len(block) for block in blocks]),
        block_tokens=np.array([sum(block) for block in blocks]),
    )

    def lengths(low: int, high: int) -> UInt32Array:
        return flat[low:high]

    layout = Layout(Plan.from_json(GOLDEN["plan"]["json"]), geometry, lengths)

    assert layout.held_out.tolist() == GOLDEN["order"]["held_out"]
    for epoch, expected in enumerate(GOLDEN["order"]["epochs"]):
        order = EpochOrder(layout, epoch)
        assert order.block_order.tolist() == expected["block_order"]
        assert order.window_starts.tolist() == expected["window_starts"]
        for window in range(order.windows):
            table = order.window(window)
            positions = np.arange(table.first_position, table.end_position, dtype=np.int64)
            columns = [column.tolist() for column in table.segments(positions).columns()]
            rows: list[list[list[int]]] = [[] for _ in positions]
            for sample, *piece in zip(*columns, strict=True):
                rows[sample].append(piece)
            assert rows == expected["samples"][table.first_position : table.end_position]


def test_the_cursor_is_pinned_and_stays_under_a_kilobyte() -> None:
    cursor = Cursor.from_json(GOLDEN["cursor"])

    assert cursor.to_json() == GOLDEN["cursor"]
    assert len(canonical_json(cursor.to_json())) < 1000


def test_the_revision_is_pinned() -> None:
    golden = GOLDEN["revision"]
    revision = Revision.parse(golden["header"], bytes.fromhex(golden["payload"]))

    assert revision.header() == golden["header"]
    assert revision.digest == golden["digest"]


def test_the_digest_is_pinned_and_adds_up() -> None:
    case = GOLDEN["sample_digest"][0]
    doc, start, end = (np.array(c, dtype=np.int64) for c in zip(*case["segments"], strict=True))
    tokens = np.array(case["tokens"], dtype=np.uint32)
    segments = Segments(
        sample=np.zeros(doc.size, dtype=np.int64), doc=doc, start=start, end=end, offset=start
    )
    one = sample_digest(case["position"], doc, start, end, tokens)
    positions = np.array([case["position"]], dtype=np.int64)

    assert f"{one:032x}" == case["digest"]
    assert batch_digest(positions, segments, tokens[None, :].astype(np.uint16)) == one
    assert add_digests(2**128 - 1, 2) == 1


@pytest.mark.parametrize("name", ["plan", "cursor", "revision"])
@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_an_unknown_version_is_refused_with_both_values(name: str, version: object) -> None:
    good = {
        "plan": GOLDEN["plan"]["json"],
        "cursor": GOLDEN["cursor"],
        "revision": GOLDEN["revision"]["header"],
    }[name]

    readers: dict[str, Callable[[dict[str, Any]], object]] = {
        "plan": Plan.from_json,
        "cursor": Cursor.from_json,
        "revision": lambda value: Revision.parse(value, b""),
    }

    with pytest.raises(FormatError, match=rf"version {version!r}.* version 1"):
        readers[name](good | {"version": version})
