"""The order is a good shuffle by tests that an affine map and a shuffle buffer fail."""

from __future__ import annotations

import numpy as np

from shardward.loader.arrays import Int64Array
from shardward.loader.permutation import Permutation, derive_key

N = 20_011


def affine(key: int) -> Int64Array:
    return (np.arange(N, dtype=np.int64) * (key * 2 + 7919) + key) % N


def buffered(key: int, size: int = 1000) -> Int64Array:
    rng = np.random.default_rng(key)
    buffer = list(range(size))
    result = []
    for incoming in range(size, N + size):
        slot = int(rng.integers(len(buffer)))
        result.append(buffer[slot])
        if incoming < N:
            buffer[slot] = incoming
        else:
            buffer.pop(slot)
    return np.array(result, dtype=np.int64)


def ours(key: int) -> Int64Array:
    return Permutation(N, derive_key(key)).all()


def serial_correlation(order: Int64Array) -> float:
    return float(abs(np.corrcoef(order[:-1], order[1:])[0, 1]))


def repeated_steps(order: Int64Array) -> float:
    """Share of neighbours whose difference is the most common one; an iid order has few."""
    _, counts = np.unique((order[1:] - order[:-1]) % N, return_counts=True)
    return float(counts.max() / order.size)


def mean_displacement(order: Int64Array) -> float:
    """Mean distance from the sorted place, as a share of N; 1/3 for a uniform order."""
    return float(np.abs(order - np.arange(order.size)).mean() / order.size)


def test_neighbours_are_uncorrelated_where_a_buffer_leaves_them_close() -> None:
    assert max(serial_correlation(ours(key)) for key in range(8)) < 5 / np.sqrt(N)
    assert serial_correlation(buffered(0)) > 0.9


def test_no_step_between_neighbours_repeats_where_an_affine_map_has_only_one() -> None:
    assert max(repeated_steps(ours(key)) for key in range(8)) < 12 / N
    assert repeated_steps(affine(3)) > 0.9


def test_documents_travel_a_third_of_the_corpus_where_a_buffer_keeps_them_near() -> None:
    assert all(abs(mean_displacement(ours(key)) - 1 / 3) < 0.01 for key in range(8))
    assert mean_displacement(buffered(0)) < 0.06


def test_every_place_is_equally_likely_at_sizes_around_the_change_of_method() -> None:
    for size in (2, 5, 31, 128, 129, 200):
        draws = 40 * size
        counts = np.zeros((size, size))
        for key in range(draws):
            counts[np.arange(size), Permutation(size, derive_key(key, size)).all()] += 1
        freedom = (size - 1) ** 2
        chi_square = float(((counts - draws / size) ** 2 / (draws / size)).sum())

        assert abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom), size


def test_neighbouring_keys_give_unrelated_orders() -> None:
    correlations = [np.corrcoef(ours(key), ours(key + 1))[0, 1] for key in range(8)]

    assert float(np.abs(correlations).max()) < 5 / np.sqrt(N)
