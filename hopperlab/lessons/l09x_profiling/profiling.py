# SPDX-License-Identifier: Apache-2.0
"""Lesson 09x: what Nsight Compute's metrics watch, the recorded profile of four products, counters of a kernel beside the profiler's, and
the table of symptoms.

The metrics are `measure.profile.lesson_metrics`', the comparison `measure.profile.counters`'; nothing here measures on its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from ...measure import recordings
from ...measure.launches.operands import bf16_bits, bf16_values, integer_bf16
from ...measure.launches.variants import TWO_BY_TWO
from ...measure.profile import counters, lesson_metrics
from ...runtime.tables import text_table
from ...show import style
from ...show.recorded import highest_clock
from ..given import told, wholes

MULTIPROCESSORS = 132                   # of an H200
HALVES = tuple(TWO_BY_TWO)              # (copy, multiply) of the four products
INSTRUCTIONS, ISSUED, PIPE, ARRIVED = ("issue slots: instructions", "issue slots: issue slots used", "tensor cores: tensor pipe busy", "traffic: L2 to the SMs")
CYCLES = "cycles"                       # made of the duration and the clock
SECTORS = "lts__t_sectors_srcunit_tex_op_read.sum"
DOOR = "l1tex__m_xbar2l1tex_read_bytes.sum"
TRANSPOSES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "transpose, dense rows": ("transpose_plain", ()), "transpose, rows padded by 1": ("transpose_padded", ("-DPITCH=33",)),
    "transpose, rows padded by 2": ("transpose_padded_2", ("-DPITCH=34",)), "transpose, XOR": ("transpose_xor", ("-DSWIZZLE=1",))}
"""Choice of the panel -> (kernel in recordings/counters.json, options of banks/transpose.cu)."""
PRODUCTS = {f"{copied} + {multiplied}": (copied, multiplied) for copied, multiplied in HALVES}
KERNELS = (*TRANSPOSES, *PRODUCTS)
SYMPTOMS: tuple[tuple[str, str, str, str], ...] = (
    ("the tensor cores wait", "tensor cores: tensor pipe busy", "are tiles late, or the instructions?", "09"),
    ("… and memory is busy", "traffic: memory bandwidth", "order of tiles, multicast", "12, 13"),
    ("… and nothing before them is busy", "traffic: memory bandwidth", "a timeline: stages, groups, roles, the ends", "08, 09, 10, 13"),
    ("they are busy, but it is slow", "time: SM clock", "power: fewer bytes, fewer instructions", "13, 14"),
    ("many instructions for few products", "issue slots: instructions", "TMA for the copies, wgmma for the products", "05, 08"),
    ("schedulers full, tensor cores not", "issue slots: issue slots used", "less address arithmetic in the loop; TMA", "03, 05"),
    ("a fragment is late", "stall reasons: shared memory", "load the next fragment before it is needed", "03"),
    ("too many loads from shared memory", "stall reasons: shared-memory queue", "wgmma, which reads its tiles itself", "08"),
    ("shared memory works twice", "shared memory: load conflicts", "swizzle or pad; 1024-byte alignment", "02, 06"),
    ("wgmma reads twice", "shared memory: wgmma conflicts", "the descriptor's layout", "08, 08x"),
    ("the L2 sends everything twice", "traffic: L2 to the SMs", "larger tiles, multicast, order of tiles", "11, 12, 13"),
    ("a cluster brings each tile twice", "traffic: of that, multicast", "one load for all CTAs that share the tile", "12"),
    ("memory is read again and again", "traffic: memory read", "order of tiles", "13"),
    ("registers in local memory", "occupancy: registers per thread", "setmaxnreg, or a smaller tile", "11"),
    ("one block too many for a wave", "occupancy: waves", "persistent CTAs, Stream-K", "13"),
    ("the fence stands in the way", "stall reasons: fence", "a narrower scope: .cta instead of .cluster", "12"),
)
"""Symptom, 'group: title' of the metric that shows it, what helps, lessons."""


# --- what the metrics are ---------------------------------------------------------------------------------------------
def metric_words(*groups: str) -> str:
    """The metrics of these groups: title in the lessons, unit, Nsight Compute's name, and what it means. Raises LookupError for an unknown group."""
    known = list(dict.fromkeys(metric.group for metric in lesson_metrics.METRICS))
    lines = []
    for group in groups or known:
        if group not in known:
            raise LookupError(f"no group {group!r}; there are: {', '.join(known)}")
        lines.append(group)
        for metric in lesson_metrics.METRICS:
            if metric.group == group:
                lines += [f"  {metric.title}{f' ({metric.unit})' if metric.unit else ''}: {metric.words}", f"      {metric.names[0]}"]
    return "\n".join(lines)


