"""Filing: the report as JSON, Markdown, HTML and picture, whole under their names or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...loader.errors import IncidentError, MissingExtra
from ...loader.files import exclusive_lock, write_atomic
from ...loader.formats import canonical_json
from . import testimony
from .curves import curves_png
from .orders import LOCK
from .report import build_report
from .report_html import render_html
from .report_markdown import render_markdown

if TYPE_CHECKING:
    from ...loader.run import Run
    from .incident import Incident
    from .rebuild_report import RebuildReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """The report and the files that hold it; `missing` says which picture could not be made."""

    report: dict[str, Any]
    paths: tuple[Path, ...]
    missing: str | None


def write_report(
    incident: Incident,
    run: Run,
    *,
    out: Path | None = None,
    commands: Sequence[str] = (),
    state: str | None = None,
    picture: bool = True,
) -> Filed:
    """Write incident.json, incident.md, incident.html and curves.png; no event is recorded.

    Args:
        out: directory, by default that of the incident.
        commands: more commands that reproduce numbers of the report.
        state: the state to write into the report.
        picture: whether to draw curves.png, which needs matplotlib.

    Raises:
        IntegrityError, FormatError: as `build_report`.
    """
    report = build_report(incident, run, commands=commands, state=state)
    home = out or incident.path
    missing = None
    contents = {
        "incident.json": canonical_json(report),
        "incident.md": render_markdown(report).encode(),
        "incident.html": render_html(report).encode(),
    }
    if picture:
        try:
            contents["curves.png"] = curves_png(report)
        except MissingExtra as error:
            missing = str(error)
    for name, data in contents.items():
        write_atomic(home / name, data)
    return Filed(report=report, paths=tuple(home / name for name in contents), missing=missing)


def file(incident: Incident, run: Run, *, actor: str, commands: Sequence[str] = ()) -> Filed:
    """Write the report and record that the incident is filed.

    Raises:
        IncidentError: out of order, or the watch did not end clear.
    """
    incident.check("file")
    watched = incident.last("watch")
    if watched is not None and watched.summary["verdict"] != "clear":
        raise IncidentError(
            f"the watch of {incident.id} ended with {watched.summary['verdict']}: "
            f"{watched.summary['reason']}; reopen the incident and go through the steps again"
        )
    filed = write_report(incident, run, commands=commands, state="filed")
    incident.record(
        "file",
        actor=actor,
        summary={"outcome": filed.report["outcome"]},
        evidence={"report": filed.report},
    )
    return filed


def attach_rebuild(incident: Incident, run: Run, report: RebuildReport, *, actor: str) -> None:
    """Store the report of a rebuild once, and write the postmortem of a closed incident anew."""
    value = report.to_json()
    if not _stands(incident.attached("rebuild"), value):
        incident.attach("rebuild", value, actor=actor)
    if incident.case().closed:
        write_report(incident, run)


def attach_testimony(
    incident: Incident,
    run: Run,
    told: testimony.Told,
    causes: Mapping[str, Any],
    *,
    seen: testimony.Told,
    actor: str,
) -> None:
    """Store what an incident was told and the causes that follow, each as `attach_rebuild` does.

    `seen` is what it had been told when `told` was put together.

    Raises:
        IncidentError: it was told something else since, which would be lost.
    """
    with exclusive_lock(run.path / LOCK):
        known = testimony.told(incident).to_json()
        if not _stands(known, told.to_json()):
            if not _stands(known, seen.to_json()):
                raise IncidentError(
                    f"{incident.id} was told something else at the same time; type it again"
                )
            incident.attach(testimony.NAME, told.to_json(), actor=actor, what=told.describe())
        if not _stands(incident.attached("causes"), causes):
            incident.attach("causes", causes, actor=actor)
    if incident.case().closed:
        write_report(incident, run)


def _stands(stored: Mapping[str, Any] | None, value: Mapping[str, Any]) -> bool:
    return canonical_json(stored) == canonical_json(value)
