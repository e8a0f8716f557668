"""Driving a trainer by command: spec in, metrics out, and every way it can go wrong."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shardward.loader.errors import FormatError, UsageError
from shardward.quarantine.respond.command import (
    Spec,
    TrainerFailed,
    collect,
    command_line,
    run_command,
)
from shardward.schemas import load_schema

SPEC = Spec(kind="replay", run="/r", checkpoint="ckpt-5", cursor={"step": 5}, first=6, last=8)


def script(home: Path, body: str) -> str:
    path = home / "train.py"
    path.write_text("import json, sys\nspec = json.load(open(sys.argv[1]))\n" + body)
    return f"{sys.executable} '{path}' {{spec}} {{metrics}}"


def test_metrics_come_back_as_series(tmp_path: Path) -> None:
    command = script(
        tmp_path,
        "with open(sys.argv[2], 'w') as out:\n"
        "    for step in range(spec['first'], spec['last'] + 1):\n"
        "        print(json.dumps({'step': step, 'loss': step / 2}), file=out)\n",
    )

    series = run_command(command, SPEC, tmp_path / "work")

    assert series["loss"].steps.tolist() == [6, 7, 8]
    assert series["loss"].values.tolist() == [3.0, 3.5, 4.0]


def test_the_spec_fits_its_schema() -> None:
    Draft202012Validator(load_schema("trial-spec.v1")).validate(SPEC.to_json())


def test_no_shell_expands_the_words(tmp_path: Path) -> None:
    words = command_line("run '$HOME' *.py {spec} --out={metrics}", tmp_path / "s", tmp_path / "m")

    assert words == ["run", "$HOME", "*.py", str(tmp_path / "s"), f"--out={tmp_path / 'm'}"]


@pytest.mark.parametrize("template", ["", "train.sh", "train '{spec}"])
def test_a_template_without_a_spec_is_refused(template: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        command_line(template, tmp_path, tmp_path)


def test_a_failing_trainer_is_told_with_the_end_of_its_output(tmp_path: Path) -> None:
    with pytest.raises(TrainerFailed, match=r"exited with 7(.|\n)*out of memory"):
        run_command(script(tmp_path, "print('out of memory'); sys.exit(7)"), SPEC, tmp_path / "w")


def test_a_trainer_whose_output_a_full_disk_lost_is_told_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=0))

    with pytest.raises(TrainerFailed, match=r"exited with 1, and there is no space left in .*/w;"):
        run_command(script(tmp_path, "sys.exit(1)"), SPEC, tmp_path / "w")


def test_a_trainer_that_never_ends_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(TrainerFailed, match=r"ran past 0\.3 s"):
        run_command(
            script(tmp_path, "import time; time.sleep(60)"), SPEC, tmp_path / "w", timeout=0.3
        )


WORKER = """
import fcntl, os, signal, time
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = open('held', 'w')
    fcntl.flock(held, fcntl.LOCK_EX)
    open('started', 'w').close()
    time.sleep(60)
while not os.path.exists('started'):
    time.sleep(0.01)
open(sys.argv[2] + '.ready', 'w').close()
time.sleep(60)
"""


def assert_let_go(path: Path) -> None:
    """Wait until nobody holds the lock on `path`; an assertion after ten seconds."""
    with path.open() as handle:
        for _ in range(200):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.05)
            else:
                return
    raise AssertionError(f"a worker still holds {path}")


def test_the_workers_of_a_stopped_trainer_are_stopped_too(tmp_path: Path) -> None:
    with pytest.raises(TrainerFailed, match=r"ran past 1\.5 s"):
        run_command(script(tmp_path, WORKER), SPEC, tmp_path / "w", timeout=1.5)

    assert_let_go(tmp_path / "w" / "held")


def test_the_workers_of_an_interrupted_trainer_are_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait: Callable[..., int] = subprocess.Popen.wait

    def interrupted(process: Any, timeout: float | None = None) -> int:
        if timeout is None and not (tmp_path / "w" / "metrics.jsonl.ready").exists():
            while not (tmp_path / "w" / "metrics.jsonl.ready").exists():
                time.sleep(0.01)
            raise KeyboardInterrupt
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(script(tmp_path, WORKER), SPEC, tmp_path / "w")

    assert_let_go(tmp_path / "w" / "held")


def test_a_trainer_without_metrics_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrainerFailed, match="one JSON object a step is expected"):
        run_command(script(tmp_path, "pass"), SPEC, tmp_path / "w")


def test_metrics_of_an_earlier_try_are_not_taken_for_this_one(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "metrics.jsonl").write_text(json.dumps({"step": 1, "loss": 1}))

    with pytest.raises(TrainerFailed, match="wrote no"):
        run_command(script(tmp_path, "pass"), SPEC, tmp_path / "w")


def test_malformed_metrics_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        run_command(script(tmp_path, "open(sys.argv[2], 'w').write('{')"), SPEC, tmp_path / "w")


@pytest.mark.parametrize("name", ["loss", "step"])
def test_a_number_of_thousands_of_digits_is_refused_in_words(tmp_path: Path, name: str) -> None:
    row = f"""'{{"step": 1, "loss": 2.0, "{name}": ' + '9' * 5000 + '}}\\n'"""

    with pytest.raises(FormatError, match="row 1 is not JSON"):
        run_command(script(tmp_path, f"open(sys.argv[2], 'w').write({row})"), SPEC, tmp_path / "w")


def test_a_command_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrainerFailed, match="could not be started"):
        run_command("/nowhere/train {spec}", SPEC, tmp_path / "w")


class Yielding:
    """A trainer in this process."""

    def train(self, spec: Spec) -> Iterator[dict[str, float]]:
        for step in range(spec.first, spec.last + 1):
            yield {"step": step, "loss": step / 2}


class Silent:
    def train(self, spec: Spec) -> Iterator[dict[str, float]]:
        return iter(())


def test_a_trainer_in_the_same_process_gives_the_same_series() -> None:
    series = collect(Yielding(), SPEC)

    assert series["loss"].steps.tolist() == [6, 7, 8]
    assert series["loss"].values.tolist() == [3.0, 3.5, 4.0]
    with pytest.raises(TrainerFailed, match="yielded no signals"):
        collect(Silent(), SPEC)


def test_an_impossible_spec_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown kind"):
        Spec(kind="magic", run="", checkpoint="", cursor={}, first=1, last=2)
    with pytest.raises(UsageError, match="no range"):
        Spec(kind="eval", run="", checkpoint="", cursor={}, first=3, last=2)