PLACES = (  # name, x, y, width, height, colour, (group: title) of metrics
    ("L2 and memory", 0.0, 0.0, 2.3, 5.0, style.EMPTY, ("traffic: L2 hit rate", "traffic: memory read", "traffic: L2 to the SMs")),
    ("TMA unit", 3.0, 3.1, 2.6, 1.9, style.SKY, ("traffic: TMA instructions", "traffic: TMA into shared memory")),
    ("shared memory", 3.0, 0.0, 2.6, 2.6, style.YELLOW, ("shared memory: load conflicts", "shared memory: wgmma operands", "shared memory: wgmma conflicts")),
    ("four schedulers", 6.3, 3.1, 2.9, 1.9, style.ORANGE, ("issue slots: issue slots used", "issue slots: instructions", "stall reasons")),
    ("tensor cores", 6.3, 0.0, 2.9, 2.6, style.PURPLE, ("tensor cores: tensor pipe busy", "tensor cores: wgmma instructions")),
)
ARROWS = (((2.3, 4.05), (3.0, 4.05)), ((4.3, 3.1), (4.3, 2.6)), ((5.6, 1.3), (6.3, 1.3)), ((6.3, 4.05), (5.6, 4.05)), ((7.75, 3.1), (7.75, 2.6)))


def machine_map() -> style.Picture:
    """The way of a tile through a multiprocessor, and which metrics of the lessons' table watch each place."""
    figure, (axis,) = style.new_figure(3.4)
    words = ["Where the metrics look"]
    for name, x, y, width, height, colour, titles in PLACES:
        axis.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=0.12", facecolor=colour, edgecolor=style.INK, linewidth=1))
        ink = style.ink_on(colour)
        axis.text(x + width / 2, y + height - 0.2, name, ha="center", va="top", fontsize=10, fontweight="bold", color=ink)
        short = [title.split(": ")[-1] for title in titles]
        axis.text(x + width / 2, y + height - 0.72, "\n".join(short), ha="center", va="top", fontsize=8.5, color=ink, linespacing=1.5)
        words.append(f"  {name}: {', '.join(short)}")
    words.append("  the way of a tile: L2 and memory -> TMA unit -> shared memory -> tensor cores; orders: four schedulers -> TMA unit, tensor cores")
    for start, end in ARROWS:
        axis.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": style.INK, "linewidth": 1.6})
    axis.set(xlim=(-0.1, 9.3), ylim=(-0.1, 5.1), xticks=[], yticks=[])
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    style.title(axis, "Where the metrics look (arrows: tiles from left to right; orders from the schedulers)")
    return style.Picture(figure, "\n".join(words))


# --- a recorded profile -----------------------------------------------------------------------------------------------
def profiled(products: Any) -> dict[tuple[str, str], dict[str, float]]:
    """(copy, multiply) -> 'group: title' of a metric -> value, and CYCLES: Nsight Compute on the four products, from the recording `profiles_products`."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for record in products.where(kernel="two_by_two"):
        copied, multiplied, _ = record.options
        found.setdefault((copied, multiplied), {})[record.note] = record.value
    for values in found.values():
        values[CYCLES] = values["time: duration"] * values["time: SM clock"]
    return found


def tensor_share(cycles: float, micro: Any, size: int = 4096) -> float:
    """Per cent of `cycles` in which a multiprocessor that multiplied at the rate of a loop of wgmma would be done with its share of size³."""
    loop = next(r for r in micro.where(suite="wgmma_inputs", dtype="bf16") if "A=SS" in r.options)
    needed = size ** 3 / MULTIPROCESSORS / (loop.shape[0] * loop.shape[1] * loop.shape[2] / loop.value)
    return 100 * needed / cycles


def profile_table(products: Any, micro: Any) -> str:
    """The four products: warp instructions, issue slots, cycles, bytes that came to the SMs, how busy the tensor pipe was, and the share of the cycles that tensor cores
    would need at the rate of a loop of wgmma (computed, see `tensor_share`)."""
    rows = [(" + ".join(pair), values[INSTRUCTIONS] / 1e6, values[ISSUED], values[CYCLES] / 1e3, values[ARRIVED] / 1e3, values[PIPE], tensor_share(values[CYCLES], micro))
            for pair, values in profiled(products).items()]
    lines = text_table("{:22} {:11.1f} M {:10.1f} % {:7.0f} k {:10.3f} GB {:10.1f} % {:14.0f} %", rows,
                       ("", "instructions", "issue slots", "cycles", "from the L2", "pipe busy", "wgmma would need"))
    return "\n".join([f"{products.source}; 4096 x 4096 x 4096, bf16, 3 stages", *lines])


def doors_table(micro: Any) -> str:
    """From suite `multicast_traffic` of `micro`: what two counters say of a kernel whose CTAs read the same boxes, beside the bytes that must arrive. One counts at the
    SMs' door, the other in the L2."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for record in micro.where(suite="multicast_traffic"):
        words = dict(option.split("=", 1) for option in record.options)
        values = found.setdefault((words["CLUSTER"], words["MULTICAST"]), {"arrives": float(record.note.split()[0])})
        values[words["metric"]] = record.value
    rows = [(cluster, "multicast" if shared == "1" else "each CTA for itself", values["arrives"] / 1e6, values[DOOR] / 1e6, 32 * values[SECTORS] / 1e6)
            for (cluster, shared), values in found.items()]
    head = ("clusters of", "", "must arrive", "at the SMs' door", "read in the L2")
    return "\n".join([micro.source, *text_table("{:>11}  {:<*}  {:8.1f} MB  {:13.1f} MB  {:11.1f} MB", rows, head)])


