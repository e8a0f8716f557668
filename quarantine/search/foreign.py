"""The border to code of others: text detectors of installed packages, and language models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ...loader.errors import ShardwardError


class ForeignFailure(ShardwardError):
    """Code of others could not do what it was asked; the message is what it raised."""


@contextmanager
def foreign() -> Iterator[None]:
    """Let code of others run.

    Raises:
        ForeignFailure: it raised an error, of whatever class; a person's interrupt passes through.
    """
    try:
        yield
    except Exception as error:  # nobody can list what others raise
        raise ForeignFailure(repr(error)) from error
