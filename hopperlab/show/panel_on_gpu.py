# SPDX-License-Identifier: Apache-2.0
"""On a machine with a Hopper GPU: a panel's launches once more there, timed, with how far the result is from the first launch's (in most panels the emulator's).

A launch that showed a hazard in the emulator is not repeated: on the GPU it may hang or end the process's use of it, and lessons run such kernels in a
process of their own.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from ..measure.machine.timing import Sample, interleaved
from ..runtime.backend import backend
from ..runtime.errors import GpuError
from ..runtime.gpu.driver import find_gpu
from ..runtime.gpu.relaunch import OnGpu, apart, holds_addresses
from ..runtime.watching import Seen

ROUNDS = 9
DIFFERENT = "other bits: clocks, an order of arrival, or sums rounded elsewhere"
MOST = 3                # launches that are timed; a panel that makes more is told how many are left


def timed(seen: Seen, time: Callable[..., dict[str, Sample]] = interleaved) -> str:
    """One launch in words: its kernel, the median of ROUNDS launches with a cold L2, and how far its result is from the first launch's."""
    name = seen.kernel.name
    if not seen.clean:
        return f"{name} not launched: the emulator found a hazard in it"
    if any(map(holds_addresses, seen.before.values())):
        return f"{name} not launched: it reads addresses from an array, and those are the emulator's"
    on_gpu = OnGpu(seen)
    on_gpu.restore()
    on_gpu()
    share = max((apart(here, there)[0] for here, there in zip(on_gpu.numbers(), on_gpu.after(), strict=True)), default=0.0)
    sample = time({name: on_gpu}, rounds=ROUNDS, prepare=on_gpu.restore)[name]
    on_gpu.close()
    result = "the same result" if share == 0 else f"results apart by {share:.1g} of the largest value" if share < 1 else DIFFERENT
    return f"{name} {1e3 * sample.ms:.1f} us ({1e3 * sample.least:.1f} to {1e3 * sample.most:.1f}), {result}"


def _timed(seen: Seen) -> str:
    try:
        return timed(seen)
    except GpuError as error:                               # the picture from the emulator stays
        return f"{seen.kernel.name}: {error}"


def told(launches: Sequence[Seen]) -> str:
    """What the panel's status line says of its launches on this machine's GPU; nothing where kernels run in the emulator."""
    if not launches or backend() != "gpu":
        return ""
    different = list({(seen.kernel.module.ptx, seen.kernel.name, seen.grid, seen.block, seen.shared_mem): seen for seen in launches}.values())
    said = [_timed(seen) for seen in different[:MOST]]
    if len(different) > MOST:
        said.append(f"and {len(different) - MOST} more")
    return f"On this GPU ({find_gpu().name}): {'; '.join(said)}."
