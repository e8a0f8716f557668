"""Answers that are objects of their own, as Arrow tables like all the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from .check import Problem
from .verify import Verification

PROBLEMS = pa.schema(
    {
        "kind": pa.string(),
        "serious": pa.bool_(),
        "message": pa.string(),
        "piece": pa.int64(),
        "step": pa.int64(),
        "rank": pa.int64(),
    }
)
DIFFERENCES = pa.schema(
    {
        "piece": pa.int64(),
        "step": pa.int64(),
        "rank": pa.int64(),
        "recorded": pa.string(),
        "found": pa.string(),
        "doc": pa.int64(),
        "shard": pa.string(),
        "row": pa.int64(),
        "among": pa.int64(),
        "reason": pa.string(),
    }
)


def as_table(answer: Sequence[Problem] | Verification | Mapping[str, object]) -> pa.Table:
    """Return what `check`, `verify` or `stats` of a ledger gave as an Arrow table.

    One row per problem, per difference, or per count (what, value).
    """
    if isinstance(answer, Verification):
        rows = [
            {**asdict(one), **({} if one.document is None else asdict(one.document))}
            for one in answer.differences
        ]
        return pa.Table.from_pylist(rows, schema=DIFFERENCES)
    if isinstance(answer, Mapping):
        values = [float(str(value)) for value in answer.values()]
        return pa.table({"what": pa.array(list(answer), pa.string()), "value": values})
    return pa.Table.from_pylist([asdict(problem) for problem in answer], schema=PROBLEMS)
