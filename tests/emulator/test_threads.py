# SPDX-License-Identifier: Apache-2.0
"""Threads, divergence, reconvergence, warp instructions, barriers and atomics, against plain NumPy."""
import hopperlab as hl
import numpy as np
import pytest

SCHEDULES = ("lazy", "eager", "random")


def run(source, name, grid, block, args, schedule="lazy", seed=0, shared_mem=0, hazards="raise"):
    """Compile and launch in the emulator; returns the session."""
    kernel = hl.RawModule(code=source, backend="emulator").get_function(name)
    with hl.emulate(schedule=schedule, seed=seed, hazards=hazards) as session:
        kernel(grid, block, args, shared_mem=shared_mem)
    return session


def test_nested_divergence_and_loops_of_different_length():
    source = r"""
    extern "C" __global__ void collatz(const int* start, int* steps, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        long long x = start[i];
        int count = 0;
        while (x != 1) {
            if (x % 2 == 0) { x /= 2; }
            else { if (x % 4 == 1) x = 3 * x + 1; else x = (3 * x + 1); }
            count++;
        }
        steps[i] = count;
    }"""
    n = 1000
    start = np.arange(1, n + 1, dtype=np.int32)
    steps = np.zeros(n, np.int32)
    run(source, "collatz", (8,), (128,), (start, steps, np.int32(n)))

    def collatz(x):
        count = 0
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            count += 1
        return count
    assert steps.tolist() == [collatz(int(x)) for x in start]


