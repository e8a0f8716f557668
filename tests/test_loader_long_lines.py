"""JSON lines of many megabytes: parsed as `json` does, a byte for each byte of the text."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from shardward.loader.errors import CorpusError
from shardward.loader.index import build_manifest
from shardward.loader.sources import jsonl, open_shard
from shardward.loader.sources.long_lines import parse_long

ALPHABET = [*'a"\\\n\x00\x1féÿ中😀\u2028/u ', "0041"]


@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_long_line_says_what_json_says(ascii_only: bool) -> None:
    rng = random.Random(3)
    for _ in range(3000):
        value = {
            "".join(rng.choices(ALPHABET, k=3)): "".join(rng.choices(ALPHABET, k=rng.randrange(30)))
            for _ in range(3)
        } | {"ids": [1, 2], "none": None}
        lines = [b"another", json.dumps(value, ensure_ascii=ascii_only).encode()]
        found = parse_long(lines)
        assert lines == [b"another"]
        plain = {k: v.decode() if isinstance(v, bytes) else v for k, v in found.items()}
        assert plain == value


@pytest.mark.parametrize(
    "line", [b'{"a": "\xff"}', b'{"a": "x}', b'{"a": "\\u12"}', b'{"a": "\n"}', b'{"a": 1} 2']
)
def test_what_is_no_json_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        parse_long([line])


def test_long_and_short_lines_make_one_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["short", "naïve 😀 " * 20, "", "中" * 50]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts) + "\n \n")
    monkeypatch.setattr(jsonl, "LONG", 100)
    reader = open_shard("jsonl", "a.jsonl", str(path))
    (span,) = reader.spans()

    assert reader.read(span, ["text"])["text"].to_pylist() == texts


def test_a_lone_surrogate_in_a_long_line_names_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl, "LONG", 10)
    (tmp_path / "a.jsonl").write_text('{"text": "good enough"}\n{"text": "bad \\ud800 one"}\n')

    with pytest.raises(CorpusError, match=r"a\.jsonl row 1: 'text' is not valid large_string"):
        build_manifest([str(tmp_path / "a.jsonl")], tmp_path / "manifest")


def test_a_long_line_is_not_held_many_times(tmp_path: Path) -> None:
    size = 24_000_000
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"text": "x" * size + "😀"}, ensure_ascii=False) + "\n")
    reader = open_shard("jsonl", "a.jsonl", str(path))
    (span,) = reader.spans()
    tracemalloc.start()
    reader.read(span, ["text"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 2.5 * size
