# SPDX-License-Identifier: Apache-2.0
"""Launches in a worker process: results come back, hangs and crashes do not."""
import ml_dtypes
import numpy as np
import pytest
from support.patience import PATIENCE

import hopperlab as hl
from hopperlab.runtime.workers import isolated

CODE = """
extern "C" __global__ void scale(float* a, float by, const float* shift) { a[threadIdx.x] = a[threadIdx.x] * by + shift[0]; }
extern "C" __global__ void half(unsigned short* a, unsigned short value) { a[threadIdx.x] = value; }
extern "C" __global__ void past(int* a) { a[1 << 20] = 1; }
extern "C" __global__ void long_loop(volatile int* a) { for (int i = 0; i < (1 << 30); i++) a[0] = i; }
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void load(const __grid_constant__ Map map, float* out) {
    extern __shared__ __align__(128) float tile[];
    __shared__ unsigned long long barrier;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier), dst = (unsigned)__cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 256;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(dst), "l"(&map), "r"(8), "r"(2), "r"(bar) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                               : "=r"(done) : "r"(bar) : "memory");
    out[threadIdx.x] = tile[threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def module():
    yield hl.RawModule(code=CODE, backend="emulator", name="worker.cu")
    isolated.end_workers()


def run(module, name, args, block=32, **kwargs):
    kwargs.setdefault("timeout", 60 * PATIENCE)
    return hl.run_isolated(module.get_function(name), (1,), (block,), args, **kwargs)


def test_results_come_back_into_the_arrays(module):
    base = np.arange(64, dtype=np.float32)
    result = run(module, "scale", (base[32:], np.float32(2), np.ones(1, np.float32)))
    assert np.array_equal(base[:32], np.arange(32)) and np.array_equal(base[32:], np.arange(32, 64) * 2 + 1)
    assert result.place == "emulator" and result.seconds > 0


def test_two_views_of_one_array_stay_one_array(module):
    base = np.zeros(33, np.float32)
    base[32] = 5
    run(module, "scale", (base, np.float32(0), base[32:]))
    assert np.array_equal(base, np.full(33, 5))


def test_tensor_maps_travel(module):
    array = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    out = np.zeros(64, np.float32)
    run(module, "load", (hl.TensorMap.tiled(array, box=(4, 16)), out), block=64, shared_mem=1024)
    assert np.array_equal(out.reshape(4, 16), array[2:6, 8:24])


def test_scalars_of_other_libraries_travel(module):
    out = np.zeros(32, ml_dtypes.bfloat16)
    run(module, "half", (out, ml_dtypes.bfloat16(1.5)))
    assert (out == 1.5).all()


def test_an_exception_of_the_worker_is_named(module):
    with pytest.raises(hl.IsolatedError, match="MemoryFault: ") as caught:
        run(module, "past", (np.zeros(4, np.int32),), block=1)
    assert caught.value.kind == "MemoryFault"


def test_a_launch_that_takes_too_long_is_ended_and_the_next_one_works(module):
    with pytest.raises(hl.IsolatedError, match="long_loop did not finish in 1.5 s and was ended") as caught:
        run(module, "long_loop", (np.zeros(1, np.int32),), block=1, timeout=1.5)
    assert caught.value.kind == "timeout"
    test_results_come_back_into_the_arrays(module)


def test_a_worker_that_dies_is_a_crash_and_the_next_one_works(module):
    run(module, "half", (np.zeros(32, np.uint16), np.uint16(1)))
    isolated._worker("emulator")._process.kill()
    isolated._worker("emulator")._process.wait()
    run(module, "half", (np.zeros(32, np.uint16), np.uint16(1)))


def test_a_crash_during_a_launch(module, monkeypatch):
    import threading
    worker = isolated._worker("emulator")
    worker._started()
    threading.Timer(0.5 * PATIENCE, worker._process.kill).start()
    with pytest.raises(hl.IsolatedError, match="the worker process ended while it ran long_loop") as caught:
        run(module, "long_loop", (np.zeros(1, np.int32),), block=1)
    assert caught.value.kind == "crash"


def test_bad_arguments_never_reach_the_worker(module):
    with pytest.raises(hl.LaunchError, match="takes 3 arguments, 0 given"):
        run(module, "scale", ())
