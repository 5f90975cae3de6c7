# SPDX-License-Identifier: Apache-2.0
"""Lesson 05x: the copy engine from outside: where it sits, what recorded latencies say of it, tensor maps cold and warm, the launch
behind the panel (box and queue depth), announced and landed bytes, and the check of the exercise.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import FancyArrowPatch, Rectangle

from ...hopper import limits
from ...measure.launches import micro as micro_launches
from ...show import charts, style
from ...show.timelines import Span, gantt
from ..given import no_number
from ..l01_feeding_the_tensor_core.feeding import flights

BOXES = ("1x64", "8x64", "64x64", "64x128", "128x128", "128x256")
ORDER = "order of events in the emulator (what came after what; not seconds)"


def _bytes(shape: tuple[int, ...]) -> int:
    return shape[0] * shape[1] * 2


def latencies(recording: Any, how: str, source: str) -> dict[int, float]:
    """Bytes of a box -> cycles of one copy of it alone. how: 'tensor', 'bulk' or 'ld.global'; source: 'L2' or 'memory'. Recording: `micro`."""
    found = [r for r in recording.where(suite="tma_latency") if f"HOW={how}" in r.options and f"from={source}" in r.options]
    return {_bytes(record.shape): record.value for record in sorted(found, key=lambda r: _bytes(r.shape))}


def start_and_stream(recording: Any, how: str, source: str) -> tuple[float, float]:
    """(s, b) of the straight line cycles = s + bytes / b through `latencies`, by least squares. s is where the line meets 0 bytes, no moment of a copy."""
    found = latencies(recording, how, source)
    slope, start = np.polyfit(list(found), list(found.values()), 1)
    return float(start), float(1 / slope)


def latency_chart(recording: Any) -> style.Picture:
    """Cycles of one copy against its size: tensor and bulk, from the memory and from the L2."""
    sizes = sorted(latencies(recording, "tensor", "L2"))
    series = {f"{how}, from the {source}": [latencies(recording, how, source)[size] for size in sizes]
              for source in ("memory", "L2") for how in ("tensor", "bulk")}
    ticks = [f"{size // 1024} KiB" if size >= 1024 else f"{size} B" for size in sizes]
    return charts.lines(range(len(sizes)), series, "bytes of the box", "cycles until it has landed", "One copy, alone", recording.source, ticks=ticks)


def latency_table(recording: Any) -> str:
    """The straight line through each series in words, and the least latency beside that of an ordinary load."""
    lines = [recording.source, "cycles until a copy has landed, by the straight line through the points:"]
    for source in ("L2", "memory"):
        for how in ("tensor", "bulk"):
            start, stream = start_and_stream(recording, how, source)
            lines.append(f"{how:6s} copy from the {source:6s}: {start:4.0f} cycles + bytes / {stream:.0f}")
        least = {how: min(latencies(recording, how, source).values()) for how in ("tensor", "ld.global")}
        lines.append(f"  measured: 128 bytes by the engine: {least['tensor']:.0f} cycles; an ordinary load of 4 bytes: {least['ld.global']:.0f}")
    return "\n".join(lines)


def first_uses(recording: Any) -> dict[str, float]:
    """'place, state' -> cycles of an 8 KiB copy from the L2; states: cold, prefetched, used before."""
    out = {}
    for place in micro_launches.PLACES:
        for state, prefetch, use in (("cold", 0, "first"), ("prefetched", 1, "first"), ("used before", 0, "second")):
            record = next(r for r in recording.where(suite="descriptors") if r.options == (f"place={place}", f"prefetch={prefetch}", f"use={use}"))
            out[f"{place} memory, {state}" if place != "parameter" else f"parameter, {state}"] = record.value
    return out


def descriptor_chart(recording: Any) -> style.Picture:
    """A bar for each place of a tensor map and each state: cycles until the same 8 KiB have landed."""
    figure, (axis,) = style.new_figure(3.3)
    found, states = first_uses(recording), ("cold", "prefetched", "used before")
    for place, value in enumerate(found.values()):
        group, state = divmod(place, 3)
        axis.bar(group + 0.27 * (state - 1), value, width=0.25, color=style.PALETTE[(3, 2, 4)[state]], label=states[state] if group == 0 else None)
        axis.text(group + 0.27 * (state - 1), value + 12, f"{value:.0f}", ha="center", fontsize=9, color=style.INK)
    axis.set_xticks(range(3), ["kernel parameter", "constant memory", "global memory"])
    axis.set(ylabel="cycles until it has landed", ylim=(0, 1.15 * max(found.values())))
    axis.legend(fontsize=9, frameon=False, loc="upper left")
    style.title(axis, "8 KiB from the L2, by where the tensor map lies and whether it was there")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    words = ["8 KiB from the L2, by where the tensor map lies", f"  {recording.source}"]
    return style.Picture(figure, "\n".join(words + [f"  {name}: {value:.0f} cycles" for name, value in found.items()]))


def issue_table(recording: Any) -> str:
    """What issuing one box of 8 KiB costs the warps that ask for it."""
    lines = [recording.source, "cycles to issue a box of 8 KiB, four in a row, not waiting:"]
    for record in recording.where(suite="issue"):
        how = record.options[0].split("=")[1]
        who = "128 threads, 16 bytes each at a time" if how == "cp.async" else "one thread"
        lines.append(f"  {how:9s} {record.value:6.1f}   {who}; {record.registers} registers per thread")
    return "\n".join(lines)


def unit_map() -> style.Picture:
    """Where the engine sits: one in each SM, between shared memory and the crossbar, and who asks whom."""
    figure, (axis,) = style.new_figure(3.2)
    parts = (("warps", 0.2, 2.2, 1.5, 0.7, style.EMPTY), ("copy engine\n(TMA)", 2.5, 2.0, 1.6, 1.1, style.ORANGE),
             ("cache of maps\n(place unknown)", 2.3, 0.55, 1.9, 0.8, style.CARD),
             ("shared\nmemory", 0.2, 0.5, 1.5, 1.0, style.SKY), ("crossbar", 5.5, 0.6, 0.9, 2.5, style.EMPTY), ("L2", 7.4, 0.6, 1.2, 2.5, style.SKY),
             ("memory", 9.6, 0.6, 1.2, 2.5, style.SKY))
    axis.add_patch(Rectangle((0, 0.2), 4.4, 3.2, facecolor="none", edgecolor=style.INK, linestyle="--", linewidth=1.2))
    axis.text(0.1, 3.55, "one SM", fontsize=9, color=style.INK)
    for name, x, y, width, height, colour in parts:
        known = "unknown" not in name
        axis.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor=style.INK, linewidth=1.2, linestyle="-" if known else ":"))
        axis.text(x + width / 2, y + height / 2, name, ha="center", va="center", fontsize=9, color=style.ink_on(colour))
    for start, end in (((1.7, 2.55), (2.5, 2.55)), ((4.1, 2.7), (5.5, 2.7)), ((6.4, 2.7), (7.4, 2.7)), ((8.6, 2.7), (9.6, 2.7)), ((3.3, 1.35), (3.3, 2.0)),
                       ((5.5, 1.7), (4.2, 1.7)), ((7.4, 1.7), (6.4, 1.7)), ((9.6, 1.7), (8.6, 1.7)), ((2.5, 2.1), (1.75, 1.4))):
        axis.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, color=style.INK, linewidth=1.3))
    axis.text(4.95, 2.85, "requests", ha="center", fontsize=9, color=style.INK)
    axis.text(4.85, 1.3, "data", ha="center", fontsize=9, color=style.INK)
    axis.set(xlim=(-0.1, 11.0), ylim=(0, 3.9), xticks=[], yticks=[])
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    style.title(axis, "Where the copy engine sits")
    return style.Picture(figure, "\n".join(["Where the copy engine sits",
                                            "  in each SM; warps hand it requests, it asks the L2 through the crossbar and writes shared memory",
                                            "  it keeps maps that were used; where, no measurement here says"]))


def run_queue(rows: int, columns: int, depth: int, how: str = "tensor", schedule: str = "lazy") -> tuple[list[Span], int, Any]:
    """(a span a copy, most bytes in flight, session) of micro/tma_latency.cu's tma_issue: two rounds of `depth` boxes. Raises ValueError when the boxes do not fit."""
    import hopperlab as hl

    held = depth * rows * columns * 2
    if held + 8 * depth > limits.SHARED_PER_BLOCK:
        raise ValueError(f"{depth} boxes of {rows} x {columns} bf16 are {held // 1024} KiB; a block has {limits.SHARED_PER_BLOCK // 1024} KiB of shared memory")
    probe = micro_launches.copy("tma_issue", how, rows, columns, copies=2 * depth, tiles=depth, backend="emulator")
    with hl.emulate(schedule=schedule, seed=depth, hazards="collect") as run:
        probe.launch()
    starts, spans, flying, most = [], [], 0, 0
    for at, event in enumerate(event for event in run.timeline if event.what in ("issue cp", "land cp")):
        flying += rows * columns * 2 * (1 if event.what == "issue cp" else -1)
        most = max(most, flying)
        if event.what == "issue cp":
            starts.append(at)
        else:
            slot = len(spans) % depth
            spans.append(Span(f"slot {slot}", starts[len(spans)], at, "copy under way", f"copy {len(spans)}"))
    return spans, most, run