def issue_share(products: Any, copied: str = "TMA", multiplied: str = "wgmma") -> float:
    """Per cent of issue slots that one of the four products used, as recorded."""
    return profiled(products)[copied, multiplied][ISSUED]


def profile_chart(products: Any) -> style.Picture:
    """Three metrics of the four products side by side: cycles, instructions, issue slots."""
    found = profiled(products)
    names = [" + ".join(pair) for pair in found]
    figure, axes = style.new_figure(2.7, 3, (1.35, 1, 1))
    shown = ((CYCLES, 1e-3, "cycles (thousands)"), (INSTRUCTIONS, 1e-6, "warp instructions (millions)"), (ISSUED, 1, "issue slots used (%)"))
    words = ["What the profiler says of four products on equal tiles", f"  {products.source}"]
    for axis, (metric, scale, label) in zip(axes, shown, strict=True):
        _bars(axis, names if axis is axes[0] else [""] * len(names), [values[metric] * scale for values in found.values()], label)
        words.append(f"  {label}: " + ", ".join(f"{name} {values[metric] * scale:.3g}" for name, values in zip(names, found.values(), strict=True)))
    figure.suptitle("What the profiler says of four products on equal tiles", fontsize=11, color=style.INK, x=0.01, ha="left", fontweight="bold")
    figure.supxlabel(products.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words))


DIAGNOSIS = ("time: duration", "time: SM clock", "tensor cores: tensor pipe busy", "issue slots: issue slots used", "traffic: memory bandwidth", "traffic: L2 hit rate",
             "traffic: TMA into shared memory", "traffic: of that, multicast", "shared memory: loads", "shared memory: wgmma conflicts", "occupancy: waves",
             "stall reasons: barrier", "stall reasons: memory", "stall reasons: fixed latency", "stall reasons: shared-memory queue", "stall reasons: wgmma queue",
             "stall reasons: shared memory", "stall reasons: branch", "stall reasons: sleeping")
"""What one asks a profile, in this order: time, engine, slots, what comes before the engine, then who waits for what."""


def diagnosis_table(recording: Any, launches: Mapping[str, Sequence[str]]) -> str:
    """A line a metric of DIAGNOSIS, a column a launch, from the recording `profiles`. launches: heading -> (kernel, sizes …). Raises LookupError for
    one that is not there."""
    columns = []
    for kernel, *sizes in launches.values():
        columns.append({record.note: record.value for record in recording.where(kernel=kernel, options=tuple(sizes))})
        if not columns[-1]:
            raise LookupError(f"recordings/profiles.json has no launch {kernel} {' '.join(sizes)}")
    units = {lesson_metrics.title(metric): metric.unit for metric in lesson_metrics.METRICS}
    rows = [(name, units[name], *(f"{column[name]:.{2 if name.startswith(('stall', 'occupancy')) else 0 if column[name] >= 1000 else 1}f}" for column in columns))
            for name in DIAGNOSIS]
    return "\n".join([recording.source, *text_table("{:<*}  {:<*}" + "  {:>*}" * len(columns), rows, ("metric", "", *launches)), *highest_clock(recording)])


