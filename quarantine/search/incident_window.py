"""What an incident says about its window: documents, controls, losses, suspects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from ...loader.errors import IncidentError
from .findings import DECISIVE
from .triage import triage

if TYPE_CHECKING:
    from ...loader.manifest import Manifest
    from ..respond.incident import Incident


class LossSource(Protocol):
    """What is asked of the ledger."""

    def step_documents(self, step: int) -> pa.Table:
        """Return one row per segment: step, piece, rank, sample_position, doc, tokens from, to."""

    def sample_losses(self, step: int) -> pa.Table:
        """Return one row per sample: step, piece, rank, sample, loss."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentWindow:
    """Steps `first`..`last` of an incident, the documents in them and in the control windows."""

    first: int
    last: int
    docs: tuple[int, ...]
    controls: tuple[int, ...]

    @property
    def alone(self) -> tuple[int, ...]:
        """The documents of the window that fed no control window as well."""
        return tuple(sorted(set(self.docs).difference(self.controls)))


def incident_window(incident: Incident) -> IncidentWindow:
    """Return the window that `incident identify` stored.

    Raises:
        IncidentError: the incident has not been identified yet.
    """
    window = incident.evidence(incident.require("identify"), "window")
    return IncidentWindow(
        first=int(window["first"]),
        last=int(window["last"]),
        docs=tuple(int(doc) for doc in window["documents"]["doc"]),
        controls=tuple(int(doc) for doc in window["control_documents"]),
    )


def culprits(incident: Incident, manifest: Manifest) -> tuple[int, ...]:
    """Return the window's suspects that crossed the line: the attached ones, else a fresh triage.

    Raises:
        IncidentError: the incident has not been identified, or nothing in it is suspect.
    """
    attached = incident.attached("suspects")
    if attached is not None:
        suspects = attached["suspects"]
        crossed = {int(s["doc"]) for s in suspects if s.get("verdict", s["score"] >= DECISIVE)}
    else:
        window = incident_window(incident)
        crossed = {s.doc for s in triage(manifest, window.alone, window.controls) if s.verdict}
    found = tuple(sorted(crossed))
    if not found:
        raise IncidentError(
            f"no document of {incident.id} crossed the line, so there is nothing to search for; "
            "name documents with --docs"
        )
    return found


def document_losses(ledger: LossSource, first: int, last: int) -> Mapping[int, float]:
    """Return the highest loss of a sample that each document of the steps was in, where known.

    The losses of a rank stand in the order in which its samples were delivered.
    """
    losses: dict[int, float] = {}
    for step in range(first, last + 1):
        known = {
            (row["rank"], row["sample"]): row["loss"]
            for row in ledger.sample_losses(step).to_pylist()
        }
        if known:
            _add_losses(losses, known, ledger.step_documents(step).to_pylist())
    return losses


def _add_losses(
    losses: dict[int, float],
    known: Mapping[tuple[int, int], float],
    rows: list[dict[str, int]],
) -> None:
    order: dict[int, dict[int, int]] = {}
    for row in rows:
        samples = order.setdefault(row["rank"], {})
        sample = samples.setdefault(row["sample_position"], len(samples))
        loss = known.get((row["rank"], sample))
        if loss is not None:
            losses[row["doc"]] = max(loss, losses.get(row["doc"], loss))
