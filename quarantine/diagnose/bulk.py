"""Large CSV logs, read by columns: ten million rows in seconds instead of minutes.

Only a log that is regular throughout is read here; anything else is left to the row reader,
which says what is wrong and where.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from .columns import canonical_names
from .series import Series

WORTH_IT = 16 << 20
MISSING = ("", "none", "None", "null", "NULL", "NA", "N/A", "n/a", "-")


def read_regular_csv(path: Path, columns: Mapping[str, str]) -> dict[str, Series] | None:
    """Return the series of a large and regular CSV log, or None where rows must be looked at."""
    if path.stat().st_size < WORTH_IT:
        return None
    table = _table(path)
    if table is None or len(set(table.column_names)) != table.num_columns:
        return None
    if not set(columns.values()) <= set(table.column_names):
        return None
    names = canonical_names(table.column_names, columns)
    by_name = {name: column for column, name in names.items()}
    if not {"step", "loss"} <= set(by_name) or not _are_steps(table[by_name["step"]]):
        return None
    steps = table[by_name["step"]].to_numpy()
    series = {
        name: found
        for column, name in names.items()
        if name != "step" and (found := _series(name, steps, table[column])) is not None
    }
    return series if "loss" in series else None


def _table(path: Path) -> pa.Table | None:
    options = pyarrow.csv.ConvertOptions(
        null_values=list(MISSING), strings_can_be_null=True, quoted_strings_can_be_null=True
    )
    try:
        return pyarrow.csv.read_csv(path, convert_options=options)
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None


def _are_steps(column: pa.ChunkedArray) -> bool:
    if not pa.types.is_int64(column.type) or column.null_count:
        return False
    return len(column) > 0 and int(column.to_numpy().min()) >= 0


def _series(name: str, steps: np.ndarray, column: pa.ChunkedArray) -> Series | None:
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        return None
    logged = column.is_valid().to_numpy() if column.null_count else slice(None)
    values = column.drop_null().to_numpy().astype(np.float64)
    return Series(name=name, steps=steps[logged], values=values) if len(values) else None
