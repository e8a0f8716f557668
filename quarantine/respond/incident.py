"""Incidents on disk: one directory each, a chained event log and the evidence of every step.

Evidence files are published under content-addressed names before the event that cites them, so
a crash between the two leaves at most an unused file, and doing the step again is safe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...loader.errors import FormatError, IncidentError, IntegrityError, NotFound
from ...loader.files import exclusive_lock, publish_new, sync_directory
from ...loader.formats import canonical_json, parse_json, sha256_hex
from ...loader.head import read_heads
from ...loader.records import finite_json
from .anchors import event_chain
from .chain import ChainState
from .decisions import DecisionLog
from .machine import Case, check, fold

DIRECTORY = "incidents"
MOST_LINKS = 5
UNBORN = {"evidence", "events.log", "events.log.lock"}
"""What a full disk or a crash may leave of an incident that was not opened."""
_NAME = re.compile(r"INC-\d{4,}\Z")
_STEM = re.compile(r"[a-z][a-z0-9-]*\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One act: when, by whom, a small `summary`, and the evidence files with their digests."""

    sequence: int
    act: str
    time: str
    actor: str
    round: int
    summary: Mapping[str, Any]
    evidence: Mapping[str, Mapping[str, str]]
    decisions: Mapping[str, Any]


class Incident:
    """One incident; every method looks at the disk, so a crash or another process is no matter.

    The event log is read again only when its file has changed.
    """

    def __init__(self, run_path: Path, incident_id: str) -> None:
        if not _NAME.match(incident_id):
            raise NotFound(f"{incident_id!r} is no incident id; ids look like INC-0001")
        self.id = incident_id
        self.run_path = Path(run_path)
        self.path = self.run_path / DIRECTORY / incident_id
        self._chain = event_chain(self.path)
        self._known: tuple[tuple[int, int, int], list[Event]] | None = None

    def exists(self) -> bool:
        """Whether the incident was opened: a crash may leave its directory and an empty log."""
        return self._chain.first_line() is not None

    def events(self) -> list[Event]:
        """Return all events, oldest first.

        Raises:
            NotFound: there is no such incident.
            IntegrityError: the event log was edited.
        """
        try:
            status = self._chain.path.stat()
        except FileNotFoundError:
            raise self._unknown() from None
        version = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._known is None or self._known[0] != version:
            self._known = (version, _events(self._chain.read(), self.path))
        if not self._known[1]:
            raise self._unknown()
        return list(self._known[1])

    def _unknown(self) -> NotFound:
        return NotFound(f"there is no incident {self.id} in {self.run_path}; see incident list")

    def case(self) -> Case:
        """Return where the incident stands."""
        return fold(e.act for e in self.events())

    def opening(self) -> Event:
        """Return the newest event that says where the spike is.

        That is `open`, or a `reopen` that named another onset; its summary has kind, onset,
        detected and, where it is known, the branch `piece` that spiked.
        """
        events = self.events()
        named = [e for e in events if e.act in ("open", "reopen") and "onset" in e.summary]
        return named[-1] if named else events[0]

    def last(self, act: str) -> Event | None:
        """Return the newest `act` of the present round, or None."""
        events = self.events()
        current = events[-1].round
        hits = [e for e in events if e.act == act and e.round == current]
        return hits[-1] if hits else None

    def require(self, act: str) -> Event:
        """Return the newest `act` of the present round.

        Raises:
            IncidentError: it has not been done.
        """
        event = self.last(act)
        if event is None:
            raise IncidentError(f"{self.id} has no {act} yet; run {act} first")
        return event

    def check(self, act: str) -> None:
        """Refuse `act` now if it is out of order (IncidentError)."""
        check(self.case(), act)

    def store(self, stem: str, content: bytes, suffix: str = ".json") -> dict[str, str]:
        """Publish one evidence file and return its name and digest."""
        if not _STEM.match(stem):
            raise IncidentError(f"evidence cannot be called {stem!r}; use a-z, 0-9 and dashes")
        digest = sha256_hex(content)
        name = f"evidence/{stem}-{digest[:12]}{suffix}"
        publish_new(self.path / name, content)
        return {"path": name, "sha256": digest}

    def record(
        self,
        act: str,
        *,
        actor: str,
        summary: Mapping[str, Any] | None = None,
        evidence: Mapping[str, object] | None = None,
        files: Mapping[str, Mapping[str, str]] | None = None,
        now: datetime | None = None,
    ) -> Event:
        """Store `evidence` (JSON values by name), then append the event.

        Raises:
            IncidentError: the act is out of order, or has no actor.
        """
        if not actor.strip():
            raise IncidentError(f"{act} of {self.id} needs an actor")
        self.path.mkdir(parents=True, exist_ok=True)
        stored = dict(files or {})
        for name, value in (evidence or {}).items():
            stored[name] = self.store(name, canonical_json(finite_json(value)))
        anchor = DecisionLog(self.run_path).head()

        def build(state: ChainState) -> Mapping[str, Any]:
            case = fold(line["act"] for line in state.lines)
            check(case, act)
            return {
                "act": act,
                "time": (now or datetime.now(UTC)).isoformat(timespec="milliseconds"),
                "actor": actor,
                "round": case.round + (act == "reopen"),
                "summary": dict(summary or {}),
                "evidence": stored,
                "decisions": anchor.to_json(),
            }

        return _event(self._chain.append(build), self.path)

    def attach(self, name: str, value: Mapping[str, Any], *, actor: str, what: str = "") -> Event:
        """Store `value` beside the steps (suspects, causes, proof, …); no state changes.

        `what` says in words what it holds, where a timeline should.
        """
        summary = {"name": name, "what": what} if what else {"name": name}
        return self.record("note", actor=actor, summary=summary, evidence={name: value})

    def attached(self, name: str) -> dict[str, Any] | None:
        """Return the newest value attached under `name`, or None."""
        for event in reversed(self.events()):
            if event.act == "note" and event.summary.get("name") == name:
                return self.evidence(event, name)
        return None

    def evidence(self, event: Event, name: str) -> dict[str, Any]:
        """Return the JSON evidence `name` of `event`.

        Raises:
            NotFound: the event has no such evidence, or the file is gone.
            IntegrityError: the file differs from what the event recorded.
        """
        return parse_json(self.evidence_bytes(event, name), where=f"{self.id} {event.act} {name}")

    def evidence_bytes(self, event: Event, name: str) -> bytes:
        """Return the bytes of an evidence file; errors as in `evidence`."""
        if name not in event.evidence:
            raise NotFound(f"{event.act} of {self.id} stored no {name!r}")
        entry = event.evidence[name]
        path = self.path / entry["path"]
        if not path.is_file():
            raise NotFound(f"{path}, cited by {event.act} of {self.id}, is gone; restore it")
        data = path.read_bytes()
        if sha256_hex(data) != entry["sha256"]:
            raise IntegrityError(
                f"{path} has digest {sha256_hex(data)[:12]}, {self.id} recorded "
                f"{entry['sha256'][:12]}; the evidence was edited, restore it from a copy"
            )
        return data


