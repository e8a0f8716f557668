"""A run goes on with its rebuilt corpus: numbers, order and digests stay, removed text is gone."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from helpers_respond import text_of
from pyarrow import ipc

from shardward.cli.main import cli
from shardward.loader.batch import Batch
from shardward.loader.errors import CorpusError, MismatchError
from shardward.loader.holdout_reader import held_out
from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.loader.manifest_verify import verify
from shardward.loader.plan import Holdout, Plan
from shardward.loader.rebuilt import rebuilt_manifest
from shardward.loader.revision import Revision
from shardward.loader.run import Run
from shardward.loader.stream import ShardLoader
from shardward.quarantine.respond.decisions import DecisionLog
from shardward.quarantine.respond.rebuild import rebuild
from shardward.quarantine.respond.revisions import publish_revision
from shardward.quarantine.respond.scopes import Scope
from shardward.quarantine.respond.status import Decision

SIZE = 20
FORMATS = ("parquet", "arrow", "arrows", "jsonl")
# A whole block, one of a block, nothing of the second shard, and all of the third.
GONE = (0, 1, 2, 3, 4, 7, *range(40, 60))


def write(path: Path, docs: Sequence[int], kind: str, sizes: Sequence[int] = (5, 5, 5, 5)) -> None:
    path.parent.mkdir(exist_ok=True)
    rows = {"id": [f"d{doc}" for doc in docs], "text": [text_of(doc) for doc in docs]}
    table = pa.table(rows)
    if kind == "parquet":
        with pq.ParquetWriter(path, table.schema) as groups:
            for group in parts(table, sizes):
                groups.write_table(group)
    elif kind == "jsonl":
        lines = [json.dumps({"id": f"d{doc}", "text": text_of(doc)}) for doc in docs]
        path.write_text("\n".join(lines) + "\n")
    else:
        make = ipc.new_file if kind == "arrow" else ipc.new_stream
        with pa.OSFile(str(path), "wb") as sink, make(sink, table.schema) as out:
            for part in parts(table, sizes):
                out.write_table(part)


def parts(table: pa.Table, sizes: Sequence[int]) -> list[pa.Table]:
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    found = [table.slice(start, size) for start, size in zip(starts, sizes, strict=True)]
    return [part for part in found if part.num_rows]


@pytest.fixture(params=FORMATS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Run, Manifest, Revision, Path]:
    """A run over three shards and a revision that leaves out GONE; the corpus is rebuilt."""
    (tmp_path / "corpus").mkdir()
    for shard in range(3):
        place = tmp_path / "corpus" / f"s{shard}.{request.param}"
        write(place, range(shard * SIZE, (shard + 1) * SIZE), request.param)
    parent = build_manifest(
        [str(tmp_path / "corpus")], tmp_path / "parent", id_column="id", tokenizer="bytes"
    )
    run = Run.create(tmp_path / "run", plan=plan_of(parent), manifest_path=parent.path)
    exclude(run, parent, *GONE)
    revision = publish_revision(run.path, parent)
    rebuild(parent, revision, tmp_path / "clean")
    return run, parent, revision, tmp_path


def plan_of(manifest: Manifest, **more: Any) -> Plan:
    return manifest.plan(seed=3, seq_len=32, window_blocks=2, **more)


def exclude(run: Run, manifest: Manifest, *docs: int) -> None:
    DecisionLog(run.path, manifest=manifest.fingerprint).append(
        Decision(action="quarantine", scope=Scope.of_documents(docs), reason="r", actor="a")
    )


def clean_of(scene: tuple[Run, Manifest, Revision, Path]) -> Manifest:
    _, parent, revision, home = scene
    return rebuilt_manifest(parent, home / "clean", home / "m", gone=revision.documents)


def content(batch: Batch) -> tuple[int, bytes, bytes, tuple[int, ...]]:
    """Step, tokens, loss mask and positions."""
    tokens, mask = np.asarray(batch.tokens), np.asarray(batch.loss_mask)
    return batch.step, tokens.tobytes(), mask.tobytes(), tuple(batch.positions.tolist())


def fed(manifest: Manifest, revision: Revision, mode: Any) -> list[Any]:
    with ShardLoader(
        manifest, plan_of(manifest), batch=3, revision=revision, mode=mode, epochs=2
    ) as loader:
        return [content(batch) for batch in loader]


@pytest.mark.parametrize("mode", ["compact", "hold"])
def test_every_batch_is_the_one_that_the_parent_gives(
    scene: tuple[Run, Manifest, Revision, Path], mode: str
) -> None:
    _, parent, revision, _ = scene

    assert fed(clean_of(scene), revision, mode) == fed(parent, revision, mode)


def test_the_run_goes_on_from_its_cursor_and_records_in_the_same_numbers(
    scene: tuple[Run, Manifest, Revision, Path],
) -> None:
    run, parent, revision, _ = scene
    whole = fed(parent, revision, "compact")
    with ShardLoader(parent, run.plan(), run=run, batch=3, revision=revision) as loader:
        steps = [content(batch) for batch in islice(loader, 4)]
        loader.observe(4, loss=1.0)
        cursor = loader.state_dict()

    clean = clean_of(scene)
    with ShardLoader(clean, run.plan(), run=run, batch=3, cursor=cursor) as loader:
        again = [content(batch) for batch in islice(loader, 4)]

    done = cursor["step"]
    assert steps == whole[:4]
    assert again == whole[done : done + 4]


def test_the_files_hold_nothing_of_what_was_removed_and_verify(
    scene: tuple[Run, Manifest, Revision, Path],
) -> None:
    clean = clean_of(scene)

    assert verify(clean) == []
    assert clean.tombstones.tolist() == sorted(GONE)
    texts = clean.documents(range(60))["text"].to_pylist()
    assert [texts[doc] for doc in GONE] == [""] * len(GONE)
    assert all(texts[doc] == text_of(doc) for doc in range(60) if doc not in GONE)
    ids = clean.documents([0, 7, 8])["id"].to_pylist()
    assert ids == [None, None, "d8"]


def test_the_manifest_names_its_parent_and_keeps_its_coordinates(
    scene: tuple[Run, Manifest, Revision, Path],
) -> None:
    _, parent, _, _ = scene
    clean = clean_of(scene)

    assert clean.header.parent == clean.fingerprint == parent.fingerprint
    assert clean.header.fingerprint != parent.fingerprint
    assert clean.header.tombstones == len(GONE)
    assert np.array_equal(clean.geometry().block_tokens, parent.geometry().block_tokens)


def test_a_revision_that_trains_on_what_is_gone_is_refused(
    scene: tuple[Run, Manifest, Revision, Path],
) -> None:
    clean = clean_of(scene)

    with pytest.raises(MismatchError, match=r"document 0 was removed .* \(26 such documents\)"):
        ShardLoader(clean, plan_of(clean), batch=3)


def test_a_later_revision_keeps_the_hashes_of_what_is_gone(
    scene: tuple[Run, Manifest, Revision, Path],
) -> None:
    run, parent, revision, _ = scene
    clean = clean_of(scene)
    exclude(run, clean, 30)

    later = publish_revision(run.path, clean)

    assert later.documents.tolist() == sorted([*GONE, 30])
    assert later.hashes.startswith(revision.hashes[: 16 * 6])
    assert fed(clean, later, "hold") == fed(parent, later, "hold")


def test_the_held_out_leave_out_what_is_gone(scene: tuple[Run, Manifest, Revision, Path]) -> None:
    clean = clean_of(scene)
    plan = plan_of(clean, holdout=Holdout(documents=30, seed=1))

    found = {each.doc for each in held_out(clean, plan)}

    assert found
    assert not found & set(GONE)


def test_a_block_that_lost_another_row_is_refused(
    scene: tuple[Run, Manifest, Revision, Path],
) -> None:
    _, parent, revision, home = scene
    victim = next((home / "clean").glob("s0.*"))
    write(victim, range(5, 15), victim.suffix[1:])

    words = "10 documents" if victim.suffix == ".jsonl" else "has blocks of"
    with pytest.raises(CorpusError, match=words):
        rebuilt_manifest(parent, home / "clean", home / "m", gone=revision.documents)


@pytest.mark.parametrize("shard", [0, 1])
def test_shards_of_the_right_sizes_with_other_documents_are_refused(
    scene: tuple[Run, Manifest, Revision, Path], shard: int
) -> None:
    _, parent, revision, home = scene
    victim = next((home / "clean").glob(f"s{shard}.*"))
    kept = [doc for doc in range(shard * SIZE, shard * SIZE + SIZE) if doc not in GONE]
    kept[-1] = 0  # was removed, and is there again in the place of another
    write(victim, kept, victim.suffix[1:], sizes=[4, 5, 5] if shard == 0 else [5] * 4)

    with pytest.raises(CorpusError, match=r"without the removed documents: .* have digest"):
        rebuilt_manifest(parent, home / "clean", home / "m", gone=revision.documents)
    assert not (home / "m").exists()


def test_a_removed_document_that_is_still_behind_the_others_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a" / "s.jsonl", range(10), "jsonl")
    write(tmp_path / "b" / "s.jsonl", range(10), "jsonl")
    parent = build_manifest([str(tmp_path / "a")], tmp_path / "m", tokenizer="bytes")

    with pytest.raises(CorpusError, match="more lines than the 9 survivors"):
        rebuilt_manifest(parent, tmp_path / "b", tmp_path / "n", gone=np.array([9]))


def test_the_command_makes_a_manifest_that_the_run_can_go_on_with(
    scene: tuple[Run, Manifest, Revision, Path],
) -> None:
    run, parent, revision, home = scene
    words = ["rebuild", "--run", str(run.path), "--out", str(home / "out"), "--yes", "--json"]

    result = CliRunner().invoke(cli, [*words, "--keep-order", str(home / "kept")])

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["manifest"] == str(home / "kept")
    assert fed(Manifest.load(home / "kept"), revision, "hold") == fed(parent, revision, "hold")


def test_a_finished_rebuild_that_is_repeated_is_known_as_done(
    scene: tuple[Run, Manifest, Revision, Path],
) -> None:
    run, _, _, home = scene
    words = ["rebuild", "--run", str(run.path), "--yes", "--json", "--keep-order"]
    first = CliRunner().invoke(cli, [*words, str(home / "kept"), "--out", str(home / "out")])
    header = (home / "kept" / "manifest.json").read_bytes()

    again = CliRunner().invoke(cli, [*words, str(home / "kept"), "--out", str(home / "out")])
    other = CliRunner().invoke(cli, [*words, str(home / "kept"), "--out", str(home / "other")])
    none = CliRunner().invoke(cli, [*words, str(home / "clean"), "--out", str(home / "out")])

    assert json.loads(again.stdout) == json.loads(first.stdout)
    assert (home / "kept" / "manifest.json").read_bytes() == header
    assert "manifests never change" in other.stderr
    assert "manifests never change" in none.stderr
    assert not (home / "other").exists()
