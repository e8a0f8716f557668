"""Launch tokens: how the ranks of one start find the same branch piece."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from .errors import TopologyError

_SCHEDULERS = (
    ("elastic", ("TORCHELASTIC_RUN_ID",), ("TORCHELASTIC_RESTART_COUNT",)),
    ("slurm", ("SLURM_JOB_ID",), ("SLURM_STEP_ID", "SLURM_RESTART_COUNT")),
)


def launch_token(launch: str | None, environment: Mapping[str, str], *, processes: int) -> str:
    """Return the token of this start: `launch`, or SHARDWARD_LAUNCH, or the scheduler's ids.

    A process that is alone makes a random one.

    Raises:
        TopologyError: several processes and no token, so they could not find each other.
    """
    given = launch or environment.get("SHARDWARD_LAUNCH")
    if given:
        return given
    if processes == 1:
        return secrets.token_hex(8)
    for name, needed, counted in _SCHEDULERS:
        # A static rendezvous of torchrun calls every job "none", so two starts would look alike.
        if all(environment.get(key, "none") not in ("", "none") for key in needed):
            parts = [environment[key] for key in needed]
            parts += [environment.get(key, "0") for key in counted]
            return "-".join([name, *parts])
    raise TopologyError(
        f"a job of {processes} processes needs a token that all of them share and no other start "
        "has; pass launch=…, set SHARDWARD_LAUNCH, or start it with srun or with torchrun and a "
        "--rdzv-id of its own"
    )
