# SPDX-License-Identifier: Apache-2.0
"""An estimate of a product's time with a configuration, good enough to pick one: how long the longest of tensor cores, L2, memory and power takes.

`work(choice, m, n, k)` counts what there is to do, `Model.microseconds(work)` says how long that takes. The constants were fitted by
`python -m benchmarks.gemm_model` on the recording `search` and a search with another seed (120 shapes in all, both orders of B). On 60 further shapes, searched
alike, the picks took 2.1 per cent longer than the best that was tried, at most 16.8; the recording `products` has others.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .gemm_configurations import SMS, Choice, Final, StreamK, clusters_at_once, per_sm


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


@dataclass(frozen=True)
class Work:
    """What a launch has to do. Numbers, or arrays of them for many launches at a time.

    blocks: k-blocks of 64 that the busiest SM's CTAs work off, one after the other. products: cycles of an SM's tensor cores for one of them. shared: bytes
    that it moves through shared memory, written by TMA and read by wgmma. alone: 1 where a single consumer waits for its own products, else 0.
    beside: CTAs that share an SM.
    loaded: bytes from the L2 for one k-block. tiles: how many a CTA finishes, one after the other. starts: CTAs that an SM
    starts, one after the other. staggered: 1 where one consumer's end of a tile runs under the other's products. tile: elements of one. narrow: 64
    over the columns of C in a slot, less 1. memory: bytes read and written at
    least. operands, traffic: bytes that wgmma reads, bytes from the L2, of all CTAs. cluster, split, dealt: 1 or 0.
    exchanged, mailed: bytes that a CTA receives from others of its cluster, or by way of memory.
    """

    blocks: Any
    products: Any
    shared: Any
    alone: Any
    beside: Any
    loaded: Any
    tiles: Any
    starts: Any
    staggered: Any
    tile: Any
    narrow: Any
    memory: Any
    operands: Any
    traffic: Any
    cluster: Any
    split: Any
    exchanged: Any
    dealt: Any
    mailed: Any


def work(choice: Choice, m: int, n: int, k: int, lines: tuple[float, float] = (1.0, 1.0)) -> Work:
    """Of a product of m x n x k with a configuration. lines: L2 sectors read over those needed, of A and of B, see Model.split_lines."""
    if isinstance(choice, Final):
        high, wide = choice.tiles(m, n)
        bm, consumers, split, up, across, tiles = choice.bm, choice.consumers, choice.split, choice.cluster_m, choice.cluster_n, high * wide
    else:
        bm, consumers, split, up, across, tiles = 128, 2, getattr(choice, "split", 1), 1, 1, _ceil(m, 128) * _ceil(n, choice.bn)
    ctas, k_blocks = up * across * split, _ceil(k, 64)
    dealt = isinstance(choice, StreamK) or (isinstance(choice, Final) and bool(choice.stream))
    beside = per_sm(choice) if tiles * ctas > SMS else 1
    at_once = beside * clusters_at_once(ctas)
    share = _ceil(k_blocks, split)
    rounds = tiles / min(at_once, tiles * k_blocks) if dealt else _ceil(tiles, at_once)
    wgmmas = bm // 64 * 4
    operands = wgmmas * (64 + choice.bn) * 32
    left, right = reversed(lines) if getattr(choice, "swapped", 0) else lines
    loaded = (bm / across * left + choice.bn / up * right) * 128
    everything = tiles * ctas * share
    return Work(blocks=rounds * share, products=wgmmas * choice.bn / 2, shared=operands + (bm + choice.bn) * 128, alone=int(consumers == 1), beside=beside, loaded=loaded,
                tiles=_ceil(tiles, at_once), starts=_ceil(tiles, at_once) if getattr(choice, "group", 1) == 0 else 1,
                staggered=int(getattr(choice, "stagger", 0) > 0), tile=bm * choice.bn, narrow=64 / getattr(choice, "width", 64) - 1, memory=2 * (m * k + n * k + m * n),
                operands=everything * operands, traffic=everything * loaded, cluster=int(ctas > 1), split=int(split > 1),
                exchanged=bm * choice.bn * 4 * (split - 1) / getattr(choice, "finishers", split),
                dealt=int(dealt), mailed=bm * choice.bn * 8 if dealt else 0)


@dataclass(frozen=True)
class Model:
    """What the estimate knows of an H200. Times in microseconds, cycles of an SM at `ghz`, energy in picojoules."""

    ghz: float = 1.7
    start: float = 4.26                                     # launch, barriers, first loads from memory, last store
    alone_cycles: float = 238                               # of a k-block more, where a single consumer waits for its own products
    slower: float = 0.205                                   # the tensor cores' cycles over the ideal ones
    shared_bytes_per_cycle: float = 132                     # of an SM's shared memory
    l2_bytes_per_cycle: float = 62.4                        # of an SM
    memory_bytes_per_us: float = 4030000.0
    store_elements_per_cycle: float = 5.19                  # of a tile, at its end
    narrow_share: float = 0.217                             # longer, where slots of C are half as wide
    hidden: float = 0.643                                   # part of a tile's end under the other consumer's products
    restart_us: float = 5.84                                # from one CTA's end to the next one's first products
    cluster_us: float = 0.695                               # more start with a cluster
    exchange_us: float = 0.579                              # of split-K: two cluster barriers
    exchange_bytes_per_cycle: float = 10.8
    mail_us: float = 1.43                                   # where k-blocks are dealt out: flag and barriers
    mail_bytes_per_cycle: float = 4.77                      # of sums, written and read
    split_lines: float = 1.58                               # L2 sectors of rows that begin inside a 128-byte line, over those that do not
    operand_pj: float = 0.0                                 # of a byte that wgmma reads
    l2_pj: float = 52.9                                     # of a byte from the L2
    watts: float = 560                                      # that the board may draw beside what it always draws
    sharpness: float = 4.68                                 # of "the longest of": a power mean
    block_sharpness: float = 8                              # the same, within a k-block

    def end_cycles(self, todo: Work) -> Any:
        """Of a tile's end, under which the tensor core does not work."""
        return todo.tile * (1 + self.narrow_share * todo.narrow) / self.store_elements_per_cycle

    def microseconds(self, todo: Work) -> Any:
        """Estimated time from a cold L2."""
        products = todo.products * self.slower * todo.beside + self.alone_cycles * todo.alone
        shared = todo.shared * todo.beside / self.shared_bytes_per_cycle
        load = todo.loaded * todo.beside / self.l2_bytes_per_cycle
        power = self.block_sharpness
        block = (products ** power + shared ** power + load ** power) ** (1 / power)
        ends = self.end_cycles(todo) * (1 + (todo.tiles - 1) * (1 - self.hidden * todo.staggered))
        busy = (todo.blocks / todo.beside * block + ends) / self.ghz / 1000
        memory = todo.memory / self.memory_bytes_per_us
        energy = (todo.operands * self.operand_pj + todo.traffic * self.l2_pj) / self.watts * 1e-6
        longest = (busy ** self.sharpness + memory ** self.sharpness + energy ** self.sharpness) ** (1 / self.sharpness)
        cycles = todo.exchanged / self.exchange_bytes_per_cycle + todo.mailed / self.mail_bytes_per_cycle
        begins = self.start + self.restart_us * (todo.starts - 1) + self.cluster_us * todo.cluster
        return begins + self.exchange_us * todo.split + self.mail_us * todo.dealt + longest + cycles / self.ghz / 1000


MODEL = Model()


def microseconds(choice: Choice, m: int, n: int, k: int, model: Model = MODEL, whole_lines: tuple[bool, bool] = (True, True)) -> float:
    """Estimated time of a product of m x n x k with a configuration. whole_lines: rows of A, and of B, begin at multiples of 128 bytes."""
    left, right = (1.0 if whole else model.split_lines for whole in whole_lines)
    return float(model.microseconds(work(choice, m, n, k, (left, right))))
