"""Reading `resume.json`, which a rewind leaves for the next start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .errors import FormatError
from .formats import parse_json

FILE = "resume.json"
HISTORY = "resumes"


def read_orders(run_path: Path) -> dict[str, Any] | None:
    """Return the orders of a rewind as they stand in the run, None where there are none.

    Raises:
        FormatError: they are damaged; the message names the copy to put back.
    """
    path = run_path / FILE
    if not path.exists():
        return None
    try:
        return parse_json(path.read_bytes(), where=str(path))
    except (FormatError, IsADirectoryError) as error:
        fault = "is a directory" if path.is_dir() else f"is damaged ({error})"
        kept = (run_path / HISTORY).glob("*.json")
        newest = max(kept, key=lambda copy: copy.stat().st_mtime_ns, default=None)
        remedy = f"copy {newest} to it" if newest else "restore it from a copy of the run"
        raise FormatError(f"{path} {fault}; remove it and {remedy}") from error
