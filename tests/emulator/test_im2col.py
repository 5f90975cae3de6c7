# SPDX-License-Identifier: Apache-2.0
"""im2col copies in 3, 4 and 5 dimensions: bounding boxes, offsets, traversal strides and edges, against a walk in Python."""
import itertools

import hopperlab as hl
import numpy as np
import pytest
from hopperlab import emulator
from hopperlab.hopper import tensormap
from hopperlab.hopper.tensormap import TensorMapFields
from hopperlab.runtime.arrays import address_of

pytestmark = pytest.mark.emulator_only       # the kernels get the emulator's own images of tensor maps

KERNEL = r"""
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void kernel(const __grid_constant__ Map map, float* out, int c, int w, int h, int d, int n, int ow, int oh, int od, int bytes) {
    extern __shared__ __align__(1024) float tile[];
    __shared__ __align__(8) unsigned long long bar;
    unsigned s = (unsigned)__cvta_generic_to_shared(tile), b = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
        unsigned short o0 = ow, o1 = oh, o2 = od;
#if RANK == 3
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2], {%6};"
                     :: "r"(s), "l"(&map), "r"(b), "r"(c), "r"(w), "r"(n), "h"(o0) : "memory");
#elif RANK == 4
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                     :: "r"(s), "l"(&map), "r"(b), "r"(c), "r"(w), "r"(h), "r"(n), "h"(o0), "h"(o1) : "memory");
#else
        asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6, %7}], [%2], {%8, %9, %10};"
                     :: "r"(s), "l"(&map), "r"(b), "r"(c), "r"(w), "r"(h), "r"(d), "r"(n), "h"(o0), "h"(o1), "h"(o2) : "memory");
#endif
    }
    __syncthreads();
    asm volatile("{ .reg .pred p;\n W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n @!p bra W; }" :: "r"(b) : "memory");
    for (int i = threadIdx.x; i < bytes / 4; i += blockDim.x) out[i] = tile[i];
}"""
STORE = r"""
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void kernel(const __grid_constant__ Map map, const float* in, int c, int w, int h, int n, int count) {
    extern __shared__ __align__(1024) float tile[];
    for (int i = threadIdx.x; i < count; i += blockDim.x) tile[i] = in[i];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned s = (unsigned)__cvta_generic_to_shared(tile);
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                     :: "l"(&map), "r"(s), "r"(c), "r"(w), "r"(h), "r"(n) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""


def image(array, lower, upper, channels, pixels, strides=None, swizzle="none"):
    """A map of an (N, [D, [H,]] W, C) array, its corners and strides in (W[, H[, D]]) order."""
    rank = array.ndim
    fields = TensorMapFields("float32", rank, address_of(array), array.shape[::-1], array.strides[-2::-1], (), strides or (1,) * rank,
                             swizzle=swizzle, pixel_box_lower_corner=lower, pixel_box_upper_corner=upper, channels_per_pixel=channels,
                             pixels_per_column=pixels)
    tensormap.check(fields)
    return np.frombuffer(tensormap.pack(fields), np.dtype("V128"))[0]


def column(array, lower, upper, channels, pixels, start, offsets, steps):
    """The rows an im2col load gives: pixels of the bounding box in order from `start`, each moved by `offsets`."""
    *spatial, _ = array.shape[1:]
    spatial = spatial[::-1]                                                   # W, H, D
    ranges = [range(lo, size + up, step) for lo, size, up, step in zip(lower, spatial, upper, steps)]
    order = [(n, *point[::-1]) for n in range(array.shape[0]) for point in itertools.product(*ranges[::-1])]
    first = order.index((start[-1], *start[1:-1]))
    out = np.zeros((pixels, channels), array.dtype)
    for row, (n, *point) in enumerate(order[first:first + pixels]):
        at = [p + o for p, o in zip(point, offsets)]
        if all(0 <= p < size for p, size in zip(at, spatial)):
            values = array[(n, *at[::-1])][start[0]:start[0] + channels]
            out[row, :len(values)] = values
    return out


CASES = [
    ((3, 10, 16), (0,), (0,), 8, 12, (0, 4, 1), (0,), (1,)), ((2, 9, 8), (-2,), (-2,), 8, 6, (0, 3, 0), (2,), (1,)),
    ((2, 7, 9, 12), (-1, -1), (-1, -1), 8, 20, (4, -1, -1, 0), (0, 0), (1, 1)), ((2, 7, 9, 12), (-1, -1), (-1, -1), 8, 40, (0, 2, 5, 0), (2, 1), (1, 1)),
    ((2, 8, 12, 4), (0, 0), (0, 0), 4, 16, (0, 4, 2, 0), (1, 1), (2, 2)), ((2, 5, 6, 7, 8), (-1, 0, -1), (0, -1, -1), 8, 33, (0, 4, 2, 1, 0), (1, 1, 1), (1, 1, 1)),
]


@pytest.mark.parametrize("shape, lower, upper, channels, pixels, start, offsets, steps", CASES)
def test_loads(shape, lower, upper, channels, pixels, start, offsets, steps):
    array = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    out = np.zeros((pixels, channels), np.float32)
    kernel = hl.RawModule(code=KERNEL, options=(f"-DRANK={len(shape)}",), backend="emulator").get_function("kernel")
    c, *where, n = start
    numbers = [c, *(list(where) + [0, 0])[:3], n, *(list(offsets) + [0, 0])[:3], out.nbytes]
    the_map = image(array, lower, upper, channels, pixels, (1, *steps, 1))
    kernel((1,), (32,), (the_map, out, *map(np.int32, numbers)), shared_mem=out.nbytes)
    assert (out == column(array, lower, upper, channels, pixels, start, offsets, steps)).all()


def test_an_offset_that_is_too_wide_is_a_fault():
    array, out = np.zeros((2, 7, 9, 12), np.float32), np.zeros((4, 8), np.float32)
    kernel = hl.RawModule(code=KERNEL, options=("-DRANK=4",), backend="emulator").get_function("kernel")
    with pytest.raises(emulator.MemoryFault, match="0 to 255"):
        kernel((1,), (32,), (image(array, (0, 0), (0, 0), 8, 4), out, *map(np.int32, (0, 0, 0, 0, 0, 300, 0, 0, 128))), shared_mem=128)


def test_a_tiled_map_is_not_an_im2col_map():
    array, out = np.zeros((4, 6, 8), np.float32), np.zeros((4, 8), np.float32)
    kernel = hl.RawModule(code=KERNEL, options=("-DRANK=3",), backend="emulator").get_function("kernel")
    with pytest.raises(emulator.MemoryFault, match="tiled mode"):
        kernel((1,), (32,), (hl.TensorMap.tiled(array, box=(1, 4, 8)), out, *map(np.int32, (0, 0, 0, 0, 0, 0, 0, 0, 128))), shared_mem=128)


def test_stores_walk_the_same_pixels():
    array, lower, upper = np.zeros((2, 6, 7, 8), np.float32), (0, 0), (-1, -2)
    values = np.arange(1, 161, dtype=np.float32).reshape(20, 8)
    kernel = hl.RawModule(code=STORE, backend="emulator").get_function("kernel")
    kernel((1,), (32,), (image(array, lower, upper, 8, 20), values, *map(np.int32, (0, 2, 1, 0, 160))), shared_mem=640)
    order = [(n, h, w) for n in range(2) for h in range(4) for w in range(6)]
    first = order.index((0, 1, 2))
    expected = np.zeros_like(array)
    for value, at in zip(values, order[first:first + 20]):
        expected[at] = value
    assert (array == expected).all()


def test_stores_clip_channels_in_pieces_of_16_bytes():
    """Ten channels in rows of twelve: an H200 writes all twelve."""
    storage = np.zeros((2, 6, 7, 12), np.float32)
    array, values = storage[..., :10], np.arange(1, 161, dtype=np.float32).reshape(20, 8)
    kernel = hl.RawModule(code=STORE, backend="emulator").get_function("kernel")
    kernel((1,), (32,), (image(array, (0, 0), (-1, -2), 8, 20), values, *map(np.int32, (8, 2, 1, 0, 160))), shared_mem=640)
    assert (storage[0, 1, 2:5, 8:] == values[:3, :4]).all() and not storage[0, 1, 2:5, :8].any()
