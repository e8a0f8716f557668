"""Settings that every test shares."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # xdist workers share the cores
os.environ.setdefault("MPLBACKEND", "Agg")
