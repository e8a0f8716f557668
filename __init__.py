"""shardward: which documents fed step N, and how to go on without them.

`shardward.resume(run)` is what a trainer asks at every start; everything else lives in
`shardward.loader` and `shardward.quarantine`. Nothing is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .quarantine.respond.resume import Resume, resume

__all__ = ["Resume", "resume"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .quarantine.respond import resume as home  # noqa: PLC0415

    return getattr(home, name)
