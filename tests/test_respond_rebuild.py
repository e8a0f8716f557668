"""A rebuilt corpus loses the excluded documents and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers_respond import make_corpus, make_plan, text_of
from jsonschema import Draft202012Validator
from pyarrow import ipc

from shardward.loader.errors import CorpusError, IntegrityError, MismatchError, UsageError
from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.loader.revision import Revision
from shardward.loader.stream import ShardLoader
from shardward.quarantine.respond import rebuild as module
from shardward.quarantine.respond.corpus import content_hashes
from shardward.quarantine.respond.rebuild import rebuild
from shardward.schemas import load_schema


def without(manifest: Manifest, docs: list[int]) -> Revision:
    documents = np.array(sorted(docs), np.int64)
    hashes = b"".join(content_hashes(manifest, documents))
    return Revision(number=1, manifest=manifest.fingerprint, documents=documents, hashes=hashes)


def texts(manifest: Manifest) -> list[str]:
    return [text for _, column in manifest.iter_text() for text in column.to_pylist()]


GONE = [0, 3, 4, 21, 59]


@pytest.fixture
def corpus(tmp_path: Path) -> Manifest:
    return make_corpus(tmp_path)


def test_the_rebuilt_corpus_can_be_indexed_and_holds_the_survivors(
    corpus: Manifest, tmp_path: Path
) -> None:
    report = rebuild(corpus, without(corpus, GONE), tmp_path / "out")
    child = build_manifest([str(tmp_path / "out")], tmp_path / "child", id_column="id")

    assert texts(child) == [text_of(doc) for doc in range(60) if doc not in GONE]
    assert report.rows_in == report.rows_out + report.removed == 60
    assert report.removed_documents == GONE
    assert [row["id"] for shard in report.shards for row in shard.removed] == [
        f"d{doc}" for doc in GONE
    ]


def test_the_rebuilt_corpus_can_be_loaded(corpus: Manifest, tmp_path: Path) -> None:
    rebuild(corpus, without(corpus, GONE), tmp_path / "out")
    child = build_manifest([str(tmp_path / "out")], tmp_path / "child", id_column="id")

    with ShardLoader(child, make_plan(child), batch=4) as loader:
        seen = {int(doc) for batch in loader for doc in batch.segments.doc}

    assert seen == set(range(55))


def test_the_report_fits_its_schema(corpus: Manifest, tmp_path: Path) -> None:
    rebuild(corpus, without(corpus, GONE), tmp_path / "out")

    value = json.loads((tmp_path / "out" / "rebuild.json").read_text())

    Draft202012Validator(load_schema("rebuild.v1")).validate(value)


def test_an_untouched_shard_is_copied_byte_for_byte(corpus: Manifest, tmp_path: Path) -> None:
    rebuild(corpus, without(corpus, [0]), tmp_path / "out")

    for name in ("s1.parquet", "s2.parquet"):
        original = (tmp_path / "corpus" / name).read_bytes()
        assert (tmp_path / "out" / name).read_bytes() == original


def rich_table(rows: int) -> pa.Table:
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False, metadata={"k": "document key"}),
            pa.field("text", pa.large_string()),
            pa.field("lang", pa.dictionary(pa.int32(), pa.string())),
            pa.field("tok", pa.list_(pa.uint16())),
            pa.field("ts", pa.timestamp("ns", tz="UTC")),
            pa.field("meta", pa.struct([("url", pa.string()), ("score", pa.float16())])),
        ],
        metadata={"corpus": "c4", "huggingface": '{"info":{}}'},
    )
    return pa.table(
        [
            pa.array([f"d{i}" for i in range(rows)]),
            pa.array([f"text {i}" for i in range(rows)], pa.large_string()),
            pa.array([("en", "de")[i % 2] for i in range(rows)]).dictionary_encode(),
            pa.array([[i, 1] for i in range(rows)], pa.list_(pa.uint16())),
            pa.array(np.arange(rows), pa.timestamp("ns", tz="UTC")),
            pa.array(
                [{"url": str(i), "score": np.float16(1)} for i in range(rows)],
                schema.field("meta").type,
            ),
        ],
        schema=schema,
    )


def facts(path: Path) -> dict[str, object]:
    file = pq.ParquetFile(path)
    metadata, schema = file.metadata, file.schema_arrow
    group = metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    keys = [k for k in metadata.metadata if not k.startswith(b"shardward")]
    return {
        "schema": schema.remove_metadata(),
        "field metadata": [field.metadata for field in schema],
        "key-value": {k: metadata.metadata[k] for k in keys if k != b"ARROW:schema"},
        "codec": [c.compression for c in columns],
        "dictionary": ["RLE_DICTIONARY" in c.encodings for c in columns],
        "sorting": group.sorting_columns,
        "page index": [c.has_offset_index for c in columns],
        "groups": metadata.num_row_groups,
        "version": metadata.format_version,
    }


def test_D11_a_filtered_shard_keeps_schema_metadata_codec_row_groups_and_sorting(
    tmp_path: Path,
) -> None:
    (tmp_path / "corpus").mkdir()
    source = tmp_path / "corpus" / "s.parquet"
    pq.write_table(
        rich_table(500),
        source,
        compression={"id": "zstd", "text": "gzip", "lang": "snappy", "ts": "none"},
        use_dictionary=["lang"],
        row_group_size=100,
        write_page_index=True,
        sorting_columns=[pq.SortingColumn(4)],
    )
    manifest = build_manifest([str(tmp_path / "corpus")], tmp_path / "m", id_column="id")
    gone = list(range(0, 500, 7))

    rebuild(manifest, without(manifest, gone), tmp_path / "out")

    target = tmp_path / "out" / "s.parquet"
    assert facts(target) == facts(source)
    kept = [i for i in range(500) if i not in set(gone)]
    assert pq.read_table(target).equals(pq.read_table(source).take(kept))
    assert pq.read_metadata(target).metadata[b"shardward.parent"].decode() == manifest.fingerprint


@pytest.mark.parametrize("codec", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", ["arrow", "arrows"])
def test_arrow_shards_keep_their_batches_and_codec(
    tmp_path: Path, kind: str, codec: str | None
) -> None:
    (tmp_path / "corpus").mkdir()
    source, table = tmp_path / "corpus" / f"s.{kind}", rich_table(400).drop_columns("meta")
    make = ipc.new_file if kind == "arrow" else ipc.new_stream
    options = ipc.IpcWriteOptions(compression=codec)
    with source.open("wb") as sink, make(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=100)
    manifest = build_manifest([str(tmp_path / "corpus")], tmp_path / "m", id_column="id")

    rebuild(manifest, without(manifest, [5, 200]), tmp_path / "out")

    target = tmp_path / "out" / f"s.{kind}"
    read = ipc.open_file if kind == "arrow" else ipc.open_stream
    with target.open("rb") as stream:
        rebuilt = read(stream).read_all()
    assert rebuilt.equals(table.take([i for i in range(400) if i not in (5, 200)]))
    assert rebuilt.schema.equals(table.schema, check_metadata=True)
    assert target.stat().st_size == pytest.approx(source.stat().st_size, rel=0.1)


def test_json_lines_are_kept_byte_for_byte(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    lines = [f'{{"text":  "line {i}", "x": 1.50}}\n'.encode() for i in range(20)]
    lines.insert(3, b"\n")
    (tmp_path / "corpus" / "s.jsonl").write_bytes(b"".join(lines))
    manifest = build_manifest([str(tmp_path / "corpus")], tmp_path / "m")

    rebuild(manifest, without(manifest, [2, 3]), tmp_path / "out")

    kept = [line for i, line in enumerate(lines) if i not in (2, 3, 4)]
    assert (tmp_path / "out" / "s.jsonl").read_bytes() == b"".join(kept)


def test_K10_the_same_quarantine_applied_twice_removes_nothing_more(
    corpus: Manifest, tmp_path: Path
) -> None:
    revision = without(corpus, GONE)
    first = rebuild(corpus, revision, tmp_path / "out")
    child = build_manifest([str(tmp_path / "out")], tmp_path / "child", id_column="id")
    excluded = {revision.hashes[i : i + 16] for i in range(0, len(revision.hashes), 16)}
    left = content_hashes(child, np.arange(child.documents_count, dtype=np.int64))

    assert not excluded & set(left)
    assert rebuild(corpus, revision, tmp_path / "out") == first


def test_a_shard_that_loses_everything_is_not_written(corpus: Manifest, tmp_path: Path) -> None:
    report = rebuild(corpus, without(corpus, list(range(20))), tmp_path / "out")

    assert report.shards[0].written is None
    assert not (tmp_path / "out" / "s0.parquet").exists()
    assert build_manifest([str(tmp_path / "out")], tmp_path / "child").documents_count == 40


def test_a_stopped_rebuild_goes_on_where_it_stood(
    corpus: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = without(corpus, GONE)
    whole = rebuild(corpus, revision, tmp_path / "whole")
    written: list[str] = []
    real = module._write

    def stop_at_second(manifest: Manifest, shard: object, *rest: object) -> None:
        written.append(shard.uri)  # type: ignore[attr-defined]
        if len(written) == 2:
            raise KeyboardInterrupt
        real(manifest, shard, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_write", stop_at_second)
    with pytest.raises(KeyboardInterrupt):
        rebuild(corpus, revision, tmp_path / "out")
    assert [p.name for p in (tmp_path / "out").iterdir()] == [".rebuild"]
    with pytest.raises(CorpusError, match="a rebuild that was not finished"):
        build_manifest([str(tmp_path / "out")], tmp_path / "child")
    report = rebuild(corpus, revision, tmp_path / "out")

    assert written == ["s0.parquet", "s1.parquet", "s1.parquet", "s2.parquet"]
    assert report.shards == whole.shards


def test_a_rebuild_stopped_while_its_shards_are_moved_is_no_corpus_yet(
    corpus: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def stop(directory: Path) -> None:
        if directory == out:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "sync_directory", stop)
        with pytest.raises(KeyboardInterrupt):
            rebuild(corpus, without(corpus, GONE), out)
    assert [p.name for p in out.glob("*.parquet")] == ["s0.parquet"]
    for named in (out, out / "*.parquet", out / "s0.parquet", tmp_path / "o*" / "*.parquet"):
        with pytest.raises(CorpusError, match=r"out holds a rebuild that was not finished"):
            build_manifest([str(named)], tmp_path / "child")

    report = rebuild(corpus, without(corpus, GONE), out)

    assert build_manifest([str(out)], tmp_path / "child").documents_count == report.rows_out


def test_a_finished_shard_that_was_damaged_since_is_written_again(
    corpus: Manifest, tmp_path: Path
) -> None:
    revision = without(corpus, GONE)
    rebuild(corpus, revision, tmp_path / "out")
    target = tmp_path / "out" / "s0.parquet"
    whole = target.read_bytes()
    target.write_bytes(whole[:-9])

    rebuild(corpus, revision, tmp_path / "out")

    assert target.read_bytes() == whole


def test_a_crash_while_writing_leaves_no_half_shard(
    corpus: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        (tmp_path / "out" / ".rebuild" / "shards" / ".s0.parquet.tmp").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "rewrite_parquet", fail)
    with pytest.raises(OSError, match="No space") as caught:
        rebuild(corpus, without(corpus, GONE), tmp_path / "out")

    assert caught.value.filename == str(tmp_path / "out")

    assert [p.name for p in (tmp_path / "out").iterdir()] == [".rebuild"]
    assert not list((tmp_path / "out").rglob("*.parquet*"))


def test_another_rebuild_in_the_same_place_is_refused(corpus: Manifest, tmp_path: Path) -> None:
    rebuild(corpus, without(corpus, GONE), tmp_path / "out")

    with pytest.raises(MismatchError, match="choose an empty directory"):
        rebuild(corpus, without(corpus, [1]), tmp_path / "out")


def test_a_directory_with_other_files_is_refused(corpus: Manifest, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").touch()

    with pytest.raises(UsageError, match="not empty"):
        rebuild(corpus, without(corpus, GONE), tmp_path / "out")


def test_the_corpus_itself_is_never_written_to(corpus: Manifest, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="originals are never touched"):
        rebuild(corpus, without(corpus, GONE), tmp_path / "corpus" / "clean")


def test_a_revision_of_another_corpus_is_refused(corpus: Manifest, tmp_path: Path) -> None:
    other = make_corpus(tmp_path / "other", documents=30)

    with pytest.raises(MismatchError, match="rebuild the corpus the revision was made for"):
        rebuild(corpus, without(other, [1]), tmp_path / "out")


def test_a_shard_that_changed_since_it_was_indexed_stops_the_rebuild(
    corpus: Manifest, tmp_path: Path
) -> None:
    shard = tmp_path / "corpus" / "s1.parquet"
    revision = without(corpus, [0])
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")

    with pytest.raises(
        IntegrityError, match=r"shard s1\.parquet is damaged where documents were to stay"
    ):
        rebuild(corpus, revision, tmp_path / "out")
    assert not (tmp_path / "out" / "rebuild.json").exists()


def test_a_document_that_is_not_the_excluded_one_stops_the_rebuild(
    corpus: Manifest, tmp_path: Path
) -> None:
    right = without(corpus, GONE)
    wrong = Revision(
        number=1,
        manifest=right.manifest,
        documents=right.documents,
        hashes=b"\x01" * (16 * len(GONE)),
    )

    with pytest.raises(IntegrityError, match="document 0 has content"):
        rebuild(corpus, wrong, tmp_path / "out")
