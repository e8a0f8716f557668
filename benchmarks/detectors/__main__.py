"""python -m benchmarks.detectors [--only PART…] [--corpus DIR] [--half 0|1]; one JSON a result.

Parts: speed, quality, other, recall, peers. `peers` needs the packages it times: see its module.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from . import other_material, peers, quality, recall, speed


def main() -> None:
    """Run the parts that are named, by default all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=Path("../shared/corpus"))
    parser.add_argument("--half", type=int, choices=(0, 1), default=1, help="of other material")
    parser.add_argument("--scan-documents", type=int, default=4_000_000)
    parts: dict[str, Callable[[argparse.Namespace], None]] = {
        "speed": lambda given: speed.main(given.corpus, given.scan_documents),
        "quality": lambda given: quality.main(given.corpus),
        "other": lambda given: other_material.main(given.corpus, given.half),
        "recall": lambda given: recall.main(given.corpus),
        "peers": lambda given: peers.main(given.corpus),
    }
    parser.add_argument("--only", nargs="+", choices=tuple(parts), default=tuple(parts))
    given = parser.parse_args()
    for name in given.only:
        parts[name](given)


if __name__ == "__main__":
    main()
