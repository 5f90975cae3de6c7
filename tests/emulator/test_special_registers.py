# SPDX-License-Identifier: Apache-2.0
"""Special registers, state spaces of generic addresses, cache hints, qualifiers of loads and stores, grid-wide barriers."""
import hopperlab as hl
import numpy as np
import pytest
from hopperlab import emulator
from hopperlab.emulator.ptx.ir import PtxSyntaxError
from support.emulated import run_ptx

OUT = ".param .u64 out"
STORE = "mov.u32 %r0, %tid.x;\n mul.wide.u32 %rd1, %r0, 4;\n ld.param.u64 %rd0, [out];\n add.u64 %rd2, %rd0, %rd1;\n st.global.u32 [%rd2], %r1;"


def value_of(register, block=(32,), grid=(1,), shared_mem=0, kind="u32"):
    """What each thread of the first block reads from a special register (its low 32 bits)."""
    out = np.zeros(block[0], np.uint32)
    move = f"mov.u32 %r1, {register};" if kind == "u32" else f"mov.u64 %rd3, {register};\n cvt.u32.u64 %r1, %rd3;"
    run_ptx(f"mov.u32 %r2, %ctaid.x;\n setp.ne.u32 %p0, %r2, 0;\n @%p0 ret;\n {move}\n {STORE}", (out,), OUT, block=block, grid=grid,
            shared_mem=shared_mem)
    return out


@pytest.mark.parametrize("register, expected", [
    ("%ntid.x", 64), ("%ntid.y", 1), ("%tid.y", 0), ("%tid.w", 0), ("%ntid.w", 0), ("%nctaid.x", 3), ("%nwarpid", 64), ("%nsmid", 132),
    ("%cluster_nctarank", 1), ("%cluster_ctarank", 0), ("%nclusterid.x", 3), ("%clusterid.x", 0), ("%dynamic_smem_size", 1000),
    ("%total_smem_size", 1024), ("%aggr_smem_size", 2024), ("%reserved_smem_offset_cap", 1024), ("WARP_SZ", 32)])
def test_constants_of_a_launch(register, expected):
    assert (value_of(register, (64,), (3,), 1000) == expected).all()


