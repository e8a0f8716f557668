"""The drill's trainer as a command, for `incident trial --command`.

Usage: python -m shardward.quarantine.drill.trial DIRECTORY SPEC METRICS
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from ...loader.cursor import Cursor
from ...loader.errors import ShardwardError
from ...loader.formats import parse_json
from ..respond.command import Spec
from .directory import Directory
from .stage import session_of
from .state import State
from .trainer import reproducible
from .training import train


def run(directory: Path, spec: Spec, metrics: Path) -> None:
    """Train the steps of `spec` from its checkpoint; write one JSON object a step to `metrics`."""
    here = Directory(path=directory)
    session = session_of(here, State.read(here))
    with reproducible(session.scale.threads), metrics.open("w", encoding="utf-8") as out:

        def heard(step: int, signals: Mapping[str, float]) -> None:
            out.write(json.dumps({"step": step, **signals}) + "\n")

        trainer = session.trainer()
        if spec.checkpoint:
            trainer.load(session.directory.checkpoints / spec.checkpoint)
        with session.loader(cursor=Cursor.from_json(spec.cursor), reason="trial") as loader:
            train(
                trainer,
                loader,
                until=spec.last,
                heldout=session.heldout,
                checkpoints=None,
                monitor=None,
                advance=lambda n=1, note="": None,
                heard=heard,
            )


def main(directory: str, spec: str, metrics: str) -> int:
    """Run one trial; return the exit code."""
    try:
        run(Path(directory), _spec(Path(spec)), Path(metrics))
    except ShardwardError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


def _spec(path: Path) -> Spec:
    value = parse_json(path.read_bytes(), where=str(path))
    return Spec(**{name: value[name] for name in Spec.__dataclass_fields__})


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
