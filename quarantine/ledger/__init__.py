"""The ledger: a DuckDB file made from a run's journals, and the questions it answers."""

from __future__ import annotations

from .as_table import as_table
from .check import Problem
from .ingest import IngestReport
from .ledger import Ledger
from .views import ALL, EFFECTIVE, View, at_checkpoint

__all__ = [
    "ALL",
    "EFFECTIVE",
    "IngestReport",
    "Ledger",
    "Problem",
    "View",
    "as_table",
    "at_checkpoint",
]
