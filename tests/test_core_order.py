from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference_order import epoch_samples, permute, surviving

from shardward.loader.arrays import Int64Array, UInt32Array
from shardward.loader.errors import TopologyError
from shardward.loader.exclusion import Exclusion
from shardward.loader.geometry import Geometry
from shardward.loader.order import EpochOrder, Layout
from shardward.loader.permutation import Permutation
from shardward.loader.plan import Holdout, Plan
from shardward.loader.revision import Revision, Skip
from shardward.loader.schedule import BatchSchedule
from shardward.loader.walk import Place, Walker

FINGERPRINT = "f" * 64


@dataclass
class Corpus:
    blocks: list[list[int]]

    def layout(self, plan: Plan) -> Layout:
        flat = np.array([n for block in self.blocks for n in block], dtype=np.uint32)
        geometry = Geometry(
            block_documents=np.array([len(b) for b in self.blocks], dtype=np.int64),
            block_tokens=np.array([sum(b) for b in self.blocks], dtype=np.int64),
        )

        def lengths(low: int, high: int) -> UInt32Array:
            return flat[low:high]

        return Layout(plan, geometry, lengths)

    @property
    def documents(self) -> int:
        return sum(len(block) for block in self.blocks)


corpora = st.lists(
    st.lists(st.one_of(st.integers(0, 12), st.integers(0, 200)), max_size=9), max_size=9
).map(Corpus)
plans = st.builds(
    Plan,
    fingerprint=st.just(FINGERPRINT),
    seed=st.integers(0, 2**64 - 1),
    window_blocks=st.integers(1, 5),
    seq_len=st.one_of(st.none(), st.integers(1, 40)),
    separator=st.sampled_from([None, 256]),
    pad=st.just(257),
    holdout=st.one_of(st.none(), st.builds(Holdout, documents=st.integers(0, 5))),
)


def held_out(plan: Plan, corpus: Corpus) -> set[int]:
    if plan.holdout is None:
        return set()
    return set(plan.holdout.members(corpus.documents).tolist())


def all_positions(order: EpochOrder) -> Int64Array:
    return np.arange(order.positions, dtype=np.int64)


@given(st.integers(0, 3000), st.integers(0, 2**64 - 1))
def test_a_permutation_is_the_reference_one_and_its_inverse_undoes_it(size: int, key: int) -> None:
    cipher = Permutation(size, key)

    images = cipher.all()

    assert images.tolist() == permute(size, key)
    assert cipher.inverse(images).tolist() == list(range(size))


@settings(max_examples=150, deadline=None)
@given(corpora, plans, st.integers(0, 3))
def test_the_order_is_the_reference_model(corpus: Corpus, plan: Plan, epoch: int) -> None:
    expected = epoch_samples(
        blocks=corpus.blocks,
        window_blocks=plan.window_blocks,
        seq_len=plan.seq_len,
        separator=plan.separator is not None,
        held_out=held_out(plan, corpus),
        seed=plan.seed,
        epoch=epoch,
    )
    order = EpochOrder(corpus.layout(plan), epoch)

    actual: list[list[tuple[int, int, int, int]]] = []
    for window in range(order.windows):
        table = order.window(window)
        positions = np.arange(table.first_position, table.end_position, dtype=np.int64)
        segments = table.segments(positions)
        slices = segments.slices(positions.size)
        rows = list(zip(*(c.tolist() for c in segments.columns()[1:]), strict=True))
        actual += [rows[slices[i] : slices[i + 1]] for i in range(positions.size)]

    assert order.positions == len(expected)
    assert actual == [sample.pieces for sample in expected]


@settings(max_examples=100, deadline=None)
@given(corpora, plans)
def test_every_document_leads_back_to_all_of_its_positions(corpus: Corpus, plan: Plan) -> None:
    order = EpochOrder(corpus.layout(plan), 1)
    expected = sorted(
        (doc, position)
        for window in range(order.windows)
        for table in [order.window(window)]
        for positions in [np.arange(table.first_position, table.end_position)]
        for segments in [table.segments(positions)]
        for doc, position in zip(
            segments.doc.tolist(), positions[segments.sample].tolist(), strict=True
        )
    )

    index, position = order.positions_of(np.arange(corpus.documents, dtype=np.int64))

    assert list(zip(index.tolist(), position.tolist(), strict=True)) == expected


