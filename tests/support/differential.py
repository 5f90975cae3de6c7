"""`pytest tests/emulator tests/kernels --differential -n 14 --timeout 60 --timeout-method thread`, on a Hopper machine (with a kernel that
hangs there, the time limit ends its worker and names the test): whatever a test runs in the emulator without a hazard also runs
on the GPU, from the same inputs, and must leave the same bytes (floats may differ in their last bits).

A launch is left out when the emulator found a hazard, warned or raised, when it was an eager or random repetition of one already
compared, or when the test is marked `emulator_only` (virtual clocks, deliberate dependence on the schedule).
"""
from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np

from hopperlab.hopper import tensormap_image

RELATIVE = {2: 1e-2, 4: 2e-6, 8: 1e-12}      # float differences allowed, relative to the largest magnitude, by bytes


class Differential:
    """Wraps RawKernel.__call__ while the suite runs. Counters: compared, left_out."""

    def __init__(self):
        self.compared = self.repeated = self.left_out = 0
        self.enabled = True
        self.seen: set[str] = set()

    def counts(self) -> tuple[int, int, int]:
        """Launches compared, repeated and left out so far."""
        return self.compared, self.repeated, self.left_out

    def install(self) -> None:
        """Put the comparison around every launch."""
        from hopperlab.runtime import module, session as sessions
        emulated_call, outer = module.RawKernel.__call__, self

        def call(kernel, grid, block, args=(), *, shared_mem=0, stream=None):
            if kernel.backend != "emulator" or not outer.enabled:
                return emulated_call(kernel, grid, block, args, shared_mem=shared_mem, stream=stream)
            current = sessions.current()
            known = outer.findings(current)
            before = outer.inputs(args)
            emulated_call(kernel, grid, block, args, shared_mem=shared_mem, stream=stream)
            clean = outer.findings(current) == known
            outer.compare(kernel, grid, block, args, shared_mem, before, clean)
        module.RawKernel.__call__ = call

    @staticmethod
    def findings(session) -> int:
        """Hazards and warnings so far: after either, the two places may differ."""
        return 0 if session is None else len(session.hazards) + len(session.warnings)

    @staticmethod
    def inputs(args) -> dict[int, np.ndarray]:
        """Copies of every argument's base buffer, by its id."""
        from hopperlab.runtime.arrays import base_of
        arrays = [a.array if hasattr(a, "fields") else a for a in args]
        bases = [base_of(a) for a in arrays if isinstance(a, np.ndarray)]
        return {id(b): b.copy() for b in bases}

    def compare(self, kernel, grid, block, args, shared_mem: int, before, clean: bool) -> None:
        """Launch on the GPU from the inputs and compare what both places left."""
        if not clean:
            self.left_out += 1
            return
        key = hashlib.sha256(repr((kernel.module.ptx, kernel.name, grid, block, shared_mem,
                                   [b.tobytes() for b in before.values()],
                                   [a.tobytes() for a in args if isinstance(a, np.generic)])).encode()).hexdigest()
        if key in self.seen:
            self.repeated += 1
            return
        self.seen.add(key)
        after = self._on_gpu(kernel, grid, block, args, shared_mem, before)
        from hopperlab.runtime.arrays import base_of
        for a in args:
            array = a.array if hasattr(a, "fields") else a
            if isinstance(array, np.ndarray):
                base = base_of(array)
                check_equal(base, after[id(base)], kernel.name)
        self.compared += 1

    @staticmethod
    def _on_gpu(kernel, grid, block, args, shared_mem: int, before) -> dict[int, np.ndarray]:
        import cupy
        from hopperlab.runtime import gpu
        from hopperlab.runtime.arrays import base_of
        from hopperlab.runtime.tensor_map import TensorMap
        from hopperlab.emulator import memory
        cupy.cuda.runtime.deviceSetLimit(0, 32768)          # cudaLimitStackSize: recursion needs more than the default
        on_gpu = {key: cupy.asarray(np.ascontiguousarray(base).view(np.uint8).reshape(-1)) for key, base in before.items()}

        def moved(array):
            base = base_of(array)
            start = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
            return on_gpu[id(base)].data.ptr + start

        given = []
        for a in args:
            if hasattr(a, "fields"):
                first = memory.default().address_of(a.array)
                address = moved(a.array) + a.fields.global_address - first
                given.append(TensorMap(replace(a.fields, global_address=address), None, "gpu").value)
            elif isinstance(a, np.ndarray):
                given.append(np.uint64(moved(a)))
            else:
                given.append(a)
        function = gpu.get_function(kernel.module.cupy, kernel.mangled)
        if shared_mem > 48 * 1024:
            function.max_dynamic_shared_size_bytes = shared_mem
        triple = lambda n: tuple(n) if isinstance(n, (tuple, list)) else (n,)
        function(triple(grid), triple(block), tuple(given), shared_mem=shared_mem)
        cupy.cuda.Device().synchronize()
        return {key: cupy.asnumpy(array) for key, array in on_gpu.items()}


def check_equal(emulated: np.ndarray, gpu_bytes: np.ndarray, kernel: str) -> None:
    """Bytes equal, or floats within RELATIVE of the largest magnitude. Tensor maps that a kernel wrote are not compared: their bytes
    are the driver's in one place and the emulator's own in the other."""
    flat = np.ascontiguousarray(emulated).view(np.uint8).reshape(-1)
    same = flat == gpu_bytes
    same[in_maps(flat)] = True
    if same.all():
        return
    here = np.ascontiguousarray(emulated).reshape(-1)
    there = gpu_bytes.view(here.dtype)
    if here.dtype.kind in "fV" or "float" in here.dtype.name:
        a, b = here.astype(np.float64), there.astype(np.float64)
        scale = np.nanmax(np.abs(np.where(np.isfinite(a), a, 0)), initial=1e-30)
        bound = RELATIVE.get(here.dtype.itemsize, 2e-6) * scale
        if np.allclose(a, b, rtol=0, atol=bound, equal_nan=True):
            return
    index = int(np.flatnonzero(here != there)[0]) if (here != there).any() else -1
    raise AssertionError(f"{kernel}: the GPU left {there[index]!r} at flat index {index}, the emulator {here[index]!r}")


def in_maps(flat: np.ndarray) -> np.ndarray:
    """True for the bytes of every image of a tensor map, which begins with the emulator's MAGIC."""
    words = flat[:len(flat) // 4 * 4].view(np.uint32)
    inside = np.zeros(len(flat), bool)
    for start in 4 * np.flatnonzero(words == tensormap_image.MAGIC):
        inside[start:start + tensormap_image.IMAGE_BYTES] = True
    return inside
