"""The loader: a corpus, an order that never changes, and batches that are on record.

Names are imported when they are first used, so that a command line that needs one error class does
not load Arrow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .batch import Batch
    from .cursor import Cursor
    from .errors import ShardwardError
    from .holdout_reader import HeldOutDocument, held_out
    from .index import build_manifest
    from .manifest import Location, Manifest
    from .plan import Holdout, Plan
    from .preview import Preview
    from .revision import Revision, Skip
    from .run import Run
    from .schedule import BatchSchedule
    from .stream import ShardLoader
    from .tokenizers import ByteTokenizer
    from .topology import Topology

__all__ = [
    "Batch",
    "BatchSchedule",
    "ByteTokenizer",
    "Cursor",
    "HeldOutDocument",
    "Holdout",
    "Location",
    "Manifest",
    "Plan",
    "Preview",
    "Revision",
    "Run",
    "ShardLoader",
    "ShardwardError",
    "Skip",
    "Topology",
    "build_manifest",
    "held_out",
]

_HOMES = {
    "Batch": "batch",
    "BatchSchedule": "schedule",
    "ByteTokenizer": "tokenizers",
    "Cursor": "cursor",
    "HeldOutDocument": "holdout_reader",
    "Holdout": "plan",
    "Location": "manifest",
    "Manifest": "manifest",
    "Plan": "plan",
    "Preview": "preview",
    "Revision": "revision",
    "Run": "run",
    "ShardLoader": "stream",
    "ShardwardError": "errors",
    "Skip": "revision",
    "Topology": "topology",
    "build_manifest": "index",
    "held_out": "holdout_reader",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
