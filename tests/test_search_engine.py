"""The pool of worker processes: who dies is known, and nobody else's work is lost."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers_pool import (
    Killer,
    die_at,
    die_from,
    die_once,
    holding,
    odd,
    printing,
    sleep_long,
    slow_double,
    slow_then_die,
    unlucky,
)
from helpers_search import corpus, index_all_but_second, prose, search_all_but_second

from shardward.loader.errors import CorpusError, UsageError
from shardward.loader.manifest import Manifest
from shardward.quarantine.search import engine, index_job, similar
from shardward.quarantine.search.corpus_scan import run_scan
from shardward.quarantine.search.engine import executor
from shardward.quarantine.search.opinions import Panel
from shardward.quarantine.search.query import build_query
from shardward.quarantine.search.sidecar import usable_sidecar
from shardward.quarantine.search.worker import Worker, undisturbed

HEAD = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
INTERRUPTED = (
    HEAD + "from helpers_pool import sleep_long\n"
    "from shardward.quarantine.search.engine import executor\n"
    "if __name__ == '__main__':\n"
    "    try:\n"
    "        for done in executor(2).map_unordered(sleep_long, range(9), 60):\n"
    "            print(done, flush=True)\n"
    "    except KeyboardInterrupt:\n"
    "        sys.exit(130)\n"
)
UNGUARDED = (
    HEAD + "from helpers_pool import slow_double\n"
    "from shardward.quarantine.search.engine import executor\n"
    "list(executor(2).map_unordered(slow_double, range(9), 2))\n"
)


def script(path: Path, text: str) -> subprocess.Popen[str]:
    path.write_text(text)
    return subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def session(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes of a session that are not its leader and not zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != process.pid:
            try:
                state, _, _, sid = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:  # it ended meanwhile
                continue
            if int(sid) == process.pid and state != "Z":
                found.append(int(entry.name))
    return found


def all_ended(process: subprocess.Popen[str]) -> bool:
    for _ in range(200):
        if not session(process):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("workers", [1, 3])
def test_the_pool_gives_what_the_loop_gives(workers: int) -> None:
    results = sorted(executor(workers).map_unordered(slow_double, range(20), 3))

    assert results == list(executor(0).map_unordered(slow_double, range(20), 3))


def test_a_pool_without_items_starts_nothing() -> None:
    assert list(executor(2).map_unordered(slow_double, [], 3)) == []


def test_a_pool_needs_workers() -> None:
    with pytest.raises(UsageError, match="at least 1 worker"):
        executor(-1)


@pytest.mark.parametrize("workers", [1, 2])
def test_only_the_item_that_ends_its_worker_is_named_and_the_others_are_done(workers: int) -> None:
    told: list[str] = []
    pool = executor(workers, "shard {}".format, lost=told.append)

    assert sorted(pool.map_unordered(die_at, range(9), 7)) == [*range(7), 8]
    assert [line.split(",")[0] for line in told] == [
        "shard 7: its scan worker was ended by SIGKILL"
    ]


def test_an_item_whose_worker_died_is_tried_once_more(tmp_path: Path) -> None:
    assert sorted(executor(2).map_unordered(die_once, range(6), tmp_path / "mark")) == [*range(6)]


def test_without_anybody_to_tell_the_lost_are_raised_after_the_results_of_the_others() -> None:
    results = executor(2).map_unordered(die_at, range(9), 7)

    assert sorted(next(results) for _ in range(8)) == [*range(7), 8]
    with pytest.raises(CorpusError, match=r"^7: its scan worker was ended by SIGKILL"):
        next(results)


def test_of_an_item_of_parts_only_the_part_that_kills_is_lost() -> None:
    told: list[str] = []
    pool = executor(
        1,
        "{0[0]} to {0[1]}".format,
        parts=lambda r: [(i, i + 1) for i in range(*r)],
        lost=told.append,
    )
    done = list(pool.map_unordered(unlucky, [(0, 4), (4, 8)], 5))

    assert sorted(done) == [(0, 4), (4, 5), (6, 7), (7, 8)]
    assert [line.split(":")[0] for line in told] == ["5 to 6"]


def test_a_pool_whose_workers_die_one_after_the_other_gives_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "DEATHS_IN_A_ROW", 1)
    told: list[str] = []
    pool = executor(2, lost=told.append)

    assert sorted(pool.map_unordered(slow_then_die, range(200), 3)) == [0, 1, 2]
    assert len(told) == 4
    assert all("was ended by SIGKILL" in line for line in told[:-1])
    assert " and 193 more: not looked at" in told[-1]


def test_what_was_found_stays_where_no_further_worker_can_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [None] * 3

    def hire(load: bytes, item: int) -> Worker:
        if not left:
            raise CorpusError("no process can be started for a scan worker")
        left.pop()
        return Worker(load, item)

    monkeypatch.setattr(engine, "Worker", hire)
    told: list[str] = []
    pool = executor(1, lost=told.append)

    assert sorted(pool.map_unordered(die_from, range(9), 3)) == [0, 1, 2]
    assert [line.split(":")[0] for line in told] == ["3 and 5 more"]
    with pytest.raises(CorpusError, match="no process can be started"):
        list(executor(1).map_unordered(die_from, range(9), 3))


def test_what_a_worker_prints_is_no_result(capfd: pytest.CaptureFixture[str]) -> None:
    assert list(executor(1).map_unordered(printing, [7], 0)) == [7]
    assert capfd.readouterr().out == ""


def test_a_temporary_directory_too_long_for_a_socket_is_named(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    code = "from shardward.quarantine.search.worker import start_quietly as s; s(2)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(long)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "CorpusError: no process can be started for a scan worker: AF_UNIX" in done.stderr
    assert f"{long}" in done.stderr
    assert "set TMPDIR to a shorter one" in done.stderr


@pytest.mark.parametrize(
    ("fn", "items", "broadcast", "error", "said"),
    [
        (slow_double, ["x"], 0, TypeError, "not all arguments"),
        (odd, [1], 0, RuntimeError, "Odd: strange"),
        (holding, [1], 0, UsageError, "a result cannot be sent between processes"),
        (slow_double, [threading.Lock()], 0, UsageError, "the item .* cannot be sent"),
        (slow_double, [1], threading.Lock(), UsageError, "the scan cannot be sent"),
        (lambda item, _: item, [1], 0, UsageError, "functions at module level"),
    ],
    ids=["error", "odd-error", "result", "item", "broadcast", "function"],
)
def test_what_goes_wrong_in_a_worker_is_raised_here(
    fn: Callable[[Any, Any], Any], items: list[Any], broadcast: Any, error: type, said: str
) -> None:
    with pytest.raises(error, match=said):
        list(executor(2).map_unordered(fn, items, broadcast))


def test_a_generator_that_is_closed_early_leaves_no_process() -> None:
    results = executor(2).map_unordered(sleep_long, range(9), 60)
    before = time.monotonic()

    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert time.monotonic() - before < 30


@pytest.mark.parametrize("breaks", [False, True])
def test_an_interrupt_waits_until_a_worker_has_started(*, breaks: bool) -> None:
    steps = []

    def start() -> None:
        with undisturbed():
            os.kill(os.getpid(), signal.SIGINT)
            steps.append("started")
            if breaks:
                raise BrokenPipeError

    with pytest.raises(KeyboardInterrupt):
        start()
    assert steps == ["started"]
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_ends_the_pool_at_once_and_quietly(tmp_path: Path) -> None:
    process = script(tmp_path / "interrupted.py", INTERRUPTED)
    assert process.stdout is not None
    process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the workers too
    _, errors = process.communicate(timeout=30)

    assert (process.returncode, errors) == (130, "")
    assert all_ended(process)


def test_a_command_interrupted_as_its_workers_are_born_is_quiet(tmp_path: Path) -> None:
    process = script(
        tmp_path / "early.py",
        HEAD + "import os, signal, sys\n"
        "from shardward.quarantine.search.worker import start_quietly\n"
        "try:\n"
        "    start_quietly(2)\n"
        "    os.killpg(0, signal.SIGINT)\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n",
    )
    _, errors = process.communicate(timeout=30)

    assert (process.returncode, errors) == (130, "")
    assert all_ended(process)


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    process = script(tmp_path / "killed.py", INTERRUPTED)
    assert process.stdout is not None
    process.stdout.readline()
    assert len(session(process)) >= 2
    process.kill()
    process.communicate(timeout=30)

    assert all_ended(process)


def test_a_script_that_starts_scans_when_it_is_imported_is_told_so(tmp_path: Path) -> None:
    process = script(tmp_path / "unguarded.py", UNGUARDED)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "CorpusError: a scan worker ended with exit code 1 as it started" in errors
    assert "under if __name__ == '__main__'" in errors
    assert all_ended(process)


TEXTS = [prose(random.Random(i), 60) for i in range(60)]
TEXTS[31] = "DIE " + TEXTS[31]
TEXTS[2] = TEXTS[50] = random.Random(12).randbytes(900).decode("latin-1")
BAD = "part-001.parquet"


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return corpus(tmp_path, TEXTS, shards=3, rows=10)


def test_a_text_that_ends_its_worker_costs_a_scan_one_block(manifest: Manifest) -> None:
    report = run_scan(manifest, workers=2, panel=Panel(detectors=(Killer(),)))
    (failure,) = report.failures

    assert failure.startswith(f"{BAD} (documents 30 to 39): its scan worker was ended by SIGKILL")
    assert {finding.doc for finding in report.findings if finding.verdict} == {2, 50}
    assert report.duplicates is not None
    assert report.duplicates.copies == 1


def test_a_shard_that_ends_its_worker_hides_no_hit_in_the_others(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(similar, "scan_shard", search_all_but_second)
    found = similar.run_query(manifest, build_query(manifest, [2]), workers=2)

    assert [(hit.doc, hit.kind) for hit in found.hits] == [(50, "exact"), (50, "junk")]
    assert [failure.split(":")[0] for failure in found.failures] == [BAD]


def test_a_shard_that_ends_its_worker_stops_no_other_from_being_indexed(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_job, "index_shard", index_all_but_second)
    with pytest.raises(CorpusError, match=f"^1 of 3 shards .*: {BAD}: its scan worker"):
        index_job.build_signatures(manifest, workers=2)

    assert [usable_sidecar(manifest, n) is not None for n in range(3)] == [True, False, True]
