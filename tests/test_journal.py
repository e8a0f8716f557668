"""Writing and reading: nothing acknowledged is lost, nothing false is read."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock
from zlib import crc32

import pytest
from helpers_journal import facts, record, write_journal

from shardward.loader.errors import FormatError, NotFound, ShardwardError
from shardward.loader.journal import JournalWriter, iter_journal, read_journal
from shardward.loader.journal_frame import HEADER, Kind, scan
from shardward.loader.records import delivered, prepare_delivered


def steps(path: Path) -> list[tuple[int, int]]:
    return [(frame.kind, frame.step) for frame in read_journal(path).frames]


def test_a_reader_sees_records_in_the_order_of_writing(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "a.swj")
    content = read_journal(path)

    assert steps(path) == [(k, s) for s in (1, 2, 3) for k in (Kind.DELIVERED, Kind.COMPLETED)]
    assert facts(delivered(content.frames[0])) == facts(record(1))
    assert (content.gaps, content.torn, content.end) == ((), 0, path.stat().st_size)


def test_one_record_is_one_system_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Mock(side_effect=os.writev)
    monkeypatch.setattr(os, "writev", calls)
    write_journal(tmp_path / "a.swj", steps=2)

    assert calls.call_count == 4


def test_D7_a_journal_cut_at_every_byte_of_its_last_record(tmp_path: Path) -> None:
    whole = write_journal(tmp_path / "whole.swj", steps=2).read_bytes()
    last = read_journal(tmp_path / "whole.swj").frames[-1]
    for size in range(last.offset, last.end):
        path = tmp_path / "cut.swj"
        path.write_bytes(whole[:size])
        content = read_journal(path)
        assert [frame.end for frame in content.frames][-1] == last.offset
        assert content.torn == size - last.offset

        with JournalWriter(path, sync_seconds=0) as writer:
            writer.append(prepare_delivered(record(3)))
        content = read_journal(path)
        assert [frame.step for frame in content.frames] == [1, 1, 2, 3]
        assert content.torn == 0
        assert content.gaps == (((last.offset, size),) if size > last.offset else ())


def test_a_flipped_bit_anywhere_loses_only_its_own_record(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "a.swj", steps=2)
    whole, frames = path.read_bytes(), read_journal(path).frames
    for bit in range(frames[1].offset * 8, frames[1].end * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        found = scan(bytes(data))
        assert [frame.offset for frame in found.frames] == [
            frame.offset for frame in frames if frame is not frames[1]
        ]
        assert found.gaps == ((frames[1].offset, frames[1].end),)


def test_an_old_frame_left_in_a_torn_tail_is_not_read_again(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "a.swj", steps=1)
    data = path.read_bytes()

    assert len(scan(data + data).frames) == 2


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
def test_small_chunks_read_the_same(tmp_path: Path, chunk: int) -> None:
    path = write_journal(tmp_path / "a.swj")
    path.write_bytes(path.read_bytes() + b"SWJ\n" * 9)
    frames = [frame for part in iter_journal(path, chunk=chunk) for frame in part.frames]

    assert frames == list(read_journal(path).frames)


def test_a_reader_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "a.swj"
    with JournalWriter(path, sync_seconds=0) as writer:
        writer.append(prepare_delivered(record(1)))
        end = read_journal(path).end
        writer.append(prepare_delivered(record(2)))

        assert [frame.step for frame in read_journal(path, end).frames] == [2]


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    path = write_journal(tmp_path / "a.swj", steps=1)
    data = bytearray(path.read_bytes())
    frame = read_journal(path).frames[0]
    data[4] = 9
    crc = crc32(bytes(8), crc32(data[: HEADER.size - 4], crc32(frame.payload)))
    data[HEADER.size - 4 : HEADER.size] = crc.to_bytes(4, "little")
    path.write_bytes(data)

    with pytest.raises(FormatError, match="version 9"):
        read_journal(path)


def test_a_missing_journal_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="a\\.swj"):
        read_journal(tmp_path / "a.swj")


def test_records_become_durable_without_a_call(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "a.swj", sync_seconds=0.01) as writer:
        end = writer.append(prepare_delivered(record(1)))
        deadline = time.monotonic() + 5
        while writer.synced < end and time.monotonic() < deadline:
            time.sleep(0.005)

        assert writer.synced == end


def test_sync_covers_everything_written_before_it(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "a.swj", sync_seconds=0) as writer:
        end = writer.append(prepare_delivered(record(1)))

        assert (writer.synced, writer.sync(), writer.synced) == (0, end, end)


def test_a_short_write_raises_and_the_next_record_is_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.swj"
    real = os.writev
    with JournalWriter(path, sync_seconds=0) as writer:
        writer.append(prepare_delivered(record(1)))
        monkeypatch.setattr(os, "writev", lambda fd, parts: os.write(fd, b"".join(parts)[:50]))
        with pytest.raises(ShardwardError, match="No space left"):
            writer.append(prepare_delivered(record(2)))
        monkeypatch.setattr(os, "writev", real)
        writer.append(prepare_delivered(record(2)))

    assert [frame.step for frame in read_journal(path).frames] == [1, 2]


def test_a_failed_group_sync_is_raised_by_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    writer = JournalWriter(tmp_path / "a.swj", sync_seconds=0)
    writer.append(prepare_delivered(record(1)))
    monkeypatch.setattr(os, "fdatasync", refuse)
    with pytest.raises(ShardwardError, match="Input/output error"):
        writer.sync()
    monkeypatch.undo()

    with pytest.raises(ShardwardError, match="up to byte 0 are durable"):
        writer.append(prepare_delivered(record(2)))
    with pytest.raises(ShardwardError):
        writer.close()


FORKED = """
import os, sys
from pathlib import Path
from helpers_journal import record
from shardward.loader.errors import ShardwardError
from shardward.loader.journal import JournalWriter
from shardward.loader.records import prepare_delivered

