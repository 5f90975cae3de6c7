# SPDX-License-Identifier: Apache-2.0
"""Compilation: messages, cache keys, notes, what the PTX says of its files."""
import os
import re
import subprocess
import sys

import pytest
from support.patience import PATIENCE

from hopperlab.runtime.compile import barrier_counts, cache, nvrtc as compiling, nvrtc_program, toolchain
from hopperlab.runtime.compile.nvrtc import Source, compile_source
from hopperlab.runtime.errors import CompileError, NoteError

ADD = """extern "C" __global__ void add(const float* a, float* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] += a[i];
}
"""
SETMAXNREG = 'extern "C" __global__ void f() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }'


@pytest.fixture
def runs(monkeypatch):
    """Counts real compilations."""
    made = []
    real = compiling._run_nvrtc
    monkeypatch.setattr(compiling, "_run_nvrtc", lambda *a: made.append(a[0].name) or real(*a))
    return made


def test_ptx_and_cubin_come_from_one_compilation(runs):
    result = compile_source(Source(ADD, "add.cu"))
    assert ".target sm_90a" in result.ptx and ".entry add" in result.ptx
    assert result.cubin[:4] == b"\x7fELF"
    assert result.info["add"].registers > 0
    assert runs == ["add.cu"]


def test_the_second_time_comes_from_disk_and_is_equal(runs):
    first, second = compile_source(Source(ADD)), compile_source(Source(ADD))
    assert first == second and len(runs) == 1
    assert "Compile time" not in first.log, "times would make equal compilations differ"


@pytest.mark.parametrize("changed", [
    Source(ADD + "\n"), Source(ADD, "other.cu"), Source(ADD, options=("-DX=1",)), Source(ADD, arch="sm_90"),
], ids=["source", "name", "options", "target"])
def test_whatever_changes_the_result_changes_the_key(runs, changed):
    compile_source(Source(ADD))
    compile_source(changed)
    assert len(runs) == 2


def test_a_changed_header_compiles_again(runs, tmp_path):
    (tmp_path / "inner.cuh").write_text("#define VALUE 3\n")
    (tmp_path / "outer.cuh").write_text('#include "inner.cuh"\n')
    source = Source('#include "outer.cuh"\nextern "C" __global__ void f(int* a) { *a = VALUE; }', options=(f"-I{tmp_path}",))
    assert re.search(r"\b3;", compile_source(source).ptx)
    compile_source(source)
    (tmp_path / "inner.cuh").write_text("#define VALUE 77\n")
    assert re.search(r"\b77;", compile_source(source).ptx)
    assert len(runs) == 2


def test_another_compiler_version_compiles_again(runs, monkeypatch):
    compile_source(Source(ADD))
    monkeypatch.setattr(toolchain, "compiler_version", lambda: "99.0")
    compile_source(Source(ADD))
    assert len(runs) == 2


def test_a_corrupt_cache_file_is_compiled_again(runs, own_cache):
    first = compile_source(Source(ADD))
    path, = own_cache.glob("*/*.hlc")
    path.write_bytes(path.read_bytes()[:-7] + b"garbage")
    assert compile_source(Source(ADD)) == first
    assert len(runs) == 2
    assert compile_source(Source(ADD)) == first and len(runs) == 2, "the good result is back on disk"


def test_errors_carry_the_log_with_the_sources_own_lines():
    with pytest.raises(CompileError) as caught:
        compile_source(Source("// one\n// two\n" + ADD.replace("int n)", "int m)"), "lesson.cu"))
    assert "lesson.cu does not compile" in str(caught.value)
    assert 'lesson.cu(5): error: identifier "n" is undefined' in caught.value.log
    assert "ptxas" not in caught.value.log and os.getcwd() not in caught.value.log
    assert caught.value._render_traceback_() == [f"CompileError: {caught.value}"]


def test_an_error_in_a_header_names_the_header(tmp_path):
    (tmp_path / "broken.cuh").write_text("\n\nint f( {\n")
    with pytest.raises(CompileError, match=r"(?m)^broken\.cuh\(3\): error"):
        compile_source(Source('#include "broken.cuh"', options=(f"-I{tmp_path}",)))


def test_what_ptxas_rejects_is_a_compile_error():
    code = 'extern "C" __global__ void f() { asm volatile("setmaxnreg.dec.sync.aligned.u32 7;"); }'
    with pytest.raises(CompileError, match="setmaxnreg"):
        compile_source(Source(code))


def test_a_failed_compilation_is_not_cached(own_cache):
    with pytest.raises(CompileError):
        compile_source(Source("nonsense"))
    assert cache.size_and_count() == (0, 0)


def test_an_unknown_option_is_a_compile_error_that_names_it():
    with pytest.raises(CompileError, match="--no-such-option"):
        compile_source(Source(ADD, options=("--no-such-option",)))


