# SPDX-License-Identifier: Apache-2.0
"""missing-proxy-fence and writes under a reader: who must fence, where, and what counts. Each error has a clean twin.

A plain store becomes visible to the copy engine and to wgmma by a fence.proxy.async on its way there: by every writer
after the write and before the barrier, or by the issuing thread after the barrier. Anything else is not enough.
"""
import numpy as np
import pytest
import hopperlab as hl
from hopperlab.emulator.hazards import findings
from support.emulated import SCHEDULES, WRAPPERS, kinds, lines_with, run, told

STORE = r"""
extern "C" __global__ void __launch_bounds__(128) k(const float* x, float* y) {
    __shared__ __align__(128) float s[128];
    int t = threadIdx.x;
    if (WHEN == 1) fence_proxy_async_shared_cta();              // before the write
    s[t] = x[t] * 2;
    if (WHEN == 2) fence_proxy_async_shared_cta();              // every writer, before the barrier
    if (WHEN == 3 && t == 64) fence_proxy_async_shared_cta();   // one thread that is not the issuer, before the barrier
    if (WHEN == 7 && t == 0) fence_proxy_async_shared_cta();    // the issuer, but before the barrier
    if (WHEN == 8) asm volatile("fence.proxy.async.global;" ::: "memory");
    if (WHEN == 9) __threadfence_block();
    if (WHEN == 10) fence_proxy_async();                        // all state spaces
    if (WHEN == 11) asm volatile("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster;" ::: "memory");     // one way, as every writer's
    if (WHEN == 12) asm volatile("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;" ::: "memory"); // the other half alone
    __syncthreads();
    if (WHEN == 4 && t == 0) fence_proxy_async_shared_cta();    // the issuer, after the barrier
    if (WHEN == 5 && t == 64) fence_proxy_async_shared_cta();   // another thread, after the barrier
    if (WHEN == 6) fence_proxy_async_shared_cta();              // everyone, after the barrier
    if (t == 0) {
        cp_async_bulk_store(y, s, 512);                         // the store
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}"""
ENOUGH = {2, 4, 6, 10, 11}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("when", range(13))
def test_where_the_fence_stands(when, schedule):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    session = run(STORE, (x, y), block=(128,), schedule=schedule, options=(f"-DWHEN={when}",))
    assert (y == 2 * x).all()
    assert kinds(session) == ([] if when in ENOUGH else ["missing-proxy-fence"]), told(session)
    for h in session.hazards:
        assert h.where.line in lines_with("// the store", source=STORE) and h.other.line in lines_with("s[t] =", source=STORE)


WARP = r"""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    int t = threadIdx.x;
    s[t] = x[t];
    if (FENCE) fence_proxy_async_shared_cta();
    if (SYNC) __syncwarp();
    if (t == 0) {
        cp_async_bulk_store(y, s, 128);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}"""


@pytest.mark.parametrize("fence, sync, found", [(1, 1, []), (0, 1, ["missing-proxy-fence"]), (1, 0, ["race"])])
def test_one_warp_needs_fence_and_syncwarp(fence, sync, found):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(WARP, (x, y), options=(f"-DFENCE={fence}", f"-DSYNC={sync}"))
    assert kinds(session) == found, told(session)


