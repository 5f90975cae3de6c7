# SPDX-License-Identifier: Apache-2.0
"""What others do with several GPUs, on the same operands and streams: cuBLAS for products, NCCL and the copy engine around them.

NCCL is called through torch.cuda.nccl, one process for all devices. None where PyTorch is missing.
"""
from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..launches.across import World

if TYPE_CHECKING:
    from ...runtime.arrays import Array

Run = Callable[[], None]


def available() -> bool:
    """Whether PyTorch is installed and has NCCL."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch
    return bool(torch.cuda.is_available() and hasattr(torch._C, "_nccl_all_reduce"))


class Others:
    """PyTorch's view of a World: its streams, and arrays as tensors of bf16."""

    def __init__(self, here: World):
        import torch
        from torch.cuda import nccl
        self.torch, self.nccl, self.here = torch, nccl, here
        self.streams = [torch.cuda.ExternalStream(stream.cupy.ptr, device=f"cuda:{number}") for number, stream in enumerate(here.streams)]

    def tensors(self, arrays: Sequence[Array]) -> list[Any]:
        """Tensors over the same memory, one a device."""
        torch = self.torch
        return [torch.as_tensor(array.view("int16"), device=f"cuda:{number}").view(torch.bfloat16) for number, array in enumerate(arrays)]

    def products(self, a: Sequence[Array], b: Sequence[Array], c: Sequence[Array]) -> Run:
        """c[d] = a[d] * b[d]^T by cuBLAS on every device."""
        torch, left, right, out = self.torch, *map(self.tensors, (a, b, c))

        def run() -> None:
            for number, stream in enumerate(self.streams):
                with torch.cuda.stream(stream):
                    torch.matmul(left[number], right[number].T, out=out[number])
        return run

    def all_gather(self, a: Sequence[Array]) -> Run:
        """Every device's rows of a to all others, in place, by NCCL."""
        whole = self.tensors(a)
        rows = whole[0].shape[0] // self.here.count
        shards = [one[number * rows:(number + 1) * rows] for number, one in enumerate(whole)]
        return lambda: self.nccl.all_gather(shards, whole, streams=self.streams)

    def reduce_scatter(self, partial: Sequence[Array], c: Sequence[Array]) -> Run:
        """c[d] = rows d of the sum of all partial, by NCCL."""
        given, out = self.tensors(partial), self.tensors(c)
        return lambda: self.nccl.reduce_scatter(given, out, streams=self.streams)

    def all_reduce(self, xs: Sequence[Array], ys: Sequence[Array]) -> Run:
        """ys[d] = sum of all xs, by NCCL."""
        given, out = self.tensors(xs), self.tensors(ys)
        return lambda: self.nccl.all_reduce(given, out, streams=self.streams)


def copies(here: World, a: Sequence[Array]) -> Run:
    """The others' rows of a into each device's, by the copy engine (cudaMemcpyPeerAsync), every device pulling."""
    import cupy
    runtime, rows = cupy.cuda.runtime, a[0].shape[0] // here.count
    parts = [[array[number * rows:(number + 1) * rows] for number in range(here.count)] for array in a]

    def run() -> None:
        for to, stream in enumerate(here.streams):
            for other in range(1, here.count):
                source = (to + other) % here.count
                theirs, mine = parts[source][source], parts[to][source]
                runtime.memcpyPeerAsync(mine.data.ptr, to, theirs.data.ptr, source, mine.nbytes, stream.cupy.ptr)
    return run


def one_copy(here: World, source: Array, target: Array) -> Run:
    """From the first device to the second, by the copy engine."""
    import cupy
    return lambda: cupy.cuda.runtime.memcpyPeerAsync(target.data.ptr, 1, source.data.ptr, 0, source.nbytes, here.streams[1].cupy.ptr)


def after(*runs: Run) -> Run:
    """One after the other, in the same streams."""
    def run() -> None:
        for one in runs:
            one()
    return run
