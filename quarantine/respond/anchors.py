"""Where a run keeps the head of its decision log outside the log: its anchors.

Every published revision and every event of an incident holds the head (digest and count) that the
log had at the time. Read them before the log: it only grows, so it is never behind an older anchor.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...loader.errors import FormatError, MismatchError
from ...loader.formats import check_format, parse_json
from ...loader.revision import FORMAT, VERSION
from ...loader.revision_store import list_revisions
from .chain import ChainFile, ChainHead

Anchor = tuple[str, ChainHead]


def event_chain(incident: Path) -> ChainFile:
    """Return the event log of the incident in the directory `incident`."""
    return ChainFile(path=incident / "events.log", name="shardward.incident-event")


def read_anchors(run_path: Path) -> list[Anchor]:
    """Return (name, head of the decision log) of every incident's events and every revision.

    Raises:
        IntegrityError: an event log was edited, or two revisions bear one number.
        FormatError: an event or a revision is malformed.
        MismatchError: a revision is of another corpus than the run.
    """
    return [*_of_incidents(run_path), *_of_revisions(run_path)]


def newest_anchors(run_path: Path) -> list[Anchor]:
    """Return those with the most decisions of what `read_anchors` returns.

    Only the newest event of each incident and the newest revision are read for it, since the log
    only grows. Errors as in `read_anchors`, as far as these are concerned.
    """
    found = [
        *_of_incidents(run_path, newest=True),
        *_of_revisions(run_path, newest=True),
    ]
    most = max((anchor.count for _, anchor in found), default=0)
    return [(name, anchor) for name, anchor in found if anchor.count == most]


def _of_incidents(run_path: Path, *, newest: bool = False) -> Iterator[Anchor]:
    for path in sorted((run_path / "incidents").glob("INC-*/events.log")):
        incident = path.parent
        lines = event_chain(incident).read(sys.maxsize if newest else 1).lines
        for line in lines[-1:] if newest else lines:
            where = f"{incident.name} {line.get('act')}"
            yield where, _head(line, where, path)


def _of_revisions(run_path: Path, *, newest: bool = False) -> Iterator[Anchor]:
    published = sorted(list_revisions(run_path).items())
    for number, path in published[-1:] if newest else published:
        header = parse_json(path.read_bytes(), where=str(path))
        check_format(header, name=FORMAT, version=VERSION, where=str(path))
        _check_corpus(run_path, path, number, header.get("manifest"))
        yield f"revision {number}", _head(header, f"revision {number}", path)


def _check_corpus(run_path: Path, path: Path, number: int, manifest: object) -> None:
    """Refuse a revision of another run's corpus: it says nothing about this run's log."""
    known = run_path / "run.json"
    if not known.exists():
        return
    mine = parse_json(known.read_bytes(), where=str(known)).get("fingerprint")
    if mine is not None and mine != manifest:
        raise MismatchError(
            f"revision {number} is for corpus {str(manifest)[:12]}, the run is of corpus "
            f"{str(mine)[:12]}; {path} came from another run: move it away, and publish again"
        )


def _head(holder: Mapping[str, Any], name: str, path: Path) -> ChainHead:
    try:
        anchor = holder["decisions"]
        return ChainHead(digest=str(anchor["head"]), count=int(anchor["count"]))
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{name} in {path} holds no head of the decision log ({error}); restore it from a copy"
        ) from error
