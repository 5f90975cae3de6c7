# SPDX-License-Identifier: Apache-2.0
"""128-bit integers: what NVRTC makes of their products, quotients and shifts runs through every kind of carry chain."""
import hopperlab as hl
import numpy as np

SOURCE = """
extern "C" __global__ void long_division(const unsigned long long* a, const unsigned long long* b, unsigned long long* out) {
    unsigned __int128 x = a[threadIdx.x];
    x = x * x + a[0];
    unsigned __int128 y = ((unsigned __int128)b[threadIdx.x] << threadIdx.x) + 3;
    unsigned __int128 results[4] = {x / y, x % y, x << threadIdx.x, x - y};
    for (int i = 0; i < 4; i++) {
        out[8 * threadIdx.x + 2 * i] = (unsigned long long)results[i];
        out[8 * threadIdx.x + 2 * i + 1] = (unsigned long long)(results[i] >> 64);
    }
}
"""


def test_128_bit_arithmetic_equals_pythons():
    rng = np.random.default_rng(128)
    a = rng.integers(0, 2**63, 64, dtype=np.uint64)
    b = rng.integers(0, 2**63, 64, dtype=np.uint64) >> rng.integers(0, 60, 64, dtype=np.uint64)
    out = np.zeros((64, 4, 2), np.uint64)
    module = hl.RawModule(code=SOURCE, options=("--device-int128",), backend="emulator")
    module.get_function("long_division")((1,), (64,), (a, b, out))
    for thread in range(64):
        x, y = int(a[thread]) ** 2 + int(a[0]), (int(b[thread]) << thread) + 3
        expected = [x // y, x % y, x << thread, x - y]
        got = [int(low) | int(high) << 64 for low, high in out[thread]]
        assert got == [value % 2**128 for value in expected], thread
