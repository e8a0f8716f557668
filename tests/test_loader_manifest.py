"""Manifests: one description of a corpus, whole or absent, refused when it does not fit."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_loader import arrow_corpus, write_arrow, write_parquet
from jsonschema import Draft202012Validator

from shardward.loader import Holdout, Manifest, ShardLoader, Topology, build_manifest, held_out
from shardward.loader.errors import CorpusError, CorruptBlock, FormatError, IntegrityError, NotFound
from shardward.loader.manifest_verify import verify
from shardward.schemas import load_schema

BLOCKS = [["one", "two"], [], ["three", "four", "five"], ["six"]]


def files_of(path: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in sorted(path.iterdir())}


def test_two_builds_differ_in_their_time_alone(tmp_path: Path) -> None:
    first = arrow_corpus(tmp_path, BLOCKS, shards=2)
    time.sleep(1.1)
    second = build_manifest([str(tmp_path / "data")], tmp_path / "again")

    one, two = files_of(first.path), files_of(second.path)
    headers = [json.loads(files.pop("manifest.json")) for files in (one, two)]
    times = [header.pop("created") for header in headers]

    assert one == two
    assert headers[0] == headers[1]
    assert times[0] != times[1]


def test_the_header_follows_its_schema(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    header = json.loads((manifest.path / "manifest.json").read_text())

    Draft202012Validator(load_schema("manifest.v1")).validate(header)


def test_shards_come_in_the_order_of_their_names_however_they_are_given(tmp_path: Path) -> None:
    for name in ("b/2.arrow", "a/10.arrow", "a/9.arrow", "c.arrow"):
        write_arrow(tmp_path / "data" / name, [[name]])
    inputs = [str(tmp_path / "data" / name) for name in ("c.arrow", "b", "a/*.arrow")]

    manifest = build_manifest(inputs, tmp_path / "m")

    assert [shard.uri for shard in manifest.shards] == [
        "a/10.arrow",
        "a/9.arrow",
        "b/2.arrow",
        "c.arrow",
    ]
    assert (
        manifest.fingerprint
        == build_manifest([str(tmp_path / "data")], tmp_path / "m2").fingerprint
    )


def test_without_a_source_column_the_first_directory_names_the_source(tmp_path: Path) -> None:
    for name in ("web/x/1.arrow", "books/1.arrow"):
        write_arrow(tmp_path / name, [[name]])

    manifest = build_manifest([str(tmp_path)], tmp_path / "m")

    assert [manifest.locate(doc).source for doc in (0, 1)] == ["books", "web"]


@pytest.mark.parametrize("ranks", [1, 3])
def test_L22_all_files_are_used_when_there_are_more_than_ranks(tmp_path: Path, ranks: int) -> None:
    for number in range(40):
        write_arrow(tmp_path / "data" / f"{number:02d}.arrow", [[f"text {number}"]])
    manifest = build_manifest([str(tmp_path / "data")], tmp_path / "m")
    plan = manifest.plan(seed=1, seq_len=None, window_blocks=4)
    delivered = []

    for rank in range(ranks):
        topology = Topology(dp_rank=rank, dp_size=ranks)
        with ShardLoader(manifest, plan, batch=6, end="pad", topology=topology) as loader:
            delivered += [doc for batch in loader for doc in batch.segments.doc.tolist()]

    assert sorted(manifest.locate(doc).shard_uri for doc in delivered) == [
        f"{number:02d}.arrow" for number in range(40)
    ]


def test_a_document_is_located_by_shard_row_and_block(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS, shards=2)

    found = manifest.locate(4)

    assert (found.shard_uri, found.row, found.block) == ("part-001.arrow", 2, 2)
    assert manifest.documents([4])["text"].to_pylist() == ["five"]


@pytest.mark.parametrize("doc", [-1, 6, 1 << 40])
def test_a_document_that_does_not_exist_is_refused_with_the_range(tmp_path: Path, doc: int) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)

    with pytest.raises(NotFound, match="documents 0 to 5"):
        manifest.locate(doc)
    with pytest.raises(NotFound, match="documents 0 to 5"):
        manifest.documents([0, doc])


def test_a_corpus_that_moved_keeps_its_fingerprint(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    (tmp_path / "data").rename(tmp_path / "elsewhere")

    moved = Manifest.load(manifest.path, root=str(tmp_path / "elsewhere"))

    assert moved.fingerprint == manifest.fingerprint
    assert moved.block_text(0).to_pylist() == ["one", "two"]
    with pytest.raises(CorpusError, match="give the corpus root it moved to"):
        manifest.open_block(0)


def test_a_manifest_can_be_pickled(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)

    copy = pickle.loads(pickle.dumps(manifest))

    assert copy.fingerprint == manifest.fingerprint
    assert copy.open_block(3).document(0).tobytes() == manifest.open_block(3).document(0).tobytes()


def test_L15_an_edited_header_is_refused(tmp_path: Path) -> None:
    path = arrow_corpus(tmp_path, BLOCKS).path / "manifest.json"
    header = json.loads(path.read_text())
    path.write_text(json.dumps({**header, "documents": 5}))

    with pytest.raises(IntegrityError, match="it was edited"):
        Manifest.load(path.parent)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version 2, this release reads"),
        ({"format": "other"}, "is 'other' version 1"),
        ({"tokenizer": {"name": "bytes"}}, "lacks or misnames a field"),
    ],
)
def test_an_unknown_or_malformed_header_is_refused(
    tmp_path: Path, change: dict[str, object], words: str
) -> None:
    path = arrow_corpus(tmp_path, BLOCKS).path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    with pytest.raises(FormatError, match=words):
        Manifest.load(path.parent)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_header_that_is_no_json_object_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)

    with pytest.raises(FormatError):
        Manifest.load(tmp_path)


def test_a_directory_without_a_manifest_is_refused_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="shardward corpus index"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize("name", ["shards.arrow", "blocks.arrow", "sources.u16", "lengths"])
def test_a_damaged_or_missing_table_is_refused(tmp_path: Path, name: str) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    path = next(item for item in manifest.path.iterdir() if item.name.startswith(name))
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(IntegrityError, match=path.name):
        Manifest.load(manifest.path)
    path.unlink()
    with pytest.raises(IntegrityError, match=path.name):
        Manifest.load(manifest.path)


def test_a_changed_document_is_found_when_its_block_is_opened(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    write_arrow(tmp_path / "data" / "part-000.arrow", [*BLOCKS[:3], ["sax"]])

    assert manifest.open_block(0).lengths.tolist() == [3, 3]
    with pytest.raises(CorruptBlock, match=r"part-000\.arrow rows 5 to 5 have digest"):
        manifest.open_block(3)


def test_a_shard_that_was_restored_is_read_again_without_a_new_start(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    shard = tmp_path / "data" / "part-000.arrow"
    shard.rename(tmp_path / "good")
    changed = [[text.upper() for text in block] for block in BLOCKS]
    write_arrow(shard, changed)
    loaded = Manifest.load(manifest.path)
    with pytest.raises(CorruptBlock, match="restore the shard"):
        loaded.open_block(0)

    (tmp_path / "good").replace(shard)

    assert loaded.block_text(0).to_pylist() == BLOCKS[0]


def test_verify_names_what_differs(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS, shards=2)

    assert verify(manifest) == []

    write_arrow(tmp_path / "data" / "part-001.arrow", [["three", "four", "FIVE"], ["six"]])
    problems = verify(Manifest.load(manifest.path))

    assert {problem.where for problem in problems} == {"part-001.arrow"}
    assert ["bytes with digest" in problem.what for problem in problems] == [True, False]


def test_an_existing_directory_is_never_overwritten(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)

    with pytest.raises(CorpusError, match="manifests never change"):
        build_manifest([str(tmp_path / "data")], manifest.path)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "holds no shard"),
        (lambda path: write_arrow(path / "a.arrow", []), "the corpus is empty"),
        (lambda path: (path / "a.jsonl").write_text("\n \n"), "the corpus is empty"),
        (lambda path: (path / "a.parquet").write_text(""), "cannot be read"),
        (lambda path: (path / "a.txt").write_text("x"), "holds no shard"),
    ],
)
def test_a_corpus_without_documents_is_refused(tmp_path: Path, make, words: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "data").mkdir()
    make(tmp_path / "data")

    with pytest.raises(CorpusError, match=words):
        build_manifest([str(tmp_path / "data")], tmp_path / "m")

    assert sorted(item.name for item in tmp_path.iterdir()) == ["data"]


def test_a_large_document_and_a_large_line_are_read_whole(tmp_path: Path) -> None:
    text = "0123456789" * 1_000_000
    write_parquet(tmp_path / "data" / "a.parquet", {"text": ["x", text]}, group=1)
    (tmp_path / "data" / "b.jsonl").write_text(json.dumps({"text": text}) + "\n")

    manifest = build_manifest([str(tmp_path / "data")], tmp_path / "m")

    assert manifest.lengths(0, 3).tolist() == [1, len(text), len(text)]
    assert manifest.documents([2])["text"].to_pylist() == [text]


def test_a_string_column_in_many_chunks_is_one_block(tmp_path: Path) -> None:
    chunks = pa.chunked_array([["a", "bc"], [], ["def"]], pa.string())
    with pq.ParquetWriter(tmp_path / "a.parquet", pa.schema([("text", pa.string())])) as writer:
        writer.write_table(pa.table({"text": chunks}))

    manifest = build_manifest([str(tmp_path / "a.parquet")], tmp_path / "m")

    assert manifest.block_text(0).to_pylist() == ["a", "bc", "def"]


def test_a_killed_build_leaves_nothing_under_its_name(tmp_path: Path) -> None:
    for number in range(30):
        write_parquet(tmp_path / "data" / f"{number}.parquet", {"text": ["x" * 200_000] * 20})
    code = (
        "from shardward.loader import build_manifest; import sys; "
        "build_manifest([sys.argv[1]], sys.argv[2], advance=lambda n, u: print(u, flush=True))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "data"), str(tmp_path / "m")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    assert not (tmp_path / "m").exists()
    assert build_manifest([str(tmp_path / "data")], tmp_path / "m").header.documents == 600


def test_the_hold_out_is_never_trained_on_and_reads_its_own_blocks(tmp_path: Path) -> None:
    texts = [[f"block {b} text {t}" for t in range(4)] for b in range(5)]
    manifest = arrow_corpus(tmp_path, texts)
    plan = manifest.plan(seed=3, seq_len=None, holdout=Holdout(documents=6))

    found = {item.doc: item.tokens.astype(np.uint8).tobytes() for item in held_out(manifest, plan)}

    assert plan.holdout is not None
    assert sorted(found) == plan.holdout.members(20).tolist()
    assert found == {doc: texts[doc // 4][doc % 4].encode() for doc in found}


def test_only_data_is_indexed_from_a_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write_arrow(data / "a.arrow", [["kept"]])
    build_manifest([str(data)], data / "manifest")
    for name in ("_old/b.arrow", ".cache/c.arrow", ".d.arrow", "deep/_e.arrow"):
        write_arrow(data / name, [["left alone"]])

    again = build_manifest([str(data)], tmp_path / "m")

    assert [shard.uri for shard in again.shards] == ["a.arrow"]


@pytest.mark.parametrize("name", ["a.parquet", "b.arrow", "c.arrows", "d.jsonl"])
def test_a_remote_corpus_is_the_local_one(tmp_path: Path, name: str) -> None:
    write_parquet(tmp_path / "a.parquet", {"text": ["one", "two"]}, group=1)
    write_arrow(tmp_path / "b.arrow", [["one"], ["two"]])
    table = pa.table({"text": ["one", "two"]})
    with pa.ipc.new_stream(str(tmp_path / "c.arrows"), table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    (tmp_path / "d.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    store = fsspec.filesystem("memory")
    store.pipe(f"/{tmp_path.name}/{name}", (tmp_path / name).read_bytes())

    local = build_manifest([str(tmp_path / name)], tmp_path / "local")
    remote = build_manifest([f"memory://{tmp_path.name}"], tmp_path / "remote")

    assert remote.header.root.startswith("memory://")
    assert remote.fingerprint == local.fingerprint
    assert [t for _, block in remote.iter_text() for t in block.to_pylist()] == ["one", "two"]
    assert verify(remote) == []


def _texts(manifest: Manifest) -> list[str]:
    return [text for _, block in manifest.iter_text() for text in block.to_pylist()]


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_reader_opens_shards_of_its_own(tmp_path: Path) -> None:
    manifest = arrow_corpus(tmp_path, BLOCKS)
    expected = _texts(manifest)
    inherited = set(manifest.reader._opened().values())
    answer = tmp_path / "answer"

    def check() -> None:
        right = _texts(manifest) == expected
        answer.write_text(str(right and not inherited & set(manifest.reader._opened().values())))

    child = multiprocessing.get_context("fork").Process(target=check)
    child.start()
    child.join()

    assert len(inherited) == 1
    assert answer.read_text() == "True"
