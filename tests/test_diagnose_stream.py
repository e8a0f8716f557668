"""A log that is read in blocks gives the answer of one that is held."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from helpers_diagnose import Array, curve, gradients, spiked
from numpy.typing import NDArray

from shardward.loader.errors import FormatError
from shardward.quarantine.diagnose import logfile, order
from shardward.quarantine.diagnose.config import MonitorConfig
from shardward.quarantine.diagnose.fragility import fragility
from shardward.quarantine.diagnose.judged import Judged, judge_log
from shardward.quarantine.diagnose.replay import detect
from shardward.quarantine.diagnose.rows import _ends_inside, _opening
from shardward.quarantine.diagnose.signals import read_log
from shardward.quarantine.diagnose.thinned import Thinned

Table = dict[str, Array]
TAIL = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2)


def judged(path: Path) -> Judged:
    return judge_log(path, lambda _: MonitorConfig(), lambda *_: nullcontext(lambda _: None))


def table(seed: int, points: int = 2500) -> Table:
    """A random log: spikes, gaps, a loss that is no number, restarts or rows of many writers."""
    random = np.random.default_rng(seed)
    loss = spiked(curve(points, seed=seed), int(random.integers(900, 2000)), TAIL)
    steps = np.arange(1, points + 1).astype(float)
    norm = gradients(points, seed=seed)
    if seed % 2:
        norm[random.random(points) < 0.3] = -1
        loss[1200:1203] = np.nan
    if seed % 3 == 1:
        steps[1700:] -= 400
    if seed % 3 == 2:
        steps[:] = np.repeat(steps[: points // 2], 2)
    rate = np.where(steps > points // 3, 1e-3, 4e-3)
    return {"step": steps, "loss": loss, "grad_norm": norm, "lr": rate}


def cells(values: Table, place: int) -> dict[str, str]:
    row = {name: f"{column[place]:.6g}" for name, column in values.items()}
    return {name: "" if cell == "-1" else cell for name, cell in row.items()}


def as_csv(path: Path, values: Table) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(values))
        writer.writeheader()
        writer.writerows(cells(values, place) for place in range(len(values["step"])))


def as_json(path: Path, values: Table) -> None:
    rows = (cells(values, place) for place in range(len(values["step"])))
    kept = ({name: float(cell) for name, cell in row.items() if cell} for row in rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")


@pytest.mark.parametrize("write", [as_csv, as_json])
@pytest.mark.parametrize("seed", range(6))
def test_a_log_in_blocks_has_the_events_of_one_that_is_held(
    tmp_path: Path,
    seed: int,
    write: Callable[[Path, Table], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "log"
    write(path, table(seed))
    log = read_log(path)
    events = detect(log.series)
    monkeypatch.setattr(logfile, "BLOCK", 3000)
    found = judged(path)

    assert json.dumps([event.to_json() for event in found.events]) == json.dumps(
        [event.to_json() for event in events]
    )
    assert any(event.page for event in events)
    assert (found.points, found.notes) == (len(log.series["loss"]), log.notes)
    assert found.signals == tuple(sorted(log.series))
    assert found.fragile == fragility(log.series["loss"], events)
    np.testing.assert_array_equal(found.curve.values, log.series["loss"].values)


def test_signals_in_rows_of_their_own_count_with_the_loss_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    values = table(0)
    with path.open("w", encoding="utf-8") as file:
        for place in range(len(values["step"])):
            row = {"step": place + 1}
            for name in ("lr", "loss", "grad_norm"):
                file.write(json.dumps(row | {name: float(values[name][place])}) + "\n")

    assert list(judged(path).events) == detect(read_log(path).series)


@pytest.mark.parametrize(
    ("row", "message"),
    [("1700,high", "row 1701 has 'high'"), ("1.5,2", "row 1701 has '1.5'"), ("-1,2", "out of")],
)
def test_what_is_wrong_far_into_a_log_is_said_with_its_row(
    tmp_path: Path, row: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{step},2.5" for step in range(1, 1700)] + [row] + ["1701,2.5"] * 9
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n" + "\n".join(rows) + "\n", encoding="utf-8")
    monkeypatch.setattr(logfile, "BLOCK", 500)

    with pytest.raises(FormatError, match=message):
        judged(path)


def test_a_column_that_turns_out_to_be_words_counts_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{step},2.5,{step if step < 600 else 'off'}" for step in range(1, 900)]
    path = tmp_path / "log.csv"
    path.write_text('step,loss,"a\nb"\n' + "\n".join(rows) + "\n9", encoding="utf-8")
    monkeypatch.setattr(logfile, "BLOCK", 500)
    found = judged(path)

    assert found.signals == ("loss",)
    assert found.skipped == ("row 902 is cut off", "column 'a\\nb' is not numeric")


def test_a_quoted_cell_may_go_on_in_the_next_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f'"{step}",2.5,"one\nword"' for step in range(1, 300)]
    path = tmp_path / "log.csv"
    path.write_text("step,loss,note\n" + "\n".join(rows) + "\n", encoding="utf-8")
    monkeypatch.setattr(logfile, "BLOCK", 64)

    assert judged(path).points == 299


def test_a_pipe_is_read_twice_too(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    text = "step,loss\n" + "".join(f"{step},2.5\n" for step in range(1, 200))
    writer = threading.Thread(target=path.write_text, args=(text,))
    writer.start()
    found = judged(path)
    writer.join()

    assert found.points == 199


def test_a_line_without_an_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logfile, "BLOCK", 64)
    monkeypatch.setattr(logfile, "LONGEST_LINE", 100)
    path = tmp_path / "log.csv"
    path.write_text("step,loss\n1,2\n" + "3" * 500, encoding="utf-8")

    with pytest.raises(FormatError, match="row 3 is longer than 100 bytes"):
        judged(path)


@pytest.mark.parametrize(
    ("places", "unsorted"),
    [
        (np.arange(4000), False),
        (np.r_[0:3000, 2900:4000], False),
        (np.r_[0:3900, 100:4000], False),
        (np.r_[2000:4000, 0:2000], True),
        (np.r_[0:3000, 3001, 3000, 3002:4000], True),
        (np.arange(4000)[::-1], True),
    ],
)
def test_restarts_are_told_from_disorder_in_long_logs_too(
    places: NDArray[np.int64], unsorted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(order, "RECENT", 500)
    found = order.Order()
    for part in np.array_split(places, 20):
        found.add(part)

    assert found.is_unsorted is unsorted


def test_a_spike_stays_visible_in_a_thinned_curve() -> None:
    values = curve(50_000)
    values[12_345], values[40_000] = 90.0, np.nan
    thinned = Thinned(len(values))
    for part in np.array_split(np.arange(len(values)), 7):
        thinned.add(part, values[part])
    found = thinned.series("loss")

    assert len(found) <= 9600
    assert found.steps[found.values.argmax()] == 12_345
    assert np.all(np.diff(found.steps) > 0)
    assert (found.steps[0], np.nanmin(values)) == (0, found.values.min())


PEAK = """
import re, sys
from shardward.cli.main import cli
cli(["monitor", "check", sys.argv[1], "--json", "--no-gate"], standalone_mode=False)
status = open("/proc/self/status", encoding="utf-8").read()
print(re.search(r"VmHWM:\\s+(\\d+)", status)[1], file=sys.stderr)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_log_ten_times_as_long_needs_no_more_memory(tmp_path: Path, form: str) -> None:
    peaks = []
    for rows in (30_000, 300_000):
        path = tmp_path / f"{rows}.{form}"
        with path.open("w", encoding="utf-8") as file:
            file.write("step,loss\n" if form == "csv" else "")
            row = "{},2.5\n" if form == "csv" else '{{"step":{},"loss":2.5}}\n'
            # A log in its warm-up is read as any other, and judged in no time.
            file.writelines(row.format(step // 1000) for step in range(rows))
        words = [sys.executable, "-c", PEAK, str(path)]
        result = subprocess.run(words, capture_output=True, text=True, check=True)
        peaks.append(int(result.stderr.split()[-1]) / 1024)

    assert peaks[1] - peaks[0] < 30


@pytest.mark.parametrize("block", [256, 1 << 18])
def test_a_loss_may_begin_after_the_first_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    loss = spiked(curve(1500), 1000, TAIL)
    rows: list[dict[str, float]] = [{"step": 1, "gpu": 0.5} for _ in range(300)]
    rows += [{"step": step, "loss": float(value)} for step, value in enumerate(loss, 1)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows[300:]), encoding="utf-8")
    alone = judged(path)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    monkeypatch.setattr(logfile, "BLOCK", block)

    assert len(alone.events) == 1
    assert judged(path).events == alone.events


def test_a_log_without_a_loss_in_any_block_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "gpu": 0.5}\n' * 100, encoding="utf-8")
    monkeypatch.setattr(logfile, "BLOCK", 256)

    with pytest.raises(FormatError, match="no column for loss; it has 'step', 'gpu'"):
        judged(path)


def test_a_quote_within_a_cell_holds_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "BLOCK", 256)
    monkeypatch.setattr("shardward.quarantine.diagnose.rows.LONGEST_LINE", 1024)
    path = tmp_path / "log.csv"
    notes = ["ok", '"one, ""two""\nthree"', '""']
    rows = [f"{step},2.5,{notes[step % 3] if step < 40 else 'ok'}" for step in range(1, 500)]
    rows[0] = '1,2.5,5" disk'
    path.write_text("step,loss,note\n" + "\n".join(rows) + "\n", encoding="utf-8")

    assert read_log(path).series["loss"].steps.tolist() == list(range(1, 500))


@pytest.mark.parametrize("seed", range(20))
def test_blocks_of_csv_are_cut_where_no_cell_is_open(seed: int) -> None:
    letters = np.random.default_rng(seed).choice(list('a,"\n'), 12, p=[0.3, 0.2, 0.3, 0.2])
    text = "".join(letters) + "\n"
    *_, last = csv.reader((text + "b\n").splitlines(keepends=True))

    assert _ends_inside(text.encode(), False, _opening(",")) == (last != ["b"])
