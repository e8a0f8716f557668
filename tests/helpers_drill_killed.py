"""Play one small drill in many processes: each is killed in its phase, the next one goes on.

Usage: python tests/helpers_drill_killed.py '{"out": …, "corpus": …, "cause": …, "kills": {…}}'
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from helpers_drill import SMALL, Quiet, Stopping, as_printed

from shardward.quarantine.drill.play import play


def main(asked: dict[str, Any]) -> None:
    """Fork one process for each kill and a last one; print the result of that one."""
    for phase, calls in asked["kills"].items():
        ended = _in_a_child(asked, Stopping(phase, calls, _kill))
        assert os.waitstatus_to_exitcode(ended) == -signal.SIGKILL, phase
        if phase in ("train", "resume"):
            _tear(Path(asked["out"]) / "run" / "journal")
    assert _in_a_child(asked, Quiet()) == 0


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _tear(journals: Path) -> None:
    """Leave half a record at the end of the newest journal, as a full disk does."""
    newest = max(journals.iterdir())
    with newest.open("ab") as journal:
        journal.write(newest.read_bytes()[:100])


def _in_a_child(asked: dict[str, Any], narrator: Quiet) -> int:
    """Play in a forked process, which saves the import of torch; return how it ended."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    result = play(
        narrator,
        out=Path(asked["out"]),
        corpus=asked["corpus"],
        cause=asked["cause"],
        scale=SMALL,
    )
    sys.stdout.write(json.dumps(as_printed(result)))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
