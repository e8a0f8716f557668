"""Run the loader's benchmark: `python -m benchmarks.loader --data DIR` from the repository root.

One JSON object per result goes to standard output and to DIR/results.jsonl, progress to standard
error. README.md explains the cases and the peers' environment.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .cases import CASES, OURS, Case
from .documents import Documents, make_documents
from .meter import machine
from .summary import summaries

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def main() -> None:
    """Make the documents, run the chosen cases in turn, print results and their medians."""
    options = _options()
    if options.install_peers:
        _install(options.peers)
    data = options.data.absolute()
    documents = make_documents(data / "documents", options.documents)
    facts = {"command": _command(), "machine": machine(), "data": documents.describe()}
    results = []
    with (data / "results.jsonl").open("w") as sink:
        for result in _results(options, documents):
            results.append(result)
            _emit({**result, **facts}, sink)
        for line in summaries(results):
            _emit({**line, **facts}, sink)


def _emit(line: dict[str, Any], sink: Any) -> None:
    print(json.dumps(line), flush=True)
    sink.write(json.dumps(line) + "\n")
    sink.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loader", description=__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="directory for documents, manifests and copies")
    add("--documents", type=int, default=480_000, help="number of documents (default 480000)")
    add("--repeats", type=int, default=5, help="rounds; cases take turns in each (default 5)")
    add("--only", nargs="*", default=[], help="groups or names of cases; default all")
    add("--peers", type=Path, default=ROOT / ".venv-peers", help="the peers' environment")
    add("--install-peers", action="store_true", help="create it first, from peers.txt")
    add("--batch", type=int, default=512, help="samples per step (default 512)")
    add("--seq-len", type=int, default=2048, help="tokens per sample (default 2048)")
    add("--epochs", type=int, default=2, help="epochs of the throughput cases (default 2)")
    add("--blocks", type=int, default=250_000, help="blocks of the 1e9-document corpus")
    add("--timeout", type=float, default=300.0, help="seconds that one case may take")
    return parser.parse_args()


def _install(target: Path) -> None:
    if not target.exists():
        venv.create(target, with_pip=True)
    pip = [str(target / "bin" / "python"), "-m", "pip", "install", "-q"]
    subprocess.run([*pip, "-r", str(HERE / "peers.txt")], check=True, stdout=sys.stderr)


def _results(options: argparse.Namespace, documents: Documents) -> Iterator[dict[str, Any]]:
    chosen = [
        case for case in CASES if not options.only or {case.group, case.name} & set(options.only)
    ]
    prepared: set[str] = set()
    for case in chosen:
        if case.prepare and case.prepare not in prepared:
            prepared.add(case.prepare)
            yield _run(case, options, documents, prepare=True)
    for turn in range(options.repeats):
        for case in chosen:
            if turn < (case.repeats or options.repeats):
                yield {**_run(case, options, documents), "turn": turn}


def _run(
    case: Case, options: argparse.Namespace, documents: Documents, *, prepare: bool = False
) -> dict[str, Any]:
    name = {"case": f"{case.name} (prepare)" if prepare else case.name, "group": case.group}
    python = sys.executable if case.who == OURS else str(options.peers / "bin" / "python")
    if not Path(python).exists():
        return {**name, "skipped": f"{options.peers} does not exist; run with --install-peers"}
    request = {
        "case": case.prepare if prepare else case.function,
        "documents": documents.path,
        "versions": case.versions,
        "batch": options.batch,
        "seq_len": options.seq_len,
        "blocks": options.blocks,
        "epochs": options.epochs,
        **case.options,
    }
    print(f"{name['case']} …", file=sys.stderr, flush=True)
    load = round(os.getloadavg()[0], 2)
    command = [python, "-m", "benchmarks.loader.child", json.dumps(request)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=options.timeout
        )
    except subprocess.TimeoutExpired:
        return {**name, "skipped": f"not done after {options.timeout:.0f} s", "load": load}
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {**name, "skipped": f"failed: {reason[0]}", "load": load}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return {**name, **case.options, **result, "load": load}


def _command() -> str:
    return " ".join(["python -m benchmarks.loader", *sys.argv[1:]])


if __name__ == "__main__":
    main()
