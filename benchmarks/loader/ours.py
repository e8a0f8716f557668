"""Our loader: throughput, time to the first batch, cost in the training thread, flat memory."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shardward.loader import Cursor, Manifest, Plan, Run, ShardLoader, build_manifest

from .documents import PAD, SEPARATOR, VOCABULARY, Documents
from .meter import Meter, median, memory_mb, peak_memory_mb, percentile

SEED = 11
TOKENIZER = f"ids:{VOCABULARY}:{SEPARATOR}:{PAD}"


def prepare(documents: Documents, **_options: Any) -> dict[str, Any]:
    """Index the documents unless that is done."""
    out = manifest_path(documents)
    meter = Meter()
    if not out.exists():
        build_manifest([documents.path], out, column="tokens", tokenizer=TOKENIZER)
    return {"tokens": Manifest.load(out).header.tokens, **meter.rates(documents.tokens)}


def manifest_path(documents: Documents) -> Path:
    """Return where the manifest of the documents lies."""
    return Path(documents.path).parent / "manifest"


def throughput(
    documents: Documents,
    *,
    window: int,
    threads: int,
    batch: int,
    seq_len: int,
    epochs: int,
    **_options: Any,
) -> dict[str, Any]:
    """Deliver whole epochs: shuffled, packed, checked against the manifest's digests, digested."""
    meter, tokens = Meter(), 0
    manifest = Manifest.load(manifest_path(documents))
    plan = manifest.plan(seed=SEED, seq_len=seq_len, window_blocks=window)
    with ShardLoader(manifest, plan, batch=batch, threads=threads, epochs=epochs) as loader:
        for made in loader:
            tokens += made.tokens.size
        dtype = str(made.tokens.dtype)
    return {**meter.rates(tokens), "peak_mb": peak_memory_mb(), "dtype": dtype}


def first_batch(
    documents: Documents, *, window: int, progress: float, batch: int, seq_len: int, **_options: Any
) -> dict[str, Any]:
    """Open everything anew at a share of the epoch and wait for one batch."""
    return timed_first_batch(
        manifest_path(documents), window=window, progress=progress, batch=batch, seq_len=seq_len
    )


def timed_first_batch(
    path: Path, *, window: int, progress: float, batch: int, seq_len: int
) -> dict[str, Any]:
    """Return the seconds for the plan and for the first batch, and the memory they took."""
    before = memory_mb()
    began, cpu = time.perf_counter(), time.process_time()
    manifest = Manifest.load(path)
    plan = manifest.plan(seed=SEED, seq_len=seq_len, window_blocks=window)
    cursor = cursor_at(manifest, plan, progress, batch)
    opened = time.perf_counter()
    with ShardLoader(manifest, plan, batch=batch, threads=2, cursor=cursor) as loader:
        made = next(loader)
        done, used = time.perf_counter(), time.process_time() - cpu
        peak = peak_memory_mb()
    return {
        "open_s": round(opened - began, 4),
        "first_batch_s": round(done - opened, 4),
        "total_s": round(done - began, 4),
        "cpu_s": round(used, 4),
        "tokens": int(made.tokens.size),
        "step": made.step,
        "peak_mb": peak,
        "above_import_mb": round(peak - before, 1),
    }


def cursor_at(manifest: Manifest, plan: Plan, progress: float, batch: int) -> Cursor:
    """Return a cursor at a share of the first epoch, at a whole number of batches."""
    assert plan.seq_len is not None
    samples = (manifest.header.tokens + manifest.header.documents) // plan.seq_len
    step = min(int(samples * progress) // batch, samples // batch - 1)
    return Cursor(plan_id=plan.plan_id, position=step * batch, step=step)


def training_thread(
    documents: Documents,
    *,
    batch: int,
    seq_len: int,
    steps: int,
    compute_ms: float,
    work: str,
    **_options: Any,
) -> dict[str, Any]:
    """Measure what a step costs the thread that trains, journal on and prefetch ahead.

    The trainer's own work is long enough for the loader to be ahead: a sleep, or `products` of
    small matrices in this thread. Counted per step: `next(loader)`, which writes the delivered
    record, and `observe`, which writes two more.
    """
    pause = _multiply if work == "products" else time.sleep
    nexts, next_used, wholes, used = [], [], [], []
    with recorded(documents, batch=batch, seq_len=seq_len, window=16) as loader:
        for _ in range(steps + 1):
            # The wall clock is read inside, so that it does not count the other clock.
            cpu, began = time.thread_time(), time.perf_counter()
            made = next(loader)
            between, cpu_between = time.perf_counter(), time.thread_time()
            loader.observe(made.step, loss=3.0, grad_norm=1.0)
            wholes.append((time.perf_counter() - began) * 1e6)
            used.append((time.thread_time() - cpu) * 1e6)
            nexts.append((between - began) * 1e6)
            next_used.append((cpu_between - cpu) * 1e6)
            pause(compute_ms / 1e3)
    shares = {"p50": 0.5, "p99": 0.99}
    return {
        "steps": steps,
        "samples_per_step": batch,
        **{f"next_us_{name}": round(percentile(nexts[1:], at)) for name, at in shares.items()},
        **{
            f"next_cpu_us_{name}": round(percentile(next_used[1:], at))
            for name, at in shares.items()
        },
        **{f"step_us_{name}": round(percentile(wholes[1:], at)) for name, at in shares.items()},
        **{f"step_cpu_us_{name}": round(percentile(used[1:], at)) for name, at in shares.items()},
    }


def _multiply(seconds: float) -> None:
    """Compute for `seconds`; the matrices are too small for BLAS to start threads for them."""
    end = time.perf_counter() + seconds
    stack = np.ones((64, 64, 64), np.float32)
    while time.perf_counter() < end:
        np.matmul(stack, stack)


def flat_memory(documents: Documents, *, steps: int, **_options: Any) -> dict[str, Any]:
    """Deliver and record many small steps; resident memory must not grow with them.

    Windows of one block, so that the run goes through dozens of them, and 16 MB of steps that may
    wait, so that how far the reader is ahead does not show.
    """
    marks = {}
    meter, tokens = Meter(), 0
    with recorded(documents, batch=8, seq_len=128, window=1, waiting=16 << 20) as loader:
        for number in range(1, steps + 1):
            made = next(loader)
            loader.observe(made.step, loss=3.0)
            tokens += made.tokens.size
            if number % (steps // 10) == 0:
                marks[number] = memory_mb()
    sizes = list(marks.values())
    early, late = sizes[1:5], sizes[6:]
    return {
        **meter.rates(tokens),
        "steps": steps,
        "rss_mb_by_step": marks,
        "growth_mb": round(median(late) - median(early), 1),
        "peak_mb": peak_memory_mb(),
    }


@contextmanager
def recorded(
    documents: Documents, *, batch: int, seq_len: int, window: int, waiting: int = 256 << 20
) -> Iterator[ShardLoader]:
    """Yield a loader that journals into a run directory beside the documents, removed after."""
    manifest = Manifest.load(manifest_path(documents))
    plan = manifest.plan(seed=SEED, seq_len=seq_len, window_blocks=window)
    place = Path(tempfile.mkdtemp(prefix="run-", dir=Path(documents.path).parent))
    try:
        run = Run.create(place / "run", plan=plan, manifest_path=manifest.path)
        with ShardLoader(
            manifest, plan, run=run, batch=batch, epochs=None, prefetch_bytes=waiting
        ) as loader:
            yield loader
    finally:
        shutil.rmtree(place)
