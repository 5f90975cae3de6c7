# SPDX-License-Identifier: Apache-2.0
"""What lesson 19 breaks, for the learner to mend: a flag of too small a scope, a flag before the data, and mail that is written again too early."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


def _reduce(landing: str) -> tuple[bool, Any]:
    from .device_runs import run_reduce
    return run_reduce(landing=landing)


def _scattered(landing: str) -> tuple[bool, Any]:
    from .device_runs import run_scattered
    return run_scattered(landing=landing)


REPAIRS = (
    Repair("scope", "peers/all_reduce.cu", "if (other < devices && other != rank) {", "await_flag(flag(rank, other), step);",
           bug=(("raise_flag(flag(other, rank), step);", "st_release_gpu(flag(other, rank), step);"),), run=_reduce,
           hint="Who reads the flag that this thread writes? A scope has to hold both ends; peers.cuh has a store for each scope."),
    Repair("data", "peers/scattered_product.cu", "if (thread == 0) {", "red_release_gpu_add(done, count);", bug=((
        "            cp_async_bulk_wait_group<0>();           // and the additions have been made\n", ""),), run=_scattered,
        hint="There are two waits for a bulk group. One says that shared memory may be written again. What does a flag promise that says the additions have been made?"),
    Repair("half", "peers/all_reduce.cu", "__device__ __forceinline__ uint4* box(", "return mail.of<uint4>(to)",
           bug=(("((size_t)(step % 2) * devices + from) * vectors", "(size_t)from * vectors"),), run=_reduce,
           hint="A device that is through with this step may begin the next at once, while another still adds. Where must the next step's mail go? There is "
                "room for two halves, of `devices` boxes each."),
)
