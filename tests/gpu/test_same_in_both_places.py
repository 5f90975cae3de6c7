# SPDX-License-Identifier: Apache-2.0
"""The same kernels through the same names on the GPU and in the emulator: bit-equal where bytes are moved, within a bound
reasoned from dtype and k where numbers are added."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import launch as launches, operands

SHAPES = [(128, 128, 64), (129, 257, 72), (100, 131, 8), (1, 1, 8), (512, 384, 520)]


def in_both_places(cupy, make, inputs, outputs) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Launch make(*inputs, *outputs, backend=place) in each place on copies; the outputs of the GPU and of the emulator."""
    results = []
    for place in ("gpu", "emulator"):
        xp = cupy if place == "gpu" else np
        arrays = [xp.array(array) for array in (*inputs, *outputs)]
        make(*arrays, backend=place)()
        hl.synchronize(place)
        results.append([hl.asnumpy(array) for array in arrays[len(inputs):]])
    return results[0], results[1]


def poison(shape, dtype) -> np.ndarray:
    out = np.empty(shape, dtype)
    out.view(np.uint8)[...] = 0xFF
    return out


@pytest.mark.parametrize("name", launches.GEMMS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_integer_products_are_bit_equal(cupy, name, shape):
    m, n, k = shape
    a, b = operands.integer_bf16(np, (m, k), m + 1), operands.integer_bf16(np, (n, k), n + 2)
    (real,), (emulated,) = in_both_places(cupy, launches.GEMMS[name], (a, b), (poison((m, n), np.uint16),))
    assert (real == emulated).all()
    assert (real == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()


@pytest.mark.parametrize("name", launches.GEMMS)
@pytest.mark.parametrize("shape", [(200, 140, 264), (384, 256, 1024)], ids=str)
def test_real_products_agree_within_the_bound(cupy, name, shape):
    m, n, k = shape
    a, b = operands.normal_bf16(np, (m, k), m + 3), operands.normal_bf16(np, (n, k), n + 4)
    (real,), (emulated,) = in_both_places(cupy, launches.GEMMS[name], (a, b), (poison((m, n), np.uint16),))
    left, right = operands.bf16_values(a), operands.bf16_values(b)
    exact, bound = left.astype(np.float64) @ right.astype(np.float64).T, operands.product_bound(left, right)
    for result in (real, emulated):
        assert (abs(operands.bf16_values(result) - exact) <= bound).all()


@pytest.mark.parametrize("tile", [(64, 64), (128, 256), (256, 128), (64, 256)], ids=str)
@pytest.mark.parametrize("stages", [2, 3, 6])
def test_multistage_tiles_and_stages(cupy, tile, stages):
    a, b = operands.integer_bf16(np, (300, 264), 5), operands.integer_bf16(np, (270, 264), 6)

    def make(*arrays, backend):
        return launches.mma_multistage(*arrays, stages=stages, bm=tile[0], bn=tile[1], backend=backend)
    (real,), (emulated,) = in_both_places(cupy, make, (a, b), (poison((300, 270), np.uint16),))
    assert (real == emulated).all() and (real == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()


@pytest.mark.parametrize("name", ["tma_wgmma", "warp_specialized"])
@pytest.mark.parametrize("stages", [2, 3, 6])
def test_wgmma_stages(cupy, name, stages):
    a, b = operands.integer_bf16(np, (130, 776), 7), operands.integer_bf16(np, (140, 776), 8)

    def make(*arrays, backend):
        return launches.GEMMS[name](*arrays, stages=stages, backend=backend)
    (real,), (emulated,) = in_both_places(cupy, make, (a, b), (poison((130, 140), np.uint16),))
    assert (real == emulated).all() and (real == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()


@pytest.mark.parametrize(("swizzle", "columns"), [("none", 64), ("32B", 16), ("64B", 32), ("128B", 64)])
@pytest.mark.parametrize("shape", [(64, 64), (100, 200), (257, 136)], ids=str)
def test_tma_copies_are_bit_equal(cupy, shape, swizzle, columns):
    x = np.random.default_rng(shape[1]).integers(0, 1 << 16, shape).astype(np.uint16)
    for make, more in ((launches.tma_copy, {}), (launches.tma_copy_ring, {"blocks": 3, "stages": 3})):
        def launch(*arrays, backend, make=make, more=more):
            return make(*arrays, (32, columns), swizzle, backend=backend, **more)
        (real,), (emulated,) = in_both_places(cupy, launch, (x,), (poison(shape, np.uint16),))
        assert (real == x).all() and (emulated == x).all()


@pytest.mark.parametrize("make", [launches.bulk_copy, launches.cp_async_copy, launches.vector_copy])
@pytest.mark.parametrize("nbytes", [16, 3 * 4096 + 32, 200_000])
def test_flat_copies_are_bit_equal(cupy, make, nbytes):
    x = np.random.default_rng(nbytes).integers(0, 256, nbytes).astype(np.uint8)
    more = {} if make is launches.vector_copy else {"blocks": 3}
    (real,), (emulated,) = in_both_places(cupy, lambda *arrays, backend: make(*arrays, backend=backend, **more), (x,), (poison(nbytes, np.uint8),))
    assert (real == x).all() and (emulated == x).all()


@pytest.mark.parametrize("shape", [(64, 32), (257, 100)], ids=str)
def test_tma_scale_is_bit_equal(cupy, shape):
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)

    def make(*arrays, backend):
        return launches.tma_scale(*arrays, 1.7, blocks=2, backend=backend)
    (real,), (emulated,) = in_both_places(cupy, make, (x,), (poison(shape, np.float32),))
    assert (real.view(np.uint32) == emulated.view(np.uint32)).all() and (real == x * np.float32(1.7)).all()


def landing(shape, box, corner, dtype=np.float16, swizzle="none", pitch=None, loaded=None, **choices):
    """One case of test_landings: pitch is the row pitch in shared memory, loaded the elements that the barrier counts."""
    return shape, box, corner, dtype, swizzle, pitch, loaded, choices


LANDINGS = {
    "rank 1": landing((1000,), (64,), (992,)),
    "rank 2, negative row": landing((50, 64), (8, 32), (-3, 8)),
    "rank 2, far outside": landing((50, 64), (8, 32), (100, -64)),
    "rank 3": landing((9, 10, 32), (2, 4, 16), (8, -1, 24)),
    "rank 4": landing((5, 6, 7, 16), (2, 2, 3, 8), (1, -1, 5, 8)),
    "rank 5": landing((3, 4, 5, 6, 16), (2, 2, 2, 2, 16), (-1, 3, 0, 2, -8)),
    "32B": landing((64, 64), (32, 16), (3, 16), swizzle="32B"),
    "64B": landing((64, 64), (32, 32), (3, 16), swizzle="64B"),
    "128B": landing((64, 64), (32, 64), (40, 8), swizzle="128B"),
    "narrow box in 128B": landing((64, 64), (16, 16), (3, 16), swizzle="128B", pitch=128),
    "narrow box in 64B": landing((64, 64), (16, 16), (3, 16), swizzle="64B", pitch=64),
    "NaN fill": landing((20, 24), (8, 16), (16, 16), np.float32, oob_fill="nan"),
    "element strides": landing((64, 32), (16, 32), (4, 0), element_strides=(3, 1), loaded=6 * 32),
    "L2 promotion": landing((64, 64), (16, 64), (0, 0), l2_promotion="256B"),
    "bytes": landing((40, 96), (8, 48), (36, 64), np.uint8),
    "64-bit": landing((40, 96), (8, 6), (36, 92), np.float64),
}


@pytest.mark.parametrize("case", LANDINGS, ids=str)
def test_landings_are_bit_equal(cupy, case):
    shape, box, corner, dtype, swizzle, pitch, loaded, choices = LANDINGS[case]
    random = np.random.default_rng(len(case))
    x = random.integers(0, 256, shape).astype(dtype) if dtype == np.uint8 else random.standard_normal(shape).astype(dtype)
    itemsize = np.dtype(dtype).itemsize
    counted = (loaded if loaded is not None else int(np.prod(box))) * itemsize
    held = box[0] * pitch if pitch else int(np.prod(box)) * itemsize

    def make(*arrays, backend):
        return launches.tma_landing(*arrays, box, corner, counted, swizzle, backend=backend, **choices)
    (real,), (emulated,) = in_both_places(cupy, make, (x,), (np.zeros(held, np.uint8),))
    assert (real == emulated).all()
    assert (real != 0xEE).any()


@pytest.mark.parametrize("how", ["tma", "cp_async"])
@pytest.mark.parametrize("box", [(8, 64), (64, 64), (16, 128)], ids=str)
def test_box_receipts_are_equal(cupy, how, box):
    x = np.random.default_rng(9).integers(0, 1 << 16, (128, 256)).astype(np.uint16)

    def make(*arrays, backend):
        return launches.box_load(how, *arrays, box, blocks=3, backend=backend)
    (real,), (emulated,) = in_both_places(cupy, make, (x,), (np.zeros(3, np.uint32),))
    assert (real == emulated).all() and real.any()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_lesson_00_kernels_all_print_the_right_answer_here(cupy, number):
    """At the lesson's size, a block per SM: what is wrong with three of them does not show on the GPU."""
    x = np.random.default_rng(number).integers(-1000, 1001, 512 * 1000).astype(np.float32)
    y = cupy.full(x.size, cupy.nan, cupy.float32)
    launch = launches.fold(number, cupy.asarray(x), y, blocks=132, backend="gpu")
    for _ in range(20):
        y.fill(cupy.nan)
        launch()
        hl.synchronize("gpu")
        assert (y.get() == operands.folded(x)).all()
