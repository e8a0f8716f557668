"""Stop full drills in every phase, go on each time, and compare the end with one nobody stopped.

Usage: python -m benchmarks.drill.killed [--cause CAUSE] [--how HOW] [--stops N] [--seed N]
           [--draw N] [--against RESULT] [--scratch DIR]

`--how` is kill (SIGKILL to the drill and its commands), interrupt (SIGINT to them, as Ctrl-C in a
terminal), full (the disk fills under the drill and is freed when it has given up; mounts a tmpfs,
so it needs root), or all. One JSON object for each stop and each chain; 1 is returned when a chain
did not end as the drill that nobody stopped. `--against` is the saved result of that one, which is
played first otherwise. Phases are those that the drill itself writes to its `drill.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shardward.quarantine.drill.play import PHASES
from shardward.quarantine.drill.result import comparable
from shardward.quarantine.drill.state import Cause

CAUSES: tuple[Cause, ...] = ("data", "learning-rate")
WAYS = ("kill", "interrupt", "full")
ROOM = "300m"
POLL = 0.02
PATIENCE = 900.0
"""Seconds that a phase may take to begin, or a drill to give up."""
LATEST = 0.5
"""Share of a phase's usual seconds after which it is stopped at the latest."""
Json = dict[str, Any]


@dataclass(kw_only=True)
class Drill:
    """One drill in a process group of its own, started again and again.

    Attributes:
        words: the command line.
        out: the drill's directory.
        kept: where stdout and stderr of each start lie.
        starts: how often it was started.
    """

    words: list[str]
    out: Path
    kept: Path
    starts: int = 0
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        """Start it; it goes on where the last start stood."""
        self.starts += 1
        with self._kept("out").open("wb") as out, self._kept("err").open("wb") as err:
            self.process = subprocess.Popen(
                [*self.words, "--out", str(self.out)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def phase(self) -> str | None:
        """Return the phase that it is in, None between two phases and before the first."""
        state = self._state()
        return None if state["begun"] in state["done"] else state["begun"]

    def is_over(self, phase: str) -> bool:
        """Return whether `phase` is done."""
        return phase in self._state()["done"]

    def _state(self) -> Json:
        """Return what the drill has written down of its phases."""
        with suppress(FileNotFoundError):
            state: Json = json.loads((self.out / "drill.json").read_bytes())
            return state
        return {"begun": None, "done": {}}

    def wait_for(self, phase: str) -> bool:
        """Wait until it is in `phase`; return whether it came there."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < until:
            # What an earlier start wrote down counts once this one has taken the directory.
            if self.phase() == phase and f"] {phase}" in self.said():
                return True
            time.sleep(POLL)
        return False

    def stay_in(self, phase: str, seconds: float) -> None:
        """Return after `seconds`, or when `phase` is over."""
        until = time.monotonic() + seconds
        while self.phase() == phase and self.process.poll() is None:
            left = until - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the drill and to the commands that it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def said(self) -> str:
        """Return what the last start said on stderr."""
        return self._kept("err").read_text(encoding="utf-8", errors="replace")

    def answer(self) -> Json:
        """Return the result that the last start printed."""
        result: Json = json.loads(self._kept("out").read_bytes())
        return result

    def _kept(self, stream: str) -> Path:
        return self.kept / f"{self.starts:03d}.{stream}"


def main(words: list[str]) -> int:
    """Play the chains that were asked for; return 1 when one ended otherwise."""
    asked = _parser().parse_args(words)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell ignored it
    failed = 0
    for cause in CAUSES if asked.cause == "all" else [asked.cause]:
        with _scratch(asked.scratch) as scratch:
            base = _unstopped(asked, cause, scratch / f"{cause}-unstopped")
            for how in WAYS if asked.how == "all" else [asked.how]:
                home = scratch / f"{cause}-{how}"
                failed += not chain(asked, cause, how, base=base, home=home)
    return min(failed, 1)


def chain(asked: argparse.Namespace, cause: Cause, how: str, *, base: Json, home: Path) -> bool:
    """Stop one drill `asked.stops` times in each phase; print and return how it ended."""
    home.mkdir()
    began, draw = time.monotonic(), random.Random(f"{asked.draw} {cause} {how}")
    with _room(home / "room", small=how == "full") as room:
        drill = Drill(words=_words(cause, asked.seed), out=room / "out", kept=home)
        stops = []
        for phase, number in itertools.product(PHASES[cause], range(asked.stops)):
            if drill.is_over(phase):
                continue  # it was over before the instant that was drawn
            share = (number + draw.random()) / asked.stops  # an early stop, then later ones
            seconds = base["seconds"][phase] * share * LATEST
            stops.append(stop(drill, how, phase, seconds=seconds))
            _print("stop", {"cause": cause, "how": how, **stops[-1]})
        drill.start()
        code = drill.process.wait()
        end: Json = {"exit": code, "said": drill.said()[-1000:], "holds": False}
        if code == 0:
            end = _judged(drill, base, stops)
    hit = {made["stopped_in"] for made in stops}
    end["phases_missed"] = [phase for phase in PHASES[cause] if phase not in hit]
    end["holds"] = end["holds"] and not end["phases_missed"]
    seconds = round(time.monotonic() - began, 1)
    _print("chain", {"cause": cause, "how": how, "seed": asked.seed, **end, "wall_s": seconds})
    return bool(end["holds"])


def stop(drill: Drill, how: str, phase: str, *, seconds: float) -> Json:
    """Start the drill, stop it `seconds` after `phase` began; return what it did and said."""
    drill.start()
    if not drill.wait_for(phase):
        drill.signal(signal.SIGKILL)
        drill.process.wait()
    drill.stay_in(phase, seconds)
    if how == "full":
        _fill(drill)
    else:
        drill.signal(signal.SIGKILL if how == "kill" else signal.SIGINT)
    code = drill.process.wait(PATIENCE)
    said = drill.said()
    return {
        "start": drill.starts,
        "phase": phase,
        "after_s": round(seconds, 2),
        "stopped_in": drill.phase(),
        "exit": code,
        "said": "" if how == "kill" else (said.splitlines() or [""])[-1],
        "as_it_should": _as_it_should(how, code, said),
    }


def _as_it_should(how: str, code: int, said: str) -> bool:
    if "Traceback" in said:
        return False
    if how == "kill":
        return code == -signal.SIGKILL
    if how == "interrupt":
        return code == 128 + signal.SIGINT and "to go on: shardward drill" in said
    return code == 1 and "no space left" in said.lower()


def _fill(drill: Drill) -> None:
    """Take every byte that is free beside the drill until it gives up."""
    filler = drill.out.parent / "filler"
    try:
        with filler.open("ab", buffering=0) as stream:
            while drill.process.poll() is None:
                for size in (1 << 20, 1 << 12):
                    with suppress(OSError):
                        while stream.write(bytes(size)) == size:
                            pass
                time.sleep(POLL)
    finally:
        filler.unlink()


def _judged(drill: Drill, base: Json, stops: list[Json]) -> Json:
    """Return what the end of a chain amounts to, beside that of the drill that nobody stopped."""
    result, run = drill.answer(), drill.out / "run"
    (incident,) = result["incidents"]
    shown = _ask("incident", "show", incident["id"], "--run", str(run))
    acts = [event["act"] for event in shown["events"]]
    proof = incident.get("proof", {"checks": []})["checks"]
    differs = list(_differences(comparable(base), comparable(result)))
    skips = int(result["cause"] == "data")
    facts = {
        "exit": 0,
        "stops": len(stops),
        "passed": result["passed"],
        "differs": differs,
        "stops_as_they_should": sum(made["as_it_should"] for made in stops),
        "incidents": sorted(path.name for path in (run / "incidents").iterdir()),
        "skips": acts.count("skip"),
        "resumes": acts.count("resume") + acts.count("not-data"),
        "proof": f"{sum(check['holds'] for check in proof)} of {len(proof)}",
        "bitwise": incident["replay"]["bitwise"],
        "problems": result["problems"],
    }
    if result["score"]:
        families = result["score"]["families"]
        facts["recall"] = {each["family"]: each["recall"] for each in families}
        facts["precision"] = {each["family"]: round(each["precision"], 4) for each in families}
    single = facts["incidents"] == [incident["id"]] and facts["resumes"] == 1
    well = facts["stops_as_they_should"] == len(stops) and facts["skips"] == skips
    facts["holds"] = result["passed"] and not differs and single and well
    return facts


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield where two JSON values differ, with both values."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(name), other.get(name), f"{path}/{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{path}/{number}")
    elif one != other:
        yield f"{path}: {str(one)[:100]} and {str(other)[:100]}"


def _unstopped(asked: argparse.Namespace, cause: str, home: Path) -> Json:
    if asked.against is not None:
        saved: Json = json.loads(asked.against.read_bytes())
        if (saved["cause"], saved["seed"]) != (cause, asked.seed):
            raise SystemExit(f"{asked.against} is of {saved['cause']} and seed {saved['seed']}")
        return saved
    home.mkdir()
    drill = Drill(words=_words(cause, asked.seed), out=home / "out", kept=home)
    drill.start()
    if drill.process.wait() != 0:
        raise SystemExit(f"the drill that nobody stopped did not pass: {drill.said()[-1000:]}")
    return drill.answer()


@contextmanager
def _scratch(kept: Path | None) -> Iterator[Path]:
    """Give a directory to work in; one that was not named is removed."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="drill-killed-") as made:
        yield Path(made)


@contextmanager
def _room(path: Path, *, small: bool) -> Iterator[Path]:
    """Give a directory for the drill, on a file system of its own if that is to be filled."""
    path.mkdir()
    if not small:
        yield path
        return
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def _words(cause: str, seed: int) -> list[str]:
    asked = ["drill", "--seed", str(seed), "--cause", cause, "--json"]
    return [sys.executable, "-m", "shardward", *asked]


def _ask(*words: str) -> Json:
    command = [sys.executable, "-m", "shardward", *words, "--json"]
    answer: Json = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return answer


def _print(name: str, values: Json) -> None:
    sys.stdout.write(json.dumps({"benchmark": f"drill.{name}", **values}) + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drill.killed")
    parser.add_argument("--cause", choices=[*CAUSES, "all"], default="all")
    parser.add_argument("--how", choices=[*WAYS, "all"], default="all")
    parser.add_argument("--stops", type=int, default=1, help="in each phase")
    parser.add_argument("--seed", type=int, default=0, help="of the drill")
    parser.add_argument("--draw", type=int, default=0, help="of the instants")
    parser.add_argument("--against", type=Path, help="saved result of one cause, not stopped")
    parser.add_argument("--scratch", type=Path, help="where to work, and what to keep")
    return parser


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
