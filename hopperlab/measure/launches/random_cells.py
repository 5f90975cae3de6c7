# SPDX-License-Identifier: Apache-2.0
"""Attention that nobody chose: head sizes, heads, groups, lengths and masks, drawn from a seed."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from .attention import HEAD_SIZES

TOKENS = 16384                          # at most, of all sequences together
LEAST_TOKENS, LEAST_LENGTH = 4096, 128
HIDDEN = (512, 8192)                    # least and most of heads * D
GROUPS, KV_HEADS = (1, 1, 2, 4, 8), (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)


@dataclass(frozen=True)
class Cell:
    """One attention: self-attention of packed sequences. heads: of queries, a multiple of kv_heads."""

    d: int
    causal: bool
    heads: int
    kv_heads: int
    lengths: tuple[int, ...]

    @classmethod
    def of(cls, numbers: tuple[int, ...]) -> Self:
        """From `numbers`."""
        d, causal, heads, kv_heads, *lengths = numbers
        return cls(d, bool(causal), heads, kv_heads, tuple(lengths))

    @property
    def numbers(self) -> tuple[int, ...]:
        """D, causal, heads, kv_heads, then the lengths: what tells it from others."""
        return (self.d, int(self.causal), self.heads, self.kv_heads, *self.lengths)

    @property
    def even(self) -> bool:
        """All sequences have one length: a batch as peers know it."""
        return len(set(self.lengths)) == 1

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Sequences, longest, heads, D: what a record calls its shape."""
        return len(self.lengths), max(self.lengths), self.heads, self.d

    @property
    def options(self) -> tuple[str, ...]:
        """What else a record says of it."""
        varlen = () if self.even else ("varlen",)
        return (f"D={self.d}", "causal" if self.causal else "full", f"KV_HEADS={self.kv_heads}", f"TOKENS={sum(self.lengths)}", *varlen)

    @property
    def flop(self) -> int:
        """4 * heads * D * length^2 of each sequence, halved when causal."""
        return 4 * self.heads * self.d * sum(length * length for length in self.lengths) // (2 if self.causal else 1)

    def __str__(self) -> str:
        return " ".join(("x".join(map(str, self.shape)), *self.options[1:]))


def random_cells(count: int, seed: int) -> list[tuple[int, ...]]:
    """`count` cells as `numbers`: a head size of 64, 128 or 256; half causal; 1 to 8 query heads for each of k and v, heads * D from 512 to 8192; 4096 to 16384 tokens;
    lengths log-uniform from 128 to all tokens, half multiples of 128, others any number; in a quarter of the cells each sequence has a length of its own."""
    return [cell.numbers for _, cell in zip(range(count), _drawn(np.random.default_rng(seed)), strict=False)]


def _uneven(rng: np.random.Generator, longest: int, tokens: int) -> list[int]:
    """Lengths up to `longest` that add up to `tokens`, longest first."""
    lengths: list[int] = []
    while (left := tokens - sum(lengths)) > 0:
        lengths.append(min(left, int(rng.integers(1, longest + 1))))
    return sorted(lengths, reverse=True)


def _drawn(rng: np.random.Generator) -> Iterator[Cell]:
    while True:
        d, causal, kv_heads, group = int(rng.choice(HEAD_SIZES)), bool(rng.integers(2)), int(rng.choice(KV_HEADS)), int(rng.choice(GROUPS))
        tokens = round(2 ** rng.uniform(np.log2(LEAST_TOKENS), np.log2(TOKENS)))
        longest = min(tokens, round(2 ** rng.uniform(np.log2(LEAST_LENGTH), np.log2(tokens))))
        longest = max(128, longest // 128 * 128) if rng.integers(2) else longest
        lengths = [longest] * (tokens // longest)
        if rng.uniform() < 1 / 4 and len(lengths) > 1:
            lengths = _uneven(rng, longest, tokens)
        if HIDDEN[0] <= kv_heads * group * d <= HIDDEN[1]:
            yield Cell(d, causal, kv_heads * group, kv_heads, tuple(lengths))
