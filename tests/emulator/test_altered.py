# SPDX-License-Identifier: Apache-2.0
"""A run in which what one mechanism delivers is altered: loads see the truth or noise, products are negated, words are enciphered; and nothing else."""
import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.emulator.machine.altered import WAYS, Altered, Cipher
from hopperlab.emulator.machine.memory import default
from hopperlab.measure.launches import launch as launches

pytestmark = pytest.mark.emulator_only       # no GPU alters what a mechanism delivers

COPY = r"""
#include <hopperlab/cp_async.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/tma.cuh>
// x to y by four ways at once: bulk copy, cp.async, an ordinary load; and out by a bulk store
extern "C" __global__ void ways(const float* x, float* bulk, float* cp, float* plain, float* stored) {
    __shared__ __align__(128) float a[32], b[32], c[32];
    __shared__ mbarrier_t full;
    int t = threadIdx.x;
    if (t == 0) {
        mbarrier_init(&full, 1);
        mbarrier_arrive_expect_tx(&full, 128);
        cp_async_bulk_load(a, x, 128, &full);
    }
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(shared_address(b + t)), "l"(x + t));
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncwarp();
    mbarrier_wait_parity(&full, 0);
    bulk[t] = a[t];
    cp[t] = b[t];
    plain[t] = c[t] = x[t];
    fence_proxy_async_shared_cta();
    __syncwarp();
    if (t == 0) {
        cp_async_bulk_store(stored, c, 128);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}"""
X = np.arange(32, dtype=np.float32) + 1


def copied(how: Altered) -> dict[str, np.ndarray]:
    """What arrives by each way."""
    x = X.copy()
    out = {name: np.zeros(32, np.float32) for name in ("bulk", "cp", "plain", "stored")}
    kernel = hl.RawModule(code=COPY, name="ways.cu", backend="emulator").get_function("ways")
    with hl.emulate(hazards="raise") as run:
        run.altered = how
        with how.only_seen_by_the_engine(default(), [x] if how.way in ("bulk", "cp.async", "tma") else [], np.random.default_rng(1)):
            kernel((1,), (32,), (x, *out.values()))
    assert (x == X).all(), "the noise is gone"
    return out


@pytest.mark.parametrize(("way", "sees"), [("bulk", "bulk"), ("cp.async", "cp"), ("tma", None)])
def test_one_engine_sees_the_truth_and_the_others_noise(way, sees):
    for name, found in copied(Altered(way)).items():
        assert (found == X).all() if name == sees else not (found == X).any(), name


def test_what_bulk_stores_write_is_enciphered_and_nothing_else():
    out = copied(how := Altered("store", key=7))
    stored = out.pop("stored")
    assert (how.cipher.show(stored) == X).all() and not (stored.view(np.uint32) == X.view(np.uint32)).any()
    assert all((found == X).all() for found in out.values())


def test_a_cipher_is_a_bijection_that_its_key_decides():
    words = np.arange(1 << 16, dtype=np.uint16)
    one, other = (Cipher(np.random.default_rng(key)) for key in (1, 2))
    for cipher in (one, other):
        assert cipher.hide(words)[0] == 0 and (np.sort(cipher.hide(words)) == words).all() and (cipher.show(cipher.hide(words)) == words).all()
    assert (one.hide(words) != other.hide(words)).mean() > 0.99
    assert len(set((one.hide(words) ^ words).tolist())) > 30_000, "no one mask would do"


def test_what_an_engine_brings_for_one_unit_is_noise_in_the_array_and_a_cipher_at_the_engine():
    x = X.copy()
    how = Altered("bulk", to="mma", key=3)
    with how.only_seen_by_the_engine(default(), [x], np.random.default_rng(1)):
        brought = how.source("bulk", default().register(x)).view(1).view(np.float32).copy()
        assert not (x == X).any() and not (brought == X).any() and (how.taken("mma", brought) == X).all()
        assert (how.taken("wgmma", brought) == brought).all() and (how.source("tma", default().register(x)).view(1).view(np.float32) == x).all()
    assert (x == X).all()


@pytest.mark.parametrize(("way", "to"), [("store", "wgmma"), ("tma", "ldmatrix")])
def test_only_loads_go_to_a_unit_and_only_to_one_that_multiplies(way, to):
    with pytest.raises(ValueError, match=f"from '{way}' to '{to}': from one of tma, bulk, cp.async to one of wgmma, mma"):
        Altered(way, to=to)


