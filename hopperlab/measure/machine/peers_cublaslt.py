# SPDX-License-Identifier: Apache-2.0
"""cuBLASLt at its best: the configurations that its heuristic ranks first, each timed. By ctypes on the library that CuPy has loaded; a GPU to run.

Constants and structures are those of cublasLt.h, versions 11 to 13.
"""
from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import byref, c_float, c_int, c_size_t, c_uint64, c_void_p
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from .timing import interleaved

if TYPE_CHECKING:
    from ...runtime.arrays import Array

CANDIDATES, WORKSPACE_BYTES, ROUNDS = 8, 32 << 20, 3
NAMES = ("libcublasLt.so.13", "libcublasLt.so.12")
BF16, FP32, COMPUTE_FP32 = 14, 0, 68                        # CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F
TRANSA, TRANSPOSED, MOST_WORKSPACE = 3, 1, 1                # CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES


class Candidate(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = [("algo", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float), ("reserved", c_int * 4)]


class Library:
    """The functions of libcublasLt that are called here; each raises RuntimeError where its status is not 0. OSError: the library is not there."""

    def __init__(self, names: tuple[str, ...] = NAMES):
        self._library = _opened(names)

    @cached_property
    def handle(self) -> c_void_p:
        """The library's handle, one a process."""
        return self.made("Create")

    def __call__(self, name: str, *arguments: Any) -> None:
        """Call cublasLt`name`."""
        status = getattr(self._library, f"cublasLt{name}")(*arguments)
        if status:
            raise RuntimeError(f"cublasLt{name}: status {status}")

    def made(self, name: str, *arguments: Any) -> c_void_p:
        """What cublasLt`name`(&it, …) creates: a descriptor of a few hundred bytes, which stays until the process ends."""
        it = c_void_p()
        self(name, byref(it), *arguments)
        return it

    def layout(self, rows: int, columns: int, pitch: int) -> c_void_p:
        """A column-major bf16 matrix."""
        return self.made("MatrixLayoutCreate", c_int(BF16), c_uint64(rows), c_uint64(columns), ctypes.c_int64(pitch))


@lru_cache(maxsize=1)
def _shared() -> Library:
    return Library()


def _opened(names: tuple[str, ...]) -> ctypes.CDLL:
    for name in names[:-1]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return ctypes.CDLL(names[-1])


def candidates(a: Array, b: Array, c: Array, transposed: bool, workspace: Array, library: Library, stream: Callable[[], int]) -> list[Callable[[], None]]:
    """Launches of c = a * b^T by the configurations that the heuristic ranks first, best guess first. a: m x k, c: m x n; b: n x k (transposed), or stored k x n."""
    (m, k), n = a.shape, c.shape[1]
    handle, operation = library.handle, library.made("MatmulDescCreate", c_int(COMPUTE_FP32), c_int(FP32))
    if transposed:
        library("MatmulDescSetAttribute", operation, c_int(TRANSA), byref(c_int(TRANSPOSED)), c_size_t(4))
    wish, most = library.made("MatmulPreferenceCreate"), c_size_t(workspace.nbytes)
    library("MatmulPreferenceSetAttribute", wish, c_int(MOST_WORKSPACE), byref(most), c_size_t(8))
    # cuBLAS is column-major: row-major c (m x n) is its c^T (n x m) = b * a^T.
    a_pitch, b_pitch = (array.strides[0] // array.itemsize for array in (a, b))
    left = library.layout(k, n, b_pitch) if transposed else library.layout(n, k, b_pitch)
    right, out = library.layout(k, m, a_pitch), library.layout(n, m, n)
    found, count = (Candidate * CANDIDATES)(), c_int()
    library("MatmulAlgoGetHeuristic", handle, operation, left, right, out, out, wish, c_int(CANDIDATES), found, byref(count))
    one, zero = c_float(1), c_float(0)
    operands = (a, b, c, workspace)                         # kept as long as a launch is: their memory is only pointed to
    a_at, b_at, c_at, room = (c_void_p(array.data.ptr) for array in operands)

    def launch(candidate: Candidate) -> Callable[[], None]:
        return lambda kept=operands: library("Matmul", handle, operation, byref(one), b_at, left, a_at, right, byref(zero), c_at, out, c_at, out, byref(candidate.algo),
                               room, most, c_void_p(stream()))
    return [launch(candidate) for candidate in found[:count.value] if candidate.state == 0]


def best(a: Array, b: Array, c: Array, transposed: bool) -> Callable[[], None] | None:
    """The fastest of the candidates on these operands; None where the library is not found or takes none of them, which is told."""
    import cupy
    cupy.cuda.device.get_cublas_handle()                    # which loads cuBLAS, and that cuBLASLt
    try:
        runs = candidates(a, b, c, transposed, cupy.empty(WORKSPACE_BYTES, cupy.uint8), _shared(), lambda: cupy.cuda.get_current_stream().ptr)
    except (OSError, RuntimeError) as problem:
        print(f"cuBLASLt: {problem}", file=sys.stderr)
        return None
    return fastest(runs)


def fastest(runs: list[Callable[[], None]]) -> Callable[[], None] | None:
    """The fastest of those that can be launched; None where none can."""
    able = {}
    for place, run in enumerate(runs):
        try:
            run()
        except RuntimeError as problem:
            print(f"cuBLASLt, candidate {place}: {problem}", file=sys.stderr)
            continue
        able[str(place)] = run
    if not able:
        return None
    samples = interleaved(able, rounds=ROUNDS)
    return able[min(samples, key=lambda name: samples[name].ms)]
