"""The phases where the cause is not the data: weigh the causes, then leave without a skip."""

from __future__ import annotations

from typing import Any

from ...loader.errors import IncidentError
from .stage import Stage

RATE = "learning_rate"
DATA = "bad_data"
CERTAIN = 0.5
"""Above this a cause is acted on, and the data is blamed."""


def weigh(stage: Stage) -> dict[str, Any]:
    """Rank the causes from all that is known by now, and look up the learning rates.

    Raises:
        IncidentError: the causes point to the data, or to nothing that can be acted on.
    """
    led, event = stage.incident, stage.state.result("confirm")["event"]
    causes = stage.shell.ask("incident", "causes", led.id, *stage.run)["causes"]
    stage.narrator.table(
        "what caused it?",
        ("cause", "confidence", "for", "against"),
        [
            (c["name"], c["score"], "; ".join(c["evidence_for"]), "; ".join(c["evidence_against"]))
            for c in causes
        ],
    )
    scores = {cause["name"]: cause["score"] for cause in causes}
    if causes[0]["name"] != RATE or scores.get(DATA, 0.0) >= CERTAIN:
        raise IncidentError(
            f"the likeliest cause of {led.id} is {causes[0]['name']} ({causes[0]['score']:.2f}), "
            f"and the data has {scores.get(DATA, 0.0):.2f}; the learning rate was to be found: see "
            f"'shardward incident page {led.id} --run {stage.directory.run}'"
        )
    before, now = _rates(stage, event["onset"])
    return {
        "causes": [{"name": cause["name"], "score": cause["score"]} for cause in causes],
        "rate_before": before,
        "rate": now,
    }


def _rates(stage: Stage, onset: int) -> tuple[float, float]:
    """Return the learning rate at the checkpoint that the run went back to, and at the onset."""
    back = int(stage.state.result("rewind")["step"])
    piece = int(stage.state.result("replay")["piece"])  # the trial ran all of these steps
    query = (
        "SELECT step, value FROM signals WHERE name = 'lr' "  # noqa: S608  numbers alone
        f"AND step IN ({back + 1}, {int(onset)}) AND piece = {piece} ORDER BY step"
    )
    rows = stage.shell.ask("ledger", "sql", query, *stage.run)["rows"]
    values = [float(row["value"]) for row in rows]
    return values[0], values[-1]


def leave(stage: Stage) -> dict[str, Any]:
    """Leave the incident as not the data's; the orders bring the learning rate back to its plan."""
    weighed, led = stage.state.result("weigh"), stage.incident
    before, now = weighed["rate_before"], weighed["rate"]
    factor = float(f"{before / now:.6g}")
    why = f"the learning rate was raised from {before:.3g} to {now:.3g}; the data is like before"
    led.act("not-data", "--reason", why, "--lr-factor", repr(factor))
    stage.narrator.say(
        f"nothing is skipped or quarantined; the trainer goes on with its rate times {factor:.4g}"
    )
    return {"reason": why, "learning_rate_factor": factor}
