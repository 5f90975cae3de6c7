# SPDX-License-Identifier: Apache-2.0
"""One multiprocessor, or the SMs of a cluster, in discrete events: actors run their steps, and units that they share serve one after the other.

Times are cycles from the start of the first CTA. An actor goes on until it has to wait or is ahead of another one, so that units are asked nearly in the
order of time. What lands later is known when it is issued: a barrier's phase completes at the latest of what it waits for.
"""
from __future__ import annotations

import heapq
from itertools import islice, takewhile
from operator import add
from typing import TYPE_CHECKING, Any

from . import trace as T
from .boards import Board
from .programs import COMPUTE, Actor, asked_at_once
from .runner import Runner
from .together import STEP
from .trace import Step
from .l2_and_memory import Memory
from .sm_units import NEVER, Barrier, Multiprocessor, later

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TOGETHER = 0.8               # of first loads' time in memory, how far they share it with those behind them (marks of the clock in attention/*.cu, H200)
FIRST = 0.5                  # power of the share of first loads that differs, for as much of which memory is busy in attention (marks in 113 short launches, H200)
FOLLOWED = 0.5               # power of how many others there are, for warps that hand over two groups of products at once (fitted on draws of attention without turns)
WORKED = 64.0                # issue slots of a warp between products, from which on it has worked on their sums


