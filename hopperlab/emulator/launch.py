# SPDX-License-Identifier: Apache-2.0
"""From a kernel and its arguments to a Machine: geometry, residency, the layout of shared memory and parameters."""
from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import ThreadpoolController

from ..hopper import limits
from .errors import DeadlockError, HazardError, HazardWarning, LaunchError, LaunchInterrupted, MemoryFault
from .hazards import checks_end, watch
from .hazards.findings import Findings
from .machine.events import Listener
from .machine.machine import Machine
from .machine.machine_constants import LOCAL_BASE, PARAM_WINDOW, SYSTEM_SHARED
from .machine.memory import GlobalMemory, default
from .observe.access_tracer import AccessTracer
from .observe.counting import Counting
from .observe.deadlock import Deadlock
from .observe.progress import Line, Progress
from .observe.tracer import Tracer
from .observe.work import Work
from .second_look import SecondLook
from .session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .program import Program
    from .ptx.ir import Function, Instr, Module

MAP_BYTES, MAP_ALIGN = 128, 64                             # of a tensor map (CUtensorMap), by which a parameter that holds one is known


@dataclass
class Geometry:
    """Grid, block and residency. `slots` CTAs are resident at a time; a slot has `warps` warps; a CTA takes threads, registers per thread and shared memory `per_cta`."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    slots: int
    warps: int
    threads: int
    ctas: int
    tid: list = field(default_factory=list)
    cta_step: tuple[int, int, int] = (1, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    explicit_cluster: bool = False
    per_cta: tuple[int, int, int] = (32, 16, 0)

    @property
    def cluster_ctas(self) -> int:
        """CTAs of a cluster."""
        return prod(self.cluster)

    @cached_property
    def cta_order(self) -> np.ndarray:
        """Linear CTA numbers, cluster by cluster, by rank inside a cluster (x fastest)."""
        per_axis = [np.arange(g).reshape(-1, c) for g, c in zip(self.grid, self.cluster)]
        z, y, x = (per_axis[k] * self.cta_step[k] for k in (2, 1, 0))
        linear = (z[:, None, None, :, None, None] + y[None, :, None, None, :, None] + x[None, None, :, None, None, :])
        return linear.reshape(-1)

    def only(self, ctas: np.ndarray) -> Geometry:
        """A launch of these CTAs alone, by their linear numbers, all resident at once."""
        few = replace(self, slots=len(ctas), ctas=len(ctas))
        few.__dict__["cta_order"] = ctas                # in place of what the property would compute
        return few

    def block_index(self, linear: int) -> tuple[int, int, int]:
        """blockIdx (x, y, z) of a CTA by its linear number."""
        return tuple(int(linear // step % size) for step, size in zip(self.cta_step, self.grid))


@dataclass
class Layout:
    """Where variables and parameters lie. Addresses in `symbols` are those of the variable's own space."""

    symbols: dict[str, np.uint64]
    params: dict[str, int]
    shared_bytes: int
    dynamic_bytes: int
    local_bytes: int
    uses_shared: bool
    features: frozenset[str]
    variables: tuple[tuple[int, int, str], ...] = ()           # static shared variables: first byte, end, name
    compiler: str = ""
    maps: tuple[tuple[int, int], ...] = ()                     # first byte and end of parameters that hold a tensor map


def _triple(value, what: str) -> tuple[int, int, int]:
    given = tuple(int(v) for v in (value if isinstance(value, (tuple, list)) else (value,)))
    if not 1 <= len(given) <= 3 or min(given) < 1:
        raise LaunchError(f"{what} {value!r}: one to three sizes, each at least 1")
    return given + (1,) * (3 - len(given))


