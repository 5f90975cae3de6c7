# SPDX-License-Identifier: Apache-2.0
"""Clang in NVRTC's place: which one compiles, what it says of errors, and that its kernels do in the emulator what NVRTC's do."""
import re

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.emulator import Program
from hopperlab.runtime.compile import assemble, nvrtc, toolchain
from hopperlab.runtime.compile.clang import compiler
from hopperlab.runtime.compile.nvrtc import Source, compile_source
from hopperlab.runtime.compile.own_headers import OwnHeader
from hopperlab.runtime.errors import CompileError, ToolchainError

here = pytest.mark.skipif(compiler.program() is None, reason="clang is not installed: pip install -e .[test]")


@pytest.fixture
def clang(monkeypatch):
    monkeypatch.setenv("HOPPERLAB_COMPILER", "clang")


def places(ptx: str, *begins: str) -> dict[str, set]:
    """Opcode -> where its instructions stand: (file, line) of each frame, outermost first. begins: of the opcodes that count."""
    program, found = Program(ptx), {}
    for name in program.kernels:
        for instr in program.function(name).body:
            if instr.op.startswith(begins):
                chain = tuple((site.file, site.line) for site in instr.site.chain) if instr.site else ()
                found.setdefault(".".join([instr.op, *instr.mods]), set()).add(chain)
    return found


@pytest.mark.parametrize("asked, nvrtc_here, clang_here, chosen", [
    (None, True, True, "nvrtc"), ("auto", True, False, "nvrtc"), ("auto", False, True, "clang"), ("", False, False, "nvrtc"), ("clang", True, True, "clang"),
    ("CLANG ", True, True, "clang"),
    ("nvrtc", False, True, "nvrtc")])
def test_the_compiler_is_nvrtc_unless_there_is_none_or_clang_is_asked_for(monkeypatch, asked, nvrtc_here, clang_here, chosen):
    monkeypatch.delenv("HOPPERLAB_COMPILER", raising=False)
    if asked is not None:
        monkeypatch.setenv("HOPPERLAB_COMPILER", asked)
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: nvrtc_here)
    monkeypatch.setattr(compiler, "program", lambda: "zig" if clang_here else None)
    assert toolchain.compiler() == chosen
    assert toolchain.compiler(only_nvrtc=True) == "nvrtc", "a GPU gets what NVRTC compiled"


def test_a_wrong_choice_is_named(monkeypatch):
    monkeypatch.setenv("HOPPERLAB_COMPILER", "gcc")
    with pytest.raises(ToolchainError, match="HOPPERLAB_COMPILER=gcc is unknown: choose nvrtc, clang or auto"):
        toolchain.compiler()
    monkeypatch.setenv("HOPPERLAB_COMPILER", "clang")
    monkeypatch.setattr(compiler, "program", lambda: None)
    with pytest.raises(ToolchainError, match="pip install ziglang"):
        toolchain.compiler()


@here
def test_an_error_has_file_line_and_caret(clang, tmp_path):
    (tmp_path / "mine.cuh").write_text("__device__ int wrong() { return missing; }\n")
    with pytest.raises(CompileError) as caught:
        compile_source(Source('#include "mine.cuh"\nextern "C" __global__ void k(int* a) {\n    a[0] = nothing + 1;\n}\n', "lesson/k.cu", (f"-I{tmp_path}",)))
    text = str(caught.value)
    assert text.startswith("lesson/k.cu does not compile:") and "lesson/k.cu:3:12: error: use of undeclared identifier 'nothing'" in text
    assert re.search(r"3 \|     a\[0\] = nothing \+ 1;\n +\| +\^", text) and "mine.cuh:1:" in text and str(tmp_path) not in text and "/tmp" not in text


@here
@pytest.mark.parametrize("code, named", [("a[0] = erfcinvf(1.0f);", "erfcinvf"), ("cuda::atomic_ref<int> r(a[0]);", "cuda")])
def test_what_only_nvidias_headers_have_is_said_to_be_theirs(clang, code, named):
    with pytest.raises(CompileError, match=rf"-> {named}: clang compiles with the course's small headers"):
        compile_source(Source(f'extern "C" __global__ void k(int* a) {{ {code} }}'))
    with pytest.raises(CompileError) as caught:
        compile_source(Source('extern "C" __global__ void k(int* a) { a[0] = b; }'))
    assert "small headers" not in str(caught.value)


