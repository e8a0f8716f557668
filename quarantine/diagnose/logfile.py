"""A log file as blocks of whole lines, read again and again in little memory.

What lies behind the path may be a pipe, which is copied to a temporary file first, and may still
be growing: only the bytes that were there at first are read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ...loader.closing import Closing
from ...loader.errors import FormatError, NotFound

BLOCK = 1 << 18
# A block of wide rows is larger, so that it holds some hundreds of them, up to this many times.
COLUMNS, LARGER = 128, 16
LONGEST_LINE = 64 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Some whole lines of a log.

    `number` counts the first of them from 1; `last` says that nothing follows, so that the last
    line may lack its end.
    """

    number: int
    data: bytes
    last: bool

    def text(self) -> str:
        """Return the lines as text; `LogFile.blocks` has checked that they are."""
        return self.data.decode()


class LogFile(Closing):
    """An open log; a context manager.

    Raises:
        NotFound: there is no such file.
        FormatError: it is a directory or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _opened(path)
        self.size = os.fstat(self._file.fileno()).st_size
        # Bytes read of the blocks that were last begun.
        self.position = 0
        self._block = BLOCK

    def widen(self, columns: int) -> None:
        """Read larger blocks from now on, if rows of so many `columns` ask for it."""
        self._block = BLOCK * max(1, min(LARGER, columns // COLUMNS))

    def close(self) -> None:
        """Let the file go; closing twice is harmless."""
        self._file.close()

    def start(self) -> bytes:
        """Return the first bytes."""
        self._file.seek(0)
        return self._file.read(64)

    def read_all(self) -> bytes:
        """Return the whole content, for the formats that are one object."""
        self._file.seek(0)
        return self._file.read(self.size)

    def blocks(self) -> Iterator[Lines]:
        """Yield the lines in blocks of a quarter of a megabyte (or wider ones), without a BOM.

        Raises:
            FormatError: the log is not UTF-8, holds NUL bytes or a line without end.
        """
        number, rest, done = 1, b"", 0
        while done < self.size:
            self._file.seek(done)
            part = self._file.read(min(self._block, self.size - done))
            if not part:
                break
            data = rest + (part.removeprefix(BYTE_ORDER_MARK) if done == 0 else part)
            self.position = done = done + len(part)
            cut = len(data) if done == self.size else data.rfind(b"\n") + 1
            rest = data[cut:]
            if len(rest) > LONGEST_LINE:
                raise FormatError(
                    f"{self.path} row {number + data.count(bytes([10]), 0, cut)} is longer than "
                    f"{LONGEST_LINE} bytes; is it a text log with one row a line?"
                )
            if cut:
                self._check_text(data[:cut], done - len(data))
                yield Lines(number=number, data=data[:cut], last=done == self.size)
                number += data.count(b"\n", 0, cut)

    def _check_text(self, data: bytes, offset: int) -> None:
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError as error:
                raise FormatError(
                    f"{self.path} is not UTF-8 text (byte {offset + error.start}); convert it, "
                    "for example with iconv"
                ) from error
        if b"\0" in data:
            raise FormatError(
                f"{self.path} holds NUL bytes, so it is not a text log; export it as CSV"
            )


def _opened(path: Path) -> BinaryIO:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotFound(f"{path} does not exist; give the path of a training log") from None
    except IsADirectoryError:
        raise FormatError(f"{path} is a directory; give one log file") from None
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror})") from error
    if path.is_file():
        return file
    with file:
        copy = tempfile.TemporaryFile()  # noqa: SIM115  the log file closes it
        shutil.copyfileobj(file, copy)
        copy.flush()
    return copy