@pytest.mark.parametrize(("engine", "unit", "step"), [("tma", "wgmma", launches.tma_wgmma), ("cp.async", "mma", launches.mma_multistage)])
def test_products_of_what_an_engine_brought_for_their_unit_are_the_usual_ones(engine, unit, step):
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-3, 4, (128, 128)).astype(ml_dtypes.bfloat16) for _ in range(2))
    exact = (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)
    c = np.zeros((128, 128), ml_dtypes.bfloat16)
    made = step(a, b, c, backend="emulator")
    for to, same in ((unit, True), ({"wgmma": "mma", "mma": "wgmma"}[unit], False)):
        with hl.emulate() as run:
            run.altered = how = Altered(engine, to=to, key=5)
            with how.only_seen_by_the_engine(default(), [a, b], np.random.default_rng(1)):
                made()
        assert (c == exact).all() == same, to


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("bulk", "cp.async", "tma", "store", "ld.shared", "st.shared")])
def test_what_does_not_occur_changes_nothing(way):
    assert all((found == X).all() for found in copied(Altered(way)).values())


def test_an_unknown_way_is_an_error_that_names_the_others():
    with pytest.raises(ValueError, match=r"way 'tmem': choose one of tma, bulk, cp\.async"):
        Altered("tmem")


@pytest.mark.parametrize(("unit", "step"), [("wgmma", launches.tma_wgmma), ("mma", launches.mma_multistage)])
def test_products_are_negated_and_exact(unit, step):
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, (128, 128)).astype(ml_dtypes.bfloat16) for _ in range(2))
    exact = (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)
    other = {"wgmma": "mma", "mma": "wgmma"}[unit]
    for way, expected in ((unit, -exact), (other, exact)):
        c = np.zeros((128, 128), ml_dtypes.bfloat16)
        made = step(a, b, c, backend="emulator")
        with hl.emulate() as run:
            run.altered = Altered(way)
            made()
        assert (c == expected).all(), way


WORDS = r"""
#include <hopperlab/tma.cuh>
extern "C" __global__ void words(const __grid_constant__ TensorMap map, const __grid_constant__ int plain, unsigned long long* out, int i) {
    READ
}"""


@pytest.mark.parametrize(("read", "loaded"), [("out[threadIdx.x] = map.words[1];", 32 * 8),
                                              ("const unsigned long long* w = map.words; out[threadIdx.x] = w[i + threadIdx.x % 4];", 32 * 8),
                                              ("out[threadIdx.x] = plain; prefetch_tensormap(&map);", 0)])
def test_loads_of_a_tensor_maps_words_are_counted(read, loaded):
    out = np.zeros(32, np.uint64)
    kernel = hl.RawModule(code=WORDS.replace("READ", read), name="words.cu", backend="emulator").get_function("words")
    with hl.emulate() as run:
        kernel((1,), (32,), (hl.TensorMap.tiled(np.zeros((8, 8), np.float32), box=(8, 8)), np.int32(3), out, np.int32(2)))
    assert run.counters["tensor_map_load_bytes"] == loaded


MOVED = r"""
// every warp puts x into shared memory, multiplies what it reads there, and reads once more after the next load
extern "C" __global__ void moved(const float* x, float* y) {
    __shared__ float tile[128];
    int t = threadIdx.x;
    tile[t] = x[t];
    __syncwarp();
    float before = *(volatile float*)&tile[t ^ 1];
    float next = *(volatile const float*)&x[t];
    float beside = *(volatile float*)&tile[t ^ 1];
    __syncwarp();
    tile[t] = next;
    __syncwarp();
    y[t] = before, y[128 + t] = beside, y[256 + t] = *(volatile float*)&tile[t ^ 1];
}"""


@pytest.mark.parametrize(("how", "factors"), [
    (Altered("ld.shared"), (2, 2, 2)), (Altered("st.shared"), (2, 2, 2)), (Altered("ld.shared", beside=True), (1, 2, 1)), (Altered(), (1, 1, 1)),
    (Altered("ld.shared", warps=(1, 2)), (2, 2, 2))], ids=["loads", "stores", "beside a load", "nothing", "of two warps"])
