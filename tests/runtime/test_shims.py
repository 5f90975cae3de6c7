# SPDX-License-Identifier: Apache-2.0
"""Headers that NVRTC lacks: sources for nvcc compile, and what they get has the right values."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime.compile import shims

USES = r'''
#include <algorithm>
#include <array>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
#include <cuda_runtime.h>
template <class T> __device__ T twice(T&& x) { return std::forward<T>(x) + x; }
extern "C" __global__ void k(double* y) {
    std::pair<int, float> p{3, 2.5f};
    std::array<int, 3> a{1, 2, 3};
    auto [q, r] = std::make_tuple(7, 9);
    y[0] = p.first + p.second; y[1] = std::max(a[1], a[2]); y[2] = std::numeric_limits<float>::max() == FLT_MAX; y[3] = q + r;
    y[4] = std::is_same_v<uint32_t, std::uint32_t> && sizeof(std::int64_t) == 8; y[5] = INT_MAX; y[6] = std::sqrt(16.0f) + M_PI; y[7] = twice(4);
    y[8] = std::clamp(9, 1, 5); y[9] = std::min(-INFINITY, 1.0f) < -FLT_MAX; y[10] = std::plus<int>()(2, 3); std::swap(a[0], a[1]); y[11] = a[0];
}
'''


def test_the_standard_librarys_names_have_their_values():
    y = np.zeros(12)
    hl.RawModule(code=USES, backend="emulator").get_function("k")((1,), (1,), (y,))
    assert y.tolist() == [5.5, 3, 1, 16, 1, 2**31 - 1, 4 + float(np.float64(np.pi)), 8, 5, 1, 5, 2]


def test_what_nvcc_includes_by_itself_needs_no_include():
    code = """extern "C" __global__ void k(int* y) {
        cudaGridDependencySynchronize();
        uint32_t x = INT_MAX; uint64_t z = 2; float f = INFINITY;
        cudaTriggerProgrammaticLaunchCompletion();
        y[0] = x > 5 && f > 1 ? (int)z : 0;
    }"""
    y = np.zeros(1, np.int32)
    module = hl.RawModule(code=code, backend="emulator", name="k.cu")
    module.get_function("k")((1,), (1,), (y,))
    assert y[0] == 2 and "griddepcontrol.wait" in module.ptx and "griddepcontrol.launch_dependents" in module.ptx


@pytest.mark.parametrize("head", ["#include <cuda.h>", "#include <cudaTypedefs.h>", "#include <cuda/barrier>", "#include <cuda/barrier>\n#include <cuda.h>",
                                  "#include <cuda.h>\n#include <cuda/ptx>", ""])
@pytest.mark.sampled(every=3)
def test_cutensormap_is_a_type_of_128_bytes(head):
    module = hl.RawModule(code=head + ('\nextern "C" __global__ void k(const __grid_constant__ CUtensorMap map, int* y) { y[0] = sizeof(CUtensorMap) + '
                                       '(int)((size_t)&map % 64); }'), backend="emulator")
    y = np.zeros(1, np.int32)
    module.get_function("k")((1,), (1,), (hl.TensorMap.tiled(np.zeros((8, 8), np.float32), box=(8, 8)), y))
    assert y[0] == 128


def test_enumerations_of_cuda_h_are_the_drivers():
    code = ('#include <cuda.h>\nextern "C" __global__ void k(int* y) { y[0] = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16; y[1] = CU_TENSOR_MAP_SWIZZLE_128B; y[2] = '
            'CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ; y[3] = CUDA_SUCCESS; }')
    y = np.zeros(4, np.int32)
    hl.RawModule(code=code, backend="emulator").get_function("k")((1,), (1,), (y,))
    assert y.tolist() == [9, 3, 12, 0]


@pytest.mark.parametrize("head, value, is_", [
    ("#include <dirent.h>\n#include <arpa/inet.h>\n#include <driver_functions.h>\n#include <channel_descriptor.h>", "sizeof(cudaPos)", 24),
    ("#include <math.h>", "M_SQRT2 * M_2_SQRTPI * M_1_PI * 1000", 507), ("", "M_LN10 * 1000", 2302), ("#include <cmath>", "10 * FP_NORMAL + fpclassify(0.0f)", 42),
    # As in cutlass/floating_point_nvrtc.h.
    ("#include <cmath>\nenum {\n    FP_NAN =\n# define FP_NAN 0\n    FP_NAN, FP_NEXT };", "FP_NEXT + FP_NAN", 1),
    ('__device__ int three() { int x; __asm__ __volatile__("mov.b32 %0, 3;" : "=r"(x)); return x; }', "three()", 3),
    ("__device__ __int128 wide(int x) { return (__int128)x << 100; }", "(int)(wide(3) >> 98)", 12)])
def test_what_nvcc_has_beyond_the_standard(head, value, is_):
    y = np.zeros(1, np.int32)
    hl.RawModule(code=f'{head}\nextern "C" __global__ void k(int* y) {{ y[0] = {value}; }}', backend="emulator").get_function("k")((1,), (1,), (y,))
    assert y[0] == is_


@pytest.mark.thorough
def test_headers_compile_alone_and_all_together():
    alone = ("algorithm", "atomic", "cfloat", "chrono", "climits", "cmath", "cstdint", "cub/cub.cuh", "cuda.h", "memory", "string", "sys/types.h", "utility", "variant")
    for text in (*(f"#include <{name}>\n" for name in alone), "".join(f"#include <{name}>\n" for name in shims.HEADERS)):
        assert hl.RawModule(code=text + 'extern "C" __global__ void k() {}', backend="emulator").kernel_names == ("k",), text


def test_sources_without_them_are_compiled_as_before():
    assert not shims.wanted(["#include <hopperlab/tma.cuh>\n#include <cuda_bf16.h>\n#include <cuda/pipeline>"]) and shims.wanted([" # include <utility>"])
    assert shims.brought_by_nvcc('identifier "uint32_t" is undefined\nidentifier "mine" is undefined') == ["cstdint"]
    with pytest.raises(hl.CompileError, match='identifier "mine" is undefined'):
        hl.RawModule(code='extern "C" __global__ void k(uint32_t* y) { y[0] = mine; }', backend="emulator")


@pytest.mark.parametrize("code, words", [('#include "absent/header.h"\n', r'options=\("-IFOLDER",\)'), ("int main() { return 0; }\n", "path="),
                                         ("#include <vector>\nstd::vector<int> v;\n", "path=")])
def test_compile_errors_of_strangers_say_what_to_do(code, words):
    with pytest.raises(hl.CompileError, match=words):
        hl.RawModule(code=code + 'extern "C" __global__ void k() {}', backend="emulator")
