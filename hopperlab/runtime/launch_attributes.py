# SPDX-License-Identifier: Apache-2.0
"""What a launch is told beside grid, block and shared memory: the attributes of cudaLaunchKernelEx that change what runs.

They are checked here, the same for both places. [CUDA Driver API, CUlaunchAttribute; PTX ISA, Cluster Dimension Directives]
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..hopper import limits
from .compile.ptxas import KernelUse
from .compile.signature import Signature
from .errors import LaunchError
from .shapes import Shape, Triple, triple


@dataclass(frozen=True)
class LaunchAttributes:
    """dependent: the grid may start before the one in front of it in its stream has ended (programmatic stream serialization). cluster: CTAs along
    x, y and z, where the launch and not the kernel says so. cooperative: all CTAs are on the GPU at once, so that the grid can
    meet. non_portable: the cluster has more CTAs than every GPU of compute capability 9 or newer is sure to hold, which has to be opted into."""

    dependent: bool = False
    cluster: Triple | None = None
    cooperative: bool = False
    non_portable: bool = False

    @property
    def plain(self) -> bool:
        """True for a launch that an ordinary cuLaunchKernel can make."""
        return self.cluster is None and not self.cooperative and not self.dependent

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> LaunchAttributes:
        """From plain data, as `dataclasses.asdict` gives it (a launch in another process)."""
        cluster = told.get("cluster")
        return cls(bool(told.get("dependent")), None if cluster is None else triple("cluster", tuple(cluster)), bool(told.get("cooperative")),
                   bool(told.get("non_portable")))


def checked(signature: Signature, use: KernelUse, grid: Triple, block: Triple, shared_mem: int, cluster: Shape | None,
            cooperative: bool, dependent: bool = False) -> LaunchAttributes:
    """The attributes of a launch. Raises LaunchError when no Hopper GPU could launch with them."""
    asked = None if cluster is None else triple("cluster", cluster)
    shape = _cluster(signature, asked)
    if shape is not None:
        _fits(signature, grid, shape, asked is not None)
    size = shape[0] * shape[1] * shape[2] if shape is not None else 1
    if cooperative:
        _resident(signature.name, use, grid, block, shared_mem)
    return LaunchAttributes(bool(dependent), asked if signature.cluster is None else None, bool(cooperative), size > limits.MAX_CLUSTER_PORTABLE)


def _cluster(signature: Signature, asked: Triple | None) -> Triple | None:
    """The cluster that counts: the one that the kernel was compiled for, or the launch's."""
    compiled = signature.cluster
    if compiled is not None and asked not in (None, compiled):
        raise LaunchError(f"{signature.name}: cluster {asked} given, but the kernel was compiled for clusters of {compiled} (__cluster_dims__), which a "
                          f"launch cannot change")
    if compiled is None and asked is None and signature.explicit_cluster:
        raise LaunchError(f"{signature.name} was compiled for clusters whose size the launch gives: pass cluster=(2, 1, 1), or whatever it expects")
    return compiled or asked


def _fits(signature: Signature, grid: Triple, shape: Triple, asked: bool) -> None:
    name, size = signature.name, shape[0] * shape[1] * shape[2]
    if min(shape) < 1:
        raise LaunchError(f"{name}: cluster {shape}: every edge is at least 1")
    if size > limits.MAX_CLUSTER:
        raise LaunchError(f"{name}: cluster {shape} has {size} CTAs; a cluster has at most {limits.MAX_CLUSTER} ({limits.MAX_CLUSTER_PORTABLE} on every GPU "
                          f"that has clusters)")
    if signature.max_cluster is not None and size > signature.max_cluster:
        raise LaunchError(f"{name}: cluster {shape} has {size} CTAs, but the kernel was compiled for at most {signature.max_cluster} (__cluster_dims__ or "
                          f".maxclusterrank)")
    if any(g % c for g, c in zip(grid, shape)):
        raise LaunchError(f"{name}: grid {grid} is not a multiple of its cluster {shape} ({'cluster=' if asked else '__cluster_dims__'}); the grid counts "
                          f"CTAs, not clusters")


def _resident(name: str, use: KernelUse, grid: Triple, block: Triple, shared_mem: int) -> None:
    """A cooperative launch holds all its CTAs at once. [CUDA Driver API, cuLaunchCooperativeKernel]"""
    ctas, threads = grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2]
    most = limits.resident_blocks(threads, max(use.registers, 16), use.static_shared + shared_mem)
    if ctas > most:
        raise LaunchError(f"{name}: a cooperative launch needs all {ctas} CTAs on the GPU at once, but an H200 holds {most} "
                          f"of {threads} threads, {use.registers or 16} registers and {use.static_shared + shared_mem} "
                          "bytes of shared memory: launch a smaller grid, whose CTAs take several shares of the work each")
