# SPDX-License-Identifier: Apache-2.0
"""Interleaved tensor maps: slices of 16 or 32 bytes a pixel, as an H200 loads and stores them, against loops in Python."""
import itertools

import hopperlab as hl
import numpy as np
import pytest
from hopperlab.hopper import tensormap
from hopperlab.hopper.tensormap import TensorMapFields
from hopperlab.runtime.arrays import address_of

pytestmark = pytest.mark.emulator_only       # the kernels get the emulator's own images of tensor maps
XOR = {"none": 0, "32B": 0x080, "64B": 0x180, "128B": 0x380}
KERNEL = r"""
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void kernel(const __grid_constant__ Map from, const __grid_constant__ Map to, uint4* out, int w, int h, int c, int n, int bytes) {
    extern __shared__ __align__(1024) uint4 tile[];
    __shared__ __align__(8) unsigned long long bar;
    unsigned s = (unsigned)__cvta_generic_to_shared(tile), b = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];"
                     :: "r"(s), "l"(&from), "r"(b), "r"(w), "r"(h), "r"(c), "r"(n) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p;\n W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n @!p bra W; }" :: "r"(b) : "memory");
    for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) out[i] = tile[i];
    if (threadIdx.x == 0 && w >= 0) {
        asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                     :: "l"(&to), "r"(s), "r"(w), "r"(h), "r"(c), "r"(n) : "memory");
        asm volatile("cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::: "memory");
    }
}"""


def image(array, pixel, box, steps, interleave, swizzle):
    """A map of an (N, slices, H, W, elements of a pixel) array; box and steps as (W, H, slices, N)."""
    n, slices, h, w, per = array.shape
    fields = TensorMapFields(array.dtype.name, 4, address_of(array), (w, h, slices, n), array.strides[2::-1], box, steps, interleave, swizzle)
    tensormap.check(fields)
    return np.frombuffer(tensormap.pack(fields), np.dtype("V128"))[0]


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
@pytest.mark.parametrize("interleave, swizzle", [("16B", "none"), ("16B", "32B"), ("16B", "64B"), ("16B", "128B"), ("32B", "32B")])
@pytest.mark.parametrize("box, steps, at", [((8, 3, 2, 2), (1, 1, 1, 1), (0, 0, 0, 0)), ((8, 3, 1, 2), (1, 1, 1, 1), (-2, 4, 1, 0)),
                                            ((24, 2, 1, 1), (1, 1, 1, 1), (3, 0, 3, 2)),
                                            ((8, 3, 1, 2), (4, 2, 1, 1), (1, 0, 0, 0)), ((8, 3, 1, 2), (8, 1, 1, 1), (1, 1, 2, 1))])
