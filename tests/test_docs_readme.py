"""What the documents promise: code that runs, commands that exist, links that resolve."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_cli_docs import commands
from helpers_readme import README, blocks, console_commands
from helpers_tree import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TEXT = README.read_text(encoding="utf-8")
COMMANDS = dict(commands())


def test_the_readme_opens_with_the_two_commands() -> None:
    first = re.search(r"```\n(.*?)```", TEXT, flags=re.DOTALL)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert first is not None
    words = [line.split("#")[0].split() for line in first.group(1).splitlines()]
    assert words == [["make", "drill"], ["make", "test"]]
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for _, target in words)


def test_the_plain_torch_loop_is_short_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code,) = blocks(TEXT, "python")
    plugged_in = code[code.index("manifest = ") :].splitlines()
    (tmp_path / "data").mkdir()
    texts = [f"document {i} says something new. " * 40 for i in range(60)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "data" / "a.parquet")
    monkeypatch.chdir(tmp_path)

    assert len(plugged_in) <= 15
    exec(compile(code, "README.md", "exec"), {})
    assert (tmp_path / "last.pt").is_file()


@pytest.mark.parametrize("line", console_commands(TEXT))
def test_every_command_in_the_readme_exists_with_its_options(line: str) -> None:
    words = shlex.split(line)
    named = next(" ".join(words[:n]) for n in (3, 2, 1) if " ".join(words[:n]) in COMMANDS)
    known = {option for item in COMMANDS[named].params for option in item.opts}

    assert {word for word in words if word.startswith("--")} <= known


def test_the_readme_shows_output_below_every_command() -> None:
    for block in blocks(TEXT, "console"):
        assert len(block.splitlines()) > 3, block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_resolves(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    local = [target.split("#")[0] for target in targets if "://" not in target]

    assert [target for target in local if target and not (page.parent / target).exists()] == []


def test_the_picture_is_a_png() -> None:
    assert (ROOT / "docs" / "images" / "drill.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_every_page_is_reachable_from_the_readme() -> None:
    named = {name for page in PAGES for name in re.findall(r"[\w-]+\.md", page.read_text("utf-8"))}

    assert {page.name for page in PAGES} - named - {"README.md"} == set()
