# SPDX-License-Identifier: Apache-2.0
"""The copy kernels of every kind on the GPU, against NumPy: random shapes, every rank, layout, operation and method."""
import ml_dtypes
import numpy as np
import pytest
from support.copies import COMBINE, convolution_matrix, operands_of

from hopperlab.measure.launches import copies

BOXES = {1: (64,), 2: (5, 32), 3: (2, 3, 16), 4: (2, 2, 3, 8), 5: (2, 1, 3, 2, 8)}


def poisoned(cupy, shape, dtype):
    return cupy.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, 0xA5, cupy.uint8).view(dtype).reshape(shape)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rank", BOXES)
def test_tensors_of_every_rank_and_swizzle(cupy, rank, seed):
    rng = np.random.default_rng(10 * rank + seed)
    shape = (*rng.integers(1, 9 if rank > 2 else 300, rank - 1), 4 * int(rng.integers(1, 60)))
    x = cupy.asarray(rng.standard_normal(shape).astype(np.float32))
    for swizzle, inner in (("none", 16), ("32B", 8), ("64B", 16), ("128B", 32), ("128B", 8)):
        y = poisoned(cupy, shape, np.float32)
        copies.tensor_copy(x, y, (*BOXES[rank][:-1], inner), swizzle, backend="gpu")()
        assert bool((x == y).all()), swizzle


@pytest.mark.parametrize(("interleave", "swizzle"), [("16B", "none"), ("16B", "32B"), ("16B", "64B"), ("16B", "128B"), ("32B", "32B")])
@pytest.mark.parametrize("spatial", [(37,), (5, 19), (3, 5, 10)], ids=str)
def test_interleaved_tensors(cupy, spatial, interleave, swizzle):
    x = np.random.default_rng(7).integers(0, 1 << 16, (3, 4, *spatial, int(interleave[:-1]) // 2)).astype(np.uint16)
    y = poisoned(cupy, x.shape, x.dtype)
    copies.interleaved_copy(cupy.asarray(x), y, (2, 1, *[2] * (len(spatial) - 1), 8), interleave, swizzle, backend="gpu")()
    assert (y.get() == x).all()


@pytest.mark.parametrize("shape", [(32, 64), (1, 4), (333, 1000)], ids=str)
@pytest.mark.parametrize("op", copies.REDUCTIONS)
def test_tensor_reductions(cupy, op, shape):
    x, y = operands_of("u32", shape, len(op))
    target = cupy.asarray(y)
    copies.tma_reduce(cupy.asarray(x), target, op, backend="gpu")()
    assert (target.get() == COMBINE[op](y, x)).all()


@pytest.mark.parametrize(("op", "dtype", "name"), [("add", np.float32, None), ("add", np.float16, None), ("add", ml_dtypes.bfloat16, "bfloat16"),
                                                   ("min", np.float16, None), ("max", ml_dtypes.bfloat16, "bfloat16"), ("min", np.int64, None),
                                                   ("add", np.uint64, None), ("xor", np.uint64, None), ("max", np.int32, None)])
def test_tensor_reductions_of_other_types(cupy, op, dtype, name):
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-50, 50, (45, 96)).astype(dtype) for _ in range(2))
    bits = np.uint16 if name else dtype
    target = cupy.asarray(y.view(bits))
    copies.tma_reduce(cupy.asarray(x.view(bits)), target, op, dtype=name, backend="gpu")()
    assert (target.get().view(dtype) == COMBINE[op](y, x)).all()


@pytest.mark.parametrize("op_type", copies.GLOBAL_REDUCTIONS)
def test_bulk_reductions(cupy, op_type):
    op, kind = op_type.split(".")[0], op_type.split(".")[-1]
    x, y = operands_of(kind, (4096,), len(op_type))
    target = cupy.asarray(y.view(np.uint8))
    copies.bulk_reduce(cupy.asarray(x.view(np.uint8)), target, op_type, chunk=512, backend="gpu")()
    assert target.get().tobytes() == COMBINE[op](y, x).tobytes()


