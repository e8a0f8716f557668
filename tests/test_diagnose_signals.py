"""Logs as trackers write them, and logs that nobody should have written."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.loader.errors import FormatError, NotFound, ShardwardError
from shardward.quarantine.diagnose import logfile
from shardward.quarantine.diagnose.rows import Objects, Some
from shardward.quarantine.diagnose.signals import read_log, read_series


def written(directory: Path, text: str | bytes, name: str = "log.csv") -> Path:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_a_csv_gives_one_series_for_each_numeric_column(tmp_path: Path) -> None:
    series = read_series(written(tmp_path, "step,loss,grad_norm,lr\n1,2.5,0.3,1e-4\n2,2.4,,2e-4\n"))

    assert series["loss"].values.tolist() == [2.5, 2.4]
    assert series["grad_norm"].steps.tolist() == [1]
    assert series["lr"].values.tolist() == [1e-4, 2e-4]


def test_usual_names_are_understood(tmp_path: Path) -> None:
    series = read_series(written(tmp_path, "iteration,lm loss,grad norm\n1,2.5,0.3\n"))

    assert sorted(series) == ["grad_norm", "loss"]


def test_a_column_can_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, "day,loss_begin,loss_end\n1,3,2\n2,2,1\n")

    series = read_series(path, columns={"step": "day", "loss": "loss_end"})

    assert series["loss"].values.tolist() == [2.0, 1.0]
    assert series["loss_begin"].values.tolist() == [3.0, 2.0]


def test_what_places_a_row_is_no_signal_unless_it_is_asked_for(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("step,piece,Epoch,loss\n1,1,0.5,2.0\n2,2,0.6,1.9\n", encoding="utf-8")
    assert set(read_series(log)) == {"loss"}
    assert set(read_series(log, columns={"lr": "piece"})) == {"loss", "lr"}


def test_json_lines_may_log_a_signal_only_now_and_then(tmp_path: Path) -> None:
    rows = [{"_step": 1, "train/loss": 2.0}, {"_step": 1, "eval/loss": 2.1}, {"_step": 2}]
    path = written(tmp_path, "\n".join(json.dumps(row) for row in rows) + "\n")

    series = read_series(path)

    assert series["loss"].steps.tolist() == [1]
    assert series["heldout_loss"].values.tolist() == [2.1]


def test_a_long_log_is_read_in_blocks_with_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    rows: list[dict[str, object]] = [{"step": step, "loss": 2.0 + step} for step in range(1, 12)]
    rows[4]["lr"], rows[9]["lr"] = 0.1, 0.2
    rows[2]["tag"], rows[10]["tag"] = 1, "b"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"step"', encoding="utf-8")
    whole = read_log(path)
    monkeypatch.setattr("shardward.quarantine.diagnose.logfile.BLOCK", 64)
    blocks = read_log(path)

    assert blocks.skipped == whole.skipped == ("row 12 is cut off", "column 'tag' is not numeric")
    assert {name: each.steps.tolist() for name, each in blocks.series.items()} == {
        "loss": list(range(1, 12)),
        "lr": [5, 10],
    }
    assert blocks.series["loss"].values.tolist() == whole.series["loss"].values.tolist()


def test_a_hugging_face_trainer_state_is_read(tmp_path: Path) -> None:
    history = [
        {"step": 10, "loss": 2.0, "grad_norm": 0.5, "learning_rate": 1e-4, "epoch": 0.1},
        {"step": 10, "eval_loss": 2.2},
        {"step": 20, "loss": 1.9, "grad_norm": 0.4, "learning_rate": 1e-4, "epoch": 0.2},
    ]
    path = written(tmp_path, json.dumps({"log_history": history, "max_steps": 20}, indent=1))

    series = read_series(path)

    assert series["loss"].steps.tolist() == [10, 20]
    assert series["heldout_loss"].steps.tolist() == [10]


def test_a_logged_nan_is_kept_and_an_empty_cell_is_a_gap(tmp_path: Path) -> None:
    loss = read_series(written(tmp_path, "step,loss\n1,nan\n2,\n3,1.5\n"))["loss"]

    assert loss.steps.tolist() == [1, 3]
    assert math.isnan(loss.values[0])


def test_a_column_of_words_is_left_out_and_said(tmp_path: Path) -> None:
    log = read_log(written(tmp_path, "step,loss,remark\n1,2,fine\n2,2,odd\n"))

    assert sorted(log.series) == ["loss"]
    assert log.skipped == ("column 'remark' is not numeric",)


@pytest.mark.parametrize("last", ["3,2.", "3", '{"step": 3, "lo'])
def test_a_last_row_that_is_still_being_written_is_left_out(tmp_path: Path, last: str) -> None:
    head = '{"step": 1, "loss": 2}\n' if last.startswith("{") else "step,loss,lr\n1,2,1\n"

    log = read_log(written(tmp_path, head + last))

    assert log.series["loss"].steps.tolist() == [1]
    assert len(log.skipped) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("  \n \n", "is empty"),
        ("step,loss\n", "no rows"),
        ("step,loss\n1,\n", "logs no loss"),
        ("time,loss\n1,2\n", "no column for step"),
        ("step,accuracy\n1,2\n", "--loss COLUMN"),
        ("step,loss\n1,high\n", "row 2 has 'high'"),
        ("step,loss\n1.5,2\n", "row 2 has '1.5'"),
        ("step,loss\nnan,2\n", "not a whole step"),
        ("step,loss\n-1,2\n", "out of range"),
        ("step,loss\n1e30,2\n", "out of range"),
        ("step,loss\n1,2,3\n", "row 2 has 3 cells"),
        ("step,loss,loss\n1,2,3\n", "two columns named 'loss'"),
        ('step,loss\n1,"2\n', "row 2"),
        ("step,loss\n1,1_000\n", "1_000"),
        ("[1, 2]\n", "JSON array"),
        ('{"step": 1, "loss": 2}\n7\n{"step": 2, "loss": 2}\n', "row 2"),
        ('{"step": 1, "loss": 2}\nnot json\n{"step": 2, "loss": 2}\n', "row 2"),
        ('{"step": 1, "loss": true}\n', "row 1 has True"),
        ('{"step": 1, "loss": [2]}\n', "row 1 has [2]"),
        ('{"log_history": 5}', "log_history"),
        (b"step,loss\n1,\xff\xfe\n", "is not UTF-8"),
        ("step,loss\n1,2\n".encode("utf-16"), "is not UTF-8"),
        (b"step,loss\n1,\x00\n", "NUL"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused_in_words(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(FormatError) as caught:
        read_log(written(tmp_path, text))

    assert message in str(caught.value)
    assert "log.csv" in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path: Path) -> None:
    assert "loss" in read_series(written(tmp_path, b"\xef\xbb\xbfstep,loss\n1,2\n"))


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.csv"):
        read_log(tmp_path / "none.csv")


def test_a_directory_is_not_a_log(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="directory"):
        read_log(tmp_path)


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    directory = tmp_path_factory.mktemp("any")
    with suppress(ShardwardError):
        read_log(written(directory, data))


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet='0123456789eE+-.,"\n nainf{}:[]_', max_size=200))
def test_any_hostile_rows_are_read_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    directory = tmp_path_factory.mktemp("any")
    with suppress(ShardwardError):
        read_log(written(directory, "step,loss\n" + text))


@pytest.mark.parametrize(
    ("header", "chosen"),
    [
        ("step,train/lm_loss,loss", {"loss": "train/lm_loss"}),
        ("step,train/lm_loss,Loss", {"loss": "train/lm_loss"}),
        ("step,train/loss,loss", {"loss": "train/loss"}),
    ],
)
def test_the_column_that_was_chosen_counts_beside_one_of_the_usual_name(
    tmp_path: Path, header: str, chosen: dict[str, str]
) -> None:
    log = read_log(written(tmp_path, f"{header}\n1,2.0,7\n2,2.1,8\n"), columns=chosen)

    assert log.series["loss"].steps.tolist() == [1, 2]
    assert log.series["loss"].values.tolist() == [2.0, 2.1]


def test_a_chosen_step_counts_beside_the_usual_one_which_is_no_signal(tmp_path: Path) -> None:
    log = written(tmp_path, "step,iteration,loss\n1,10,2.0\n2,20,2.1\n")
    series = read_log(log, columns={"step": "iteration"}).series

    assert list(series) == ["loss"]
    assert series["loss"].steps.tolist() == [10, 20]


def test_a_second_loss_that_turns_up_late_is_a_signal_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [json.dumps({"step": step, "train/loss": 2.0}) for step in range(1, 20)]
    rows += [json.dumps({"step": step, "loss": 7.0}) for step in range(20, 40)]
    monkeypatch.setattr("shardward.quarantine.diagnose.logfile.BLOCK", 256)
    series = read_log(written(tmp_path, "\n".join(rows) + "\n", "log.jsonl")).series

    assert series["loss"].steps.tolist() == list(range(1, 20))
    assert set(series["loss (column)"].values.tolist()) == {7.0}


def test_rows_with_names_of_their_own_cost_one_cell_a_number() -> None:
    rows = [{"step": step, f"m{step}": 1.0} for step in range(1, 301)]
    (block,) = Objects(rows, []).blocks(lambda: "step", ())
    cells = [each.cells if isinstance(each, Some) else each for each in block.columns.values()]

    assert sum(map(len, cells)) == 600


def test_a_word_among_sparse_losses_is_refused_with_its_row(tmp_path: Path) -> None:
    log = written(
        tmp_path, '{"step": 1, "loss": 2}\n{"step": 2}\n{"step": 3, "loss": "x"}\n', "a.jsonl"
    )

    with pytest.raises(FormatError, match="row 3 has 'x' as loss"):
        read_log(log)


@pytest.mark.parametrize("before", ["\n", "\r\n \n", "\ufeff\n", "\n" * 600])
def test_blank_lines_may_stand_before_the_header(
    tmp_path: Path, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "BLOCK", 128)
    path = tmp_path / "log.csv"
    path.write_text(before + "step,loss\n1,2\n2,3\n", encoding="utf-8", newline="")

    assert read_log(path).series["loss"].steps.tolist() == [1, 2]
    path.write_text(before + "step,loss\n1,2\n2,x\n", encoding="utf-8", newline="")
    with pytest.raises(FormatError, match=f"row {before.count(chr(10)) + 3} has 'x'"):
        read_log(path)


@pytest.mark.parametrize("form", ["csv", "quoted", "json"])
def test_steps_beyond_the_whole_doubles_stay_exact(tmp_path: Path, form: str) -> None:
    steps = [2**53 + 1 + place for place in range(40)]
    path = tmp_path / "log"
    rows = {
        "csv": lambda step: f"{step},2.5",
        "quoted": lambda step: f'"{step}",2.5',
        "json": lambda step: f'{{"step": {step}, "loss": 2.5}}',
    }[form]
    head = [] if form == "json" else ["step,loss"]
    path.write_text("\n".join([*head, *map(rows, steps)]) + "\n", encoding="utf-8")

    assert read_log(path).series["loss"].steps.tolist() == steps


def test_a_step_that_a_double_has_rounded_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n1,2\n9.007199254740994e15,2\n", encoding="utf-8")

    with pytest.raises(FormatError, match=r"row 3 has step .* no exact number; write it as digits"):
        read_log(path)
