# SPDX-License-Identifier: Apache-2.0
"""Measuring: event timing, peers, clocks and power, and recordings of all of it.

    launches/   the course's kernels, ready to call             machine/    event timing, the board, peers such as cuBLAS
    suites/     what is measured, and `hopperlab bench`         profile/    Nsight Compute and compute-sanitizer over the kernels
    claims/     what the recordings say of 43 claims            recordings  measured results as JSON: load, save, schema
    timelines   where each warp was, by marks in the kernel     story, readme    the ladder told from its recording, README's tables
`load(name)` is the reader: a stored recording as a `Recording`. Nothing here is imported until it is asked for.
"""
from __future__ import annotations

from importlib import import_module

_NAMES = {"load": "recordings", "names": "recordings", "Recording": "recordings", "Record": "recordings",
          "interleaved": "machine.timing", "Sample": "machine.timing", "header": "machine.board", "tune": "suites.search"}

__all__ = list(_NAMES)


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
