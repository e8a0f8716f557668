"""What the machines report: counters of a dcgm-exporter text page, before and now."""

from __future__ import annotations

import re
from collections.abc import Mapping

from .evidence import HardwareSign

_LINE = re.compile(r"^(\w+)\{(.*)\}\s+(\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# Counter → (what it is, whether one of it alone explains a broken step).
COUNTERS: Mapping[str, tuple[str, bool]] = {
    "DCGM_FI_DEV_XID_ERRORS": ("XID", True),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("double-bit ECC errors", True),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("single-bit ECC errors", False),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("uncorrectable remapped rows", True),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("correctable remapped rows", False),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("row remap failures", True),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": ("NVLink CRC errors", False),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("NVLink recoveries", False),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("PCIe replays", False),
}
Counters = dict[tuple[str, str], float]


def read_counters(page: str) -> Counters:
    """Return {(counter, device): value} of the counters that matter; other lines are passed over.

    A device is named host/gpu, as the exporter labels it.
    """
    found: Counters = {}
    for line in page.splitlines():
        match = _LINE.match(line)
        if match is None or match[1] not in COUNTERS:
            continue
        labels = dict(_LABEL.findall(match[2]))
        device = f"{labels.get('Hostname', 'host')}/gpu{labels.get('gpu', '?')}"
        try:
            found[match[1], device] = float(match[3])
        except ValueError:
            continue
    return found


def signs_between(before: Counters, now: Counters, step: int | None = None) -> list[HardwareSign]:
    """Return a sign for every counter that rose, and for an XID that is new.

    An XID is a code, not a count: any other code than before is a new fault.
    """
    signs = []
    for (counter, device), value in sorted(now.items()):
        what, severe = COUNTERS[counter]
        earlier = before.get((counter, device), 0.0)
        if what == "XID":
            if value not in (0.0, earlier):
                signs.append(HardwareSign(step=step, what=f"XID {value:.0f} on {device}"))
        elif value > earlier:
            text = f"{what} rose from {earlier:.0f} to {value:.0f} on {device}"
            signs.append(HardwareSign(step=step, what=text, severe=severe))
    return signs
