"""What damage to a journal took from the record is said with every answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from helpers_ledger import cursor, make_run, train

from shardward.cli.main import cli
from shardward.loader.journal import read_journal
from shardward.loader.journal_frame import Kind
from shardward.loader.run import Run
from shardward.loader.topology import Topology
from shardward.quarantine.ledger import Ledger, View


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = make_run(tmp_path / "run")
    train(run, range(1, 7))
    return run


def offset(path: Path, kind: Kind, step: int) -> int:
    return next(f.offset for f in read_journal(path).frames if (f.kind, f.step) == (kind, step))


def damage(run: Run, kind: Kind, step: int) -> Path:
    """Flip a bit in the record of `step`."""
    path = run.journal_path(1, 0)
    data = bytearray(path.read_bytes())
    data[offset(path, kind, step) + 45] ^= 1
    path.write_bytes(data)
    return path


def cut(run: Run, step: int, tail: bytes = b"") -> Path:
    """Cut the journal in the record of `step`, and put `tail` behind it."""
    path = run.journal_path(1, 0)
    path.write_bytes(path.read_bytes()[: offset(path, Kind.DELIVERED, step) + 20] + tail)
    return path


def ask(run: Run, *words: str) -> Result:
    return CliRunner().invoke(cli, ["ledger", *words, "--run", str(run.path)])


@pytest.mark.parametrize(
    "words",
    [
        ["steps", "1..6", "--json"],
        ["step", "3", "--json"],
        ["doc", "3", "--json"],
        ["sample", "1", "--json"],
        ["sql", "SELECT step FROM effective_steps", "--json"],
        ["timeline", "--json"],
        ["stats", "--json"],
    ],
)
def test_every_answer_says_which_step_damage_took(run: Run, words: list[str]) -> None:
    path = damage(run, Kind.DELIVERED, 2)
    result = ask(run, *words)

    assert result.exit_code == 0
    assert json.loads(result.stdout)["schema_version"]
    (line,) = [line for line in result.stderr.splitlines() if "documents have no" not in line]
    assert f"journal {path.name} is damaged at bytes" in line
    assert line.endswith(
        "what rank 0 was given in step 2 is not known; see `shardward ledger check`"
    )


def test_a_lost_step_is_not_known_rather_than_never_recorded(run: Run) -> None:
    damage(run, Kind.DELIVERED, 2)
    found = ask(run, "step", "2")

    assert (found.exit_code, "what step 2 was given is not known" in found.stderr) == (5, True)
    assert "whether its journals once had one is not known" in ask(run, "steps", "2..2").stderr
    assert "as far as its damaged journals can be read" in ask(run, "doc", "9").stderr
    beyond = ask(run, "step", "9")
    assert (beyond.exit_code, "step 9 has not been recorded" in beyond.stderr) == (1, True)


def test_a_lost_report_is_told_apart_from_a_lost_step(run: Run) -> None:
    damage(run, Kind.TELEMETRY, 2)

    assert "lacks no step between those it has, but reports" in ask(run, "steps", "1..6").stderr


def test_a_tail_that_is_no_beginning_of_a_record_may_have_held_any_later_step(run: Run) -> None:
    cut(run, 4, b"z" * 500)

    assert "step 4 and after, if any is not known" in ask(run, "steps", "1..6").stderr
    assert ask(run, "step", "6").exit_code == 5


def test_half_a_record_is_of_the_next_step(run: Run) -> None:
    cut(run, 4)

    assert "whether it was given step 4 is not known" in ask(run, "steps", "1..6").stderr
    assert (ask(run, "step", "4").exit_code, ask(run, "step", "9").exit_code) == (5, 1)


def test_half_a_record_of_a_live_trainer_is_no_loss(run: Run) -> None:
    cut(run, 4)
    piece = run.open_piece(cursor=cursor(2, 1), topology=Topology(), launch="next")
    with run.journal_writer(piece, sync_seconds=0):
        assert ask(run, "steps", "1..6", "--all").stderr == ""
    assert "half a record" in ask(run, "steps", "1..6", "--all").stderr
    # The head has left behind what was cut off.
    assert "warning" not in ask(run, "steps", "1..2").stderr


def test_steps_that_a_later_piece_went_on_from_are_missed(run: Run) -> None:
    train(run, range(7, 9), cursor(6, 1))
    path = run.journal_path(1, 0)
    path.write_bytes(path.read_bytes()[: offset(path, Kind.DELIVERED, 4)])
    found = ask(run, "steps", "1..8")

    assert "no record of steps 4 to 6 of piece 1, though piece 2 names step 6" in found.stderr
    assert ask(run, "step", "5").exit_code == 5


def test_a_loss_is_of_the_histories_that_its_piece_is_in(run: Run) -> None:
    damage(run, Kind.DELIVERED, 5)
    train(run, range(3, 5), cursor(2, 1))
    with Ledger.open(run) as ledger:
        steps: list[Any] = [one.steps for one in ledger.losses(View(piece=1))]

        assert steps == [((5, 5),)]
        assert [one.steps for one in ledger.losses()] == [()]


def test_an_incident_is_told_which_steps_are_not_known(run: Run) -> None:
    damage(run, Kind.DELIVERED, 2)
    words = ["incident", "open", "--onset", "2", "--detected", "4", "--run", str(run.path)]
    found = CliRunner().invoke(cli, words)

    assert found.exit_code == 0
    assert "given in step 2 is not known" in found.stderr
