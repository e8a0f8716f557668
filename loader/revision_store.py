"""Revisions on disk: published once under a name that holds their digest, read without DuckDB."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .errors import IntegrityError, NotFound
from .files import publish_new
from .formats import canonical_json, parse_json
from .revision import Revision

DIRECTORY = "revisions"


def publish_revision_files(run: Path, revision: Revision) -> Path:
    """Write `revision` under `run` and return the header's path; repeating it changes nothing.

    The payload comes first, so a header that can be seen always has its payload.
    """
    directory = run / DIRECTORY
    publish_new(directory / f"{revision.name}.bin", revision.payload())
    header = directory / f"{revision.name}.json"
    if not header.exists():
        publish_new(header, canonical_json(revision.header()))
    return header


def load_revision(run: Path, number: int, *, manifest: str, digest: str | None = None) -> Revision:
    """Return revision `number` of the run; 0 is the empty revision of `manifest`.

    Raises:
        NotFound: the run has no such revision; the message lists those it has.
        IntegrityError: its digest is not `digest`, or its name is not that of its content.
    """
    if number == 0:
        return Revision(number=0, manifest=manifest)
    found = list_revisions(run)
    if number not in found:
        raise NotFound(
            f"revision {number} is not in {run / DIRECTORY}, which has {sorted(found) or 'none'}; "
            "name one of those, or restore the file"
        )
    header = found[number]
    revision = Revision.parse(
        parse_json(header.read_bytes(), where=str(header)),
        _payload(header.with_suffix(".bin")),
        where=str(header),
    )
    expected = header.stem if digest is None else f"{number:06d}-{digest[:12]}"
    if revision.name != expected or (digest is not None and revision.digest != digest):
        raise IntegrityError(
            f"{header} has digest {revision.digest}, expected {digest or expected}; "
            "the file was changed after publishing, so restore it from a copy"
        )
    return replace(revision, home=str(run))


def list_revisions(run: Path) -> dict[int, Path]:
    """Return the header path of every published revision by number.

    Raises:
        IntegrityError: two revisions bear one number.
    """
    found: dict[int, Path] = {}
    for path in sorted((run / DIRECTORY).glob("[0-9]*-*.json")):
        number = int(path.name.split("-", 1)[0])
        if number in found:
            raise IntegrityError(
                f"{found[number].name} and {path.name} bear one number; "
                "keep the one that the decision log anchors"
            )
        found[number] = path
    return found


def _payload(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise NotFound(
            f"{path} is missing, which holds the documents of the revision; restore it from a copy"
        ) from error
