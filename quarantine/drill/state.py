"""What a drill has done so far, in `drill.json`: a second start goes on from there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ...loader.errors import FormatError, NotFound, UsageError
from ...loader.files import write_atomic
from ...loader.formats import canonical_json, check_format, parse_json
from .directory import STATE, Directory

FORMAT = "shardward.drill-state"
VERSION = 2

Cause = Literal["data", "learning-rate", "none"]
CAUSES: tuple[Cause, ...] = ("data", "learning-rate", "none")
"""What goes wrong in a drill: salted text, a raised learning rate, or nothing (the control)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """All that the course of a drill depends on; a drill goes on only under the same.

    Attributes:
        seed: of every random choice.
        cause: what goes wrong.
        corpus: path or glob of the text, None for this machine's.
        release: version of shardward.
        scale: sizes.
    """

    seed: int
    cause: Cause
    corpus: str | None
    release: str
    scale: Mapping[str, Any]

    def differences(self, other: Identity) -> list[str]:
        """Return what `other` has otherwise, both values named."""
        mine, its = asdict(self), asdict(other)
        return [
            f"{name} {mine[name]!r}, not {its[name]!r}" for name in mine if mine[name] != its[name]
        ]


@dataclass(slots=True, kw_only=True)
class State:
    """The durable state of one drill.

    Attributes:
        begun: the phase that was begun last, finished or not.
        done: by phase, in order: `seconds`, `commands` and `result`.
    """

    directory: Directory
    identity: Identity
    begun: str | None = None
    done: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, directory: Directory, identity: Identity) -> State:
        """Return the state in `directory`, or a new one.

        Raises:
            UsageError: another drill has got somewhere there; what differs is named.
            FormatError: `drill.json` is malformed, or of another version.
        """
        if not directory.state.exists():
            return cls(directory=directory, identity=identity)
        state = cls.read(directory)
        if not state.done:
            return cls(directory=directory, identity=identity)  # nothing is worth keeping yet
        differ = state.identity.differences(identity)
        if differ:
            raise UsageError(
                f"{directory.path} holds a drill with {'; '.join(differ)}; go on with that one "
                f"({command_line(state.identity, directory)}), or give another --out"
            )
        return state

    @classmethod
    def read(cls, directory: Directory) -> State:
        """Return the state in `directory`; NotFound, FormatError as in `open`."""
        path = directory.state
        if not path.exists():
            raise NotFound(f"{directory.path} holds no drill ({STATE} is missing)")
        value = parse_json(path.read_bytes(), where=str(path))
        check_format(value, name=FORMAT, version=VERSION, where=str(path))
        try:
            identity = Identity(**value["identity"])
            return cls(
                directory=directory,
                identity=identity,
                begun=value["begun"],
                done=dict(value["done"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"{path} is malformed ({error}); give another --out, or remove {directory.path}"
            ) from error

    def begin(self, phase: str) -> bool:
        """Write down that `phase` begins; return whether it had begun before."""
        again = self.begun == phase
        self.begun = phase
        self._write()
        return again

    def finish(
        self,
        phase: str,
        result: Mapping[str, Any],
        *,
        seconds: float,
        commands: list[dict[str, Any]],
    ) -> None:
        """Write down what came of `phase`: JSON values only."""
        self.done[phase] = {
            "seconds": round(seconds, 2),
            "commands": commands,
            "result": dict(result),
        }
        self._write()

    def result(self, phase: str) -> dict[str, Any]:
        """Return what came of a finished phase."""
        result: dict[str, Any] = self.done[phase]["result"]
        return result

    def _write(self) -> None:
        value = {
            "format": FORMAT,
            "version": VERSION,
            "identity": asdict(self.identity),
            "begun": self.begun,
            "done": self.done,
        }
        write_atomic(self.directory.state, canonical_json(value) + b"\n")


def command_line(identity: Identity, directory: Directory) -> str:
    """Return the command that goes on with a drill."""
    words = ["shardward", "drill", "--seed", str(identity.seed)]
    if identity.cause == "none":
        words.append("--no-salt")
    elif identity.cause != "data":
        words += ["--cause", identity.cause]
    if identity.corpus is not None:
        words += ["--corpus", identity.corpus]
    return shlex.join([*words, "--out", str(directory.path)])
