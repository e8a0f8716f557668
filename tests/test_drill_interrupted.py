"""Bad input, Ctrl-C and full disks: a clear message, nothing half-written, and how to go on."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from helpers_drill import SMALL, Quiet, Stopping, own_corpus

from shardward.cli.main import cli
from shardward.loader.errors import CorpusError, FormatError, IncidentError, UsageError
from shardward.quarantine.drill.directory import Directory, claim
from shardward.quarantine.drill.play import play
from shardward.quarantine.drill.shell import Shell
from shardward.quarantine.drill.state import Identity, State


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    return own_corpus(tmp_path_factory.mktemp("own") / "corpus")


def state_of(out: Path, *, seed: int = 0, corpus: str | None = None) -> State:
    """Write down that a drill of this seed has got past its corpus, and return its state."""
    out.mkdir()
    identity = Identity(
        seed=seed, cause="data", corpus=corpus, release=version("shardward"), scale=asdict(SMALL)
    )
    state = State(directory=Directory(path=out), identity=identity)
    state.begin("corpus")
    state.finish("corpus", {"steps": 160}, seconds=1.0, commands=[])
    return state


def test_ctrl_c_leaves_whole_files_and_says_how_to_go_on(pattern: str, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def press() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="stopped in its phase 'train'; to go on: ") as said:
        play(Stopping("train", 37, press), out=out, corpus=pattern, scale=SMALL)

    assert shlex.split(str(said.value).split("to go on: ")[1]) == [
        "shardward", "drill", "--seed", "0", "--corpus", pattern, "--out", str(out),
    ]  # fmt: skip
    for path in out.rglob("*.json"):
        json.loads(path.read_bytes())
    for path in out.rglob("*.parquet"):
        pq.read_metadata(path)
    assert not list(out.rglob("*.tmp"))
    state = State.read(Directory(path=out))
    assert (list(state.done), state.begun) == (["corpus", "index"], "train")


def test_sigint_ends_with_130_and_the_command_that_goes_on(pattern: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "shardward", "drill", "--corpus", pattern]
    with subprocess.Popen(
        [*command, "--out", str(tmp_path / "out"), "--json"], stderr=subprocess.PIPE, text=True
    ) as drill:
        assert drill.stderr is not None
        for line in drill.stderr:
            if "[1/13] corpus" in line:
                drill.send_signal(signal.SIGINT)
                break
        said = drill.stderr.read()

    assert drill.returncode == 130
    assert "to go on: shardward drill --seed 0" in said
    assert "error:" not in said


def test_a_command_that_fails_is_told_in_its_own_words(tmp_path: Path) -> None:
    shell = Shell(directory=Directory(path=tmp_path), narrator=Quiet())

    with pytest.raises(IncidentError, match=r"holds no run .*\(exit 1 of: shardward incident list"):
        shell.ask("incident", "list", "--run", str(tmp_path))
    assert "incident list" in (tmp_path / "commands.log").read_text()


@pytest.mark.parametrize(
    ("asked", "differs"),
    [
        ({"seed": 3}, "seed 7, not 3"),
        ({"seed": 7, "cause": "learning-rate"}, "cause 'data', not 'learning-rate'"),
        ({"seed": 7, "corpus": "x.jsonl"}, "corpus None, not 'x.jsonl'"),
    ],
)
def test_another_drill_s_directory_is_refused_and_both_are_named(
    asked: dict[str, Any], differs: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    state_of(out, seed=7)
    before = (out / "drill.json").read_bytes()

    with pytest.raises(UsageError, match=rf"{re.escape(differs)}.*shardward drill --seed 7"):
        play(Quiet(), out=out, scale=SMALL, **asked)
    assert (out / "drill.json").read_bytes() == before


def test_the_drill_of_another_release_is_refused(tmp_path: Path) -> None:
    state = state_of(tmp_path / "out")
    state.identity = replace(state.identity, release="0.0.1")
    state.begin("index")

    with pytest.raises(UsageError, match=r"release '0\.0\.1', not "):
        play(Quiet(), out=tmp_path / "out", scale=SMALL)


@pytest.mark.parametrize("content", ["{", '{"format":"shardward.drill-state","version":1}'])
def test_a_state_that_cannot_be_read_is_refused_by_name(content: str, tmp_path: Path) -> None:
    (tmp_path / "drill.json").write_text(content)

    with pytest.raises(FormatError, match=r"drill\.json"):
        play(Quiet(), out=tmp_path, scale=SMALL)


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
    with claim(out):
        result = CliRunner().invoke(cli, ["drill", "--out", str(out)])

        assert result.exit_code == 4
        assert f"another drill is running in {out}, pid {os.getpid()} on " in result.stderr


def test_a_command_that_outlives_its_drill_is_waited_for(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = (
        "import os, subprocess, sys; from pathlib import Path\n"
        "from shardward.quarantine.drill.directory import claim\n"
        "with claim(Path(sys.argv[1])) as directory:\n"
        "    (Path(sys.argv[1]) / 'drill.json').write_text('{}')\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(2)'],\n"
        "                     pass_fds=(directory.commands_lock,))\n"
        "    os._exit(9)\n"
    )
    began = time.monotonic()
    assert subprocess.run([sys.executable, "-c", code, str(out)], check=False).returncode == 9

    with claim(out):
        assert time.monotonic() - began >= 2


def test_a_drill_that_failed_on_its_corpus_leaves_the_directory_to_the_next(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    wrong, small = corpus_of(tmp_path, "body", ["x" * 300]), tmp_path / "missing.parquet"
    for corpus in (wrong, str(small), wrong):
        with pytest.raises(CorpusError):
            play(Quiet(), out=out, corpus=corpus, scale=SMALL)
    assert json.loads((out / "drill.json").read_bytes())["done"] == {}


@pytest.mark.parametrize("where", ["directory.take_slot", "prepare.write_corpus"])
def test_a_full_disk_is_named_with_its_remedy(
    where: str, tmp_path: Path, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"shardward.quarantine.drill.{where}", fail)
    out = tmp_path / "Out"
    result = CliRunner().invoke(cli, ["drill", "--corpus", pattern, "--out", str(out)])

    assert result.exit_code == 1
    assert f"error: {out}: no space left on device (" in result.stderr
    assert f"megabytes are free in {out}, a whole drill takes up to" in result.stderr
    assert "free some there, or name a directory on another disk" in result.stderr


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
