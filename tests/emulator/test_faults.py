# SPDX-License-Identifier: Apache-2.0
"""Bad accesses, bad instructions and kernels that stop themselves: each error names block, thread, line and numbers."""
import re
import weakref

import hopperlab as hl
import numpy as np
import pytest
from hopperlab.emulator.machine import memory
from support.emulated import lines_with, run, run_ptx


def fault(source, args, match, marker="// here", **launch):
    """The MemoryFault of a kernel; checks that it names the marked line."""
    with pytest.raises(hl.MemoryFault, match=match) as caught:
        run(source, args, **launch, hazards="raise")
    (line,) = lines_with(marker, source=source)
    assert caught.value.site.outermost.line == line and f":{line}" in str(caught.value), str(caught.value)
    return str(caught.value)


def test_a_read_past_the_array():
    source = r"""
    extern "C" __global__ void k(const float* x, float* y) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        y[i] = x[i + 1];    // here
    }"""
    x, y = np.zeros(128, np.float32), np.zeros(128, np.float32)
    text = fault(source, (x, y), "out-of-bounds", grid=(2,), block=(64,))
    assert "block (1, 0, 0), thread 63" in text and "0 bytes past the end of" in text and "float32, shape (128,)" in text


def test_a_write_before_the_array():
    source = r"""
    extern "C" __global__ void k(int* y) { y[(int)threadIdx.x - 1] = 1; }    // here"""
    text = fault(source, (np.zeros(32, np.int32),), "out-of-bounds")
    assert "thread 0" in text


def test_a_vector_that_straddles_the_end():
    source = r"""
    extern "C" __global__ void k(const float4* x, float4* y) { y[threadIdx.x] = x[threadIdx.x]; }    // here"""
    x, y = np.zeros(126, np.float32), np.zeros(128, np.float32)
    text = fault(source, (x, y), "out-of-bounds")
    assert "thread 31" in text and "8 bytes" in text


def test_views_share_their_base_but_not_more():
    """A kernel may run along the base of a view (it is one allocation), but not past it."""
    base = np.arange(64, dtype=np.int32)
    source = r"""
    extern "C" __global__ void k(const int* x, int* y, int n) { for (int i = 0; i < n; i++) y[i] = x[i]; }    // here"""
    y = np.zeros(64, np.int32)
    run(source, (base[16:32], y, np.int32(48)), block=(1,))
    assert (y[:48] == base[16:]).all()
    fault(source, (base[16:32], y, np.int32(49)), "out-of-bounds", block=(1,))


def test_misaligned_accesses():
    source = r"""
    extern "C" __global__ void k(const char* x, int* y) { y[threadIdx.x] = *(const int*)(x + 4 * threadIdx.x + 2); }    // here"""
    text = fault(source, (np.zeros(256, np.uint8), np.zeros(32, np.int32)), "misaligned")
    assert "not a multiple of 4" in text and "thread 0" in text
    source = r"""
    extern "C" __global__ void k(float4* y) {
        __shared__ __align__(16) float s[160];
        y[threadIdx.x] = *(float4*)(s + 4 * threadIdx.x + 1);    // here
    }"""
    text = fault(source, (np.zeros((32, 4), np.float32),), "misaligned")
    assert "not a multiple of 16" in text


@pytest.mark.parametrize("shift, kind", [(0, ""), (4, "misaligned"), (8, "out-of-bounds"), (4096, "out-of-bounds"), (-1024, "out-of-bounds")])
def test_a_barrier_outside_shared_memory_or_between_words(shift, kind):
    source = r"""
    #include <hopperlab/mbarrier.cuh>
    extern "C" __global__ void k(int shift) {
        extern __shared__ __align__(1024) unsigned char s[];
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(shared_address(s) + 1016 + shift) : "memory");    // here
    }"""
    launch = {"args": (np.int32(shift),), "shared_mem": 1024, "block": (1,)}
    if kind:
        assert "shared memory" in fault(source, match=kind, **launch)
    else:
        run(source, **launch)