STALLS = ("memory", "barrier", "shared memory", "shared-memory queue", "arithmetic pipe", "fixed latency")
"""Stall reasons in which the four products differ, and one in which they need not."""


def stalls_table(products: Any) -> str:
    """The four products: how busy the tensor pipe was, and how many warps stood for each reason of STALLS at each issue, from the recording `profiles_products`."""
    rows = [(" + ".join(pair), values[PIPE], *(values[f"stall reasons: {reason}"] for reason in STALLS)) for pair, values in profiled(products).items()]
    lines = text_table("{:<*}  {:7.1f} %" + "  {:*.2f}" * len(STALLS), rows, ("", "pipe busy", *STALLS))
    return "\n".join([products.source, *lines])


def _bars(axis: Axes, names: Sequence[str], values: Sequence[float], label: str) -> None:
    axis.barh(range(len(values)), values, color=[style.PALETTE[i] for i in (4, 4, 1, 1)][:len(values)] if len(values) == 4 else style.BLUE, height=0.68)
    axis.set_yticks(range(len(values)), names)
    axis.invert_yaxis()
    axis.set_xlim(0, max(values) * 1.28)
    axis.set_xlabel(label, fontsize=9)
    for row, value in enumerate(values):
        axis.text(value + max(values) * 0.02, row, f"{value:.3g}", va="center", fontsize=8, color=style.INK)


PASSES = ("shared memory: wgmma operands", "shared memory: loads", "shared memory: stores")


def shared_memory_busy(values: Mapping[str, float]) -> float:
    """Share of cycles in which an SM's shared memory has a wavefront, of 128 bytes, for wgmma or for threads, from a profile's values by title. What TMA
    writes there is not counted: it goes beside (recording `fp8`, `wgmma_beside_copies`)."""
    return sum(values[name] for name in PASSES) / (MULTIPROCESSORS * values["time: duration"] * values["time: SM clock"])


def profiles_table(recording: Any, targets: Sequence[tuple[str, ...]]) -> str:
    """A line a target (step, sizes) of the recording `profiles`: time, clock, and how busy tensor cores, issue slots, shared memory and L2 were."""
    rows = []
    for kernel, *sizes in targets:
        values = {record.note: record.value for record in recording.where(kernel=kernel, options=tuple(sizes))}
        rate = values["traffic: L2 to the SMs"] / values["time: duration"]
        rows.append((" ".join((kernel, *sizes)), values["time: duration"], values["time: SM clock"], values["tensor cores: tensor pipe busy"],
                     values["issue slots: issue slots used"], 100 * shared_memory_busy(values), rate))
    head = ("launch", "us", "MHz", "tensor cores", "issue slots", "shared memory", "L2 to SMs")
    return "\n".join([recording.source, *text_table("{:22} {:8.1f} {:6.0f} {:11.1f} % {:10.1f} % {:12.1f} % {:6.2f} TB/s", rows, head)])


def symptoms_table() -> str:
    """Symptom, metric that shows it, what helps, and the lessons."""
    return "\n".join(text_table("{:<*}  {:<*}  {:<*}  {}", SYMPTOMS, ("symptom", "metric", "what helps", "lesson")))


# --- counters of one kernel -------------------------------------------------------------------------------------------
def recorded_counts(kernel: str) -> dict[str, int]:
    """What Nsight Compute counted for a kernel of recordings/counters.json. Raises LookupError for one that is not there."""
    data = json.loads(recordings.path_of("counters").read_text(encoding="utf-8"))
    for row in data["rows"]:
        if row["kernel"] == kernel:
            return row["gpu"]
    raise LookupError(f"recordings/counters.json has no kernel {kernel!r}")


def counters_beside(kernel: str, run: Any) -> str:
    """Every count of an emulated run that a profiler has, beside Nsight Compute's of the recorded kernel with the same accesses."""
    return counters.table([counters.Row(kernel, dict(run.counters), recorded_counts(kernel))]).rsplit("\n", 1)[0]


def count_kernel(name: str) -> tuple[bool, Any]:
    """(right, run) of one of KERNELS in the emulator: a transpose of 32 x 32 floats, or a product of 128 x 128 x 192. Raises LookupError for another."""
    import hopperlab as hl

    if name in TRANSPOSES:
        source, out = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
        kernel = hl.load_kernel("banks/transpose.cu", "transpose", TRANSPOSES[name][1], backend="emulator")
        with hl.emulate(hazards="collect") as run:
            kernel((1,), (32, 32), (source, out))
        return bool((out.reshape(32, 32) == source.reshape(32, 32).T).all()), run
    if name not in PRODUCTS:
        raise LookupError(f"no kernel {name!r}; there are: {', '.join(KERNELS)}")
    return run_counted((128, 128, 192), PRODUCTS[name])


