"""The README's blocks: code to run, commands to check, and output to paste anew.

`python tests/helpers_readme.py DIRECTORY` runs every `$ command` of the README in DIRECTORY, where
a drill was played, and puts what it printed below it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from helpers_tree import ROOT

README = ROOT / "README.md"
MOST_LINES = 20
WIDTH = "132"


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language, without their fences."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def console_commands(text: str) -> list[str]:
    """Return the commands of all console blocks."""
    found = "".join(blocks(text, "console")).splitlines()
    return [line.removeprefix("$ ") for line in found if line.startswith("$ ")]


def paste(directory: Path) -> None:
    """Run the README's commands in `directory` and write their output below them."""

    def renew(match: re.Match[str]) -> str:
        command = match.group(1).splitlines()[0]
        return f"```console\n{command}\n{_output(command.removeprefix('$ '), directory)}```"

    text = README.read_text(encoding="utf-8")
    pattern = re.compile(r"^```console\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
    README.write_text(pattern.sub(renew, text), encoding="utf-8")


def _output(command: str, directory: Path) -> str:
    environment = {**os.environ, "COLUMNS": WIDTH, "NO_COLOR": "1"}
    result = subprocess.run(
        ["bash", "-c", command],
        cwd=directory, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    shown = lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"]
    return "".join(f"{line}\n" for line in shown)


if __name__ == "__main__":
    paste(Path(sys.argv[1]))
