"""The command line's frame: families, failures, output."""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from shardward.cli import output
from shardward.cli.main import EXIT_INTERRUPTED, FAMILIES, Families, cli
from shardward.loader.errors import Busy, IntegrityError, ShardwardError, UsageError


def run_raising(error: BaseException) -> Result:
    def fail() -> None:
        raise error

    class Failing(Families):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return click.Command(cmd_name, callback=fail)

    return CliRunner().invoke(Failing("shardward"), ["fail"])


@pytest.mark.parametrize(
    ("error", "code"),
    [(ShardwardError, 1), (UsageError, 2), (Busy, 4), (IntegrityError, 5)],
)
def test_an_expected_error_is_one_line_and_an_exit_code(
    error: type[ShardwardError], code: int
) -> None:
    result = run_raising(error("step 7 is not there; ask for 1 to 6"))

    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == "error: step 7 is not there; ask for 1 to 6\n"


def test_an_interrupt_exits_130() -> None:
    result = run_raising(KeyboardInterrupt())

    assert (result.exit_code, result.stderr) == (EXIT_INTERRUPTED, "error: interrupted\n")


def test_an_operating_system_error_names_the_file() -> None:
    result = run_raising(PermissionError(13, "Permission denied", "runs/a/run.json"))

    assert (result.exit_code, result.stderr) == (1, "error: runs/a/run.json: permission denied\n")


def test_a_full_disk_is_told_with_its_remedy() -> None:
    result = run_raising(OSError(28, "No space left on device", "/data/out"))

    assert result.exit_code == 1
    assert result.stderr.startswith("error: /data/out: no space left on device; free some there")


HOSTILE = "s\x1b]0;owned\x07\x1b[2J\u202e\r.parquet"


@pytest.mark.parametrize(
    "error", [ShardwardError(f"shard {HOSTILE} is missing"), PermissionError(13, "no", HOSTILE)]
)
def test_a_message_that_quotes_a_hostile_name_does_not_steer_the_terminal(
    error: Exception,
) -> None:
    shown = run_raising(error).stderr

    assert shown.removesuffix("\n").isprintable()
    assert r"s\x1b]0;owned\x07\x1b[2J\u202e\r.parquet" in shown


def test_a_message_of_several_lines_keeps_them() -> None:
    assert run_raising(ShardwardError("the end:\none\n\x1b[1mtwo")).stderr == (
        "error: the end:\none\n\\x1b[1mtwo\n"
    )


def test_a_notice_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(HOSTILE)

    assert capsys.readouterr().err.removesuffix("\n").isprintable()


def test_a_defect_is_not_disguised_as_an_expected_error() -> None:
    assert isinstance(run_raising(ZeroDivisionError()).exception, ZeroDivisionError)


def test_an_unknown_family_is_a_usage_error() -> None:
    assert CliRunner().invoke(cli, ["no-such-family"]).exit_code == 2


def test_a_family_that_is_not_installed_is_absent_from_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FAMILIES, "ghost", "Not there.")

    assert "ghost" not in CliRunner().invoke(cli, ["--help"]).stdout


def test_json_is_one_object_with_a_schema_version(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit(True, {"loss": np.float64(2.5), "steps": np.arange(2), "path": Path("a")})

    assert json.loads(capsys.readouterr().out) == {
        "schema_version": 1,
        "loss": 2.5,
        "steps": [0, 1],
        "path": "a",
    }


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan")])
def test_a_number_that_is_not_finite_becomes_null(value: float) -> None:
    assert json.loads(output.json_text({"value": value})) == {"value": None}


def test_a_lone_surrogate_survives_as_json() -> None:
    assert json.loads(output.json_text({"text": "a\ud800"})) == {"text": "a\ud800"}


def test_hostile_text_cannot_move_the_cursor_or_use_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown = output.table("", ["text"], [["\x1b[2J[bold]x[/bold]\r\nforged\u202e"]])
    output.emit(False, {}, lambda console: console.print(shown))
    printed = capsys.readouterr().out

    assert "\\x1b[2J[bold]x[/bold]\\r\\nforged\\u202e" in printed


def test_long_text_is_cut_to_its_limit() -> None:
    assert output.clean("x" * 100, limit=10) == "x" * 9 + "…"


def test_progress_without_a_terminal_is_plain_lines_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with output.progress("reading", 3) as advance:
        advance(3, note="done")
    captured = capsys.readouterr()

    assert captured.out == ""
    assert captured.err.startswith("reading: 3 done in ")


@pytest.mark.parametrize(
    ("yes", "dry_run", "expected"),
    [(False, False, False), (True, False, True), (True, True, False), (False, True, False)],
)
def test_a_mutation_needs_yes_and_dry_run_wins(yes: bool, dry_run: bool, expected: bool) -> None:
    assert output.acts(yes=yes, dry_run=dry_run) is expected
