# SPDX-License-Identifier: Apache-2.0
"""A run in which what one mechanism delivers is altered: loads see the truth or noise, products are negated, bits are flipped; and nothing else."""
import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.emulator.machine.altered import WAYS, Altered
from hopperlab.emulator.machine.memory import default
from hopperlab.measure.launches import launch as launches

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


def test_bits_of_bulk_stores_are_flipped_and_nothing_else():
    out = copied(Altered("store"))
    assert (out.pop("stored").view(np.uint32) == ~X.view(np.uint32)).all()
    assert all((found == X).all() for found in out.values())


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("bulk", "cp.async", "tma", "store")])
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
