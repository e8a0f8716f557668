"""Batches that a trainer keeps, in whatever form, are never written to by later steps."""

from __future__ import annotations

import ctypes
import pickle
import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers_loader import arrow_corpus

from shardward.loader import Manifest, Plan, ShardLoader
from shardward.loader.buffers import SMALLEST

ROWS, LENGTH = 40, 8192


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Manifest, Plan]:
    dice = np.random.default_rng(3)
    text = dice.integers(97, 123, 1 << 20).astype(np.uint8).tobytes().decode()
    blocks = [[text[doc : doc + (1 << 17)] for doc in range(b, b + 6)] for b in range(8)]
    manifest = arrow_corpus(tmp_path_factory.mktemp("corpus"), blocks)
    plan = manifest.plan(seed=1, seq_len=LENGTH, window_blocks=2)
    assert ROWS * LENGTH >= SMALLEST
    return manifest, plan


def as_bytes(kept: Any) -> bytes:
    return np.asarray(kept).tobytes()


def torch() -> Any:
    return pytest.importorskip("torch")


KEEP: dict[str, Callable[[Any], Any]] = {
    "the batch itself": lambda batch: batch.tokens,
    "the mask": lambda batch: batch.loss_mask,
    "a slice": lambda batch: batch.tokens[3:5, ::7],
    "one row": lambda batch: next(iter(batch.tokens)),
    "another shape": lambda batch: batch.tokens.reshape(-1).view(np.uint8),
    "a memoryview": lambda batch: memoryview(batch.tokens),
    "a memoryview's array": lambda batch: np.frombuffer(memoryview(batch.tokens), np.uint8),
    "an Arrow array": lambda batch: pa.array(batch.tokens.reshape(-1)),
    "a C array": lambda batch: (ctypes.c_uint8 * batch.tokens.nbytes).from_buffer(batch.tokens),
    "DLPack": lambda batch: np.from_dlpack(batch.tokens),
    "out of band": lambda batch: pickled(batch.tokens),
    "from_numpy": lambda batch: torch().from_numpy(batch.tokens),
    "a view of a tensor": lambda batch: torch().from_numpy(batch.tokens)[1:].t(),
    "torch's DLPack": lambda batch: torch().from_dlpack(batch.loss_mask.view(np.uint8)),
    "as_tensor": lambda batch: torch().as_tensor(batch.tokens),
    "frombuffer": lambda batch: torch().frombuffer(batch.tokens, dtype=torch().uint8),
    "another device": lambda batch: torch().from_numpy(batch.tokens).to("cpu", non_blocking=True),
}


def pickled(array: Any) -> Any:
    """Return the buffer that protocol 5 hands over instead of copying it."""
    buffers: list[pickle.PickleBuffer] = []
    pickle.dumps(array, protocol=5, buffer_callback=buffers.append)
    return buffers[0].raw()


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("form", list(KEEP))
def test_what_is_kept_of_a_batch_stays_as_it_was(
    corpus: tuple[Manifest, Plan], form: str, threads: int
) -> None:
    manifest, plan = corpus
    kept = []
    with ShardLoader(manifest, plan, batch=ROWS, threads=threads) as loader:
        for batch in loader:
            view = KEEP[form](batch)
            kept.append((view, as_bytes(view)))
            del batch, view  # only what was kept refers to the batch

    assert len(kept) > 15
    assert [as_bytes(view) == before for view, before in kept] == [True] * len(kept)


def test_a_consumer_in_another_thread_reads_what_it_was_given(
    corpus: tuple[Manifest, Plan],
) -> None:
    manifest, plan = corpus
    waiting: queue.Queue[Any] = queue.Queue()
    wrong = []

    def consume() -> None:
        while (given := waiting.get()) is not None:
            tokens, digest = given
            wrong.append(hash(tokens.tobytes()) != digest)

    consumer = threading.Thread(target=consume)
    with ShardLoader(manifest, plan, batch=ROWS) as loader:
        for batch in loader:
            waiting.put((batch.tokens[1:], hash(batch.tokens[1:].tobytes())))
            if batch.step == 8:
                consumer.start()
    waiting.put(None)
    consumer.join()

    assert len(wrong) > 15
    assert not any(wrong)


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("num_workers", [0, 2])
def test_torch_batches_are_kept_with_pinning_asked_for(
    corpus: tuple[Manifest, Plan], num_workers: int
) -> None:
    torch()
    from shardward.loader.torch import TorchLoader  # noqa: PLC0415 - skipped without torch

    manifest, plan = corpus
    kept = []
    loader = ShardLoader(manifest, plan, batch=ROWS)
    batches = TorchLoader(loader, num_workers=num_workers, pin_memory=True)
    for batch in batches:
        moved = batch.to("cpu", non_blocking=True)
        kept += [(part, as_bytes(part)) for part in (moved.tokens, moved.loss_mask)]
        del batch, moved
    batches.close()

    assert len(kept) > 30
    assert all(as_bytes(part) == before for part, before in kept)
