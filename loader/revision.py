"""A revision: one immutable, numbered, content-addressed set of what training leaves out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arrays import Int64Array
from .errors import FormatError
from .formats import Json, canonical_json, check_format, sha256_hex

FORMAT = "shardward.revision"
VERSION = 1
HASH_BYTES = 16
_ROW_BYTES = 8 + HASH_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Positions `[start, end)` of one epoch of one plan, left out once."""

    plan_id: str
    epoch: int
    start: int
    end: int
    reason: str

    def __post_init__(self) -> None:
        if self.epoch < 0 or not 0 <= self.start < self.end:
            raise ValueError(f"a skip of positions {self.start}..{self.end} holds nothing")

    def to_json(self) -> dict[str, Any]:
        """Return the skip as a JSON object."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def _no_documents() -> Int64Array:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Revision:
    """Excluded documents and skipped positions, for one manifest.

    Attributes:
        number: 0 excludes nothing; published ones count from 1.
        parent: digest of the revision before it, or None.
        manifest: fingerprint of the manifest whose ordinals are meant.
        documents: int64[n], excluded ordinals, strictly increasing.
        hashes: n x 16 bytes, the content hash of each document, in the same order.
        skips: position ranges left out once.
        decisions_head: hash of the decision that the revision was made from; None for none.
        decisions_count: number of decisions up to it.
        created: time of publishing, ISO 8601; not part of the digest.
        home: directory of the run that it was loaded from, where what was counted for it lies too;
            None for one that was made. It is not stored.
    """

    number: int
    parent: str | None = None
    manifest: str
    documents: Int64Array = field(default_factory=_no_documents)
    hashes: bytes = b""
    skips: tuple[Skip, ...] = ()
    decisions_head: str | None = None
    decisions_count: int = 0
    created: str = ""
    home: str | None = None

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(f"a revision's number is not negative, this one is {self.number}")
        if self.documents.dtype != np.int64 or self.documents.ndim != 1:
            raise ValueError("documents are a flat int64 array")
        if self.documents.size and (
            int(self.documents[0]) < 0 or bool((np.diff(self.documents) <= 0).any())
        ):
            raise ValueError("documents are non-negative and strictly increasing")
        if len(self.hashes) != HASH_BYTES * self.documents.size:
            raise ValueError(
                f"{self.documents.size} documents need {HASH_BYTES * self.documents.size} "
                f"bytes of content hashes, not {len(self.hashes)}"
            )

    @property
    def digest(self) -> str:
        """SHA-256 over everything but the time of publishing, 64 hex digits."""
        header = self.header()
        del header["created"]
        return sha256_hex(canonical_json(header))

    @property
    def name(self) -> str:
        """Stem of the revision's files."""
        return f"{self.number:06d}-{self.digest[:12]}"

    def header(self) -> dict[str, Any]:
        """Return the JSON part; documents and hashes stand in the payload."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "number": self.number,
            "parent": self.parent,
            "manifest": self.manifest,
            "documents": int(self.documents.size),
            "payload_sha256": sha256_hex(self.payload()),
            "skips": [skip.to_json() for skip in self.skips],
            "decisions": {"head": self.decisions_head, "count": self.decisions_count},
            "created": self.created,
        }

    def payload(self) -> bytes:
        """Return the binary part: ordinals as little-endian int64, then the hashes."""
        return self.documents.astype("<i8").tobytes() + self.hashes

    @classmethod
    def parse(cls, header: Json, payload: bytes, *, where: str = "the revision") -> Revision:
        """Return the revision made of its two parts.

        Raises:
            FormatError: unknown version, malformed, or a payload that is not the header's.
        """
        check_format(header, name=FORMAT, version=VERSION, where=where)
        try:
            count = int(header["documents"])
            if (
                len(payload) != count * _ROW_BYTES
                or sha256_hex(payload) != header["payload_sha256"]
            ):
                raise FormatError(
                    f"{where} announces {count} documents in {count * _ROW_BYTES} bytes, but its "
                    f"payload of {len(payload)} bytes is not theirs; restore it from a copy"
                )
            return cls(
                number=header["number"],
                parent=header["parent"],
                manifest=header["manifest"],
                documents=np.frombuffer(payload, dtype="<i8", count=count).astype(np.int64),
                hashes=payload[count * 8 :],
                skips=tuple(Skip(**skip) for skip in header["skips"]),
                decisions_head=header["decisions"]["head"],
                decisions_count=header["decisions"]["count"],
                created=header["created"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{where} is malformed: {error}") from error