@pytest.mark.parametrize("op_type", copies.SHARED_REDUCTIONS)
def test_reductions_in_another_ctas_shared_memory(cupy, op_type):
    op, kind = op_type.split(".")
    values, _ = operands_of(kind, (20, 4, 64), len(op))
    if op in ("inc", "dec"):
        values[...] = 1 << 31
        values[:, 0] = 7
    expected = values[:, 0]
    for part in (1, 2, 3):
        expected = COMBINE[op](expected, values[:, part])
    out = cupy.zeros((20, 64), values.dtype)
    copies.dsmem_reduce(cupy.asarray(values), out, op_type, chunk=values[0, 0].nbytes, backend="gpu")()
    assert (out.get() == expected).all()


CONVOLUTIONS = [((2, 19, 16), (3,), 1, 1, 1), ((2, 7, 9, 24), (3, 3), 1, 1, 1), ((1, 9, 8, 16), (3, 2), 1, 2, 1), ((2, 30, 31, 64), (3, 3), 1, 1, 1),
                ((1, 9, 10, 8), (2, 3), 2, 1, 2), ((1, 4, 5, 6, 16), (2, 3, 3), 1, 1, 1), ((2, 3, 3, 8), (1, 1), 0, 1, 1)]


@pytest.mark.parametrize(("shape", "edges", "padding", "stride", "dilation"), CONVOLUTIONS, ids=str)
def test_im2col(cupy, shape, edges, padding, stride, dilation):
    image = np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float16)
    expected = convolution_matrix(image, edges, padding, stride, dilation)
    out = poisoned(cupy, expected.shape, image.dtype)
    copies.im2col_load(cupy.asarray(image), out, edges, padding, stride, dilation, pixels=16, channels=8, backend="gpu")()
    assert (out.get() == expected).all()


@pytest.mark.parametrize("multicast", [True, False])
@pytest.mark.parametrize("cluster", [2, 4, 8])
def test_multicast(cupy, cluster, multicast):
    x = cupy.random.default_rng(cluster).integers(0, 1 << 16, (500, 1096), dtype=cupy.uint16)
    y = poisoned(cupy, (cluster, *x.shape), np.uint16)
    copies.multicast_copy(x, y, (32, 64), cluster, multicast, backend="gpu")()
    assert bool((y == x).all())


@pytest.mark.parametrize("method", copies.METHODS)
@pytest.mark.parametrize("cluster", [2, 4])
def test_copies_through_a_neighbour(cupy, method, cluster):
    x = cupy.random.default_rng(cluster).integers(0, 256, cluster * 300 * 2048, dtype=cupy.uint8)
    y = poisoned(cupy, x.shape, np.uint8)
    for _ in range(5):
        y.fill(0)
        copies.dsmem_copy(x, y, method, cluster, 2048, backend="gpu")()
        assert bool((x == y).all())


@pytest.mark.parametrize("nbytes", [16, 4096, 10_000_000 - 32])
def test_reads_and_streams(cupy, nbytes):
    x = cupy.random.default_rng(nbytes).integers(0, 256, nbytes, dtype=cupy.uint8)
    out = cupy.zeros(300, cupy.uint32)
    copies.bulk_read(x, out, 4, 4096, 300, backend="gpu")()
    chunks = [x[at:at + 4096].get().view(np.uint32).sum(dtype=np.uint32) for at in range(0, nbytes, 4096)]
    assert out.get().tolist() == [int(chunks[block::300][-1]) if chunks[block::300] else 0 for block in range(300)]
    for hints in (0, 1, 2):
        y = poisoned(cupy, x.shape, np.uint8)
        copies.stream_copy(x, y, 256, 1 + hints, hints, backend="gpu")()
        assert bool((x == y).all())
