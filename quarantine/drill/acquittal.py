"""The drill's copies that were not to blame; see `respond.acquittal`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ledger import Ledger
from ..respond.acquittal import Acquittal, acquit_hits, harmless
from ..respond.window import Window
from .session import Session

if TYPE_CHECKING:
    from .finding import Found

__all__ = ["Acquittal", "acquit", "harmless"]


def acquit(session: Session, ledger: Ledger, found: Found, window: Window) -> list[Acquittal]:
    """Return the copies of the window, and their relatives, whose like was eaten before it."""
    branch = int(window.segments["piece"][0].as_py())
    return acquit_hits(found.hits, ledger, session.manifest, before=window.first, branch=branch)
