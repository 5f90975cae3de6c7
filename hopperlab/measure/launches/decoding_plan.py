# SPDX-License-Identifier: Apache-2.0
"""Who reads which keys: the work of one decoding step, cut into pieces and dealt to persistent CTAs before the launch.

A row is one head of k and v (or one block of query heads, in latent attention) of one sequence. A piece is some tiles of a row, read at a stretch by one CTA.
Rows of more than one piece leave parts in slots, which combine.cu puts together.
"""
from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .launch import SMS
from .operand_checks import OperandError


@dataclass(frozen=True)
class Plan:
    """pieces: int32, n x 5 (sequence, head, first key, end, slot or -1), in the order of their CTAs; starts: int32, CTAs + 1: CTA b takes pieces starts[b] and on;
    cut: int32, r x 4 (sequence, head, first slot, slots) of each row that was cut; tile: keys of a tile."""

    pieces: np.ndarray
    starts: np.ndarray
    cut: np.ndarray
    tile: int

    @property
    def blocks(self) -> int:
        """CTAs."""
        return len(self.starts) - 1

    @property
    def slots(self) -> int:
        """Parts that are left for combine.cu."""
        return int(self.cut[:, 3].sum())

    @property
    def tiles(self) -> list[int]:
        """Tiles that each CTA reads."""
        each = -(-(self.pieces[:, 3] - self.pieces[:, 2]) // self.tile)
        return [int(each[a:b].sum()) for a, b in zip(self.starts, self.starts[1:], strict=False)]

    @property
    def balance(self) -> float:
        """Tiles of the mean CTA by those of the one that has most: 1 where nobody waits for another."""
        return sum(self.tiles) / (self.blocks * max(self.tiles))


def plan(lengths: Sequence[int], heads: int, blocks: int = SMS, splits: int = 0, tile: int = 64) -> Plan:
    """The pieces of one decoding step. lengths: keys of each sequence, at least 1; heads: rows of a sequence.

    splits 0: all tiles stand in a line, and every CTA takes an equal share of it, wherever rows end. splits n: every row is cut into n pieces of
    equal tiles (fewer, where it has fewer tiles), and the pieces are dealt out, the longest first, to the CTA that has least. Raises OperandError.
    """
    if not len(lengths) or min(lengths) < 1:
        raise OperandError("size", f"lengths are {list(lengths)[:8]}: at least one sequence, and each sees at least its own token")
    if heads < 1 or blocks < 1 or splits < 0 or tile < 1:
        raise OperandError("size", f"heads is {heads}, blocks {blocks}, splits {splits}, tile {tile}: at least 1 each, and splits 0 or more")
    rows = [(sequence, head, -(-int(length) // tile)) for sequence, length in enumerate(lengths) for head in range(heads)]
    work = _in_a_line(rows, blocks) if splits == 0 else _dealt(rows, blocks, splits)
    parts: dict[tuple[int, int], list[int]] = {}                # row -> the first tiles of its pieces
    for pieces in work:
        for sequence, head, first, _ in pieces:
            parts.setdefault((sequence, head), []).append(first)
    cut, slot, slots = [], 0, {}
    for row, firsts in parts.items():
        if len(firsts) > 1:
            cut.append((*row, slot, len(firsts)))
            slots.update({(*row, first): slot + i for i, first in enumerate(sorted(firsts))})
            slot += len(firsts)
    table = [(sequence, head, first * tile, min(end * tile, int(lengths[sequence])), slots.get((sequence, head, first), -1)) for pieces in work for sequence,
             head, first, end in pieces]
    return Plan(np.array(table, np.int32), np.cumsum([0, *map(len, work)], dtype=np.int32), np.array(cut, np.int32).reshape(-1, 4), tile)


def _in_a_line(rows: list[tuple[int, int, int]], blocks: int) -> list[list[tuple[int, int, int, int]]]:
    all_tiles = sum(tiles for _, _, tiles in rows)
    blocks = min(blocks, all_tiles)
    bounds = [all_tiles * b // blocks for b in range(blocks + 1)]
    work: list[list[tuple[int, int, int, int]]] = [[] for _ in range(blocks)]
    begin, block = 0, 0
    for sequence, head, tiles in rows:
        at = begin
        while at < begin + tiles:
            while bounds[block + 1] <= at:
                block += 1
            end = min(bounds[block + 1], begin + tiles)
            work[block].append((sequence, head, at - begin, end - begin))
            at = end
        begin += tiles
    return work


def _dealt(rows: list[tuple[int, int, int]], blocks: int, splits: int) -> list[list[tuple[int, int, int, int]]]:
    pieces = []
    for sequence, head, tiles in rows:
        count = min(splits, tiles)
        pieces += [(sequence, head, tiles * i // count, tiles * (i + 1) // count) for i in range(count)]
    pieces.sort(key=lambda piece: piece[2] - piece[3])          # stable: the longest first
    work: list[list[tuple[int, int, int, int]]] = [[] for _ in range(min(blocks, len(pieces)))]
    least = [(0, block) for block in range(len(work))]
    for piece in pieces:
        tiles, block = heapq.heappop(least)
        work[block].append(piece)
        heapq.heappush(least, (tiles + piece[3] - piece[2], block))
    return work
