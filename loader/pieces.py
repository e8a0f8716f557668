"""Branch pieces: one immutable file for each stretch of a run, numbered 1, 2, 3, …"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .errors import FormatError
from .files import publish_new
from .formats import Json, canonical_json, check_format, parse_json
from .topology import MOST_PROCESSES

FORMAT = "shardward.piece"
VERSION = 1
REASONS = ("start", "restart", "rewind", "trial")


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One stretch of a run, opened by a cursor load.

    The parent owns steps <= `fork_step`; this piece starts at `fork_step + 1`. `topology` holds
    "dp_size" and "replicas"; `cursor` is the loaded cursor as JSON; `launch` is the token that
    all ranks of one start share; `record` is "documents" or "runs". `terms` is what else the
    ranks must agree on to take the same samples: batch schedule, micro-batches, epochs, what
    happens at an epoch's end and at a corrupt block.
    """

    piece: int
    parent: int | None
    fork_step: int
    reason: str
    cursor: Mapping[str, Any]
    topology: Mapping[str, int]
    revision: int
    revision_digest: str | None
    mode: str
    launch: str
    record: str
    terms: Mapping[str, Any]
    created: str

    def __post_init__(self) -> None:
        if self.piece < 1 or self.fork_step < 0:
            raise ValueError(f"piece {self.piece} with fork step {self.fork_step} is impossible")
        if self.parent is not None and not 0 < self.parent < self.piece:
            raise ValueError(f"piece {self.piece} cannot descend from piece {self.parent}")
        if self.reason not in REASONS:
            raise ValueError(f"reason is {self.reason!r}; use one of {', '.join(REASONS)}")

    @property
    def first_step(self) -> int:
        """The first step that this piece can hold."""
        return self.fork_step + 1

    @property
    def dp_size(self) -> int:
        """Data-parallel ranks of this piece."""
        return self.topology["dp_size"]

    @property
    def replicas(self) -> int:
        """Replicas of each data-parallel rank."""
        return self.topology["replicas"]

    def to_json(self) -> dict[str, Any]:
        """Return the piece as the JSON object of its file."""
        return {"format": FORMAT, "version": VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, value: Json, *, where: str = "the piece") -> Piece:
        """Return the piece in `value`.

        Raises:
            FormatError: unknown version, a missing field, or a value of the wrong kind.
        """
        check_format(value, name=FORMAT, version=VERSION, where=where)
        fields = {name: item for name, item in value.items() if name not in ("format", "version")}
        try:
            piece = cls(**fields)
            _check_sizes(piece.dp_size, piece.replicas)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"{where} is malformed: {error}") from error
        return piece


def _check_sizes(*sizes: Any) -> None:
    if not all(type(size) is int and size > 0 for size in sizes):
        raise TypeError(f"dp_size and replicas are {sizes}; both must be 1 or more")
    if math.prod(sizes) > MOST_PROCESSES:
        raise ValueError(f"dp_size and replicas are {sizes}; {MOST_PROCESSES} are the most")


def piece_path(directory: Path, number: int) -> Path:
    """Return the file of piece `number` in `directory`."""
    return directory / f"{number:06d}.json"


def load_pieces(directory: Path) -> tuple[Piece, ...]:
    """Return the pieces in `directory` in order, found by probing the next number.

    Raises:
        FormatError: a piece file is malformed, or holds another number than its name.
    """
    pieces: list[Piece] = []
    while (path := piece_path(directory, len(pieces) + 1)).exists():
        piece = Piece.from_json(parse_json(path.read_bytes(), where=str(path)), where=str(path))
        if piece.piece != len(pieces) + 1:
            raise FormatError(f"{path} holds piece {piece.piece}; restore it from a copy")
        pieces.append(piece)
    return tuple(pieces)


def publish_piece(directory: Path, piece: Piece) -> None:
    """Write `piece` under its number, which must be free.

    Raises:
        IntegrityError: another piece has the number.
    """
    publish_new(piece_path(directory, piece.piece), canonical_json(piece.to_json()) + b"\n")
