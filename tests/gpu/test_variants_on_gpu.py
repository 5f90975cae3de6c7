# SPDX-License-Identifier: Apache-2.0
"""The controls of the products on the GPU: against an exact product of integers, and a bound for real numbers; every operand of wgmma."""
import numpy as np
import pytest
from support.products import KINDS, as_stored, values

from hopperlab.measure.launches import variants
from hopperlab.measure.launches import micro
from hopperlab.measure.launches import operands

CASES = {"cp_async_mma": {}, "cp_async_wgmma": {}, "multistage": {}, "multistage 32": {"bk": 32, "stages": 8}, "multistage 128": {"bk": 128, "stages": 3},
         "cuda_pipeline": {}, "cuda_pipeline block": {"scope": "block"}, "producer_warp": {}, "producer_warp 4": {"warps": 4},
         "cp_async_mma after": {"options": ("-DCOPY_AFTER=1",)}, "cuda_pipeline after": {"options": ("-DCOPY_AFTER=1",)},
         "cuda_pipeline before": {"scope": "block", "options": ("-DCOPY_AFTER=0",)}, "cp_async_barriers": {},
         "cp_async_barriers before": {"stages": 6, "options": ("-DCOPY_AFTER=0", "-DBLOCKS_PER_SM=1")}, "producer_warp 6": {"stages": 6},
         "cp_async_wgmma 6": {"stages": 6, "options": ("-DBLOCKS_PER_SM=1",)}}


def product(cupy, make, a, b, **choices) -> np.ndarray:
    c = cupy.full((a.shape[0], b.shape[0]), 0x7FC0, cupy.uint16)
    launch = make(cupy.asarray(a), cupy.asarray(b), c, backend="gpu", **choices)
    launch()
    first = c.get()
    for _ in range(5):
        c.fill(0x7FC0)
        launch()
        assert (c.get() == first).all()
    return first


