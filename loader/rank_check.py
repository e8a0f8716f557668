"""Comparing what the ranks of a job hold of one step, while it trains.

Each rank tells which samples it was given, beside the signals that it reports. All of them see
the same list and come to the same result, so none goes on alone. Without a gather, rank 0 looks
into the journals of the others at each checkpoint.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

from .arrays import Int64Array
from .errors import IntegrityError
from .journal_lookup import PROBE, find_step
from .records import DeliveredRecord
from .run import Run
from .run_signals import Gather, Signals, reduce_signals
from .topology import Topology

REMEMBERED_SHARES = 4096
PREFIX = "shardward/"
"""Begins the names under which a share travels among the signals; no keyword has such a name."""
_EXACT = 1 << 24
_DIGEST_BITS = 52
"""So many bits of a digest pass unchanged through a float, as which a gather may send numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The samples of one process in one step, in a few numbers.

    Attributes:
        rank, replica: the process's place.
        step, epoch, end: the step, its epoch, and the raw position that the whole step goes up to.
        first, last: the least and the greatest sample position of this rank, -1 if it has none.
        digest: of the samples and their tokens, 52 bits.
        tokens: that count in the loss, of the whole step; -1 where a record does not tell.
    """

    rank: int
    replica: int
    step: int
    epoch: int
    end: int
    first: int
    last: int
    digest: int
    tokens: int = -1

    @classmethod
    def of(cls, record: DeliveredRecord) -> Share:
        """Return the share that a journal record tells of."""
        return cls.made(
            Topology(
                dp_rank=record.rank,
                dp_size=record.rank + 1,
                replica=record.replica,
                replicas=record.replica + 1,
            ),
            step=record.step,
            epoch=record.epoch,
            end=record.end,
            positions=record.positions,
            digest=record.digest,
        )

    @classmethod
    def made(
        cls,
        topology: Topology,
        *,
        step: int,
        epoch: int,
        end: int,
        positions: Int64Array,
        digest: bytes,
        tokens: int = -1,
    ) -> Share:
        """Return the share of the process at `topology`; padded rows of `positions` are -1."""
        real = positions[positions >= 0]
        return cls(
            rank=topology.dp_rank,
            replica=topology.replica,
            step=step,
            epoch=epoch,
            end=end,
            first=int(real.min()) if real.size else -1,
            last=int(real.max()) if real.size else -1,
            digest=int.from_bytes(digest) & ((1 << _DIGEST_BITS) - 1),
            tokens=tokens,
        )

    @property
    def name(self) -> str:
        """The process, in words."""
        return f"rank {self.rank}" + (f" replica {self.replica}" if self.replica else "")


class RankCheck:
    """Keeps the shares of recent steps of this process and compares them with those of others."""

    def __init__(self) -> None:
        self._shares: OrderedDict[int, Share] = OrderedDict()

    def remember(self, share: Share) -> None:
        """Keep the share of a step that is handed out."""
        self._shares[share.step] = share
        if len(self._shares) > REMEMBERED_SHARES:
            self._shares.popitem(last=False)

    def reduced(self, step: int, values: Signals, gather: Gather) -> dict[str, float]:
        """Return the signals of all ranks as one; see `reduce_signals`.

        Raises:
            IntegrityError: the ranks were not given the parts of one step; raised on all of them.
        """
        own = self._shares.get(step)
        sent = dict(values) if own is None else {**values, **_packed(own)}
        ranks = gather(sent)
        compare([share for signals in ranks for share in _unpacked(signals)])
        plain = [
            {name: value for name, value in signals.items() if not name.startswith(PREFIX)}
            for signals in ranks
        ]
        return reduce_signals(plain)


def compare(shares: Sequence[Share]) -> None:
    """Refuse shares that are not the parts of one step.

    Raises:
        IntegrityError: naming the step and the first rank that does not fit.
    """
    if not shares:
        return
    first = min(shares, key=lambda share: (share.rank, share.replica))
    for share in shares:
        if (share.step, share.epoch, share.end) != (first.step, first.epoch, first.end):
            raise _refused(share, f"it is {_words(share)}, {first.name} {_words(first)}")
        if share.tokens != first.tokens and min(share.tokens, first.tokens) >= 0:
            raise _refused(
                share,
                f"it counts {share.tokens} tokens in the loss of the step, {first.name} "
                f"{first.tokens}; one of them masked a block that the other could read",
            )
    by_rank: dict[int, Share] = {}
    for share in sorted(shares, key=lambda share: (share.rank, share.replica)):
        other = by_rank.setdefault(share.rank, share)
        if other.digest != share.digest:
            raise _refused(share, f"its samples or their tokens are not those of {other.name}")
        if other is not share and other.replica == share.replica:
            raise _refused(share, "two processes say that they are this one")
    ordered = sorted((share for share in by_rank.values() if share.last >= 0), key=_by_position)
    for before, after in pairwise(ordered):
        # A gather in float32 may round neighbours to one number, but never past each other.
        if after.first < before.last or after.first == before.last < _EXACT:
            early, late = sorted((before, after), key=_by_rank)
            raise _refused(late, f"it has samples that {early.name} has too")


def check_recorded_ranks(run: Run, piece: int, step: int, topology: Topology) -> None:
    """On rank 0: compare what the journals of all ranks record for `step`, as far as it is there.

    The end of each journal is read, 256 KB; a step that is not whole in it is found by bisection.
    How many tokens count in the loss is not on record. A rank whose journal is not here, or that
    has not recorded the step yet, is left to the ingest.

    Raises:
        IntegrityError: the ranks recorded different steps under one number.
    """
    if topology.processes == 1 or topology.dp_rank or topology.replica:
        return
    compare(list(_recorded(run, piece, step, topology)))


def _recorded(run: Run, piece: int, step: int, topology: Topology) -> Iterator[Share]:
    for rank in range(topology.dp_size):
        for replica in range(topology.replicas):
            path = run.journal_path(piece, rank, replica)
            if path.exists():
                # The record may be longer than the end that is looked at first.
                record = find_step(path, step, max(0, path.stat().st_size - PROBE))
                record = record or find_step(path, step)
                if record is not None:
                    yield Share.of(record)


def _packed(share: Share) -> dict[str, float]:
    return {f"{PREFIX}{name}": value for name, value in asdict(share).items()}


def _unpacked(signals: Mapping[str, float]) -> Iterable[Share]:
    values = {
        name.removeprefix(PREFIX): int(value)
        for name, value in signals.items()
        if name.startswith(PREFIX)
    }
    return [Share(**values)] if values else []


def _by_position(share: Share) -> int:
    return share.first


def _by_rank(share: Share) -> int:
    return share.rank


def _words(share: Share) -> str:
    return f"at step {share.step}, up to position {share.end} of epoch {share.epoch}"


def _refused(share: Share, what: str) -> IntegrityError:
    return IntegrityError(
        f"step {share.step}, {share.name}: {what}; the ranks do not train on one batch: "
        "stop them, and start all of them from one checkpoint"
    )