@pytest.mark.emulator_only
def test_places_of_lanes():
    lane, bits = np.arange(64) % 32, 1 << np.arange(32)
    assert (value_of("%laneid", (64,)) == lane).all() and (value_of("%warpid", (64,)) == np.arange(64) // 32).all()
    for name, chosen in (("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal), ("eq", np.equal)):
        assert (value_of(f"%lanemask_{name}", (64,)) == (chosen(np.arange(32)[None, :], lane[:, None]) * bits).sum(axis=1)).all()


def test_clocks_only_grow():
    source = r"""
    extern "C" __global__ void k(int* out) {
        long long a = clock64(), b; unsigned c, d; unsigned long long g, h;
        asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(c));
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(g));
        __nanosleep(100);
        b = clock64();
        asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(d));
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(h));
        out[threadIdx.x] = (b > a) + (d > c) + (h > g);
    }"""
    out = np.zeros(32, np.int32)
    hl.RawModule(code=source, backend="emulator").get_function("k")((1,), (32,), (out,))
    assert (out == 3).all()


def test_a_counter_register_is_refused():
    with pytest.raises(emulator.UnsupportedInstruction, match="%pm0"):
        value_of("%pm0")


def test_spaces_of_generic_addresses():
    source = r"""
    __constant__ int fixed[4] = {1, 2, 3, 4};
    __device__ int variable;
    struct Big { int x[8]; };
    __device__ int spaces(const void* p) {
        int c, g, s, l, m;
        asm("{ .reg .pred p; isspacep.const p, %1; selp.s32 %0, 1, 0, p; }" : "=r"(c) : "l"(p));
        asm("{ .reg .pred p; isspacep.param::entry p, %1; selp.s32 %0, 1, 0, p; }" : "=r"(m) : "l"(p));
        g = __isGlobal(p); s = __isShared(p); l = __isLocal(p);
        return g + 2 * s + 4 * l + 8 * c + 16 * m;
    }
    extern "C" __global__ void k(const __grid_constant__ Big big, int* out, int i) {
        __shared__ int shared[4];
        volatile int local[4];
        local[i] = 1;
        if (threadIdx.x == 0) {
            out[0] = spaces(out); out[1] = spaces(&variable); out[2] = spaces(&shared[i]); out[3] = spaces((const void*)&local[i]);
            out[4] = spaces(&fixed[i]); out[5] = spaces(&big.x[i]);
            *(int*)__cvta_shared_to_generic(__cvta_generic_to_shared(&shared[i])) = 5;
            int* l = (int*)__cvta_local_to_generic(__cvta_generic_to_local((void*)&local[i]));
            *l = 6;
            out[6] = shared[i] * 10 + local[i];
            out[7] = *(const int*)__cvta_constant_to_generic(__cvta_generic_to_constant(&fixed[i]));
            out[8] = *(const int*)__cvta_grid_constant_to_generic(__cvta_generic_to_grid_constant(&big.x[i]));
        }
    }"""
    out, big = np.zeros(9, np.int32), np.frombuffer(np.arange(100, 108, dtype=np.int32).tobytes(), np.dtype("V32"))[0]
    hl.RawModule(code=source, backend="emulator").get_function("k")((1,), (32,), (big, out, np.int32(2)))
    assert out[:4].tolist() == [1, 1, 2, 4] and out[4] & 8 and out[5] & 16 and out[6:].tolist() == [56, 3, 102]


def test_qualifiers_and_cache_hints():
    source = r"""
    extern "C" __global__ void k(const int* in, int* out) {
        int t = threadIdx.x, a, b, c, d, e, f;
        unsigned long long policy, other;
        asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        asm volatile("createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 %0, [%1], 64, 128;" : "=l"(other) : "l"(in));
        asm volatile("prefetch.global.L2 [%0];\n prefetch.global.L2::evict_last [%0];\n prefetchu.L1 [%0];\n prefetch.L1 [%0];" :: "l"(in));
        asm volatile("ld.global.nc.L1::no_allocate.L2::cache_hint.L2::128B.b32 %0, [%1], %2;" : "=r"(a) : "l"(in + t), "l"(policy));
        asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(b) : "l"(in + t));
        asm volatile("ld.acquire.sys.b32 %0, [%1];" : "=r"(c) : "l"(in + t));
        asm volatile("ld.volatile.global.b32 %0, [%1];" : "=r"(d) : "l"(in + t));
        asm volatile("ld.global.cs.b32 %0, [%1];" : "=r"(e) : "l"(in + t));
        asm volatile("ld.weak.global.L1::evict_last.L2::256B.b32 %0, [%1];" : "=r"(f) : "l"(in + t));
        asm volatile("st.release.gpu.global.b32 [%0], %1;" :: "l"(out + t), "r"(a + b) : "memory");
        asm volatile("st.global.L1::no_allocate.L2::cache_hint.b32 [%0], %1, %2;" :: "l"(out + 32 + t), "r"(c + d), "l"(other) : "memory");
        asm volatile("st.mmio.relaxed.sys.global.b32 [%0], %1;" :: "l"(out + 64 + t), "r"(e + f) : "memory");
        asm volatile("applypriority.global.L2::evict_normal [%0], 128;" :: "l"(in));
        asm volatile("griddepcontrol.wait;\n griddepcontrol.launch_dependents;\n pmevent 3;" ::: "memory");
    }"""
    x, out = np.arange(32, dtype=np.int32), np.zeros(96, np.int32)
    hl.RawModule(code=source, backend="emulator").get_function("k")((1,), (32,), (x, out))
    assert (out.reshape(3, 32) == 2 * x).all()


@pytest.mark.emulator_only
def test_discard_destroys_what_was_there():
    data = np.arange(64, dtype=np.uint32)
    run_ptx("ld.param.u64 %rd0, [out];\n discard.global.L2 [%rd0], 128;", (data,), OUT, block=(1,))
    assert (data[:32] == 0xCDCDCDCD).all() and (data[32:] == np.arange(32, 64)).all()


@pytest.mark.parametrize("instruction", ["prefetch.L3 [%rd0];", "discard.global.L2 [%rd0], 64;", "applypriority.global.L2::evict_last [%rd0], 128;", "pmevent 16;",
                                         "griddepcontrol.stop;", "isspacep.tex %p0, %rd0;", "createpolicy.fractional.L1::evict_first.b64 %rd0;"])
def test_hints_that_do_not_exist(instruction):
    with pytest.raises((emulator.UnsupportedInstruction, PtxSyntaxError)):
        run_ptx("ld.param.u64 %rd0, [out];\n" + instruction, (np.zeros(64, np.uint32),), OUT)


GRID = r"""
#include <cooperative_groups.h>
extern "C" __global__ void k(int* a, int* out) {
    auto grid = cooperative_groups::this_grid();
    for (int round = 0; round < 3; round++) {
        a[grid.thread_rank()] = round * 1000 + grid.thread_rank();
        grid.sync();
        out[round * grid.size() + grid.thread_rank()] = a[(grid.thread_rank() + 64) % grid.size()];
        grid.sync();
    }
}"""


@pytest.mark.emulator_only                       # a GPU asks for a cooperative launch
@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_grid_wide_barrier(schedule):
    a, out = np.zeros(320, np.int32), np.zeros((3, 320), np.int32)
    with hl.emulate(schedule=schedule):
        hl.RawModule(code=GRID, backend="emulator").get_function("k")((5,), (64,), (a, out))
    assert (out == np.arange(3)[:, None] * 1000 + (np.arange(320) + 64) % 320).all()


@pytest.mark.emulator_only
def test_a_grid_that_does_not_fit_has_no_barrier():
    with pytest.raises(hl.LaunchError, match="at once"):
        hl.RawModule(code=GRID, backend="emulator").get_function("k")((50000,), (64,), (np.zeros(1, np.int32), np.zeros(1, np.int32)))


def test_all_parts_of_a_vector_and_conversions_of_special_registers():
    body = """ld.param.u64 %rd1, [out]; mov.v4.u32 {%r0, %r1, %r2, %r3}, %tid; mov.v4.u16 {%h0, %h1, %h2, %h3}, %ntid; cvt.u64.u32 %rd2, %laneid; cvt.u16.u32 %h4, %tid.y;
    mad.lo.u32 %r4, %r1, 8, %r0; mul.wide.u32 %rd3, %r4, 8; add.u64 %rd1, %rd1, %rd3; mov.b64 %rd4, {%h0, %h1, %h2, %h4}; shl.b64 %rd2, %rd2, 32; add.u64 %rd4, %rd4, %rd2; st.global.u64 [%rd1], %rd4;"""
    out = np.zeros(32, np.uint64)
    run_ptx(body, (out,), ".param .u64 out", block=(8, 4))
    assert out.tolist() == [8 | 4 << 16 | (1 + lane) << 32 | (lane // 8) << 48 for lane in range(32)]
