# SPDX-License-Identifier: Apache-2.0
"""The copy kernels of every kind in the emulator: tensors, reductions, im2col, multicast, between CTAs; every schedule, no hazard."""
import ml_dtypes
import numpy as np
import pytest
from support.copies import COMBINE, convolution_matrix, operands_of, shape_of

import hopperlab as hl
from hopperlab.measure.launches import copies

SCHEDULES = ("lazy", "eager", "random")


def run_clean(launch, schedule: str = "lazy"):
    with hl.emulate(schedule=schedule, seed=5, hazards="raise") as session:
        launch()
    return session


def poisoned(shape, dtype) -> np.ndarray:
    out = np.empty(shape, dtype)
    out.view(np.uint8)[...] = 0xA5
    return out


BOXES = {1: (64,), 2: (5, 32), 3: (2, 3, 16), 4: (2, 2, 3, 8), 5: (2, 1, 3, 2, 8)}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rank", BOXES)
def test_tensors_of_every_rank(rank, schedule):
    x = np.random.default_rng(rank).standard_normal(shape_of(rank)).astype(np.float32)
    y = poisoned(x.shape, x.dtype)
    run_clean(copies.tensor_copy(x, y, BOXES[rank], backend="emulator"), schedule)
    assert (x == y).all()


@pytest.mark.parametrize(("swizzle", "inner"), [("32B", 8), ("64B", 16), ("128B", 32), ("128B", 8)])
@pytest.mark.parametrize("rank", [2, 3, 5])
def test_tensors_in_every_swizzle(rank, swizzle, inner):
    x = np.random.default_rng(rank).standard_normal(shape_of(rank)).astype(np.float32)
    y = poisoned(x.shape, x.dtype)
    run_clean(copies.tensor_copy(x, y, (*BOXES[rank][:-1], inner), swizzle, backend="emulator"), "random")
    assert (x == y).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("interleave", "swizzle"), [("16B", "none"), ("16B", "64B"), ("32B", "32B")])
@pytest.mark.parametrize("spatial", [(37,), (5, 19), (3, 5, 10)], ids=str)
def test_interleaved_tensors(spatial, interleave, swizzle, schedule):
    x = np.random.default_rng(7).integers(0, 1 << 16, (3, 4, *spatial, int(interleave[:-1]) // 2)).astype(np.uint16)
    y = poisoned(x.shape, x.dtype)
    box = (2, 1, *[2] * (len(spatial) - 1), 8)
    run_clean(copies.interleaved_copy(x, y, box, interleave, swizzle, backend="emulator"), schedule)
    assert (x == y).all()


def test_a_pixel_of_another_size_is_named():
    x = np.zeros((1, 1, 4, 4, 4), np.uint16)
    with pytest.raises(hl.TensorMapError, match="4 uint16 is not 16 bytes"):
        copies.interleaved_map(x, (1, 1, 1, 4))


@pytest.mark.parametrize("op", copies.REDUCTIONS)
@pytest.mark.parametrize("shape", [(32, 64), (45, 100), (1, 4)], ids=str)
def test_tensor_reductions(op, shape):
    x, y = operands_of("u32", shape, len(op))
    expected = COMBINE[op](y, x)
    run_clean(copies.tma_reduce(x, y, op, backend="emulator"), SCHEDULES[len(op) % 3])
    assert (y == expected).all()


@pytest.mark.parametrize(("op", "dtype"), [("add", np.float32), ("add", np.float16), ("add", ml_dtypes.bfloat16), ("min", np.float16),
                                           ("max", ml_dtypes.bfloat16), ("min", np.int64), ("add", np.uint64), ("xor", np.uint64)])
def test_tensor_reductions_of_other_types(op, dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-50, 50, (45, 96)).astype(dtype) for _ in range(2))
    expected = COMBINE[op](y, x)
    run_clean(copies.tma_reduce(x, y, op, backend="emulator"))
    assert (y == expected).all()


def test_a_reduction_that_tma_has_not_is_named():
    x = np.zeros((32, 64), np.uint32)
    with pytest.raises(ValueError, match="no reduction 'mul'"):
        copies.tma_reduce(x, x, "mul", backend="emulator")


@pytest.mark.parametrize("op_type", copies.GLOBAL_REDUCTIONS)
def test_bulk_reductions(op_type):
    op, kind = op_type.split(".")[0], op_type.split(".")[-1]
    x, y = operands_of(kind, (3 * 512,), len(op_type))
    x, y = x[:3 * 512 // x.itemsize], y[:3 * 512 // y.itemsize]
    expected = COMBINE[op](y, x)
    run_clean(copies.bulk_reduce(x, y, op_type, chunk=512, backend="emulator"))
    assert y.tobytes() == expected.tobytes()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("op_type", copies.SHARED_REDUCTIONS)
def test_reductions_in_another_ctas_shared_memory(op_type, schedule):
    op, kind = op_type.split(".")
    values, _ = operands_of(kind, (2, 4, 64), len(op))
    if op in ("inc", "dec"):
        values[...] = 1 << 31                               # so that no wrap depends on who comes first
        values[:, 0] = 7
    out = np.zeros((2, 64), values.dtype)
    expected = values[:, 0]
    for part in (1, 2, 3):
        expected = COMBINE[op](expected, values[:, part])
    run_clean(copies.dsmem_reduce(values, out, op_type, chunk=values[0, 0].nbytes, backend="emulator"), schedule)
    assert (out == expected).all()


CONVOLUTIONS = [((2, 19, 16), (3,), 1, 1, 1), ((2, 7, 9, 24), (3, 3), 1, 1, 1), ((1, 9, 8, 16), (3, 2), 1, 2, 1),
                ((1, 9, 10, 8), (2, 3), 2, 1, 2), ((1, 4, 5, 6, 16), (2, 3, 3), 1, 1, 1), ((2, 3, 3, 8), (1, 1), 0, 1, 1)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("shape", "edges", "padding", "stride", "dilation"), CONVOLUTIONS, ids=str)
def test_im2col(shape, edges, padding, stride, dilation, schedule):
    image = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float16)
    expected = convolution_matrix(image, edges, padding, stride, dilation)
    out = poisoned(expected.shape, image.dtype)
    run_clean(copies.im2col_load(image, out, edges, padding, stride, dilation, pixels=16, channels=8, backend="emulator"), schedule)
    assert (out == expected).all()


def test_im2col_of_a_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"out must be \(15, 9, 8\)"):
        copies.im2col_load(np.zeros((1, 3, 5, 8), np.float16), np.zeros((4, 9, 8), np.float16), (3, 3), 1, backend="emulator")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("cluster", "multicast"), [(2, True), (2, False), (4, True), (4, False)])