with JournalWriter(Path(sys.argv[1]), sync_seconds=0) as writer:
    writer.append(prepare_delivered(record(1)))
    if os.fork() == 0:
        try:
            writer.append(prepare_delivered(record(2)))
        except ShardwardError as error:
            print(error, flush=True)
        writer.close()
        os._exit(0)
    os.wait()
    writer.append(prepare_delivered(record(3)))
"""


def test_a_writer_used_after_a_fork_raises(tmp_path: Path) -> None:
    path = tmp_path / "a.swj"
    done = subprocess.run(
        [sys.executable, "-c", FORKED, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "after a fork; open a writer of its own there" in done.stdout
    assert [step for _, step in steps(path)] == [1, 3]


def test_a_clock_that_jumps_back_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([2_000, 1_000, 500])
    monkeypatch.setattr(time, "time_ns", lambda: next(ticks))
    with JournalWriter(tmp_path / "a.swj", sync_seconds=0) as writer:
        for step in (1, 2, 3):
            writer.append(prepare_delivered(record(step)))

    assert [frame.step for frame in read_journal(tmp_path / "a.swj").frames] == [1, 2, 3]


def test_truncations_to_a_synced_offset_with_garbage_tails_lose_nothing(tmp_path: Path) -> None:
    rng = random.Random(0)
    path = write_journal(tmp_path / "a.swj", steps=20)
    whole, frames = path.read_bytes(), read_journal(path).frames
    for _ in range(200):
        kept = rng.randrange(len(frames))
        tail = bytearray(rng.randbytes(rng.randrange(200)))
        if rng.random() < 0.5:
            end = frames[kept].end
            tail[:0] = whole[frames[kept].offset : end - 1] + bytes([whole[end - 1] ^ 1])
        found = scan(whole[: frames[kept].offset] + bytes(tail))

        assert found.frames == frames[:kept]


def test_a_signal_handler_may_close_while_the_journal_is_being_closed(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path / "journal.bin")
    thread, writer._thread = writer._thread, None
    assert thread is not None

    def join() -> None:
        writer._thread = None
        writer.close()
        thread.join()

    writer._thread = Mock(join=join)
    writer.close()

    assert writer._handle < 0
