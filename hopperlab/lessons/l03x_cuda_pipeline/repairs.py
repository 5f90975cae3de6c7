# SPDX-License-Identifier: Apache-2.0
"""What lesson 03x breaks, for the learner to mend: acquire and release of a cuda::pipeline."""
from __future__ import annotations

from ..repairs import Repair

REPAIRS = (
    Repair("acquire", "gemm/cuda_pipeline.cu", "auto copy = [&](int i)", "    };", bug=(
        ("        pipeline.producer_acquire();       // SCOPE 1: until everyone has released the slot\n", ""),),
        run=lambda landing: _pipeline(landing), hint="What does a producer have to do before it may write into a slot?"),
    Repair("release", "gemm/cuda_pipeline.cu", "mma_k_block_128(d, stage", "    }", bug=(
        ("        pipeline.consumer_release();       // I have read tile i\n", ""),),
        run=lambda landing: _pipeline(landing), hint="The producers wait for a slot to be free: who tells them? And a tile is read before it has landed, "
                                                     "since the next `consumer_wait` asked for the first stage again: "
           "which of the four calls moves a consumer on to the next stage?"),
)


def _pipeline(landing: str):
    from .cpp_pipeline import run_pipeline
    return run_pipeline("block", stages=3, schedule=landing)
