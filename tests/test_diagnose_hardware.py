"""Counters from a dcgm-exporter page over HTTP, from NVML, and events of nodes by name."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
from helpers_diagnose import an_event

from shardward.loader.errors import MissingExtra
from shardward.quarantine.diagnose import hardware
from shardward.quarantine.diagnose.attribution import attribute
from shardward.quarantine.diagnose.evidence import Evidence
from shardward.quarantine.diagnose.hardware import HardwareWatch, node_sign, read_counters
from shardward.quarantine.diagnose.nvml import Nvml

ROWS = "ROW_REMAP_FAILURE"


class Exporter(BaseHTTPRequestHandler):
    """Answers with the counters that stand in `page`."""

    page = ""
    pause = 0.0

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        with suppress(OSError):
            for byte in self.page.encode() if self.pause else ():
                self.wfile.write(bytes([byte]))
                time.sleep(self.pause)
            self.wfile.write(b"" if self.pause else self.page.encode("latin-1"))

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Exporter)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_counter_that_rises_on_the_exporter_page_is_a_sign(endpoint: str) -> None:
    watch = HardwareWatch(endpoint)
    line = 'DCGM_FI_DEV_{}{{gpu="0",Hostname="n1"}} {}\n'
    Exporter.page = line.format("ROW_REMAP_FAILURE", 0) + line.format("PCIE_REPLAY_COUNTER", 7)
    first = watch.signs(100)
    Exporter.page = line.format("ROW_REMAP_FAILURE", 1) + line.format("PCIE_REPLAY_COUNTER", 7)
    second = watch.signs(200)

    assert first == []
    assert [(sign.step, sign.what) for sign in second] == [
        (200, "row remap failures rose from 0 to 1 on n1/gpu0")
    ]
    assert watch.signs(300) == []


def test_an_exporter_that_does_not_answer_is_said_and_stops_nothing() -> None:
    watch = HardwareWatch("http://127.0.0.1:9/metrics", timeout=0.5)

    assert watch.signs(1) == []
    assert "does not answer" in str(watch.unavailable)


def test_an_exporter_whose_page_drips_is_given_up(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Exporter, "page", "# a page\n" * 5)
    monkeypatch.setattr(Exporter, "pause", 0.05)
    watch = HardwareWatch(endpoint, timeout=0.3)

    assert watch.signs(1) == []
    assert "took longer than 0.3 s" in str(watch.unavailable)


def test_an_exporter_whose_header_drips_holds_no_step_for_longer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        done = threading.Event()

        def drip() -> None:
            connection, _ = server.accept()
            with connection, suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not done.wait(0.05):
                    connection.sendall(b"a")

        thread = threading.Thread(target=drip)
        thread.start()
        watch = HardwareWatch(f"http://127.0.0.1:{server.getsockname()[1]}/", timeout=0.2)

        assert watch.signs(1) == []
        assert "took longer than 0.2 s" in str(watch.unavailable)
        assert watch.signs(2) == []
        assert watch.unavailable == "the source of counters is still at its last answer"
        done.set()
        thread.join()


def test_a_driver_that_hangs_holds_no_step_and_is_asked_again_once_it_answers() -> None:
    key = ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "n1/gpu0")
    goes_on, answered = threading.Event(), threading.Event()
    answers = iter([{key: 0.0}, {key: 1.0}, {key: 1.0}])

    def source() -> dict[tuple[str, str], float]:
        answer = next(answers)
        if answer[key] and not goes_on.is_set():
            goes_on.wait()
            answered.set()
        return answer

    watch = HardwareWatch(source, timeout=0.1)
    watch.signs(1)

    assert watch.signs(2) == []
    assert "took longer than 0.1 s" in str(watch.unavailable)
    goes_on.set()
    answered.wait()
    watch._reading.answer(5)  # type: ignore[union-attr]
    assert [sign.step for sign in watch.signs(3)] == [3]


def test_a_source_that_raises_is_said_and_keeps_what_it_said_before() -> None:
    key = ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "n1/gpu0")
    answers = iter([{key: 0.0}, None, {key: 1.0}])

    def source() -> dict[tuple[str, str], float]:
        answer = next(answers)
        if answer is None:
            raise RuntimeError("driver gone")
        return answer

    watch = HardwareWatch(source)
    watch.signs(1)

    assert watch.signs(2) == []
    assert watch.unavailable == "the source of counters failed: RuntimeError('driver gone')"
    assert [sign.step for sign in watch.signs(3)] == [3]
    assert watch.unavailable is None


@pytest.mark.parametrize(
    "odd",
    ["NaN", "+Inf", "-1", "1e308", "9" * 400, "9223372036854775794", "2147483632", "three", ""],
)
def test_a_value_that_is_no_count_is_passed_over_and_the_count_before_stays(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, odd: str
) -> None:
    watch = HardwareWatch(endpoint)
    said = []
    for value in ("2", odd, "2", "3"):
        lines = (f'DCGM_FI_DEV_{name}{{gpu="0"}} {value}\n' for name in ("XID_ERRORS", ROWS))
        monkeypatch.setattr(Exporter, "page", "".join(lines))
        said.append([sign.what for sign in watch.signs()])

    assert said[:3] == [[], [], []]
    assert said[3] == ["row remap failures rose from 2 to 3 on host/gpu0", "XID 3 on host/gpu0"]


def test_the_largest_of_several_series_of_one_device_counts() -> None:
    line = f'DCGM_FI_DEV_{ROWS}{{gpu="0",GPU_I_ID="%d"}} %d\n'
    page = line % (1, 5) + line % (2, 0)

    assert list(read_counters(page).values()) == [5.0]


@pytest.mark.parametrize(
    "page",
    [b"", b"<html>", b"\x1f\x8b\x00", f'DCGM_FI_DEV_{ROWS}{{gpu="0"}} 1\n'.encode("utf-16")],
)
def test_a_page_without_counters_is_said(endpoint: str, page: bytes) -> None:
    Exporter.page = page.decode("latin-1")
    watch = HardwareWatch(endpoint)

    assert watch.signs() == []
    assert "none of the counters" in str(watch.unavailable)


def test_a_page_too_large_is_read_up_to_its_last_whole_line(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count that is cut in two would be less now, and rise at the next look."""
    line = f'DCGM_FI_DEV_{ROWS}{{gpu="%d"}} 12\n'
    watch = HardwareWatch(endpoint)
    said = []
    for cut, largest in ((0, 1 << 20), (2, 8), (0, 1 << 20)):
        page = line % 0 + line % 1
        monkeypatch.setattr(hardware, "LARGEST_PAGE", largest)
        monkeypatch.setattr(Exporter, "page", page[: len(page) - cut])
        said.append((watch.signs(), watch.unavailable))

    assert said == [([], None)] * 3


