"""Where the ledger file of a run is."""

from __future__ import annotations

import os
from pathlib import Path

from ...loader.run import Run


def ledger_path(run: Run, path: Path | str | None = None) -> Path:
    """Return where the ledger of `run` is: `path`, SHARDWARD_LEDGER, or in the run directory.

    A directory (one that is there, or a name with a slash at its end) has a file for each run.
    """
    given = path or os.environ.get("SHARDWARD_LEDGER")
    if not given:
        return run.path / "ledger.duckdb"
    place = Path(given)
    if place.is_dir() or str(given).endswith("/"):
        return place / f"{run.run_id}.duckdb"
    return place