def test_pixels(dtype, interleave, swizzle, box, steps, at):
    pixel = int(interleave[:-1])
    shape = (3, 4, 6, 16, pixel // np.dtype(dtype).itemsize)
    array, target = np.arange(1, np.prod(shape) + 1).astype(dtype).reshape(shape), np.zeros(shape, dtype)
    counts = [-(-b // s) for b, s in zip(box, steps)]
    counts[2] = 1                                                       # one slice, whatever the box says
    nbytes = int(np.prod(counts)) * pixel
    maps = [image(a, pixel, box, steps, interleave, swizzle) for a in (array, target)]
    out = np.zeros(nbytes, np.uint8)
    hl.RawModule(code=KERNEL, backend="emulator").get_function("kernel")((1,), (32,), (*maps, out, *map(np.int32, (*at, nbytes))), shared_mem=8192)
    tile, copy = np.zeros(nbytes, np.uint8), np.zeros(shape, dtype)
    for place, (n, c, h, w) in enumerate(itertools.product(*(range(k) for k in counts[::-1]))):
        w, h, c, n = (a + i * s for a, i, s in zip(at, (w, h, c, n), steps))
        if 0 <= w < 16 and 0 <= h < 6 and c < 4 and n < 3:
            tile[place * pixel:(place + 1) * pixel] = array[n, c, h, w].view(np.uint8)
            copy[n, c, h, w] = array[n, c, h, w]
    byte = np.arange(nbytes)
    assert (out[byte ^ (byte & XOR[swizzle]) >> 3] == tile).all()
    assert at[0] < 0 or (target == copy).all()


COLUMN = r"""
struct __align__(64) Map { char bytes[128]; };
extern "C" __global__ void kernel(const __grid_constant__ Map map, uint4* out, int w, int h, int slice, int n, int ow, int oh, int bytes) {
    extern __shared__ __align__(1024) uint4 tile[];
    __shared__ __align__(8) unsigned long long bar;
    unsigned s = (unsigned)__cvta_generic_to_shared(tile), b = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(b), "r"(bytes) : "memory");
        unsigned short o0 = ow, o1 = oh;
        asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2], {%7, %8};"
                     :: "r"(s), "l"(&map), "r"(b), "r"(w), "r"(h), "r"(slice), "r"(n), "h"(o0), "h"(o1) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p;\n W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0;\n @!p bra W; }" :: "r"(b) : "memory");
    for (int i = threadIdx.x; i < bytes / 16; i += blockDim.x) out[i] = tile[i];
}"""
# Pixels of an (N 2, slices 3, H 5, W 6) tensor by number, None where filled: what an H200 loaded.
MEASURED = [
    ("16B", (0, 0), (0, 0), (0, 0, 1, 0), (1, 0), [31, 32, 33, 34, 35, None, 37, 38]),
    ("16B", (0, 0), (0, 0), (0, 1, 0, 0), (2, 1), [14, 15, 16, 17, None, None, 20, 21]),
    ("16B", (0, 0), (0, 0), (2, 1, 1, 1), (0, 1), [*range(134, 150), *[None] * 24]),
    ("16B", (0, 0), (0, 0), (0, 0, 0, 0), (0, 0), [*range(30), *range(90, 100)]),
    ("16B", (-1, -1), (-1, -1), (0, 0, 0, 0), (0, 0), [0, 1, 2, 3, 4, None, 6, 7, 8, 9, 10, None, 12, 13, 14, 15, 16, None, 18, 19, 20, 21, 22, *[None] * 7,
                                                       90, 91, 92, 93, 94, None, 96, 97, 98, 99]),
    ("16B", (0, 0), (-2, -2), (2, 1, 1, 1), (0, 1), [134, 135, 138, 139, 140, 141, *[None] * 34]),
    ("16B", (0, 0), (-2, -2), (1, 0, 0, 0), (0, 0), [1, 2, 3, 6, 7, 8, 9, 12]),
    ("32B", (0, 0), (-1, -1), (0, 0, 0, 0), (0, 0), [0, 1, 2, 3, 4, 6, 7, 8]),
    ("32B", (0, 0), (-1, -1), (1, 1, 1, 0), (1, 0), [38, 39, 40, 41, 43, 44, 45, 46]),
]


def column(interleave, lower, upper, at, offsets, pixels, channels=8):
    """The pixels that a column load of this tensor leaves in shared memory: (pixels, elements)."""
    pixel = int(interleave[:-1])
    array = np.arange(1, 180 * pixel // 2 + 1, dtype=np.uint16).reshape(2, 3, 5, 6, pixel // 2)
    fields = TensorMapFields("uint16", 4, address_of(array), (6, 5, 3, 2), array.strides[2::-1], (), (1,) * 4, interleave, "none" if interleave == "16B" else "32B",
                             pixel_box_lower_corner=lower, pixel_box_upper_corner=upper, channels_per_pixel=channels, pixels_per_column=pixels)
    tensormap.check(fields)
    image_of = np.frombuffer(tensormap.pack(fields), np.dtype("V128"))[0]
    out = np.zeros(pixels * pixel, np.uint8)
    hl.RawModule(code=COLUMN, backend="emulator").get_function("kernel")((1,), (32,), (image_of, out, *map(np.int32, (*at, *offsets, len(out)))), shared_mem=4096)
    granules = np.arange(len(out) // 16) * 16
    if interleave == "32B":
        granules ^= (granules & 0x80) >> 3
    return out.reshape(-1, 16)[granules // 16].reshape(pixels, pixel).view(np.uint16)


@pytest.mark.parametrize("interleave, lower, upper, at, offsets, pixels", MEASURED)
def test_columns(interleave, lower, upper, at, offsets, pixels):
    got, per = column(interleave, lower, upper, at, offsets, len(pixels)), int(interleave[:-1]) // 2
    expected = np.array([np.zeros(per) if p is None else np.arange(p * per + 1, p * per + per + 1) for p in pixels])
    assert (got == expected).all()
    assert (column(interleave, lower, upper, at, offsets, len(pixels), 32) == expected).all()


def test_a_column_that_starts_below_its_box_is_a_fault():
    with pytest.raises(hl.MemoryFault, match="below the lower corner"):
        column("16B", (1, 0), (0, 0), (0, 0, 0, 0), (0, 0), 8)
