"""Per-source losses, hardware counters and the advice that follows."""

from __future__ import annotations

import numpy as np
import pytest
from helpers_diagnose import an_event, curve, series_of

from shardward.loader.batch import Batch
from shardward.loader.cursor import Cursor
from shardward.loader.segments import Segments
from shardward.quarantine.diagnose.advice import advise
from shardward.quarantine.diagnose.hardware import read_counters, signs_between
from shardward.quarantine.diagnose.series import Series
from shardward.quarantine.diagnose.source_loss import merged, source_losses

PAGE = """# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.
# TYPE DCGM_FI_DEV_XID_ERRORS gauge
DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-1",Hostname="node12"} 0
DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{gpu="3",UUID="GPU-1",Hostname="node12"} 2
DCGM_FI_DEV_GPU_TEMP{gpu="3",UUID="GPU-1",Hostname="node12"} 61
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="3",Hostname="node12"} not-a-number
garbage
"""


def a_batch() -> Batch:
    """Two rows of eight tokens: sources 0 and 1 in the first, 1 and padding in the second."""

    def column(*values: int) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    mask = np.ones((2, 8), dtype=bool)
    mask[1, 5:] = False
    return Batch(
        step=1,
        micro=0,
        micros=1,
        epoch=0,
        tokens=np.zeros((2, 8), dtype=np.uint16),
        loss_mask=mask,
        positions=column(0, 1),
        segments=Segments(
            sample=column(0, 0, 1),
            doc=column(10, 11, 12),
            start=column(0, 0, 0),
            end=column(3, 5, 5),
            offset=column(0, 3, 0),
        ),
        sources=np.array([0, 1, 1], dtype=np.uint16),
        target_tokens=12,
        global_target_tokens=12,
        blanked_tokens=0,
        cursor_after=Cursor(
            plan_id="0" * 64, epoch=0, position=2, step=1, revision=0, revision_digest=None
        ),
    )


def test_each_source_gets_the_mean_of_its_own_tokens() -> None:
    losses = np.arange(14, dtype=float).reshape(2, 7)

    found = source_losses(losses, a_batch(), ["web", "code", "books"])

    assert found["loss/web"] == pytest.approx(np.mean([0, 1]))
    assert found["loss/code"] == pytest.approx(np.mean([2, 3, 4, 5, 6, 7, 8, 9, 10]))
    assert found["share/books"] == 0
    assert "loss/books" not in found


def test_a_mean_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="one loss for each target token"):
        source_losses(np.zeros(2), a_batch(), ["web", "code"])


def test_micro_batches_are_weighed_by_their_shares() -> None:
    found = merged(
        [
            {"share/a": 1.0, "loss/a": 2.0, "share/b": 0.0},
            {"share/a": 0.5, "loss/a": 4.0, "share/b": 0.5, "loss/b": 1.0},
        ]
    )

    assert found["share/a"] == 0.75
    assert found["loss/a"] == pytest.approx((2.0 + 0.5 * 4.0) / 1.5)
    assert found["loss/b"] == 1.0


def test_only_counters_that_matter_are_read() -> None:
    assert read_counters(PAGE) == {
        ("DCGM_FI_DEV_XID_ERRORS", "node12/gpu3"): 0.0,
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "node12/gpu3"): 2.0,
    }


def test_a_counter_that_rose_and_a_new_xid_are_signs() -> None:
    before = read_counters(PAGE)
    now = read_counters(PAGE.replace("} 0\n", "} 79\n").replace("} 2\n", "} 5\n"))

    signs = signs_between(before, now, step=600)

    assert [(sign.what, sign.severe) for sign in signs] == [
        ("single-bit ECC errors rose from 2 to 5 on node12/gpu3", False),
        ("XID 79 on node12/gpu3", True),
    ]
    assert signs_between(now, now) == []


def test_a_spike_that_healed_without_damage_is_left_alone() -> None:
    event = an_event(end=610)

    assert advise(event, series_of({"loss": curve(900)})).action == "let it recover"


def test_a_spike_after_which_the_level_stayed_higher_is_rewound() -> None:
    loss = curve(900)
    loss[599:] *= 1.05

    advice = advise(an_event(end=610), series_of({"loss": loss}))

    assert advice.action == "rewind"
    assert "above the" in advice.reasons[0]


def test_a_held_out_loss_that_suffered_is_a_reason_to_rewind() -> None:
    heldout = Series(name="heldout_loss", steps=np.array([500, 700]), values=np.array([2.5, 2.7]))
    series = series_of({"loss": curve(900)}) | {"heldout_loss": heldout}

    assert advise(an_event(end=610), series).action == "rewind"


def test_an_event_that_goes_on_is_waited_for_and_a_divergence_is_not() -> None:
    assert advise(an_event(), {}).action == "wait"
    assert advise(an_event(kind="divergence"), {}).action == "rewind"


@pytest.mark.parametrize("kind", ["spike", "divergence"])
def test_an_event_that_the_log_shows_to_be_over_has_ended(kind: str) -> None:
    loss = curve(900)
    loss[599:609] += 1.0

    advice = advise(an_event(kind=kind), series_of({"loss": loss}))

    assert advice.action == "let it recover"
    assert advice.reasons[0] == "the loss was back on its trend after 10 steps"


def test_an_event_that_the_log_shows_to_go_on_is_waited_for() -> None:
    loss = curve(900)
    loss[599:] += 1.0

    assert advise(an_event(), series_of({"loss": loss})).action == "wait"
