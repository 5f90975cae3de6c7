# SPDX-License-Identifier: Apache-2.0
"""Who checks a launch: the listeners of this room, put together. launch.py asks for them where hazards are to be found."""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import isclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..machine.events import Listener
from . import atomic_starts, checks_collective, checks_end, flag_fences, flag_starts, letters, lost_updates
from .access_order import AccessOrder
from .checks_wgmma import TileMarks
from .clocks import Clocks
from .cluster_order import ClusterOrder
from .copy_order import CopyOrder
from .findings import Findings
from .global_order import GlobalOrder
from .grid_order import GridFlags, GridOrder
from .mbarrier_order import MbarrierOrder
from .product_order import ProductOrder
from .register_budget import RegisterBudget
from .register_times import RegisterTimes
from .relaxed_barriers import RelaxedBarriers
from .shared_order import SharedOrder
from .sync_order import SyncOrder

if TYPE_CHECKING:
    from .findings import Watched


class End(Listener):
    """What only the end of a launch shows."""

    def __init__(self, machine: Watched, shared: SharedOrder) -> None:
        self.M, self.shared = machine, shared

    def finished(self) -> None:
        """Reads of what nobody had written."""
        checks_end.unwritten(self.M, self.shared)


@cache
def checks() -> tuple[Callable[[Watched], Listener], ...]:
    """The listeners in this room's checks_*.py, in the order of their names. Each is made with the machine alone (clocks: machine.findings.clocks), so that a new
    check needs no line here."""
    modules = [import_module(f"{__package__}.{path.stem}") for path in sorted(Path(__file__).parent.glob("checks_*.py"))]
    return tuple(one for module in modules for one in vars(module).values() if isclass(one) and issubclass(one, Listener) and one.__module__ == module.__name__)


def listeners(machine: Watched) -> list[Listener]:
    """All checkers of one launch, in the order in which they hear. Their findings are in machine.findings."""
    clocks = Clocks.of_launch(machine)
    machine.findings = Findings(machine, clocks)
    shared = SharedOrder(machine, clocks, machine.slots, machine.stride)
    everywhere = GlobalOrder(machine, clocks) if machine.grid is None else GridOrder(machine, clocks)
    beside = [GridFlags(everywhere)] if isinstance(everywhere, GridOrder) else []
    relaxed = RelaxedBarriers(machine, clocks, everywhere)
    marks, barriers = TileMarks(machine, shared), MbarrierOrder(machine, clocks, shared, relaxed)
    sync = SyncOrder(machine, clocks, shared, everywhere, barriers.checks, relaxed)
    machine.findings.barriers, machine.sure = barriers.checks, barriers.sure
    before = [*flag_starts.listeners(machine, clocks, shared), *flag_fences.listeners(machine, everywhere), *lost_updates.listeners(machine, clocks, everywhere),
              *atomic_starts.listeners(machine, shared)]
    return [*before, AccessOrder(machine, shared, everywhere), *letters.listeners(machine, clocks, shared, everywhere),
            ClusterOrder(machine, clocks, barriers.checks, relaxed), barriers,
            CopyOrder(machine, clocks, shared, everywhere, barriers, marks), *[check(machine) for check in checks()], RegisterTimes(machine),
            ProductOrder(machine, clocks, shared, marks, barriers.checks), RegisterBudget(machine, clocks), sync, End(machine, shared), *beside]


def explain_stuck(machine: Watched) -> bool:
    """Report lanes that wait at a collective for lanes that will not come, which says more than a deadlock. True when there were any."""
    return checks_collective.stuck(machine)
