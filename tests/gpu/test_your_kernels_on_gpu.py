# SPDX-License-Identifier: Apache-2.0
"""What others' kernels need, on the GPU as in the emulator: launch attributes, constants, maps by address, PTX of Triton and CuTe DSL."""
import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime import launch_attributes
from hopperlab.runtime.errors import BackendError, GpuError, VariableNotFound
from hopperlab.runtime.triton_kernels import to_ptx
from hopperlab.runtime.triton_kernels.kernel import from_triton
from runtime.triton_kernels.cases import CASES, STORED, stored_ptx

ROOM = Path(__file__).parents[1] / "runtime"


def test_module(name):
    """A test file of the emulator, for its sources."""
    spec = importlib.util.spec_from_file_location(name, ROOM / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


test_module.__test__ = False
CLUSTERS, VARIABLES = test_module("test_launch_attributes"), test_module("test_variables")


@pytest.fixture(scope="module")
def clusters():
    return hl.RawModule(code=CLUSTERS.CODE, backend="gpu", name="clusters.cu")


@pytest.mark.parametrize("size", [1, 2, 3, 8, 16])
def test_the_launch_says_how_large_clusters_are(cupy, clusters, size):
    y = cupy.zeros(48, cupy.int32)
    clusters.get_function("free_size")((48,), (32,), (y,), cluster=(size, 1, 1))
    hl.synchronize("gpu")
    assert y.get().tolist() == CLUSTERS.expected(48, size)


def test_compiled_clusters_of_sixteen_are_opted_into(cupy):
    module = hl.RawModule(code=CLUSTERS.CODE.replace("__cluster_dims__(2)", "__cluster_dims__(16)"), backend="gpu")
    y = cupy.zeros(32, cupy.int32)
    module.get_function("fixed")((32,), (32,), (y,))
    hl.synchronize("gpu")
    assert y.get().tolist() == CLUSTERS.expected(32, 16)


def test_a_cooperative_launch_and_one_on_a_stream(cupy, clusters):
    y, kernel = cupy.zeros(133, cupy.int32), clusters.get_function("meet")
    kernel((132,), (32,), (y,))                                     # launched cooperatively, since it meets in the grid
    hl.synchronize("gpu")
    assert y.get()[132] == 132
    stream, z = cupy.cuda.Stream(), cupy.zeros(8, cupy.int32)
    with stream:
        clusters.get_function("free_size")((8,), (32,), (z,), cluster=4)
        clusters.get_function("free_size")((8,), (32,), (z,), cluster=2, stream=stream)
    stream.synchronize()
    assert z.get().tolist() == CLUSTERS.expected(8, 2)


def test_a_cooperative_grid_that_is_too_large_is_refused_by_the_driver_too(cupy, clusters, monkeypatch):
    monkeypatch.setattr(launch_attributes, "_resident", lambda *given: None)
    with pytest.raises(GpuError, match="COOPERATIVE_LAUNCH_TOO_LARGE"):
        clusters.get_function("meet")((100_000,), (32,), (cupy.zeros(100_001, cupy.int32),), cooperative=True)


@pytest.mark.parametrize("cluster", [None, (2, 1, 1)])
def test_every_kind_of_parameter_reaches_the_kernel_through_attributes(cupy, cluster):
    code = """struct S { int a; double b; }; struct alignas(64) M { char bytes[128]; };
    extern "C" __global__ void k(float* y, char c, double d, const __grid_constant__ M m, S s, const float* x) {
        if (blockIdx.x == 0) { y[0] = c; y[1] = d; y[2] = s.a + s.b; y[3] = x[1]; int set = 0; for (int i = 0; i < 128; i++) set += m.bytes[i] != 0; y[4] = set > 8; }
    }"""
    y, x = cupy.zeros(5, cupy.float32), cupy.arange(4, dtype=cupy.float32)
    structure = np.frombuffer(np.array([(3, 0, 4.5)], "i4,i4,f8").tobytes(), "V16")[0]
    tensor_map = hl.TensorMap.tiled(cupy.zeros((64, 64), cupy.float32), box=(8, 8))
    hl.RawModule(code=code, backend="gpu").get_function("k")((2,), (1,), (y, np.int8(7), 2.5, tensor_map, structure, x), cluster=cluster)
    hl.synchronize("gpu")
    assert y.get().tolist() == [7, 2.5, 7.5, 1, 1]


@pytest.fixture
def variables():
    return hl.RawModule(code=VARIABLES.CODE, backend="gpu", name="variables.cu", name_expressions=("&inner::deep",))


def test_constants_are_cupys(cupy, variables):
    factor = cupy.ndarray((4,), cupy.float32, variables.get_global("factor"))
    factor[...] = cupy.array([1, 2, 3, 4], cupy.float32)
    counter = cupy.ndarray((1,), cupy.int32, variables.get_global("counter"))
    x, y = cupy.ones(8, cupy.float32), cupy.zeros(8, cupy.float32)
    kernel = variables.get_function("scale")
    kernel((1,), (8,), (x, y))
    assert y.get().tolist() == [4, 5, 6, 7] * 2 and counter.get()[0] == 6
    with hl.emulate():                                              # the emulator has the same values in the variables, and gives them back
        kernel((1,), (8,), (x, y))
    assert y.get().tolist() == [4, 5, 6, 7] * 2 and counter.get()[0] == 7
    with pytest.raises(VariableNotFound, match="has no variable 'nothing'"):
        variables.get_global("nothing")


def test_tensor_maps_in_constants_and_by_address(cupy, variables):
    x, y = cupy.arange(64 * 64, dtype=cupy.float32).reshape(64, 64), cupy.zeros(256, cupy.float32)
    tensor_map = hl.TensorMap.tiled(x, box=(16, 16))
    wanted = x.get()[4:20, 8:24]
    cupy.ndarray((128,), cupy.uint8, variables.get_global("map"))[...] = cupy.asarray(np.frombuffer(bytes(tensor_map), np.uint8))
    variables.get_function("constant_map")((1,), (64,), (y,))
    assert (y.get().reshape(16, 16) == wanted).all()
    with hl.emulate(), pytest.raises(BackendError, match="a tensor map of the GPU lies in a variable"):
        variables.get_function("constant_map")((1,), (64,), (y,))
    other = hl.RawModule(code=VARIABLES.CODE, backend="gpu").get_function("pointed_map")
    for _ in range(2):
        y.fill(0)
        other((1,), (64,), (tensor_map, y))
        assert (y.get().reshape(16, 16) == wanted).all()
    y.fill(0)
    with hl.emulate():
        other((1,), (64,), (tensor_map, y))
    assert (y.get().reshape(16, 16) == wanted).all()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.hazards])
