# SPDX-License-Identifier: Apache-2.0
"""`hl.estimate`: how long a launch would take on an H200 or an H100, without one. Always an estimate, with the error that others of its kind had."""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from ..hopper import limits
from ..runtime.errors import LaunchError
from . import boards, chip, cut, lane_loads, order, outside, sample, l2_and_memory, wave
from .boards import Board
from .clock import megahertz
from .accuracy import LANES, Family, family_of, measured
from .sm import Simulation

if TYPE_CHECKING:
    from ..measure.launches.launch import Launch
    from ..runtime.module import RawKernel
    from .sample import Sample

CAUSE = re.compile(r"due to (.*?)(?: in the function .*)?$")
SERIALISED = ("C7510", "C7511", "C7515")     # notes of ptxas: products wait for each other
BUSY = 0.8           # of a unit's time, from which on it is what bounds a kernel


@dataclass(frozen=True)
class Estimate:
    """An estimated time. cycles: of an SM, from launch to end; us: microseconds, with the launch itself; low_us, high_us: the range that nine of ten held-out
    measurements of its family had about their estimates; mhz: the SM clock that power allows.

    tensor, mma, issue, port, l2, memory: shares of what an SM has (tensor cores by wgmma, by mma.sync, issue slots, the port of shared memory, its share of the L2
    and of memory); bound: what bounds it, in a line; how: what was run, and what was added up; family: measurements with which it is compared.
    """

    kernel: str
    board: str
    cycles: float
    us: float
    low_us: float
    high_us: float
    mhz: float
    tensor: float
    mma: float
    issue: float
    port: float
    l2: float
    memory: float
    bound: str
    how: str
    family: str

    def as_dict(self) -> dict[str, Any]:
        """Numbers and strings, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join((
            f"{self.kernel}: an estimated {_time(self.us)} on {self.board}, between {_time(self.low_us)} and {_time(self.high_us)} (no measurement)",
            f"  {self.cycles:,.0f} cycles at {self.mhz:,.0f} MHz; tensor cores {max(self.tensor, self.mma):.0%} busy, issue slots {self.issue:.0%}, "
            f"shared memory's port {self.port:.0%}, L2 {self.l2:.0%}, memory {self.memory:.0%}",
            f"  bound by {self.bound}",
            f"  {self.how}",
            f"  the range is that of {self.family}"))


def _time(us: float) -> str:
    return f"{us:.1f} us" if us < 1000 else f"{us / 1000:.2f} ms"


def estimate(kernel: RawKernel, grid: Any, block: Any, args: Sequence[Any] = (), *, shared_mem: int = 0, cluster: Any = None,
             board: str | None = None) -> Estimate:
    """How long a launch of a kernel would take, called as the kernel is. A few of its CTAs run in the emulator; arrays stay as they are.

    board: 'h200' or 'h100'; None: the learner's (boards.default). Raises ValueError for another one, LaunchError for a launch that is impossible, that never
    ends in the sample (as where a CTA waits for one that is not in it, but for its flag: absent.py), or of which too little can be seen; what the emulator
    raises otherwise.
    """
    table = boards.board(board)
    planned, _mirrors = sample.planned(kernel, grid, block, args, shared_mem, cluster)
    return of_sample(sampled(planned, kernel.name), kernel.name, table)


def estimate_launch(launch: Launch, board: str | None = None) -> Estimate:
    """The same of a launch of measure.launches."""
    return estimate(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, board=board)


def sampled(planned: Any, name: str) -> Sample:
    """The sample of a launch (sample.planned). Raises LaunchError where its CTAs wait for ever, and where ptxas has put its products one after the other."""
    notes = [note for note in getattr(planned.program.resources.get(planned.name), "notes", ()) if note.code in SERIALISED]
    if notes:
        raise LaunchError(f"{name}: no estimate: ptxas lets each wgmma wait for the one before, which the emulator, that runs PTX, does not see: {_why(notes[0])}")
    try:
        found = sample.typical(planned)
    except order.NotAlone as why:
        raise LaunchError(f"{name}: no estimate: its CTAs wait for others, which were not run, and {why}") from None
    stuck = [hazard for hazard in found.machine.findings.hazards if hazard.kind == "deadlock"]
    if stuck:
        raise LaunchError(f"{name}: no estimate: the CTAs that were run wait for others, which were not (one that waits for all CTAs of a grid is not estimated), or "
                          f"they deadlock:\n{stuck[0]}")
    found = _with_lanes(found, _seen(found))
    found = replace(found, wave=wave.of(found))
    if found.lengths is not None or found.wave is None or found.wave.new:          # CTAs load nothing of what others do, or wait for memory (attention)
        return found
    return replace(found, outside=outside.of(planned, found.trace.maps.values(), found.loads))


def _why(note: Any) -> str:
    """Why ptxas does so, and what mends it."""
    reason = CAUSE.search(note.text)
    if "function call" in note.text:
        return f"{note.code}, {reason[1] if reason else note.text}; an assert is one, which -DNDEBUG takes out, and so is a function that is not inlined"
    if note.code == "C7511":
        return f"{note.code}, too few registers; smaller tiles or more registers for the warps that multiply"
    return f"{note.code}, {reason[1] if reason else note.text}"


def _with_lanes(found: Sample, share: float) -> Sample:
    """The same with what lanes load, where that matters. share: of the CTAs' work, what was seen."""
    counting = found.counting
    if not isinstance(counting, lane_loads.LaneCounting):
        return found
    sizes = {address: size for address, (_, size) in found.trace.read.items()}
    read, written = (max(1.0, sum(n for n, _ in table.values())) for table in (found.trace.read, found.trace.written))
    lanes = lane_loads.analysed(counting, len(found.ctas), min(found.resident, -(-found.total // limits.SMS)), found.plan.geometry.per_cta[2],
                     found.total / len(found.ctas) / share, sizes, 1 + written / read)
    whole = lane_loads.stored_whole(found.counts.values())
    counts: dict[int, dict[str, Any]] = {}
    for index, each in found.counts.items():
        missed = {"lane_missed": lanes.missed[index], "lane_far": lanes.far[index]} if index in lanes.missed else {}
        stores = {"lane_whole": int(whole)} if "global_store_requests" in each else {}
        counts[index] = {**each, **missed, **stores, "lanes": 1} if missed or stores else each
    return replace(found, lanes=lanes, counts=counts)


def _seen(found: Sample) -> float:
    """Share of the CTAs' work that was sampled; 1 where that is not known."""
    try:
        return cut.progress(found)
    except cut.NotEnough:
        return 1.0


def of_sample(found: Sample, name: str, table: Board) -> Estimate:
    """The estimate of a sample. Raises LaunchError where the sample shows too little."""
    return simulated(found, name, table)[0]


def simulated(found: Sample, name: str, table: Board, made: type[Simulation] = Simulation) -> tuple[Estimate, chip.Run]:
    """The same with the run behind it. made: what simulates SMs."""
    try:
        run = chip.simulate(found, table, made=made)
    except cut.NotEnough as why:
        raise LaunchError(f"{name}: no estimate: {why}. A smaller problem may do") from None
    mhz = megahertz(run.busy, table, run.cycles)
    us = run.cycles / mhz + table.number("launch_us")
    by_lanes = found.lanes is not None and found.lanes.alone and run.busy.mma <= 0.02
    kind = measured(LANES if by_lanes else family_of(run.busy), table.name)
    shares = used(run, table, mhz)
    estimate = Estimate(name, table.title, run.cycles, us, us / (1 + kind.most), us / max(0.05, 1 - kind.most), mhz, shares["tensor cores"],
                    shares["tensor cores by mma.sync"],
                    shares["issue slots"], shares["the port of shared memory"], shares["the L2"], shares["memory"], bound(shares), _how(found, run), _words(kind))
    return estimate, run


def used(run: chip.Run, board: Board, mhz: float) -> dict[str, float]:
    """Shares of what there is, by unit."""
    busy = run.busy
    return {"tensor cores": busy.wgmma, "tensor cores by mma.sync": busy.mma, "issue slots": busy.issue, "the port of shared memory": min(1.0, busy.port),
            "exponentials": busy.special, "the L2": busy.l2 / l2_and_memory.l2_share(board, run.places, run.traffic.merged),
            "memory": busy.memory / l2_and_memory.dram_share(board, run.places, mhz, run.traffic.mixed)}


def bound(shares: dict[str, float]) -> str:
    """What bounds a kernel, in a line."""
    name, most = max(shares.items(), key=lambda item: item[1])
    if most >= BUSY:
        return f"{name}, {min(1.0, most):.0%} busy"
    return f"waiting: {name} come{'s' * (not name.endswith('s'))} nearest to a limit, {most:.0%} busy (more stages, larger tiles or more CTAs per SM hide more of it)"


def _how(found: Sample, run: chip.Run) -> str:
    part = "" if found.whole else f", {run.share:.0%} of their work, the rest at the pace of the tiles seen"
    return (f"{len(found.ctas)} of {found.total} CTAs ran in the emulator{part}; {run.places} SMs at work, "
            f"{found.resident} CTA{'s' * (found.resident > 1)} at a time on each, {run.waves:.1f} waves")


def _words(kind: Family) -> str:
    return f"{kind.name}: {kind.count} held-out measurements, mean error {kind.mean:.0%}, nine of ten within {kind.most:.0%}"