CHAIN = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {     // written, handed on by an mbarrier, sent off
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 32);
    __syncthreads();
    if (t < 32) {
        s[t] = x[t];
        if (WHO == 0) fence_proxy_async_shared_cta();
        mbarrier_arrive(&full);
    } else if (t == 32) {
        if (WHO == 1) fence_proxy_async_shared_cta();               // before the wait: covers nothing that the wait brings
        mbarrier_wait_parity(&full, 0);
        if (WHO == 2) fence_proxy_async_shared_cta();
        cp_async_bulk_store(y, s, 128);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("who, found", [(0, []), (1, ["missing-proxy-fence"]), (2, []), (3, ["missing-proxy-fence"])])
def test_fence_on_either_side_of_an_mbarrier(who, found, schedule):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(CHAIN, (x, y), block=(64,), schedule=schedule, options=(f"-DWHO={who}",))
    assert kinds(session) == found, told(session)


GEMM = r"""
extern "C" __global__ void __launch_bounds__(128) k(const uint4* a, const uint4* b, float* d) {
    extern __shared__ __align__(1024) unsigned char s[];            // A 64x64, B 64x64, both 128B-swizzled bf16
    int t = threadIdx.x;
    for (int i = t; i < 512; i += 128) {
        int at = i * 16;
        at ^= (at & 0x380) >> 3;
#if HOW == 0
        *(uint4*)(s + at) = a[i];                                   // plain stores
        *(uint4*)(s + 8192 + at) = b[i];
#else
        cp_async_cg_16(s + at, a + i);                              // cp.async is the generic proxy, too
        cp_async_cg_16(s + 8192 + at, b + i);
#endif
    }
    cp_async_wait_all();
    if (FENCE) fence_proxy_async_shared_cta();
    __syncthreads();
    float acc[32];
    wgmma_fence();
    for (int k = 0; k < 4; k++)
        wgmma_m64n64k16_bf16(acc, wgmma_descriptor_128B(shared_address(s) + k * 32), wgmma_descriptor_128B(shared_address(s) + 8192 + k * 32), k > 0);
    wgmma_commit_group();
    if (OVERWRITE == 1) *(uint4*)(s + t * 16) = a[t];               // while wgmma still reads
    wgmma_wait_group<0>();
    if (OVERWRITE == 2) { __syncthreads(); *(uint4*)(s + t * 16) = a[t]; }
    if (OVERWRITE == 3) *(uint4*)(s + t * 16) = a[t];               // own warpgroup's wait: its reads are over
    int row = 16 * (t / 32) + t % 32 / 4, col = 2 * (t % 4);
    for (int i = 0; i < 32; i++) d[(row + 8 * (i / 2 % 2)) * 64 + col + 8 * (i / 4) + i % 2] = acc[i];
}"""


def gemm(schedule="lazy", how=0, fence=1, overwrite=0):
    import ml_dtypes
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-4, 5, (64, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    d = np.zeros((64, 64), np.float32)
    session = run(GEMM, (a, b, d), block=(128,), schedule=schedule, shared_mem=16384,
                  options=(f"-DHOW={how}", f"-DFENCE={fence}", f"-DOVERWRITE={overwrite}"))
    return d, a.astype(np.float32) @ b.astype(np.float32).T, session


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("how", [0, 1])
def test_operands_written_by_threads_need_the_fence(how, schedule):
    d, exact, session = gemm(schedule, how)
    assert (d == exact).all() and not session.hazards, told(session)
    d, exact, session = gemm(schedule, how, fence=0)
    assert (d == exact).all() and kinds(session) == ["missing-proxy-fence"], told(session)
    where = lines_with("// plain stores" if how == 0 else "// cp.async is the generic", source=GEMM)
    assert any(h.other.line in where for h in session.hazards) and all("wgmma" in str(h) for h in session.hazards)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("overwrite, found", [(1, ["overwrite-in-flight"]), (2, []), (3, [])])
def test_a_plain_store_over_what_wgmma_reads(overwrite, found, schedule):
    _, _, session = gemm(schedule, overwrite=overwrite)
    assert kinds(session) == found, told(session)


REUSE = r"""
extern "C" __global__ void __launch_bounds__(128) k(const float* x, float* y) {
    __shared__ __align__(128) float s[128];
    int t = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        s[t] = x[i * 128 + t];                                  // the write
        fence_proxy_async_shared_cta();
        __syncthreads();
        if (t == 0) {
            cp_async_bulk_store(y + i * 128, s, 512);           // the store
            cp_async_bulk_commit_group();
            if (WAIT == 1) cp_async_bulk_wait_group_read<0>();
            if (WAIT == 2) cp_async_bulk_wait_group<0>();
            if (WAIT == 3) cp_async_bulk_wait_group_read<1>();  // one too shallow
        }
        if (WAIT == 4 && t == 32) cp_async_bulk_wait_group_read<0>();   // another thread's groups
        if (BARRIER) __syncthreads();
    }
    if (t == 0) cp_async_bulk_wait_group<0>();
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait, barrier, clean", [(1, 1, True), (2, 1, True), (0, 1, False), (1, 0, False), (3, 1, False), (4, 1, False)])
def test_the_source_of_a_store_is_written_again(wait, barrier, clean, schedule):
    x, y = np.arange(384, dtype=np.float32), np.zeros(384, np.float32)
    session = run(REUSE, (x, y), block=(128,), schedule=schedule, options=(f"-DWAIT={wait}", f"-DBARRIER={barrier}"))
    if clean:
        assert (y == x).all() and not session.hazards, told(session)
        return
    assert "overwrite-in-flight" in kinds(session), told(session)
    first = next(h for h in session.hazards if h.kind == "overwrite-in-flight")
    assert first.where.line in lines_with("// the write", source=REUSE) and first.other.line in lines_with("// the store", source=REUSE)


OVER = r"""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    s[t] = -1;                                                  // the plain write
    if (FENCE) fence_proxy_async_shared_cta();
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(&full, 128);
        cp_async_bulk_load(s, x, 128, &full);
    }
    mbarrier_wait_parity(&full, 0);
    y[t] = s[t];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("fence", [0, 1])
def test_a_load_over_plain_writes_needs_the_fence_too(fence, schedule):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(OVER, (x, y), schedule=schedule, options=(f"-DFENCE={fence}",))
    assert (y == x).all()
    assert kinds(session) == ([] if fence else ["missing-proxy-fence"]), told(session)


READ_THEN_LOAD = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {
    __shared__ __align__(128) float s[64];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        if (t == 0) {
            mbarrier_arrive_expect_tx(&full, 256);
            cp_async_bulk_load(s, x + i * 64, 256, &full);      // the load
        }
        mbarrier_wait_parity(&full, i);
        y[i * 64 + t] = s[63 - t];                              // the read
        if (BARRIER) __syncthreads();
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("barrier", [0, 1])
def test_reads_before_the_next_load_need_a_barrier_and_no_fence(barrier, schedule):
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    session = run(READ_THEN_LOAD, (x, y), block=(64,), schedule=schedule, options=(f"-DBARRIER={barrier}",))
    assert kinds(session) == ([] if barrier else ["overwrite-in-flight"]), told(session)


TWO_LOADS = r"""
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ mbarrier_t full[2];
    if (threadIdx.x) return;
    mbarrier_init(&full[0], 1);
    mbarrier_init(&full[1], 1);
    for (int i = 0; i < 2; i++) {
        mbarrier_arrive_expect_tx(&full[i], 128);
        cp_async_bulk_load(s, x + i * 32, 128, &full[i]);
        if (WAIT) mbarrier_wait_parity(&full[i], 0);
    }
    mbarrier_wait_parity(&full[0], 0);
    mbarrier_wait_parity(&full[1], 0);
    y[0] = s[0];
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("wait", [0, 1])
def test_two_loads_into_one_place_have_no_order(wait, schedule):
    x, y = np.arange(64, dtype=np.float32), np.zeros(1, np.float32)
    session = run(TWO_LOADS, (x, y), schedule=schedule, options=(f"-DWAIT={wait}",))
    assert kinds(session) == ([] if wait else ["overwrite-in-flight"]), told(session)


STORE_THEN_LOAD = r"""
extern "C" __global__ void k(const float* x, float* y) {        // the issuing thread's plain store is not part of its copy
    __shared__ __align__(128) float s[32];
    __shared__ float extra;
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (t == 0) {
        if (ORDER == 0) mbarrier_arrive_expect_tx(&full, 128);
        asm volatile("st.shared.f32 [%0], %1;" :: "r"(shared_address(&extra)), "f"(x[1] * 7) : "memory");   // the store
        cp_async_bulk_load(s, x, 128, &full);
        if (ORDER == 1) mbarrier_arrive_expect_tx(&full, 128);  // release: carries the store
    }
    if (t >= 32) {
        mbarrier_wait_parity(&full, 0);
        y[t - 32] = s[t - 32] + extra;
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("order", [0, 1])
def test_a_copy_does_not_release_its_issuers_stores(order, schedule):
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    session = run(STORE_THEN_LOAD, (x, y), block=(64,), schedule=schedule, options=(f"-DORDER={order}",))
    assert kinds(session) == ([] if order else ["race"]), told(session)


REFILL = r"""
extern "C" __global__ void __launch_bounds__(96) k(const float* x, float* y) {
    __shared__ __align__(128) float slot[64];
    __shared__ mbarrier_t full, empty;
    int t = threadIdx.x;
    if (t == 0) { mbarrier_init(&full, 1); mbarrier_init(&empty, 2); }
    __syncthreads();
    if (t == 64) {
        for (int i = 0; i < 3; i++) {
            if (WHEN == 6) fence_proxy_async_shared_cta();      // before it has learned of the reads
            mbarrier_wait_parity(&empty, (i & 1) ^ 1);
            if (WHEN == 1) fence_proxy_async_shared_cta();      // the issuer, once it has learned of them
            mbarrier_arrive_expect_tx(&full, 256);
            cp_async_bulk_load(slot, x + 64 * i, 256, &full);   // the copy
        }
    } else if (t < 64) {
        for (int i = 0; i < 3; i++) {
            mbarrier_wait_parity(&full, i & 1);
            if (WHEN == 7) fence_proxy_async_shared_cta();      // before the read
            y[64 * i + t] = slot[t ^ 5];                        // the read
            if (WHEN == 2) fence_proxy_async_shared_cta();      // every reader
            if (WHEN == 3 && t % 32 == 0) fence_proxy_async_shared_cta();      // one lane, before the others have met it
            if (WHEN == 8) asm volatile("fence.proxy.async.global;" ::: "memory");
            if (WHEN == 9) __threadfence_block();
            if (WHEN == 10 && t < 32) fence_proxy_async();      // one of two warps
            __syncwarp();
            if (WHEN == 4 && t % 32 == 0) fence_proxy_async_shared_cta();      // one lane for those that it has met
            if (WHEN == 5 && t % 32 == 1) fence_proxy_async_shared_cta();      // a lane that does not arrive
            if (t % 32 == 0) mbarrier_arrive(&empty);
        }
    }
}"""


def test_a_tile_without_fence_is_told_of_once_for_each_pair_of_lines(monkeypatch):
    """Not once for each of its words: bytes of two instructions in turn."""
    told, add = [], findings.Findings.add
    monkeypatch.setattr(findings.Findings, "add", lambda self, case, *more, **known: told.append((case, *more[:2])) or add(self, case, *more, **known))
    code = """extern "C" __global__ void k(float* y) {
        __shared__ __align__(128) float s[1024];
        for (int i = threadIdx.x * 2; i < 1024; i += 64) {
            s[i] = 1;
            s[i + 1] = 2;
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            cp_async_bulk_store(y, s, 4096);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group<0>();
        }
    }"""
    session = run(code, (np.zeros(1024, np.float32),), block=(32,))
    assert [h.kind for h in session.hazards] == ["missing-proxy-fence"] and {case for case, *_ in told} == {"shared-proxy-fence"}
    assert len(told) == len(set(told)) <= 64, told


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("when", range(11))
def test_which_fence_stands_between_reads_and_a_refill(when, schedule):
    x, y = np.arange(192, dtype=np.float32), np.zeros(192, np.float32)
    for level in ("error", "warning", "off"):
        session = run(REFILL, (x, y), block=(96,), schedule=schedule, options=(f"-DWHEN={when}",), levels={"unfenced-overwrite": level})
        found = {"error": session.hazards, "warning": session.warnings, "off": []}[level]
        assert len(session.hazards) + len(session.warnings) == len(found)
        if level == "off":
            continue
        if when == 5:                                           # as before a bulk store: which lane of the warp fenced is not asked (docs/emulator.md)
            continue
        assert [h.kind for h in found] == ([] if when in (1, 2, 4) else ["unfenced-overwrite"]), [str(h) for h in found]
        for h in found:
            assert h.where.line in lines_with("// the copy", source=REFILL) and h.other.line in lines_with("// the read", source=REFILL)


@pytest.mark.usefixtures("own_memory")
def test_explore_takes_levels_and_the_environment_counts(monkeypatch):
    kernel = hl.RawModule(code=f"{WRAPPERS}{REFILL}", options=("-DWHEN=0",), backend="emulator").get_function("k")

    def launch():
        kernel((1,), (96,), (np.zeros(192, np.float32), np.zeros(192, np.float32)))
    assert not hl.explore(launch, seeds=1, levels={"unfenced-overwrite": "error"})
    quiet = hl.explore(launch, seeds=1, levels={"unfenced-overwrite": "warning"})
    assert quiet.clean and [w.kind for w in quiet.warnings] == ["unfenced-overwrite"]
    assert not hl.explore(launch, seeds=1, levels={"unfenced-overwrite": "off"}).warnings
    monkeypatch.setenv("HOPPERLAB_HAZARD_LEVELS", "unfenced-overwrite=error")
    with pytest.raises(hl.HazardError, match="unfenced-overwrite"), hl.emulate():
        launch()
    with hl.emulate(levels={"unfenced-overwrite": "off"}) as silent:
        launch()
    assert not silent.warnings
    with pytest.raises(ValueError, match="only unfenced-overwrite, unfenced-flag can be switched"), hl.emulate(levels={"race": "off"}):
        launch()