def test_a_null_pointer():
    source = r"""
    extern "C" __global__ void k(int* y, long long offset) { *(y + threadIdx.x - offset) = 1; }    // here"""
    y = np.zeros(32, np.int32)
    from hopperlab.emulator.machine import memory
    address = memory.default().address_of(y)
    text = fault(source, (y, np.int64(address // 4)), "null pointer", block=(1,))
    assert "thread 0" in text


def test_shared_memory_ends():
    source = r"""
    extern "C" __global__ void k(int* y, int n) {
        extern __shared__ int s[];
        s[threadIdx.x + n] = 1;    // here
        y[threadIdx.x] = s[0];
    }"""
    y = np.zeros(32, np.int32)
    run(source, (y, np.int32(0)), shared_mem=128)
    text = fault(source, (y, np.int32(1)), "out-of-bounds", shared_mem=128)
    assert "128 bytes of shared memory" in text and "thread 31" in text


def test_local_arrays_end():
    source = r"""
    extern "C" __global__ void k(int* y, int n) {
        int a[8];
        for (int i = 0; i < 8; i++) a[i] = i;
        volatile int* p = a;
        y[threadIdx.x] = p[n + threadIdx.x];    // here
    }"""
    fault(source, (np.zeros(32, np.int32), np.int32(8)), "out-of-bounds")


def test_a_read_only_array():
    x = np.zeros(32, np.int32)
    x.flags.writeable = False
    source = r"""
    extern "C" __global__ void k(int* y) { y[threadIdx.x] = 1; }    // here"""
    fault(source, (x,), "read-only")


def test_atomics_are_checked_too():
    source = r"""
    extern "C" __global__ void k(int* y) { atomicAdd(y + threadIdx.x, 1); }    // here"""
    fault(source, (np.zeros(31, np.int32),), "out-of-bounds")


def test_ldmatrix_rows_are_checked():
    source = r"""
    extern "C" __global__ void k(unsigned* y, int offset) {
        __shared__ __align__(128) unsigned char s[512];
        unsigned r;
        s[threadIdx.x] = 0;
        __syncwarp();
        asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(shared_address(s) + offset + 16 * (threadIdx.x % 8)));    // here
        y[threadIdx.x] = r;
    }"""
    y = np.zeros(32, np.uint32)
    run(source, (y, np.int32(0)))
    fault(source, (y, np.int32(8)), "misaligned")
    fault(source, (y, np.int32(512)), "out-of-bounds")


def test_wgmma_descriptors_are_checked():
    source = r"""
    extern "C" __global__ void __launch_bounds__(128) k(float* y, unsigned address) {
        float d[32];
        wgmma_fence();
        wgmma_m64n64k16_bf16(d, wgmma_descriptor_128B(address), wgmma_descriptor_128B(address), 0);    // here
        wgmma_commit_group();
        wgmma_wait_group<0>();
        y[threadIdx.x] = d[0];
    }"""
    text = fault(source, (np.zeros(128, np.float32), np.uint32(0x400)), "past the end", block=(128,), shared_mem=4096)
    assert "descriptor" in text


def test_trap_and_assert_end_the_kernel():
    source = r"""
    extern "C" __global__ void k(int* y) {
        if (blockIdx.x == 1 && threadIdx.x == 7) __trap();    // here
        y[threadIdx.x] = 1;
    }"""
    with pytest.raises(hl.EmulatorError, match=r"trap at .*block \(1, 0, 0\), thread 7"):
        run(source, (np.zeros(32, np.int32),), grid=(3,))


UNKNOWN = [
    ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;", "tcgen05"),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3, %r4, %r5, %r6}], [%r1];",
     r"gather4.*sm_100.*sm_90a"),
    ("ld.global.v8.b32 {%r1,%r2,%r3,%r4,%r5,%r6,%r7,%r8}, [%rd1];", "v8"),
    ("fence.proxy.something;", "fence.proxy.something"),
    ("redux.sync.min.f32 %f1, %f2, 0xffffffff;", "sm_100"),
    ("wgmma.mma_async.sync.aligned.m64n12k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4,%f5,%f6}, %rd1, %rd2, 1, 1, 1, 0, 0;", "m64n12k16"),
    ("mbarrier.frobnicate.b64 [%r1];", "frobnicate"),
    ("add.frob.s32 %r1, %r2, %r3;", "frob"),
    ("setmaxnreg.inc.sync.aligned.u32 100;", "setmaxnreg 100"),
]


@pytest.mark.parametrize("line, says", UNKNOWN, ids=[u[0].split()[0].rstrip(";") for u in UNKNOWN])
def test_what_is_not_implemented_is_an_error_with_its_line(line, says):
    """Never a no-op: the error names the instruction and its line of PTX."""
    with pytest.raises(hl.EmulatorError, match=says) as caught:
        run_ptx(line + "\n", (), block=(128,))
    found = re.search(r"PTX line (\d+)", str(caught.value))
    assert found, str(caught.value)
    assert int(found.group(1)) == 13, str(caught.value)


def test_a_text_that_is_no_ptx():
    with pytest.raises(Exception, match="line"):
        run_ptx("add.s32 %r1 %r2 ;;; {", ())


def test_impossible_launches():
    source = 'extern "C" __global__ void __launch_bounds__(64) k(int* y) { extern __shared__ int s[]; s[0] = 1; y[0] = s[0]; }'
    y = np.zeros(1, np.int32)
    for launch in ({"block": (1025,)}, {"grid": (0,)}, {"shared_mem": 300_000}, {"block": (128,)}):
        with pytest.raises((hl.EmulatorError, ValueError, TypeError)):
            run(source, (y,), **launch)


def test_a_write_far_past_an_array_names_that_array():
    """Other arrays, and a variable of the module, lie between."""
    source = r"""
    __device__ int STAGES[4] = {1, 2, 3, 4};
    struct pointers { float* y; long n; };
    extern "C" __global__ void k(const float* x, pointers to, int step) {
        float* at = to.y + STAGES[0];
        at[(int)(threadIdx.x + 1) * step] = x[threadIdx.x];    // here
    }"""
    x, y, others = np.zeros(32, np.float32), np.zeros(64, np.float32), [np.zeros(5000, np.uint8) for _ in range(3)]
    kernel = hl.RawModule(code=source, backend="emulator").get_function("k")
    to = np.array([(y.__array_interface__["data"][0], 64)], dtype=[("y", "u8"), ("n", "i8")])
    to["y"] = hl.emulator.machine.memory.default().address_of(y)
    for other in others:
        hl.emulator.machine.memory.default().register(other)
    for step in (3000, 20000, -400):
        with pytest.raises(hl.MemoryFault) as caught, hl.emulate():
            kernel((1,), (32,), (x, to[0], np.int32(step)))
        far = (1 + step) * 4 - 256 if step > 0 else -4 * (1 + step)
        assert f"it lies {far} bytes {'past the end of' if step > 0 else 'before'} " in str(caught.value) and "shape (64,)" in str(caught.value), str(caught.value)


@pytest.mark.parametrize("schedule", ["lazy", "eager"])
def test_a_guarded_barrier_that_some_lanes_pass_by(schedule):
    """bar.sync under a guard that differs in a warp: the other lanes go on, and no error of ours comes of it."""
    body = """ld.param.u64 %rd1, [y]; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32;
    @%p1 barrier.sync 1, 32;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1;"""
    y = np.zeros(64, np.uint32)
    session = run_ptx(body, (y,), ".param .u64 y", block=(64,), schedule=schedule)
    assert (y == np.arange(64)).all() and not session.hazards
    body = body.replace("setp.lt.u32 %p1, %r1, 32;", "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;").replace("1, 32", "0")
    run_ptx(body, (y,), ".param .u64 y", block=(64,), schedule=schedule)
    assert (y == np.arange(64)).all()


LOCAL = r"""
struct odd { char c; short s; int i; double d; long long l; float4 v; };
extern "C" __global__ void k(double* y, const int* order, int n) {
    odd own[6]; unsigned char raw[64];
    for (int k = 0; k < n; k++) {
        int at = order[(threadIdx.x + k) % n];
        own[at].c = at; own[at].s = -at * 3; own[at].i = at * 1000003; own[at].d = at / 7.0; own[at].l = -at * 10000000019ll; own[at].v = make_float4(at, -at, at * 2, 0.5f * at);
        for (int b = 0; b < 8; b++) raw[(at * 8 + b) % 64] = at * 13 + b;
    }
    double total = 0;
    for (int k = 0; k < n; k++) {
        odd& o = own[order[(threadIdx.x * 5 + k) % n]];
        total += o.c + o.s * 2.0 + o.i + o.d + (double)o.l + o.v.x + 3.0 * o.v.y + o.v.z + o.v.w;
    }
    for (int b = 0; b < 8 * n; b++) total += (b + 1) * raw[b];
    y[threadIdx.x] = total;
}"""


@pytest.mark.parametrize("options", [("-G",), ()])
def test_local_memory_of_every_width(options):
    """A struct and bytes in local memory, at offsets that differ between lanes and at offsets that do not."""
    n, y, order = 6, np.zeros(96), np.array([3, 0, 5, 1, 4, 2], np.int32)
    run(LOCAL, (y, order, np.int32(n)), block=(96,), options=options)
    a = np.arange(n, dtype=np.float64)
    each = a - 6 * a + a * 1000003 + a / 7.0 - a * 10000000019 + (a - 3 * a + a * 2 + 0.5 * a)
    raw = ((np.arange(n)[:, None] * 13 + np.arange(8)) % 256).reshape(-1)
    assert np.allclose(y, each.sum() + ((np.arange(8 * n) + 1) * raw).sum(), rtol=1e-12)


def test_a_launch_that_has_ended_keeps_hold_of_no_array():
    """What the memory keeps of arrays ends with the launch, or with the next one."""
    world, x = memory.default(), np.zeros(64, np.float32)
    source = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] += 1; }'
    run(source, (x,))
    assert world.viewed == [] and len(world.stamped) == 1 and world.stamped[0].stamps is not None
    gone = weakref.ref(x)
    del x
    assert gone() is None and world.stamped == []
    world.forget()
    y = np.zeros(64, np.float32)
    run(source, (y,))
    world.forget()
    assert world.stamped == [] and world.register(y).stamps is None
