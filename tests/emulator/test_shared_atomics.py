# SPDX-License-Identifier: Apache-2.0
"""Atomics on shared memory: no race among themselves, but with plain accesses; and locks and flags built on them."""
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, run, run_ptx, told

COUNT = r"""
extern "C" __global__ void __launch_bounds__(128) k(int* out) {
    __shared__ int n, slots[128];
    int t = threadIdx.x;
    if (t == 0) n = 0;
    if (INIT) __syncthreads();
    slots[atomicAdd(&n, 1)] = t;
    if (READ) __syncthreads();
    if (t < 64) out[t] = n;
    __syncthreads();
    out[64 + t] = slots[t];
}"""


@pytest.mark.emulator_only
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("init, read", [(1, 1), (0, 1), (1, 0)])
def test_counting_needs_a_barrier_before_and_after(init, read, schedule):
    out = np.zeros(192, np.int32)
    session = run(COUNT, (out,), block=(128,), schedule=schedule, options=(f"-DINIT={init}", f"-DREAD={read}"))
    assert kinds(session) == ([] if init and read else ["race"]), told(session)
    if init and read:
        assert (out[:64] == 128).all() and sorted(out[64:].tolist()) == list(range(128))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fences", [0, 1])
def test_a_lock_in_shared_memory_orders_with_fences(fences, schedule):
    source = r"""
    extern "C" __global__ void __launch_bounds__(128) k(int* out) {
        __shared__ int lock, total;
        int t = threadIdx.x;
        if (t == 0) { lock = 0; total = 0; }
        __syncthreads();
        if (t % 32 == 0) {
            while (atomicCAS(&lock, 0, 1)) {}
            if (FENCES) __threadfence_block();
            total += t;
            if (FENCES) __threadfence_block();
            atomicExch(&lock, 0);
        }
        __syncthreads();
        out[t] = total;
    }"""
    out = np.zeros(128, np.int32)
    session = run(source, (out,), block=(128,), schedule=schedule, options=(f"-DFENCES={fences}",))
    assert (out == 192).all()
    assert kinds(session) == ([] if fences else ["race"]), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_atomics_wrote_needs_a_proxy_fence_too(schedule):
    source = r"""
    extern "C" __global__ void __launch_bounds__(64) k(int* out) {
        __shared__ __align__(128) int s[32];
        int t = threadIdx.x;
        if (t < 32) s[t] = 0;
        fence_proxy_async_shared_cta();
        __syncthreads();
        atomicAdd(&s[t % 32], t);
        if (FENCE) fence_proxy_async_shared_cta();
        __syncthreads();
        if (t == 0) { cp_async_bulk_store(out, s, 128); cp_async_bulk_commit_group(); cp_async_bulk_wait_group<0>(); }
    }"""
    for fence, found in ((1, []), (0, ["missing-proxy-fence"])):
        out = np.zeros(32, np.int32)
        session = run(source, (out,), block=(64,), schedule=schedule, options=(f"-DFENCE={fence}",))
        assert kinds(session) == found, told(session)
        assert (out == 2 * np.arange(32) + 32).all()


def test_every_operation():
    lines = []
    for k, (op, kind) in enumerate([("add", "u32"), ("min", "s32"), ("max", "u32"), ("and", "b32"), ("or", "b32"), ("xor", "b32"),
                                    ("inc", "u32"), ("dec", "u32"), ("exch", "b32")]):
        lines.append(f"mov.u32 %r10, {100 + k}; st.shared.u32 [%r1+{4 * k}], %r10; bar.sync 0;"
                     f" atom.shared.{op}.{kind} %r11, [%r1+{4 * k}], %r2; st.global.u32 [%rd1+{8 * k}], %r11; bar.sync 0;"
                     f" ld.shared.u32 %r12, [%r1+{4 * k}]; st.global.u32 [%rd1+{8 * k + 4}], %r12; bar.sync 0;")
    body = "ld.param.u64 %rd1, [k_param_0]; mov.u32 %r1, s; mov.u32 %r2, 103;\n" + "\n".join(lines)
    out = np.zeros(18, np.uint32)
    session = run_ptx(body, (out,), params=".param .u64 k_param_0", block=(1,), registers=".shared .align 4 .b8 s[64];")
    old, new = out[::2].tolist(), out[1::2].tolist()
    assert old == list(range(100, 109)) and not session.hazards, told(session)
    assert new == [203, 101, 103, 103 & 103, 104 | 103, 105 ^ 103, 0, 103, 103]
