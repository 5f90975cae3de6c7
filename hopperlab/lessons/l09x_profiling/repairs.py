# SPDX-License-Identifier: Apache-2.0
"""What lesson 09x breaks, for the learner to mend: the wait that no counter shows."""
from __future__ import annotations

from ..l08_wgmma.repairs import WAIT, read_too_early
from ..repairs import Repair

REPAIRS = (
    Repair("wait", "wgmma/one_tile.cu", "wgmma_commit_group();", "out[threadIdx.x * (N / 2) + i] = d[i];", bug=((WAIT, ""),), run=read_too_early,
           hint="The registers of `d` are the tensor core's until a wait says otherwise."),
)
