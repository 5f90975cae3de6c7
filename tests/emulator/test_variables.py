# SPDX-License-Identifier: Apache-2.0
"""Global and constant variables of a module: initial values, addresses in initialisers, contents that last."""
import hopperlab as hl
import numpy as np
import pytest
from hopperlab import emulator

SOURCE = r"""
struct Pair { int* where; short tag; };
__constant__ float table[6] = {1.5f, -2.0f, 3.25f, 0.0f, 1e-3f, 7.0f};
__constant__ double one_third = 1.0 / 3.0;
__device__ int counter = 5;
__device__ int numbers[5] = {7, 8, 9};
__device__ int* second = numbers + 1;
__device__ Pair pairs[2] = {{numbers + 2, -3}, {&counter, 4}};
__device__ const char* names[3] = {"zero", "one", "two"};
__device__ unsigned char flags[3][2] = {{1, 2}, {3}, {4, 5}};

extern "C" __global__ void read(float* f, double* d, int* out) {
    int t = threadIdx.x;
    f[t] = table[t % 6];
    d[t] = one_third * t;
    if (t == 0) {
        out[0] = second[1]; out[1] = *pairs[0].where + pairs[0].tag; out[2] = *pairs[1].where;
        out[3] = names[2][1]; out[4] = numbers[4];
        for (int i = 0; i < 3; i++) for (int j = 0; j < 2; j++) out[5 + 2 * i + j] = flags[i][j];
    }
}
extern "C" __global__ void count(int* out) { int old = atomicAdd(&counter, 1); if (threadIdx.x == 31) out[0] = old; }
extern "C" __global__ void past(int* out, int i) { out[0] = numbers[i]; }
extern "C" __global__ void spoil(int i) { const_cast<float*>(table)[i] = 1.0f; }
"""


def module():
    return hl.RawModule(code=SOURCE, backend="emulator")


def test_initial_values_and_relocations():
    f, d, out = np.zeros(32, np.float32), np.zeros(32), np.zeros(11, np.int32)
    module().get_function("read")((1,), (32,), (f, d, out))
    assert (f == np.array([1.5, -2, 3.25, 0, 1e-3, 7], np.float32)[np.arange(32) % 6]).all()
    assert (d == np.arange(32) * (1.0 / 3.0)).all()
    assert out.tolist() == [9, 9 - 3, 5, ord("w"), 0, 1, 2, 3, 0, 4, 5]


@pytest.mark.emulator_only
def test_contents_last_from_launch_to_launch_but_not_to_another_module():
    first, second, out = module(), module(), np.zeros(1, np.int32)
    for expected in (5 + 31, 5 + 63):
        first.get_function("count")((1,), (32,), (out,))
        assert out[0] == expected
    second.get_function("count")((1,), (32,), (out,))
    assert out[0] == 5 + 31
    variables = first.program.variables(emulator.memory.default())
    assert variables.arrays["counter"].view(np.int32)[0] == 5 + 64


def test_an_access_past_a_variable_names_it():
    out = np.zeros(1, np.int32)
    with pytest.raises(emulator.MemoryFault, match="variable numbers"):
        module().get_function("past")((1,), (1,), (out, np.int32(5)))


def test_a_store_into_constant_memory_is_refused():
    ptx = """.version 8.0
.target sm_90a
.address_size 64
.const .align 4 .b32 c[2] = {1, 2};
.visible .entry spoil() {
  .reg .b64 %rd<2>;
  mov.u64 %rd0, c;
  cvta.const.u64 %rd1, %rd0;
  st.u32 [%rd1], 3;
  ret;
}
"""
    with pytest.raises(emulator.MemoryFault, match="constant c is read-only"):
        hl.RawModule(ptx=ptx, backend="emulator").get_function("spoil")((1,), (1,), ())


@pytest.mark.emulator_only
def test_masked_addresses_in_an_initialiser():
    ptx = """.version 8.0
.target sm_90a
.address_size 64
.global .align 4 .b32 x = 77;
.global .align 1 .b8 pieces[8] = {0xFF(x), 0xFF00(x), 0xFF0000(x), 0xFF000000(x), 0xFF00000000(x), 0xFF0000000000(x), 0xFF000000000000(x), 0xFF00000000000000(x)};
.visible .entry gather(.param .u64 out) {
  .reg .b64 %rd<4>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd0, [out];
  ld.global.u8 %rd1, [pieces];
  ld.global.u8 %rd2, [pieces+1];
  shl.b64 %rd2, %rd2, 8;
  or.b64 %rd1, %rd1, %rd2;
  ld.global.u8 %rd2, [pieces+2];
  shl.b64 %rd2, %rd2, 16;
  or.b64 %rd1, %rd1, %rd2;
  ld.global.u8 %rd2, [pieces+3];
  shl.b64 %rd2, %rd2, 24;
  or.b64 %rd1, %rd1, %rd2;
  ld.global.u8 %rd2, [pieces+4];
  shl.b64 %rd2, %rd2, 32;
  or.b64 %rd1, %rd1, %rd2;
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd0], %r1;
  ret;
}
"""
    out = np.zeros(1, np.uint32)
    hl.RawModule(ptx=ptx, backend="emulator").get_function("gather")((1,), (1,), (out,))
    assert out[0] == 77
