"""Index sidecars: one uncompressed Arrow IPC file per shard, mapped, with a header beside it.

The header names the scheme, the feature and detector versions, the shard and manifest it was made
from, and the checksum of the data. It is published after the data, so data without a header is a
torn write. Whatever does not match is made anew, never used.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from ...loader.errors import FormatError, IntegrityError, MismatchError
from ...loader.files import write_atomic
from ...loader.formats import canonical_json, check_format, parse_json
from .feature_names import FEATURES_VERSION
from .rows import DECIDING, IndexRows, no_rows
from .signature import BANDS, PERMUTATIONS, Scheme, current_scheme
from .vectors import WIDTH

if TYPE_CHECKING:
    from ...loader.manifest import Manifest

FORMAT, VERSION = "shardward.signatures", 1
DIRECTORY = "signatures"


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarHeader:
    """What a sidecar was made from and how; `checksum` is XXH3-128 of the data file."""

    manifest: str
    shard: str
    documents: int
    scheme: Scheme
    features: int
    detectors: dict[str, int]
    checksum: str

    def to_json(self) -> dict[str, Any]:
        """Return the header as it is written."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}


def sidecar_path(manifest: Manifest, shard: int) -> Path:
    """Return the data file of shard number `shard`; its header ends in `.json`."""
    return manifest.path / DIRECTORY / f"{shard:06d}-{manifest.shards[shard].digest[:12]}.arrow"


def write_sidecar(manifest: Manifest, shard: int, rows: IndexRows) -> Path:
    """Write the sidecar of one shard and return its data file."""
    path = sidecar_path(manifest, shard)
    data = _encode(rows)
    header = SidecarHeader(**_expected(manifest, shard), checksum=xxhash.xxh3_128_hexdigest(data))
    path.with_suffix(".json").unlink(missing_ok=True)
    write_atomic(path, data)
    write_atomic(path.with_suffix(".json"), canonical_json(header.to_json()))
    return path


def read_sidecar(manifest: Manifest, shard: int) -> IndexRows:
    """Return the rows of one shard, mapped.

    Raises:
        FormatError: there is none, or it is of another version.
        IntegrityError: it is torn or was changed.
        MismatchError: it was made from another shard, or by another scheme or detector version.
    """
    path = sidecar_path(manifest, shard)
    _check_header(path, _expected(manifest, shard))
    with pa.memory_map(str(path)) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
    return _decode(table)


def usable_sidecar(manifest: Manifest, shard: int) -> IndexRows | None:
    """Return the rows of one shard, or None where its sidecar is missing, torn or stale."""
    try:
        return read_sidecar(manifest, shard)
    except (FormatError, IntegrityError, MismatchError):
        return None


def has_sidecar(manifest: Manifest, shard: int) -> bool:
    """Return whether one shard has a sidecar, usable or not, or a part of one."""
    path = sidecar_path(manifest, shard)
    return path.exists() or path.with_suffix(".json").exists()


def _expected(manifest: Manifest, shard: int) -> dict[str, Any]:
    return {
        "manifest": manifest.fingerprint,
        "shard": manifest.shards[shard].digest,
        "documents": manifest.shards[shard].documents,
        "scheme": current_scheme(),
        "features": FEATURES_VERSION,
        "detectors": {rule.name: rule.version for rule in DECIDING},
    }


def _check_header(path: Path, expected: dict[str, Any]) -> None:
    where = path.with_suffix(".json")
    try:
        found = parse_json(where.read_bytes(), where=str(where))
        data = pa.memory_map(str(path)).read_buffer()
    except FileNotFoundError as error:
        raise FormatError(f"{error.filename} is missing; make the signatures anew") from error
    check_format(found, name=FORMAT, version=VERSION, where=str(where))
    scheme = found.get("scheme")
    if not isinstance(scheme, dict) or set(scheme) != set(asdict(expected["scheme"])):
        raise FormatError(f"{where} names no scheme; make the signatures anew")
    expected["scheme"].require(Scheme(**scheme), where=str(where))
    for key in ("manifest", "shard", "documents", "features", "detectors"):
        if found.get(key) != expected[key]:
            raise MismatchError(
                f"{where} was made for {key} {found.get(key)!r}, this is {expected[key]!r}; "
                "make the signatures anew"
            )
    checksum = xxhash.xxh3_128_hexdigest(data)
    if found.get("checksum") != checksum:
        raise IntegrityError(
            f"{path} has checksum {checksum}, its header says {found.get('checksum')}; "
            "make the signatures anew"
        )


def _encode(rows: IndexRows) -> bytes:
    columns = {
        "hash": _fixed(rows.hashes),
        "count": pa.array(rows.counts),
        "flags": pa.array(rows.flags),
        "low": _fixed(rows.low),
        "vector": _fixed(rows.vectors),
        **{f"b{band:02d}": pa.array(rows.bands[band]) for band in range(BANDS)},
    }
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _decode(table: pa.Table) -> IndexRows:
    if not table.num_rows:
        return no_rows()
    bands = tuple(_numbers(table, f"b{band:02d}") for band in range(BANDS))
    return IndexRows(
        hashes=_bytes(table, "hash", 16),
        counts=_numbers(table, "count"),
        low=_bytes(table, "low", PERMUTATIONS),
        bands=bands,
        vectors=_bytes(table, "vector", WIDTH),
        flags=_numbers(table, "flags"),
    )


def _fixed(values: NDArray[np.uint8]) -> pa.Array:
    kind = pa.binary(values.shape[1])
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values.tobytes())])


def _bytes(table: pa.Table, name: str, width: int) -> NDArray[np.uint8]:
    (array,) = table[name].chunks
    return np.frombuffer(array.buffers()[1], dtype=np.uint8).reshape(-1, width)[: len(array)]


def _numbers(table: pa.Table, name: str) -> NDArray[np.uint32]:
    (array,) = table[name].chunks
    return np.asarray(array)
