# SPDX-License-Identifier: Apache-2.0
"""Launches of lesson 11's kernel, whose tile and whose registers by role are choices. Like launch.py: arrays in, a Launch out."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from .launch import Launch

if TYPE_CHECKING:
    from ...runtime.arrays import Array


@dataclass(frozen=True)
class Roles:
    """A choice of registers/roles.cu: consumer warpgroups, 64-row blocks each, columns of the tile, ring slots, and the registers that
    setmaxnreg gives a producer's and a consumer's thread (0: as they are)."""

    consumers: int = 2
    blocks: int = 1
    bn: int = 256
    stages: int = 2
    producer: int = 24
    consumer: int = 240

    @property
    def rows(self) -> int:
        """Rows of the tile of C."""
        return self.consumers * self.blocks * 64

    @property
    def threads(self) -> int:
        """Threads of a block: one producer warpgroup and the consumers."""
        return 128 * (1 + self.consumers)

    @property
    def accumulators(self) -> int:
        """fp32 accumulators a consumer's thread holds: its rows x columns over 128 threads."""
        return self.blocks * self.bn // 2

    @property
    def options(self) -> tuple[str, ...]:
        """NVRTC options."""
        return (f"-DCONSUMERS={self.consumers}", f"-DROW_BLOCKS={self.blocks}", f"-DBN={self.bn}", f"-DSTAGES={self.stages}",
                f"-DPRODUCER_REGISTERS={self.producer}", f"-DCONSUMER_REGISTERS={self.consumer}")


def register_roles(a: Array, b: Array, c: Array, roles: Roles | None = None, options: Sequence[str] = (), backend: str | None = None,
                   strict: bool = True) -> Launch:
    """c[m,n] = a[m,k] * b[n,k]^T by registers/roles.cu, bf16; k a multiple of 8. Raises NoteError when ptxas changed what the kernel
    does (C7508: setmaxnreg ignored; C7511: products one by one, for want of registers); strict=False warns."""
    m, n, k = checks.product(a, b, c, k_multiple=8)
    roles = roles or Roles()
    kernel = load_kernel("registers/roles.cu", "gemm", (*roles.options, *options), backend=backend, strict=strict)
    maps = [TensorMap.tiled(array, box=(rows, 64), swizzle="128B", dtype="bfloat16" if array.dtype == np.uint16 else None)
            for array, rows in ((a, roles.blocks * 64), (b, roles.bn))]
    return Launch(kernel, (-(-n // roles.bn), -(-m // roles.rows)), (roles.threads,), (*maps, c, np.int32(m), np.int32(n), np.int32(k)),
                  roles.stages * (roles.rows + roles.bn) * 128 + 16 * roles.stages)