def test_what_warps_move_themselves_is_doubled(how, factors):
    x, y = np.arange(128, dtype=np.float32) + 1, np.zeros((3, 128), np.float32)
    kernel = hl.RawModule(code=MOVED, name="moved.cu", backend="emulator").get_function("moved")
    with hl.emulate(hazards="raise") as run:
        run.altered = how
        kernel((1,), (128,), (x, y))
    meant = np.ones(128, bool) if how.warps is None else np.isin(np.arange(128) // 32, how.warps)
    for found, factor in zip(y, factors, strict=True):
        assert (found == x.reshape(-1, 2)[:, ::-1].reshape(-1) * np.where(meant, factor, 1)).all()


LATE = r"""
extern "C" __global__ void late(float* y, int* seen) {
    __shared__ int done;
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        y[threadIdx.x] = 1;
        __threadfence_block();
        if (threadIdx.x == 0) atomicExch(&done, 1);
    } else {
        int found = atomicOr(&done, 0);
        if (threadIdx.x == 32) seen[0] = found;
    }
}"""


@pytest.mark.parametrize(("way", "found"), [("late stores", 0)])
def test_stores_can_be_made_to_come_last(way, found):
    y, seen = np.zeros(32, np.float32), np.full(1, 7, np.int32)
    kernel = hl.RawModule(code=LATE, name="late.cu", backend="emulator").get_function("late")
    with hl.emulate(hazards="collect") as run:
        run.altered = Altered(way)
        kernel((1,), (64,), (y, seen))
    assert seen[0] == found and (y == 1).all()


SLOW = r"""
// Three warps count what they have done; the first and the last wait for each other nowhere but at the barrier in front.
extern "C" __global__ void slow(int* order) {
    __shared__ int turn;
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    for (int i = 0; i < 3; i++) {
        int now = 0;
        if (threadIdx.x % 32 == 0) now = atomicAdd(&turn, 1);
        if (threadIdx.x % 32 == 0) order[now] = threadIdx.x / 32;
    }
}"""


def order_of(warps):
    order = np.full(9, 7, np.int32)
    kernel = hl.RawModule(code=SLOW, name="slow.cu", backend="emulator").get_function("slow")
    with hl.emulate(schedule="lazy", hazards="collect") as run:
        run.altered = Altered("slow warps", warps=warps) if warps else Altered()
        kernel((1,), (96,), (order,))
    return order.tolist()


@pytest.mark.parametrize("slow", range(3))
def test_slow_warps_go_on_when_nobody_else_can(slow):
    found = order_of((slow,))
    assert found[6:] == [slow] * 3 and sorted(found) == sorted(3 * [0, 1, 2])


def test_without_a_slow_warp_all_go_together():
    assert all(order_of(())[6:] != [slow] * 3 for slow in range(3))


def test_two_slow_warps_come_behind_the_third_one():
    assert order_of((0, 1))[:3] == [2] * 3


def test_who_waits_for_a_slow_warp_goes_on_as_soon_as_it_may():
    """A slow warp hands over by an mbarrier: what it does behind the arrival comes after all that the other one does."""
    code = SLOW.replace("__syncthreads();", """__shared__ unsigned long long went;
    unsigned at = (unsigned)__cvta_generic_to_shared(&went);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" :: "r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x < 32) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at) : "memory");
    else asm volatile("{ .reg .pred p;\\nL%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\\n@!p bra L%=;\\n}" :: "r"(at) : "memory");""")
    order = np.full(9, 7, np.int32)
    with hl.emulate(schedule="lazy", hazards="collect") as run:
        run.altered = Altered("slow warps", warps=(0,))
        hl.RawModule(code=code, name="slow.cu", backend="emulator").get_function("slow")((1,), (96,), (order,))
    assert order[6:].tolist() == [0, 0, 0] and not run.hazards


def test_slow_warps_of_some_blocks_are_no_others_whichever_lane_goes_on():
    """Two blocks count in one word; lane 7 of the second warp alone is at work, and slow in the second block only."""
    code = """extern "C" __global__ void slow(int* order, int* turn) {
        __syncthreads();
        if (threadIdx.x == 39 || threadIdx.x == 0) for (int i = 0; i < 3; i++) {
            int now = atomicAdd(turn, 1);
            order[now] = 2 * blockIdx.x + threadIdx.x / 32;
        }
    }"""
    order = np.full(12, 7, np.int32)
    with hl.emulate(schedule="lazy", hazards="collect") as run:
        run.altered = Altered("slow warps", warps=(1,), blocks=lambda block: block[0] == 1)
        hl.RawModule(code=code, name="slow.cu", backend="emulator").get_function("slow")((2,), (64,), (order, np.zeros(1, np.int32)))
    assert order[9:].tolist() == [3, 3, 3] and sorted(order[:9].tolist()) == sorted(3 * [0, 1, 2])
    assert order[:9].tolist()[-3:] != [1, 1, 1], "that of the first block is not slow"
