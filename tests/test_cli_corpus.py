"""`shardward corpus` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result
from helpers_loader import write_arrow, write_parquet

from shardward.cli.main import cli


def shardward(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def indexed(tmp_path: Path) -> Path:
    rows: dict[str, list[object]] = {"text": ["a", "bb", "ccc"], "source": ["web", "web", "wiki"]}
    write_parquet(tmp_path / "data" / "a.parquet", rows)
    write_arrow(tmp_path / "data" / "empty.arrow", [])
    return tmp_path / "m"


def test_index_then_show_then_verify(tmp_path: Path) -> None:
    out = indexed(tmp_path)
    made = shardward("corpus", "index", tmp_path / "data/*.parquet", "--out", out, "--json")
    shown = shardward("corpus", "show", "--manifest", out, "--shards", "--json")
    checked = shardward("corpus", "verify", "--manifest", out, "--json")

    assert (made.exit_code, shown.exit_code, checked.exit_code) == (0, 0, 0)
    header = json.loads(made.stdout)
    assert (header["schema_version"], header["documents"], header["tokens"]) == (1, 3, 6)
    assert json.loads(shown.stdout)["fingerprint"] == header["fingerprint"]
    assert json.loads(shown.stdout)["shard_list"][0]["uri"] == "a.parquet"
    assert json.loads(checked.stdout)["problems"] == []


def test_index_signs_the_shards_now_or_later_and_none_twice(tmp_path: Path) -> None:
    out = indexed(tmp_path)
    now = shardward("corpus", "index", tmp_path / "data", "--out", out, "--signatures", "--json")
    assert json.loads(now.stdout)["signatures"] == {
        "made": 2,
        "kept": 0,
        "bytes": sum(path.stat().st_size for path in out.glob("signatures/*.arrow")),
    }
    next(out.glob("signatures/*.arrow")).unlink()

    later = shardward("corpus", "index", "--out", out, "--signatures", "--json")
    table = shardward("corpus", "index", "--out", out, "--signatures")

    assert json.loads(later.stdout)["signatures"]["made"] == 1
    assert json.loads(later.stdout)["fingerprint"] == json.loads(now.stdout)["fingerprint"]
    assert "0 shards signed, 2 were good" in table.stdout


def test_index_needs_shards_or_a_manifest_to_sign(tmp_path: Path) -> None:
    nothing = shardward("corpus", "index", "--out", tmp_path / "m")
    missing = shardward("corpus", "index", "--out", tmp_path / "m", "--signatures")

    assert nothing.exit_code == 2
    assert "name the shards to index" in nothing.stderr
    assert missing.exit_code == 1
    assert not (tmp_path / "m").exists()


def test_show_counts_empty_shards_for_people(tmp_path: Path) -> None:
    out = indexed(tmp_path)
    made = shardward("corpus", "index", tmp_path / "data", "--out", out)

    shown = shardward("corpus", "show", "--manifest", out, "--shards")

    assert made.exit_code == 0
    assert "2, 1 of them empty" in shown.stdout
    assert "a.parquet" in shown.stdout


def test_verify_exits_5_and_lists_what_differs(tmp_path: Path) -> None:
    out = indexed(tmp_path)
    shardward("corpus", "index", tmp_path / "data", "--out", out)
    write_parquet(tmp_path / "data" / "a.parquet", {"text": ["a"], "source": ["web"]})

    result = shardward("corpus", "verify", "--manifest", out, "--json")

    assert result.exit_code == 5
    assert json.loads(result.stdout)["problems"][0]["where"] == "a.parquet"


def test_a_missing_column_is_one_line_on_stderr(tmp_path: Path) -> None:
    out = indexed(tmp_path)

    result = shardward(
        "corpus", "index", tmp_path / "data/a.parquet", "--out", out, "--column", "body"
    )

    assert result.exit_code == 1
    assert "error: shard a.parquet has no column 'body'; it has source, text: name" in result.stderr
    assert not out.exists()


def test_show_without_a_manifest_says_how_to_name_one() -> None:
    result = shardward("corpus", "show")

    assert result.exit_code == 2
    assert "SHARDWARD_MANIFEST" in result.stderr
