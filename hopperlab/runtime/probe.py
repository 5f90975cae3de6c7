# SPDX-License-Identifier: Apache-2.0
"""The smallest kernel of the course: whether a place runs kernels at all. `hopperlab doctor` launches it; its PTX ships for machines without NVRTC."""
from __future__ import annotations

from .arrays import array_module
from .module import RawModule

CODE = 'extern "C" __global__ void probe(int* a) { a[threadIdx.x] = threadIdx.x; }\n'
NAME = "probe.cu"


def compiled(place: str) -> RawModule:
    """The probe's module, for 'gpu' or 'emulator'."""
    return RawModule(code=CODE, backend=place, name=NAME)


def runs(place: str) -> bool:
    """Launch the probe in that place; True when it wrote what it should. Raises whatever the place raises."""
    xp = array_module(place)
    values = xp.zeros(32, xp.int32)
    compiled(place).get_function("probe")((1,), (32,), (values,))
    return bool(xp.asnumpy(values).tolist() == list(range(32)))
