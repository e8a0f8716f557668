"""One rank of a training job: a process that steps when told to, until it is killed.

Usage: python helpers_rank.py MANIFEST RUN RANK RANKS BATCH CURSOR|- LAUNCH
Every line on stdin asks for one step; the answer is the cursor after it, or "end".
"""

from __future__ import annotations

import json
import sys

from shardward.loader import Manifest, Run, ShardLoader, Topology


def main() -> None:
    manifest, run, rank, ranks, batch, cursor, launch = sys.argv[1:]
    opened = Run.open(run)
    with ShardLoader(
        Manifest.load(manifest),
        opened.plan(),
        run=opened,
        batch=int(batch),
        topology=Topology(dp_rank=int(rank), dp_size=int(ranks)),
        cursor=None if cursor == "-" else json.loads(cursor),
        launch=launch,
        epochs=2,
    ) as loader:
        print("ready", flush=True)
        for _ in sys.stdin:
            found = next(loader, None)
            if found is None:
                print("end", flush=True)
                break
            loader.observe(found.step, loss=1.0 / found.step)
            print(json.dumps(found.cursor_after.to_json()), flush=True)


if __name__ == "__main__":
    main()
