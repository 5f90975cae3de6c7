"""Measuring: event timing, peers, clocks and power, and recordings of all of it.

    timing      interleaved launches with a cold L2, medians          board       GPU, driver, versions, clocks, energy
    launches    the course's kernels, ready to call                   peers       cuBLAS and the driver's copy
    recordings  measured results as JSON: load, save, schema          record      `python -m hopperlab.measure.record`
`load(name)` is the reader: a stored recording as a `Recording`. Nothing here is imported until it is asked for.
"""
from __future__ import annotations

from importlib import import_module

_NAMES = {"load": "recordings", "names": "recordings", "Recording": "recordings", "Record": "recordings",
          "interleaved": "timing", "Sample": "timing", "header": "board"}

__all__ = list(_NAMES)


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
