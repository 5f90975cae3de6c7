# SPDX-License-Identifier: Apache-2.0
"""Exercises of lesson 12: what CTAs of a cluster owe each other, in numbers, and a product whose A tile is multicast."""
from __future__ import annotations

import math
from collections import Counter

import ml_dtypes
import numpy as np

import hopperlab as hl

from ...checking.carried import Carried, first_short
from ...checking.exercise import CUDA, PYTHON, Case, Exercise
from ...checking.concurrency import converged, loaded_by, loads_ahead, no_cluster_barrier, nothing_else
from ...checking.requires import Requirement, custom, exactly, in_flight, none_of

BM, ROW = 128, 128           # of the warm-up: rows of a tile of A, bytes of one row of any tile
TILE, DEPTH = 64, 64         # of the product: rows and columns of a CTA's tile, columns of k in a k-block
STAGE_BYTES = 2 * TILE * DEPTH * 2
SIDES = (1, 2, 4, 8)
MOST_CTAS = 16               # of a cluster of a size that not every GPU has


def _shares(_rng: np.random.Generator, shape: tuple[int, int], CONSUMERS: int, BN: int) -> Case:
    """By rank of a cluster of rows x cols: who gets its parts of A and B, its barriers' counts, and the bytes it asks for."""
    rows, cols = shape
    expected = []
    for rank in range(rows * cols):
        col, row = divmod(rank, rows)
        mask_a = sum(1 << (other * rows + row) for other in range(cols))
        mask_b = sum(1 << (col * rows + other) for other in range(rows))
        arrivals = CONSUMERS * (rows + cols - 1)
        expected.append([mask_a, mask_b, arrivals, (BM + BN) * ROW, (BM // cols + BN // rows) * ROW])
    return Case(expected, arguments=(rows, cols))


def _side_by_side(rng: np.random.Generator) -> tuple[int, int]:
    rows, cols = 1, 1
    while not MOST_CTAS // 2 <= rows * cols <= MOST_CTAS:
        rows, cols = (SIDES[int(i)] for i in rng.integers(len(SIDES), size=2))
    return rows, cols


def _evenly(amount: int) -> Requirement:
    """Every CTA must issue `amount` copies; the timeline shows a multicast once a destination."""
    def complaint(run) -> str:
        issued = Counter(event.block for event in run.timeline if event.what == "issue cp")
        wrong = next((f"CTA {block} issued {issued[block]} copies" for block in sorted(issued) if issued[block] != amount), "")
        return wrong and f"{wrong}, and should issue {amount}: each CTA loads one part of A for every CTA of its cluster (counted once a destination), and its tile of B"
    return custom(f"copies of each CTA: {amount}", complaint)


def _first_cta_slow(run, cluster: int, ahead: int, events: str, deed: str, warps: int = 1) -> str:
    """What is missing where a CTA of a cluster did less than `ahead` of a deed before the cluster's first CTA, which is slow, did its first. warps: one of so
    many counts."""
    short = first_short((event for event in run.timeline if event.what == events and event.warp % warps == 0), lambda event: event.block,
                        lambda event: () if event.block % cluster else (event.block,),
                        lambda event: dict.fromkeys(range(event.block + 1, event.block + cluster), ahead))
    if short is None:
        return ""
    other, done, _ = short
    return f"CTA {other} had issued {done} {deed} when CTA {other - other % cluster} issued its first, and it should be {ahead}"


def _others_ahead(cluster: int, ahead: int) -> Carried:
    """In a run in which the consumers of each cluster's first CTA are slow, the others of their cluster must have issued `ahead` wgmma before these issue their first."""
    return Carried("slow warps", warps=range(4), blocks=lambda block: block[0] % cluster == 0,
                   judged=lambda run: _first_cta_slow(run, cluster, ahead, "issue wgmma", "wgmma", warps=4), says=(
        "the consumers of the first CTA of each cluster went on only when nobody else could, and those of another one waited for them. A consumer waits on `full` of its "
        "own CTA alone and hands back the slot by an arrival. Who waits for the whole cluster is the producer that fills a slot again"))


def _producers_ahead(cluster: int, ahead: int) -> Carried:
    """In a run in which the producer of each cluster's first CTA is slow, those of the others must have issued `ahead` copies before it issues its first."""
    return Carried("slow warps", warps=(4,), blocks=lambda block: block[0] % cluster == 0,
                   judged=lambda run: _first_cta_slow(run, cluster, ahead, "issue cp", "copies"), says=(
        "the producer of the first CTA of each cluster went on only when nobody else could, and that of another one waited for it. A producer waits for the slot that it "
        "fills, on `empty` of its own CTA, and for nothing else"))


def _multicast(rng: np.random.Generator, shape: tuple[int, int, int], CLUSTER: int, STAGES: int) -> Case:
    """(m, n, k): C = A * B^T; each CTA of a cluster along n loads 1 / CLUSTER of the A tile for all of them."""
    m, n, k = shape
    a, b = (rng.integers(-3, 4, (rows, k)).astype(ml_dtypes.bfloat16) for rows in (m, n))
    c = np.empty((m, n), ml_dtypes.bfloat16)
    clusters = math.ceil(n / (TILE * CLUSTER))
    blocks, k_blocks = CLUSTER * clusters * math.ceil(m / TILE), math.ceil(k / DEPTH)
    steps = blocks * k_blocks
    deepest = min(STAGES, k_blocks)

    def run(launch):
        maps = (hl.TensorMap.tiled(a, box=(TILE // CLUSTER, DEPTH), swizzle="128B"), hl.TensorMap.tiled(b, box=(TILE, DEPTH), swizzle="128B"))
        launch("product", (CLUSTER * clusters, math.ceil(m / TILE)), (160,), (*maps, c, np.int32(m), np.int32(n), np.int32(k)),
               shared_mem=STAGES * (STAGE_BYTES + 16))

    exact = a.astype(np.float32) @ b.astype(np.float32).T
    return Case({"c": exact.astype(ml_dtypes.bfloat16)}, run, {"c": c}, carried=(
        Carried("tma"), Carried("wgmma"), *((_others_ahead(CLUSTER, 4 * min(STAGES, k_blocks)), _producers_ahead(
            CLUSTER, (CLUSTER + 1) * min(STAGES, k_blocks))) if k_blocks > 1 else ())), requires=(
        exactly("tma_loads", 2 * steps, "for each k-block a CTA issues two loads, its part of A for the whole cluster and its own tile of B"),
        exactly("tma_load_bytes", steps * STAGE_BYTES, "a whole tile of A and one of B arrive in every CTA"),
        none_of("global_load_requests", "TMA reads A and B, no thread does"),
        exactly("wgmma", 4 * steps, "a k-block of 64 columns is four wgmma"),
        exactly("mbarrier_arrivals", steps * (1 + CLUSTER), "for each k-block and CTA one arrival of its producer, and one on `empty` from every CTA of the cluster"),
        _evenly((CLUSTER + 1) * k_blocks),
        in_flight("cp", deepest * (CLUSTER + 1), f"{deepest} slots are on their way at once, each with a part of A to {CLUSTER} CTAs and a tile of B"),
        nothing_else("A and B come by tensor copies, A's parts by multicast, and wgmma reads them where they landed"),
        loads_ahead(CLUSTER + 1, STAGES, "the producer waits for nothing else than the slot that it fills"),
        loaded_by(range(4, 5), "the producer's warp, the last one"),
        no_cluster_barrier(),
        converged(("barrier.cluster",), "the producer's thread was alone in its loop, so put a __syncwarp() before the last cluster barrier")))


EXERCISES = (
    Exercise("12.1", "Who owes what to whom?", PYTHON, "shares", shapes=((1, 1), (2, 1), (1, 2), (2, 2), (4, 2)), draw=_side_by_side, case=_shares,
             constants={"CONSUMERS": (2, 1, 3), "BN": (256, 128, 64)}, says=lambda shape: f"{shape[0]} x {shape[1]} CTAs"),
    Exercise("12.2", "Multicast the A tile", CUDA, "multicast", shapes=((50, 130, 328), (64, 128, 64), (1, 1, 8), (70, 99, 200)),
             draw=lambda rng: (int(rng.integers(1, 80)), int(rng.integers(1, 150)), 8 * int(rng.integers(33, 46))), case=_multicast,
             long=lambda rng: (int(rng.integers(1, 65)), int(rng.integers(1, 129)), 8 * int(rng.integers(110, 180))),
             constants={"CLUSTER": (2, 4), "STAGES": (3, 2, 4)}, says=lambda shape: "m, n, k = {}, {}, {}".format(*shape), seeds=2),
)
