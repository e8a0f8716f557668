"""One drill while it is played: where it stands, who hears of it, and what its phases share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ...loader.errors import IncidentError
from ...loader.manifest import Manifest
from .directory import Directory
from .incident import Led
from .narrator import Narrator
from .scale import Scale
from .session import Session, rate_fault
from .shell import Shell
from .state import State


@dataclass(kw_only=True)
class Stage:
    """One drill.

    Attributes:
        directory: where everything lies.
        scale: sizes.
        narrator: hears what happens.
        state: what is done.
        shell: runs the commands.
        again: the present phase was begun by an earlier start and not finished.
    """

    directory: Directory
    scale: Scale
    narrator: Narrator
    state: State
    shell: Shell
    again: bool = False

    @property
    def seed(self) -> int:
        """Of every random choice."""
        return self.state.identity.seed

    @cached_property
    def session(self) -> Session:
        """The trainer's side, once the corpus is indexed."""
        return session_of(self.directory, self.state)

    @property
    def run(self) -> tuple[str, str]:
        """The option that names the run."""
        return "--run", str(self.directory.run)

    @property
    def page(self) -> dict[str, Any]:
        """The page that stopped the run.

        Raises:
            IncidentError: nothing was paged.
        """
        trained = self.state.result("train")
        page: dict[str, Any] | None = trained["page"]
        if page is None:
            raise IncidentError(
                f"the monitor saw nothing in {trained['last_step']} steps, although trouble was "
                f"due at step {self.due}; this corpus is as hard to learn as the trouble, so try "
                "another one"
            )
        return page

    @property
    def due(self) -> int:
        """The step at which the trouble begins."""
        placement = self.state.result("corpus")["placement"]
        fault = self.session.fault
        return int(placement["first_step"]) if fault is None else fault.step

    @property
    def incident(self) -> Led:
        """The incident that the phase `confirm` opened."""
        return self.led(str(self.state.result("confirm")["id"]))

    def led(self, incident_id: str) -> Led:
        """Return the incident of that id."""
        return Led(shell=self.shell, directory=self.directory, id=incident_id, again=self.again)


def session_of(directory: Directory, state: State) -> Session:
    """Return the trainer's side of a drill whose corpus is indexed."""
    identity, steps = state.identity, int(state.result("corpus")["steps"])
    scale, faulty = Scale(**identity.scale), identity.cause == "learning-rate"
    return Session(
        directory=directory,
        scale=scale,
        seed=identity.seed,
        steps=steps,
        manifest=Manifest.load(directory.manifest),
        fault=rate_fault(scale, identity.seed, steps) if faulty else None,
    )
