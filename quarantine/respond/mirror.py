"""Revisions on an object store, for trainers that start on another machine.

Names hold the digest of their content, so a name is only ever written with one content; the
payload goes first, so a header that can be seen has its payload. What is read is checked.
"""

from __future__ import annotations

from pathlib import Path

import fsspec

from ...loader.errors import IntegrityError, NotFound
from ...loader.formats import canonical_json, parse_json
from ...loader.revision import Revision
from ...loader.revision_store import DIRECTORY, load_revision, publish_revision_files


def push_revision(revision: Revision, url: str) -> str:
    """Put `revision` under `url` and return the address of its header; repeating is harmless.

    Raises:
        IntegrityError: the store holds other bytes under the name, or lost some on the way.
    """
    system, root = fsspec.core.url_to_fs(url)
    home = f"{root.rstrip('/')}/{DIRECTORY}"
    system.makedirs(home, exist_ok=True)
    header = f"{home}/{revision.name}.json"
    _put(system, f"{home}/{revision.name}.bin", revision.payload())
    if not system.exists(header):
        _put(system, header, canonical_json(revision.header()))
    return header


def pull_revision(
    url: str, number: int, run_path: Path, *, manifest: str, digest: str | None = None
) -> Revision:
    """Fetch revision `number` into the run directory and return it.

    Args:
        url: where `push_revision` put it.
        number: of the revision, as a cursor names it.
        run_path: local run directory, where the loader looks.
        manifest: fingerprint the revision must be for.
        digest: that the cursor names.

    Raises:
        NotFound: the store has no such revision.
        IntegrityError: its content is not what its name or `digest` says.
    """
    system, root = fsspec.core.url_to_fs(url)
    pattern = f"{root.rstrip('/')}/{DIRECTORY}/{number:06d}-{(digest or '')[:12]}*.json"
    found = sorted(system.glob(pattern))
    if len(found) != 1:
        raise NotFound(
            f"{url} has {len(found)} revisions numbered {number}"
            + (f" with digest {digest[:12]}" if digest else "")
            + "; push the one the cursor names"
        )
    name = str(found[0])
    header = parse_json(system.cat_file(name), where=name)
    payload = system.cat_file(name.removesuffix(".json") + ".bin")
    revision = Revision.parse(header, payload, where=name)
    if revision.name != name.rpartition("/")[2].removesuffix(".json"):
        raise IntegrityError(
            f"{name} holds revision {revision.name}; it was changed on the store, push it again"
        )
    publish_revision_files(run_path, revision)
    return load_revision(run_path, number, manifest=manifest, digest=digest)


def _put(system: fsspec.AbstractFileSystem, name: str, data: bytes) -> None:
    if not system.exists(name):
        system.pipe_file(name, data)
    if system.cat_file(name) != data:
        raise IntegrityError(
            f"{name} holds other bytes than were put there; the store lost or changed them"
        )
