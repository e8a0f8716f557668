"""What a window ate, beside the windows before it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from helpers_respond import make_corpus

from shardward.loader.errors import IncidentError
from shardward.quarantine.respond.measures import Piece, compare, measure
from shardward.quarantine.respond.window import identify


class Ledger:
    """Steps 1 to 40: four documents each, spread over the corpus, save for steps 31 and 32."""

    def step_documents(self, step: int) -> pa.Table:
        docs = [(step + 15 * i) % 60 for i in range(4)] if 1 <= step <= 40 else []
        if step in (31, 32):
            docs = [20, 21, 22, 20]
        names = ("step", "piece", "rank", "sample_position", "doc", "token_start", "token_end")
        rows = [(step, 1, 0, 4 * step + i, doc, 0, 20) for i, doc in enumerate(docs)]
        columns = {n: pa.array([r[i] for r in rows], pa.int64()) for i, n in enumerate(names)}
        return pa.table(columns)


def test_a_window_from_one_shard_stands_out_from_its_controls(tmp_path: Path) -> None:
    window = identify(Ledger(), make_corpus(tmp_path), first=31, last=32)

    assert window.shards == {"s1.parquet": 1.0}
    assert window.documents["doc"].to_pylist() == [20, 21, 22]
    assert window.documents["tokens"].to_pylist() == [80, 40, 40]
    assert window.controls == ((21, 22), (23, 24), (25, 26), (27, 28))
    assert {c.name for c in window.comparisons if c.unusual} >= {"top_shard_share"}
    assert window.unusual is True


def test_an_ordinary_window_does_not_stand_out(tmp_path: Path) -> None:
    window = identify(Ledger(), make_corpus(tmp_path), first=29, last=30)

    assert window.unusual is False


def test_an_early_window_without_controls_says_it_cannot_tell(tmp_path: Path) -> None:
    window = identify(Ledger(), make_corpus(tmp_path), first=1, last=2)

    assert window.controls == ()
    assert window.unusual is None


def test_a_window_the_ledger_does_not_know_is_said(tmp_path: Path) -> None:
    with pytest.raises(IncidentError, match="no documents for steps 90 to 91"):
        identify(Ledger(), make_corpus(tmp_path), first=90, last=91)
    with pytest.raises(IncidentError, match="no window"):
        identify(Ledger(), make_corpus(tmp_path / "x"), first=5, last=4)


def pieces(text: str, source: str = "web") -> list[Piece]:
    return [Piece(doc=d, shard=f"s{d}", source=source, tokens=50, text=text) for d in range(4)]


@pytest.mark.parametrize(
    ("text", "name"),
    [("abc " * 900, "compressed_size"), ("\x01\x9f\x80" * 300, "odd_characters")],
)
def test_text_measures_see_repetition_and_binary(text: str, name: str) -> None:
    ordinary = [
        measure(pieces(" ".join(str(n * 7919 + k) for n in range(300))), {"web": 1.0})
        for k in range(4)
    ]

    found = {c.name: c for c in compare(measure(pieces(text), {"web": 1.0}), ordinary)}

    assert found[name].unusual is True


def test_a_changed_source_mix_is_a_distance() -> None:
    assert measure(pieces("x", "code"), {"web": 1.0})["source_distance"] == 1.0