def test_a_device_that_is_seen_for_the_first_time_is_taken_note_of(
    endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f'DCGM_FI_DEV_{ROWS}{{gpu="%d"}} %d\n'
    watch = HardwareWatch(endpoint)
    said = []
    for page in (line % (0, 1), line % (1, 7), line % (0, 1) + line % (1, 8)):
        monkeypatch.setattr(Exporter, "page", page)
        said.append([sign.what for sign in watch.signs()])

    assert said == [[], [], ["row remap failures rose from 7 to 8 on host/gpu1"]]


def test_a_page_of_more_counters_than_any_machine_has_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hardware, "MOST_SERIES", 2)
    page = "".join(f'DCGM_FI_DEV_{ROWS}{{gpu="{gpu}"}} 1\n' for gpu in range(3))

    with pytest.raises(ValueError, match="more than 2 counters"):
        read_counters(page)


@pytest.mark.parametrize(
    "answer", [None, {("DCGM_FI_DEV_XID_ERRORS", "n"): "many"}, {"odd": 1.0}, {("", ""): 1.0}]
)
def test_a_source_that_answers_anything_at_all_stops_nothing(answer: object) -> None:
    watch = HardwareWatch(lambda: answer)  # type: ignore[arg-type, return-value]

    assert [watch.signs(), watch.signs()] == [[], []]


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="no http address"):
        HardwareWatch("file:///etc/passwd")


