"""Settings that every test shares."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from helpers_outlets import Receiver

    from shardward.loader.manifest import Manifest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # xdist workers share the cores
os.environ.setdefault("MPLBACKEND", "Agg")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server on the loopback that plays the receivers of messages."""
    from helpers_outlets import Receiver  # noqa: PLC0415 - few tests need what it imports

    running = Receiver()
    yield running
    running.close()


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Return a corpus of 300 documents, ten to a group, for runs that have an incident."""
    from helpers_respond import make_corpus  # noqa: PLC0415 - as above

    return make_corpus(tmp_path_factory.mktemp("corpus"), documents=300, group=10)
