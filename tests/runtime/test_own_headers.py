# SPDX-License-Identifier: Apache-2.0
"""The caller's own headers: each #include means the file that it means to nvcc, whatever host code went, and messages name it as its reader does."""
import re

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime.compile import host_code, own_headers
from hopperlab.runtime.compile.clang import compiler as clang
from hopperlab.runtime.errors import CompileError

HOST = "int host() { return rand(); }\n"


def tree(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder / next(iter(files))


def value(path, *options):
    """What the one kernel of a file stores, and its module."""
    module, y = hl.RawModule(path=path, backend="emulator", options=options), np.zeros(1, np.int32)
    module.get_function(module.kernel_names[0])((1,), (1,), (y,))
    return int(y[0]), module


def kernel(call):
    return f"__global__ void k(int* y) {{ y[0] = {call}; }}\n"


def test_pragma_once_knows_a_file_by_another_path(tmp_path):
    main = tree(tmp_path, {"q/main.cu": '#include "../a.cuh"\n#include "../b.cuh"\n#include "u.cuh"\n' + kernel("f()"),
                           "q/u.cuh": '#pragma once\n#include "../a.cuh"\n',
                           "a.cuh": "#pragma once\nenum class Mode { A };\n__device__ inline int f() { return 7; }\n", "b.cuh": '#pragma once\n#include "a.cuh"\n'
                           + HOST})
    assert value(main)[0] == 7


def test_two_headers_of_one_name_are_found_beside_their_includers(tmp_path):
    main = tree(tmp_path, {"main.cu": '#include "top.cuh"\n' + kernel("10 * g(y) + h(y)"),
                           "inc/top.cuh": '#include "common/all.cuh"\n#include "ops/all.cuh"\n',
                           "inc/common/all.cuh": '#pragma once\n#include "util.cuh"\n',
                           "inc/common/util.cuh": "#pragma once\n__device__ inline int g(volatile int* y) { return y[0] + 1; }\n",
                           "inc/ops/all.cuh": '#pragma once\n#include "util.cuh"\n',
                           "inc/ops/util.cuh": '#pragma once\n#include "../common/all.cuh"\n__device__ inline int h(volatile int* y) { return y[0] + 2; }\n' + HOST})
    number, module = value(main, f"-I{tmp_path / 'inc'}")
    assert number == 12
    files = re.findall(r'\.file\s+\d+ "([^"]+)"', module.ptx)
    assert {"main.cu", "common/util.cuh", "ops/util.cuh"} <= set(files) and "hopperlab-headers" not in module.ptx


def test_a_header_outside_of_all_folders_and_errors_in_one(tmp_path):
    main = tree(tmp_path, {"q/main.cu": '#include "../a.cuh"\n' + kernel("f(y)"), "a.cuh": HOST + "__device__ int f(volatile int* y) { return y[0] + 3; }\n"})
    number, module = value(main)
    assert number == 3 and '"../a.cuh"' in module.ptx
    (tmp_path / "a.cuh").write_text(HOST + "__device__ int f(int*) { return nothing; }\n")
    with pytest.raises(CompileError, match=r'(?m)^\.\./a\.cuh\(2\): error: identifier "nothing" is undefined') as caught:
        value(main)
    assert "hopperlab-headers" not in str(caught.value)


@pytest.mark.parametrize("options", [["-I{}"], ["-I", "{}"], ["--include-path={}"], ["--include-path", "{}"]])
def test_every_way_to_name_a_folder(tmp_path, options):
    """A macro of its header marks device code, and its host code goes."""
    main = tree(tmp_path, {"src/a.cu": '#include "h.cuh"\nDI int f() { return 5; }\n' + kernel("f()"),
                           "inc/h.cuh": "#define DI static __device__ __forceinline__\n" + HOST})
    assert value(main, *(option.format(tmp_path / "inc") for option in options))[0] == 5


def test_the_sources_folder_comes_before_the_others(tmp_path):
    main = tree(tmp_path, {"src/a.cu": '#include "h.cuh"\n' + kernel("H"), "src/h.cuh": "#define H 1\n", "inc/h.cuh": "#define H 2\n" + HOST})
    assert value(main, f"-I{tmp_path / 'inc'}")[0] == 1


def test_marks_of_windows_editors(tmp_path):
    main = tree(tmp_path, {"a.cu": '\ufeff#include "h.cuh"\n' + kernel("H"), "h.cuh": "\ufeff#define H 4\n"})
    assert value(main)[0] == 4


def test_a_small_torch_header_of_ones_own_is_read(tmp_path):
    """PyTorch's own headers are left out, also where their folder is named."""
    main = tree(tmp_path, {"a.cu": '#include <ATen/ATen.h>\n#include <torch/extension.h>\ntypedef at::BFloat16 bf16;\nvoid f(at::Tensor);\n'
                                   + kernel("(int)(float)bf16(2.0f)"),
                           "mine/ATen/ATen.h": "#pragma once\n#include <cuda_bf16.h>\nnamespace at { typedef __nv_bfloat16 BFloat16; struct Tensor; }\n" + HOST,
                           "real/ATen/ATen.h": "#error whole\n", "real/torch/extension.h": "#error whole\n", "real/c10/util.h": ""})
    assert value(main, f"-I{tmp_path / 'mine'}")[0] == 2
    (tmp_path / "b.cu").write_text('#include <ATen/ATen.h>\nvoid f(at::Tensor);\n' + kernel("6"))
    assert value(tmp_path / "b.cu", f"-I{tmp_path / 'real'}")[0] == 6


def test_a_host_type_of_one_header_goes_in_another(tmp_path):
    main = tree(tmp_path, {"a.cu": '#include "b.cuh"\n#include "a.cuh"\n' + kernel("1"), "a.cuh": "using lt_handle = cublasLtHandle_t;\n",
                           "b.cuh": '#include "a.cuh"\nclass Context { lt_handle handle; Context() { lt_handle h; } };\nvoid f(lt_handle h);\n'})
    assert value(main)[0] == 1


def test_a_fragment_of_a_function_stays(tmp_path):
    main = tree(tmp_path, {"a.cu": '#include "h.cuh"\n__global__ void k(int* y) {\n#include "body.inc"\n}\n', "body.inc": "if (f(1)) { y[0] = 8; }\n",
                           "h.cuh": HOST + "__device__ int f(int x) { return x; }\n"})
    assert value(main)[0] == 8


def test_what_went_of_long_headers_is_kept(tmp_path, monkeypatch, own_cache):
    main = tree(tmp_path, {"a.cu": '#include "h.cuh"\n' + kernel("f()"), "h.cuh": HOST + "__device__ int f() { return 9; }\n"})
    monkeypatch.setattr(own_headers, "LONG", 10)
    read, real = [], host_code.stretches
    monkeypatch.setattr(host_code, "stretches", lambda text, *more: read.append(text) or real(text, *more))
    assert value(main)[0] == 9 and read
    read.clear()
    assert value(main)[0] == 9 and not read
    (tmp_path / "h.cuh").write_text(HOST + "__device__ int f() { return 11; }\n")
    assert value(main)[0] == 11 and read


@pytest.mark.skipif(clang.program() is None, reason="clang is not installed: pip install -e .[test]")
def test_clang_finds_them_too(tmp_path, monkeypatch):
    """With special registers written as NVRTC takes them."""
    monkeypatch.setenv("HOPPERLAB_COMPILER", "clang")
    asm = '{ unsigned x; asm volatile("mov.u32 %0, %laneid;" : "=r"(x)); return x + y[0]; }\n'
    main = tree(tmp_path, {"q/main.cu": '#include "../a.cuh"\n#include "../b.cuh"\n' + kernel("f(y)"), "b.cuh": '#include "a.cuh"\n',
                           "a.cuh": "#pragma once\n" + HOST + "__device__ int f(volatile int* y) " + asm})
    number, module = value(main)
    assert number == 0 and '"../a.cuh"' in module.ptx and "function_name" in module.ptx


def test_folders_of_cuda_are_not_the_callers(tmp_path):
    main = tree(tmp_path, {"a.cu": "#include <curand_kernel.h>\n" + kernel("rand4()"), "inc/curand_kernel.h": '#include "part.h"\n',
                           "inc/part.h": "__device__ int rand4() { return 4; }\n" + "int kept() { return 1; }\n"})
    headers = own_headers.without_host(main.read_text(), [tmp_path, tmp_path / "inc"])[1]
    assert headers == () and value(main, f"-I{tmp_path / 'inc'}")[0] == 4
