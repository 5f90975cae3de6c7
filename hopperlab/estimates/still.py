# SPDX-License-Identifier: Apache-2.0
"""Operations in flight of a sample (sample.py): what copies and products move stays where it is."""
from __future__ import annotations

from typing import Any

import numpy as np

from ..emulator.machine.in_flight import BarrierOp, CpAsyncOp, GroupOp, Landing


class Still(Landing):
    """Operations in flight that signal and complete as ever, and move nothing."""

    multiplies = False

    def issue_copy(self, op: BarrierOp) -> None:
        """A copy to shared memory."""
        if type(op) is BarrierOp:
            op.copy = _nothing
        super().issue_copy(op)

    def issue_store(self, op: GroupOp) -> None:
        """A copy to global memory."""
        op.read, op.write = _nothing_at_all, _nothing
        super().issue_store(op)

    def issue_cp(self, op: CpAsyncOp) -> None:
        """cp.async."""
        op.copy = _nothing
        super().issue_cp(op)


def _nothing(*_given: Any) -> None:
    """Data stays where it is."""


def _nothing_at_all(*_given: Any) -> np.ndarray:
    return np.zeros(0, np.uint8)
