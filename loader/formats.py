"""Canonical JSON, digests and version checks: how every shardward file is named and refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from .errors import FormatError

Json = Mapping[str, Any]
_CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def canonical_json(value: object) -> bytes:
    """Return the one UTF-8 encoding of `value`: sorted keys, no spaces, no NaN."""
    return _CANONICAL.encode(value).encode()


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hex digits."""
    return hashlib.sha256(data).hexdigest()


def parse_json(data: bytes, *, where: str) -> dict[str, Any]:
    """Return the JSON object in `data`.

    Raises:
        FormatError: `data` is not a JSON object in UTF-8; the message names `where`.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:  # also thousands of digits, or of brackets
        fault = json_fault(error)
        raise FormatError(f"{where} is not valid JSON ({fault}); restore it from a copy") from error
    if not isinstance(value, dict):
        raise FormatError(f"{where} holds a {type(value).__name__}, not a JSON object")
    return value


def json_fault(error: Exception) -> str:
    """Return why text is no JSON, of a number too long to be read in words of ours."""
    too_long = type(error) is ValueError  # bad JSON and bad UTF-8 have errors of their own
    return "a number has too many digits" if too_long else str(error)


def check_format(value: Json, *, name: str, version: int, where: str) -> None:
    """Refuse `value` unless it says it is `name` in `version`.

    Raises:
        FormatError: the format name or version differs; both values are in the message.
    """
    found = (value.get("format"), value.get("version"))
    if found != (name, version):
        raise FormatError(
            f"{where} is {found[0]!r} version {found[1]!r}, this release reads {name!r} "
            f"version {version}; use the release that wrote it, or make the file anew"
        )
