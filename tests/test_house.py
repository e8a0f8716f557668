"""The rules of CONTRIBUTING.md that a machine can measure."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers_tree import ROOT

ROOMS = ("loader", "quarantine", "cli", "schemas", "benchmarks", "examples", "tests")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
LONGEST_MODULE = 400
LONGEST_FUNCTION = 60


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_keep_to_their_length(path: Path) -> None:
    assert path.read_text(encoding="utf-8").count("\n") <= LONGEST_MODULE
    for function in functions(path):
        assert function.end_lineno is not None
        assert function.end_lineno - function.lineno < LONGEST_FUNCTION, function.name


def test_each_broad_except_says_why_it_is_broad() -> None:
    broad = re.compile(r"^\s*except( (Base)?Exception\b.*)?:")
    silent = []
    for path in MODULES:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            around = "\n".join(lines[max(0, number - 2) : number + 3])
            if broad.match(line) and "#" not in around:
                silent.append(f"{path.relative_to(ROOT)}:{number + 1}")
    assert not silent


def test_nothing_is_left_to_do_without_an_owner() -> None:
    marks = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X")) + r")\b")
    pages = [*MODULES, *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert not [path for path in pages if marks.search(path.read_text(encoding="utf-8"))]
