# SPDX-License-Identifier: Apache-2.0
"""Lesson 09: which half of Hopper wins, how many stages hide a load, and the launch and the check behind the lesson's panel and exercise.

The model of a ring (`ring_plan`) knows two measured times and nothing else; measured rates come from recordings.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...emulator.hazards.causes import causes_first
from ...hopper import limits
from ...measure.launches import variants
from ...measure.suites.variants import interaction
from ...runtime.tables import text_table
from ...show import charts, style
from ...show.hazard_words import explain
from ...show.recorded import highest_clock
from ...show.rings import ring_timeline
from ...show.timelines import Span, gantt
from ..given import function, told, whole

HALVES = (("cp.async", "mma.sync"), ("TMA", "mma.sync"), ("cp.async", "wgmma"), ("TMA", "wgmma"))


def _options(record: Any) -> dict[str, str]:
    return dict(option.split("=", 1) for option in record.options)


def _halves(recording: Any, stages: int) -> dict[tuple[str, str], Any]:
    """(copy, multiply) -> record of the 2x2 at this depth. Raises LookupError where one of the four is missing."""
    found = {}
    for record in recording.where(suite="two_by_two"):
        words = _options(record)
        if words.get("STAGES") == str(stages):
            found[words["copy"], words["multiply"]] = record
    missing = [pair for pair in HALVES if pair not in found]
    if missing:
        raise LookupError(f"no record of the 2x2 with {stages} stages for {missing}")
    return found


def _instructions(counted: Any) -> dict[tuple[str, str], float]:
    """(copy, multiply) -> warp instructions of a whole product, from the suite `issue_slots` of the recording `micro`."""
    found = {}
    for record in counted.where(suite="issue_slots") if counted else ():
        words = _options(record)
        if words.get("metric") == "smsp__inst_executed.sum":
            found[words["copy"], words["multiply"]] = record.value
    return found


def halves_table(recording: Any, counted: Any = None, stages: int = 3) -> str:
    """The 2x2 in words: rate, joules a product, power, clock and what held it back, registers per thread, and warp instructions (of 4096³) of each combination.

    recording: `variants`; counted: `micro`, for the instructions, or None.
    """
    four, issued = _halves(recording, stages), _instructions(counted)
    rows = []
    for pair in HALVES:
        record = four[pair]
        count = f"{issued[pair] / 1e6:12.1f} million" if pair in issued else "           –"
        rows.append((" + ".join(pair), record.tflops, record.joules, record.watts, record.clock_mhz or 0, record.limited or "–", record.registers, count))
    head = ("", "TFLOP/s", "joules", "watts", "MHz", "held by", "registers", " warp instructions")
    return "\n".join([recording.source, *text_table("{:21} {:7.0f}  {:6.2f}  {:5.0f}  {:5.0f}  {:7}  {:9d} {}", rows, head), *highest_clock(recording)])


def halves_gains(recording: Any) -> str:
    """What each half gains at every recorded depth, both together, and the same with each kernel at its own best depth."""
    depths = sorted({int(_options(r)["STAGES"]) for r in recording.where(suite="two_by_two") if r.options})
    lines = []
    rates: dict[tuple[str, str], list[float]] = {}
    for stages in depths:
        four, gain = _halves(recording, stages), interaction(recording, stages)
        blocks = _options(four[HALVES[0]])["blocks_per_sm"]
        lines.append((f"{stages} stages, {blocks} block{'s' if blocks != '1' else ''} per SM", *_gains(gain)))
        for pair, record in four.items():
            rates.setdefault(pair, []).append(record.tflops)
    best = {pair: max(values) for pair, values in rates.items()}
    gain = {"TMA": best[HALVES[1]] / best[HALVES[0]], "wgmma": best[HALVES[2]] / best[HALVES[0]], "both": best[HALVES[3]] / best[HALVES[0]]}
    lines.append(("each at its best depth", *_gains(gain | {"together": gain["both"] / gain["TMA"] / gain["wgmma"]})))
    head = ("", "TMA alone", "wgmma alone", "both", " both / (TMA x wgmma)")
    return "\n".join(text_table("{:27} {:10.2f} {:12.2f} {:6.2f} {:14.2f}", lines, head))


def _gains(gain: dict[str, float]) -> list[float]:
    return [gain[what] for what in ("TMA", "wgmma", "both", "together")]


def halves_chart(recording: Any, counted: Any = None, stages: int = 3) -> style.Picture:
    """Left: rate by way of copying, a line a tensor-core instruction (parallel lines would mean that the halves only add up).
    Right: joules, registers and warp instructions against cp.async + mma.sync."""
    four, issued = _halves(recording, stages), _instructions(counted)
    figure, (left, right) = style.new_figure(3.5, 2, (1, 1.25))
    for index, multiply in enumerate(("mma.sync", "wgmma")):
        rates = [four[copy, multiply].tflops for copy in ("cp.async", "TMA")]
        left.plot((0, 1), rates, color=style.PALETTE[index], marker=style.MARKERS[index], linewidth=2)
        left.text(1.05, rates[1], multiply, color=style.INK, fontsize=9, va="center")
    left.set_xticks((0, 1), ("cp.async", "TMA"))
    left.set(xlim=(-0.15, 1.55), xlabel="way of copying", ylabel="rate (TFLOP/s)")
    left.set_ylim(0, 1.1 * max(record.tflops for record in four.values()))
    left.grid(True, axis="y", color=style.EMPTY)
    style.title(left, "8192³, equal tiles")
    kinds = {"joules a product": {pair: four[pair].joules for pair in HALVES},
             "registers per thread": {pair: four[pair].registers for pair in HALVES}}
    if len(issued) == 4:
        kinds["warp instructions (4096³)"] = issued
    for index, pair in enumerate(HALVES):
        share = [values[pair] / values[HALVES[0]] for values in kinds.values()]
        places, colour = [row + 0.2 * index for row in range(len(kinds))], style.PALETTE[(7, 1, 4, 0)[index]]
        right.barh(places, share, height=0.18, color=colour, label=" + ".join(pair))
    right.set_yticks([row + 0.3 for row in range(len(kinds))], list(kinds))
    right.invert_yaxis()
    right.set_xlabel("times cp.async + mma.sync")
    right.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.18), ncols=2)
    style.title(right, f"{stages} stages: what it costs")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, halves_table(recording, counted, stages))


class Times(NamedTuple):
    """Cycles of one SM: until a stage has landed (alone), what a second stage right behind it adds, and its product."""

    load: float
    behind: float
    product: float


def stage_times(micro: Any, bk: int = 64, source: str = "L2") -> Times:
    """The measured times of a stage of 128 x bk of A and of B (bf16) from the recording `micro`, with an idle machine around it.

    load: a TMA copy of as many bytes from `source` ('L2' or 'memory'), issue to landing; behind: the time that twice the bytes take longer, by
    the two largest boxes; product: 2 warpgroups x bk / 16 wgmma of m64n128k16 at the measured rate.
    """
    latencies = {}
    for record in micro.where(suite="tma_latency"):
        words = _options(record)
        if words["HOW"] == "tensor" and words["from"] == source:
            latencies.setdefault(2 * record.shape[0] * record.shape[1], record.value)
    stage = 512 * bk
    if stage not in latencies:
        raise LookupError(f"no latency of a box of {stage} bytes from {source}; there are {sorted(latencies)}")
    large, largest = sorted(latencies)[-2:]
    rate = (latencies[largest] - latencies[large]) / (largest - large)
    rates = {tuple(_options(r)[key] for key in ("N", "A", "warpgroups")): r.value for r in micro.where(suite="wgmma_rate")}
    return Times(latencies[stage], rate * stage, 2 * bk / 16 * rates["128", "SS", "2"])


class Tile(NamedTuple):
    """One stage's way through the ring, in cycles: issued, landed, and its product from start to end."""

    slot: int
    issued: float
    landed: float
    start: float
    end: float


