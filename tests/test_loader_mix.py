"""The mix of sources: near independent draws with a suitable window, a warning without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers_loader import write_parquet

from shardward.cli.main import cli
from shardward.loader import Manifest, build_manifest
from shardward.loader.mix import measure_mix


@pytest.fixture
def sorted_by_source(tmp_path: Path) -> Manifest:
    for number, name in enumerate(["books", "code", "news", "web"]):
        texts: list[object] = [f"{name} {row} " * 10 for row in range(800)]
        write_parquet(tmp_path / "data" / name / f"{number}.parquet", {"text": texts}, group=50)
    return build_manifest([str(tmp_path / "data")], tmp_path / "m")


@pytest.mark.parametrize("seq_len", [None, 256])
def test_L21_a_small_window_is_warned_about_and_the_suggested_one_is_near_iid(
    sorted_by_source: Manifest, seq_len: int | None
) -> None:
    narrow = sorted_by_source.plan(seed=1, seq_len=seq_len, window_blocks=1)

    poor = measure_mix(sorted_by_source, narrow, batch=32)
    assert poor.warning is not None
    assert poor.suggested_window_blocks is not None
    wide = sorted_by_source.plan(
        seed=1, seq_len=seq_len, window_blocks=poor.suggested_window_blocks
    )
    whole = sorted_by_source.plan(seed=1, seq_len=seq_len, window_blocks=64)

    good = measure_mix(sorted_by_source, wide, batch=32)
    full = measure_mix(sorted_by_source, whole, batch=32)
    assert f"plan window_blocks={poor.suggested_window_blocks}" in poor.warning
    assert poor.ratio > 10 > 4 > good.ratio
    assert good.warning is None
    assert full.ratio == pytest.approx(1.0, abs=0.25)


def test_every_rank_decodes_every_window(sorted_by_source: Manifest) -> None:
    plan = sorted_by_source.plan(seed=1, seq_len=None)

    assert measure_mix(sorted_by_source, plan, batch=8, ranks=4).read_amplification == 4.0


def test_the_command_prints_the_measure_and_the_warning(sorted_by_source: Manifest) -> None:
    command = ["corpus", "mix", "--manifest", str(sorted_by_source.path), "--batch", "32"]

    plain = CliRunner().invoke(cli, [*command, "--window-blocks", "1"])
    found = CliRunner().invoke(cli, [*command, "--window-blocks", "64", "--json"])

    assert (plain.exit_code, found.exit_code) == (0, 0)
    assert "warning: batches are" in plain.stdout
    assert json.loads(found.stdout)["warning"] is None
