# SPDX-License-Identifier: Apache-2.0
"""wmma through mma.h, against NumPy: every shape and type that CUDA C++ offers."""
import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest
from support.emulated import run_ptx

SOURCE = r"""
#include <mma.h>
using namespace nvcuda;
template <class T, class Acc, int M, int N, int K, class LA, class LB, class Store = T>
__device__ void multiply(const Store* a, int lda, const Store* b, int ldb, Acc* d, wmma::layout_t layout, float scale) {
    extern __shared__ __align__(128) unsigned char raw[];
    wmma::fragment<wmma::matrix_a, M, N, K, T, LA> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, LB> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
    wmma::fill_fragment(fc, Acc(1));
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] * Acc(scale);
    Acc* tile = reinterpret_cast<Acc*>(raw) + threadIdx.x / 32 * M * N;
    int ld = layout == wmma::mem_row_major ? N : M;
    wmma::store_matrix_sync(tile, fc, ld, layout);
    __syncwarp();
    for (int i = threadIdx.x % 32; i < M * N; i += 32) d[i] = tile[i];
}
extern "C" __global__ void kernel(const STORE* a, const STORE* b, ACC* d) {
    int w = threadIdx.x / 32;
    multiply<TYPE, ACC, SM, SN, SK, wmma::LAYOUT_A, wmma::LAYOUT_B, STORE>(
        a + w * 32 * 32, LDA, b + w * 32 * 32, LDB, d + w * SM * SN, wmma::LAYOUT_D, 2.0f);
}
"""
TYPES = {          # wmma type, storage, accumulator, NumPy dtypes of storage and accumulator
    "f16": ("half", "half", "float", np.float16, np.float32), "f16 into f16": ("half", "half", "half", np.float16, np.float16),
    "bf16": ("__nv_bfloat16", "__nv_bfloat16", "float", ml_dtypes.bfloat16, np.float32),
    "tf32": ("wmma::precision::tf32", "float", "float", np.float32, np.float32),
    "s8": ("signed char", "signed char", "int", np.int8, np.int32), "u8": ("unsigned char", "unsigned char", "int", np.uint8, np.int32),
    "f64": ("double", "double", "double", np.float64, np.float64),
}
CASES = [("f16", 16, 16, 16), ("f16", 32, 8, 16), ("f16", 8, 32, 16), ("f16 into f16", 16, 16, 16), ("bf16", 16, 16, 16), ("bf16", 8, 32, 16),
         ("tf32", 16, 16, 8), ("s8", 16, 16, 16), ("s8", 32, 8, 16), ("u8", 8, 32, 16), ("f64", 8, 8, 4)]


def padded(x):
    """(3, rows, columns) in the corner of (3, 32, 32)."""
    return np.pad(x, ((0, 0), (0, 32 - x.shape[1]), (0, 32 - x.shape[2])))


@pytest.mark.parametrize("kind, m, n, k", CASES)
@pytest.mark.parametrize("rows_a, rows_b, rows_d", [(True, False, True), (False, True, False)])
@pytest.mark.sampled(every=3)
def test_products(kind, m, n, k, rows_a, rows_b, rows_d):
    name, store, acc, dtype, acc_dtype = TYPES[kind]
    layout = {True: "row_major", False: "col_major"}
    options = [f"-DTYPE={name}", f"-DSTORE={store}", f"-DACC={acc}", f"-DSM={m}", f"-DSN={n}", f"-DSK={k}", f"-DLAYOUT_A={layout[rows_a]}",
               f"-DLAYOUT_B={layout[rows_b]}", f"-DLAYOUT_D=mem_{layout[rows_d]}", "-DLDA=32", "-DLDB=32"]
    rng = np.random.default_rng(m * n + k)
    low = 0 if kind == "u8" else -4
    a, b = rng.integers(low, 5, (3, m, k)), rng.integers(low, 5, (3, k, n))
    stored = [padded(x if by_rows else x.transpose(0, 2, 1)).astype(dtype) for x, by_rows in ((a, rows_a), (b, rows_b))]
    d = np.zeros((3, m * n), acc_dtype)
    kernel = hl.RawModule(code=SOURCE, options=tuple(options), backend="emulator").get_function("kernel")
    kernel((1,), (96,), (*stored, d), shared_mem=3 * m * n * d.itemsize)
    got = d.reshape(3, m, n) if rows_d else d.reshape(3, n, m).transpose(0, 2, 1)
    assert (got == 2 * (a @ b + 1)).all()


