"""Every error shardward raises, drawn as one tree.

ShardwardError            exit 1
├── UsageError            exit 2  options that contradict each other
├── CorpusError                   a shard, row or manifest that cannot be used
│   ├── CorruptBlock              a block whose content is not what the manifest recorded
│   └── UnreachableShard          a shard that the store does not hand out at the moment
├── FormatError                   a file that is malformed or of an unknown version
├── MismatchError                 a cursor, revision or run made for another plan or manifest
├── TopologyError                 a batch that cannot be split over the ranks asked for
├── SupersededCursor              a cursor that a rewind has left behind
├── NotFound                      a step, document, incident or revision that does not exist
├── DecisionError                 a decision that the log refuses
├── IncidentError                 a response step asked for out of order
├── Busy                  exit 4  another process holds the ledger or the run
├── IntegrityError        exit 5  two records of one fact disagree, or a log was edited
└── MissingExtra                  an optional dependency is not installed

A message says what differed, both values and the remedy, in lower case.
"""

from __future__ import annotations

from typing import ClassVar


class ShardwardError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code: ClassVar[int] = 1


class UsageError(ShardwardError):
    """Options that contradict each other or have no meaning."""

    exit_code = 2


class CorpusError(ShardwardError):
    """A shard, row or manifest that cannot be used."""


class CorruptBlock(CorpusError):
    """A block whose content is not what the manifest recorded."""


class UnreachableShard(CorpusError):
    """A shard that the store does not hand out at the moment: missing, refused or timed out."""


class FormatError(ShardwardError):
    """A file that is malformed or of a version this release does not know."""


class MismatchError(ShardwardError):
    """A cursor, revision or run made for another plan or manifest."""


class TopologyError(ShardwardError):
    """A global batch that cannot be split over the ranks and micro-batches asked for."""


class SupersededCursor(ShardwardError):
    """A cursor that a rewind or restart has left behind."""


class NotFound(ShardwardError):
    """A step, document, incident or revision that does not exist."""


class DecisionError(ShardwardError):
    """A decision that the log refuses."""


class IncidentError(ShardwardError):
    """A response step asked for out of order."""


class Busy(ShardwardError):
    """Another process holds the ledger or the run."""

    exit_code = 4


class IntegrityError(ShardwardError):
    """Two records of one fact disagree, or a log was edited."""

    exit_code = 5


class MissingExtra(ShardwardError):
    """An optional dependency is not installed; the message holds the exact install command."""
