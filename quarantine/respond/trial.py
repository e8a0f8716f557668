"""Trying a hypothesis: the same steps again, with or without the suspects, on a trial branch."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ...loader.cursor import Cursor
from ...loader.errors import IncidentError
from ..diagnose.series import Series
from .command import Spec
from .operations import HISTORY_STEPS
from .revisions import latest_revision
from .telemetry import by_step, event_of
from .watchplan import generate_watch_plan

if TYPE_CHECKING:
    from pathlib import Path

    from ...loader.manifest import Manifest
    from ...loader.run import Run
    from ..diagnose.events import Event
    from .incident import Incident
    from .rewind import RewindPlan

TRIALS = ("replay", "skip", "hold")
COMPARED = ("loss", "grad_norm")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialResult:
    """What came of a trial of steps `first`..`last`.

    `recurred` says that the spike came back, `bitwise` that a replay logged the very same numbers
    (None where nothing could be compared), `strikes` the steps that were over the line.
    """

    kind: str
    first: int
    last: int
    recurred: bool
    bitwise: bool | None
    strikes: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the trial as the report lists it."""
        return {**asdict(self), "strikes": list(self.strikes)}


def trial_spec(
    incident: Incident,
    run: Run,
    manifest: Manifest,
    plan: RewindPlan,
    kind: str,
    *,
    original: Mapping[str, Series],
) -> Spec:
    """Return what a trainer is asked to do: from the plan's checkpoint through the event.

    `replay` keeps the checkpoint's revision; `skip` and `hold` bring the newest one. An event that
    has not ended is tried as far as `original`, the telemetry of the branch that spiked, goes.

    Raises:
        IncidentError: there is nothing new to leave out.
    """
    cursor = Cursor.from_json(plan.checkpoint.cursor)
    if kind != "replay":
        newest = latest_revision(run.path, manifest)
        if newest.number <= cursor.revision:
            raise IncidentError(
                f"a trial of {kind} needs a revision after {cursor.revision}; decide what to "
                "leave out, then publish it"
            )
        mode = "hold" if kind == "hold" else cursor.mode
        cursor = replace(cursor, revision=newest.number, revision_digest=newest.digest, mode=mode)
    event = event_of(incident)
    return Spec(
        kind=kind,
        run=str(run.path.resolve()),
        checkpoint=plan.checkpoint.path,
        cursor=cursor.to_json(),
        first=plan.checkpoint.step + 1,
        last=_last(event, original),
    )


def _last(event: Event, original: Mapping[str, Series]) -> int:
    """Return the last step to try: the end of the event, or of an open event what was logged."""
    if event.end is not None:
        return max(event.detected, event.end)
    logged = (step for values in by_step(original).values() for step in values)
    # A run that went on for days after its spike is not trained again to its end.
    return max(event.detected, min(max(logged, default=0), event.detected + HISTORY_STEPS))


def trial_home(incident: Incident, kind: str) -> Path:
    """Make and return the next numbered directory for a trial's files; each trial has its own."""
    work = incident.path / "work"
    work.mkdir(parents=True, exist_ok=True)
    while True:
        used = [int(p.name.split("-")[1]) for p in work.glob("trial-[0-9]*-*") if p.is_dir()]
        home = work / f"trial-{max(used, default=0) + 1:03d}-{kind}"
        with suppress(FileExistsError):  # another trial took the number
            home.mkdir()
            return home


def judge_trial(
    incident: Incident, spec: Spec, found: Mapping[str, Series], original: Mapping[str, Series]
) -> TrialResult:
    """Return whether the spike came back in `found`, by the line the steps before it draw.

    Args:
        spec: what was asked for.
        found: the trial's metrics.
        original: the telemetry of the branch that spiked.

    Raises:
        IncidentError: the trial did not reach the onset, or there is no history to draw a line.
    """
    event = event_of(incident)
    onset = event.onset
    before, tried = by_step(original), by_step(found)
    history = {
        name: {s: v for s, v in values.items() if onset - HISTORY_STEPS <= s < onset}
        for name, values in before.items()
    }
    plan = generate_watch_plan(history, resume_step=spec.first - 1, length=1)
    line = {threshold.signal: threshold.ceiling for threshold in plan.thresholds}
    reached = max((max(values) for values in tried.values() if values), default=0)
    if reached < onset:
        raise IncidentError(
            f"the trial logged steps up to {reached}, and the spike began at step {onset}; let it "
            "run to the end of the event"
        )
    strikes = sorted(
        step
        for step, value in tried.get("loss", {}).items()
        if step >= onset and "loss" in line and not value <= line["loss"]
    )
    bitwise = _bitwise(tried, before) if spec.kind == "replay" else None
    # The same numbers up to the detection are the same spike, however calm the line is drawn.
    return TrialResult(
        kind=spec.kind,
        first=spec.first,
        last=reached,
        recurred=bool(strikes) or (bitwise is True and reached >= event.detected),
        bitwise=bitwise,
        strikes=tuple(strikes),
    )


def attach_trial(incident: Incident, result: TrialResult, *, actor: str) -> None:
    """Add `result` to the incident's trials."""
    known = (incident.attached("trials") or {}).get("trials", [])
    incident.attach("trials", {"trials": [*known, result.to_json()]}, actor=actor)


def _bitwise(
    tried: Mapping[str, Mapping[int, float]], before: Mapping[str, Mapping[int, float]]
) -> bool | None:
    pairs = [
        (tried[name][step], before[name][step])
        for name in COMPARED
        if name in tried and name in before
        for step in tried[name].keys() & before[name].keys()
    ]
    # A NaN is not equal to itself; two of them are the same number here.
    return all(a == b or (a != a and b != b) for a, b in pairs) if pairs else None  # noqa: PLR0124
