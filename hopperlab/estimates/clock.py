# SPDX-License-Identifier: Apache-2.0
"""The clock that the board's power allows at the activity of a kernel: fitted, since only means over seconds are measured."""
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .boards import Board


@dataclass
class Busy:
    """Means over an SM and the time of a kernel: shares of cycles (tensor cores by wgmma, by mma.sync, issue slots, the shared memory port), and bytes a cycle."""

    wgmma: float
    mma: float
    issue: float
    port: float
    l2: float
    memory: float
    stored: float
    special: float = 0.0


def activity(busy: Busy, board: Board) -> float:
    """How much a cycle asks of the board: 1 where the highest clock just holds."""
    number = board.number
    return (number("power_base") + number("power_wgmma") * busy.wgmma + number("power_mma") * busy.mma + number("power_l2") * busy.l2 / 50
            + number("power_issue") * busy.issue + number("power_port") * busy.port)


def megahertz(busy: Busy, board: Board) -> float:
    """The SM clock in MHz."""
    asked = activity(busy, board)
    return board.number("clock_mhz") * min(1.0, asked ** -board.number("power_slope") if asked > 1 else 1.0)
