# SPDX-License-Identifier: Apache-2.0
"""Where reports point: lines of the PTX where there are no others, the user's own line where functions and headers were inlined."""
import re

import hopperlab as hl
import numpy as np
import pytest
from hopperlab.emulator.ptx.ir import Instr, Site
from hopperlab.emulator.ptx.places import Place

HELPERS = r"""
__device__ __forceinline__ void put(float* s, float v) { s[threadIdx.x] = v; }
__device__ __forceinline__ float swap(float* s, float v) {
    put(s, v);
    return s[threadIdx.x ^ 33];
}
"""
KERNEL = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {
    __shared__ float s[64];
    y[threadIdx.x] = swap(s, x[threadIdx.x]);
}
"""


def run(kernel):
    with hl.emulate(hazards="collect") as session:
        kernel((1,), (64,), (np.ones(64, np.float32), np.zeros(64, np.float32)))
    return session.hazards


def bare(ptx: str) -> str:
    """PTX as nvcc gives it without -lineinfo."""
    kept = [line for line in ptx.split(".section")[0].splitlines() if not line.lstrip().startswith((".loc", ".file"))]
    return "\n".join(kept) + "\n"


def test_the_users_line_comes_first_and_then_the_functions():
    module = hl.RawModule(code=f'#line 1 "helpers.cuh"\n{HELPERS}#line 1 "mine.cu"\n{KERNEL}', backend="emulator", name="mine.cu")
    race, = run(module.get_function("k"))
    assert race.kind == "race" and race.where.file == race.other.file == "mine.cu" and race.where.line == race.other.line == 4
    assert "mine.cu:4 (in helpers.cuh:5)" in race.message and "mine.cu:4 (in helpers.cuh:2)" in race.message


@pytest.mark.parametrize("name", ["cuda_helpers.h", "cuda_kernels.hpp", "cuda/helpers.cuh", "include/cuda/helpers.h", "cooperative_groups_of_mine.h"])
def test_headers_that_are_called_like_cudas_are_their_authors(name):
    module = hl.RawModule(code=f'#line 1 "{name}"\n{HELPERS}#line 1 "mine.cu"\n{KERNEL}', backend="emulator", name="mine.cu")
    race, = run(module.get_function("k"))
    assert f"mine.cu:4 (in {name.rsplit('/', 1)[-1]}:5)" in race.message


@pytest.mark.parametrize("name", ["cuda_bf16.hpp", "cuda_pipeline_primitives.h", "cuda/pipeline", "/include/cuda/std/atomic", "cuda/__barrier/barrier.h",
                                  "cooperative_groups.h", "/include/cooperative_groups/details/sync.h"])
def test_what_is_inside_cudas_own_headers_is_not_told(name):
    module = hl.RawModule(code=f'#line 1 "{name}"\n{HELPERS}#line 1 "mine.cu"\n{KERNEL}', backend="emulator", name="mine.cu")
    race, = run(module.get_function("k"))
    assert "mine.cu:4" in race.message and "(in " not in race.message


@pytest.mark.parametrize("header", ["// made by hand\n\n", ""])
def test_ptx_without_lines_is_named_by_its_own(header):
    text = header + bare(hl.RawModule(code=HELPERS + KERNEL, backend="emulator").ptx)
    race, = run(hl.RawModule(ptx=text, backend="emulator").get_function("k"))
    lines = [int(n) for n in re.findall(r"PTX line (\d+)", race.message)]
    assert race.where is None and race.other is None and len(lines) == 2
    read, written = (text.splitlines()[n - 1] for n in lines)
    assert "ld.shared" in read and "st.shared" in written


def test_warnings_are_python_warnings_and_end_no_launch():
    source = 'extern "C" __global__ void k(const float* x, float* y) { y[threadIdx.x / 2] = threadIdx.x; }'
    kernel = hl.RawModule(ptx=bare(hl.RawModule(code=source, backend="emulator").ptx), backend="emulator").get_function("k")
    with pytest.warns(hl.HazardWarning, match=r"race \(warning\): st.f32 at PTX line \d+ stores different values"), hl.emulate():
        kernel((1,), (64,), (np.ones(64, np.float32), np.zeros(64, np.float32)))


LAYERS = r"""
__device__ __forceinline__ void put(float* s, float v) { s[threadIdx.x] = v; }
__device__ __forceinline__ float get(float* s) { return s[threadIdx.x ^ 33]; }
__device__ __forceinline__ float swap(float* s, float v) {
    put(s, v);
    return get(s);
}
__device__ __forceinline__ float stage(float* s, float v) {
    float a = swap(s, v);
    __syncthreads();
    float b = swap(s + 64, v);
    __syncthreads();
    return a + b;
}
"""
CALLS = r"""
extern "C" __global__ void __launch_bounds__(64) k(const float* x, float* y) {
    __shared__ float s[128];
    y[threadIdx.x] = stage(s, x[threadIdx.x]);
}
"""


def test_two_bugs_of_one_line_through_two_calls_are_two_reports_that_say_which():
    """Both ends of both races have the same outermost and the same innermost frame."""
    module = hl.RawModule(code=f'#line 1 "layers.cuh"\n{LAYERS}#line 1 "mine.cu"\n{CALLS}', backend="emulator", name="mine.cu")
    first, second = run(module.get_function("k"))
    assert first.where == second.where and first.where.line == 4 and first.here.place.key != second.here.place.key
    assert "mine.cu:4 (in layers.cuh:9, in layers.cuh:6, in layers.cuh:3)" in first.message and "in layers.cuh:9, in layers.cuh:5, in layers.cuh:2" in first.message
    assert "in layers.cuh:11, in layers.cuh:6, in layers.cuh:3" in second.message and first.message != second.message
    assert [frame.split(" ")[0] for frame in second.frames["here"]] == ["mine.cu:4", "layers.cuh:11", "layers.cuh:6", "layers.cuh:3"]
    assert "stage" in second.frames["here"][1] and hl.emulator.hazards.render.as_dict(second)["here"]["frames"] == second.frames["here"]


def test_one_bug_through_one_call_is_told_in_short():
    module = hl.RawModule(code=f'#line 1 "layers.cuh"\n{LAYERS}#line 1 "mine.cu"\n{CALLS}'.replace("float b = swap(s + 64, v)", "float b = v"),
                          backend="emulator", name="mine.cu")
    race, = run(module.get_function("k"))
    assert "mine.cu:4 (in layers.cuh:3)" in race.message and "layers.cuh:9" not in race.message and "layers.cuh:9" in race.frames["here"][1]


@pytest.mark.parametrize("kernel, helper, shown", [
    ("/x/cutlass/device_kernel.h", "/home/me/epilogue.hpp", "epilogue.hpp:5"),                    # a functor of the user's inside a library's kernel
    ("/x/cutlass/device_kernel.h", "/x/cutlass/gemm/kernel/pingpong.hpp", "pingpong.hpp:5"),      # a library's own kernel: behind its launcher
    ("/home/me/kernel.cu", "/x/cute/algorithm/copy.hpp", "kernel.cu:3")])
def test_the_first_frame_is_the_nearest_to_the_users_code(kernel, helper, shown):
    outer = Site(kernel, 3, 1, "kernel")
    site = Site("/x/cute/arch/copy_sm90.hpp", 7, 1, "copy", Site(helper, 5, 1, "call", outer))
    place = Place.of(Instr("st", ("shared", "u32"), (), None, site, 12, 0))
    told = place.text()
    assert told.endswith(f"{shown} (in copy_sm90.hpp:7)") or told.endswith("(in cute/arch/copy_sm90.hpp:7)") and place.line(folders=False) == shown, told
    assert len(place.trace) == 3
