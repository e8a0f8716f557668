"""python -m benchmarks.ledger PART… [--ids N] [--memory 2GB] [--home DIR]; parts: see README."""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

from . import asking, compare, faults, follow, journal


def main() -> None:
    """Run the parts that are named, by default the short ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["journal", "compare"])
    parser.add_argument("--ids", type=float, default=1e8, help="ids in the large run")
    parser.add_argument("--home", type=Path, default=None, help="directory for the data")
    parser.add_argument("--memory", default="2GB", help="setting that bounds the ledger's memory")
    given = parser.parse_args()
    os.environ["SHARDWARD_LEDGER_MEMORY"] = given.memory
    if given.home is not None:
        given.home.mkdir(parents=True, exist_ok=True)
    home = Path(tempfile.mkdtemp(prefix="ledger-", dir=given.home))
    try:
        for part in given.parts:
            _run(part, home, int(given.ids))
    finally:
        shutil.rmtree(home)


def _run(part: str, home: Path, ids: int) -> None:
    place = home / part
    place.mkdir()
    if part == "journal":
        journal.cost(place)
        journal.size()
    elif part == "compare":
        compare.compare(place)
    elif part == "follow":
        follow.follow(place)
    elif part == "faults":
        faults.kills(place)
        faults.truncations(place)
    elif part in ("ask", "cold"):
        run, corpus, total = asking.build(place, ids)
        if part == "ask":
            asking.ingesting(run, total)
            asking.questions(run, corpus, total)
        asking.cold(run, total)
    else:
        raise SystemExit(f"unknown part {part!r}")


if __name__ == "__main__":
    main()