def ring_plan(stages: int, times: Times, tiles: int, in_flight: int = 1) -> list[Tile]:
    """A ring of `stages` slots in a world of two times: loads land `load` after their issue, and `behind` after the load before at
    the earliest; products follow each other.

    in_flight: products that are left running when a slot is handed back (the N of wgmma_wait_group<N>): the slot of tile i is refilled when
    product i + in_flight has started (0: when product i has ended). Raises ValueError where stages <= in_flight: the ring would
    wait for itself.
    """
    if in_flight < 0 or stages <= in_flight:
        raise ValueError(f"{stages} stages with {in_flight} products in flight: a tile would be needed before anyone may load it")
    plan: list[Tile] = []
    for i in range(tiles):
        before = plan[i - stages + in_flight] if i >= stages else None
        issued = 0.0 if before is None else before.start if in_flight else before.end
        landed = max(issued + times.load, plan[-1].landed + times.behind if plan else 0.0)
        start = max(landed, plan[-1].end if plan else 0.0)
        plan.append(Tile(i % stages, issued, landed, start, start + times.product))
    return plan


def _period(stages: int, times: Times, in_flight: int) -> float:
    """Cycles a tile in steady state of `ring_plan`: the product, the engine, or a load shared by the loads that may be under way."""
    around = times.load / (stages - in_flight) if in_flight else (times.load + times.product) / stages
    return max(times.product, times.behind, around)


