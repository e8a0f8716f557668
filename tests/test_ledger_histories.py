"""Random histories of restarts, rewinds, trials and topologies, against a plain Python model."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from helpers_ledger import cursor, docs, make_run, train
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardward.loader.run import Run
from shardward.quarantine.ledger import ALL, Ledger, View

events = st.lists(
    st.tuples(
        st.sampled_from(["restart", "rewind", "trial", "fork"]),
        st.floats(0, 1),  # which point of the history
        st.integers(0, 4),  # steps that follow
        st.sampled_from([1, 2, 4]),  # ranks
        st.booleans(),  # whether the last step lacks a rank
    ),
    max_size=7,
)


@dataclass
class Model:
    """What each piece's history holds: step → piece that trained it."""

    history: dict[int, dict[int, int]] = field(default_factory=lambda: {0: {}})
    size: dict[int, int] = field(default_factory=dict)
    incomplete: set[tuple[int, int]] = field(default_factory=set)
    head: int = 0

    def train(self, run: Run, kind: str, start: int, parent: int, steps: int, size: int) -> int:
        piece = train(
            run,
            range(start + 1, start + 1 + steps),
            cursor(start, parent or None),
            size=size,
            reason="trial" if kind == "trial" else "restart",
            fork=kind == "fork",
        ).piece
        kept = {step: owner for step, owner in self.history[parent].items() if step <= start}
        self.history[piece] = {**kept, **{start + 1 + k: piece for k in range(steps)}}
        self.size[piece] = size
        if kind != "trial":
            self.head = piece
        return piece


def play(run: Run, model: Model, plays: list[tuple[str, float, int, int, bool]]) -> None:
    model.train(run, "start", 0, 0, 5, 1)
    for kind, where, steps, size, short in plays:
        source = model.head
        if kind == "fork":
            source = sorted(model.history)[1:][int(where * (len(model.history) - 2))]
        points = [*model.history[source]] or [0]
        at = points[int(where * (len(points) - 1))]
        owner = model.history[source].get(at, source)
        if kind == "rewind":
            run.move_head(piece=owner, step=at, cursor=cursor(at, owner), revision=0)
        piece = model.train(run, kind, at, owner, steps, size)
        if short and size > 1 and steps:
            path = run.journal_path(piece, size - 1)
            # The last step's three records of the last rank never reached the disk.
            data = path.read_bytes()
            path.write_bytes(data[: data[: data.rfind(b"SWJ\n")].rfind(b"SWJ\n") - 8])
            model.incomplete.add((piece, at + steps))


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events)
def test_every_history_is_what_the_model_says(
    plays: list[tuple[str, float, int, int, bool]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run = make_run(Path(directory) / "run")
        model = Model()
        play(run, model, plays)
        with Ledger.open(run) as ledger:
            check(ledger, model)


def check(ledger: Ledger, model: Model) -> None:
    effective = ledger.sql("SELECT step, piece FROM effective_steps ORDER BY step").to_pylist()
    assert {row["step"]: row["piece"] for row in effective} == model.history[model.head]
    assert len(effective) == len(model.history[model.head])
    for piece, history in model.history.items():
        if piece == 0:
            continue
        rows = ledger.steps(1, 1 << 40, piece).to_pylist()
        assert [(row["step"], row["piece"]) for row in rows] == sorted(history.items())
        assert all(
            row["complete"] == ((row["piece"], row["step"]) not in model.incomplete) for row in rows
        )
    for step, piece in model.history[model.head].items():
        ranks = model.size[piece] - ((piece, step) in model.incomplete)
        wanted = [*range(8 * (step - 1), 8 * (step - 1) + 8 * ranks // model.size[piece])]
        assert docs(ledger.step_documents(step)) == wanted
    everything = sum(len(own) for own in owned(model).values())
    assert ledger.steps(1, 1 << 40, ALL).num_rows == everything
    assert not [problem for problem in ledger.check(View()) if problem.serious]


def owned(model: Model) -> dict[int, list[int]]:
    """Return the steps that each piece trained itself."""
    return {
        piece: [step for step, owner in history.items() if owner == piece]
        for piece, history in model.history.items()
    }
