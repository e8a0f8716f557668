"""The phase watch: is the resumed run back on the trend?"""

from __future__ import annotations

from typing import Any

from ...loader.errors import IncidentError
from .looking import monitor_check
from .stage import Stage

STRUCK = 3
"""Exit code of a watch that saw a recurrence."""


def watch(stage: Stage) -> dict[str, Any]:
    """Judge the resumed run by the watch plan in its orders.

    Raises:
        IncidentError: the spike came back; the incident is open again.
    """
    led = stage.incident
    result = led.act("watch", ok=(0, STRUCK)) or led.stored("watch", "watch")["result"]
    result = {name: result[name] for name in ("verdict", "seen_to", "strikes", "levels", "reason")}
    stage.narrator.say(f"watch: {result['verdict']}; {result['reason']}")
    if result["verdict"] == "recurrence":
        raise IncidentError(
            f"the spike came back after the quarantine ({result['reason']}), so the incident is "
            f"open again and nothing is filed: see 'shardward incident page {led.id} --run "
            f"{stage.directory.run}'"
        )
    return {"watch": result}


def watch_log(stage: Stage) -> dict[str, Any]:
    """Let the monitor judge the whole history as it stands now: an exit gives no watch plan.

    Raises:
        IncidentError: it pages.
    """
    checked = monitor_check(stage, "resumed")
    seen = int(stage.state.result("resume")["last_step"])
    if checked["pages"]:
        raise IncidentError(
            f"the monitor pages {checked['pages']} times on the resumed run, so the cause is not "
            f"gone: see 'shardward monitor check {checked['file']} --short-run'"
        )
    reason = f"no page in {checked['points']} steps of the run's history"
    stage.narrator.say(f"watch: clear; {reason}")
    return {
        "watch": {
            "verdict": "clear",
            "seen_to": seen,
            "strikes": [],
            "levels": {},
            "reason": reason,
        }
    }
