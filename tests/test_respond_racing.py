"""Writers of revisions in processes of their own: racing, and killed in mid-publish."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import helpers_publishing
import pytest
from click.testing import CliRunner
from helpers_object_store import Store
from helpers_respond import make_corpus, make_run

from shardward.cli.main import cli
from shardward.loader.manifest import Manifest
from shardward.loader.revision import Revision
from shardward.loader.revision_store import list_revisions, load_revision
from shardward.loader.run import Run
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.mirror import pull_revision, push_revision
from shardward.quarantine.respond.revisions import decision_anchors, publish_revision
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision

KILLS = int(os.environ.get("SHARDWARD_TEST_KILLS", "20"))


@pytest.fixture
def store() -> Iterator[Store]:
    running = Store()
    yield running
    running.close()


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return make_corpus(tmp_path)


@pytest.fixture
def run(tmp_path: Path, manifest: Manifest) -> Run:
    return make_run(tmp_path, manifest)


def start(what: str, run: Run, manifest: Manifest, *words: object) -> subprocess.Popen[bytes]:
    command = [what, run.path, manifest.path, *words]
    return subprocess.Popen([sys.executable, helpers_publishing.__file__, *map(str, command)])


def revisions(run: Run, manifest: Manifest) -> list[Revision]:
    """Return all revisions; each must be whole and follow from the one before."""
    numbers = sorted(list_revisions(run.path))
    assert numbers == list(range(1, len(numbers) + 1))
    found = [load_revision(run.path, n, manifest=manifest.fingerprint) for n in (0, *numbers)]
    for before, after in pairwise(found):
        assert after.parent == before.digest
    DecisionLog(run.path).verify(decision_anchors(run.path, manifest.fingerprint))
    return found[1:]


@pytest.mark.parametrize("kind", ["an object store", "a directory"])
def test_D14_two_processes_that_publish_at_once_end_in_one_order_and_lose_nothing(
    run: Run, manifest: Manifest, store: Store, tmp_path: Path, kind: str
) -> None:
    url = store.url("runs/7b") if kind == "an object store" else str(tmp_path / "store")
    writers = [start("write", run, manifest, url, *w) for w in (("kim", 0, 12), ("lee", 6, 12))]

    assert [writer.wait(120) for writer in writers] == [0, 0]

    reasons = [entry.decision.reason for entry in DecisionLog(run.path).entries()]
    assert sorted(reasons) == sorted(
        [*(f"kim {doc}" for doc in range(12)), *(f"lee {doc}" for doc in range(6, 18))]
    )
    found = revisions(run, manifest)
    assert found[-1].documents.tolist() == list(range(18))
    for each in found:
        there = pull_revision(
            url, each.number, tmp_path / "else", manifest=manifest.fingerprint, digest=each.digest
        )
        assert (there.digest, there.payload()) == (each.digest, each.payload())


def test_a_writer_killed_at_any_moment_leaves_no_half_of_a_revision(
    run: Run, manifest: Manifest, store: Store, tmp_path: Path
) -> None:
    url = store.url("runs/7b")

    assert start("kill", run, manifest, url, 7, KILLS).wait(300) == 0

    found = revisions(run, manifest)
    assert found
    headers = [key for key in store.objects if key.endswith(".json")]
    digests = {revision.name: revision for revision in found}
    for header in headers:
        each = digests[header.rpartition("/")[2].removesuffix(".json")]
        there = pull_revision(
            url, each.number, tmp_path / "else", manifest=manifest.fingerprint, digest=each.digest
        )
        assert there.payload() == each.payload()
    last = publish_revision(run.path, manifest)
    push_revision(last, url)
    named = {doc for e in DecisionLog(run.path).entries() for doc in e.decision.scope.documents}
    assert set(last.documents.tolist()) == named


def test_a_trainer_elsewhere_gets_the_revision_its_cursor_names_and_no_other(
    run: Run, manifest: Manifest, tmp_path: Path
) -> None:
    other = make_run(tmp_path / "other", manifest)
    helpers_publishing.write(run.path, manifest, str(tmp_path / "store"), "kim", (3,))
    helpers_publishing.write(other.path, manifest, str(tmp_path / "store"), "lee", (4,))
    elsewhere = make_run(tmp_path / "elsewhere", manifest)
    named = load_revision(run.path, 1, manifest=manifest.fingerprint)
    words = ["quarantine", "pull", str(tmp_path / "store"), "1", "--run", str(elsewhere.path)]

    lost = CliRunner().invoke(cli, [*words, "--digest", "0" * 64])
    near = CliRunner().invoke(cli, [*words, "--digest", named.digest[:12] + "0" * 52])
    found = CliRunner().invoke(cli, [*words, "--digest", named.digest, "--json"])

    assert (lost.exit_code, "no such revision 1" in lost.stderr) == (1, True)
    assert (near.exit_code, "expected" in near.stderr) == (5, True)
    assert json.loads(found.stdout)["documents"] == 1
    there = load_revision(elsewhere.path, 1, manifest=manifest.fingerprint, digest=named.digest)
    assert there.documents.tolist() == [3]


def test_publish_puts_the_revision_on_a_store_as_well(
    run: Run, manifest: Manifest, tmp_path: Path
) -> None:
    words = ["quarantine", "publish", "--run", str(run.path), "--to", str(tmp_path / "store")]
    DecisionLog(run.path, manifest=manifest.fingerprint).append(
        Decision(action="quarantine", scope=Scope.of_documents([3]), reason="junk", actor="kim")
    )

    shown = CliRunner().invoke(cli, words)
    assert (shown.exit_code, (tmp_path / "store").exists()) == (0, False)
    for _ in range(2):
        done = CliRunner().invoke(cli, [*words, "--yes", "--json"])
        assert Path(json.loads(done.stdout)["address"]).exists()
