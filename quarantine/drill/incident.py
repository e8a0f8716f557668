"""The drill's incident, led through the commands alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...loader.formats import parse_json
from .directory import Directory
from .shell import ACTOR, Shell

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Led:
    """One incident of a run.

    Attributes:
        shell: runs the commands.
        directory: of the drill.
        id: of the incident.
        again: the phase was begun before, so an act may be done already.
    """

    shell: Shell
    directory: Directory
    id: str
    again: bool

    @property
    def run(self) -> tuple[str, str]:
        """The option that names the run."""
        return "--run", str(self.directory.run)

    def act(self, name: str, *options: str, ok: tuple[int, ...] = (0,)) -> Json | None:
        """Do one act of the response and return what the command says.

        Returns:
            None where a start before this one did it: what it stored is to be looked up.
        """
        if self.again and self._last(name) is not None:
            return None
        words = ("incident", name, self.id, *options, *self.run, "--actor", ACTOR, "--yes")
        return self.shell.ask(*words, ok=ok)

    def stored(self, act: str, name: str) -> Json:
        """Return the evidence `name` that the newest `act` of this round stored."""
        event = self._last(act)
        if event is None:
            raise KeyError(f"{self.id} has no {act}")
        return self._evidence(event, name)

    def summary(self, act: str) -> Json:
        """Return the summary of the newest `act` of this round."""
        event = self._last(act)
        if event is None:
            raise KeyError(f"{self.id} has no {act}")
        summary: Json = event["summary"]
        return summary

    def attached(self, name: str) -> Json | None:
        """Return what was stored beside the steps under `name`, or None."""
        notes = [e for e in self._events("note") if e["summary"].get("name") == name]
        return self._evidence(notes[-1], name) if notes else None

    def _last(self, act: str) -> Json | None:
        found = self._events(act)
        return found[-1] if found else None

    def _events(self, act: str) -> list[Json]:
        """Return the acts of that name in the present round, oldest first."""
        shown = self.shell.ask("incident", "show", self.id, *self.run)
        return [e for e in shown["events"] if e["round"] == shown["round"] and e["act"] == act]

    def _evidence(self, event: Json, name: str) -> Json:
        path = self.directory.run / "incidents" / self.id / event["evidence"][name]["path"]
        return parse_json(path.read_bytes(), where=str(path))
