# SPDX-License-Identifier: Apache-2.0
"""Launches on streams: they wait in line until the program needs them, and those that may overlap run beside each other.

Streams, events, dependent launches and the host's own waits say which grid is over before which; next_grid.py interleaves the rest. What was there stays known
(stamps of global memory) until the host has waited for all of it. CUDA Programming Guide: Streams, Events, Programmatic Dependent Launch.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .grid import Grid, Queue
from .hazards import findings_grids
from .hazards.hazard import Hazard
from .hazards.grid_table import GridTable
from .launch import complain
from .next_grid import Overlap

if TYPE_CHECKING:
    from collections.abc import Callable

    from .launch import Plan
    from .machine.memory import Allocation, GlobalMemory
    from .session import Session

MOST_KNOWN = 256           # launches that the host has not waited for; older ones that are over count as known


class Grids:
    """All launches of a session that the host has not waited for. host: numbers of those that it has; tails: what the work of each stream so far stands for."""

    def __init__(self, session: Session, memory: GlobalMemory):
        self.session, self.memory = session, memory
        self.null: dict[int, Queue] = {}
        self.count = 0
        self.found: list[Hazard] = []
        self.warned = len(session.warnings)
        self.mirrors: Any = None               # a place for whoever keeps copies of arrays for these launches
        self._reset()
        self._adopt()

    def _reset(self) -> None:
        self.table = GridTable()
        self.all: dict[int, Grid] = {}
        self.host: set[int] = set()
        self.tails: dict[Queue, frozenset[int]] = {}
        self.events: dict[Queue, frozenset[int]] = {}          # what streams wait for besides their own work, since their latest launch
        self.latest: dict[Queue, Grid] = {}
        self.uses: list[tuple[Allocation, int, int, bool, frozenset[int]]] = []     # by the host, while grids had not ended
        self.overlap = Overlap(self)

    def _adopt(self) -> None:
        """The launch before, which ran by itself: a dependent launch or another stream may come too early for it."""
        left, queue = self.memory.left, self.default(0)
        if left is None:
            return
        self.memory.left = None
        plan, ctas = left
        grid = self._enter(plan, queue)
        grid.over = True
        self.overlap.over.add(grid.number)
        self.table.enter(grid.number, plan.geometry.cta_order[:ctas:plan.geometry.cluster_ctas])
        grid.ahead = frozenset()
        self.tails[queue], self.latest[queue] = frozenset({grid.number}), grid

    def default(self, device: int) -> Queue:
        """The default stream of a device."""
        return self.null.setdefault(device, Queue(device, null=True, blocking=True))

    @property
    def idle(self) -> bool:
        """True when no launch is left that the host has not waited for."""
        return not self.all

    # --- what the program says --------------------------------------------------------------------------------------
    def launch(self, plan: Plan, queue: Queue, dependent: bool = False, keep: object = None) -> Grid:
        """Put a launch behind all work of a stream. dependent: with programmatic stream serialization."""
        ahead, front = self.ahead(queue), self.latest.get(queue) if dependent else None
        grid = self._enter(plan, queue)
        grid.keep, grid.ahead = keep, ahead
        if front is None or front.number in self.host:
            grid.after = ahead
        else:
            own = self.tails.get(queue, frozenset())
            grid.front, grid.after = front, frozenset(self.host) | (ahead - own) | self.events.get(queue, frozenset()) | front.after
        self.tails[queue] = ahead | {grid.number}
        self.events[queue], self.latest[queue] = frozenset(), grid
        if len(self.all) > MOST_KNOWN:
            self.host |= {number for number in sorted(self.all)[:MOST_KNOWN // 2] if self.all[number].over}
        self._guarded(self.overlap.launched, grid)
        return grid

    def _enter(self, plan: Plan, queue: Queue) -> Grid:
        self.count += 1
        grid = Grid(self.count, plan, queue, self.table, self.overlap.goes_on())
        self.all[grid.number] = self.table.grids[grid.number] = grid
        self.table.devices.add(queue.device)
        return grid

    def ahead(self, queue: Queue) -> frozenset[int]:
        """Grids that are over before what comes next on a stream, the host's own copies included."""
        known = frozenset(self.host) | self.tails.get(queue, frozenset())
        for other, tail in self.tails.items():
            if other.device == queue.device and (queue.null and other.blocking or queue.blocking and other.null):
                known |= tail
        return known

    def of_device(self, device: int) -> frozenset[int]:
        """All grids of a device, and what they come after."""
        here = [grid for grid in self.all.values() if grid.device == device]
        return frozenset().union(*({grid.number} | grid.ahead for grid in here))

    def wait(self, queue: Queue, over: frozenset[int]) -> None:
        """What comes next on a stream waits for an event, which stands for these grids."""
        over = over & frozenset(self.all)
        self.tails[queue] = self.tails.get(queue, frozenset()) | over
        self.events[queue] = self.events.get(queue, frozenset()) | over

    def synchronise(self, over: frozenset[int] | None = None) -> None:
        """The host waits for these grids (None: all). Raises what they showed, where the session says so."""
        wanted = frozenset(self.all) if over is None else over & frozenset(self.all)
        self.run(wanted)
        self.host |= wanted
        self.table.known({n for n in self.host if all(grid.over or n in grid.after for grid in self.all.values())})
        if all(number in self.host and grid.over for number, grid in self.all.items()):
            self.forget()
        self.complain()

    def run(self, wanted: frozenset[int]) -> None:
        """Run until these grids are over; others as far as they happen to come."""
        self._guarded(self.overlap.run, wanted)

    def _guarded(self, run: Callable[..., None], *args: Any) -> None:
        """Run grids. What ends one of them otherwise than by itself ends all, as an error on a GPU does."""
        try:
            run(*args)
        except BaseException:
            self.forget()
            raise
        finally:
            self.memory.release_views()

    def query(self, over: frozenset[int]) -> bool:
        """Whether these grids are over; time passes."""
        self._guarded(self.overlap.a_little)
        return all(self.all[number].over for number in over & frozenset(self.all))

    def forget(self) -> None:
        """Nothing is left to remember: all is over and known, or given up."""
        self.memory.clear_stamps()
        self._reset()

    def complain(self) -> None:
        """Hazards of grids that are over, as an error, and doubts as warnings, where the session raises them."""
        if self.session.hazards_mode != "raise":
            return
        found, self.found = self.found, []
        doubts, self.warned = self.session.warnings[self.warned:], len(self.session.warnings)
        complain(found, doubts)

    # --- the host's own reads and writes ----------------------------------------------------------------------------
    def host_uses(self, address: int, nbytes: int, queue: Queue, writes: bool) -> None:
        """The host copies bytes of an array (writes: overwrites them), in order with the work of a stream, which it waits for."""
        self.synchronise(self.ahead(queue))
        allocation = self.memory.find(address)
        unknown = frozenset(self.all) - self.host
        if allocation is None or not unknown:
            return
        use = allocation, address - allocation.address, address - allocation.address + nbytes, writes
        self._check(*use, frozenset(number for number in unknown if self.all[number].over))
        self.uses.append((*use, frozenset(number for number in unknown if not self.all[number].over)))
        self.complain()

    def _check(self, allocation: Allocation, first: int, last: int, writes: bool, grids: frozenset[int]) -> None:
        """Did one of these grids write there (writes: or read)?"""
        low, high = first >> 2, (last + 3) >> 2
        touched = self.table.touched.get(allocation.address, {})
        for number, verb in ((number, verb) for number in sorted(grids & touched.keys()) for verb in ("write", "read")[:1 + writes]):
            who, when = touched[number].tables.get(verb, (np.zeros(0, np.int64),) * 2)
            hit = np.flatnonzero(who[low:high])
            if len(hit):
                k, found = int(hit[0]) + low, list[Hazard]()
                findings_grids.host(found, self.table.told, self.all[number], int(who[k]), int(when[k]), verb, allocation, 4 * k, writes)
                self.keep_found(found)

    def keep_found(self, found: list[Hazard]) -> None:
        """Hazards join the session's."""
        self.session.hazards.extend(found)
        self.found.extend(found)

    def ended(self, grid: Grid) -> None:
        """A grid is over: what did the host do meanwhile?"""
        for *use, grids in self.uses:
            if grid.number in grids:
                self._check(*use, frozenset({grid.number}))
