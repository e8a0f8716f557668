"""What a loader checks before it opens anything: that all parts belong together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np

from .blocks import token_dtype
from .cursor import Cursor, Mode
from .errors import MismatchError, NotFound, ShardwardError, UsageError
from .manifest import Manifest
from .order import EpochOrder, Layout
from .pieces import REASONS
from .plan import Plan
from .revision import Revision
from .revision_store import load_revision
from .run import Run
from .steps import StepSource
from .walk import EpochEnd, Place, Walker

WINDOWS_IN_MEMORY = 2
CHOICES = {
    "mode": get_args(Mode),
    "end": get_args(EpochEnd),
    "record": ("documents", "runs"),
    "reason": REASONS,
    "on_corrupt": ("stop", "hold"),
}
"""Values of the loader's options; a misspelt one must not pass for another."""
_NEW_STAGE = (
    "start a new run for it that leaves out what the old one was fed: "
    "shardward quarantine consumed OLD_RUN --run NEW_RUN"
)
DOCUMENT_BYTES = 300
"""What a window keeps of each document besides its tokens: order, lengths, views, segments."""


def check_plan(manifest: Manifest, plan: Plan, run: Run | None) -> None:
    """Refuse a plan of another manifest or another run, and special tokens out of range.

    Raises:
        MismatchError: naming both values and the remedy.
    """
    if plan.fingerprint != manifest.fingerprint:
        raise MismatchError(
            f"the plan is for manifest {plan.fingerprint[:12]}, this is manifest "
            f"{manifest.fingerprint[:12]}; a corpus that gained or lost a shard is a new manifest: "
            f"load the old one, or make a new plan and {_NEW_STAGE}"
        )
    if run is not None and run.plan_id != plan.plan_id:
        raise MismatchError(
            f"the run was created for plan {run.plan_id[:12]}, this plan is {plan.plan_id[:12]}"
            f"{_differences(run.plan(), plan)}; use run.plan(), or {_NEW_STAGE}"
        )
    vocabulary = manifest.header.tokenizer.vocabulary
    for name, token in (("separator", plan.separator), ("pad", plan.pad)):
        if token is not None and token >= vocabulary:
            raise MismatchError(
                f"the plan's {name} is token {token}, the manifest's vocabulary has {vocabulary} "
                "ids; use the tokenizer's own, manifest.header.tokenizer"
            )


def check_amounts(prefetch_bytes: int, stall_seconds: float, patience: float) -> None:
    """Refuse amounts with which a loader would wait, or warn, for ever.

    Raises:
        UsageError: naming the option and its value.
    """
    if prefetch_bytes < 0:
        raise UsageError(
            f"prefetch_bytes is {prefetch_bytes}; say 0 for one step at a time, or more"
        )
    if not stall_seconds > 0:
        raise UsageError(
            f"stall_seconds is {stall_seconds}; say more than 0, or inf for no warning"
        )
    if not patience >= 0:
        raise UsageError(f"patience is {patience}; say 0 for no wait, or more")


def left_over(walker: Walker, cursor: Cursor) -> int:
    """Return how many samples are left at `cursor`, after which no step came.

    Raises:
        ShardwardError: the plan has more steps.
    """
    if walker.take(Place(cursor.step, cursor.epoch, cursor.position)) is not None:
        raise ShardwardError(
            f"no step came after step {cursor.step}, and the last epoch has not ended: the loader "
            "was closed meanwhile, or its worker was killed; make a new one from the last "
            "checkpoint"
        )
    return walker.count(cursor.epoch, cursor.position)


def check_source(source: StepSource, loaded: Cursor, **named: str | None) -> None:
    """Refuse options and sizes that do not go together, before anything is opened.

    Raises:
        UsageError, TopologyError, MismatchError: naming what does not fit, and the remedy.
    """
    check_options(
        threads=source.threads,
        epochs=source.epochs,
        mode=source.mode,
        end=source.end,
        record=source.record,
        **named,
    )
    for size in source.schedule.sizes():
        source.topology.check(size, source.micros)
    check_window_bytes(source.layout, source.manifest, source.window_bytes)
    check_place(loaded, source.walker().order(loaded.epoch), source.epochs)


def check_options(*, threads: int, epochs: int | None, **named: str | None) -> None:
    """Refuse options that mean nothing; None leaves a named one to its default.

    Raises:
        UsageError: naming the option, its value and what may be said.
    """
    for name, value in named.items():
        if value is not None and value not in CHOICES[name]:
            raise UsageError(f"{name} is {value!r}; say one of {', '.join(CHOICES[name])}")
    if threads < 0:
        raise UsageError(f"threads is {threads}; say 0 to read in the calling thread, or more")
    if epochs is not None and epochs < 1:
        raise UsageError(f"epochs is {epochs}; say 1 or more, or None for no end")


