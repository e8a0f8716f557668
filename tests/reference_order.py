"""A slow, obvious model of the order: Python lists and loops only, written from docs/order.md."""

from __future__ import annotations

from dataclasses import dataclass

MASK64 = (1 << 64) - 1


def splitmix(value: int) -> int:
    z = (value + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def key_of(*parts: int) -> int:
    key = int.from_bytes(b"shardwar", "big")
    for part in parts:
        key = splitmix(key ^ (part % 2**64))
    return key


def permute(size: int, key: int) -> list[int]:
    """Return the whole permutation of 0..size-1 as a list."""
    if size <= 128:
        table = list(range(size))
        for last in range(size - 1, 0, -1):
            other = key_of(key, last) * (last + 1) // 2**64
            table[last], table[other] = table[other], table[last]
        return table
    high = next(a for a in range(1, size + 1) if a * a >= size)
    low = -(-size // high)
    keys = [key_of(key, index) for index in range(6)]

    def scramble(half: int, round_key: int, radix: int) -> int:
        x = (half + round_key) * 0x9E3779B97F4A7C15 % 2**64
        x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9 % 2**64
        return (x >> 32) * radix >> 32

    def encrypt(value: int) -> int:
        left, right = divmod(value, low)
        for index, round_key in enumerate(keys):
            if index % 2:
                right = (right + scramble(left, round_key, low)) % low
            else:
                left = (left + scramble(right, round_key, high)) % high
        return left * low + right

    images = []
    for value in range(size):
        image = encrypt(value)
        while image >= size:
            image = encrypt(image)
        images.append(image)
    return images


@dataclass
class ReferenceSample:
    position: int
    pieces: list[tuple[int, int, int, int]]  # document, start, end, offset


def epoch_samples(
    *,
    blocks: list[list[int]],
    window_blocks: int,
    seq_len: int | None,
    separator: bool,
    held_out: set[int],
    seed: int,
    epoch: int,
) -> list[ReferenceSample]:
    """Return every sample of an epoch; `blocks` holds the token length of each document."""
    first = [sum(len(b) for b in blocks[:index]) for index in range(len(blocks))]
    order = permute(len(blocks), key_of(seed, epoch, 0))
    result: list[ReferenceSample] = []
    for window, start in enumerate(range(0, len(order), window_blocks)):
        docs = [
            (first[block] + row, length + separator)
            for block in order[start : start + window_blocks]
            for row, length in enumerate(blocks[block])
        ]
        shuffled = [docs[index] for index in permute(len(docs), key_of(seed, epoch, 1, window))]
        stream = [(doc, size) for doc, size in shuffled if doc not in held_out]
        cut = _cut(stream, seq_len)
        if seq_len is None:
            rows = cut
        else:
            rows = [cut[index] for index in permute(len(cut), key_of(seed, epoch, 2, window))]
        for pieces in rows:
            result.append(ReferenceSample(len(result), pieces))
    return result


def _cut(
    stream: list[tuple[int, int]], seq_len: int | None
) -> list[list[tuple[int, int, int, int]]]:
    if seq_len is None:
        return [[(doc, 0, size, 0)] for doc, size in stream]
    samples: list[list[tuple[int, int, int, int]]] = []
    tokens = [(doc, index) for doc, size in stream for index in range(size)]
    for start in range(0, len(tokens), seq_len):
        pieces: list[tuple[int, int, int, int]] = []
        for offset, (doc, index) in enumerate(tokens[start : start + seq_len]):
            if pieces and pieces[-1][0] == doc:
                last = pieces[-1]
                pieces[-1] = (doc, last[1], index + 1, last[3])
            else:
                pieces.append((doc, index, index + 1, offset))
        samples.append(pieces)
    return samples


def surviving(samples: list[ReferenceSample], excluded: set[int]) -> list[int]:
    """Return the positions that `compact` delivers."""
    return [s.position for s in samples if any(piece[0] not in excluded for piece in s.pieces)]
