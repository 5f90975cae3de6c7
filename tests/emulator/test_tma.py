# SPDX-License-Identifier: Apache-2.0
"""Tensor copies against a plain NumPy model of TMA, written here from the documents and from what an H200 did.

The model loops over the elements of a box: which tensor element each is, what lies outside, and at which byte of shared
memory it lands (rows at the swizzle's pitch, 16-byte pieces moved by the XOR of address bits).
"""
from itertools import product

import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest
from hopperlab.measure.launches import launch as launches
from support.emulated import SCHEDULES, kinds, lines_with, told

UNTOUCHED = 0xEE
SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128}
XOR = {"none": 0, "32B": 0x080, "64B": 0x180, "128B": 0x380}
TYPES = {"uint8": np.uint8, "uint16": np.uint16, "int32": np.int32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16,
         "float32": np.float32, "int64": np.int64, "float64": np.float64, "e4m3": ml_dtypes.float8_e4m3fn}


def swizzled(address, mode):
    return address ^ ((address & XOR[mode]) >> 3)


def landed(array, box, corner, mode, size, fill=b"\0\0", steps=None):
    """Bytes of shared memory after a load, from a start aligned to 1024: (uint8 image, bytes counted)."""
    item = array.itemsize
    image = np.full(size, UNTOUCHED, np.uint8)
    steps = steps or (1,) * array.ndim
    counts = [-(-b // s) for b, s in zip(box[:-1], steps[:-1])] + [box[-1]]
    row_bytes = counts[-1] * item
    pitch = row_bytes if mode == "none" else max(row_bytes, SPAN[mode])
    for row, place in enumerate(product(*(range(c) for c in counts[:-1]))):
        for i in range(counts[-1]):
            at = [c + p * s for c, p, s in zip(corner, place, steps)] + [corner[-1] + i]
            inside = all(0 <= a < n for a, n in zip(at, array.shape))
            raw = array[tuple(at)].tobytes() if inside else (fill * item)[:item]
            start = row * pitch + i * item
            for k, byte in enumerate(raw):
                image[swizzled(start + k, mode)] = byte
    return image, int(np.prod(counts)) * item


def numbers(shape, dtype, seed):
    """Array of random bytes whose last axis is padded so that rows start on 16 bytes (a view of a larger array)."""
    kind = np.dtype(dtype)
    columns = -(-shape[-1] * kind.itemsize // 16) * 16 // kind.itemsize
    raw = np.random.default_rng(seed).integers(0, 256, (*shape[:-1], columns * kind.itemsize)).astype(np.uint8)
    return raw.view(kind)[..., :shape[-1]]


def load(array, box, corner, mode, schedule="lazy", seed=0, steps=None, fill="zero", **more):
    pattern = b"\0\0" if fill == "zero" else (0x7FF7).to_bytes(2, "little")
    if array.itemsize == 1:
        pattern = b"\0"
    whole = 4096
    expected, counted = landed(array, box, corner, mode, whole, pattern, steps)
    out = np.zeros(whole, np.uint8)
    launch = launches.tma_landing(array, out, box, corner, counted, mode, backend="emulator", element_strides=steps, oob_fill=fill,
                                  **more)
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as session:
        launch()
    assert not session.hazards, told(session)
    return out, expected


CASES = [                 # array shape, box, corners
    ((100,), (32,), [(0,), (16,), (80,), (-16,), (112,)]),
    ((20, 40), (8, 16), [(0, 0), (3, 16), (15, 32), (-2, -16), (19, 0), (30, 0)]),
    ((5, 9, 24), (2, 3, 16), [(0, 0, 0), (-1, 7, 16), (4, 0, -16)]),
    ((3, 4, 5, 20), (2, 2, 2, 16), [(1, 2, 3, 0), (-1, 3, -1, 16)]),
    ((2, 3, 2, 4, 20), (2, 1, 2, 2, 16), [(0, 1, 0, 2, 0), (1, -1, 1, 3, 16), (-1, 2, -1, -1, -16)]),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("shape, box, corners", CASES, ids=[f"rank{len(c[0])}" for c in CASES])
def test_landing_in_every_rank(shape, box, corners, schedule):
    array = numbers(shape, np.float16, len(shape))
    for corner in corners:
        out, expected = load(array, box, corner, "none", schedule)
        assert (out == expected).all(), corner


@pytest.mark.parametrize("mode", ["32B", "64B", "128B"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.sampled(by="dtype")
def test_every_type_and_swizzle(dtype, mode):
    kind = np.dtype(TYPES[dtype])
    columns = SPAN[mode] // kind.itemsize
    array = numbers((21, columns + 3), kind, SPAN[mode])
    step = 16 // kind.itemsize
    for corner in ((0, 0), (-3, 0), (9, step), (18, -step)):
        out, expected = load(array, (16, columns), corner, mode)
        assert (out == expected).all(), corner


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mode, inner", [("128B", 16), ("128B", 32), ("128B", 64), ("128B", 80), ("64B", 16), ("64B", 32),
                                         ("64B", 48), ("32B", 16)])
def test_boxes_narrower_than_the_swizzle_leave_gaps(mode, inner, schedule):
    array = numbers((20, 128), np.uint8, inner)
    out, expected = load(array, (12, inner), (5, 16), mode, schedule)
    assert (out == expected).all()
    assert (out[:12 * SPAN[mode]] == UNTOUCHED).sum() >= 0 and (expected == UNTOUCHED).sum() >= 4096 - 12 * inner


def test_rows_start_where_an_h200_put_them():
    """Inner box of 32 bytes under 128B: rows at 128 r, then the XOR: 0, 144, 288, 432 … (measured)."""
    array = np.zeros((8, 32), np.uint8)
    array[:, 0] = np.arange(1, 9)
    out, _ = load(array, (8, 32), (0, 0), "128B")
    assert [int(np.flatnonzero(out == r + 1)[0]) for r in range(4)] == [0, 144, 288, 432]


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_nan_fill_is_7ff7_everywhere(kind):
    array = numbers((6, 16), kind, 9)
    inner = 32 // np.dtype(kind).itemsize
    out, expected = load(array, (8, inner), (-1, -16 // np.dtype(kind).itemsize), "none", fill="nan")
    assert (out == expected).all()
    assert (out[:32].view(np.uint16) == 0x7FF7).all()


def test_tfloat32_rounds_what_it_loads():
    array = np.random.default_rng(3).standard_normal((8, 8)).astype(np.float32)
    out = np.zeros(4096, np.uint8)
    launch = launches.tma_landing(array, out, (8, 8), (0, 0), 256, backend="emulator", dtype="tfloat32")
    with hl.emulate():
        launch()
    bits = out[:256].view(np.uint32)
    assert (bits & 0x1FFF == 0).all()
    assert np.abs(out[:256].view(np.float32).reshape(8, 8) - array).max() <= np.abs(array).max() * 2.0 ** -11


@pytest.mark.parametrize("steps", [(2, 1), (3, 1), (1, 1), (8, 1)])
def test_element_strides_load_every_nth_row(steps):
    array = numbers((40, 32), np.float16, 5)
    for mode in ("none", "64B"):
        out, expected = load(array, (16, 32), (3, 0), mode, steps=steps)
        assert (out == expected).all()
    out, expected = load(numbers((9, 10, 16), np.float32, 6), (4, 6, 8), (1, -2, 0), "32B", steps=(2, 3, 1))
    assert (out == expected).all()


def padded(shape, dtype, seed):
    """An array with padded rows, its padding, and a target of the same layout."""
    kind = np.dtype(dtype)
    columns = -(-shape[1] * kind.itemsize // 16) * 16 // kind.itemsize + 16 // kind.itemsize
    raw = np.random.default_rng(seed).integers(0, 256, (shape[0], columns * kind.itemsize)).astype(np.uint8)
    return raw.view(kind)[:, :shape[1]], np.full_like(raw, 0x5A).view(kind)


def pieces(columns, itemsize):
    """Columns that a store really writes: dimension 0 is clipped in pieces of 16 bytes (measured)."""
    return -(-columns * itemsize // 16) * 16 // itemsize


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mode", ["none", "32B", "64B", "128B"])
@pytest.mark.parametrize("dtype, shape", [("bfloat16", (70, 100)), ("uint8", (33, 129)), ("float32", (64, 32)), ("int64", (7, 5)),
                                          ("float16", (1, 1))])
def test_copy_there_and_back(dtype, shape, mode, schedule):
    item = np.dtype(TYPES[dtype]).itemsize
    box = (16, (SPAN[mode] if mode != "none" else 64) // item)
    source, whole = padded(shape, TYPES[dtype], shape[0])
    target = whole[:, :shape[1]]
    with hl.emulate(schedule=schedule, seed=7, hazards="collect") as session:
        launches.tma_copy(source, target, box, mode, backend="emulator")()
        assert not session.hazards, told(session)
    assert source.tobytes() == target.tobytes()
    rest = whole[:, pieces(shape[1], item):].tobytes()
    assert rest == b"\x5a" * len(rest)                                   # nothing past the last 16-byte piece


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("stages, blocks", [(2, 1), (3, 2), (4, 1), (5, 7)])
def test_ring_copies_and_reuses_its_slots(stages, blocks, schedule):
    source, target = numbers((130, 200), np.float16, stages), np.zeros((130, 200), np.float16)
    for mode, box in (("128B", (32, 64)), ("none", (16, 40))):
        target[:] = 0
        with hl.emulate(schedule=schedule, seed=stages, hazards="collect") as session:
            launches.tma_copy_ring(source, target, box, mode, stages, blocks, backend="emulator")()
        assert source.tobytes() == target.tobytes() and not session.hazards, told(session)


RING_BUGS = [("tma_copy", "BUG_NO_FULL_WAIT", "read-before-arrival", "cp_async_bulk_tensor_2d_store(", "cp_async_bulk_tensor_2d_load("),
             ("tma_copy_ring", "BUG_REUSE_BEFORE_READ", "overwrite-in-flight", "cp_async_bulk_tensor_2d_load(", "cp_async_bulk_tensor_2d_store(")]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kernel, bug, kind, early, other", RING_BUGS, ids=[b[1] for b in RING_BUGS])
def test_bugs_are_named(kernel, bug, kind, early, other, schedule):
    source, target = np.ones((256, 256), np.float16), np.zeros((256, 256), np.float16)
    more = {"blocks": 1} if kernel == "tma_copy_ring" else {}
    with hl.emulate(schedule=schedule, hazards="collect") as session:
        getattr(launches, kernel)(source, target, options=(f"-D{bug}=1",), backend="emulator", **more)()
    found = [h for h in session.hazards if h.kind == kind]
    path = "copy/tma_copy.cu"
    assert found and all(h.where.line in lines_with(early, path) and h.other.line in lines_with(other, path) for h in found), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("expected_bytes, found", [(512, []), (528, ["deadlock"]), (496, ["barrier-misuse"]), (0, ["read-before-arrival"])])
def test_bytes_that_the_barrier_expects(expected_bytes, found, schedule):
    """Too many: it never completes. Too few: the phase may flip before the last byte; a hazard whatever the timing."""
    array, out = numbers((16, 16), np.float16, 1), np.zeros(4096, np.uint8)
    launch = launches.tma_landing(array, out, (16, 16), (0, 0), expected_bytes, backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as session:
        launch()
    assert set(found) <= set(kinds(session)) and bool(found) == bool(session.hazards), told(session)


def test_bad_coordinates_and_maps_are_faults():
    array, out = numbers((16, 64), np.float16, 1), np.zeros(4096, np.uint8)
    with pytest.raises(hl.MemoryFault, match="16"):
        launches.tma_landing(array, out, (8, 16), (0, 3), 256, backend="emulator")()
    with pytest.raises(hl.MemoryFault, match="rank"):
        kernel = hl.load_kernel("copy/tma_copy.cu", "tma_landing", ("-DRANK=3",), backend="emulator")
        zeros = [np.int32(0)] * 5
        kernel((1,), (128,), (hl.TensorMap.tiled(array, box=(8, 16)), out, np.int32(4096), np.int32(256), *zeros), shared_mem=4096)
