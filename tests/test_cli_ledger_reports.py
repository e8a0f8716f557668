"""What the `ledger` commands that do something print with --json has a schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers_ledger import train_really
from jsonschema import Draft202012Validator, ValidationError
from test_cli_ledger_limits import shardward

from shardward.loader.run import Run
from shardward.schemas import load_schema

VALIDATOR = Draft202012Validator(load_schema("ledger-report.v1"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run, one text of whose corpus was changed after the training."""
    run, _ = train_really(tmp_path_factory.mktemp("reports"))
    data = run.manifest_path.parent / "data"
    for shard in data.iterdir():
        shard.write_bytes(shard.read_bytes().replace(b"text 3 ", b"text X "))
    return run


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("ingest", 0),
        ("stats", 0),
        ("verify --keep-going", 5),
        ("rebuild", 0),
        ("rebuild --yes", 0),
        ("export --out {home}/x.csv --format csv", 0),
        ("publish {home}/store", 0),
        ("publish {home}/store --yes", 0),
        ("publish {home}/store --yes --dry-run", 0),
    ],
)
def test_every_report_fits_the_schema(run: Run, tmp_path: Path, words: str, code: int) -> None:
    given = [word.format(home=tmp_path) for word in words.split()]
    result = shardward("ledger", *given, "--run", run.path, "--json")
    answer: dict[str, Any] = json.loads(result.stdout)

    assert result.exit_code == code
    VALIDATOR.validate(answer)
    shown = given[0] in ("rebuild", "publish") and "--yes" not in given
    assert (answer["report"] is None) == (shown or "--dry-run" in given)
    if given[0] == "verify":
        assert answer["report"]["differences"][0]["document"]["shard"].startswith("part-00")


def test_a_mirrors_report_fits_the_schema(run: Run, tmp_path: Path) -> None:
    shardward("ledger", "publish", tmp_path / "store", "--run", run.path, "--yes")
    out = tmp_path / "copy"
    answer = json.loads(
        shardward("ledger", "mirror", tmp_path / "store", "--out", out, "--json").stdout
    )

    VALIDATOR.validate(answer)
    assert answer["report"]["run_id"] == run.run_id
    with pytest.raises(ValidationError):
        VALIDATOR.validate({**answer, "report": {"rows": 1}})