def test_multicast(cluster, multicast, schedule):
    x = np.random.default_rng(cluster).integers(0, 1 << 16, (50, 136)).astype(np.uint16)
    y = poisoned((cluster, *x.shape), x.dtype)
    session = run_clean(copies.multicast_copy(x, y, (32, 64), cluster, multicast, backend="emulator"), schedule)
    assert (y == x).all()
    boxes = 2 * 3 * cluster
    assert session.counters["tma_loads"] == (boxes if multicast else boxes * cluster)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("method", copies.METHODS)
@pytest.mark.parametrize("cluster", [2, 4])
def test_copies_through_a_neighbour(method, cluster, schedule):
    x = np.random.default_rng(cluster).integers(0, 256, cluster * 2 * 2048).astype(np.uint8)
    y = poisoned(x.shape, x.dtype)
    run_clean(copies.dsmem_copy(x, y, method, cluster, 2048, backend="emulator"), schedule)
    assert (x == y).all()


@pytest.mark.parametrize(("nbytes", "blocks"), [(16, 3), (4096, 2), (5 * 1024 + 48, 2), (40_000, 3)])
def test_reads_leave_a_receipt(nbytes, blocks):
    x = np.random.default_rng(nbytes).integers(0, 256, nbytes).astype(np.uint8)
    out = np.zeros(blocks, np.uint32)
    run_clean(copies.bulk_read(x, out, 3, 1024, blocks, backend="emulator"), "random")
    chunks = [x[at:at + 1024].view(np.uint32).sum(dtype=np.uint32) for at in range(0, nbytes, 1024)]
    assert out.tolist() == [int(chunks[block::blocks][-1]) if chunks[block::blocks] else 0 for block in range(blocks)]


@pytest.mark.parametrize("nbytes", [16, 4096, 100_000])
@pytest.mark.parametrize("hints", [0, 1, 2])
def test_stream_copies(nbytes, hints):
    x = np.random.default_rng(nbytes).integers(0, 256, nbytes).astype(np.uint8)
    y = poisoned(x.shape, x.dtype)
    run_clean(copies.stream_copy(x, y, 128, 1 + hints, hints, backend="emulator"), "random")
    assert (x == y).all()


FLOATS, WORDS = np.zeros((64, 64), np.float32), np.zeros(4096, np.uint32)
REFUSED = [
    (copies.tensor_copy, (FLOATS, np.zeros((64, 32), np.float32), (8, 32)), {}, "two arrays of one shape"),
    (copies.interleaved_copy, (np.zeros((1, 1, 4, 4, 8), np.uint16), np.zeros((1, 1, 4, 8, 8), np.uint16), (1, 1, 1, 4)), {}, "one shape"),
    (copies.tma_reduce, (FLOATS, FLOATS, "add", (3, 4)), {}, "box bytes is 48"),
    (copies.bulk_reduce, (WORDS, WORDS, "add.s64"), {}, "no reduction into global memory 'add.s64'"),
    (copies.bulk_reduce, (WORDS[:-8], WORDS[:-8]), {}, "4096 bytes at a time"),
    (copies.dsmem_reduce, (WORDS, WORDS, "add.f32"), {}, "no reduction into shared memory 'add.f32'"),
    (copies.dsmem_reduce, (WORDS, WORDS[:512]), {}, "whole chunks of 4096"),
    (copies.multicast_copy, (FLOATS, np.zeros((3, 64, 64), np.float32)), {"cluster": 3}, "clusters have 2, 4 or 8"),
    (copies.multicast_copy, (FLOATS, FLOATS), {}, r"must be \(2, 64, 64\)"),
    (copies.dsmem_copy, (WORDS, WORDS, "mail"), {}, "no method 'mail'"),
    (copies.dsmem_copy, (WORDS, WORDS), {"chunk": 1024}, "chunk is 1024"),
    (copies.bulk_read, (np.zeros(40, np.uint8), WORDS), {"blocks": 1}, "multiples of 16"),
    (copies.bulk_read, (WORDS, WORDS[:2]), {"blocks": 4}, "out.size is 2"),
    (copies.stream_copy, (np.zeros(40, np.uint8), np.zeros(40, np.uint8)), {}, "needs a multiple"),
]


@pytest.mark.parametrize(("make", "arguments", "choices", "message"), REFUSED, ids=[message for *_, message in REFUSED])
@pytest.mark.sampled(ci=1)
def test_what_a_kernel_would_misread_is_refused(make, arguments, choices, message):
    with pytest.raises(ValueError, match=message):
        make(*arguments, backend="emulator", **choices)