class Simulation:
    """Runs CTAs. `counts`: arrivals that each mbarrier of the sample wants; capacity: barriers a CTA may have; threads: of a CTA."""

    def __init__(self, board: Board, memory: Memory, counts: Mapping[int, int], capacity: int, warps: int, operations: Callable[[int], Any]):
        self.board, self.memory, self.counts, self.capacity, self.warps = board, memory, counts, capacity, warps
        self.operations = operations
        self.barriers: dict[tuple[Any, ...], Barrier] = {}
        self.heap: list[tuple[float, int, Runner]] = []
        self.numbers = {name: constant.value for name, constant in board.constants.items()}
        self.products_take: dict[int, float] = {}                  # cycles, by instruction
        self.meeting = {release: board.cluster_barrier(32 * warps, release) for release in (False, True)}
        self.cta_ends: dict[tuple[int, int], float] = {}
        self.left, self.places, self.stamp, self.latest = dict[tuple[int, int], int](), dict[tuple[int, int], int](), 0, 0.0
        self.sms: dict[tuple[int, int], Multiprocessor] = {}
        self.cluster_warps: dict[int, int] = {}
        self.store_ends: list[tuple[float, float]] = []
        self.on_end: Callable[[tuple[int, int], float], object] = lambda key, at: None
        self.tile_ends, self.marks, self.tile_marks = list[float](), list[float](), dict[tuple[int, int, int], list[float]]()
        self.draws, self.begins = dict[tuple[int, int], list[float]](), dict[tuple[int, int, int], float]()
        self.starts, self.load_ends = dict[int, float](), list[tuple[float, int]]()
        self.do: dict[int, Callable[[Runner, Step], bool]] = {kind: getattr(self, name) for kind, name in _DO.items()}

    # --- who runs ---------------------------------------------------------------------------------------------------
    def start(self, actors: list[Actor], copy: int, slot: int, sm: Multiprocessor, at: float, cluster: int) -> None:
        """The actors of a sampled CTA begin on an SM; `copy` tells apart CTAs that do the same."""
        mine = [actor for actor in actors if actor.slot == slot]
        self.left[(copy, slot)] = len(mine)
        self.starts[copy] = at
        self.sms[(copy, slot)] = sm
        self.cluster_warps[copy] = self.warps * cluster
        taken = {place for (_, other), place in self.places.items() if other == slot}
        place = self.places[(copy, slot)] = next(number for number in range(len(taken) + 1) if number not in taken)
        if not sm.loaded:
            sm.at_once += sum(map(asked_at_once, mine))
        for actor in mine:
            self._push(Runner(actor, sm, copy, at, place, (actor.first + place * self.warps) % 4))

    def _push(self, runner: Runner) -> None:
        self.stamp += 1
        heapq.heappush(self.heap, (runner.at, self.stamp, runner))

    def run(self) -> float:
        """To the end; returns when the last CTA ended."""
        heap = self.heap
        while heap:
            runner: Runner | None = heapq.heappop(heap)[2]
            while runner is not None:
                runner = self._advance(runner)
        return max(self.cta_ends.values(), default=0.0)

    def _advance(self, runner: Runner) -> Runner | None:
        """Until it waits, or ends (None), or is ahead of another one, which goes on."""
        steps, heap, do = runner.actor.steps, self.heap, self.do
        end = len(steps)
        while runner.step < end:
            at = runner.at
            if heap and at > heap[0][0]:
                self.stamp += 1
                return heapq.heapreplace(heap, (at, self.stamp, runner))[2]
            if at > self.latest:
                self.latest = at
            step = steps[runner.step]
            kind = step[0]
            if kind == COMPUTE:
                self._compute(runner, step[1], step[-1])
            elif not do[kind](runner, step):
                return None
            runner.step += 1
        if not runner.over:
            runner.over = True
            key = (runner.copy, runner.actor.slot)
            self.left[key] -= 1
            self.cta_ends[key] = max(self.cta_ends.get(key, 0.0), runner.at + (self.numbers["lane_store_end"] if runner.put else 0.0))
            if not self.left[key]:
                del self.places[key]
                self.on_end(key, self.cta_ends[key])
        return None

    # --- instructions -----------------------------------------------------------------------------------------------
    def _compute(self, runner: Runner, cost: Any, warps: int) -> None:
        sm, at, who, numbers, actor = runner.sm, runner.at, runner.who, self.numbers, runner.actor
        issue, tensor, alu, special, alone, stays = cost.issue, cost.tensor, cost.alu, cost.special, cost.alone, cost.stays
        runner.worked += issue
        if at != sm.lately.at:
            sm.lately.move(at)
        if stays or special:
            beside = sm.products.beside(at, alone, who, sm.tensor.free)              # while the tensor core works
            held, longer = beside * (numbers["alu_held"] * stays), beside * (numbers["special_held"] * special)
            alu, special, alone = alu + held, special + longer, alone + (held + longer)
        idle, power = sm.idle.average(who), FOLLOWED if actor.followed else 1.0
        meets = numbers["meets_crowded" if actor.crowded else "meets"] if actor.turns else None if actor.multiplies else 1.0
        schedulers, exponentials, pipes, mma = sm.parts.of(runner.part, warps if warps < 4 else 4)
        end, more = at, later(schedulers, issue, who, meets, idle, power)
        if special:
            least = special * runner.alike(numbers["alike_lost"])
            more = [one + max(wait, least) for one, wait in zip(more, later(exponentials, special, who, meets, idle, power), strict=True)]
        if alu:
            waits = later(pipes, alu, who, None if actor.multiplies and len(sm.products.there) == 1 else 1.0, idle)
            end = at + alu + max(waits)
            if sm.products.all_of_them:
                more = list(map(add, more, waits))
        if tensor:
            end = max(end, max(unit.serve(at, tensor) for unit in mma) - numbers["mma_ahead"])
        latest = max(more) + (numbers["split_met"] * stays * schedulers[0].met(who, issue, idle) if actor.split and stays else 0.0)
        end = max(end, at + latest + alone)
        if cost.port:
            end = max(end, sm.port.serve(at, cost.port * warps) - self.numbers["port_ahead"])
        runner.at = self._moved(runner, sm, cost, warps, end) if cost.loaded or cost.stored else end

    def _moved(self, runner: Runner, sm: Multiprocessor, cost: Any, warps: int, end: float) -> float:
        """When what warps load from and store to global memory lets them go on."""
        at, memory = runner.at, self.memory
        if cost.loaded and memory.lanes:
            end = sm.lanes(memory, at, cost.loaded * warps, end)
        elif cost.loaded:
            missed = self.numbers["l1_missed"]
            nbytes = cost.loaded * warps * missed
            self._fetch(sm, at, nbytes)
            through = sm.by_lanes.serve(at, nbytes / min(memory.l2, memory.dram / max(memory.missed, 1e-9)))
            there = max(end + missed * (self.numbers["lane_latency_l2"] + memory.waited), through)
            if "wgmma" in runner.open or runner.groups.get("wgmma"):
                runner.later = max(runner.later, there)                  # the products are waited for before it is used
            else:
                end = there
        if cost.stored:
            runner.wrote, runner.put = True, memory.lanes > 0
            self.store_ends.append((sm.stores.serve(at, cost.stored * warps / memory.lane_store), cost.stored * warps))
            taken = sm.stores.free - self.numbers["store_queue"] / memory.lane_store
            end, sm.port.free = max(end, taken), max(sm.port.free, taken)
        return end

    def _fetch(self, sm: Multiprocessor, at: float, nbytes: float, way: str = "lane", more: float = 0.0) -> float:
        """When bytes that lanes or the engine (way 'tma' for boxes, 'bulk' for one piece) ask for have left L2 and memory. more: bytes that the L2 is as long
        busy with beside them (trace.more)."""
        memory = self.memory
        if memory.first and way != "lane" and sm.loaded < sm.at_once:
            return self._begun(sm, at, nbytes, way)
        cold = sm.loaded < memory.cold
        end = sm.l2.serve(at, max(nbytes / memory.l2, (nbytes + more) / (memory.rows or memory.l2) if more else 0.0))
        if memory.missed:
            missed = nbytes * (memory.steps[min(int(sm.loaded / STEP), len(memory.steps) - 1)] if memory.steps else memory.missed)
            pushed = min(missed * (1.0 if cold and memory.crowd else memory.share), max(0.0, memory.dirty - sm.pushed))
            sm.pushed += pushed
            end = max(end, sm.dram.behind(at, (missed + pushed) / memory.dram, memory.burst / memory.dram))
        sm.loaded += nbytes
        sm.arrived += nbytes if way == "lane" else 0
        near = self.numbers[f"{way}_latency_l2"]
        beyond = memory.pace * (self.numbers[f"{way}_latency_memory"] - near) + memory.queued
        return end + near + max(memory.waited, beyond + memory.crowd if cold else memory.late * beyond)

    def _begun(self, sm: Multiprocessor, at: float, nbytes: float, way: str) -> float:
        """The same of what an SM asks for before it waits: all SMs do so at once, and memory serves none before the others."""
        memory = self.memory
        each = (memory.first ** FIRST if memory.stream else memory.first * (1 + self.numbers["l2_dirty_share"])) * memory.begun / memory.dram
        end = sm.dram.serve(max(at, sm.ready), nbytes * each)
        if not memory.stream:
            end = max(end, sm.l2.serve(at, nbytes / memory.l2))
        sm.loaded += nbytes
        end += TOGETHER * max(0.0, sm.ready + sm.at_once * each - end)
        return end + memory.pace * self.numbers[f"{way}_latency_memory"]

    def wgmma(self, runner: Runner, step: Step) -> bool:
        """A product starts when the tensor core is free; the warpgroup only hands it over."""
        sm = runner.sm
        if sm.holder not in (None, runner):
            sm.held.append(runner)
            return False
        if runner.wrote or not runner.handed:
            key = (runner.copy, runner.actor.slot, runner.actor.first)
            self.begins.setdefault(key, runner.at)
            if runner.wrote:
                runner.wrote = False
                self.tile_ends.append(runner.at)
                self.tile_marks.setdefault(key, []).append(runner.at)
        takes = self.products_take.get(step[1])
        if takes is None:
            info = self.operations(step[1]).info
            takes = self.products_take[step[1]] = self.board.wgmma_cycles(info.n, bool(info.rs))
        cycles = takes * step[-1] / 4 * sm.fed(runner.at, self.numbers["wgmma_fed"], self.numbers["fed_bytes"])
        if runner.worked > WORKED and "wgmma" not in runner.open and not runner.groups.get("wgmma"):
            cycles += self.numbers["wgmma_anew"] * step[-1] / 4
        runner.worked = 0.0
        start = max(runner.at, runner.handed)
        end = sm.multiply(start, cycles, runner.who)
        runner.open["wgmma"] = end + self.numbers["wgmma_drain"]
        runner.handed = start + self.numbers["wgmma_issue"]                 # until then it computes what describes the next one's operands
        runner.at = max(start + self.numbers["wgmma_handed"], sm.taken(end, int(self.numbers["wgmma_ahead"])))
        sm.holder = runner if self._goes_on(runner) else None
        while sm.holder is None and sm.held:
            other = sm.held.pop(0)
            other.at = max(other.at, runner.at)
            self._push(other)
        return True

    def _goes_on(self, runner: Runner) -> bool:
        """Whether more products follow that nothing keeps waiting: a scheduler stays with the warp that it is at, so that others hand over theirs afterwards."""
        if runner.step not in runner.actor.followed:
            return False
        between = takewhile(lambda step: step[0] != T.WGMMA, islice(runner.actor.steps, runner.step + 1, None))
        waits = [(self.barriers.get((runner.copy, step[2])), step[3]) for step in between if step[0] == T.WAIT]
        return all(phases == 0 or barrier is not None and len(barrier.done) >= phases for barrier, phases in waits)

    def commit(self, runner: Runner, step: Step) -> bool:
        """A group is closed."""
        kind = step[2]
        runner.groups.setdefault(kind, []).append((runner.open.pop(kind, runner.at), runner.open.pop("asked", NEVER) if kind is False else NEVER))
        if kind is True:
            runner.reads.setdefault(kind, []).append((runner.open.pop("read", runner.at), NEVER))
        return True

    def products(self, runner: Runner, step: Step) -> bool:
        """wgmma.wait_group, and what lanes loaded meanwhile."""
        runner.at, runner.later = max(runner.at, runner.later), 0.0
        return self._groups(runner, "wgmma", step[2], runner.groups)

    def wait_groups(self, runner: Runner, step: Step) -> bool:
        """wait_group of copies."""
        return self._groups(runner, step[2], step[3], runner.reads if step[4] else runner.groups)

    def _groups(self, runner: Runner, kind: Any, pending: int, table: dict[Any, list[tuple[float, float]]]) -> bool:
        closed = table.get(kind, [])
        due = closed[:len(closed) - pending] if pending else closed
        if due:
            runner.at = max(runner.at, max(end for end, _ in due))
            for _, asked in due:
                runner.sm.took(asked, runner.at, runner.actor.warps / self.warps)
            table[kind] = closed[len(closed) - pending:] if pending else []
        return True

    # --- copies -----------------------------------------------------------------------------------------------------
    def load(self, runner: Runner, step: Step) -> bool:
        """A bulk or tensor load."""
        numbers, sm, places = self.numbers, runner.sm, step[3]
        runner.at += numbers["tma_issue"]
        if sm.ready == NEVER:
            sm.ready = runner.at + numbers["tma_first"]
        ready = self._fetch(sm, max(runner.at, sm.ready), step[2], "bulk" if step[5] else "tma", step[4])
        self.load_ends.append((ready, step[2]))
        for barrier, nbytes, slot in places:
            into = self.sms.get((runner.copy, slot), sm)
            into.arrived += nbytes
            end = max(ready, into.engine.serve(runner.at, nbytes / numbers["tma_bytes"]) + numbers["tma_latency_l2"])
            self._contribute((runner.copy, barrier), 0, -nbytes, end, self.counts.get(barrier, 1), runner.at)
        return True

    def store(self, runner: Runner, step: Step) -> bool:
        """A bulk or tensor store: its source is read, then it is written."""
        memory = self.memory
        runner.at += self.numbers["tma_issue"] + (self.numbers["tile_more"] if memory.stream and not runner.stored else 0.0)
        runner.wrote = runner.stored = True
        read = runner.sm.engine.serve(runner.at, step[2] / self.numbers["tma_bytes"])
        out = runner.sm.stores.serve(runner.at, step[2] / memory.store)
        alone = max(runner.at, runner.open.get("read", 0.0)) + step[2] / memory.stream if memory.stream else 0.0
        read = max(read, out, alone) if memory.stream else max(read, out - self.numbers["store_queue"] / memory.store) + self.numbers["store_read"]
        runner.open["read"] = max(runner.open.get("read", 0.0), read)
        runner.open[True] = max(runner.open.get(True, 0.0), out + self.numbers["store_latency"])
        self.store_ends.append((out, step[2]))
        return True

    def cp_async(self, runner: Runner, step: Step) -> bool:
        """cp.async by lanes."""
        end = self._fetch(runner.sm, runner.at, step[2] * step[-1])
        self.load_ends.append((end, step[2] * step[-1]))
        runner.open[False] = max(runner.open.get(False, 0.0), end)
        runner.open.setdefault("asked", runner.at)
        runner.copies = max(runner.copies, end)
        return True

    def cp_arrive(self, runner: Runner, step: Step) -> bool:
        """cp.async.mbarrier.arrive."""
        self._contribute((runner.copy, step[2]), step[3] * step[-1], 0, max(runner.at, runner.copies), self.counts.get(step[2], 1))
        return True

    def remote(self, runner: Runner, step: Step) -> bool:
        """Bytes to another CTA of the cluster."""
        end = runner.sm.l2.serve(runner.at, step[2] / self.numbers["dsmem_bytes"]) + self.numbers["dsmem_latency"]
        if step[3] >= 0:
            self._contribute((runner.copy, step[3]), 0, -step[2], end, self.counts.get(step[3], 1))
        return True

    # --- barriers ---------------------------------------------------------------------------------------------------
    def _barrier(self, key: tuple[Any, ...], wanted: int) -> Barrier:
        return self.barriers.get(key) or self.barriers.setdefault(key, Barrier(wanted))

    def _contribute(self, key: tuple[Any, ...], arrivals: int, nbytes: int, at: float, wanted: int, asked: float = NEVER) -> None:
        barrier = self._barrier(key, wanted)
        barrier.asked = min(barrier.asked, asked)
        barrier.pending -= arrivals
        barrier.bytes += nbytes
        barrier.latest = max(barrier.latest, at)
        if barrier.pending <= 0 and barrier.bytes == 0:
            self._complete(barrier)

    def _complete(self, barrier: Barrier) -> None:
        if barrier.asked < NEVER:
            barrier.since[len(barrier.done)], barrier.asked = barrier.asked, NEVER
        barrier.done.append(barrier.latest)
        barrier.pending, barrier.latest = barrier.wanted, 0.0
        barrier.met.clear()
        waiting, barrier.waiting = barrier.waiting, []
        for runner in waiting:
            self._push(runner)

    def arrive(self, runner: Runner, step: Step) -> bool:
        """mbarrier.arrive, here or in another CTA."""
        slot = step[2] // self.capacity
        far = slot != runner.actor.slot
        runner.told = 0.0 if runner.actor.multiplies else max(runner.told, runner.at) + self.numbers["mbarrier_told"]
        at = runner.at + (self.numbers["mbarrier_remote"] - self.numbers["mbarrier"] if far else 0)
        self._contribute((runner.copy, step[2]), round(step[3] * step[-1]), step[4] * step[-1], at, self.counts.get(step[2], 1))
        return True

    def _wait(self, runner: Runner, barrier: Barrier, phases: int, latency: float, look: float = 0.0) -> bool:
        if len(barrier.done) < phases:
            barrier.waiting.append(runner)
            return False
        if phases > 0:
            before, runner.at = runner.at, max(max(runner.at, runner.told) + look, barrier.done[phases - 1] + latency)
            if runner.actor.multiplies:
                runner.sm.lately.move(before)
                runner.sm.idle.used(runner.at - before, runner.who)
            runner.sm.took(barrier.since.pop(phases - 1, NEVER), runner.at)
        return True

    def wait(self, runner: Runner, step: Step) -> bool:
        """mbarrier.try_wait until it is true."""
        runner.at, runner.stored = runner.at + (self.numbers["tile_more"] if runner.stored and self.memory.stream else 0.0), False
        return self._wait(runner, self._barrier((runner.copy, step[2]), self.counts.get(step[2], 1)), step[3], self.numbers["mbarrier"],
                          0.0 if runner.actor.multiplies else self.numbers["mbarrier_look"])

    def _meet(self, runner: Runner, key: tuple[Any, ...], warps: int, came: int) -> None:
        barrier = self._barrier(key, warps)
        barrier.wanted, barrier.latest = warps, max(barrier.latest, runner.at)
        who = (runner.actor.slot, runner.actor.first)                    # lanes of a warp may come one after the other: it counts once
        barrier.met[who] = max(barrier.met.get(who, 0), came)
        if sum(barrier.met.values()) >= warps:
            self._complete(barrier)

    def named(self, runner: Runner, step: Step) -> bool:
        """bar.arrive and bar.sync."""
        self._meet(runner, (runner.copy, "named", step[2]), -(-step[4] // 32) or self.warps, step[-1])
        return True

    def named_wait(self, runner: Runner, step: Step) -> bool:
        """bar.sync."""
        return self._wait(runner, self._barrier((runner.copy, "named", step[2]), 1), step[3], self.numbers["named"])

    def cluster(self, runner: Runner, step: Step) -> bool:
        """barrier.cluster.arrive."""
        key = (runner.copy, "cluster", step[2])
        runner.met[key] = (len(self._barrier(key, 1).done) + 1, step[4])
        self._meet(runner, key, self.cluster_warps[runner.copy], step[-1])
        return True

    def cluster_wait(self, runner: Runner, step: Step) -> bool:
        """barrier.cluster.wait."""
        key = (runner.copy, "cluster", step[2])
        phases, release = runner.met.get(key, (0, False))
        return self._wait(runner, self._barrier(key, 1), phases, self.meeting[release])

    def mark(self, runner: Runner, step: Step) -> bool:
        """Half of what the actor does, or a draw."""
        (self.marks if step[0] == T.MARK else self.draws.setdefault((runner.copy, runner.actor.slot), [])).append(runner.at)
        return True


_DO = {T.WAIT: "wait", T.ARRIVE: "arrive", T.LOAD: "load", T.STORE: "store", T.COMMIT: "commit", T.GROUPS: "wait_groups", T.CP_ASYNC: "cp_async",
       T.CP_ARRIVE: "cp_arrive", T.NAMED: "named", T.NAMED_WAIT: "named_wait", T.CLUSTER: "cluster", T.CLUSTER_WAIT: "cluster_wait", T.WGMMA: "wgmma",
       T.PRODUCTS: "products", T.REMOTE: "remote", T.MARK: "mark", T.DRAW: "mark"}
