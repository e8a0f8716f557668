"""A JSON line of many megabytes, parsed with one byte for each byte of its text.

Python's strings take four bytes a character where one of the characters is an emoji, and `json`
holds the line and its values at once. All that JSON consists of is ASCII, so a line that is read as
Latin-1 has the same structure, and its strings are the UTF-8 of the texts, a byte each.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from typing import Any

import numpy as np
import pyarrow as pa

LONG = 1 << 24
"""Bytes from which a line is long."""
_UNIT = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}"
_ESCAPES = re.compile(rb"\\\\|(?:" + _UNIT + rb"){1,4096}")
"""A backslash that is escaped, or characters by their numbers; pairs of surrogates stay whole."""


def parse_long(lines: list[bytes]) -> Any:
    """Return what `json.loads` returns, but with bytes in UTF-8 for an object's texts.

    The last of `lines` is parsed. It is taken out of them and let go as soon as there is a copy, so
    that two copies of a text are held at a time.

    Raises:
        ValueError: the line is not JSON in UTF-8.
    """
    line = lines.pop().removeprefix(BOM_UTF8)
    offsets = pa.py_buffer(np.array([0, len(line)], np.int64))
    pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(line)).validate(full=True)
    plain = _without_numbers(line)
    del line
    text = plain.decode("latin-1")
    del plain
    value = json.loads(text)
    del text
    if not isinstance(value, dict):
        return value
    return {_utf8(key).decode("utf-8", "surrogatepass"): _entry(value.pop(key)) for key in [*value]}


def _without_numbers(line: bytes) -> bytes | bytearray:
    """Return `line` with the characters themselves for their numbers, where JSON allows them."""
    found, last = bytearray(), 0
    for match in _ESCAPES.finditer(line):
        if match[0] != b"\\\\":
            characters = json.dumps(json.loads(b'"%b"' % match[0]), ensure_ascii=False)[1:-1]
            found += memoryview(line)[last : match.start()]
            found += characters.encode("utf-8", "surrogatepass")
            last = match.end()
    if not last:
        return line
    found += memoryview(line)[last:]
    return found


def _entry(value: Any) -> Any:
    return _utf8(value) if isinstance(value, str) else value


def _utf8(text: str) -> bytes:
    return text.encode("latin-1")
