"""An open ledger file of a run: opened, followed, mended; the questions are in `ledger`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Self

from ...loader.closing import Closing
from ...loader.errors import ShardwardError
from ...loader.lineage import Span
from ...loader.manifest import Manifest
from ...loader.run import Run
from .database import MEMORY, WAIT_SECONDS, Damaged, Database, Owner
from .derive import Deriver
from .faults import Outdated
from .ingest import IngestReport, ingest, sync_history, watermarks
from .location import ledger_path
from .names import load_corpus
from .repair import repairing, set_aside
from .restorable import check_restorable, shortfalls, silent_pieces
from .schema import SCHEMA_VERSION
from .views import View, view_of

NOTICED = 3
"""Disagreements that opening tells of; `check` has all."""


class LedgerFile(Closing):
    """The DuckDB file behind a `Ledger`, and what keeps it good.

    Attributes:
        run: the run it belongs to.
        notices: what was wrong with the file and what was done about it, and new steps that ranks
            recorded differently, for people.
    """

    def __init__(
        self, run: Run, connect: Callable[[], Database], place: Path, manifest: Path | None
    ) -> None:
        self.run = run
        self.notices: tuple[str, ...] = ()
        self._connect = connect
        self._place = place
        self._manifest_path = manifest
        self._repair_lock = threading.Lock()
        self._open()

    @classmethod
    def open(
        cls,
        run: Run | Path | str,
        *,
        manifest: Path | str | None = None,
        path: Path | str | None = None,
        memory: str | None = None,
        threads: int = 2,
        wait: float | None = None,
        ingest_seconds: float | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> Self:
        """Open the ledger of a run and ingest what is new.

        A file of an earlier release is brought up to date in place. A damaged one is set aside
        and built again from the journals.

        Args:
            run: the run or its directory.
            manifest: the corpus manifest, where it is not at the place that the run recorded.
            path: the DuckDB file or a directory for it, by default SHARDWARD_LEDGER or
                `ledger.duckdb` in the run.
            memory: limit for DuckDB's buffers, by default SHARDWARD_LEDGER_MEMORY or "2GB".
            threads: of DuckDB.
            wait: seconds to wait for another process that holds the file; 5 by default.
            ingest_seconds: stop ingesting after about this time; None ingests everything, 0
                nothing. Questions about single steps are exact all the same.
            advance: called with the journal bytes of each slice.

        Raises:
            Busy: another process holds the file; its pid is named.
            NotFound: there is no such run.
            MismatchError: the file is of another run.
            FormatError: it is of a later release.
            IntegrityError: it cannot be brought up to date, and journals that it has rows of are
                gone.
        """
        run = run if isinstance(run, Run) else Run.open(run)
        place = ledger_path(run, path)
        seconds = WAIT_SECONDS if wait is None else wait
        limit = memory or os.environ.get("SHARDWARD_LEDGER_MEMORY", MEMORY)
        place.parent.mkdir(parents=True, exist_ok=True)
        connect = partial(
            Database, place, Owner.of(run), memory=limit, threads=threads, wait=seconds
        )
        ledger = cls(run, connect, place, None if manifest is None else Path(manifest))
        with ExitStack() as undo:
            undo.callback(ledger.close)
            report = ledger.ingest(seconds=ingest_seconds, advance=advance)
            undo.pop_all()
        ledger.notices += tuple(
            f"{problem.message}; see `shardward ledger check`"
            for problem in report.disagreements[:NOTICED]
        )
        return ledger

    def close(self) -> None:
        """Let the file go; closing twice is harmless."""
        self.database.close()

    @cached_property
    def manifest(self) -> Manifest:
        """The corpus manifest of the run.

        Raises:
            NotFound: it is not where the run recorded it.
            MismatchError: it is the manifest of another corpus.
        """
        return load_corpus(self.run, self._manifest_path)

    def spans(self, branch: int | View | None = None) -> tuple[Span, ...]:
        """Return the steps that each piece contributes to a history, oldest first."""
        return view_of(branch).spans(self.run)

    @repairing
    def ingest(
        self,
        *,
        seconds: float | None = None,
        advance: Callable[[int], object] | None = None,
    ) -> IngestReport:
        """Read new journal records, for at most about `seconds`; None reads all of them."""
        if seconds == 0:
            sync_history(self.database, self.run)
            return IngestReport()
        return ingest(self.database, self.run, seconds=seconds, advance=advance)

    @repairing
    def lost_journals(self) -> tuple[str, ...]:
        """Return, in words, which journals are plainly gone or cut; `check` looks closer."""
        read = watermarks(self.database)
        return (*shortfalls(self.run, read), *silent_pieces(self.run, read).values())

    def mend(self, broken: Database, error: Damaged, *, anew: bool) -> None:
        """Open the file again in the place of `broken`, or build it anew from the journals."""
        with self._repair_lock:
            if self.database is not broken:
                return  # another thread has done it
            read = _read_bytes(broken)
            broken.close()
            if anew:
                self._start_again(error, read)
            elif self._open():
                return
            ingest(self.database, self.run)

    def mended(self, database: Database) -> bool:
        """Return whether another file is open in the place of `database`, once it is."""
        with self._repair_lock:
            return self.database is not database

    def _open(self) -> bool:
        """Open the file; False if it had to be set aside, so that an empty one is open."""
        try:
            self.database = self._connect()
        except Outdated as error:
            check_restorable(self.run, error.read, what=str(error))
            self._start_again(error, {})
            return False
        except Damaged as error:
            self._start_again(error, {})
            return False
        if self.database.migrated_from is not None:
            self.notices += (
                f"the ledger {self._place} had schema version {self.database.migrated_from} and "
                f"was brought to version {SCHEMA_VERSION}",
            )
        return True

    def _start_again(self, error: ShardwardError, read: dict[str, int]) -> None:
        """Set the file aside and open an empty one, to be filled from the journals."""
        lost = shortfalls(self.run, read)
        words = f"{error}; {set_aside(self._place, keep_earlier=bool(lost))}"
        if lost:
            words += f"; only the file set aside has all rows: {', '.join(lost[:3])}"
        self.notices += (words,)
        self.database = self._connect()

    @cached_property
    def _deriver(self) -> Deriver | None:
        try:
            return Deriver(self.run, self.manifest)
        except ShardwardError:
            return None  # a scan finds the recorded rows without plan and manifest


def _read_bytes(broken: Database) -> dict[str, int]:
    """Return how far each journal was read into a damaged file, if it can still tell."""
    try:
        return watermarks(broken)
    except ShardwardError:
        return {}
