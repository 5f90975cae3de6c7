"""Where reports point: lines of the PTX where there are no others, the user's own line where functions and headers were inlined."""
import re

import hopperlab as hl
import numpy as np
import pytest

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
