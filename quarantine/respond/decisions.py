"""The decision log of a run: the authority on what is left out, by whom and why.

`decisions.log` is append-only and hash-chained. Anchors (head digest and count) stored in
revisions and incident events show edits and cuts up to the last anchor. Every read looks at all of
them, and an append at the newest ones and at the lines after them, so a log that is gone or was cut
is never taken for an empty one, and a decision costs the same however long the log is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...loader.errors import DecisionError, FormatError, IntegrityError, MismatchError, NotFound
from ...loader.formats import canonical_json, sha256_hex
from .anchors import Anchor, newest_anchors, read_anchors
from .chain import ChainFile, ChainHead, ChainState, clock_jumps
from .scopes import Scope
from .status import Decision, Entry, live_entries, overlapping

LOG_NAME = "decisions.log"
MOST_LINES = sys.maxsize - 1


class DecisionConflict(DecisionError):
    """Someone decided about the same thing first; `earlier` holds what they decided."""

    def __init__(self, message: str, earlier: Sequence[Entry]) -> None:
        super().__init__(message)
        self.earlier = tuple(earlier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The entry that was written and the earlier decisions it had to take note of."""

    entry: Entry
    earlier: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What checking the log found: anchors that agree, and remarks that are no errors."""

    head: ChainHead
    anchors: int
    remarks: tuple[str, ...]


class DecisionLog:
    """The decisions of the run at `run_path`, made for the corpus with fingerprint `manifest`."""

    def __init__(self, run_path: Path, *, manifest: str = "") -> None:
        self.path = Path(run_path) / LOG_NAME
        self.manifest = manifest
        self._chain = ChainFile(path=self.path, name="shardward.decision")

    def entries(self) -> list[Entry]:
        """Return all decisions, oldest first.

        Raises:
            IntegrityError: the chain is broken, or the log is not the one an anchor saw.
            FormatError: a line is malformed.
        """
        return _entries(self._read(), self.path)

    def head(self) -> ChainHead:
        """Return the anchor of the newest decision, checked as by `append`.

        Raises:
            IntegrityError: the log does not hold what the newest anchors saw.
        """
        anchors = newest_anchors(self.path.parent)
        state = self._chain.read(_since(anchors))
        _check_anchors(state, anchors)
        return state.head

    def entry(self, sequence: int) -> Entry:
        """Return decision number `sequence`, the first being 1."""
        entries = self.entries()
        if not 1 <= sequence <= len(entries):
            known = f"1 to {len(entries)}" if entries else "none"
            raise NotFound(f"there is no decision {sequence}; the log holds {known}")
        return entries[sequence - 1]

    def append(
        self, decision: Decision, *, seen: ChainHead | None = None, now: datetime | None = None
    ) -> Entry:
        """Add `decision` durably and return its entry.

        Args:
            decision: what was decided.
            seen: the head the decider looked at; None accepts whatever is there.
            now: the time to record, by default the present in UTC.

        Raises:
            DecisionConflict: the log has moved on from `seen` about the same thing.
            NotFound: an undo names a decision that does not exist.
            IntegrityError: as `head`; nothing is written.
        """
        anchors = newest_anchors(self.path.parent)

        def build(state: ChainState) -> Mapping[str, Any]:
            _check_anchors(state, anchors)
            self._check(decision, state, seen)
            return _line(decision, self.manifest, now or datetime.now(UTC))

        since = _since(anchors) if seen is None else min(_since(anchors), seen.count + 1)
        return _entry(self._chain.append(build, since=since), self.path)

    def append_once(self, decision: Decision) -> Entry | None:
        """Add `decision` unless its incident decided the very same already and it still holds.

        What was undone, or decided about otherwise since, is decided anew; None when it holds.

        Raises:
            NotFound: as `append`.
        """
        return None if self.standing(decision) is not None else self.append(decision)

    def standing(self, decision: Decision) -> Entry | None:
        """Return the newest entry with the scope, act and incident of `decision` that holds."""
        live = live_entries(self.entries())
        for index, entry in reversed(list(enumerate(live))):
            known = entry.decision
            same = (known.action, known.scope, known.incident) == (
                decision.action,
                decision.scope,
                decision.incident,
            )
            if same and not overlapping(live[index + 1 :], decision.scope):
                return entry
        return None

    def append_after(self, decision: Decision, *, seen: ChainHead | None = None) -> Appended:
        """Add `decision`, taking note of what others decided since `seen`, however often."""
        earlier: list[Entry] = []
        while True:
            try:
                return Appended(entry=self.append(decision, seen=seen), earlier=tuple(earlier))
            except DecisionConflict as conflict:
                earlier += conflict.earlier
                seen = ChainHead(
                    digest=conflict.earlier[-1].digest, count=conflict.earlier[-1].sequence
                )

    def verify(self, anchors: Iterable[Anchor] = ()) -> Verification:
        """Check the whole chain and that every (name, anchor) lies on it.

        Raises:
            IntegrityError: the log was edited, or cut below an anchor.
        """
        state = self._chain.read()
        checked = _check_anchors(state, anchors)
        remarks = clock_jumps(state.lines)
        if state.torn:
            remarks.append(
                f"the last {len(state.torn)} bytes are a line that a crash tore; it was never "
                "acknowledged, and the next decision sets it aside"
            )
        return Verification(head=state.head, anchors=checked, remarks=tuple(remarks))

    def _read(self) -> ChainState:
        anchors = read_anchors(self.path.parent)
        state = self._chain.read()
        _check_anchors(state, anchors)
        return state

    def _check(self, decision: Decision, state: ChainState, seen: ChainHead | None) -> None:
        if decision.action == "undo":
            _check_undo(decision, state.head.count)
        if self.manifest:
            _check_manifest(self.manifest, self._chain.first_line())
        if seen is None or seen == state.head:
            return
        if seen.count and (
            seen.count > state.head.count or state.digest_of(seen.count) != seen.digest
        ):
            raise IntegrityError(
                f"the log at {self.path} no longer holds the head you saw "
                f"({seen.digest[:12]} at {seen.count}); run quarantine log --verify"
            )
        newer = [entry for entry in _entries(state, self.path) if entry.sequence > seen.count]
        newer = overlapping(newer, decision.scope)
        if newer:
            last = newer[-1]
            raise DecisionConflict(
                f"{last.decision.actor} decided {last.decision.action} of "
                f"{last.decision.scope.describe()} ({last.decision.reason}) as number "
                f"{last.sequence} while you looked at number {seen.count}; look again and retry",
                newer,
            )


def log_trouble(run_path: Path) -> str | None:
    """Return in words what is wrong with the decision log of the run at `run_path`, or None.

    For screens that must be shown all the same: it is edited, cut, gone, or no log at all.
    """
    try:
        DecisionLog(run_path).entries()
    except (IntegrityError, FormatError, MismatchError) as error:
        return str(error)
    return None


def entry_json(entry: Entry) -> dict[str, Any]:
    """Return `entry` as the JSON object shown to people and programs."""
    decision = entry.decision
    return {
        "sequence": entry.sequence,
        "time": entry.time,
        "digest": entry.digest,
        "action": decision.action,
        "scope": decision.scope.to_json(),
        "reason": decision.reason,
        "actor": decision.actor,
        "incident": decision.incident,
        "evidence": dict(decision.evidence),
    }


def _line(decision: Decision, manifest: str, now: datetime) -> dict[str, Any]:
    return {
        "time": now.isoformat(timespec="milliseconds"),
        "manifest": manifest,
        "action": decision.action,
        "scope": decision.scope.to_json(),
        "reason": decision.reason,
        "actor": decision.actor,
        "incident": decision.incident,
        "evidence": dict(decision.evidence),
    }


def _entries(state: ChainState, path: Path) -> list[Entry]:
    pairs = zip(state.lines, state.digests, strict=True)
    return [_entry(line, path, digest) for line, digest in pairs]


def _entry(line: Mapping[str, Any], path: Path, digest: str | None = None) -> Entry:
    try:
        decision = Decision(
            action=line["action"],
            scope=Scope.from_json(line["scope"]),
            reason=line["reason"],
            actor=line["actor"],
            incident=line.get("incident"),
            evidence=line.get("evidence") or {},
        )
        return Entry(
            sequence=line["sequence"],
            time=line["time"],
            digest=digest or sha256_hex(canonical_json(line)),
            manifest=line.get("manifest", ""),
            decision=decision,
        )
    except (KeyError, TypeError, AttributeError, DecisionError) as error:
        raise FormatError(
            f"{path} line {line.get('sequence')} is no decision ({error}); restore the "
            "log from a copy"
        ) from error


def _check_undo(decision: Decision, count: int) -> None:
    target = int(decision.scope.value)
    if not 1 <= target <= count:
        raise NotFound(f"there is no decision {target} to undo; the log holds 1 to {count}")


def _since(anchors: Iterable[Anchor]) -> int:
    """Return the first line to read so that all `anchors` can be checked."""
    return 1 + min((anchor.count for _, anchor in anchors if anchor.count), default=MOST_LINES)


def _check_manifest(manifest: str, line: Mapping[str, Any] | None) -> None:
    first = manifest if line is None else line.get("manifest")
    if first and first != manifest:
        raise DecisionError(
            f"the log's decisions are about corpus {str(first)[:12]}, this one is about "
            f"{manifest[:12]}; ordinals mean other documents there, so start a run of its own"
        )


def _check_anchors(state: ChainState, anchors: Iterable[Anchor]) -> int:
    """Refuse a log that an anchor contradicts; return how many agree."""
    checked = 0
    for name, anchor in anchors:
        _check_anchor(state, name, anchor)
        checked += 1
    return checked


def _check_anchor(state: ChainState, name: str, anchor: ChainHead) -> None:
    if anchor.count == 0:
        return
    if anchor.count > state.head.count:
        raise IntegrityError(
            f"{name} was made when the log held {anchor.count} decisions, it now holds "
            f"{state.head.count or 'none'}; lines were cut off or the file is gone, restore "
            f"{LOG_NAME} from a copy"
        )
    found = state.digest_of(anchor.count)
    if found != anchor.digest:
        raise IntegrityError(
            f"{name} anchors decision {anchor.count} as {anchor.digest[:12]}, the log has "
            f"{found[:12]}; the log was edited, restore {LOG_NAME} from a copy"
        )
