"""What a postmortem says about causes rests on detectors and trials, not on decisions."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_incident import Desk

from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.quarantine.respond import gather
from shardward.quarantine.respond.incident import IncidentStore

WORDS = (Path(__file__).parents[1] / "docs" / "loader.md").read_text().split()


@pytest.fixture
def desk(tmp_path: Path, manifest: Manifest) -> Desk:
    return Desk(tmp_path, manifest)


def bad_data(desk: Desk, *factors: str) -> Any:
    """Quarantine all that the window ate, resume with `factors`, file; what is said of data."""
    desk.go("identify")
    desk.quarantine("add", "--steps", "60-62", "--reason", "suspicious window")
    for words in (("rewind",), ("skip",), ("resume", "--watch-length", "12", *factors)):
        desk.json(words[0], "INC-0001", *words[1:], "--yes")
    desk.train_on()
    assert desk.json("watch", "INC-0001", "--yes")["verdict"] == "clear"
    filed = desk.json("file", "INC-0001", "--yes")
    causes = json.loads(Path(filed["paths"][0]).read_text())["causes"]
    return next((c for c in causes if c["name"] == "bad_data"), {"score": 0.0, "evidence_for": []})


def test_a_window_quarantined_whole_is_no_evidence_against_the_data(desk: Desk) -> None:
    found = bad_data(desk, "--lr-factor", "0.1")

    assert found["score"] < 0.2
    assert not [text for text in found["evidence_for"] if "condemned" in text or "left out" in text]


def test_a_clear_watch_counts_as_a_trial_where_only_documents_were_left_out(desk: Desk) -> None:
    found = bad_data(desk)

    assert [text for text in found["evidence_for"] if "left out" in text]
    assert found["score"] <= 0.5


def test_the_share_of_a_window_is_what_detectors_condemn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(3)
    texts = [" ".join(rng.choices(WORDS, k=200)) for _ in range(60)]
    texts[:6] = ["".join(chr(rng.randrange(1, 32)) for _ in range(1200)) for _ in range(6)]
    (tmp_path / "c").mkdir()
    pq.write_table(pa.table({"text": texts}), tmp_path / "c" / "s.parquet")
    corpus = build_manifest([str(tmp_path / "c")], tmp_path / "m", tokenizer="bytes")
    incident = IncidentStore(tmp_path).open(onset=10, detected=12, actor="kim")
    window = {
        "documents": {"doc": list(range(12)), "tokens": [100] * 12},
        "control_documents": list(range(12, 60)),
        "controls": [[1, 2], [3, 4]],
    }
    monkeypatch.setattr(type(incident), "last", lambda *_: "identify")
    monkeypatch.setattr(type(incident), "evidence", lambda *_: window)

    shares = gather._shares(incident, corpus)

    assert shares is not None
    assert shares.flagged_share == 0.5
    assert shares.control_share <= 0.05

    window["control_documents"] = list(range(11, 60))  # one of them was fed to both
    again = gather._shares(incident, corpus)
    assert again is not None
    assert again.flagged_share == 0.5
