# SPDX-License-Identifier: Apache-2.0
"""Several devices with peer memory: `first, second = hl.devices(2)`, on GPUs or in the emulator.

Inside `with second:` arrays are made, streams created and kernels launched there. Every device reads and writes every array through its pointer.
[CUDA Programming Guide, Multi-Device System, Peer-to-Peer Memory Access]
"""
from __future__ import annotations

import operator
from types import TracebackType
from typing import Any

from . import pending
from .backend import HOPPER, backend as choose
from .errors import BackendError

MOST = 8            # devices of one host that the emulator has


class Device:
    """One device. `id` is its number."""

    def __init__(self, number: int, place: str):
        self.id, self.backend = number, place
        self._entered: list[tuple[Any, ...]] = []

    def __enter__(self) -> Device:
        if self.backend == "gpu":
            import cupy
            device = cupy.cuda.Device(self.id)
            device.__enter__()
            self._entered.append((pending.enter_device(self.id), device))
        else:
            self._entered.append((pending.enter_device(self.id),))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        tokens, *device = self._entered.pop()
        for one in device:
            one.__exit__(kind, error, trace)
        pending.leave_device(tokens)

    def synchronize(self) -> None:
        """The host waits for all work of this device, and learns what it did wrong."""
        waiting = pending.grids()
        if waiting is not None:
            pending.synchronise(waiting.of_device(self.id))
        elif self.id == 0:
            pending.synchronise()
        if self.backend == "gpu":
            import cupy

            from .gpu.cuda_errors import guarded
            guarded("an earlier kernel", cupy.cuda.Device(self.id).synchronize)

    def __repr__(self) -> str:
        return f"<hl device {self.id} ({self.backend})>"


def devices(count: int = 2, backend: str | None = None) -> tuple[Device, ...]:
    """Devices 0 to count - 1, each with access to the memory of all others.

    backend: None takes this process's place. Raises BackendError where there are not so many Hopper GPUs, or one cannot reach another's memory.
    """
    place = choose(backend)
    try:
        count = operator.index(count)
    except TypeError:
        raise BackendError(f"devices({count!r}): a whole number is wanted") from None
    if not 1 <= count <= MOST:
        raise BackendError(f"devices({count}): 1 to {MOST} are possible")
    if place == "gpu":
        _open_peers(count)
        pending.open_devices(count)
    return tuple(Device(number, place) for number in range(count))


def _open_peers(count: int) -> None:
    """Let every GPU reach the memory of every other."""
    import cupy
    runtime = cupy.cuda.runtime
    present = runtime.getDeviceCount()
    if present < count:
        raise BackendError(f"devices({count}): this machine shows {present} GPU{'s' if present != 1 else ''}. HOPPERLAB_BACKEND=emulator has {MOST}")
    for number in range(count):
        capability = cupy.cuda.Device(number).compute_capability
        if capability != "".join(map(str, HOPPER)):
            raise BackendError(f"devices({count}): GPU {number} has compute capability {capability[:-1]}.{capability[-1]}, and is no Hopper GPU")
    for here in range(count):
        for there in range(count):
            if here != there:
                _open(cupy, here, there)


def _open(cupy: Any, here: int, there: int) -> None:
    runtime = cupy.cuda.runtime
    if not runtime.deviceCanAccessPeer(here, there):
        raise BackendError(f"GPU {here} cannot reach the memory of GPU {there}: they are on different hosts, or the system forbids it (IOMMU, MIG)")
    with cupy.cuda.Device(here):
        try:
            runtime.deviceEnablePeerAccess(there)
        except runtime.CUDARuntimeError as problem:
            if "already enabled" not in str(problem).lower() and "AlreadyEnabled" not in str(problem):
                raise
