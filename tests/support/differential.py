# SPDX-License-Identifier: Apache-2.0
"""`pytest tests/emulator tests/kernels --differential -n 14 --timeout 60 --timeout-method thread`, on a Hopper machine (with a kernel that
hangs there, the time limit ends its worker and names the test): whatever a test runs in the emulator without a hazard also runs
on the GPU, from the same inputs, and must leave the same bytes (floats may differ in their last bits).

A launch is left out when the emulator found a hazard, warned or raised, when it was an eager or random repetition of one already
compared, or when the test is marked `emulator_only` (virtual clocks, deliberate dependence on the schedule).
"""
from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
from hopperlab.runtime.gpu.relaunch import OnGpu, apart
from hopperlab.runtime.watching import Seen, watching

RELATIVE = {2: 1e-2, 4: 2e-6, 8: 1e-12}      # float differences allowed, relative to the largest magnitude, by bytes
OTHERS = 2e-6                                # for floats of another width


class Differential:
    """Sees every launch while the suite runs. Counters: compared, repeated, left_out; kernels: the names of the modules compared."""

    def __init__(self):
        self.compared = self.repeated = self.left_out = 0
        self.enabled = True
        self.bounds = RELATIVE
        self.seen: set[str] = set()
        self.kernels: set[str] = set()

    def counts(self) -> tuple[int, int, int]:
        """Launches compared, repeated and left out so far."""
        return self.compared, self.repeated, self.left_out

    def install(self) -> None:
        """Watch every launch from now on."""
        import cupy
        cupy.cuda.runtime.deviceSetLimit(0, 32768)          # cudaLimitStackSize: recursion needs more than the default
        self._watch = watching(self.compare)                # kept: it ends when nobody holds it
        self._watch.__enter__()

    def compare(self, seen: Seen) -> None:
        """Launch on the GPU from the same inputs and compare what both places left."""
        if not self.enabled or seen.kernel.backend != "emulator":
            return
        if not seen.clean:
            self.left_out += 1
            return
        kernel = seen.kernel
        key = hashlib.sha256(repr((kernel.module.ptx, kernel.name, seen.grid, seen.block, seen.shared_mem, [b.tobytes() for b in seen.before.values()],
                                   [a.tobytes() for a in seen.args if isinstance(a, np.generic)])).encode()).hexdigest()
        if key in self.seen:
            self.repeated += 1
            return
        self.seen.add(key)
        on_gpu = OnGpu(seen)
        on_gpu()
        for here, there in zip(on_gpu.numbers(), on_gpu.after(), strict=True):
            check_equal(here, there, kernel.name, self.bounds)
        self.compared += 1
        self.kernels.add(kernel.module.name)


def check_equal(emulated: np.ndarray, gpu_bytes: np.ndarray, kernel: str, bounds: Mapping[int, float] = RELATIVE) -> None:
    """Bytes equal, or floats within `bounds` of the largest magnitude."""
    share, at = apart(emulated, gpu_bytes)
    bound = bounds.get(emulated.dtype.itemsize, OTHERS)
    if share > bound:
        here = np.ascontiguousarray(emulated).reshape(-1)
        raise AssertionError(f"{kernel}: the GPU left {gpu_bytes.view(here.dtype)[at]!r} at flat index {at}, the emulator {here[at]!r}: "
                             f"{share:.2g} of the largest magnitude apart, allowed are {bound:.2g}")
