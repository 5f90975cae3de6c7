# SPDX-License-Identifier: Apache-2.0
"""Every kernel of the course, run in the emulator on awkward shapes: right values under every schedule, and no hazard."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import launch as launches, operands

SCHEDULES = ("lazy", "eager", "random")
SHAPES = [(128, 128, 64), (129, 257, 72), (100, 131, 8), (1, 1, 8), (256, 384, 320)]


def poisoned_like(array: np.ndarray) -> np.ndarray:
    out = np.empty_like(array)
    out.view(np.uint8)[...] = 0xFF
    return out


def run_clean(launch, schedule: str = "lazy") -> None:
    with hl.emulate(schedule=schedule, seed=7, hazards="raise"):
        launch()


def check_product(make, m: int, n: int, k: int, schedule: str = "lazy", **choices) -> None:
    a, b = operands.integer_bf16(np, (m, k), seed=m + k), operands.integer_bf16(np, (n, k), seed=n + k + 1)
    c = np.full((m, n), 0x7FC0, np.uint16)
    run_clean(make(a, b, c, backend="emulator", **choices), schedule)
    exact = operands.bf16_values(a) @ operands.bf16_values(b).T
    assert (c == operands.bf16_bits(exact)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", launches.GEMMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_product_of_integers_is_exact(name, shape, schedule):
    check_product(launches.GEMMS[name], *shape, schedule)


@pytest.mark.parametrize("stages", [2, 3, 5])
@pytest.mark.parametrize("name", launches.GEMMS)
@pytest.mark.sampled(every=4)
def test_product_with_any_number_of_stages(name, stages):
    check_product(launches.GEMMS[name], 130, 120, 520, stages=stages)


@pytest.mark.parametrize("tile", [(64, 64), (64, 256), (256, 128), (128, 256), (64, 128)], ids=str)
@pytest.mark.sampled(every=3)
def test_multistage_with_any_tile(tile):
    check_product(launches.mma_multistage, 300, 270, 104, bm=tile[0], bn=tile[1])
    check_product(launches.mma_multistage, 300, 270, 104, bm=tile[0], bn=tile[1], options=("-DCACHE_ALL",))


@pytest.mark.emulator_only
@pytest.mark.parametrize("name", launches.GEMMS)
def test_product_of_real_numbers_is_within_its_bound(name):
    a, b = operands.normal_bf16(np, (200, 264), seed=31), operands.normal_bf16(np, (140, 264), seed=32)
    c = np.full((200, 140), 0x7FC0, np.uint16)
    run_clean(launches.GEMMS[name](a, b, c, backend="emulator"))
    left, right = operands.bf16_values(a), operands.bf16_values(b)
    error = abs(operands.bf16_values(c).astype(np.float64) - left.astype(np.float64) @ right.astype(np.float64).T)
    assert (error <= operands.product_bound(left, right)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("swizzle", "columns"), [("none", 64), ("32B", 16), ("64B", 32), ("128B", 64)])
@pytest.mark.parametrize("shape", [(64, 64), (100, 200), (257, 136)], ids=str)
def test_tma_copies(shape, swizzle, columns, schedule):
    x = np.random.default_rng(shape[0]).integers(0, 1 << 16, shape).astype(np.uint16)
    for make, choices in ((launches.tma_copy, {}), (launches.tma_copy_ring, {"blocks": 3}), (launches.tma_copy_ring, {"blocks": 3, "stages": 3})):
        y = poisoned_like(x)
        run_clean(make(x, y, (32, columns), swizzle, backend="emulator", **choices), schedule)
        assert (x == y).all()


@pytest.mark.parametrize("nbytes", [16, 4096, 3 * 4096 + 32, 100_000])
@pytest.mark.parametrize("make", [launches.bulk_copy, launches.cp_async_copy, launches.vector_copy])
def test_flat_copies(make, nbytes):
    x = np.random.default_rng(nbytes).integers(0, 256, nbytes).astype(np.uint8)
    y = poisoned_like(x)
    run_clean(make(x, y, backend="emulator", **({} if make is launches.vector_copy else {"blocks": 3})), "random")
    assert (x == y).all()


@pytest.mark.parametrize("shape", [(64, 32), (130, 68), (257, 100)], ids=str)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_tma_scale(shape, schedule):
    x = np.random.default_rng(5).standard_normal(shape).astype(np.float32)
    y = poisoned_like(x)
    run_clean(launches.tma_scale(x, y, 2.5, blocks=2, backend="emulator"), schedule)
    assert (y == x * np.float32(2.5)).all()


# Coordinate 0 is a multiple of 16 bytes, here of 8 elements: an H200 stops at anything else.
LANDINGS = [((1000,), (64,), (992,)), ((50, 64), (8, 32), (-3, 8)), ((9, 10, 32), (2, 4, 16), (8, -1, 24)),
            ((5, 6, 7, 16), (2, 2, 3, 8), (1, -1, 5, 8)), ((3, 4, 5, 6, 16), (2, 2, 2, 2, 16), (-1, 3, 0, 2, -8))]


def expected_box(x: np.ndarray, box, corner) -> np.ndarray:
    """What a load of the box at `corner` gives: zero outside."""
    out = np.zeros(box, x.dtype)
    inside = [(max(0, at), min(size, at + edge)) for at, edge, size in zip(corner, box, x.shape)]
    source = tuple(slice(first, last) for first, last in inside)
    target = tuple(slice(first - at, last - at) for (first, last), at in zip(inside, corner))
    out[target] = x[source]
    return out


@pytest.mark.parametrize(("shape", "box", "corner"), LANDINGS, ids=[f"rank {len(box)}" for _, box, _ in LANDINGS])
def test_boxes_of_every_rank_land(shape, box, corner):
    x = np.random.default_rng(len(box)).standard_normal(shape).astype(np.float16)
    out = np.zeros(2 * int(np.prod(box)), np.uint8)
    run_clean(launches.tma_landing(x, out, box, corner, out.size, backend="emulator"))
    assert (out.view(np.float16).reshape(box) == expected_box(x, box, corner)).all()


@pytest.mark.parametrize("how", ["tma", "cp_async"])
def test_box_loads_leave_a_receipt(how):
    x = np.random.default_rng(9).integers(0, 1 << 16, (64, 128)).astype(np.uint16)
    out = np.zeros(3, np.uint32)
    run_clean(launches.box_load(how, x, out, (8, 64), blocks=3, backend="emulator"))
    boxes = x.reshape(8, 8, 2, 64).swapaxes(1, 2).reshape(16, -1).view(np.uint32)
    last = [max(box for box in range(16) if box % 3 == block) for block in range(3)]
    assert (out == boxes[last].sum(1, dtype=np.uint64).astype(np.uint32)).all()


KEY = {1: {"missing-proxy-fence"}, 2: {"read-before-arrival"}, 3: set(), 4: {"overwrite-in-flight"}}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("number", KEY)
def test_lesson_00_kernels_are_wrong_as_the_key_says(number, schedule):
    x = np.random.default_rng(number).integers(-9, 10, 512 * 20).astype(np.float32)
    y = poisoned_like(x)
    with hl.emulate(schedule=schedule, seed=3, hazards="collect") as run:
        launches.fold(number, x, y, blocks=4, backend="emulator")()
    assert {hazard.kind for hazard in run.hazards} == KEY[number]
    if schedule == "eager" or number == 3:
        assert (y == operands.folded(x)).all()


BUGS = [("mma_multistage", "BUG_WAIT_TOO_SHALLOW", "read-before-arrival"), ("mma_multistage", "BUG_NO_BARRIER_AFTER_WAIT", "read-before-arrival"),
        ("warp_specialized", "BUG_NO_FULL_WAIT", "read-before-arrival"), ("warp_specialized", "BUG_WRONG_PARITY", "read-before-arrival"),
        ("warp_specialized", "BUG_EARLY_RELEASE", "overwrite-in-flight"), ("warp_specialized", "BUG_FORGOTTEN_EXPECT_TX", "deadlock"),
        ("warp_specialized", "BUG_WRONG_BYTES", "deadlock"), ("warp_specialized", "BUG_PRODUCER_PARITY", "deadlock"),
        ("tma_scale", "BUG_NO_PROXY_FENCE", "missing-proxy-fence"), ("tma_scale", "BUG_REUSE_BEFORE_READ", "overwrite-in-flight"),
        ("tma_scale", "BUG_NO_FULL_WAIT", "read-before-arrival"), ("tma_scale", "BUG_WRONG_PARITY", "read-before-arrival"),
        ("tma_scale", "BUG_FORGOTTEN_EXPECT_TX", "deadlock"), ("tma_copy", "BUG_NO_FULL_WAIT", "read-before-arrival"),
        ("tma_copy", "BUG_FORGOTTEN_EXPECT_TX", "deadlock"), ("tma_copy_ring", "BUG_REUSE_BEFORE_READ", "overwrite-in-flight")]


def launch_with(kernel: str, options: tuple[str, ...]):
    """A small problem for a kernel, with enough tiles that every slot of its ring is used twice."""
    if kernel in launches.GEMMS:
        a, b = (operands.integer_bf16(np, (256, 640), seed) for seed in (1, 2))
        return launches.GEMMS[kernel](a, b, np.zeros((256, 256), np.uint16), options=options, backend="emulator")
    x = np.random.default_rng(8).standard_normal((512, 128)).astype(np.float32)
    y = np.zeros_like(x)
    if kernel == "tma_scale":
        return launches.tma_scale(x, y, 2.5, 2, options, "emulator")
    if kernel == "tma_copy":
        return launches.tma_copy(x, y, (64, 32), "128B", options, "emulator")
    return launches.tma_copy_ring(x, y, (64, 32), "128B", 4, 2, options, "emulator")


@pytest.mark.parametrize("schedule", ["lazy", "eager"])
@pytest.mark.parametrize(("kernel", "bug", "kind"), BUGS)
@pytest.mark.sampled(every=9, ci=1)
def test_planted_bug_is_named(kernel, bug, kind, schedule):
    launch = launch_with(kernel, (f"-D{bug}=1",))
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        launch()
    found = {hazard.kind for hazard in run.hazards}
    if bug == "BUG_WRONG_PARITY" and schedule == "eager":       # a copy that lands at once ends the phase before anyone waits:
        assert found & {kind, "deadlock"}                       # then the wrong parity is that of a phase still to come
    else:
        assert kind in found
    run_clean(launch_with(kernel, ()), schedule)                # and its twin is clean
