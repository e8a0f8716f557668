"""Logs whose cells are separated by something other than commas."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers_diagnose import curve

from shardward.cli.main import cli
from shardward.loader.errors import FormatError
from shardward.quarantine.diagnose.rows import delimiter
from shardward.quarantine.diagnose.signals import read_series


def written(directory: Path, text: str) -> Path:
    path = directory / "log"
    path.write_text(text, encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize("sign", [",", "\t", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("first", ["", "\ufeff", "\n\n"])
def test_the_header_line_says_what_separates_cells(
    tmp_path: Path, sign: str, end: str, first: str
) -> None:
    rows = ["iteration,lm loss,lr", "1,5.5,1e-4", "2,5.25,", '3,"5.0",2e-4']
    series = read_series(written(tmp_path, first + end.join(rows).replace(",", sign) + end))

    assert series["loss"].values.tolist() == [5.5, 5.25, 5.0]
    assert series["lr"].steps.tolist() == [1, 3]


@pytest.mark.parametrize(
    ("header", "sign"),
    [
        ("step,loss", ","),
        ("step\tloss", "\t"),
        ("step;loss", ";"),
        ("step\tloss\tlr (a, b)", "\t"),
        ("step,\tloss", ","),
        ("step,loss,a;b;c;d", ","),
        ('step;"loss,\t(all)"', ";"),
        ('"a, ""b"", c"\tloss', "\t"),
        ('5" disk,6" disk', ","),
        ("loss", ","),
        ("", ","),
    ],
)
def test_quotes_and_odd_names_do_not_confuse_it(header: str, sign: str) -> None:
    assert delimiter(header) == sign


def test_a_quoted_cell_may_hold_lines_in_a_table_of_tabs(tmp_path: Path) -> None:
    text = 'step\tnote\tloss\n1\t"two\nlines, ""and"" tabs\t"\t2.5\n2\t5" disk\t2.25\n'

    assert read_series(written(tmp_path, text))["loss"].values.tolist() == [2.5, 2.25]


def test_numbers_with_commas_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="row 2 has '2,5' as loss, not a number"):
        read_series(written(tmp_path, "step;loss\n1;2,5\n"))


def test_a_table_of_tabs_is_judged_as_the_same_table_of_commas(tmp_path: Path) -> None:
    loss = curve(900)
    loss[700:710] += 1.0
    rows = "step,loss\n" + "".join(f"{step},{x}\n" for step, x in enumerate(loss.tolist(), 1))
    answers = []
    for sign in ",\t;":
        path = written(tmp_path, rows.replace(",", sign))
        result = CliRunner().invoke(cli, ["monitor", "check", "--json", str(path)])
        answers.append((result.exit_code, json.loads(result.stdout)))

    assert answers[0] == answers[1] == answers[2]
    assert answers[0][0] == 3
