"""Revisions on an object store, for trainers that start on another machine.

Names hold the digest of their content, so a name is only ever written with one content, whoever
writes it first; the payload goes first, so a header that can be seen has its payload. Nothing is
listed, and what is read is checked.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ...loader.errors import IntegrityError, NotFound
from ...loader.formats import canonical_json, parse_json
from ...loader.journal_store import ObjectStore
from ...loader.revision import Revision
from ...loader.revision_store import DIRECTORY, load_revision, publish_revision_files


def push_revision(revision: Revision, url: str) -> str:
    """Put `revision` under `url` and return its address; repeating is harmless.

    Raises:
        IntegrityError: the store holds other bytes under the name, or lost some on the way.
        UsageError: the URL cannot be opened.
    """
    store, name = ObjectStore(url), f"{DIRECTORY}/{revision.name}"
    store.put_new(f"{name}.bin", revision.payload())
    # Headers of one digest differ in the time of publishing; the first stays.
    with suppress(IntegrityError):
        store.put_new(f"{name}.json", canonical_json(revision.header()))
    if _read(store, name, revision.number).digest != revision.digest:
        raise IntegrityError(f"{url}/{name} is another revision; push to a place of its own")
    return f"{url.rstrip('/')}/{name}.json"


def pull_revision(url: str, number: int, run_path: Path, *, manifest: str, digest: str) -> Revision:
    """Fetch the revision that a cursor names into the run directory and return it.

    Args:
        url: where `push_revision` put it.
        number: of the revision, as the cursor names it.
        run_path: local run directory, where the loader looks.
        manifest: fingerprint the revision must be for.
        digest: that the cursor names.

    Raises:
        NotFound: the store has no such revision.
        IntegrityError: its content is not what its name or `digest` says.
        UsageError: the URL cannot be opened.
    """
    if number:
        name = f"{DIRECTORY}/{number:06d}-{digest[:12]}"
        publish_revision_files(run_path, _read(ObjectStore(url), name, number))
    return load_revision(run_path, number, manifest=manifest, digest=digest if number else None)


def _read(store: ObjectStore, name: str, number: int) -> Revision:
    header, payload = store.get(f"{name}.json"), store.get(f"{name}.bin")
    if header is None or payload is None:
        lacks = "json" if header is None else "bin"
        raise NotFound(
            f"{store.url} has no {name}.{lacks}, so no such revision {number}; push the one that "
            "the cursor names, from the run that published it"
        )
    where = f"{store.url}/{name}"
    revision = Revision.parse(parse_json(header, where=where), payload, where=where)
    if revision.name != name.rpartition("/")[2]:
        raise IntegrityError(
            f"{where} holds revision {revision.name}; it was changed on the store, push it again"
        )
    return revision