def test_options_as_one_string_are_refused():
    with pytest.raises(TypeError, match=r'options=\("-DX=1",\)'):
        compile_source(Source(ADD, options="-DX=1"))


def test_a_serious_note_is_an_error_where_it_is_asked_for():
    result = compile_source(Source(SETMAXNREG, "roles.cu"))
    with pytest.raises(NoteError, match="(?s)roles.cu compiles, but does not run as written.*C7508.*__launch_bounds__"):
        compiling.check_notes(result)
    compiling.check_notes(compile_source(Source(ADD)))


def test_ptx_names_files_as_the_reader_knows_them():
    code = '#include <hopperlab/mbarrier.cuh>\n#include "cuda_bf16.h"\n' + ADD
    ptx = compile_source(Source(code, "lessons/add.cu")).ptx
    files = re.findall(r'\.file\s+\d+ "([^"]+)"', ptx)
    assert "lessons/add.cu" in files and not any(os.path.isabs(f) for f in files)
    assert os.getcwd() not in ptx


def test_files_that_line_directives_name_are_no_paths_either():
    ptx = compile_source(Source(f'#line 1 "folder/above.cu"\n#include <hopperlab/mbarrier.cuh>\n  # line 7 "repair.cu"\n{ADD}', "add.cu"), use_cache=False).ptx
    assert '"repair.cu"' in ptx and not any(os.path.isabs(f) for f in re.findall(r'\.file\s+\d+ "([^"]+)"', ptx)) and os.getcwd() not in ptx


def test_the_working_folder_does_not_matter(tmp_path, monkeypatch):
    here = compile_source(Source(ADD, "add.cu"), use_cache=False)
    monkeypatch.chdir(tmp_path)
    assert compile_source(Source(ADD, "add.cu"), use_cache=False).ptx == here.ptx


def test_templates_by_name_expression():
    code = "template <int N> __global__ void fill(int* a) { a[threadIdx.x] = N; }"
    result = compile_source(Source(code, name_expressions=("fill<7>",)))
    assert result.lowered["fill<7>"] in result.ptx
    assert compile_source(Source(code, name_expressions=("fill<7>",))) == result


@pytest.mark.parametrize("debug", ["-G", "--device-debug"])
@pytest.mark.sampled(every=2)
def test_a_debug_build_leaves_nothing_behind(debug):
    """NVRTC keeps what -G switches on for later programs of the process, so such a build has a process of its own."""
    text = toolchain.read_source(toolchain.KERNELS / "copy/tma_copy.cu")
    before = compile_source(Source(text, "copy/tma_copy.cu"), use_cache=False).ptx
    built = compile_source(Source(ADD, "k.cu", (debug,)), use_cache=False)
    assert ".target sm_90a, debug" in built.ptx and built.cubin
    assert compile_source(Source(text, "copy/tma_copy.cu"), use_cache=False).ptx == before
    with pytest.raises(CompileError, match="identifier"):
        compile_source(Source("int x = y;", "k.cu", (debug,)), use_cache=False)


def test_precompiled_headers_give_the_same_ptx():
    code = "#include <cuda/std/cstdint>\n" + ADD
    cold = compile_source(Source(code), use_cache=False)
    warm = compile_source(Source(code), use_cache=False)
    assert cold.ptx == warm.ptx and cold.log == warm.log
    assert "precompiled" not in warm.log


TWO = """
from hopperlab.runtime.compile.nvrtc import Source, compile_source
print(len(compile_source(Source(open({path!r}).read(), "add.cu")).ptx))
"""


def test_two_processes_at_once_agree(tmp_path, own_cache):
    (tmp_path / "add.cu").write_text(ADD)
    command = [sys.executable, "-c", TWO.format(path=str(tmp_path / "add.cu"))]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120 * PATIENCE)[0] for process in processes]
    assert [p.returncode for p in processes] == [0, 0]
    assert outputs[0] == outputs[1]
    assert cache.size_and_count()[1] == 1


NO_ARRIVALS = """#include <hopperlab/mbarrier.cuh>
constexpr int NOBODY = 0;
extern "C" __global__ void f(int n) {
    __shared__ mbarrier_t full[2];
    INIT
    mbarrier_wait_parity(&full[0], 0);
}
"""


@pytest.mark.parametrize("init", [
    "mbarrier_init(&full[0], 0);", "mbarrier_init(&full[0], 0), mbarrier_init(&full[1], 4);",
    "mbarrier_init(&full[0], NOBODY);", "for (int i = 0; i < 2; i++) mbarrier_init(&full[i], n * 0);",
    'asm volatile("mbarrier.init.shared::cta.b64 [%0], 0;" :: "r"(shared_address(full)) : "memory");'])
def test_an_mbarrier_for_no_arrivals_is_an_error_and_ends_no_process(init):
    """ptxas dies of it: asked in this process, the test would end with it."""
    with pytest.raises(CompileError, match=re.escape("none.cu(5): error: this mbarrier is initialised for 0 arrivals")) as error:
        compile_source(Source(NO_ARRIVALS.replace("INIT", init), "none.cu"))
    assert "1 to 1048575" in str(error.value)