@settings(max_examples=150, deadline=None)
@given(corpora, plans, st.data())
def test_exclusion_passes_over_exactly_the_samples_without_a_survivor(
    corpus: Corpus, plan: Plan, data: st.DataObject
) -> None:
    excluded = data.draw(st.sets(st.integers(0, max(0, corpus.documents - 1))))
    samples = epoch_samples(
        blocks=corpus.blocks,
        window_blocks=plan.window_blocks,
        seq_len=plan.seq_len,
        separator=plan.separator is not None,
        held_out=held_out(plan, corpus),
        seed=plan.seed,
        epoch=0,
    )
    revision = Revision(
        number=1,
        manifest=FINGERPRINT,
        documents=np.array(sorted(excluded), dtype=np.int64),
        hashes=bytes(16 * len(excluded)),
    )
    order = EpochOrder(corpus.layout(plan), 0)
    exclusion = Exclusion(revision, plan_id=plan.plan_id, mode="compact")

    found = [exclusion.survivors(order, window) for window in range(order.windows)]

    assert [p for part in found for p in part.tolist()] == surviving(samples, excluded)


def walker(corpus: Corpus, plan: Plan, batch: int, *, epochs: int, end: str = "drop") -> Walker:
    exclusion = Exclusion(
        Revision(number=0, manifest=FINGERPRINT), plan_id=plan.plan_id, mode="compact"
    )
    return Walker(
        corpus.layout(plan),
        exclusion,
        BatchSchedule.of(batch),
        epochs=epochs,
        end="pad" if end == "pad" else "drop",
    )


def plan_of(**options: int | None) -> Plan:
    values: dict[str, int | None] = {"seed": 7, "window_blocks": 2, "seq_len": 8, **options}
    return Plan(fingerprint=FINGERPRINT, separator=256, pad=257, **values)  # type: ignore[arg-type]


def test_drop_starts_the_next_epoch_and_says_how_many_samples_were_left() -> None:
    corpus = Corpus([[7, 7, 7], [7, 7]])
    walk = walker(corpus, plan_of(), 2, epochs=2)

    taken = []
    place = Place(0, 0, 0)
    while (step := walk.take(place)) is not None:
        taken.append((step.step, step.epoch, step.positions.tolist(), step.dropped))
        place = step.after

    assert taken == [(1, 0, [0, 1], 0), (2, 0, [2, 3], 0), (3, 1, [0, 1], 1), (4, 1, [2, 3], 0)]


def test_pad_fills_the_last_batch_with_minus_one() -> None:
    walk = walker(Corpus([[7, 7, 7]]), plan_of(), 2, epochs=1, end="pad")

    last = walk.take(Place(1, 0, 2))

    assert last is not None
    assert last.positions.tolist() == [2, -1]
    assert walk.take(last.after) is None


def test_an_epoch_smaller_than_a_batch_is_refused_instead_of_looping() -> None:
    with pytest.raises(TopologyError, match="1 samples left"):
        walker(Corpus([[7]]), plan_of(), 2, epochs=5).take(Place(0, 0, 0))


@settings(max_examples=60, deadline=None)
@given(corpora, plans, st.integers(1, 6), st.data())
def test_seeking_lands_where_walking_does(
    corpus: Corpus, plan: Plan, batch: int, data: st.DataObject
) -> None:
    documents = sorted(data.draw(st.sets(st.integers(0, max(0, corpus.documents - 1)), max_size=4)))
    revision = Revision(
        number=1,
        manifest=FINGERPRINT,
        documents=np.array(documents, dtype=np.int64),
        hashes=bytes(16 * len(documents)),
        skips=(Skip(plan_id=plan.plan_id, epoch=0, start=1, end=3, reason="test"),),
    )
    schedule = BatchSchedule.of([(1, batch), (4, batch + 1)])
    exclusion = Exclusion(
        revision, plan_id=plan.plan_id, mode=data.draw(st.sampled_from(["compact", "hold"]))
    )
    walk = Walker(corpus.layout(plan), exclusion, schedule, epochs=3, end="pad")
    assume(all(walk.count(epoch) for epoch in range(3)))
    places = [Place(0, 0, 0)]
    while (step := walk.take(places[-1])) is not None and len(places) < 60:
        places.append(step.after)

    for step_number, place in enumerate(places, start=1):
        sought = walk.seek(Place(0, 0, 0), step_number)
        assert sought is not None
        following = walk.take(sought)
        expected = walk.take(place)
        assert (following is None) == (expected is None)
        if following is not None and expected is not None:
            assert following.positions.tolist() == expected.positions.tolist()
            assert following.epoch == expected.epoch


@settings(max_examples=60, deadline=None)
@given(corpora, plans, st.integers(0, 30))
def test_counting_survivors_agrees_with_walking(corpus: Corpus, plan: Plan, start: int) -> None:
    walk = walker(corpus, plan, 1, epochs=1)
    order = walk.order(0)
    place, steps = Place(0, 0, start), 0
    while place.position < order.positions:
        step = walk.take(place)
        assert step is not None
        place, steps = step.after, steps + 1

    assert walk.count(0, start) == steps
