"""Writers of one run that decide, publish and push, in processes that may be killed.

Run as `helpers_publishing.py write RUN MANIFEST URL NAME FIRST COUNT` it decides about COUNT
documents from FIRST on, publishing after each. As `… kill RUN MANIFEST URL SEED COUNT` it forks
such a writer once to the end, and COUNT times to kill it after a random part of what that took.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import helpers_object_store  # noqa: F401  (registers the store's driver)

from shardward.loader.manifest import Manifest
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.mirror import push_revision
from shardward.quarantine.respond.revisions import publish_revision
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision

SHORTEST = 0.4


def write(run: Path, manifest: Manifest, url: str, name: str, docs: Iterable[int]) -> None:
    log = DecisionLog(run, manifest=manifest.fingerprint)
    for doc in docs:
        scope = Scope.of_documents([doc])
        log.append_after(
            Decision(action="quarantine", scope=scope, reason=f"{name} {doc}", actor=name)
        )
        push_revision(publish_revision(run, manifest), url)


def kill(run: Path, manifest: Manifest, url: str, seed: int, count: int) -> None:
    chance = random.Random(seed)
    begun = time.monotonic()
    os.waitpid(_life(run, manifest, url, 0), 0)
    longest = max(SHORTEST, time.monotonic() - begun)
    for number in range(1, count + 1):
        child = _life(run, manifest, url, number)
        time.sleep(chance.uniform(0, longest))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _life(run: Path, manifest: Manifest, url: str, number: int) -> int:
    """Return the pid of a fork that decides about three documents and ends."""
    child = os.fork()
    if not child:
        done = len(DecisionLog(run).entries())
        docs = [(done + more) % manifest.documents_count for more in range(3)]
        write(run, manifest, url, f"life {number}", docs)
        os._exit(0)
    return child


if __name__ == "__main__":
    what, run, manifest, url, name, *numbers = sys.argv[1:]
    if what == "write":
        first, count = map(int, numbers)
        write(Path(run), Manifest.load(Path(manifest)), url, name, range(first, first + count))
    else:
        kill(Path(run), Manifest.load(Path(manifest)), url, int(name), int(numbers[0]))