def test_continue_and_break_meet_again():
    source = r"""
    extern "C" __global__ void walk(int* out) {
        int t = threadIdx.x, sum = 0;
        for (int i = 0; i < 40; i++) {
            if ((i + t) % 3 == 0) continue;
            if (i > 10 + t % 7) break;
            sum += i * (t + 1);
            if (t & 1) sum ^= i;
        }
        out[t] = sum + __popc(__ballot_sync(0xffffffff, sum & 1)) * 1000;
    }"""
    out = np.zeros(64, np.int32)
    run(source, "walk", (1,), (64,), (out,))
    sums = []
    for t in range(64):
        total = 0
        for i in range(40):
            if (i + t) % 3 == 0:
                continue
            if i > 10 + t % 7:
                break
            total += i * (t + 1)
            if t & 1:
                total ^= i
        sums.append(total)
    votes = [sum(s & 1 for s in sums[:32]), sum(s & 1 for s in sums[32:])]
    assert out.tolist() == [s + votes[t // 32] * 1000 for t, s in enumerate(sums)]


def test_shuffles_in_every_mode():
    source = r"""
    extern "C" __global__ void shuffle(const int* in, int* out) {
        int t = threadIdx.x, x = in[t];
        out[t] = __shfl_sync(~0u, x, (t + 5) % 32);
        out[64 + t] = __shfl_up_sync(~0u, x, 3);
        out[128 + t] = __shfl_down_sync(~0u, x, 7, 16);
        out[192 + t] = __shfl_xor_sync(~0u, x, 9);
        out[256 + t] = __shfl_sync(~0u, x, 3, 8);
    }"""
    x = np.random.default_rng(3).integers(0, 1000, 64).astype(np.int32)
    out = np.zeros(320, np.int32)
    run(source, "shuffle", (1,), (64,), (x, out))
    lane, base = np.arange(64) % 32, np.arange(64) // 32 * 32
    assert (out[:64] == x[base + (np.arange(64) + 5) % 32]).all()
    assert (out[64:128] == x[np.where(lane >= 3, np.arange(64) - 3, np.arange(64))]).all()
    assert (out[128:192] == x[np.where(lane % 16 + 7 < 16, np.arange(64) + 7, np.arange(64)) % 64]).all()
    assert (out[192:256] == x[base + (lane ^ 9)]).all()
    assert (out[256:320] == x[np.arange(64) // 8 * 8 + 3]).all()


def test_warp_reductions_votes_and_match():
    source = r"""
    extern "C" __global__ void reduce(const int* in, unsigned* out) {
        int t = threadIdx.x, x = in[t];
        out[t] = __reduce_add_sync(~0u, x);
        out[32 + t] = __reduce_min_sync(~0u, x);
        out[64 + t] = __any_sync(~0u, x == 5) * 2 + __all_sync(~0u, x < 8);
        out[96 + t] = __match_any_sync(~0u, x);
        out[128 + t] = __activemask();
    }"""
    x = np.random.default_rng(5).integers(0, 8, 32).astype(np.int32)
    out = np.zeros(160, np.uint32)
    run(source, "reduce", (1,), (32,), (x, out))
    assert (out[:32] == x.sum()).all() and (out[32:64] == x.min()).all()
    assert (out[64:96] == 2 * (x == 5).any() + 1).all()
    assert out[96:128].tolist() == [sum(1 << k for k in range(32) if x[k] == v) for v in x]
    assert (out[128:] == 0xFFFFFFFF).all()


def test_collective_inside_a_branch_uses_its_member_mask():
    source = r"""
    extern "C" __global__ void half(int* out) {
        int t = threadIdx.x;
        int value = 0;
        if (t % 2) value = __shfl_sync(0xaaaaaaaa, t * 10, 5);
        else value = __popc(__ballot_sync(0x55555555, t % 4 == 0));
        out[t] = value;
    }"""
    out = np.zeros(32, np.int32)
    run(source, "half", (1,), (32,), (out,))
    assert (out[1::2] == 50).all() and (out[::2] == 8).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_block_reduction_through_shared_memory(schedule):
    source = r"""
    extern "C" __global__ void sum(const float* in, float* out) {
        __shared__ float part[8];
        int t = threadIdx.x;
        float x = in[blockIdx.x * blockDim.x + t];
        for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
        if (t % 32 == 0) part[t / 32] = x;
        __syncthreads();
        if (t < 8) {
            float y = part[t];
            for (int d = 4; d; d /= 2) y += __shfl_xor_sync(0xff, y, d);
            if (t == 0) out[blockIdx.x] = y;
        }
    }"""
    x = np.random.default_rng(7).integers(-50, 50, 5 * 256).astype(np.float32)
    out = np.zeros(5, np.float32)
    session = run(source, "sum", (5,), (256,), (x, out), schedule)
    assert (out == x.reshape(5, 256).sum(axis=1)).all() and not session.hazards


def test_ragged_block_and_three_dimensions():
    source = r"""
    extern "C" __global__ void where(int* out) {
        int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        __syncthreads();
        out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
    }"""
    out = np.zeros(2 * 3 * 2 * 45, np.int32)
    run(source, "where", (2, 3, 2), (5, 3, 3), (out,))
    assert out.reshape(12, 45).tolist() == [[b * 1000 + t for t in range(45)] for b in range(12)]


def test_threads_that_exit_early_do_not_hold_a_barrier():
    source = r"""
    extern "C" __global__ void leave(int* out) {
        if (threadIdx.x >= 40) return;
        __syncthreads();
        out[threadIdx.x] = 1;
    }"""
    out = np.zeros(64, np.int32)
    with pytest.warns(UserWarning, match="24 of them have ended"):
        run(source, "leave", (1,), (64,), (out,))
    assert out.sum() == 40


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_spinning_on_a_flag_gives_way_to_its_writer(schedule):
    source = r"""
    extern "C" __global__ void relay(volatile int* flag, int* out) {
        if (threadIdx.x == 0) {
            while (*flag != (int)blockIdx.x) {}
            out[blockIdx.x] = blockIdx.x * 7;
            __threadfence();
            *flag = blockIdx.x + 1;
        }
    }"""
    flag, out = np.zeros(1, np.int32), np.zeros(6, np.int32)
    run(source, "relay", (6,), (32,), (flag, out), schedule)
    assert flag[0] == 6 and out.tolist() == [7 * b for b in range(6)]


@pytest.mark.thorough
def test_spin_lock_with_compare_and_swap():
    source = r"""
    extern "C" __global__ void lock(int* mutex, volatile int* counter) {
        bool done = false;
        while (!done) {
            if (atomicCAS(mutex, 0, 1) == 0) {
                *counter = *counter + 1;
                __threadfence();
                atomicExch(mutex, 0);
                done = true;
            }
        }
    }"""
    mutex, counter = np.zeros(1, np.int32), np.zeros(1, np.int32)
    run(source, "lock", (2,), (40,), (mutex, counter))
    assert counter[0] == 80 and mutex[0] == 0


def test_atomics_on_global_and_shared_memory():
    source = r"""
    extern "C" __global__ void histogram(const int* in, int* bins, float* total, unsigned* most) {
        __shared__ int local[16];
        int t = threadIdx.x;
        if (t < 16) local[t] = 0;
        __syncthreads();
        int x = in[blockIdx.x * blockDim.x + t];
        atomicAdd(&local[x], 1);
        atomicAdd(total, 0.5f);
        atomicMax(most, (unsigned)x);
        __syncthreads();
        if (t < 16) atomicAdd(&bins[t], local[t]);
    }"""
    x = np.random.default_rng(11).integers(0, 16, 512).astype(np.int32)
    bins, total, most = np.zeros(16, np.int32), np.zeros(1, np.float32), np.zeros(1, np.uint32)
    run(source, "histogram", (4,), (128,), (x, bins, total, most))
    assert bins.tolist() == np.bincount(x, minlength=16).tolist()
    assert total[0] == 256 and most[0] == x.max()


def test_named_barriers_between_two_roles():
    source = r"""
    extern "C" __global__ void roles(const int* in, int* out) {
        __shared__ int slot[64];
        int t = threadIdx.x % 64;
        if (threadIdx.x < 64) {
            for (int i = 0; i < 3; i++) {
                asm volatile("bar.sync 1, 128;" ::: "memory");      // the slot is free
                slot[t] = in[i * 64 + t] * 2;
                asm volatile("bar.arrive 2, 128;" ::: "memory");    // the slot is full
            }
        } else {
            for (int i = 0; i < 3; i++) {
                asm volatile("bar.arrive 1, 128;" ::: "memory");
                asm volatile("bar.sync 2, 128;" ::: "memory");
                out[i * 64 + t] = slot[63 - t];
            }
        }
    }"""
    x = np.arange(192, dtype=np.int32)
    out = np.zeros(192, np.int32)
    session = run(source, "roles", (1,), (128,), (x, out))
    assert (out.reshape(3, 64) == 2 * x.reshape(3, 64)[:, ::-1]).all() and not session.hazards


def test_more_blocks_than_fit_at_once():
    source = r"""
    extern "C" __global__ void __launch_bounds__(1024) many(int* out) {
        extern __shared__ int s[];
        s[threadIdx.x] = blockIdx.x;
        __syncthreads();
        if (threadIdx.x == 0) out[blockIdx.x] = s[1023];
    }"""
    out = np.zeros(300, np.int32)                       # two on each of 132 SMs
    run(source, "many", (300,), (1024,), (out,), shared_mem=100_000)
    assert out.tolist() == list(range(300))


def test_sub_word_and_vector_accesses():
    source = r"""
    extern "C" __global__ void widths(const unsigned char* b, const short* h, const float4* f, int* out, double* d) {
        int t = threadIdx.x;
        float4 v = f[t];
        signed char s = (signed char)b[t];
        out[t] = s + h[t] + (int)(v.x + v.y * 2 + v.z * 4 + v.w * 8);
        d[t] = (double)v.x / 3.0;
    }"""
    rng = np.random.default_rng(13)
    b = rng.integers(0, 256, 32).astype(np.uint8)
    h = rng.integers(-30000, 30000, 32).astype(np.int16)
    f = rng.integers(0, 100, (32, 4)).astype(np.float32)
    out, d = np.zeros(32, np.int32), np.zeros(32)
    run(source, "widths", (1,), (32,), (b, h, f, out, d))
    assert (out == b.view(np.int8) + h.astype(np.int32) + (f @ [1, 2, 4, 8]).astype(np.int32)).all()
    assert (d == f[:, 0].astype(np.float64) / 3.0).all()


def test_local_arrays_indexed_at_run_time():
    source = r"""
    extern "C" __global__ void local(const int* order, int* out) {
        int a[16];
        for (int i = 0; i < 16; i++) a[order[i]] = i * threadIdx.x;
        int sum = 0;
        for (int i = 0; i < 16; i++) sum = sum * 3 + a[(i + threadIdx.x) % 16];
        out[threadIdx.x] = sum;
    }"""
    order = np.random.default_rng(17).permutation(16).astype(np.int32)
    out = np.zeros(32, np.int32)
    run(source, "local", (1,), (32,), (order, out))
    inverse = np.argsort(order)
    for t in range(32):
        total = 0
        for i in range(16):
            total = total * 3 + int(inverse[(i + t) % 16]) * t
        assert out[t] == np.int64(total).astype(np.int32)


def test_carry_chains_of_wide_arithmetic_and_large_angles():
    source = r"""
    extern "C" __global__ void wide(const long long* a, const float* x, unsigned long long* out, float* s) {
        int t = threadIdx.x;
        unsigned long long low = a[t] * a[31 - t], high = __mul64hi(a[t], a[31 - t]), sign = a[t] >> 63;
        asm("add.cc.u64 %0, %0, %2;\n\taddc.u64 %1, %1, %3;" : "+l"(low), "+l"(high) : "l"(a[t]), "l"(sign));
        out[t] = low;
        out[32 + t] = high;
        s[t] = sinf(x[t]);
    }"""
    rng = np.random.default_rng(19)
    a = rng.integers(-(1 << 62), 1 << 62, 32)
    x = (rng.standard_normal(32) * 10.0 ** rng.integers(0, 12, 32)).astype(np.float32)
    out, s = np.zeros(64, np.uint64), np.zeros(32, np.float32)
    run(source, "wide", (1,), (32,), (a, x, out, s))
    for t in range(32):
        product = int(a[t]) * int(a[31 - t]) + int(a[t])
        assert int(out[t]) | int(out[32 + t]) << 64 == product & (1 << 128) - 1
    assert np.allclose(s, np.sin(x.astype(np.float64)), atol=3e-7)
