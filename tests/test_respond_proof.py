"""The proof holds for what the loader delivers and fails for every kind of lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers_respond import make_corpus, make_run

from shardward.loader.errors import IncidentError
from shardward.loader.manifest import Manifest
from shardward.loader.order import Layout
from shardward.loader.revision import Revision, Skip
from shardward.loader.revision_store import publish_revision_files
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.quarantine.ledger.ledger import Ledger
from shardward.quarantine.respond.corpus import content_hashes
from shardward.quarantine.respond.proof import DeliveredStep, Proof, prove
from shardward.quarantine.respond.proof_source import corpus_tokens, journal_steps, ledger_steps


def play(
    run: Run, manifest: Manifest, cursor: Any, revision: Revision | None, **options: Any
) -> list[dict[str, Any]]:
    """Train to the end and return the cursor after every step."""
    states = []
    with ShardLoader(
        manifest, run.plan(), run=run, batch=4, cursor=cursor, revision=revision, **options
    ) as loader:
        for batch in loader:
            loader.observe(batch.step, loss=1.0)
            states.append(loader.state_dict())
    return states


def excluding(manifest: Manifest, plan_id: str, docs: list[int], *spans: Any) -> Revision:
    documents = np.array(docs, np.int64)
    return Revision(
        number=1,
        manifest=manifest.fingerprint,
        documents=documents,
        hashes=b"".join(content_hashes(manifest, documents)),
        skips=tuple(
            Skip(plan_id=plan_id, epoch=0, start=a, end=b, reason="spike") for a, b in spans
        ),
    )


class Played:
    """A run rewound to step 3 of its first piece and gone on under a revision."""

    def __init__(self, home: Path, **options: Any) -> None:
        self.manifest = make_corpus(home)
        self.run = make_run(home, self.manifest)
        states = play(self.run, self.manifest, None, None)
        self.revision = excluding(
            self.manifest, self.run.plan_id, [4, 5, 6, 7, 8, 9, 33, 34, 35, 50], (40, 45)
        )
        publish_revision_files(self.run.path, self.revision)
        play(
            self.run, self.manifest, states[2], self.revision,
            reason="trial", launch="second", **options,
        )  # fmt: skip
        with Ledger.open(self.run) as ledger:
            self.old = ledger_steps(ledger, 1, 4)
            self.new = ledger_steps(ledger, 2, 4)
        self.layout = Layout(self.run.plan(), self.manifest.geometry(), self.manifest.lengths)

    def prove(self, steps: list[DeliveredStep], revision: Revision | None = None) -> Proof:
        return prove(
            steps,
            piece=2,
            layout=self.layout,
            revision=revision or self.revision,
            before=self.old,
            tokens=corpus_tokens(self.manifest),
        )


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("played"))


def failing(proof: Proof) -> list[str]:
    return [check.name for check in proof.checks if not check.holds]


def test_what_the_loader_delivered_is_proved(played: Played) -> None:
    proof = played.prove(played.new)

    assert failing(proof) == []
    assert all(check.checked > 0 for check in proof.checks)


def test_the_proof_holds_when_slots_are_held(tmp_path: Path) -> None:
    held = Played(tmp_path, mode="hold")

    assert failing(held.prove(held.new)) == []


def test_ledger_and_journals_tell_the_same_steps(played: Played) -> None:
    journals = journal_steps(played.run, 2, 4)

    assert [s.step for s in journals] == [s.step for s in played.new]
    for ours, theirs in zip(journals, played.new, strict=True):
        assert ours.digest == theirs.digest
        assert ours.positions.tolist() == theirs.positions.tolist()
        assert ours.pieces() == theirs.pieces()


def test_an_excluded_document_that_was_delivered_is_found(played: Played) -> None:
    proof = played.prove(played.old)

    assert "no excluded document or position was delivered" in failing(proof)


def test_a_missing_sample_is_found(played: Played) -> None:
    first = played.new[0]
    short = replace(first, positions=first.positions[1:])

    assert "the surviving samples came in the old order, each exactly once" in failing(
        played.prove([short, *played.new[1:]])
    )


def test_two_swapped_samples_are_found(played: Played) -> None:
    first = played.new[0]
    swapped = replace(first, positions=first.positions[::-1])

    assert "the surviving samples came in the old order, each exactly once" in failing(
        played.prove([swapped, *played.new[1:]])
    )


def test_a_sample_delivered_twice_is_found(played: Played) -> None:
    first = played.new[0]
    twice = replace(first, positions=np.append(first.positions, first.positions[-1]))

    assert failing(played.prove([twice, *played.new[1:]])) != []


def test_a_step_left_out_is_found(played: Played) -> None:
    assert "the steps' raw ranges follow one another without a gap" in failing(
        played.prove([played.new[0], *played.new[2:]])
    )


def test_other_tokens_are_found(played: Played) -> None:
    lied = replace(played.new[1], digest=played.new[1].digest ^ 1)

    assert failing(played.prove([played.new[0], lied, *played.new[2:]])) == [
        "the digests agree with the corpus"
    ]


def test_a_shifted_piece_is_found(played: Played) -> None:
    first = played.new[0]
    shifted = replace(first, token_end=first.token_end + 1)

    assert "each sample held its old pieces less the excluded ones" in failing(
        played.prove([shifted, *played.new[1:]])
    )


def test_nothing_to_prove_is_said(played: Played) -> None:
    with pytest.raises(IncidentError, match="no delivered step of branch piece 2"):
        played.prove([])
