"""Passed counts on disk, beside the revision that they are of; one file for a plan and an epoch.

The counts are an aid: a file that is missing, damaged or of something else is left aside with a
log line, and the loader counts or estimates instead.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path

from .errors import FormatError, IntegrityError
from .files import write_atomic
from .formats import canonical_json, parse_json
from .passed import CountsReader, PassedCounts, no_counts
from .revision import Revision
from .revision_store import DIRECTORY

LOG = logging.getLogger(__name__)


def passed_path(run: Path, revision: Revision, plan_id: str, epoch: int) -> Path:
    """Return where the counts of `revision` for an epoch of a plan lie."""
    return run / DIRECTORY / "passed" / f"{revision.name}-{plan_id[:12]}-e{epoch}.json"


def publish_passed(run: Path, revision: Revision, counts: PassedCounts) -> Path:
    """Write `counts` and return the path.

    The content follows from the name: what is there is the same, or damaged and put right.
    """
    path = passed_path(run, revision, counts.plan_id, counts.epoch)
    write_atomic(path, canonical_json(counts.to_json()) + b"\n")
    return path


def load_passed(run: Path, revision: Revision, plan_id: str, epoch: int) -> PassedCounts | None:
    """Return the stored counts, or None where there are none that can be trusted."""
    path = passed_path(run, revision, plan_id, epoch)
    try:
        counts = PassedCounts.from_json(
            parse_json(path.read_bytes(), where=str(path)), where=str(path)
        )
    except FileNotFoundError:
        return None
    except (FormatError, IntegrityError, OSError) as error:
        LOG.warning("passed counts are left aside, steps are counted without them: %s", error)
        return None
    if (counts.revision, counts.plan_id, counts.epoch) != (revision.digest, plan_id, epoch):
        LOG.warning(
            "%s holds the counts of revision %s, plan %s, epoch %d and is left aside",
            path,
            counts.revision[:12],
            counts.plan_id[:12],
            counts.epoch,
        )
        return None
    return counts


def counts_reader(revision: Revision, plan_id: str) -> CountsReader:
    """Return what reads the counts of `revision` from where it was loaded, each epoch once."""
    if revision.home is None:
        return no_counts
    run = Path(revision.home)

    @lru_cache(maxsize=64)
    def read(epoch: int) -> PassedCounts | None:
        return load_passed(run, revision, plan_id, epoch)

    return read
