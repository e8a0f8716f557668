"""Bad input and Ctrl-C: a clear message, nothing half-written, and a second start that says so."""

from __future__ import annotations

import errno
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from helpers_drill import SMALL, Interrupting, Quiet, own_corpus

from shardward.cli.main import cli
from shardward.loader.errors import CorpusError, IncidentError, UsageError
from shardward.quarantine.drill.clock import TITLES
from shardward.quarantine.drill.directory import claim
from shardward.quarantine.drill.play import play


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    return own_corpus(tmp_path_factory.mktemp("own") / "corpus")


IN_THE_MIDDLE = {"train": 37, "replay": 5, "find": 1, "resume": 9, "rebuild": 2}
"""Reports of progress after which Ctrl-C is pressed; in the other phases at their beginning."""


@pytest.mark.parametrize("phase", TITLES)
def test_ctrl_c_leaves_whole_files_and_a_second_start_says_how_far_it_came(
    phase: str, pattern: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    narrator = Interrupting(phase, IN_THE_MIDDLE.get(phase, 0))
    with pytest.raises(KeyboardInterrupt):
        play(narrator, out=out, corpus=pattern, scale=SMALL)

    for path in out.rglob("*.json"):
        json.loads(path.read_bytes())
    for path in out.rglob("*.parquet"):
        pq.read_metadata(path)
    assert not list(out.rglob("*.tmp"))
    if phase == "corpus":  # nothing was made yet
        with claim(out) as directory:
            assert directory.path == out
        return
    with pytest.raises(UsageError, match=f"stopped in its phase '{phase}'"):
        play(Quiet(), out=out, corpus=pattern, scale=SMALL)


def test_a_finished_drill_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "drill.json").write_text(
        '{"format":"shardward.drill-state","phase":"done","seed":7,"version":1}'
    )

    with pytest.raises(UsageError, match="a drill with seed 7 that ended"), claim(tmp_path):
        pass


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")

    with pytest.raises(UsageError, match="holds other files"), claim(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_without_out_each_drill_gets_a_directory_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with claim(None) as first, claim(None) as second:
        assert [first.path.name, second.path.name] == ["0001", "0002"]


def test_a_second_drill_is_told_that_the_first_is_running(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with claim(out) as directory:
        directory.note("train", {"seed": 1, "salted": True})
        result = CliRunner().invoke(cli, ["drill", "--out", str(out)])

        assert result.exit_code == 4
        assert f"another drill is running in {out}, pid {os.getpid()} on " in result.stderr
        assert "remove" not in result.stderr

    with pytest.raises(UsageError, match="stopped in its phase 'train'"), claim(out):
        pass


def test_a_drill_that_was_killed_holds_its_directory_no_longer(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = (
        "import os, sys; from pathlib import Path\n"
        "from shardward.quarantine.drill.directory import claim\n"
        "with claim(Path(sys.argv[1])) as directory:\n"
        "    directory.note('find', {'seed': 1, 'salted': True}); os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(out)], check=False).returncode == 9

    with pytest.raises(UsageError, match="stopped in its phase 'find'"), claim(out):
        pass


def test_a_drill_that_failed_on_its_corpus_leaves_the_directory_to_the_next(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    wrong, small = corpus_of(tmp_path, "body", ["x" * 300]), tmp_path / "missing.parquet"
    for corpus in (wrong, str(small), wrong):
        with pytest.raises(CorpusError):
            play(Quiet(), out=out, corpus=corpus, scale=SMALL)

    with claim(out) as directory:
        assert directory.path == out


def test_a_full_disk_is_named_with_its_remedy(
    tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shardward.quarantine.drill.prepare.write_corpus", fail)
    out = tmp_path / "out"
    result = CliRunner().invoke(cli, ["drill", "--corpus", pattern, "--out", str(out)])

    assert result.exit_code == 1
    assert f"error: {out}: no space left on device; free some there" in result.stderr


def corpus_of(tmp_path: Path, column: str, texts: list[str]) -> str:
    pq.write_table(pa.table({column: pa.array(texts, pa.string())}), tmp_path / "bad.parquet")
    return str(tmp_path / "bad.parquet")


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError):
        play(Quiet(), out=tmp_path / "out", corpus=corpus_of(tmp_path, "text", []), scale=SMALL)


def test_a_corpus_without_a_text_column_is_refused_by_name(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "body", ["x" * 300])

    with pytest.raises(CorpusError, match=r"bad\.parquet.*text"):
        play(Quiet(), out=tmp_path / "out", corpus=corpus, scale=SMALL)


def test_a_truncated_parquet_file_is_refused_by_name(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "text", ["some text " * 100] * 50)
    data = Path(corpus).read_bytes()
    Path(corpus).write_bytes(data[: len(data) // 2])

    with pytest.raises(CorpusError, match=r"bad\.parquet"):
        play(Quiet(), out=tmp_path / "out", corpus=corpus, scale=SMALL)


def test_a_corpus_that_is_too_small_is_told_how_much_it_needs(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "text", ["some text " * 100] * 50)

    with pytest.raises(CorpusError, match="50 documents, a run of 160 steps"):
        play(Quiet(), out=tmp_path / "out", corpus=corpus, scale=SMALL)


def test_a_corpus_of_nothing_but_junk_is_no_place_for_a_drill(tmp_path: Path) -> None:
    noise = random.Random(0)
    texts = [noise.randbytes(3000).decode("latin-1") for _ in range(600)]
    corpus = corpus_of(tmp_path, "text", texts)

    with pytest.raises(IncidentError, match=r"the corpus itself|as hard to learn"):
        play(Quiet(), out=tmp_path / "out", corpus=corpus, scale=SMALL)


def test_the_command_ends_in_one_line_and_exit_1(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path, "text", ["short"])
    result = CliRunner().invoke(cli, ["drill", "--corpus", corpus, "--out", str(tmp_path / "o")])

    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith("error: ")


def test_a_missing_extra_names_the_install_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shardward.cli.drill.find_spec", lambda name: None)
    result = CliRunner().invoke(cli, ["drill", "--out", str(tmp_path / "o")])

    assert result.exit_code == 1
    assert "pip install 'shardward[drill]'" in result.stderr