def check_window_bytes(layout: Layout, manifest: Manifest, limit: int | None) -> None:
    """Refuse a plan whose windows do not fit in memory; None is no limit.

    Raises:
        UsageError: naming the need, the limit and both remedies.
    """
    size, blocks = layout.plan.window_blocks, layout.block_stream.size
    largest = np.sort(layout.block_stream)[max(0, blocks - size) :]
    item = token_dtype(manifest.header.tokenizer.vocabulary).itemsize
    documents = np.sort(layout.block_documents)[max(0, blocks - size) :]
    one = int(largest.sum()) * item + int(documents.sum()) * DOCUMENT_BYTES
    need = one * WINDOWS_IN_MEMORY
    if limit is not None and need > limit:
        smaller = "plan a smaller window_blocks" if size > 1 else "write shards with smaller blocks"
        raise UsageError(
            f"windows of {size} blocks may take {need} bytes, {WINDOWS_IN_MEMORY} of them at a "
            f"time, the limit is {limit}; {smaller}, or raise window_bytes"
        )


def check_place(cursor: Cursor, order: EpochOrder, epochs: int | None) -> None:
    """Refuse a cursor that stands behind the end of its epoch, or after the last epoch.

    Raises:
        MismatchError: naming both positions, or epochs.
    """
    if cursor.position > order.positions:
        raise MismatchError(
            f"the cursor stands at position {cursor.position} of epoch {cursor.epoch}, which has "
            f"{order.positions}; the cursor was edited, load it from the checkpoint again"
        )
    if epochs is not None and cursor.epoch >= epochs:
        raise MismatchError(
            f"the cursor stands in epoch {cursor.epoch}, the first being 0, and the loader is to "
            f"end after {epochs}; ask for more epochs"
        )


def load_cursor(cursor: Cursor | Mapping[str, Any] | None, plan: Plan) -> Cursor:
    """Return the cursor to start from; None is the beginning of the plan.

    Raises:
        MismatchError: it is of another plan.
        FormatError: malformed, or of an unknown version.
    """
    if cursor is None:
        return Cursor(plan_id=plan.plan_id)
    loaded = cursor if isinstance(cursor, Cursor) else Cursor.from_json(cursor)
    if loaded.plan_id != plan.plan_id:
        raise MismatchError(
            f"the cursor is of plan {loaded.plan_id[:12]}, the loader's plan is "
            f"{plan.plan_id[:12]}; load it with its own plan, or {_NEW_STAGE}"
        )
    return loaded


def check_tombstones(manifest: Manifest, revision: Revision) -> None:
    """Refuse a rebuilt corpus under a revision that still trains on what was removed from it.

    Raises:
        MismatchError: naming the first such document and the remedy.
    """
    gone, left_out = manifest.tombstones, revision.documents
    # Both are in order; a set difference would hash a million excluded documents at each start.
    first, after = (np.searchsorted(left_out, gone, side) for side in ("left", "right"))
    missing = gone[first == after]
    if missing.size:
        raise MismatchError(
            f"document {int(missing[0])} was removed when the corpus was rebuilt, and revision "
            f"{revision.number} does not leave it out ({missing.size} such documents); load the "
            "manifest it was rebuilt from, or a revision that leaves them out"
        )


def load_loader_revision(
    revision: Revision | int | None, cursor: Cursor, plan: Plan, run: Run | None
) -> Revision:
    """Return the revision in force from this load on.

    Raises:
        NotFound: a number without a run that has it, or a revision that the run does not have.
        IntegrityError: the run has other content under the revision's number.
        MismatchError: a revision of another manifest.
    """
    if isinstance(revision, Revision):
        chosen = revision
        if run is not None and chosen.number:
            # What a checkpoint names must be there when the checkpoint is loaded.
            chosen = load_revision(
                run.path, chosen.number, manifest=plan.fingerprint, digest=chosen.digest
            )
    else:
        number = cursor.revision if revision is None else revision
        digest = cursor.revision_digest if number == cursor.revision else None
        if number and run is None:
            raise NotFound(
                f"revision {number} is in force and there is no run to load it from; "
                "pass the Revision itself, or the run"
            )
        if run is None:
            return Revision(number=0, manifest=plan.fingerprint)
        chosen = load_revision(run.path, number, manifest=plan.fingerprint, digest=digest)
    if chosen.manifest != plan.fingerprint:
        raise MismatchError(
            f"revision {chosen.number} is for manifest {chosen.manifest[:12]}, the plan is for "
            f"{plan.fingerprint[:12]}; publish a revision for this manifest"
        )
    return chosen


def _differences(before: Plan, after: Plan) -> str:
    """Return which fields of two plans differ, with both values."""
    names = list(Plan.__dataclass_fields__)
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    changed = [f"{name} {old} and {new}" for name, old, new in pairs if old != new]
    return f" ({', '.join(changed)})" if changed else ""