def launch_queue(box: str, depth: int, how: str, recording: Any) -> style.Picture:
    """The panel: two rounds of `depth` boxes in the emulator, beside what was recorded for one box of this size (`micro`). how: 'tensor' or 'bulk'."""
    rows, columns = (int(part) for part in box.split("x"))
    spans, most, run = run_queue(rows, columns, depth, how)
    size = rows * columns * 2
    said = f"{len(run.hazards)} hazards" if run.hazards else "no hazard"
    cycles = latencies(recording, how, "memory")[size]
    told = f"{most / 1024:g} KiB in flight / {cycles:.0f} cycles (recorded: one box, from memory) = {most / cycles:.1f} bytes per cycle"
    picture = gantt(spans, f"{depth} boxes of {box} bf16 in the queue, {how} copies: {said}\n{told}", ORDER, {"copy under way": style.ORANGE})
    return picture


def announce(counted: int, schedule: str = "lazy") -> tuple[float, Any]:
    """(share of the box that was there when it was read, session): a box of 8192 bytes whose barrier was told `counted`. In the emulator."""
    import hopperlab as hl

    tensor = np.arange(1, 64 * 32 + 1, dtype=np.float32).reshape(64, 32)
    out = np.zeros(tensor.nbytes, np.uint8)
    kernel = hl.load_kernel("copy/tma_copy.cu", "tma_landing", ("-DRANK=2",), backend="emulator")
    args = (hl.TensorMap.tiled(tensor, box=(64, 32)), out, np.int32(tensor.nbytes), np.int32(counted), *[np.int32(0)] * 5)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        kernel((1,), (128,), args, shared_mem=tensor.nbytes)
    return float((out.view(np.float32) == tensor.ravel()).mean()), run


