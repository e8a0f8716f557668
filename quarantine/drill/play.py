"""The drill from end to end: phases that are each written down, so that a second start goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

from . import closing, finding, leaving, looking, recovery, result, running
from .directory import claim
from .narrator import Narrator
from .scale import Scale
from .shell import Shell
from .stage import Stage
from .state import Cause, Identity, State, command_line
from .trainer import reproducible

Phase = Callable[[Stage], dict[str, Any]]

_LOOK: dict[str, Phase] = {
    "corpus": running.corpus,
    "index": running.index,
    "train": running.first_run,
    "confirm": looking.confirm,
    "identify": looking.identify,
    "rewind": looking.rewind,
    "replay": looking.replay,
}
PHASES: dict[Cause, dict[str, Phase]] = {
    "data": {
        **_LOOK,
        "find": finding.find,
        "quarantine": finding.quarantine,
        "resume": running.resume,
        "watch": recovery.watch,
        "file": closing.file,
        "rebuild": closing.rebuild,
    },
    "learning-rate": {
        **_LOOK,
        "weigh": leaving.weigh,
        "leave": leaving.leave,
        "resume": running.resume,
        "watch": recovery.watch_log,
        "file": closing.file_last,
    },
    "none": {
        "corpus": running.corpus,
        "index": running.index,
        "train": running.first_run,
        "check": closing.check,
    },
}
"""The phases of a drill in their order, by what goes wrong in it."""


def play(
    narrator: Narrator,
    *,
    out: Path | None = None,
    seed: int = 0,
    corpus: str | None = None,
    cause: Cause = "data",
    scale: Scale | None = None,
) -> dict[str, Any]:
    """Play a whole drill and return its result, as `schemas/drill.v1.json` describes it.

    A drill that was stopped, in whatever way, goes on in the phase where it stood, and ends as if
    nobody had stopped it.

    Args:
        narrator: hears what happens.
        out: an empty or new directory, or that of a drill to go on with; None takes the next free
            one under `drill-out`.
        seed: of salt, placement, order and weights.
        corpus: path or glob of someone's own text; None uses what this machine holds.
        cause: what goes wrong: salted text, a raised learning rate, or nothing.
        scale: sizes; None is the scale that fits two minutes on two idle cores.

    Raises:
        Busy: another drill is running in `out`.
        UsageError: `out` holds another drill, or what is none.
        OSError: as the system says; a full disk names where, what is free and what is needed.
        CorpusError: text that cannot be read, or too little of it.
        IncidentError: nothing was paged, no other signal agreed, or a command refused.
        IntegrityError: a proof from the record failed.
        KeyboardInterrupt: its message is the command that goes on.
    """
    scale = scale or Scale()
    identity = Identity(
        seed=seed,
        cause=cause,
        corpus=corpus,
        release=metadata.version("shardward"),
        scale=asdict(scale),
    )
    with claim(out) as directory:
        stage = Stage(
            directory=directory,
            scale=scale,
            narrator=narrator,
            state=State.open(directory, identity),
            shell=Shell(directory=directory, narrator=narrator),
        )
        with reproducible(scale.threads):
            _play(stage)
        return result.assemble(stage)


def _play(stage: Stage) -> None:
    phases = PHASES[stage.state.identity.cause]
    done = [title for title in phases if title in stage.state.done]
    if len(done) == len(phases):
        stage.narrator.say(f"finished: all {len(done)} phases were done; this is its result")
    elif done:
        stage.narrator.say(
            f"{len(done)} of {len(phases)} phases were done by an earlier start, the last one "
            f"{done[-1]}; it goes on from there"
        )
    for number, (title, phase) in enumerate(phases.items(), 1):
        if title not in done:
            _phase(stage, phase, title, number=number, total=len(phases))


def _phase(stage: Stage, phase: Phase, title: str, *, number: int, total: int) -> None:
    """Play one phase and write down what came of it."""
    began = time.monotonic()
    try:
        stage.again = stage.state.begin(title)
        stage.narrator.phase(number, total, title)
        stage.shell.begin(title)
        found = phase(stage)
        seconds = time.monotonic() - began
        stage.state.finish(title, found, seconds=seconds, commands=stage.shell.ran)
    except KeyboardInterrupt as error:
        go_on = command_line(stage.state.identity, stage.directory)
        raise KeyboardInterrupt(
            f"the drill was stopped in its phase {title!r}; to go on: {go_on}"
        ) from error
