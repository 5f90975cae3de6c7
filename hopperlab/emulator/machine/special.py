# SPDX-License-Identifier: Apache-2.0
"""Special registers (PTX ISA 10): a scalar where all threads agree, else one value a lane, remembered by cohort."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LaunchError
from ..isa import UnsupportedInstruction
from .machine_constants import SYSTEM_SHARED

if TYPE_CHECKING:
    from ..isa.value import Value
    from .cohort import Cohort

AXES = {"x": 0, "y": 1, "z": 2, "w": 3}
TIMES = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


def read(M: Any, C: Cohort, name: str) -> Value:
    """Value of special register `name` for the cohort's lanes (uint32, or uint64 for clock64 and globaltimer)."""
    value = C._cache.get(name)
    if value is None:
        base, _, axis = name.partition(".")
        value = _value(M, C, base, AXES.get(axis, 0))
        if base not in TIMES:
            C._cache[name] = value
    return value


def _value(M, C, base: str, axis: int):
    g = M.geometry
    if axis == 3:                           # .w of every vector register reads 0, sizes too (measured on an H200)
        return np.uint32(0)
    if base == "%tid":
        return g.tid[axis][C.gids % M.T] if g.block[axis] > 1 else np.uint32(0)
    if base == "%ntid":
        return np.uint32(g.block[axis])
    if base == "%ctaid":
        return _ctaid(M, C, axis)
    if base == "%nctaid":
        return np.uint32(g.grid[axis])
    if base in TIMES:
        return _time(M, base)
    if base in ("%envreg1", "%envreg2"):
        return np.uint32(_grid_workspace(M) >> (32 if base == "%envreg1" else 0) & 0xFFFFFFFF)
    if base.startswith("%envreg"):                      # what a driver sets: nobody has
        return np.uint32(0)
    if base.startswith("%pm"):
        raise UnsupportedInstruction(base, 0, "this special register counts what a profiler sets up; the emulator has none (see run.counters)")
    if base == "%gridid":
        return np.uint64(M.session.launches + 1)
    if base == "%current_graph_exec":
        return np.uint64(0)
    table = _LANES.get(base)
    if table is not None:
        return table(M, C)
    if base in ("%cluster_ctaid", "%cluster_ctarank"):
        return _in_cluster(M, C, base, axis)
    if base == "%clusterid":
        return _ctaid(M, C, axis) // np.uint32(g.cluster[axis])
    if base == "%is_explicit_cluster":
        return np.bool_(g.explicit_cluster)
    return _constant(M, base, axis)


def _time(M, base: str):
    """%clock, %globaltimer, and their halves."""
    if base in ("%clock64", "%globaltimer"):
        return np.uint64(M.clock())
    return np.uint32(M.clock() >> (32 if base.endswith("hi") else 0) & 0xFFFFFFFF)


def _constant(M, base: str, axis: int):
    """What is the same for all threads of a launch."""
    g, size = M.geometry, -(-(M.shared_limit - SYSTEM_SHARED) // 128) * 128
    constant = {"%nwarpid": 64, "%nsmid": 132, "%cluster_nctarank": M.cluster,
                "%cluster_nctaid": g.cluster[axis], "%nclusterid": g.grid[axis] // g.cluster[axis],
                "%dynamic_smem_size": M.layout.dynamic_bytes, "%total_smem_size": size, "%aggr_smem_size": M.shared_limit,
                "%reserved_smem_offset_begin": 0, "%reserved_smem_offset_end": SYSTEM_SHARED, "%reserved_smem_offset_cap": SYSTEM_SHARED,
                "%reserved_smem_offset_0": 0, "%reserved_smem_offset_1": 0, "WARP_SZ": 32}.get(base)
    if constant is None:
        raise UnsupportedInstruction(base, 0, "this special register is not implemented")
    return np.uint32(constant)


def _grid_workspace(M) -> int:
    """Address of the words through which this_grid().sync() of cooperative groups meets; all CTAs must be resident."""
    if M.geometry.slots < M.geometry.ctas:
        raise LaunchError(f"a grid-wide barrier needs all {M.geometry.ctas} CTAs on the GPU at once, but only {M.geometry.slots} fit: "
                          "launch a smaller grid (a cooperative launch of this one would fail)")
    if M.workspace is None:
        M.workspace = np.zeros(64, np.uint8)
        M.workspace.view(np.uint32)[0] = 64
    return M.memory.address_of(M.workspace, "the grid barrier's workspace")


def _ctaid(M, C, axis: int):
    g = M.geometry
    if g.grid[axis] == 1:
        return np.uint32(0)
    by_slot = (M.slot_cta // g.cta_step[axis]) % g.grid[axis]
    return by_slot.astype(np.uint32)[M.slot_of(C)]


def _in_cluster(M, C, base: str, axis: int):
    if M.cluster == 1:
        return np.uint32(0)
    rank = M.rank_of(C)
    if base == "%cluster_ctarank":
        return rank.astype(np.uint32)
    shape = M.geometry.cluster
    step = (1, shape[0], shape[0] * shape[1])[axis]
    return (rank // step % shape[axis]).astype(np.uint32)


def _mask(compare):
    def make(M, C):
        lane = (C.gids & 31).astype(np.int64)
        bits = np.arange(32)
        return (compare(bits[None, :], lane[:, None]).astype(np.int64) << bits).sum(axis=1).astype(np.uint32)
    return make


_LANES = {
    "%laneid": lambda M, C: (C.gids & 31).astype(np.uint32),
    "%warpid": lambda M, C: ((C.gids % M.T) >> 5).astype(np.uint32),
    "%smid": lambda M, C: (M.slot_of(C) % 132).astype(np.uint32),
    "%lanemask_eq": _mask(lambda b, n: b == n),
    "%lanemask_lt": _mask(lambda b, n: b < n),
    "%lanemask_le": _mask(lambda b, n: b <= n),
    "%lanemask_gt": _mask(lambda b, n: b > n),
    "%lanemask_ge": _mask(lambda b, n: b >= n),
}
