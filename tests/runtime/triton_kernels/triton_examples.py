# SPDX-License-Identifier: Apache-2.0
"""Kernels of Triton and Gluon that tests/runtime/triton and docs/your-kernels.md compile and run: products, a softmax, copies by TMA."""
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@triton.jit
def product(a, b, c, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b^T: tensor descriptors of bf16 matrices; TMA and wgmma."""
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(k, BK)):
        total = tl.dot(a.load([tl.program_id(0) * BM, step * BK]), b.load([tl.program_id(1) * BN, step * BK]).T, total)
    c.store([tl.program_id(0) * BM, tl.program_id(1) * BN], total.to(tl.bfloat16))


@triton.jit
def product_by_pointers(a, b, c, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                        BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """c = a b with pointers and strides."""
    rows, columns = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        inner = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * stride_am + inner[None, :] * stride_ak, (rows[:, None] < m) & (inner[None, :] < k), 0.0)
        right = tl.load(b + inner[:, None] * stride_bk + columns[None, :] * stride_bn, (inner[:, None] < k) & (columns[None, :] < n), 0.0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * stride_cm + columns[None, :] * stride_cn, total.to(tl.float16), (rows[:, None] < m) & (columns[None, :] < n))


@triton.jit
def softmax(out, x, columns, BLOCK: tl.constexpr):
    """A row a program."""
    offsets = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + offsets, offsets < columns, -float("inf"))
    row = tl.exp(row - tl.max(row, 0))
    tl.store(out + tl.program_id(0) * columns + offsets, row / tl.sum(row, 0), offsets < columns)


@triton.jit
def odd_order(BLOCK: tl.constexpr, scale, out, n, TWICE: tl.constexpr, x, shift=0.0, stride=1):
    """Constexprs first and in the middle, defaults behind."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i * stride, i < n) * scale + shift
    if TWICE:
        value *= 2
    tl.store(out + i, value, i < n)


@triton.jit
def in_kernel_descriptor(x, y, m, n, BM: tl.constexpr, BN: tl.constexpr):
    """Tensor descriptors that the kernel makes itself, in global scratch memory."""
    source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [m, n], [n, 1], [BM, BN])
    target.store([tl.program_id(0) * BM, tl.program_id(1) * BN], source.load([tl.program_id(0) * BM, tl.program_id(1) * BN]) + 1)


@gluon.jit
def tma_copy(source, target, WAIT: gl.constexpr):
    """One tile through shared memory by TMA; without WAIT it is stored before it has arrived."""
    tile = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.expect(full, source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [0, 0], full, tile)
    if WAIT:
        mbarrier.wait(full, phase=0)
    mbarrier.invalidate(full)
    tma.async_copy_shared_to_global(target, [0, 0], tile)
    tma.store_wait(pendings=0)


@gluon.jit
def through_registers(source, target, FENCE: gl.constexpr, layout: gl.constexpr):
    """A tile by TMA into shared memory, doubled in registers, and back; without FENCE the TMA store may read what was there before."""
    tile = gl.allocate_shared_memory(source.dtype, source.block_type.shape, source.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.expect(full, source.block_type.nbytes)
    tma.async_copy_global_to_shared(source, [0, 0], full, tile)
    mbarrier.wait(full, phase=0)
    tile.store(tile.load(layout) * 2)
    if FENCE:
        fence_async_shared()
    tma.async_copy_shared_to_global(target, [0, 0], tile)
    tma.store_wait(pendings=0)


@triton.jit
def product_with_roles(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ROLES: tl.constexpr):
    """c = a b^T; ROLES asks the compiler to split the loop among warps."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for step in tl.range(tl.cdiv(k, BK), warp_specialize=ROLES):
        total = tl.dot(a.load([row, step * BK]), b.load([column, step * BK]).T, total)
    rows, columns = row + tl.arange(0, BM)[:, None], column + tl.arange(0, BN)[None, :]
    tl.store(c + rows * n + columns, total.to(tl.bfloat16), mask=(rows < m) & (columns < n))