@pytest.mark.parametrize("init", ["mbarrier_init(&full[0], 1);", "mbarrier_init(&full[0], NOBODY + 2);", "mbarrier_init(&full[0], n);"])
def test_other_counts_compile(init):
    assert compile_source(Source(NO_ARRIVALS.replace("INIT", init), "some.cu")).cubin


INIT = "mbarrier_init(&b, N);"


@pytest.mark.parametrize("code, options, doubtful", [
    ("N is nowhere;", (), True), ("#define N 2", (), False), ("#define N 2", ("-DN=0",), True), ("#define N 0", ("-DN=3",), False),
    ("#define N (2 * 3u)  // six", (), False),
    ("constexpr int M = 3, N = M - 1;", (), False), ("constexpr int M = 3, N = M - 3;", (), True), ("constexpr int N = M - 1;\n#define M 1", (), True),
    ("enum { A = 1, N = 2 * A };", (), False), ("constexpr int N = 0x10;", (), False), ("constexpr int N = f(3);", (), True),
    ("constexpr int N = 9 ** 9 ** 9;", (), True),
    ("constexpr int N = 4; void f(int N) {", (), True), ("constexpr int N = 4; void f() { int N = 0;", (), True), ("template <int N>", (), True),
    ("template <int N = 4>", (), True), ("int N = 2; N--;", (), True), ("int N{0};", (), True), ("// N = 4\n", (), True), ("constexpr int N = 5 / 0;", (), True),
    ("constexpr int N = 1e400;", (), True), ("constexpr int N = 8(3);", (), True), ("constexpr int N = -(2 - 6) * 2;", (), False)])
def test_a_count_is_plain_where_every_value_of_its_names_is_known(code, options, doubtful):
    assert barrier_counts.doubtful(code + "\n" + INIT + " // barrier", options) == doubtful


@pytest.mark.parametrize("init, asked", [("mbarrier_init(&full[0], 1); fence_mbarrier_init_release_cluster();", 1), ("mbarrier_init(&full[0], NOBODY + 2);", 1),
                                         ("mbarrier_init(&full[0], n ? 2 : 2 * 4);", 1), ("mbarrier_init(&full[0], NOBODY + n);", 2)])
def test_only_a_count_that_may_be_0_has_the_program_compiled_twice(init, asked, monkeypatch):
    asks, here = [], nvrtc_program._here
    monkeypatch.setattr(nvrtc_program, "_here", lambda program: asks.append(program) or here(program))
    compile_source(Source("#include <hopperlab/fence.cuh>\n" + NO_ARRIVALS.replace("INIT", init), "some.cu"), use_cache=False)
    assert len(asks) == asked


def test_an_empty_log_changes_no_bytes_of_python():
    """NVRTC writes the log's closing 0 into what it is given; the bytes of length 1 are shared by the whole process."""
    program = nvrtc_program.Program('extern "C" __global__ void f() {}', "empty.cu", ("--gpu-architecture=compute_90a",))
    assert nvrtc_program.compile_program(program)[1] == ""
    assert [bytes([number])[0] for number in range(256)] == list(range(256))


@pytest.mark.parametrize("code, told", [
    ("template <class T> concept Small = sizeof(T) <= 4;", 'options=("-std=c++20",)'), ("__device__ at::Half x;", "PyTorch's headers are the host's, and empty here"),
    ("#include <curand_kernel.h>", "python -m pip install nvidia-curand"), ("#include <torch/extension.h>", "is of a host library. Give the file"),
    ("#include <nowhere.cuh>", "nowhere.cuh is in none of the folders"),
    ("struct A { template <int B = 1> __device__ static typename E<(B > 0)>::t f(); template <int B = 1> __device__ typename E<(B < 0)>::t f() const; };",
     "NVRTC does not: make both static, or neither")])
def test_advice_on_what_nvcc_takes_or_has(code, told):
    with pytest.raises(CompileError) as caught:
        compile_source(Source("template <bool> struct E;\n" + code, "add.cu"))
    assert told in str(caught.value).rsplit("->", 1)[-1]


@pytest.mark.parametrize(("code", "told", "not_told"), [
    (ADD.replace("__global__", "__globl__"), "Begin with the first error", "sanitize"),
    ("int twice(int a) { return 2 * a; }\n" + ADD.replace("a[i]", "twice(i)"), "What a kernel calls needs __device__ before it. Host code", "Begin with"),
    (ADD.replace("b[i]", "c[i]"), 'identifier "c" is undefined', "->")])
def test_advice_on_host_code_only_where_the_first_error_is_about_it(code, told, not_told):
    with pytest.raises(CompileError) as caught:
        compile_source(Source(code, "add.cu"))
    assert told in str(caught.value) and not_told not in str(caught.value)