def enough_stages(times: Times, in_flight: int = 1) -> int:
    """The fewest stages with which the tensor core never waits in steady state: load / product, rounded up, and those in flight.

    Raises ValueError when loads pass more slowly than products (`behind` > `product`): then no depth is enough.
    """
    if times.behind > times.product:
        raise ValueError("a stage takes longer to pass than its product: more stages cannot help")
    return next(stages for stages in range(in_flight + 1, 1000) if _period(stages, times, in_flight) <= times.product)


def busy_share(stages: int, times: Times, in_flight: int = 1) -> float:
    """The part of the time in which the tensor core multiplies, in steady state of `ring_plan`."""
    return times.product / _period(stages, times, in_flight)


def overlap_table(micro: Any) -> str:
    """T_tma, T_wgmma and the stages that are enough, for each width of a stage, from the L2 and from memory."""
    rows = []
    for bk in (32, 64, 128):
        for source in ("L2", "memory"):
            times = stage_times(micro, bk, source)
            enough = enough_stages(times)
            shares = ", ".join(f"{100 * busy_share(s, times):.0f} %" for s in (2, 3, 4))
            rows.append((bk, source, times.load, times.product, times.load / times.product, enough, enough * bk // 2, shares))
    heading = " BK  from     T_tma  T_wgmma  ratio  enough stages  ring    tensor core busy with 2, 3, 4 stages"
    return "\n".join([micro.source, heading, *text_table("{:3d}  {:6} {:7.0f} {:8.0f} {:6.3f} {:14d}  {:3d} KiB  {}", rows)])


def overlap_chart(times: Times, depths: Sequence[int] = (2, 3), tiles: int = 7, source: str = "") -> style.Picture:
    """`ring_plan` drawn for several depths: loads in their slots, and the tensor core with its gaps."""
    spans = []
    for stages in depths:
        plan = ring_plan(stages, times, tiles)
        for number, tile in sorted(enumerate(plan), key=lambda item: item[1].slot):
            row = f"{stages} stages, slot {tile.slot}"
            spans.append(Span(row, round(tile.issued), round(tile.landed), "load under way", f"load {number}"))
            spans.append(Span(row, round(tile.start), round(tile.end), "product", str(number)))
        row = f"{stages} stages, tensor core"
        spans += [Span(row, round(tile.start), round(tile.end), "product", str(number)) for number, tile in enumerate(plan)]
    shares = ", ".join(f"{stages} stages {100 * busy_share(stages, times):.0f} %" for stages in depths)
    heading = f"T_tma {times.load:.0f}, T_wgmma {times.product:.0f} cycles\ntensor core busy in steady state: {shares}"
    xlabel = f"cycles of an SM (a model; both times measured alone)\n{source}".strip()
    return gantt(spans, heading, xlabel, {"load under way": style.SKY, "product": style.BLUE})


def _depths(recording: Any, size: int) -> list[Any]:
    return [record for record in recording.where(suite="depth", shape=(size,) * 3) if record.kernel == "multistage"]


def depth_chart(recording: Any, size: int = 4096) -> style.Picture:
    """Rate of the multistage kernel against its stages, a line a BK, at one size."""
    chosen = _depths(recording, size)
    depths = sorted({int(_options(record)["STAGES"]) for record in chosen})
    series: dict[str, list[float | None]] = {}
    for record in chosen:
        words = _options(record)
        series.setdefault(f"BK {words['BK']}", [None] * len(depths))[depths.index(int(words["STAGES"]))] = record.tflops
    heading = f"TMA + wgmma, {size}³, by depth and width of a stage"
    return charts.lines(depths, series, "stages in the ring", "rate (TFLOP/s)", heading, recording.source)


def depth_table(recording: Any, size: int, bk: int = 64) -> str:
    """For each depth: KiB of the ring, blocks of it that share an SM, the rate, and the gain over one stage fewer."""
    rows, before = [], None
    for record in _depths(recording, size):
        words = _options(record)
        if words["BK"] == str(bk):
            fit = limits.occupancy(256, record.registers, record.shared_bytes)
            rows.append((words["STAGES"], record.shared_bytes // 1024, fit.blocks, record.tflops, f"{record.tflops / before:.2f}" if before else ""))
            before = record.tflops
    lines = text_table("{:>6}  {:3d} KiB  {:12d}  {:7.0f}  {}", rows, ("stages", "ring   ", "CTAs per SM", "TFLOP/s", "against one stage fewer"))
    return "\n".join([f"{size}³, BK {bk}: {recording.source}", *lines])


def _numbers(m: int, n: int, k: int, seed: int) -> tuple[np.ndarray, ...]:
    from ml_dtypes import bfloat16

    random = np.random.default_rng(seed)
    a, b = (random.integers(-2, 3, (rows, k)).astype(bfloat16) for rows in (m, n))
    return a, b, np.zeros((m, n), bfloat16), (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)


def run_product(make: Callable[..., Any], k: int = 512, schedule: str = "lazy", **choices: Any) -> tuple[bool, Any, Any]:
    """(right, session, launch) of one tile of 128 x 128 and k columns in the emulator. make: of measure.launches.variants; choices: for it."""
    import hopperlab as hl

    a, b, c, exact = _numbers(128, 128, k, k + 9)
    launch = make(a, b, c, backend="emulator", **choices)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        launch()
    return bool((c == exact).all()), run, launch


def launch_multistage(stages: int, bk: int, schedule: str, recording: Any = None) -> style.Picture:
    """Lesson 09's panel: one tile of 128 x 128 x 512 through a ring of `stages`, in the emulator, with the recorded rate where there is one.

    recording: `variants`. Raises ValueError when the ring is larger than an SM's shared memory.
    """
    size = stages * (512 * bk + 16)
    if size > limits.SHARED_PER_BLOCK:
        raise ValueError(f"{stages} stages of {bk // 2} KiB and their barriers take {size} bytes; a block can have {limits.SHARED_PER_BLOCK}")
    right, run, launch = run_product(variants.multistage, schedule=schedule, stages=stages, bk=bk)
    fit = limits.occupancy(256, launch.kernel.num_regs, launch.shared_mem)
    found = run.hazards[0].kind if run.hazards else "no hazard"
    rate = next((r.tflops for r in _depths(recording, 4096) if r.options == (f"STAGES={stages}", f"BK={bk}")), None) if recording else None
    recorded = f"; recorded on an H200: {rate:.0f} TFLOP/s at 4096³" if rate else "; not recorded"
    heading = (f"{stages} stages, BK {bk}: result {'right' if right else 'WRONG'}, {found}\n"
               f"{launch.shared_mem // 1024} KiB per block, {fit.blocks} block{'s' if fit.blocks != 1 else ''} per SM{recorded}")
    return ring_timeline(run, stages, heading)


ANSWERED = "Not answered yet: write all three, then run the cell again."
WAIT, RELEASED = "wgmma_wait_group<1>()", "BUG_EARLY_RELEASE ? i : i - 1"       # what the exercise changes in gemm/multistage.cu
ROOMY = 5                # stages in which two products in flight are never short of a slot
SCHEDULES = (("lazy", 0), ("eager", 0), ("random", 1), ("random", 2))


def _deeper(source: str, in_flight: int, distance: int, stages: int) -> tuple[str, bool]:
    """(what the emulator says against this ring, "" when nothing; whether all waited for ever)."""
    import hopperlab as hl

    for place, answer in ((WAIT, f"wgmma_wait_group<{in_flight}>()"), (RELEASED, f"i - {distance}")):
        if source.count(place) != 1:
            raise ValueError(f"gemm/multistage.cu has {source.count(place)} places for {answer!r}")
        source = source.replace(place, answer)
    kernel = hl.RawModule(code=source, name="multistage.cu", backend="emulator", options=(f"-DSTAGES={stages}",)).get_function("gemm")
    for schedule, seed in SCHEDULES:
        a, b, c, exact = _numbers(128, 128, 448, stages)
        maps = [hl.TensorMap.tiled(array, box=(128, 64), swizzle="128B") for array in (a, b)]
        with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as run:
            kernel((1, 1), (256,), (*maps, c, *(np.int32(v) for v in (128, 128, 448))), shared_mem=stages * 32784)
        if run.hazards:
            return explain(causes_first(run.hazards)[0]), any(hazard.kind == "deadlock" for hazard in run.hazards)
        if not (c == exact).all():
            return "No hazard, but the product is wrong.", False
    return "", False


@told
def check_later_release(wait: int | None, released: Callable[[int], int] | None, least_stages: int | None) -> str:
    """Lesson 09's exercise: two products in flight in gemm/multistage.cu, run in the emulator with the learner's wait and release.

    wait: the N of wgmma_wait_group<N>; released: step i -> the tile whose slot is handed back in it; least_stages: the shallowest
    ring that works.
    """
    if wait is None or released is None or least_stages is None:
        return ANSWERED
    import hopperlab as hl

    wait, least_stages = whole("wait", wait), whole("least_stages", least_stages)
    released = function("released", released, "lambda i: …")
    distances = {i - released(i) for i in range(4, 12)}
    if len(distances) != 1 or min(distances) < 0:
        steps = ", ".join(str(released(i)) for i in range(4, 8))
        return f"released gives the tiles {steps} for the steps 4, 5, 6, 7: each step hands back one tile, as far behind in every step, and none to come."
    if not 0 <= wait <= 7 or not 2 <= least_stages <= 6:
        return "The wait takes 0 to 7 groups here, and the ring 2 to 6 stages."
    distance, source = distances.pop(), hl.kernel_source("gemm/multistage.cu")
    for stages in (ROOMY, least_stages):
        trouble, stuck = _deeper(source, wait, distance, stages)
        if trouble:
            why = "The ring is too shallow: a tile is needed before anyone may load it." if stuck else "Not safe."
            where = f"With {stages} stages" if stages == least_stages else f"Even with {stages} stages, which were tried before your {least_stages}"
            return f"{where}: {why} The emulator:\n{trouble}"
    if wait != 2:
        return f"Safe, but wgmma_wait_group<{wait}> leaves {wait} product{'s' if wait != 1 else ''} in flight, and two were asked for."
    if distance > 2:
        return f"Safe, but tile i - {distance} could be handed back earlier: after the wait, all but the newest two products are done."
    if least_stages > 2 and not _deeper(source, wait, distance, least_stages - 1)[0]:
        return f"Safe, but {least_stages} stages are not the fewest: {least_stages - 1} work too."
    return (f"Right: the wait leaves the two newest products in flight, tile i - 2 is free, and a ring of {least_stages} is the shallowest "
            "that does not wait for itself.")
