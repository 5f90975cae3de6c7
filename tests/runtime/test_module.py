# SPDX-License-Identifier: Apache-2.0
"""RawModule and RawKernel in the emulator: compile, look up, launch, refuse."""
import warnings

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime.compile import assemble

ADD = """extern "C" __global__ void __launch_bounds__(256) add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
extern "C" __global__ void past_the_end(const int* a, int* b) { b[threadIdx.x] = a[threadIdx.x + 8]; }
extern "C" __global__ void reverse(int* a) {
    extern __shared__ int tile[];
    tile[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
extern "C" __global__ void fixed(int* a) { __shared__ int tile[1024]; tile[threadIdx.x] = 1; __syncthreads(); a[0] = tile[0]; }
"""
TEMPLATE = "template <int N> __global__ void fill(int* a) { a[threadIdx.x] = N; }"
SETMAXNREG = 'extern "C" __global__ void f() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }'


@pytest.fixture(scope="module")
def module():
    return hl.RawModule(code=ADD, backend="emulator", name="add.cu")


def test_a_launch_with_plain_numpy_arrays(module):
    n = 1000
    a, b, c = np.arange(n, dtype=np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
    module.get_function("add")((4,), (256,), (a, b, c, np.int32(n)))
    assert np.array_equal(c, a + 1)


def test_a_launch_with_the_array_module(module):
    xp = hl.array_module("emulator")
    a = xp.arange(64, dtype=np.int32)
    module.get_function("reverse")((1,), (64,), (a,), shared_mem=256)
    assert a.tolist() == list(range(63, -1, -1))


def test_pointers_travel_as_numbers(module):
    xp = hl.array_module("emulator")
    a, b, c = xp.ones(32, np.float32), xp.ones(32, np.float32), xp.zeros(32, np.float32)
    module.get_function("add")((1,), (32,), (a.data.ptr, np.uint64(b.data.ptr), c, np.int32(32)))
    assert c.sum() == 64


def test_over_48_kib_of_shared_memory_just_works(module):
    kernel = module.get_function("reverse")
    a = np.arange(32, dtype=np.int32)
    kernel((1,), (32,), (a,), shared_mem=100_000)
    assert a[0] == 31 and kernel.max_dynamic_shared_size_bytes == 100_000


def test_cupys_attribute_names(module):
    kernel = module.get_function("fixed")
    assert kernel.num_regs > 0 and kernel.shared_size_bytes == 4096 and kernel.max_threads_per_block == 1024
    assert module.get_function("add").max_threads_per_block == 256
    assert set(kernel.attributes) >= {"num_regs", "shared_size_bytes", "local_size_bytes", "const_size_bytes"}
    kernel.max_dynamic_shared_size_bytes = 1000
    assert kernel.max_dynamic_shared_size_bytes == 1000
    with pytest.raises(hl.LaunchError, match="4096 static"):
        kernel.max_dynamic_shared_size_bytes = 232_448


def test_ptx_and_what_ptxas_says(module):
    assert ".entry reverse" in module.ptx
    assert set(module.ptxas_info) == {"add", "past_the_end", "reverse", "fixed"}
    assert module.ptxas_info["fixed"].static_shared == 4096 and "fixed" in str(module.ptxas_info)
    assert module.source == ADD and module.cubin[:4] == b"\x7fELF"
    assert "add.cu" in repr(module) and "add" in repr(module.get_function("add"))


def test_a_name_that_does_not_exist(module):
    with pytest.raises(hl.KernelNotFound, match="add.cu has no kernel 'gemm'; it has: add, past_the_end, reverse, fixed"):
        module.get_function("gemm")


def test_a_mangled_name_comes_with_advice():
    code = "namespace n { __global__ void plain(int* y) { y[0] = 1; } }\ntemplate <int N> __global__ void fill() {}\ntemplate __global__ void fill<4>();"
    module = hl.RawModule(code=code, backend="emulator")
    with pytest.raises(hl.KernelNotFound, match=r'name_expressions=\("n::plain",\) get_function\("n::plain"\) finds it; with extern "C"'):
        module.get_function("plain")
    assert hl.RawModule(code=code, backend="emulator", name_expressions=("n::plain",)).get_function("n::plain").name == "n::plain"
    with pytest.raises(hl.KernelNotFound, match='Declare it extern "C", or name the template instance'):
        module.get_function("fill")
    with pytest.raises(hl.KernelNotFound, match="it has: none"):
        hl.RawModule(code="__device__ int x;", backend="emulator").get_function("plain")


def test_a_mangled_name_does_not_hide_what_is_wrong():
    deep = "deep<" + "W<" * 90 + "int" + ">" * 91
    code = "template <class T> struct W {};\ntemplate <class T> __global__ void deep(int* y) { y[0] = 1; }\n"
    module = hl.RawModule(code=code, backend="emulator", name_expressions=(deep,))
    mangled, = module.signatures
    assert len(mangled) > 200
    for name, shown in ((mangled, "deep takes"), (deep, "deep<W<W<")):
        with pytest.raises(hl.LaunchError) as caught:
            module.get_function(name)((1,), (1,), ())
        assert str(caught.value).startswith(shown) and len(str(caught.value)) < 180


def test_foreign_ptx_gets_no_advice_about_cuda():
    with pytest.raises(hl.KernelNotFound) as caught:
        hl.RawModule(ptx=".version 8.0", backend="emulator").get_function("f")
    assert str(caught.value) == "kernel.ptx has no kernel 'f'; it has: none."


@pytest.mark.parametrize("source", [{"code": b"int x;"}, {"ptx": 7}])
def test_source_that_is_no_text(source):
    with pytest.raises(TypeError, match="source text as str, not"):
        hl.RawModule(**source)


def test_templates_by_name_expression():
    module = hl.RawModule(code=TEMPLATE, backend="emulator", name_expressions=["fill<7>", "fill<9>"])
    a = np.zeros(4, np.int32)
    module.get_function("fill<9>")((1,), (4,), (a,))
    assert a.tolist() == [9] * 4


def test_options_reach_the_compiler():
    code = 'extern "C" __global__ void f(int* a) { *a = VALUE; }'
    a = np.zeros(1, np.int32)
    hl.RawModule(code=code, options=("-DVALUE=41",), backend="emulator").get_function("f")((1,), (1,), (a,))
    assert a[0] == 41


def test_foreign_ptx(module):
    again = hl.RawModule(ptx=module.ptx, backend="emulator")
    a = np.arange(32, dtype=np.int32)
    again.get_function("reverse")((1,), (32,), (a,), shared_mem=128)
    assert a[0] == 31 and "_assembled" not in vars(again), "a launch does not wait for ptxas"
    assert set(again.ptxas_info) == (set(module.ptxas_info) if assemble.ptxas() else set())


@pytest.mark.parametrize("kwargs", [{}, {"code": ADD, "ptx": "x"}])
def test_code_or_ptx(kwargs):
    with pytest.raises(TypeError, match="either code="):
        hl.RawModule(backend="emulator", **kwargs)


def test_options_as_one_string():
    with pytest.raises(TypeError, match="options must be a tuple"):
        hl.RawModule(code=ADD, options="-DX=1", backend="emulator")


def test_source_that_does_not_compile():
    with pytest.raises(hl.CompileError, match=r"wrong.cu\(1\): error"):
        hl.RawModule(code="int f( {", backend="emulator", name="wrong.cu")


def test_serious_notes_warn_and_strict_modules_refuse():
    with pytest.warns(hl.PtxasWarning, match="C7508"):
        hl.RawModule(code=SETMAXNREG, backend="emulator")
    with pytest.raises(hl.NoteError, match="C7508"):
        hl.RawModule(code=SETMAXNREG, backend="emulator", strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hl.RawModule(code=ADD, backend="emulator", strict=True)


def test_a_refused_launch_runs_nothing(module):
    c = np.zeros(32, np.float32)
    with pytest.raises(hl.LaunchError, match="add, argument 4 is a Python int"):
        module.get_function("add")((1,), (32,), (c, c, c, 32))
    with pytest.raises(hl.LaunchError, match="512 threads, but its __launch_bounds__ allow 256"):
        module.get_function("add")((1,), (512,), (c, c, c, np.int32(32)))
    assert not c.any()


def test_a_kernel_that_reads_past_its_array_is_stopped(module):
    a, b = np.zeros(32, np.int32), np.zeros(64, np.int32)
    with pytest.raises(hl.MemoryFault) as caught:
        module.get_function("past_the_end")((1,), (32,), (a, b))
    text = str(caught.value)
    assert "add.cu:5" in text and "thread 24" in text, "the file and the line of the read, and who read"
    assert "0 bytes past the end of argument 1 (int32, shape (32,))" in text
    assert caught.value._render_traceback_()


def test_the_same_text_is_translated_once(module):
    again = hl.RawModule(code=ADD, backend="emulator", name="add.cu")
    assert again.program.translation("add") is module.program.translation("add")


def test_two_modules_have_device_variables_of_their_own():
    code = '__device__ int counter = 5; extern "C" __global__ void count(int* a) { counter += 1; *a = counter; }'
    one, two = (hl.RawModule(code=code, backend="emulator").get_function("count") for _ in range(2))
    a = np.zeros(1, np.int32)
    seen = []
    for kernel in (one, one, two):
        kernel((1,), (1,), (a,))
        seen.append(int(a[0]))
    assert seen == [6, 7, 6], "a variable lives as long as its module"