@here
def test_results_of_both_compilers_are_kept_apart(monkeypatch):
    source = Source('extern "C" __global__ void k(int* a) { a[threadIdx.x] = 7; }')
    by = {}
    for name in ("nvrtc", "clang", "nvrtc", "clang"):
        monkeypatch.setenv("HOPPERLAB_COMPILER", name)
        by.setdefault(name, set()).add(compile_source(source).ptx)
    assert len(by["nvrtc"]) == len(by["clang"]) == 1 and by["nvrtc"] != by["clang"] and "LLVM" in by["clang"].pop()
    assert compile_source(source, only_nvrtc=True).cubin[:4] == b"\x7fELF"


@here
def test_a_changed_header_of_ours_makes_another_key(monkeypatch):
    source = Source("int x;")
    before = nvrtc.cache_key(source, {}, "clang")
    monkeypatch.setattr(compiler, "version", lambda: "ziglang 99")
    assert nvrtc.cache_key(source, {}, "clang") != before != nvrtc.cache_key(source, {}, "nvrtc")


@here
def test_the_same_source_gives_the_same_ptx_and_names_no_folder(clang, tmp_path, monkeypatch):
    source = Source(hl.kernel_source("gemm/tma_wgmma.cu"), "gemm/tma_wgmma.cu")
    first = compile_source(source, use_cache=False).ptx
    monkeypatch.chdir(tmp_path)
    assert compile_source(source, use_cache=False).ptx == first
    assert set(re.findall(r'\.file\s+\d+ "([^"]+)"', first)) >= {"gemm/tma_wgmma.cu", "hopperlab/tma.cuh"} and "hopperlab-clang-" not in first and "/tmp" not in first


@here
@pytest.mark.parametrize("name", ["start_here/kernel_3.cu", "gemm/shared_tile.cu", "gemm/cluster_multicast.cu", "gemm/two_consumers_128x256.cu"])
@pytest.mark.sampled(every=2)
def test_instructions_stand_where_nvrtc_says_that_they_stand(monkeypatch, name):
    found = {}
    for which in ("nvrtc", "clang"):
        monkeypatch.setenv("HOPPERLAB_COMPILER", which)
        ptx = compile_source(Source(hl.kernel_source(name), name)).ptx
        found[which] = places(ptx, "cp", "mbarrier", "wgmma", "bar", "fence", "setmaxnreg", "stmatrix", "mapa", "ld.shared")
        clusters = re.findall(r"\.reqnctapercluster.*|\.maxntid (\d+)", ptx)
        found[which]["launch"] = {(tuple(clusters),)}
    assert found["clang"] == found["nvrtc"]