@pytest.mark.parametrize("shape", [(1, 1, 8), (129, 257, 72), (1000, 520, 1096), (2176, 1032, 4096)], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_integers_are_exact(cupy, case, shape):
    m, n, k = shape
    a, b = operands.integer_bf16(np, (m, k), m, 2), operands.integer_bf16(np, (n, k), n + 1, 2)
    out = product(cupy, variants.VARIANTS[case.split()[0]], a, b, **CASES[case])
    exact = cupy.asarray(operands.bf16_values(a)).astype(cupy.float64) @ cupy.asarray(operands.bf16_values(b)).T.astype(cupy.float64)
    assert (out == operands.bf16_bits(exact.get().astype(np.float32))).all()


@pytest.mark.parametrize("case", CASES)
def test_real_numbers_are_within_their_bound(cupy, case):
    rng = np.random.default_rng(len(case))
    m, n, k = int(rng.integers(1, 500)), int(rng.integers(1, 500)), 8 * int(rng.integers(1, 200))
    a, b = operands.normal_bf16(np, (m, k), m), operands.normal_bf16(np, (n, k), n)
    left, right = operands.bf16_values(a), operands.bf16_values(b)
    out = operands.bf16_values(product(cupy, variants.VARIANTS[case.split()[0]], a, b, **CASES[case]))
    assert (abs(out - left.astype(np.float64) @ right.astype(np.float64).T) <= operands.product_bound(left, right)).all()


OPERANDS = [(kind, source, "K", "K") for kind in variants.OPERANDS for source in ("SS", "RS")]
OPERANDS += [(kind, source, a, b) for kind in ("bf16", "f16") for source in ("SS", "RS") for a, b in (("MN", "K"), ("K", "MN"), ("MN", "MN"))]


@pytest.mark.parametrize("shape", [(136, 144, 304), (8, 200, 16), (1000, 520, 1040)], ids=str)
@pytest.mark.parametrize(("kind", "source", "a_major", "b_major"), OPERANDS)
def test_operands_are_exact(cupy, kind, source, a_major, b_major, shape):
    m, n, k = shape
    a, b = values(kind, (m, k), m), values(kind, (n, k), n + 1)
    c = cupy.full((m, n), -1, KINDS[kind].result)
    stored = [cupy.asarray(as_stored(kind, x, major)) for x, major in ((a, a_major), (b, b_major))]
    variants.wgmma_operands(*stored, c, kind, source, a_major, b_major, backend="gpu")()
    assert (c.get() == a.astype(np.float64) @ b.astype(np.float64).T).all()


@pytest.mark.parametrize("how", micro.EXCHANGES)
def test_every_message_is_answered(cupy, how):
    assert micro.exchange(how, backend="gpu").cycles()[-1] == 8 * 32


@pytest.mark.parametrize("space", micro.SPACES)
@pytest.mark.parametrize("write", [False, True])
def test_streams_read_what_lies_there(cupy, space, write):
    probe = micro.stream(space, write, blocks=8, backend="gpu")
    probe.cycles()
    block, thread = np.meshgrid(np.arange(8), np.arange(512), indexing="ij")
    seen = block ^ 1 if space == "dsmem" and not write else block
    vectors = [thread] * 256 if write else [(thread + 32 * i) % 512 for i in range(256)]
    assert (probe.more.get().reshape(8, 512) == sum(vector ^ seen ^ 1 ^ 2 for vector in vectors)).all()


@pytest.mark.parametrize(("cluster", "shared"), [(1, False), (2, True), (4, True), (8, True), (4, False)])
def test_multicast_brings_every_cta_the_same(cupy, cluster, shared):
    boxes, clusters = 131, 128 // cluster                   # every cluster has a box
    matrix = np.random.default_rng(2).integers(0, 1 << 16, (64 * boxes, 128)).astype(np.uint16)
    launch = micro.multicast(cupy.asarray(matrix), cluster, shared, 128, passes=3, backend="gpu")
    launch()
    words = matrix.reshape(boxes, -1).view(np.uint32).sum(1, dtype=np.uint32)
    last = [max(box for box in range(boxes) if box % clusters == i) for i in range(clusters)]
    assert (launch.args[1].get().reshape(clusters, cluster) == words[last][:, None]).all()


PROBES = {"barriers": lambda: [micro.barrier(kernel, 64, backend="gpu") for kernel in ("mbarrier_round_trip", "named_round_trip", "remote_round_trip")],
          "meetings": lambda: [micro.barrier(kernel, 1024, backend="gpu") for kernel in ("syncthreads", "mbarrier_meeting", "cluster_meeting")],
          "copies": lambda: [micro.copy(kernel, how, 32, 64, backend="gpu") for kernel in ("tma_latency", "tma_issue") for how in ("tensor", "bulk")],
          "cp.async": lambda: [micro.copy("tma_issue", "cp.async", 32, 64, backend="gpu")],
          "descriptors": lambda: [micro.descriptor(place, fetch, backend="gpu") for place in micro.PLACES for fetch in (False, True)],
          "chases": lambda: [micro.chase(space, backend="gpu") for space in micro.SPACES],
          "bulk": lambda: [micro.bulk_stream(8192, 4, 64, 2, 2, backend="gpu")],
          "wgmma": lambda: [micro.wgmma(n, kind, source, backend="gpu") for n in (8, 256) for kind in micro.INPUTS for source in ("SS", "RS")],
          "wgmma beside copies": lambda: [micro.wgmma_beside_copies(n, blocks=2, backend="gpu") for n in (32, 256)],
          "mma": lambda: [micro.mma(ilp, backend="gpu") for ilp in (1, 16)],
          "setmaxnreg": lambda: [micro.setmaxnreg(backend="gpu")],
          "clusters": lambda: [micro.cluster_launch(cluster, 264, backend="gpu") for cluster in (1, 2, 4, 8)]}


@pytest.mark.parametrize("name", PROBES)
def test_probes_give_plausible_cycles(cupy, name):
    """Every probe finishes and measures something: more than nothing, and no second of a gigahertz clock."""
    for probe in PROBES[name]():
        cycles = probe.cycles()
        assert (cycles[:-1] > 0).all() and (name == "clusters" or (cycles < 1e9).all())


@pytest.mark.parametrize("access", micro.ACCESSES)
@pytest.mark.parametrize("swizzle", micro.MASKS)
def test_reads_find_what_they_find_in_the_emulator(cupy, swizzle, access):
    """The sum of what was read: the same addresses hold the same words."""
    sums = []
    for place in ("gpu", "emulator"):
        probe = micro.reads(swizzle, access, rounds=1, samples=1, backend=place)
        probe.cycles()
        sums.append(probe.more.get() if place == "gpu" else np.asarray(probe.more))
    assert (sums[0] == sums[1]).all()


@pytest.mark.parametrize("turn", [False, True])
def test_a_map_that_was_used_just_now_is_quick(cupy, turn):
    """One map is kept from use to use; every copy lands, through however many maps."""
    few, many = (micro.map_cache(count, 3, 1, turn, backend="gpu").cycles() for count in (1, 3000))
    assert (few > 0).all() and (many > 0).all() and many.shape == (9000,)


@pytest.mark.parametrize("box", [(64, 64), (64, 16), (8, 256)], ids=str)
def test_a_barrier_that_was_told_all_opens_when_all_is_there(cupy, box):
    whole = 2 * box[0] * box[1]
    lines = micro.early_opening(*box, whole, 32, backend="gpu").cycles()[::2]
    assert (lines == whole // 128).all()


def test_a_barrier_that_was_told_more_never_opens(cupy):
    assert (micro.early_opening(64, 64, 8192 + 4096, 4, backend="gpu").cycles()[::2] == -1).all()
