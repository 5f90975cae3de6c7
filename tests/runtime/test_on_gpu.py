# SPDX-License-Identifier: Apache-2.0
"""The runtime on a real Hopper GPU: the same launches and refusals as in the emulator, and what only a GPU can do wrong."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime import backend
from hopperlab.runtime.workers import isolated
from hopperlab.runtime.gpu.driver import find_gpu
from hopperlab.runtime.errors import GpuError

GPU = find_gpu()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(GPU is None or GPU.capability != (9, 0) or not backend.has_cupy(),
                                                  reason="needs a Hopper GPU (compute capability 9.0) and CuPy")]

CODE = """
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void add(const float* a, float* b, int n) { int i = blockIdx.x * 128 + threadIdx.x; if (i < n) b[i] += a[i]; }
extern "C" __global__ void reverse(int* a) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void with_static(int* a) {
    extern __shared__ int tile[];
    __shared__ int one[4];
    if (threadIdx.x == 0) one[0] = 7;
    tile[12287 - threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = tile[12288 - blockDim.x + threadIdx.x] + one[0];
}
extern "C" __global__ void wild(int* a) { *reinterpret_cast<int*>(16) = a[0]; }
extern "C" __global__ void endless(volatile int* a) { while (a[0] == 0) { } }
extern "C" __global__ void load(const __grid_constant__ Map map, float* out) {
    extern __shared__ __align__(1024) float box[];
    __shared__ unsigned long long barrier;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier), dst = (unsigned)__cvta_generic_to_shared(box);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar) : "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(dst), "l"(&map), "r"(8), "r"(-2), "r"(bar) : "memory");
    }
    __syncthreads();
    unsigned done = 0;
    while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                               : "=r"(done) : "r"(bar) : "memory");
    for (int i = threadIdx.x; i < 8 * 32; i += 32) out[i] = box[i];
}
"""


@pytest.fixture(scope="module")
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def module():
    yield hl.RawModule(code=CODE, backend="gpu", name="gpu.cu")
    isolated.end_workers()


def test_auto_takes_the_gpu(monkeypatch):
    monkeypatch.delenv("HOPPERLAB_BACKEND", raising=False)
    assert backend.backend("auto") == "gpu" and backend.architecture("gpu") == "sm_90a"


def test_the_kernel_is_cupys(cupy, module):
    kernel = module.get_function("add")
    assert isinstance(kernel.cupy, cupy.RawKernel)
    assert kernel.num_regs == kernel.cupy.num_regs and kernel.shared_size_bytes == kernel.cupy.shared_size_bytes
    assert hl.array_module("gpu") is cupy


def test_a_launch(cupy, module):
    a, b = cupy.arange(300, dtype=np.float32), cupy.ones(300, np.float32)
    module.get_function("add")((3,), (128,), (a, b, np.int32(300)))
    assert np.array_equal(hl.asnumpy(b), np.arange(300) + 1)


def test_a_launch_on_a_stream(cupy, module):
    stream = cupy.cuda.Stream(non_blocking=True)
    a, b = cupy.ones(128, np.float32), cupy.ones(128, np.float32)
    cupy.cuda.Device().synchronize()
    module.get_function("add")((1,), (128,), (a, b, np.int32(128)), stream=stream)
    stream.synchronize()
    assert b.sum() == 256


@pytest.mark.parametrize("amount", [1024, 100_000, 232_448])
def test_shared_memory_up_to_227_kib(cupy, amount):
    module = hl.RawModule(code=CODE, backend="gpu", name="gpu.cu")
    a = cupy.arange(64, dtype=np.int32)
    module.get_function("reverse")((1,), (64,), (a,), shared_mem=amount)
    assert hl.asnumpy(a)[0] == 63


@pytest.mark.parametrize("swizzle", ["none", "32B", "64B", "128B"])
def test_tensor_maps_mean_the_same_in_both_places(cupy, module, swizzle):
    values = np.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    box = (4, 32) if swizzle in ("none", "128B") else (8, 16) if swizzle == "64B" else (16, 8)
    landed = []
    for place, xp in (("gpu", cupy), ("emulator", hl.array_module("emulator"))):
        kernel = hl.RawModule(code=CODE, backend=place, name="gpu.cu").get_function("load")
        array, out = xp.asarray(values), xp.zeros(256, np.float32)
        kernel((1,), (32,), (hl.TensorMap.tiled(array, box=box, swizzle=swizzle), out), shared_mem=2048)
        landed.append(hl.asnumpy(out)[:128])
    assert np.array_equal(landed[0], landed[1]) and landed[0].any()


def test_a_map_of_a_view(cupy, module):
    base = cupy.arange(64 * 96, dtype=np.float32).reshape(64, 96)
    out = cupy.zeros(256, np.float32)
    module.get_function("load")((1,), (32,), (hl.TensorMap.tiled(base[2:, 4:], box=(4, 32)), out), shared_mem=2048)
    assert np.array_equal(hl.asnumpy(out)[64:96], hl.asnumpy(base)[2, 12:44]), "row 0 of the view is row 2 of the box"
    assert not hl.asnumpy(out)[:64].any(), "rows above the view are zero"


def test_the_same_refusals(module, cupy):
    with pytest.raises(hl.LaunchError, match="an array of host memory"):
        module.get_function("add")((1,), (32,), (np.zeros(4, np.float32),) * 2 + (np.int32(4),))
    with pytest.raises(hl.LaunchError, match="Python int"):
        module.get_function("add")((1,), (32,), (cupy.zeros(4, np.float32),) * 2 + (4,))
    with pytest.raises(hl.LaunchError, match="a view with gaps"):
        module.get_function("reverse")((1,), (32,), (cupy.zeros((8, 8), np.int32)[:, ::2],))
    with pytest.raises(hl.LaunchError, match="a tensor map of host memory"):
        here = hl.TensorMap.tiled(np.zeros((64, 64), np.float32), box=(4, 4))
        module.get_function("load")((1,), (32,), (here, cupy.zeros(4, np.float32)))


def test_a_broken_rule_is_named_before_the_driver_sees_it(cupy):
    with pytest.raises(hl.TensorMapError, match=r"box_dim\[0\] = 257"):
        hl.TensorMap.tiled(cupy.zeros((8, 512), np.float32), box=(4, 257))


def test_foreign_ptx_runs_too(module, cupy):
    a = cupy.arange(32, dtype=np.int32)
    hl.RawModule(ptx=module.ptx, backend="gpu").get_function("reverse")((1,), (32,), (a,), shared_mem=128)
    assert hl.asnumpy(a)[0] == 31


def test_emulate_runs_cupy_arrays_in_the_emulator(module, cupy):
    base = cupy.arange(64, dtype=np.float32)
    with hl.emulate() as run:
        module.get_function("add")((1,), (128,), (base[32:], base, np.int32(32)))
    assert np.array_equal(hl.asnumpy(base)[:32], np.arange(32) + np.arange(32, 64)), "views of one array share a mirror"
    assert run.launches == 1
    array, out = cupy.arange(64 * 96, dtype=np.float32).reshape(64, 96), cupy.zeros(256, np.float32)
    with hl.emulate():
        module.get_function("load")((1,), (32,), (hl.TensorMap.tiled(array, box=(4, 32)), out), shared_mem=2048)
    assert np.array_equal(hl.asnumpy(out)[64:96], hl.asnumpy(array)[0, 8:40])


def test_a_crash_costs_the_worker_only(module, cupy):
    a = cupy.zeros(32, np.int32)
    with pytest.raises(hl.IsolatedError, match="lost to this process|illegal") as caught:
        hl.run_isolated(module.get_function("wild"), (1,), (1,), (a,))
    assert caught.value.kind == "GpuError"
    assert (a + 1).sum() == 32, "this process's context lives"


def test_a_hang_costs_the_worker_only(module, cupy):
    a = cupy.zeros(1, np.int32)
    with pytest.raises(hl.IsolatedError) as caught:
        hl.run_isolated(module.get_function("endless"), (1,), (1,), (a,), timeout=2)
    assert caught.value.kind == "timeout"
    b = cupy.arange(32, dtype=np.int32)
    result = hl.run_isolated(module.get_function("reverse"), (1,), (32,), (b,), shared_mem=128)
    assert hl.asnumpy(b)[0] == 31 and result.place == "gpu"


def test_48_kib_of_dynamic_shared_memory_beside_a_static_part(module, cupy):
    a = cupy.arange(32, dtype=np.int32)
    module.get_function("with_static")((1,), (32,), (a,), shared_mem=48 * 1024)
    assert hl.asnumpy(a).tolist() == [38 - i for i in range(32)]


def test_cuda_errors_are_explained():
    from hopperlab.runtime.gpu import launch
    with pytest.raises(GpuError, match="nonsense"):
        launch.get_function(launch.load(b"this is no cubin"), "nonsense")


def test_every_compilation_has_its_log():
    """With a driver, NVRTC may take a result from the driver's cache, and that has no log: no registers, no notes."""
    from hopperlab.runtime.compile.nvrtc import Source, compile_source
    source = Source('extern "C" __global__ void k(float* p) { p[threadIdx.x] *= 2; }')
    assert [list(compile_source(source, use_cache=False).info.kernels) for _ in range(3)] == [["k"]] * 3
