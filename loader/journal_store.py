"""An object store that keeps what is put once: a directory or any fsspec URL.

A name is written once and never changes, so a reader finds the next object by its number and never
lists, which stores answer late and in part. Creating needs a condition ("if it is not there") that
the store must honour; `check_condition` finds out before anything is trusted to it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec

from .errors import IntegrityError, UsageError
from .files import publish_new


class ObjectStore:
    """Objects under `url`, for example `s3://bucket/run` or a directory.

    Raises:
        UsageError: the URL's protocol is unknown or its driver is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._files, self._root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UsageError(
                f"{url} cannot be opened ({error}); give a directory, or install the fsspec driver"
            ) from error
        protocol = self._files.protocol
        self._local = "file" in ([protocol] if isinstance(protocol, str) else protocol)

    @property
    def directory(self) -> Path | None:
        """The directory that it is, None for a store elsewhere."""
        return Path(self._root) if self._local else None

    def put_new(self, key: str, data: bytes) -> bool:
        """Create `key`; return False if it is there with the same bytes.

        Raises:
            IntegrityError: it is there with other bytes.
        """
        if self._local:
            return publish_new(Path(self._root) / key, data)
        if self._create(key, data):
            return True
        if self.get(key) != data:
            raise IntegrityError(
                f"{self.url}/{key} exists with other content; another process publishes under "
                "the same name: give each run a place of its own"
            )
        return False

    def get(self, key: str) -> bytes | None:
        """Return the object `key`, or None if there is none."""
        try:
            with self._driver():
                data: bytes = self._files.cat_file(self._path(key))
        except FileNotFoundError:
            return None
        return data

    def check_condition(self) -> None:
        """Refuse a store that overwrites where it was asked only to create.

        Raises:
            IntegrityError: the store ignores the condition.
        """
        if self._local:
            return  # a hard link either creates the name or fails
        key = f"probe-{secrets.token_hex(8)}"
        try:
            self._create(key, b"first")
            second = self._create(key, b"second")
        finally:
            self._remove(key)
        if second:
            raise IntegrityError(
                f"{self.url} overwrites an object that was only to be created, so two processes "
                "could destroy each other's records; use a store with conditional writes"
            )

    def _create(self, key: str, data: bytes) -> bool:
        path = self._path(key)
        try:
            with self._driver():
                if not self._local:
                    self._files.makedirs(self._files._parent(path), exist_ok=True)
                self._files.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        return True

    def _remove(self, key: str) -> None:
        files: Any = self._files
        files.rm_file(self._path(key))

    @contextmanager
    def _driver(self) -> Iterator[None]:
        """Turn whatever a driver raises into OSError, which callers take for a store that is away.

        s3fs raises OSErrors, other drivers the errors of their HTTP library.
        """
        try:
            yield
        except OSError:
            raise
        except Exception as error:  # no driver says which classes it raises
            kind = type(error).__name__
            raise OSError(f"the store {self.url} failed: {kind}: {error}") from error

    def _path(self, key: str) -> str:
        return f"{self._root.rstrip('/')}/{key}"
