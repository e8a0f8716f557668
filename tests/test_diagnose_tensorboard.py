"""TensorBoard event files, written here byte by byte as their format says."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardward.loader.errors import FormatError, ShardwardError
from shardward.quarantine.diagnose.signals import read_log

NAME = "events.out.tfevents.1700000000.host"


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record: bytes) -> bytes:
    head = struct.pack("<Q", len(record))
    return head + struct.pack("<I", crc32c(head)) + record + struct.pack("<I", crc32c(record))


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def sized(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def scalar(step: int, tag: str, value: float) -> bytes:
    number = varint(2 << 3 | 5) + struct.pack("<f", value)
    return event(step, sized(1, tag.encode()) + number)


def tensor(step: int, tag: str, value: float) -> bytes:
    body = varint(1 << 3) + varint(1) + sized(4, struct.pack("<f", value))
    return event(step, sized(1, tag.encode()) + sized(8, body))


def event(step: int, value: bytes) -> bytes:
    wall = varint(1 << 3 | 1) + struct.pack("<d", 1.7e9)
    return framed(wall + varint(2 << 3) + varint(step) + sized(5, sized(1, value)))


VERSION = framed(varint(1 << 3 | 1) + struct.pack("<d", 1.7e9) + sized(3, b"brain.Event:2"))


def written(directory: Path, data: bytes, name: str = NAME) -> Path:
    path = directory / name
    path.write_bytes(data)
    return path


def test_scalars_of_both_kinds_are_read(tmp_path: Path) -> None:
    data = VERSION + scalar(10, "train/loss", 2.5) + tensor(10, "train/grad_norm", 0.25)
    data += scalar(20, "train/loss", 2.25)

    log = read_log(written(tmp_path, data))

    assert log.series["loss"].steps.tolist() == [10, 20]
    assert log.series["loss"].values.tolist() == [2.5, 2.25]
    assert log.series["grad_norm"].values.tolist() == [0.25]


def test_an_event_file_is_known_by_its_content(tmp_path: Path) -> None:
    path = written(tmp_path, VERSION + scalar(1, "loss", 2.0), name="log.bin")

    assert len(read_log(path).series["loss"]) == 1


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_last_record_that_is_cut_off_is_left_out(tmp_path: Path, cut: int) -> None:
    data = VERSION + scalar(1, "loss", 2.0) + scalar(2, "loss", 2.0)

    log = read_log(written(tmp_path, data[:-cut]))

    assert log.series["loss"].steps.tolist() == [1]
    assert log.skipped == ("the last record is cut off",)


RECORDS = [VERSION, *(scalar(step, "loss", 2.0 + step / 64) for step in range(1, 9))]
STARTS = [sum(map(len, RECORDS[:place])) for place in range(len(RECORDS))]


@pytest.mark.parametrize("place", range(len(b"".join(RECORDS[:4]))))
def test_one_wrong_byte_costs_one_record_and_is_said_with_its_place(
    tmp_path: Path, place: int
) -> None:
    data = bytearray(b"".join(RECORDS))
    data[place] ^= 0x20
    hit = max(start for start in STARTS if start <= place)
    lost = STARTS.index(hit)

    log = read_log(written(tmp_path, bytes(data)))

    steps = [step for step in range(1, 9) if step != lost]
    assert log.series["loss"].steps.tolist() == steps
    assert log.series["loss"].values.tolist() == [2.0 + step / 64 for step in steps]
    (said,) = log.skipped
    assert said.startswith(f"corrupt at byte {hit}")


def test_an_event_file_without_a_sound_scalar_is_refused(tmp_path: Path) -> None:
    data = bytearray(VERSION + scalar(1, "loss", 2.0))
    data[len(VERSION)] ^= 1

    with pytest.raises(FormatError, match=f"no sound scalar .corrupt at byte {len(VERSION)}"):
        read_log(written(tmp_path, bytes(data)))


def test_of_many_faults_the_first_are_said_and_the_others_counted(tmp_path: Path) -> None:
    broken = bytearray(RECORDS[1])
    broken[20] ^= 1

    log = read_log(written(tmp_path, b"".join([*RECORDS, *[bytes(broken)] * 15])))

    assert len(log.series["loss"]) == 8
    assert len(log.skipped) == 11
    assert log.skipped[-1] == "5 more faults"


def test_a_record_that_is_no_event_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no TensorBoard event"):
        read_log(written(tmp_path, framed(b"\x12\xff")))


def test_an_event_file_without_scalars_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no rows"):
        read_log(written(tmp_path, VERSION))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=120))
def test_any_record_is_read_or_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, record: bytes
) -> None:
    with suppress(ShardwardError):
        read_log(written(tmp_path_factory.mktemp("any"), framed(record)))