def geometry(grid: int | Sequence[int], block: int | Sequence[int], registers: int, shared: int,
             cluster: int | Sequence[int] | None = None) -> Geometry:
    """The launch geometry, with as many resident CTAs as an H200 holds. registers: a thread; shared: bytes per CTA. Raises LaunchError for an impossible one."""
    shape = _triple(cluster or 1, "cluster")
    grid, block = _triple(grid, "grid"), _triple(block, "block")
    threads, ctas = prod(block), prod(grid)
    if threads > 1024:
        raise LaunchError(f"block {block}: {threads} threads, but a CTA has at most 1024")
    warps = -(-threads // 32)
    try:
        resident = limits.resident_blocks(threads, max(registers, 16), shared)
    except ValueError as reason:
        raise LaunchError(f"block {block}: {reason}") from None
    size = prod(shape)
    if size > limits.MAX_CLUSTER or any(g % c for g, c in zip(grid, shape)):
        raise LaunchError(f"cluster {shape} on grid {grid}: every edge of the grid is a multiple of the cluster's, and a cluster has at "
                          f"most {limits.MAX_CLUSTER} CTAs ({limits.MAX_CLUSTER_PORTABLE} without opting in)")
    slots = max(size, min(ctas, resident) // size * size)
    t = np.arange(warps * 32)
    tid = [(t % block[0]).astype(np.uint32), (t // block[0] % block[1]).astype(np.uint32),
           (t // (block[0] * block[1])).astype(np.uint32)]
    return Geometry(grid, block, slots, warps, threads, ctas, tid, (1, grid[0], grid[0] * grid[1]), shape, cluster is not None,
                    (threads, max(registers, 16), shared))


def layout(module: Module, function: Function, dynamic: int, elsewhere: dict[str, int] | None = None) -> Layout:
    """Addresses of shared and local variables and parameters. Static shared memory comes first, then dynamic.

    elsewhere: addresses of the module's global and constant variables and functions.
    """
    symbols, place, extern, named = {n: np.uint64(a) for n, a in (elsewhere or {}).items()}, SYSTEM_SHARED, [], []
    shared = [v for v in (*module.variables.values(), *function.variables) if v.space == "shared"]
    for v in shared:
        if v.count is None:
            extern.append(v)
            continue
        place = -(-place // v.align) * v.align
        symbols[v.name] = np.uint64(place)
        named.append((place, place + v.size, v.name))
        place += v.size
    static_end = place
    align = max([v.align for v in extern], default=1)
    place = -(-place // max(align, 16)) * max(align, 16)
    for v in extern:
        symbols[v.name] = np.uint64(place)
    local = 0
    for v in function.variables:
        if v.space == "local":
            local = -(-local // max(v.align, 1)) * max(v.align, 1)
            symbols[v.name] = np.uint64(LOCAL_BASE + local)
            local += v.size
    params, offset = {}, 0
    for p in function.params:
        offset = -(-offset // p.align) * p.align
        params[p.name] = offset
        symbols[p.name] = np.uint64(PARAM_WINDOW + offset)
        offset += p.size
    maps = tuple((params[p.name], params[p.name] + p.size) for p in function.params if (p.size, p.align) == (MAP_BYTES, MAP_ALIGN))
    total = place + dynamic if (extern or dynamic) else static_end
    return Layout(symbols, params, total, dynamic, local, bool(shared) or dynamic > 0, _features(function), tuple(named), module.compiler, maps)


def _features(function) -> frozenset[str]:
    found = set()
    for i in function.body:
        if i.op == "cp" and "bulk" not in i.mods:
            found.add("cp.async")
        elif i.op == "cp" and "bulk_group" in i.mods or i.op == "cp" and i.mods[-1:] == ("commit_group",):
            found.add("bulk_group")
    return frozenset(found)


def _pack(function, places: dict[str, int], args: list[bytes]) -> bytes:
    if len(args) != len(function.params):
        raise LaunchError(f"{function.name} takes {len(function.params)} arguments, {len(args)} given")
    size = max((places[p.name] + p.size for p in function.params), default=0)
    block = bytearray(size)
    for p, raw in zip(function.params, args):
        if len(raw) != p.size:
            raise LaunchError(f"argument {p.name} of {function.name} is {p.size} bytes, {len(raw)} given")
        block[places[p.name]:places[p.name] + p.size] = raw
    return bytes(block)


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> Any:
    """Inside this block BLAS runs alone: tiles are small, and its threads cost more than they bring."""
    return _blas().limit(limits=1, user_api="blas")


def listeners(machine: Machine, counting: list, line: Line | None = None) -> list[Listener]:
    """Who hears what happens in a launch, in this order: counters (put into `counting` as well), timeline, checkers, the bound on work, and who
    explains a launch that is stuck."""
    session = machine.session
    counting.append(Counting(machine))
    heard: list[Listener] = [*counting]
    if session.trace:
        heard.append((AccessTracer if session.trace == "accesses" else Tracer)(machine))
    if session.limit is not None:
        heard.append(Work(machine))
    if session.check:
        heard += watch.listeners(machine)
    else:
        machine.findings = Findings(machine)
    progress = Progress(machine.translation.function.name, machine, line)
    if progress.active:
        heard.append(progress)
    return [*heard, Deadlock(machine, (watch.explain_stuck,) if session.check else ())]


@dataclass(frozen=True)
class Plan:
    """A launch that is possible: everything that its machine is made of."""

    program: Program
    name: str
    place: Layout
    geometry: Geometry
    params: bytes
    session: Any          # the Session; None of a launch that is over
    memory: GlobalMemory

    @property
    def body(self) -> list[Instr]:
        """Its instructions."""
        return self.program.function(self.name).body

    def machine(self, listen: Callable[[Machine], list[Listener]], grid: Any = None) -> Machine:
        """The machine that runs it, perhaps beside others."""
        return Machine(self.program.translation(self.name), self.place, self.geometry, self.params, self.memory, self.session,
                       self.program.resources.get(self.name), listen, grid)


def plan(program: Program, name: str, grid: int | Sequence[int], block: int | Sequence[int], args: list[bytes], shared_mem: int = 0,
         cluster: int | Sequence[int] | None = None, session: Session | None = None, memory: GlobalMemory | None = None) -> Plan:
    """Check a launch. args: the little-endian bytes of every parameter. Raises LaunchError for an impossible one."""
    session, memory = session or Session(), memory or default()
    function, resources = program.function(name), program.resources.get(name)
    cluster = function.directives.get("reqnctapercluster") or cluster
    place = layout(program.module, function, int(shared_mem), program.variables(memory).addresses)
    if place.shared_bytes - SYSTEM_SHARED > limits.SHARED_PER_BLOCK:
        raise LaunchError(f"{place.shared_bytes - SYSTEM_SHARED} bytes of shared memory, but a CTA has at most {limits.SHARED_PER_BLOCK}")
    shape = geometry(grid, block, getattr(resources, "registers", 32) or 32, place.shared_bytes - SYSTEM_SHARED, cluster)
    required = function.directives.get("reqntid")
    if required and tuple(required) != shape.block:
        raise LaunchError(f"{name} must be launched with block {tuple(required)}, not {shape.block}")
    return Plan(program, name, place, shape, _pack(function, place.params, args), session, memory)


def launch(program: Program, name: str, grid: int | Sequence[int], block: int | Sequence[int], args: list[bytes], shared_mem: int = 0,
           cluster: int | Sequence[int] | None = None, session: Session | None = None, memory: GlobalMemory | None = None, line: Line | None = None) -> Session:
    """Run a kernel to its end. args: the little-endian bytes of every parameter. line: where a launch that takes long says how far it is.

    Raises LaunchError for an impossible launch, MemoryFault for a bad access, UnsupportedInstruction for an instruction
    the emulator does not execute and, when the session says so, HazardError (DeadlockError) for hazards.
    """
    planned = plan(program, name, grid, block, args, shared_mem, cluster, session, memory)
    session, memory = planned.session, planned.memory
    memory.forget()
    known, look, races = len(session.warnings), SecondLook(planned), []
    counting: list[Counting] = []
    machine = planned.machine(lambda M: listeners(M, counting, line))
    try:
        with one_blas_thread():
            with look.watching(machine):
                machine.scheduler.run()
            races = look.races()
    except KeyboardInterrupt:
        raise LaunchInterrupted(name, machine.ended, planned.geometry.ctas) from None
    except MemoryFault as fault:
        checks_end.fault_as_hazard(machine, fault)
        if session.hazards_mode == "raise":
            raise
    finally:
        memory.release_views()
        memory.retire((replace(planned, session=None), machine.next_cta))
        counting[0].finish(name)
        session.launches += 1
        findings = machine.findings
        findings.close()
        session.hazards += findings.hazards + races
        machine.dissolve()
    if session.hazards_mode == "raise":
        complain(findings.hazards + races, session.warnings[known:])
    return session


def complain(hazards: list, doubts: list) -> None:
    """Warnings of a launch as Python warnings, its hazards as an error."""
    for doubt in doubts:
        warnings.warn(str(doubt), HazardWarning, stacklevel=3)
    if hazards:
        raise (DeadlockError if any(h.kind == "deadlock" for h in hazards) else HazardError)(hazards)
