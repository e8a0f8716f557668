"""Sidecars of a manifest: one number per document, read from disk where it is needed."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

import numpy as np

from .errors import IntegrityError, NotFound


class Sidecar:
    """A raw column of one value per document, read by position and never mapped.

    A mapped sidecar counts as resident memory once touched, gigabytes of it at 1e9 documents.

    Args:
        path: the file.
        dtype: of a value, with its byte order.
        count: documents of the corpus.

    Raises:
        IntegrityError: the file is missing or has another size.
    """

    def __init__(self, path: Path, dtype: str, count: int) -> None:
        self._dtype = np.dtype(dtype)
        self._count = count
        self._path = path
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise IntegrityError(f"{path} is missing; index the corpus anew") from error
        weakref.finalize(self, os.close, self._handle)
        size = os.fstat(self._handle).st_size
        if size != count * self._dtype.itemsize:
            raise IntegrityError(
                f"{path} has {size} bytes, {count} documents need "
                f"{count * self._dtype.itemsize}; index the corpus anew"
            )

    def read(self, low: int, high: int) -> Any:
        """Return the values of documents low..high-1, [high - low].

        Raises:
            NotFound: not all of them are in the corpus.
            IntegrityError: the file ends early.
        """
        if not 0 <= low <= high <= self._count:
            raise NotFound(f"documents {low} to {high} are not all within 0 to {self._count}")
        item = self._dtype.itemsize
        data = bytearray((high - low) * item)
        if os.preadv(self._handle, [data], low * item) != len(data):
            raise IntegrityError(f"{self._path} ends early; index the corpus anew")
        return np.frombuffer(data, self._dtype)
