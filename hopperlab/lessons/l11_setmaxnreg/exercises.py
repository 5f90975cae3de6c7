# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 11: registers for the roles of a block as arithmetic, and a tile that does not fit without moving them."""
from __future__ import annotations

import numpy as np

from ...checking.carried import Carried, alone_ahead
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.concurrency import arrivals_by, loaded_by, loads_ahead, nobody_stops, nothing_else
from ...checking.written import changes_with, follows_from
from ...checking.requires import exactly, in_flight, no_local_memory, none_of, together

REGISTERS, SPARE = 65536, 30             # of an SM; of a consumer's thread beside its accumulators
CONSUMERS, ROW_BLOCKS, BN, STAGES = 2, 3, 128, 2      # of the kernel of 11.2
BM = CONSUMERS * ROW_BLOCKS * 64
OTHERS = 32, 64             # a producer's registers with which an answer to 11.2 is compiled, too


def registers(consumers: int, producer: int) -> tuple[int, int]:
    """(at entry, of a consumer) a thread of a block of 1 + `consumers` warpgroups that has an SM to itself, whose producer keeps `producer`.
    PTX ISA 9.7.19.5: multiples of 8 up to 256; the roles' sum is at most what came in."""
    groups = 1 + consumers
    entry = REGISTERS // (128 * groups) // 8 * 8
    return entry, min(256, (entry * groups - producer) // consumers // 8 * 8)


def split(consumers: int, rows: int, cols: int, producer: int) -> list[int] | None:
    """[at entry, producer's, a consumer's] for rows x cols accumulators a consumer; None where they do not fit."""
    entry, consumer = registers(consumers, producer)
    needed = rows * cols // 128 + SPARE
    if needed <= entry:
        return [entry, entry, entry]
    return [entry, producer, consumer] if needed <= consumer else None


def _budget(_rng: np.random.Generator, shape: tuple[int, int, int], PRODUCER: int) -> Case:
    return Case(split(*shape, PRODUCER), arguments=shape)


def _blocks(rng: np.random.Generator) -> tuple[int, int, int]:
    """Consumers, and rows and columns of each; mostly such as need setmaxnreg whatever the producer keeps."""
    while True:
        shape = (int(rng.integers(1, 6)), 64 * int(rng.integers(1, 5)), 8 * int(rng.integers(4, 33)))
        found = split(*shape, 56)
        if found is not None and found[1] < found[0] or rng.random() < 0.02:
            return shape


def _gemm(rng: np.random.Generator, shape: tuple[int, int, int], PRODUCER_REGISTERS: int) -> Case:
    """(m, n, k): tiles of 384 x 128, 192 accumulators per thread; small integers, so that every fp32 sum is exact."""
    from ml_dtypes import bfloat16

    import hopperlab as hl

    m, n, k = shape
    a, b = (rng.integers(-2, 3, (rows, k)).astype(bfloat16) for rows in (m, n))
    c, k_tiles = np.empty((m, n), bfloat16), -(-k // 64)
    grid = (-(-n // BN), -(-m // BM))
    blocks, stage_bytes = grid[0] * grid[1], (BM + BN) * 128
    entry, most = registers(CONSUMERS, PRODUCER_REGISTERS)

    def run(launch):
        maps = (hl.TensorMap.tiled(a, box=(64 * ROW_BLOCKS, 64), swizzle="128B"), hl.TensorMap.tiled(b, box=(BN, 64), swizzle="128B"))
        sizes = tuple(np.int32(size) for size in shape)
        launch("gemm", grid, (128 * (1 + CONSUMERS),), (*maps, c, *sizes), shared_mem=STAGES * stage_bytes + 64)

    expected = (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)
    return Case({"c": expected}, run, {"c": c}, written=(
        follows_from("CONSUMER_REGISTERS", "PRODUCER_REGISTERS"),
        changes_with("PRODUCER_REGISTERS", {n: registers(CONSUMERS, n)[1] for n in (PRODUCER_REGISTERS, *OTHERS)}, "setmaxnreg.inc", "the consumers take {} registers")),
        carried=(
        Carried("tma"), Carried("wgmma"), *(alone_ahead(range(4 * who, 4 * who + 4), {4 * (3 - who): ROW_BLOCKS * 4 * k_tiles}, ROW_BLOCKS * 4 * STAGES,
                                                        f"consumer warpgroup {who}") for who in (1, 2) if k_tiles > 1)), requires=(
        exactly("setmaxnreg_dec", 4 * blocks, "the four warps of the producer's warpgroup give registers back, once each"),
        exactly("setmaxnreg_inc", 4 * CONSUMERS * blocks, "the four warps of each consumer take registers, once each"),
        exactly("peak_registers", most, f"a consumer takes the largest legal count that {1 + CONSUMERS} x {entry} leave beside the "
                f"producer's {PRODUCER_REGISTERS}"),
        together(no_local_memory("what a consumer has summed up"),
                 exactly("wgmma", blocks * CONSUMERS * ROW_BLOCKS * 4 * k_tiles, "64 rows of a k-block take four k-steps")),
        exactly("tma_load_bytes", blocks * k_tiles * stage_bytes, "each k-block comes once, so that all sums must be held at the same time"),
        none_of("global_load_requests", "TMA reads A and B, no thread does"),
        exactly("mbarrier_arrivals", blocks * k_tiles * (1 + CONSUMERS), "a k-block takes one arrival by the producer and one by each consumer"),
        in_flight("cp", 3 * min(STAGES, k_tiles), f"a ring of {STAGES} stages keeps three boxes per stage on their way"),
        nothing_else("A and B come by tensor copies, and wgmma reads them where they landed"),
        loads_ahead(3, STAGES, "the producer waits for nothing else than the stage that it fills"),
        loaded_by(range(4), "the producer's warpgroup, number 0"),
        nobody_stops(),
        arrivals_by({number: range(4 * number, 4 * number + 4) for number in range(1, 1 + CONSUMERS)}, lambda _block: k_tiles, "warpgroup")))


def _sizes(rng: np.random.Generator) -> tuple[int, int, int]:
    """One tile; k a multiple of 8 (a row's bytes are a multiple of 16)."""
    return int(rng.integers(65, 385)), int(rng.integers(1, 129)), 8 * int(rng.integers(1, 18))


EXERCISES = (
    Exercise("11.1", "The budget", PYTHON, "budget", draw=_blocks, case=_budget, constants={"PRODUCER": (24, 32, 40, 56)},
             shapes=((2, 64, 256), (2, 192, 128), (1, 64, 256), (3, 64, 256), (4, 128, 72), (2, 256, 256), (1, 256, 128), (4, 64, 128), (5, 64, 104)),
             says=lambda shape: "{} consumers of {} x {}".format(*shape)),
    Exercise("11.2", "A tile that does not fit", CUDA, "gemm", shapes=((384, 128, 64), (1, 1, 8), (390, 65, 136)), draw=_sizes, case=_gemm,
             constants={"PRODUCER_REGISTERS": (24, 40, 56)}, seeds=1, says=lambda shape: "m, n, k = {}, {}, {}".format(*shape)),
)