class Error(Exception):
    """What NVML raises."""


def a_machine(**values: object) -> SimpleNamespace:
    """Return a stand-in for pynvml on a machine with two devices, of which one has no links."""
    state = {"xids": [], "double": 0, "rows": (0, 0, False, False), **values}

    def wait(events: object, timeout: int) -> SimpleNamespace:
        assert timeout == 0
        if not state["xids"]:
            raise Error("timeout")
        device, code = state["xids"].pop(0)  # type: ignore[attr-defined]
        return SimpleNamespace(device=device, eventData=code)

    def link(device: str, number: int, error: int) -> int:
        if device == "gpu1" or number >= 4:
            raise Error("not supported")
        return 1

    return SimpleNamespace(
        NVMLError=Error,
        NVML_VOLATILE_ECC=0,
        NVML_MEMORY_ERROR_TYPE_CORRECTED=0,
        NVML_MEMORY_ERROR_TYPE_UNCORRECTED=1,
        NVML_NVLINK_ERROR_DL_CRC_FLIT=0,
        NVML_NVLINK_ERROR_DL_RECOVERY=1,
        nvmlEventTypeXidCriticalError=8,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: f"gpu{index}",
        nvmlDeviceGetIndex=lambda device: int(device[3:]),
        nvmlEventSetCreate=lambda: "events",
        nvmlDeviceRegisterEvents=lambda device, kind, events: None,
        nvmlEventSetWait_v2=wait,
        nvmlDeviceGetTotalEccErrors=lambda device, kind, volatile: state["double"] if kind else 3,
        nvmlDeviceGetRemappedRows=lambda device: state["rows"],
        nvmlDeviceGetPcieReplayCounter=lambda device: 5,
        nvmlDeviceGetNvLinkErrorCounter=link,
        state=state,
    )


def test_the_counters_of_nvml_have_the_names_of_the_exporter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "n1")
    machine = a_machine()
    monkeypatch.setitem(sys.modules, "pynvml", machine)
    watch = HardwareWatch(Nvml().read)
    counters = Nvml().read()
    watch.signs()
    machine.state |= {"double": 2, "rows": (0, 1, True, True), "xids": [("gpu1", 79)]}
    signs = watch.signs(500)

    assert counters["DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "n1/gpu0"] == 3
    assert counters["DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "n1/gpu0"] == 4
    assert ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "n1/gpu1") not in counters
    assert {sign.what for sign in signs if "gpu1" in sign.what} == {
        "double-bit ECC errors rose from 0 to 2 on n1/gpu1",
        "uncorrectable remapped rows rose from 0 to 1 on n1/gpu1",
        "row remap failures rose from 0 to 1 on n1/gpu1",
        "XID 79 on n1/gpu1",
    }
    assert watch.signs(600) == []


def test_without_pynvml_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)

    with pytest.raises(MissingExtra, match="nvidia-ml-py"):
        Nvml()


def test_without_a_driver_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_driver() -> None:
        raise Error("driver not loaded")

    machine = a_machine()
    machine.nvmlInit = no_driver
    monkeypatch.setitem(sys.modules, "pynvml", machine)

    with pytest.raises(MissingExtra, match="driver not loaded"):
        Nvml()


@pytest.mark.parametrize(
    ("name", "best"), [("nccl_timeout", "hardware"), ("cable_seen", "unknown")]
)
def test_events_of_nodes_are_weighed_by_their_name(name: str, best: str) -> None:
    sign = node_sign(name, "n7", step=600)

    assert sign.what.endswith("on n7")
    assert attribute(Evidence(event=an_event(), hardware=(sign,)))[0].name == best


def test_no_thread_left_stops_no_training(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    watch = HardwareWatch(dict)

    assert watch.signs(1) == []
    assert "can't start new thread" in str(watch.unavailable)
