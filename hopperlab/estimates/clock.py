# SPDX-License-Identifier: Apache-2.0
"""The clock that the board's power allows at the activity of a kernel: fitted on the clocks that Nsight Compute counted of drawn launches of attention and of
products (benchmarks/counted_draws.py) and of others (profiles.json).

Tensor cores that never rest ask as much of the power as 80 bytes a cycle that the L2 reads for an SM and that arrive there, and a byte out of memory three times as
much as one of those. The highest clock is lower where tensor cores and memory are used, most of all in launches of 100 to 200 us. A launch that is over before power is
looked at has a clock that follows from its tensor cores alone (benchmarks/marked_products.py); one of milliseconds is slowed down more than one that is just longer: the
write before each launch is a rest for the board, and counts for less the longer a launch is.
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .boards import Board
    from .l2_and_memory import Traffic
    from .sm_units import Multiprocessor

SETTLES = 0.5        # of the time until power is looked at, after which a launch's clock is on average what power allows
LOWEST, RISEN = 150.0, 900.0      # us of launches in which the clock is lowest, and of those in which it has risen again
USED = 0.02          # of the time, from which on tensor cores count as used


@dataclass
class Busy:
    """Means over an SM and the time of a kernel: shares of cycles (tensor cores by wgmma, by mma.sync, issue slots, the shared memory port, exponentials), and bytes
    a cycle: asked for by SMs, from and to memory, stored, arrived in SMs (what is multicast counts once per SM), and read from the L2, which sends some of it to
    several. working: share of the board's SMs."""

    wgmma: float
    mma: float
    issue: float
    port: float
    l2: float
    memory: float
    stored: float
    special: float = 0.0
    arrived: float = 0.0
    read: float = 0.0
    working: float = 1.0


def mean_busy(sms: list[Multiprocessor], seen: float, cycles: float, moved: Traffic, active: int, working: float) -> Busy:
    """Of SMs that were simulated. seen: cycles in which SMs do as much as these did, on average over the chip."""
    per = seen * len(sms)

    def mean(name: str) -> float:
        return float(sum(getattr(sm, name).busy for sm in sms)) / per

    def quarters(name: str) -> float:
        return sum(sm.parts.busy(name) for sm in sms) / per
    return Busy(mean("tensor"), quarters("mma"), quarters("scheduler"), mean("port"), moved.loaded / active / cycles, moved.memory / active / cycles,
                moved.stored / active / cycles, quarters("special"), sum(sm.arrived for sm in sms) / per,
                moved.loaded * (moved.merged or 1.0) / active / cycles, working)


def activity(busy: Busy, board: Board, cycles: float) -> float:
    """How much a cycle of a kernel of so many cycles asks of the board: 1 where the highest clock just holds. SMs that have no work ask for nothing."""
    number = board.number
    issued = number("power_issue" if max(busy.wgmma, busy.mma) > USED else "power_float") * busy.issue
    asked = (number("power_wgmma") * busy.wgmma + number("power_mma") * busy.mma + issued
             + (number("power_arrived") * busy.arrived + number("power_read") * busy.read + number("power_memory") * busy.memory) / 50) * busy.working
    us = cycles / number("clock_mhz")
    return asked * (1 + number("power_long") * us / (us + number("power_window")))


def highest(busy: Busy, board: Board, us: float) -> float:
    """The highest clock in MHz of a launch of so many microseconds. Tensor cores and memory that are used lower it; where it lasts, it rises."""
    number, tensor = board.number, max(busy.wgmma, busy.mma)
    if tensor <= USED:
        return number("clock_mhz")
    rises = number("rises_mhz") * min(1.0, max(0.0, math.log(us / LOWEST) / math.log(RISEN / LOWEST)))
    asked = (number("first_slope") * tensor + number("first_memory") * busy.memory) * busy.working
    return min(number("tensor_mhz"), number("first_mhz") - number("reacts_mhz") + rises - asked)


def megahertz(busy: Busy, board: Board, cycles: float) -> float:
    """The SM clock in MHz. Where tensor cores are used it is never the highest, however little a kernel asks."""
    asked, tensor, us = activity(busy, board, cycles), max(busy.wgmma, busy.mma), cycles / board.number("clock_mhz")
    most = highest(busy, board, us)
    found = min(most, board.number("clock_mhz") * asked ** -board.number("power_slope") if asked > 1 else most)
    if tensor <= USED:
        return found
    at_first = min(board.number("tensor_mhz"), board.number("first_mhz") - board.number("first_slope") * tensor * busy.working)
    late = min(1.0, max(0.0, us / board.number("power_reacts") - 1) / SETTLES)
    return at_first + late * (found - at_first)
