"""`shardward corpus`: index, show and verify corpora, and judge how a plan mixes them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from ..loader.errors import IntegrityError, UsageError
from ..loader.index import build_manifest
from ..loader.manifest import Manifest
from ..loader.manifest_verify import verify as find_problems
from ..loader.mix import measure_mix
from ..loader.sources.opening import find_shards
from ..quarantine.search.index_job import IndexReport, build_signatures
from ..quarantine.search.warm import warm
from ..quarantine.search.worker import start_quietly
from .corpus_texts import show_texts
from .documents import DocumentList
from .output import clean, emit, json_option, manifest_option, progress, say, table

SHOWN_BYTES = 1000


@click.group()
def corpus() -> None:
    """Index, show and verify corpora.

    \b
    Examples:
      shardward corpus index 'data/*.parquet' --out manifest --source-column source --signatures
      shardward corpus mix --manifest manifest --batch 512 --seq-len 2048
      shardward corpus show --manifest manifest
      shardward corpus show --manifest manifest --docs 7,12-15
      shardward corpus verify --manifest manifest
    """


@corpus.command()
@click.argument("inputs", nargs=-1)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Manifest to make.")
@click.option("--column", default="text", show_default=True, help="Text, or lists of token ids.")
@click.option("--id-column", default=None, help="The corpus's own document ids.")
@click.option("--source-column", default=None, help="Origin of each document.")
@click.option(
    "--tokenizer",
    default=None,
    show_default="bytes for text",
    help="'bytes' or 'hf:FILE', also for ids that they made; 'ids:VOCABULARY:SEPARATOR:PAD'.",
)
@click.option("--signatures", is_flag=True, help="Also write the sidecars that searches read.")
@click.option("--workers", type=click.IntRange(0, 256), default=0, help="Processes that sign.")
@json_option
def index(
    *,
    inputs: tuple[str, ...],
    out: Path,
    column: str,
    id_column: str | None,
    source_column: str | None,
    tokenizer: str | None,
    signatures: bool,
    workers: int,
    as_json: bool,
) -> None:
    """Build a manifest of shards: files, directories or patterns.

    With --signatures and no inputs, the manifest --out is there already and only the sidecars that
    it lacks are written; so a job that was stopped goes on. Shards that cannot be read, or end
    their worker process twice, are named when the others are signed, with exit code 1.

    \b
    Examples:
      shardward corpus index data --out manifest
      shardward corpus index data --out manifest --signatures
      shardward corpus index --out manifest --signatures --workers 8
      shardward corpus index ids --column input_ids --tokenizer hf:tokenizer.json --out manifest
      shardward corpus index ids --column input_ids --tokenizer ids:50258:50256:50257 --out manifest
    """
    if not inputs:
        if not signatures:
            raise UsageError("name the shards to index, or add --signatures to a manifest")
        manifest = Manifest.load(out)
    else:
        manifest = _build(
            inputs,
            out,
            column=column,
            id_column=id_column,
            source_column=source_column,
            tokenizer=tokenizer,
        )
    signed = _sign(manifest, workers) if signatures else None
    payload = _summary(manifest)
    if signed is not None:
        payload["signatures"] = {"made": signed.made, "kept": signed.kept, "bytes": signed.bytes}

    def render(console: Console) -> None:
        _print_summary(console, manifest)
        if signed is not None:
            console.print(f"signatures: {signed.made} shards signed, {signed.kept} were good")

    emit(as_json, payload, render)


def _build(
    inputs: tuple[str, ...],
    out: Path,
    *,
    column: str,
    id_column: str | None,
    source_column: str | None,
    tokenizer: str | None,
) -> Manifest:
    _, uris = find_shards(inputs)
    with progress("indexing", len(uris)) as advance:
        return build_manifest(
            inputs,
            out,
            column=column,
            id_column=id_column,
            source_column=source_column,
            tokenizer=tokenizer,
            advance=advance,
        )


def _sign(manifest: Manifest, workers: int) -> IndexReport:
    warm(say)
    start_quietly(workers)
    with progress("signing", manifest.documents_count) as advance:
        return build_signatures(manifest, workers=workers, advance=advance)


@corpus.command()
@manifest_option
@click.option("--shards", "list_shards", is_flag=True, help="List the shards as well.")
@click.option("--docs", type=DocumentList(), default=None, help="Show these texts instead.")
@click.option(
    "--bytes",
    "most",
    type=click.IntRange(1),
    default=SHOWN_BYTES,
    show_default=True,
    help="Of each text, from its beginning.",
)
@click.option("--limit", type=click.IntRange(1), default=40, show_default=True, help="Texts shown.")
@json_option
def show(
    *,
    manifest: Path | None,
    list_shards: bool,
    docs: list[int] | None,
    most: int,
    limit: int,
    as_json: bool,
) -> None:
    """Show what a manifest describes, or the texts of documents.

    With --docs each document is named by shard, row, source and length, and its text stands on one
    line: line ends, control and invisible characters are spelled out. Token ids are decoded where
    their tokenizer is known. --json has all documents, whatever --limit says.

    \b
    Examples:
      shardward corpus show --manifest manifest
      shardward corpus show --manifest manifest --shards --json
      shardward corpus show --manifest manifest --docs 7,12-15 --bytes 4000
    """
    if docs is not None:
        if list_shards:
            raise UsageError("give either --shards or --docs")
        show_texts(_load(manifest), docs, most=most, limit=limit, as_json=as_json)
        return
    loaded = _load(manifest)
    payload = _summary(loaded)
    if list_shards:
        payload["shard_list"] = list(loaded.shards)

    def render(console: Console) -> None:
        _print_summary(console, loaded)
        if list_shards:
            rows = [(s.uri, s.format, s.documents, s.blocks, s.size) for s in loaded.shards]
            console.print(table("shards", ["uri", "format", "documents", "blocks", "bytes"], rows))

    emit(as_json, payload, render)


@corpus.command()
@manifest_option
@click.option("--root", default=None, help="Where the shards lie now, if they have moved.")
@json_option
def verify(manifest: Path | None, root: str | None, as_json: bool) -> None:
    """Read every shard again and compare it with the manifest; exit 5 if anything differs.

    \b
    Examples:
      shardward corpus verify --manifest manifest
      shardward corpus verify --manifest manifest --root /mnt/copy --json
    """
    loaded = _load(manifest, root)
    with progress("verifying", loaded.header.shards) as advance:
        problems = find_problems(loaded, advance)
    payload = {"fingerprint": loaded.fingerprint, "shards": loaded.header.shards}
    rows = [(problem.where, problem.what) for problem in problems]
    emit(
        as_json,
        {**payload, "problems": problems},
        lambda console: console.print(
            table("problems", ["where", "what"], rows) if rows else "all shards as indexed"
        ),
    )
    if problems:
        raise IntegrityError(f"{len(problems)} differences from the manifest; see the list above")


@corpus.command()
@manifest_option
@click.option("--batch", type=click.IntRange(1), required=True, help="Samples per step.")
@click.option(
    "--seq-len", type=click.IntRange(1), help="Pack to this length; else whole documents."
)
@click.option("--window-blocks", type=click.IntRange(1), help="Blocks shuffled together.")
@click.option("--seed", default=0, show_default=True, help="Seed of the order.")
@click.option("--ranks", type=click.IntRange(1), default=1, show_default=True, help="Readers.")
@json_option
def mix(
    *,
    manifest: Path | None,
    batch: int,
    seq_len: int | None,
    window_blocks: int | None,
    seed: int,
    ranks: int,
    as_json: bool,
) -> None:
    """Tell how far a plan's batches are from the corpus's mix of sources, before training.

    \b
    Examples:
      shardward corpus mix --manifest manifest --batch 512 --seq-len 2048
      shardward corpus mix --manifest manifest --batch 512 --window-blocks 64 --json
    """
    loaded = _load(manifest)
    plan = loaded.plan(seed=seed, seq_len=seq_len, window_blocks=window_blocks)
    found = measure_mix(loaded, plan, batch=batch, ranks=ranks)
    rows = [
        ("window_blocks", str(found.window_blocks)),
        ("largest window", f"{found.window_tokens} tokens"),
        ("mix ratio", f"{found.ratio:.2f} (1 is independent draws)"),
        ("worst step", f"{found.worst_distance:.3f} from the corpus's mix"),
        ("looked at", f"{found.steps} steps in {found.windows} windows"),
        ("read amplification", f"{found.read_amplification:.2f}"),
    ]

    def render(console: Console) -> None:
        console.print(table(f"mix of {loaded.path}", ["measure", "value"], rows))
        if found.warning:
            console.print(f"warning: {found.warning}", style="yellow", soft_wrap=True)

    emit(as_json, {**asdict(found), "warning": found.warning}, render)


def _load(manifest: Path | None, root: str | None = None) -> Manifest:
    if manifest is None:
        raise UsageError("name the manifest directory with --manifest or SHARDWARD_MANIFEST")
    return Manifest.load(manifest, root)


def _summary(manifest: Manifest) -> dict[str, Any]:
    return {"path": str(manifest.path), **manifest.header.to_json()}


def _print_summary(console: Console, manifest: Manifest) -> None:
    header = manifest.header
    empty = sum(not shard.documents for shard in manifest.shards)
    rows = [
        ("fingerprint", header.fingerprint),
        ("root", header.root),
        ("column", f"{header.schema.column} ({header.schema.kind})"),
        ("tokenizer", f"{header.tokenizer.name}, vocabulary {header.tokenizer.vocabulary}"),
        ("documents", str(header.documents)),
        ("tokens", str(header.tokens)),
        ("shards", f"{header.shards}, {empty} of them empty" if empty else str(header.shards)),
        ("blocks", str(header.blocks)),
        ("sources", clean(", ".join(header.sources), limit=200)),
    ]
    if header.parent is not None:
        rows.append(("in the numbers of", f"{header.parent}, {header.tombstones} documents gone"))
    console.print(table(f"manifest {manifest.path}", ["field", "value"], rows))
