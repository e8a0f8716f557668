"""The commands of the response: child processes whose JSON drives the next act."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from ...loader.errors import Busy, IncidentError, IntegrityError, ShardwardError
from .directory import Directory, room
from .narrator import Narrator

ACTOR = "drill"
INTERRUPTED = 130
GRACE = 10.0
"""Seconds that a command has to end after an interrupt, before it is killed."""
SHOWN_CHARACTERS = 240
_ERRORS: dict[int, type[ShardwardError]] = {
    Busy.exit_code: Busy,
    IntegrityError.exit_code: IntegrityError,
}
_NO_ROOM = "no space left"


@dataclass(slots=True, kw_only=True)
class Shell:
    """Runs `shardward` commands with `--json`, says each and keeps it.

    Every line goes to the drill's `commands.log` before it runs, so that a reader can repeat it.

    Attributes:
        ran: command lines and exit codes since the phase began.
    """

    directory: Directory
    narrator: Narrator
    ran: list[dict[str, Any]] = field(default_factory=list)

    def begin(self, phase: str) -> None:
        """Head the lines that follow with the name of the phase."""
        self.ran = []
        self._keep(f"# {phase}")

    def ask(self, *words: str, ok: Sequence[int] = (0,)) -> dict[str, Any]:
        """Run one command and return its JSON object.

        Args:
            words: of the command, without `shardward` and `--json`.
            ok: exit codes that are answers.

        Raises:
            KeyboardInterrupt: the command was interrupted.
            Busy, IntegrityError, IncidentError: it ended otherwise; the message is the command's.
        """
        return self.ask_all([words], ok=ok)[0]

    def ask_all(
        self, questions: Sequence[Sequence[str]], ok: Sequence[int] = (0,)
    ) -> list[dict[str, Any]]:
        """Run commands that do not need each other side by side; see `ask`."""
        started: list[_Command] = []
        try:
            for words in questions:
                line = shlex.join(["shardward", *words, "--json"])
                self._keep(line)
                self.narrator.say(f"$ {_short(line)}")
                started.append(_Command(line, words, self.directory.commands_lock))
            return [self._answer(command, ok) for command in started]
        finally:
            for command in started:
                command.end()

    def _answer(self, command: _Command, ok: Sequence[int]) -> dict[str, Any]:
        code = command.process.wait()
        self.ran.append({"command": command.line, "exit": code})
        if code in ok:
            answer: dict[str, Any] = json.loads(command.output())
            return answer
        if code in (INTERRUPTED, -signal.SIGINT):
            raise KeyboardInterrupt
        said = command.errors().strip().splitlines() or ["it said nothing"]
        message = f"{said[-1].removeprefix('error: ')} (exit {code} of: {_short(command.line)})"
        if _NO_ROOM in message.lower():
            message += f"; {room(self.directory.path)}"
        raise _ERRORS.get(code, IncidentError)(message)

    def _keep(self, line: str) -> None:
        with self.directory.commands.open("a", encoding="utf-8") as log:
            log.write(line + "\n")


class _Command:
    """One running command; what it prints goes to files without names, so that it never waits."""

    def __init__(self, line: str, words: Sequence[str], lock: int | None) -> None:
        self.line = line
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        self._err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shardward", *words, "--json"],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._err,
            env=os.environ | {"SHARDWARD_ACTOR": ACTOR},
            pass_fds=() if lock is None else (lock,),
        )

    def output(self) -> bytes:
        """Return what it printed."""
        return _whole(self._out)

    def errors(self) -> str:
        """Return what it said on stderr."""
        return _whole(self._err).decode("utf-8", "replace")

    def end(self) -> None:
        """Ask a command that still runs to end, then make it; free its files."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE)
            self.process.kill()
            self.process.wait()
        self._out.close()
        self._err.close()


def _whole(stream: IO[bytes]) -> bytes:
    stream.seek(0)
    return stream.read()


def _short(line: str) -> str:
    if len(line) <= SHOWN_CHARACTERS:
        return line
    half = SHOWN_CHARACTERS // 2
    return f"{line[:half]} … {line[-half:]}"
