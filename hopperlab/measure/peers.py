"""What others do on the same operands: cuBLAS for products, the driver for copies. Peers run beside ours, interleaved."""
from __future__ import annotations

from collections.abc import Callable

GEMM_DTYPES = ("bfloat16", "float16", "tf32", "float32")


def cublas(a, b, c) -> Callable[[], None]:
    """c = a * b^T through cublasGemmEx, fp32 accumulate. a: m x k, b: n x k, c: m x n, CuPy arrays of bf16 bits (uint16)."""
    import cupy
    import numpy as np
    from cupy_backends.cuda.libs import cublas as library
    (m, k), n = a.shape, b.shape[0]
    handle = cupy.cuda.device.get_cublas_handle()
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    bf16, compute_fp32, tensor_op = 14, 68, 99              # CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT_TENSOR_OP

    def run() -> None:
        # cuBLAS is column-major: row-major c (m x n) is its c^T (n x m) = b * a^T.
        library.gemmEx(handle, library.CUBLAS_OP_T, library.CUBLAS_OP_N, n, m, k, one.ctypes.data, b.data.ptr, bf16, k,
                       a.data.ptr, bf16, k, zero.ctypes.data, c.data.ptr, bf16, n, compute_fp32, tensor_op)
    return run


def torch_matmul(a, b, c) -> Callable[[], None] | None:
    """The same through PyTorch, which reaches cuBLASLt too; None where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        return None
    left, right, out = (torch.as_tensor(array.view("int16"), device="cuda").view(torch.bfloat16) for array in (a, b, c))
    return lambda: torch.matmul(left, right.T, out=out)


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


def device_copy(source, target) -> Callable[[], None]:
    """cudaMemcpyAsync, device to device, on CuPy's current stream."""
    import cupy
    runtime, current = cupy.cuda.runtime, cupy.cuda.get_current_stream

    def run() -> None:
        runtime.memcpyAsync(target.data.ptr, source.data.ptr, source.nbytes, runtime.memcpyDeviceToDevice, current().ptr)
    return run
