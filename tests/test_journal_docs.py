"""The standalone reader of docs/journal.md reads what the journal writes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from helpers_journal import record, write_journal
from helpers_tree import ROOT

from shardward.loader.journal import JournalWriter
from shardward.loader.records import prepare_delivered

PAGE = (ROOT / "docs" / "journal.md").read_text(encoding="utf-8")
(READER,) = [code for code in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "zlib" in code]


def test_the_standalone_reader_is_short_and_needs_only_the_standard_library() -> None:
    lines = [line for line in READER.splitlines() if line.strip()]

    assert len(lines) <= 40
    assert re.findall(r"^(?:import|from) (.*)", READER, re.M) == [
        "itertools, json, struct, sys, zlib"
    ]


def test_the_standalone_reader_reads_every_record(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "a.swj", steps=3)
    odd = record(
        4, positions=np.array([3, 9, 10, 1 << 40]), token_start=np.array([0, 1 << 33] + [0] * 6),
        token_end=np.array([1 << 40, 1 << 34] + [7] * 6),
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + b"SWJ\n torn")
    with JournalWriter(path, sync_seconds=0) as writer:
        writer.append(prepare_delivered(odd))
    script = tmp_path / "reader.py"
    script.write_text(READER, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", str(script), str(path)], capture_output=True, text=True, check=True
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]

    assert [(row["kind"], row["step"]) for row in rows] == [
        *[(kind, step) for step in (1, 2, 3) for kind in ("delivered", "completed")],
        ("delivered", 4),
    ]
    assert rows[-1]["doc"] == odd.doc.tolist()
    assert rows[-1]["positions"] == odd.positions.tolist()
    assert rows[-1]["token_start"] == odd.token_start.tolist()
    assert rows[-1]["tokens"] == (odd.token_end - odd.token_start).tolist()
    assert rows[1]["loss"] == 2.5