class IncidentStore:
    """All incidents of the run at `run_path`."""

    def __init__(self, run_path: Path) -> None:
        self.run_path = Path(run_path)

    def ids(self) -> list[str]:
        """Return the ids, oldest first."""
        home = self.run_path / DIRECTORY
        if not home.is_dir():
            return []
        found = [p.name for p in home.iterdir() if _NAME.match(p.name)]
        return [n for n in sorted(found, key=_number) if Incident(self.run_path, n).exists()]

    def all(self) -> list[Incident]:
        """Return the incidents, oldest first."""
        return [Incident(self.run_path, n) for n in self.ids()]

    def get(self, incident_id: str) -> Incident:
        """Return one incident; NotFound says which ids there are."""
        incident = Incident(self.run_path, incident_id)
        if not incident.exists():
            known = ", ".join(self.ids()) or "none"
            raise NotFound(
                f"there is no incident {incident_id} in {self.run_path} (known: {known})"
            )
        return incident

    def open(
        self,
        *,
        onset: int,
        detected: int,
        actor: str,
        kind: str = "spike",
        event: Mapping[str, object] | None = None,
        context: Mapping[str, object] | None = None,
        separate: bool = False,
        near: int = 10,
        now: datetime | None = None,
    ) -> Incident:
        """Open a new incident for the spike that began at step `onset`.

        Raises:
            IncidentError: an open incident covers that spike already and `separate` is false.
        """
        check_steps(onset, detected)
        with exclusive_lock(self.run_path / "incidents.lock"):
            if not separate:
                self._refuse_twin(onset, detected, near)
            taken = [_number(p) for p in self._directories()]
            incident = Incident(self.run_path, f"INC-{max(taken, default=0) + 1:04d}")
            incident.path.mkdir(parents=True, exist_ok=True)
            sync_directory(incident.path.parent)
            incident.record(
                "open",
                actor=actor,
                summary={
                    "kind": kind,
                    "onset": onset,
                    "detected": detected,
                    **_where(self.run_path),
                    "earlier": [i.id for i in self.all() if i.id != incident.id][-MOST_LINKS:],
                },
                evidence={"event": dict(event or {}), "context": dict(context or {})},
                now=now,
            )
        return incident

    def _directories(self) -> list[str]:
        """Return the ids that are taken; not those of a crash before the incident was opened."""
        home = self.run_path / DIRECTORY
        found = [p for p in home.iterdir() if _NAME.match(p.name)] if home.is_dir() else []
        return [p.name for p in found if self._taken(p)]

    def _taken(self, path: Path) -> bool:
        if Incident(self.run_path, path.name).exists():
            return True
        return bool({each.name for each in path.iterdir()} - UNBORN)

    def _refuse_twin(self, onset: int, detected: int, near: int) -> None:
        for incident in self.all():
            opened = incident.opening().summary
            self._refuse_watched(incident, onset)
            apart = max(opened["onset"] - detected, onset - opened["detected"])
            if apart <= near and not incident.case().closed:
                raise IncidentError(
                    f"{incident.id} is open on the spike at steps {opened['onset']} to "
                    f"{opened['detected']}, and steps {onset} to {detected} lie within {near} of "
                    "it; go on with that one, or open a separate incident explicitly"
                )

    def _refuse_watched(self, incident: Incident, onset: int) -> None:
        """A spike inside a watch is a recurrence of the incident that is watched."""
        if incident.case().state != "resumed":
            return
        plan = incident.evidence(incident.require("resume"), "orders")["watch"]
        if plan and plan["first"] <= onset <= plan["last"]:
            raise IncidentError(
                f"step {onset} lies in the watch of {incident.id} (steps {plan['first']} to "
                f"{plan['last']}), so this is a recurrence: run incident watch {incident.id}, "
                "which reopens it, or open a separate incident explicitly"
            )


def check_steps(onset: int, detected: int) -> None:
    """Refuse steps that no spike can have (IncidentError)."""
    if not 1 <= onset <= detected:
        raise IncidentError(
            f"onset {onset} and detection {detected} do not fit: steps start at 1 and "
            "detection cannot come before the onset"
        )


def head_piece(run_path: Path) -> int | None:
    """Return the branch piece that the run's head stands in, or None before the first."""
    heads = read_heads(run_path / "head.log")
    return heads[-1].piece if heads else None


def _where(run_path: Path) -> dict[str, int]:
    piece = head_piece(run_path)
    return {} if piece is None else {"piece": piece}


def _number(name: str) -> int:
    return int(name.removeprefix("INC-"))


def _events(state: ChainState, path: Path) -> list[Event]:
    return [_event(line, path) for line in state.lines]


def _event(line: Mapping[str, Any], path: Path) -> Event:
    try:
        return Event(
            sequence=line["sequence"],
            act=line["act"],
            time=line["time"],
            actor=line["actor"],
            round=line["round"],
            summary=line["summary"],
            evidence=line["evidence"],
            decisions=line["decisions"],
        )
    except KeyError as error:
        raise FormatError(f"{path}/events.log has an event without {error}") from error
