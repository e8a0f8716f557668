"""JSON Schemas (2020-12) of every file and every `--json` object, and the ledger's SQL."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["load_schema", "load_sql"]


@cache
def load_schema(name: str) -> dict[str, Any]:
    """Return the schema `name`, for example `"cursor.v1"`."""
    text = resources.files(__package__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


@cache
def load_sql(name: str) -> str:
    """Return the SQL script `name`, for example `"ledger"`."""
    return resources.files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