def run_counted(shape: tuple[int, int, int], pair: tuple[str, str] = ("TMA", "wgmma")) -> tuple[bool, Any]:
    """(right, run) of one of the four products of m x n x k in the emulator, three stages."""
    import hopperlab as hl

    m, n, k = shape
    a, b, c = integer_bf16(np, (m, k), 1), integer_bf16(np, (n, k), 2), np.zeros((m, n), np.uint16)
    launch = TWO_BY_TWO[pair](a, b, c, stages=3, backend="emulator")
    with hl.emulate(hazards="collect") as run:
        launch()
    return bool((c == bf16_bits(bf16_values(a) @ bf16_values(b).T)).all()), run


def launch_counters(kernel: str) -> style.Picture:
    """The panel: run one of KERNELS and show every count that Nsight Compute has too, beside its own where it was recorded."""
    right, run = count_kernel(kernel)
    row = counters.Row(kernel, dict(run.counters))
    counts = {name: row.counted(name) for name in counters.METRICS if row.counted(name)}
    gpu = recorded_counts(TRANSPOSES[kernel][0]) if kernel in TRANSPOSES else {}
    figure, (axis,) = style.new_figure(1.4 + 0.36 * len(counts))
    axis.barh(range(len(counts)), list(counts.values()), color=[style.VERMILION if "conflict" in name else style.BLUE for name in counts], height=0.66)
    axis.set_xscale("log")
    axis.set_xlim(1, max(counts.values()) * 60)
    words = []
    for place, (name, value) in enumerate(counts.items()):
        beside = "" if not gpu else f"  (Nsight Compute: {gpu[name]:,}{'' if gpu[name] == value else ', DIFFERENT'})"
        axis.text(value * 1.15, place, f"{value:,}{beside}", va="center", fontsize=8.5, color=style.INK)
        words.append(f"  {name}: {value:,}{beside}\n      {counters.METRICS[name]}")
    axis.set_yticks(range(len(counts)), [name.replace("_", " ").replace(" + cp async", "\n+ cp async").replace(" + bulk", "\n+ bulk") for name in counts], fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("count (logarithmic)")
    heading = f"{kernel}: {'right' if right else 'WRONG'}, {len(run.hazards)} hazards; counted by the emulator" + (" and by the profiler" if gpu else "")
    figure.suptitle(heading, fontsize=11, color=style.INK, x=0.01, ha="left", fontweight="bold")
    return style.Picture(figure, "\n".join([heading, *words]))


def same_counts(first: Any, second: Any) -> bool:
    """True when two runs agree in every counter that a profiler has."""
    rows = [counters.Row("", dict(run.counters)) for run in (first, second)]
    return all(rows[0].counted(name) == rows[1].counted(name) for name in counters.METRICS)


# --- the exercise -----------------------------------------------------------------------------------------------------
@told
def check_counts(answers: Mapping[str, Any]) -> str:
    """Lesson 09x's exercise: three counts of the TMA + wgmma product of 256 x 256 x 128, checked by running it in the emulator."""
    names = {"TMA bytes": "tma_load_bytes", "wgmma": "wgmma", "wavefronts": "wgmma_wavefronts"}
    answered = wholes(answers, names)
    if all(given is None for given in answered.values()):
        return "Not answered yet: write three counts, then run the cell again."
    _, run = run_counted((256, 256, 128))
    hints = {("TMA bytes", 4): "that is one CTA's", ("wgmma", 4): "that is one CTA's", ("wavefronts", 4): "that is one CTA's",
             ("wgmma", 0.25): "that counts warps: the four of a warpgroup issue one together, and it counts once",
             ("TMA bytes", 2): "that is each matrix once, but every CTA loads its own tiles", ("wgmma", 2): "two warpgroups issue their own"}
    lines = []
    for name, counter in names.items():
        given, counted = answered[name], run.counters[counter]
        if given is None:
            lines.append(f"{name}: not answered yet")
        elif given == counted:
            lines.append(f"{name}: right, {counted:,}")
        else:
            hint = next((words for (which, part), words in hints.items() if which == name and given * part == counted), "")
            lines.append(f"{name}: {given:,} is not it" + (f" ({hint})" if hint else ""))
    return "\n".join(lines)
