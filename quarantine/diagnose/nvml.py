"""The counters of this machine's GPUs from NVML, where `pynvml` is installed.

They have the names under which dcgm-exporter publishes them, so that one rule reads both. A
counter that a device does not have is left out. Reading waits for no kernel.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...loader.errors import MissingExtra
from .hardware import Counters

LINKS = 18


class Nvml:
    """Reads the counters of all GPUs of this machine; one object for the life of the process.

    Raises:
        MissingExtra: `pynvml` is not installed, or finds no driver.
    """

    def __init__(self) -> None:
        try:
            self._nvml: Any = import_module("pynvml")
        except ImportError as error:
            raise MissingExtra(
                "GPU counters need pynvml; run: pip install nvidia-ml-py, or read a "
                "dcgm-exporter page instead"
            ) from error
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise MissingExtra(
                f"NVML finds no driver ({error}); read a dcgm-exporter page instead"
            ) from error
        self._host = socket.gethostname()
        count = self._nvml.nvmlDeviceGetCount()
        self._devices = [self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._events = self._listen()

    def read(self) -> Counters:
        """Return {(counter, host/gpu): value} as `hardware.read_counters` does."""
        found: Counters = {}
        for index, device in enumerate(self._devices):
            for counter, value in self._counters(device).items():
                found[counter, f"{self._host}/gpu{index}"] = value
        found.update(self._xids())
        return found

    def _listen(self) -> Any:
        """Return the set of events that XIDs arrive in, or None where they are not told."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
            for device in self._devices:
                nvml.nvmlDeviceRegisterEvents(device, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError:
            return None
        return events

    def _xids(self) -> Counters:
        """Return the latest XID since the last reading, of each device; 0 without one."""
        nvml = self._nvml
        if self._events is None:
            return {}
        name = "DCGM_FI_DEV_XID_ERRORS"
        found = {(name, f"{self._host}/gpu{index}"): 0.0 for index in range(len(self._devices))}
        while True:
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
            except nvml.NVMLError:
                return found
            index = nvml.nvmlDeviceGetIndex(event.device)
            found[name, f"{self._host}/gpu{index}"] = float(event.eventData)

    def _counters(self, device: Any) -> dict[str, float]:
        nvml = self._nvml

        def errors(kind: int) -> Any:
            return nvml.nvmlDeviceGetTotalEccErrors(device, kind, nvml.NVML_VOLATILE_ECC)

        def rows(place: int) -> Any:
            return nvml.nvmlDeviceGetRemappedRows(device)[place]

        asked: dict[str, Callable[[], Any]] = {
            "ECC_SBE_VOL_TOTAL": lambda: errors(nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
            "ECC_DBE_VOL_TOTAL": lambda: errors(nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
            "CORRECTABLE_REMAPPED_ROWS": lambda: rows(0),
            "UNCORRECTABLE_REMAPPED_ROWS": lambda: rows(1),
            "ROW_REMAP_FAILURE": lambda: rows(3),
            "PCIE_REPLAY_COUNTER": lambda: nvml.nvmlDeviceGetPcieReplayCounter(device),
            "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": lambda: self._links(
                device, nvml.NVML_NVLINK_ERROR_DL_CRC_FLIT
            ),
            "NVLINK_RECOVERY_ERROR_COUNT_TOTAL": lambda: self._links(
                device, nvml.NVML_NVLINK_ERROR_DL_RECOVERY
            ),
        }
        found = {}
        for counter, ask in asked.items():
            try:
                found[f"DCGM_FI_DEV_{counter}"] = float(ask())
            except nvml.NVMLError:
                continue
        return found

    def _links(self, device: Any, error: int) -> int:
        """Return the sum of a link error over the links of a device."""
        total = 0
        for link in range(LINKS):
            try:
                total += self._nvml.nvmlDeviceGetNvLinkErrorCounter(device, link, error)
            except self._nvml.NVMLError:
                if link == 0:
                    raise
                break
        return total
