"""The drill's pieces: texts, salt, placement, trainer, score."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
import torch
from helpers_drill import SMALL, real_texts

from shardward.loader.batch import Batch
from shardward.loader.cursor import Cursor
from shardward.loader.errors import CorpusError, FormatError, NotFound
from shardward.loader.manifest import Manifest
from shardward.loader.segments import Segments
from shardward.quarantine.drill.finding import Found
from shardward.quarantine.drill.narrator import shown
from shardward.quarantine.drill.placement import cut_blocks, place
from shardward.quarantine.drill.prepare import own_texts
from shardward.quarantine.drill.salt import FAMILIES, Salt, make_salt
from shardward.quarantine.drill.score import FamilyScore, Score, score
from shardward.quarantine.drill.texts import PART_CHARACTERS, Text, parts
from shardward.quarantine.drill.trainer import (
    RateFault,
    Trainer,
    learning_rate_share,
    reproducible,
)
from shardward.quarantine.drill.truth import Truth, frozen_truth, is_junk, overlap, shingles


def test_someones_own_jsonl_is_read(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"document {number} " * 30}) for number in range(5)]
    (tmp_path / "own.jsonl").write_text("\n".join(lines) + "\n")

    assert len(own_texts(str(tmp_path / "*.jsonl"))) == 5


def test_a_table_that_is_cut_says_of_how_many() -> None:
    assert [shown(number) for number in (0, 12, 35)] == ["0", "12", "12 of 35 shown"]


def salt(seed: int = 0) -> Salt:
    return make_salt(seed, ["web", "books"], bulk=SMALL.bulk, scattered=SMALL.scattered)


def test_long_text_is_cut_at_line_ends_and_nothing_is_lost() -> None:
    content = "".join(f"line {number} of a long file\n" for number in range(1500))
    cut = [part.text for part in parts("name", "source", content)]

    assert "".join(cut) == content[: sum(map(len, cut))]
    assert all(len(part) <= PART_CHARACTERS and part.endswith("\n") for part in cut)


def test_a_text_without_line_ends_is_cut_all_the_same() -> None:
    assert len(list(parts("name", "source", "x" * (2 * PART_CHARACTERS)))) == 2


def test_machine_texts_have_unique_ids() -> None:
    names = [text.id for text in real_texts()]

    assert len(set(names)) == len(names)


def test_salt_repeats_with_its_seed_and_differs_with_another() -> None:
    assert salt(3) == salt(3)
    assert salt(3) != salt(4)


def test_the_truth_names_every_salted_document_once() -> None:
    made = salt()
    named = [name for family in FAMILIES for name in made.truth[family]]

    assert sorted(named) == sorted(text.id for text in (*made.block, *made.scattered))
    assert len(set(named)) == len(named)


def test_ids_and_sources_of_salt_give_nothing_away() -> None:
    for text in (*salt().block, *salt().scattered):
        assert text.source in ("web", "books")
        assert not any(family in text.id for family in FAMILIES)


def test_toxic_copies_are_near_and_not_equal() -> None:
    made = salt()
    texts = {text.id: text.text for text in (*made.block, *made.scattered)}
    copies = [texts[name] for name in made.truth["toxic"]]

    for left, right in pairwise(copies):
        assert left != right
        assert overlap(shingles(left), shingles(right)) > 0.6


@pytest.mark.parametrize("family", ["binary", "repetition"])
def test_salted_junk_is_junk_and_real_text_is_not(family: str) -> None:
    made = salt()
    texts = {text.id: text.text for text in (*made.block, *made.scattered)}

    assert all(is_junk(texts[name]) for name in made.truth[family])
    assert sum(is_junk(text.text) for text in real_texts()) < 0.05 * len(real_texts())


@pytest.mark.parametrize("seed", range(5))
def test_the_bad_block_is_due_in_the_second_half(seed: int) -> None:
    blocks = cut_blocks(real_texts(), SMALL.block_documents)
    placed = place(blocks, salt(seed), scale=SMALL, seed=seed)

    assert 0.5 <= placed.first_step / placed.steps <= 0.6
    assert placed.last_step - placed.first_step < 30


def test_a_corpus_too_small_for_its_salt_is_refused() -> None:
    with pytest.raises(CorpusError, match="give more text"):
        place(cut_blocks(real_texts()[:100], 20), salt(), scale=SMALL, seed=0)


def trainer() -> Trainer:
    return Trainer(SMALL, vocabulary=258, steps=100, seed=0, source_names=("web",))


def batch(step: int) -> Batch:
    tokens = np.random.default_rng(step).integers(0, 256, (4, SMALL.seq_len)).astype(np.uint16)
    rows = np.arange(4, dtype=np.int64)
    length = np.full(4, SMALL.seq_len, np.int64)
    whole = Segments(sample=rows, doc=rows, start=0 * rows, end=length, offset=0 * rows)
    return Batch(
        step=step,
        micro=0,
        micros=1,
        epoch=0,
        tokens=tokens,
        loss_mask=np.ones(tokens.shape, np.bool_),
        positions=rows,
        segments=whole,
        sources=np.zeros(4, np.uint16),
        target_tokens=tokens.size,
        global_target_tokens=tokens.size,
        blanked_tokens=0,
        cursor_after=Cursor(plan_id="p", step=step),
    )


def test_a_loaded_checkpoint_goes_on_bit_for_bit(tmp_path: Path) -> None:
    with reproducible(1):
        first = trainer()
        for step in range(1, 6):
            first.step(batch(step))
        first.save(tmp_path / "c.pt", {"step": 5})
        expected = [first.step(batch(step)) for step in range(6, 9)]
        second = trainer()
        loaded = second.load(tmp_path / "c.pt")

        assert (loaded.cursor, loaded.monitor) == ({"step": 5}, None)
        assert [second.step(batch(step)) for step in range(6, 9)] == expected


def test_the_loss_of_the_only_source_is_the_loss() -> None:
    signals, samples = trainer().step(batch(1))

    assert signals["loss/web"] == pytest.approx(signals["loss"], rel=1e-5)
    assert sum(samples) / len(samples) == pytest.approx(signals["loss"], rel=1e-5)


def test_a_missing_or_foreign_checkpoint_is_refused(tmp_path: Path) -> None:
    torch.save({"model": {}}, tmp_path / "other.pt")

    with pytest.raises(NotFound, match=r"gone\.pt"):
        trainer().load(tmp_path / "gone.pt")
    with pytest.raises(FormatError, match=r"other\.pt"):
        trainer().load(tmp_path / "other.pt")


def test_the_learning_rate_warms_up_stays_and_decays() -> None:
    shares = [learning_rate_share(step, 10, 100) for step in range(100)]

    assert shares[0] == 0.1
    assert shares[9:80] == [1.0] * 71
    assert shares[-1] == pytest.approx(0.1)


def test_reproducible_restores_what_it_changed() -> None:
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with reproducible(1):
        assert torch.are_deterministic_algorithms_enabled()

    assert (torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()) == before


@pytest.mark.parametrize(("count", "precision", "passed"), [(20, 1.0, True), (18, 1.0, False)])
def test_a_score_passes_with_recall_and_precision(
    count: int, precision: float, passed: bool
) -> None:
    family = FamilyScore(family="toxic", salted=20, found=count, precision=precision)
    result = Score(
        families=(family,), unsalted=(), found=count, precision=precision, precision_salt=1.0
    )

    assert result.passed is passed


def found(families: dict[int, str], hits: list[dict[str, Any]]) -> Found:
    return Found(families=families, reasons=dict.fromkeys(families, "a reason"), hits=hits)


def hit(doc: int, query_doc: int, kind: str = "near") -> dict[str, Any]:
    return {"doc": doc, "query_doc": query_doc, "kind": kind, "score": 0.9, "reason": "like it"}


class Corpus:
    """Knows the ids of documents, as a manifest does."""

    def documents(self, docs: list[int], *, columns: tuple[str, ...]) -> pa.Table:
        assert columns == ("id",)
        return pa.table({"id": [f"d{doc}" for doc in docs]})


TRUTH = Truth(families={"toxic": ("d1", "d2"), "binary": ("d3",)}, junk=("d8",), copies=("d9",))


def scored(families: dict[int, str], *hits: dict[str, Any]) -> Score:
    return score(cast(Manifest, Corpus()), found(families, list(hits)), TRUTH)


def test_two_innocents_that_are_found_together_do_not_justify_each_other() -> None:
    result = scored({1: "copies", 2: "copies", 3: "binary", 5: "copies"}, hit(6, 5), hit(5, 5))

    assert [one.doc for one in result.unsalted if one.justified] == []
    assert result.families[0].precision == 0.5
    assert not result.passed


def test_what_was_wrong_before_the_search_is_rightly_found() -> None:
    result = scored({1: "copies", 2: "copies", 3: "binary"}, hit(8, 3, "junk"), hit(9, 1))

    assert all(one.justified for one in result.unsalted)
    assert result.passed


def test_a_member_that_was_found_as_something_else_was_not_found() -> None:
    result = scored({1: "binary", 2: "copies", 3: "binary"})

    assert result.families[0].recall == 0.5


def test_junk_of_the_corpus_is_frozen_with_the_salt_and_plain_text_is_not() -> None:
    made = salt()
    texts = [
        Text(id="plain", source="web", text=real_texts()[0].text),
        Text(id="loop", source="web", text="again and again " * 200),
        Text(id="copy", source="web", text=made.block[-1].text + " and a word more"),
    ]
    truth = frozen_truth(made, texts)

    assert (truth.junk, truth.copies) == (("loop",), ("copy",))


def test_a_raised_rate_begins_at_its_step() -> None:
    fault = RateFault(step=50, factor=10.0)
    raised = [learning_rate_share(step - 1, 10, 100, fault) for step in (49, 50, 51)]

    assert raised == [1.0, 10.0, 10.0]
