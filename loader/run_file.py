"""`run.json` and `plan.json`: what a run is, written once when it is created."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .errors import FormatError, MismatchError, NotFound
from .files import publish_new
from .formats import canonical_json, check_format, parse_json
from .plan import Plan

FORMAT = "shardward.run"
VERSION = 1
FILE, PLAN = "run.json", "plan.json"
_TEXTS = ("run_id", "created", "plan_id", "fingerprint", "manifest")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """The content of `run.json`; see `Run` for its fields."""

    run_id: str
    created: str
    plan_id: str
    fingerprint: str
    manifest: str
    remote: str | None
    context: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the object that the file holds."""
        fields = {name: getattr(self, name) for name in (*_TEXTS, "remote")}
        return {"format": FORMAT, "version": VERSION, **fields, "context": dict(self.context)}


def write_run(
    path: Path,
    plan: Plan,
    manifest_path: Path,
    *,
    context: Mapping[str, Any],
    run_id: str | None,
    remote: str | None,
) -> None:
    """Write both files; `run.json`, which makes the directory a run, comes last."""
    value = RunFile(
        run_id=run_id or secrets.token_hex(6),
        created=now(),
        plan_id=plan.plan_id,
        manifest=str(manifest_path.resolve()),
        fingerprint=plan.fingerprint,
        remote=remote,
        context=context,
    )
    publish_new(path / PLAN, canonical_json(plan.to_json()) + b"\n")
    publish_new(path / FILE, canonical_json(value.to_json()) + b"\n")


def read_run(path: Path) -> RunFile:
    """Return what `run.json` in `path` says.

    Raises:
        NotFound: there is none.
        FormatError: it is malformed or of an unknown version.
    """
    where = path / FILE
    if not where.exists():
        raise NotFound(f"{path} holds no run (no run.json); give the run directory with --run")
    value = parse_json(where.read_bytes(), where=str(where))
    check_format(value, name=FORMAT, version=VERSION, where=str(where))
    wrong = [name for name in _TEXTS if not isinstance(value.get(name), str)]
    remote, context = value.get("remote"), value.get("context")
    if wrong or not isinstance(remote, str | None) or not isinstance(context, dict):
        raise FormatError(
            f"{where} lacks or misspells {', '.join(wrong) or 'remote or context'}; "
            "restore it from a copy"
        )
    return RunFile(**{name: value[name] for name in _TEXTS}, remote=remote, context=context)


def read_plan(path: Path, plan_id: str) -> Plan:
    """Return the plan in `plan.json`.

    Raises:
        NotFound: the file is gone.
        MismatchError: it is not the plan `plan_id`.
    """
    where = path / PLAN
    if not where.exists():
        raise NotFound(f"{where} is gone; restore it from a copy, its id is {plan_id}")
    plan = Plan.from_json(parse_json(where.read_bytes(), where=str(where)), where=str(where))
    if plan.plan_id != plan_id:
        raise MismatchError(
            f"{where} has plan id {plan.plan_id[:12]}, run.json says {plan_id[:12]}; "
            "restore the file from a copy"
        )
    return plan


def now() -> str:
    """Return the present time in UTC, RFC 3339 with microseconds."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