FUNCTIONS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y, int* counts) {
    int t = threadIdx.x, lane = t % 32;
    float v = x[t];
    y[t] = __bfloat162float(__float2bfloat16(v)) + __half2float(__float2half(v)) + float(__nv_fp8_e4m3(v));
    __nv_bfloat162 pair = __floats2bfloat162_rn(v, 2 * v);
    y[64 + t] = (float)pair.x + (float)pair.y + __low2float(pair * pair);
    y[128 + t] = __shfl_xor_sync(0xffffffff, v, 5) + __shfl_sync(0xffffffff, v, 3) + __shfl_up_sync(0xffffffff, v, 1) + __shfl_down_sync(0xffffffff, v, 2, 16);
    y[192 + t] = expf(v) + logf(1 + v * v) + tanhf(v) + sqrtf(v * v) + fmaxf(v, 0.5f) + powf(1.5f, v) + sinf(v) * cosf(v) + rintf(3 * v);
    atomicAdd(counts, 1);
    atomicMax(counts + 1, t);
    if (__ballot_sync(0xffffffff, v > 0) >> lane & 1) atomicAdd((float*)counts + 2, 1.0f);
    if (t == 0) counts[3] = __popc(0xf0f0) + __clz(1) + __ffs(8) + min(3, 4u) + __byte_perm(0x01020304, 0, 0x3210) % 7;
}
"""


@here
def test_functions_without_nvidias_headers_give_what_they_give_with_them(monkeypatch):
    xp, results = hl.array_module(), {}
    x = xp.asarray(np.random.default_rng(41).standard_normal(64).astype(np.float32))
    for which in ("nvrtc", "clang"):
        monkeypatch.setenv("HOPPERLAB_COMPILER", which)
        y, counts = xp.zeros(256, dtype=xp.float32), xp.zeros(4, dtype=xp.int32)
        hl.RawModule(code=FUNCTIONS, backend="emulator").get_function("k")((1,), (64,), (x, y, counts))
        results[which] = np.array(y).reshape(4, 64), np.array(counts)
    (reference, counted), (found, counts) = results["nvrtc"], results["clang"]
    assert (found[:3] == reference[:3]).all() and (counts == counted).all()
    np.testing.assert_allclose(found[3], reference[3], rtol=2e-6, atol=2e-6)            # expf, logf and powf of our own: a few units in the last place


@here
def test_a_template_a_cluster_and_a_bare_register(clang):
    code = """
    template <int N> __global__ void __cluster_dims__(N) __launch_bounds__(32) k(int* a) {
        unsigned rank, lane;
        asm("mov.u32 %0, %cluster_ctarank;" : "=r"(rank));
        asm("mov.u32 %0, %%laneid;" : "=r"(lane));
        a[blockIdx.x * 32 + lane] = N * 100 + rank;
    }
    template <int N> __global__ void fill(int* a) { a[threadIdx.x] = N; }
    """
    xp = hl.array_module()
    module = hl.RawModule(code=code, name_expressions=("k<2>", "fill<7>", "&fill<8>"), backend="emulator")
    assert ".reqnctapercluster 2, 1, 1" in module.ptx and "__hl_asked" not in module.ptx
    a = xp.zeros(128, dtype=xp.int32)
    module.get_function("k<2>")((4,), (32,), (a,))
    assert np.array(a).reshape(4, 32)[:, 5].tolist() == [200, 201, 200, 201]
    module.get_function("&fill<8>")((1,), (32,), (a,))
    assert np.array(a)[:33].tolist() == [8] * 32 + [201]


@here
def test_headers_given_as_text_stand_before_files(clang, tmp_path):
    (tmp_path / "given.cuh").write_text("#define GIVEN 77\n")
    source = Source('#include "given.cuh"\nextern "C" __global__ void k(int* a) { a[0] = GIVEN; }', options=(f"-I{tmp_path}",),
                    headers=(OwnHeader(str(tmp_path / "given.cuh"), "given.cuh", "#define GIVEN 1234\n"),))
    assert "1234" in compile_source(source).ptx


@here
def test_registers_at_entry_are_known_without_ptxas(clang, monkeypatch):
    monkeypatch.setattr(assemble, "ptxas", lambda: None)
    kernel = hl.load_kernel("gemm/warp_specialized.cu", "gemm", ("-DSTAGES=4",), backend="emulator")
    assert kernel.module.launch_info["gemm"].registers == 168 and kernel.module.cubin == b""


def test_lines_that_directives_name_are_the_callers():
    """Of a statement over several lines, in each file that a source says it is made of."""
    code = ('#line 1 "whole.cu"\nextern "C" __global__ void k(int* y) {\n    __syncthreads();\n#line 1 "cell.cu"\n    atomicAdd(\n        y,\n        1);\n'
            '    __syncthreads();\n#line 9 "whole.cu"\n    __syncthreads();\n}\n')
    found = {}
    for name in ("nvrtc", "clang"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HOPPERLAB_COMPILER", name)
            program = Program(compile_source(Source(code, "whole.cu"), use_cache=False).ptx)
        found[name] = [(instr.op, instr.site.file, instr.site.line) for instr in program.function("k").body if instr.op in ("bar", "barrier", "atom") and instr.site]
    assert found["clang"] == found["nvrtc"] and [at[1:] for at in found["nvrtc"] if at[0].startswith("bar")] == [("whole.cu", 2), ("cell.cu", 4), ("whole.cu", 9)]