def needed(micro: Any, loads: Any) -> tuple[float, float]:
    """(cycles of one 8 KiB box from the memory, bytes per cycle that one SM must read for the best recorded load bandwidth at the highest clock)."""
    best = max(record.gb_s for record in loads.where(kernel="tma_load"))
    return latencies(micro, "tensor", "memory")[8192], best * 1e9 / limits.SMS / (micro.header["clocks"]["sm_max_mhz"] * 1e6)


def check_boxes(micro: Any, loads: Any, boxes: int | None) -> str:
    """Lesson 05x's exercise: the least number of 8 KiB boxes that one SM must have in flight, by Little's law and `needed`."""
    cycles, rate = needed(micro, loads)
    highest = micro.header["clocks"]["sm_max_mhz"]
    told = f"one box takes {cycles:.0f} cycles alone, {1000 * cycles / highest:.0f} ns at the highest clock; an SM's share of the bandwidth is {rate:.1f} bytes per cycle"
    if boxes is None:
        return f"Not answered yet. Recorded: {told}."
    if wrong_form := no_number(boxes):
        return f"Not yet: {wrong_form}."
    if boxes != int(boxes):
        return f"Not yet: {boxes} boxes are no whole number; the engine takes whole boxes, so round up."
    least = -(-int(cycles * rate) // 8192)
    if boxes < least:
        return f"Too few: {_boxes(boxes)} in {cycles:.0f} cycles are {boxes * 8192 / cycles:.1f} bytes per cycle, and {rate:.1f} are wanted."
    if boxes > least:
        return (f"More than needed by this sum: {_boxes(boxes - 1)} in {cycles:.0f} cycles are already {(boxes - 1) * 8192 / cycles:.1f} bytes per cycle, and "
                f"{rate:.1f} are wanted.")
    return (f"Right: {cycles:.0f} cycles x {rate:.1f} bytes per cycle = {cycles * rate / 1024:.1f} KiB, so {least} boxes at least. {_reached(loads, 8192 * least)}")


def _boxes(count: int) -> str:
    return f"{count} box" + "es" * (count != 1)


def _reached(loads: Any, in_flight: int) -> str:
    """What was recorded with so many bytes on their way in each SM, as a share of the best load bandwidth."""
    own = [flight for flight in flights(loads) if flight.kernel == "tma_load"]
    best = max(flight.gb_s for flight in own)
    near = [flight.gb_s for flight in own if flight.bytes_per_sm == in_flight]
    share = f": with {in_flight // 1024} KiB on their way in each SM {100 * max(near) / best:.0f} % of the best bandwidth were recorded (lesson 01)" if near else ""
    return f"That is not enough for a busy memory, where each takes longer{share}."