def test_stored_kernels_of_triton_are_right_here_too(cupy, monkeypatch, name):
    case = CASES[name]
    told = json.loads((STORED / "stored.json").read_text())["cases"][name]
    fixed = {**case.constexprs, **case.gluon}
    built = to_ptx.Built(ptx=stored_ptx(name).read_text(), **{key: tuple(value) if isinstance(value, list) else value for key, value in told["built"].items()})
    monkeypatch.setattr(to_ptx, "parameters", lambda kernel: [SimpleNamespace(name=n, is_constexpr=n in fixed, has_default=False) for n in told["parameters"]])
    monkeypatch.setattr(to_ptx, "build", lambda *given: built)
    kernel = from_triton(SimpleNamespace(__name__=case.kernel), case.signature, fixed, backend="gpu")
    host = case.arguments()
    bits = [array.view(np.uint16) if getattr(array, "dtype", None) is not None and array.dtype.name == "bfloat16" else array for array in host]
    given = [cupy.asarray(value) if isinstance(value, np.ndarray) else value for value in bits]
    kernel[case.grid](*given)
    hl.synchronize("gpu")
    assert case.right(tuple(cupy.asnumpy(value).view(old.dtype) if isinstance(old, np.ndarray) else old for value, old in zip(given, host, strict=True)))


@pytest.mark.parametrize("name, block, shared, written", [("scale", 64, 0, 1024), ("cute_scale", 128, 512, 512)])
def test_ptx_of_other_compilers_loads(cupy, name, block, shared, written):
    """The stored kernels lack a wait or a barrier: that they run, and write nothing else, is all that can be asked."""
    module = hl.RawModule(path=ROOM / "your_kernels" / f"{name}.ptx", backend="gpu")
    x, y = cupy.ones(1024, cupy.float32), cupy.zeros(1024, cupy.float32)
    module.get_function(module.kernel_names[0])((4,), (block,), (x, y, np.float32(2)), shared_mem=shared)
    hl.synchronize("gpu")
    assert not y.get()[written:].any()
