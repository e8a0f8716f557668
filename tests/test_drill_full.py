"""The drill as a newcomer types it, at its own scale, on the text of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from jsonschema import Draft202012Validator

from shardward.schemas import load_schema


def test_the_drill_solves_an_incident_from_the_command_line(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from shardward.cli.main import main; main()", "drill"]
    played = subprocess.run(
        [*command, "--json", "--out", str(tmp_path / "out")],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    result = json.loads(played.stdout)

    Draft202012Validator(load_schema("drill.v1")).validate(result)
    assert result["passed"]
    assert result["corpus"]["documents"] >= 3_000
    assert result["corpus"]["bytes"] >= 15_000_000
    assert all(Path(tmp_path / path).exists() for path in result["paths"].values())
    assert "[13/13] rebuild" in played.stderr
    assert "\x1b[" not in played.stderr
