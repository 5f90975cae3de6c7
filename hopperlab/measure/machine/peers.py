# SPDX-License-Identifier: Apache-2.0
"""What others do on the same operands: cuBLAS and Triton for products, the driver for copies. They run beside ours, interleaved.

`products(names, a, b, c)` makes every entry of the chosen peers of a product; PRODUCT_PEERS lists them.
"""
from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...runtime.arrays import Array

GEMM_DTYPES = ("bfloat16", "float16", "tf32", "float32")


def cublas(a: Array, b: Array, c: Array) -> Callable[[], None]:
    """c = a * b^T through cublasGemmEx, fp32 accumulate. a: m x k, b: n x k, c: m x n, CuPy arrays of bf16 bits (uint16); the rows
    of a and b may lie apart."""
    return _gemm_ex(a, b, c, b.shape[0], transposed=True)


def cublas_nn(a: Array, b: Array, c: Array) -> Callable[[], None]:
    """The same product from b stored as k x n (cuBLAS's NN layout); the transposed copy is made here, once."""
    import cupy
    return _gemm_ex(a, cupy.ascontiguousarray(b.T), c, b.shape[0], transposed=False)


def cublas_onto(a: Array, b: Array, c: Array) -> Callable[[], None]:
    """c = a * b^T + c in place, on the operands of `cublas`: beta is 1."""
    return _gemm_ex(a, b, c, b.shape[0], transposed=True, beta=1)


def _gemm_ex(a, b, c, n: int, transposed: bool, beta: int = 0) -> Callable[[], None]:
    import cupy
    import numpy as np
    from cupy_backends.cuda.libs import cublas as library
    m, k = a.shape
    handle = cupy.cuda.device.get_cublas_handle()
    one, onto = np.ones(1, np.float32), np.full(1, beta, np.float32)
    bf16, compute_fp32, tensor_op = 14, 68, 99              # CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP
    operation = library.CUBLAS_OP_T if transposed else library.CUBLAS_OP_N
    a_pitch, pitch = (array.strides[0] // array.itemsize for array in (a, b))

    def run() -> None:
        # cuBLAS is column-major: row-major c (m x n) is its c^T (n x m) = b * a^T.
        library.gemmEx(handle, operation, library.CUBLAS_OP_N, n, m, k, one.ctypes.data, b.data.ptr, bf16, pitch,
                       a.data.ptr, bf16, a_pitch, onto.ctypes.data, c.data.ptr, bf16, n, compute_fp32, tensor_op)
    return run


def torch_matmul(a: Array, b: Array, c: Array) -> Callable[[], None] | None:
    """The same through PyTorch, which reaches cuBLASLt too; None where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    left, right, out = (torch.as_tensor(array.view("int16"), device="cuda").view(torch.bfloat16) for array in (a, b, c))
    return lambda: torch.matmul(left, right.T, out=out)


def torch_matmul_nn(a: Array, b: Array, c: Array) -> Callable[[], None] | None:
    """The same through PyTorch from b stored as k x n; None where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    left, right, out = (torch.as_tensor(array.view("int16"), device="cuda").view(torch.bfloat16) for array in (a, b, c))
    stored = right.T.contiguous()
    return lambda: torch.matmul(left, stored, out=out)


def triton_matmul(a: Array, b: Array, c: Array) -> Callable[[], None] | None:
    """The same by a persistent Triton kernel with TMA, the fastest of a few configurations; None without Triton."""
    if importlib.util.find_spec("triton") is None:
        return None
    from . import peers_triton
    return peers_triton.best(a, b, c)


def cublaslt(a: Array, b: Array, c: Array) -> Callable[[], None] | None:
    """The same by the fastest of the configurations that cuBLASLt's heuristic ranks first; None where its library is not found."""
    from . import peers_cublaslt
    return peers_cublaslt.best(a, b, c, transposed=True)


def cublaslt_nn(a: Array, b: Array, c: Array) -> Callable[[], None] | None:
    """The same from b stored as k x n."""
    import cupy

    from . import peers_cublaslt
    return peers_cublaslt.best(a, cupy.ascontiguousarray(b.T), c, transposed=False)


def quack_matmul(a: Array, b: Array, c: Array) -> Callable[[], None] | None:
    """The same by quack's product in CuTe DSL, its configurations tried by its own tuner at the first launch;
    None where it is not installed, or does not take the shape."""
    try:
        import torch
        from quack.gemm_interface import gemm
    except (ImportError, OSError):                          # OSError: built for another PyTorch
        return None
    left, right, out = (torch.as_tensor(array.view("int16"), device="cuda").view(torch.bfloat16) for array in (a, b, c))

    def run() -> None:
        gemm(left, right.T, out=out, split_k=None)          # None: the tuner tries how often k is split, too
    try:
        run()
    except Exception as problem:                            # the compiler's errors have no common class
        print(f"quack: {type(problem).__name__}: {str(problem).strip().partition(chr(10))[0]}", file=sys.stderr)
        return None
    return run


@dataclass(frozen=True)
class Peer:
    """Somebody else's product: its family (whose fastest entry is the peer of a record), package, and entries by name."""

    family: str
    package: str
    entries: Mapping[str, Callable]


PRODUCT_PEERS: Mapping[str, Peer] = {
    "cublas": Peer("cuBLAS", "cupy", {"cublasGemmEx TN": cublas, "cublasGemmEx NN": cublas_nn}),
    "cublaslt": Peer("cuBLAS", "cupy", {"cuBLASLt TN": cublaslt, "cuBLASLt NN": cublaslt_nn}),
    "torch": Peer("cuBLAS", "torch", {"torch TN": torch_matmul, "torch NN": torch_matmul_nn}),
    "triton": Peer("Triton", "triton", {"Triton": triton_matmul}),
    "quack": Peer("quack", "quack", {"quack": quack_matmul}),
}
"""TN: both operands with k contiguous, as ours take them; NN: b with n contiguous. PyTorch calls cuBLAS and cuBLASLt; of cuBLASLt itself the
fastest of the configurations that it ranks first is taken."""


def installed(peers: Mapping[str, Peer]) -> list[str]:
    """Those of `peers` whose package is installed here."""
    return [name for name, peer in peers.items() if importlib.util.find_spec(peer.package) is not None]


def products(names: Iterable[str], a: Array, b: Array, c: Array) -> dict[str, tuple[str, Callable[[], None]]]:
    """entry -> (family, launch) for the peers `names` of PRODUCT_PEERS on these operands."""
    chosen = [PRODUCT_PEERS[name] for name in names]
    made = ((entry, peer.family, make(a, b, c)) for peer in chosen for entry, make in peer.entries.items())
    return {entry: (family, run) for entry, family, run in made if run is not None}


def torch_product(size: int, dtype: str) -> Callable[[], None] | None:
    """A size x size x size product of random normal numbers in one of GEMM_DTYPES; None where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    kind = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(dtype, torch.float32)
    left, right = (torch.randn(size, size, device="cuda").to(kind) for _ in range(2))
    out = torch.empty(size, size, device="cuda", dtype=kind)

    def run() -> None:
        torch.backends.cuda.matmul.allow_tf32 = dtype == "tf32"
        torch.matmul(left, right.T, out=out)
    return run


def device_copy(source: Array, target: Array) -> Callable[[], None]:
    """cudaMemcpyAsync, device to device, on CuPy's current stream."""
    import cupy
    runtime, current = cupy.cuda.runtime, cupy.cuda.get_current_stream

    def run() -> None:
        runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, runtime.memcpyDeviceToDevice, current().ptr)
    return run