def test_binary_and_four_bit():
    source = r"""
    #include <mma.h>
    using namespace nvcuda;
    namespace ex = wmma::experimental;
    extern "C" __global__ void kernel(const void* a, const void* b, const void* a4, const void* b4, int* d) {
        wmma::fragment<wmma::matrix_a, 8, 8, 128, ex::precision::b1, wmma::row_major> fa;
        wmma::fragment<wmma::matrix_b, 8, 8, 128, ex::precision::b1, wmma::col_major> fb;
        wmma::fragment<wmma::accumulator, 8, 8, 128, int> fx, fy;
        wmma::load_matrix_sync(fa, a, 128); wmma::load_matrix_sync(fb, b, 128);
        wmma::fill_fragment(fx, 3); wmma::fill_fragment(fy, 5);
        wmma::bmma_sync(fx, fa, fb, fx, ex::bmmaBitOpXOR);
        wmma::bmma_sync(fy, fa, fb, fy, ex::bmmaBitOpAND);
        wmma::store_matrix_sync(d, fx, 8, wmma::mem_row_major); wmma::store_matrix_sync(d + 64, fy, 8, wmma::mem_row_major);
        wmma::fragment<wmma::matrix_a, 8, 8, 32, ex::precision::s4, wmma::row_major> f4;
        wmma::fragment<wmma::matrix_b, 8, 8, 32, ex::precision::s4, wmma::col_major> g4;
        wmma::fragment<wmma::accumulator, 8, 8, 32, int> fz;
        wmma::load_matrix_sync(f4, a4, 32); wmma::load_matrix_sync(g4, b4, 32);
        wmma::fill_fragment(fz, 0);
        wmma::mma_sync(fz, f4, g4, fz);
        wmma::store_matrix_sync(d + 128, fz, 8, wmma::mem_row_major);
    }"""
    rng = np.random.default_rng(41)
    a, b = rng.integers(0, 2, (8, 128)), rng.integers(0, 2, (8, 128))
    a4, b4 = rng.integers(-8, 8, (8, 32)), rng.integers(-8, 8, (8, 32))
    bits = [np.packbits(x.astype(np.uint8), axis=1, bitorder="little") for x in (a, b)]
    nibbles = [((x[:, ::2] & 15) | (x[:, 1::2] & 15) << 4).astype(np.uint8) for x in (a4, b4)]
    d = np.zeros(192, np.int32)
    hl.RawModule(code=source, backend="emulator").get_function("kernel")((1,), (32,), (*bits, *nibbles, d))
    assert (d[:64].reshape(8, 8) == 3 + (a[:, None, :] ^ b[None, :, :]).sum(axis=2)).all()
    assert (d[64:128].reshape(8, 8) == 5 + a @ b.T).all()
    assert (d[128:].reshape(8, 8) == a4 @ b4.T).all()


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_sums_of_f64_are_rounded_as_written(mode):
    """1 + 2^-60 is no double: only rounding up makes it larger than 1; -1 - 2^-60 likewise downwards."""
    body = f"""ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 16; add.u64 %rd1, %rd1, %rd2;
    mov.b64 %rd3, 0d3c30000000000000; mov.b64 %rd4, 0d3ff0000000000000; mov.b64 %rd5, 0dbff0000000000000;
    wmma.mma.sync.aligned.row.col.m8n8k4.{mode}.f64.f64.f64.f64 {{%rd6, %rd7}}, {{%rd3}}, {{%rd4}}, {{%rd4, %rd4}};
    wmma.mma.sync.aligned.row.col.m8n8k4.{mode}.f64.f64.f64.f64 {{%rd8, %rd9}}, {{%rd3}}, {{%rd5}}, {{%rd5, %rd5}};
    st.global.v2.b64 [%rd1], {{%rd6, %rd8}};"""
    out = np.zeros((32, 2))
    run_ptx(body, (out,), ".param .u64 out")
    up = 1 + 4 * 2.0**-52                     # each of the four sums moves on by one step
    assert (out[:, 0] == (up if mode == "rp" else 1)).all()
    assert (out[:, 1] == (-up if mode == "rm" else -1)).all()
