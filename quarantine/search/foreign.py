"""The border to code of others: text detectors of installed packages, and language models."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from ...loader.errors import ShardwardError

MOST_SAID = 400
"""Characters of what code of others raised."""


class ForeignFailure(ShardwardError):
    """Code of others could not do what it was asked; the message is what it raised."""


@contextmanager
def foreign() -> Iterator[None]:
    """Let code of others run; what it prints goes to stderr, since stdout is for results.

    Raises:
        ForeignFailure: it raised an error, of whatever class, or wanted to exit; a person's
            interrupt passes through.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:  # nobody can list what others raise
        raise ForeignFailure(repr(error)[:MOST_SAID]) from error
