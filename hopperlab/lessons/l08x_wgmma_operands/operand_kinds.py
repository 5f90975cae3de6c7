# SPDX-License-Identifier: Apache-2.0
"""Lesson 08x: the operands of wgmma: what one k-step reads of a K-major and of an MN-major tile, what each choice costs in wavefronts and
registers, the recorded rates, and the check of the exercise.

The layouts are `hopper.wgmma`'s, the kernel is gemm/wgmma_operands.cu; this file runs it, counts and draws.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ...hopper import swizzle, wgmma
from ...measure import recordings
from ...measure.launches.variants import OPERANDS, wgmma_operands
from ...runtime.tables import text_table
from ...show import charts, style
from ..given import told, wholes

TILE, ACCUMULATORS = 128, 64            # rows and columns of C; registers per thread for 64 x 128 sums
STEP_BYTES = 32                         # of k, in one wgmma of any type
QUESTION = {"start": 0x6000, "k": 32, "n": 192}
"""The exercise: a bf16 tile of k rows of n columns (n contiguous) at `start`, brought by TMA in panels of 64 columns under 128B."""


@dataclass(frozen=True)
class OperandRun:
    """A product of one tile: right in every place it ran?, the emulator's run, c, registers per thread as ptxas counted."""

    right: bool
    run: Any
    c: np.ndarray
    registers: int


def operand_numbers(kind: str, tiles: int = 2, seed: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Small integers as float32, exact in every type: a (128, k) and b (128, k), `tiles` times 128 bytes of k in type `kind`."""
    random = np.random.default_rng(seed)
    k = tiles * 128 // OPERANDS[kind].bytes
    return tuple(random.integers(-2, 3, (TILE, k)).astype(np.float32) for _ in range(2))


def stored(kind: str, values: np.ndarray, major: str = "K") -> np.ndarray:
    """float32 values (rows, k) as wgmma finds them in memory: of type `kind` (bf16 and e4m3 as bits), transposed when MN-major."""
    import ml_dtypes

    turned = np.ascontiguousarray(values.T if major == "MN" else values)
    if kind == "bf16":
        return turned.astype(ml_dtypes.bfloat16).view(np.uint16)
    if kind == "e4m3":
        return turned.astype(ml_dtypes.float8_e4m3fn).view(np.uint8)
    return turned.astype({"f16": np.float16, "tf32": np.float32, "s8": np.int8}[kind])


def multiply_operands(kind: str = "bf16", source: str = "SS", a_major: str = "K", b_major: str = "K", numbers: Sequence[np.ndarray] | None = None,
                      told: str | None = None, options: Sequence[str] = (), schedule: str = "lazy") -> OperandRun:
    """c = a * b^T by gemm/wgmma_operands.cu: in the chosen place, then in the emulator for counters and hazards.

    numbers: (a, b) as float32 (rows, k), default `operand_numbers`; told: the major of b that the launch is told, where that is not
    the one it was stored in (a planted mistake). Planted bugs run in the emulator only. Raises ValueError for what wgmma cannot read.
    """
    import hopperlab as hl

    a, b = operand_numbers(kind) if numbers is None else numbers
    left, right_ = stored(kind, a, a_major), stored(kind, b, b_major)
    exact = a @ b.T
    places = (["gpu"] if hl.backend() == "gpu" and not options and told is None else []) + ["emulator"]
    right = True
    for place in places:
        xp = hl.array_module() if place == "gpu" else np
        c = xp.zeros(exact.shape, OPERANDS[kind].result)
        launch = wgmma_operands(xp.asarray(left), xp.asarray(right_), c, kind, source, a_major, told or b_major, stages=2, options=options, backend=place)
        if place == "gpu":
            launch()
        else:
            with hl.emulate(schedule=schedule, hazards="collect") as run:
                launch()
        found = hl.asnumpy(c) if place == "gpu" else c
        right = right and bool((found == exact).all())
    return OperandRun(right, run, found, launch.kernel.num_regs)


def wavefronts_of(n: int, source: str = "SS") -> int:
    """Wavefronts of 128 bytes that one wgmma of N = n reads from shared memory: 32 bytes of each of n rows of B, and of 64 rows of A in SS."""
    return ((64 if source == "SS" else 0) + n) * STEP_BYTES // 128


def operand_costs(kinds: Sequence[str] = tuple(OPERANDS)) -> str:
    """For each type, A from shared memory and from registers: right?, wgmma, wavefronts read by wgmma and by ldmatrix. Runs the kernel."""
    rows = []
    for kind in kinds:
        for source in ("SS", "RS"):
            made = multiply_operands(kind, source)
            count = made.run.counters
            rows.append((kind, source, "right" if made.right else "WRONG", count["wgmma"], count["wgmma_wavefronts"], count["shared_load_wavefronts"]))
    return "\n".join(text_table("{:5} {:2}   {:6} {:6d} {:20d} {:12d}", rows, ("type", "A", "result", "wgmma", "wavefronts by wgmma", "by ldmatrix")))


def operand_builds() -> str:
    """Registers a thread, as the compiler counts them, of each type and source, and notes of ptxas."""
    lines = []
    for kind in OPERANDS:
        counts = {source: multiply_operands(kind, source).registers for source in ("SS", "RS")}
        lines.append(f"{kind:5s}: {counts['SS']} registers per thread with A in shared memory, {counts['RS']} with A in registers")
    return "\n".join(lines)


def wavefronts_beside(names: Mapping[str, tuple[int, str]]) -> str:
    """Wavefronts that Nsight Compute recorded for kernels of four wgmma each, beside the formula. names: recorded kernel -> (N, source)."""
    data = json.loads(recordings.path_of("counters_engines").read_text(encoding="utf-8"))
    measured = {row["kernel"]: row["gpu"]["wgmma_wavefronts"] for row in data["rows"] if "wgmma_wavefronts" in (row["gpu"] or {})}
    head = data["header"]
    lines = [f"Nsight Compute on {head['gpu']}, driver {head['driver']}, {head['date']}: wavefronts of wgmma, four instructions"]
    for name, (n, source) in names.items():
        here = 4 * wavefronts_of(n, source)
        lines.append(f"  {name:22s} measured {measured[name]:4d}, counted {here:4d}: {'equal' if measured[name] == here else 'DIFFERENT'}")
    return "\n".join(lines)


# --- pictures ---------------------------------------------------------------------------------------------------------
def k_steps(major: str, start: int = 0x2000, panel_bytes: int = 8192, steps: int = 4) -> list[int]:
    """Descriptors of the k-steps of a bf16 tile with 64 columns of k, in the 128-byte swizzle: K-major 32 bytes apart, MN-major 2048."""
    if major == "K":
        return [wgmma.encode(start + 32 * step, 16, 1024, "128B") for step in range(steps)]
    return [wgmma.encode(start + 2048 * step, panel_bytes, 1024, "128B") for step in range(steps)]


def step_map(step: int = 1, lines: int = 32) -> style.Picture:
    """The first `lines` lines of a bf16 tile of 64 x 64, stored K-major (left) and MN-major (right): what k-step `step` (0 to 3) reads."""
    figure, axes = style.new_figure(1.5 + 0.155 * lines, 2)
    words = [f"What k-step {step} reads of a bf16 tile, 128-byte swizzle"]
    for axis, major in zip(axes, ("K", "MN"), strict=True):
        desc = k_steps(major)[step]
        base = 0x2000
        read = {int(address) for address in wgmma.operand_granules(desc, 64, STEP_BYTES, major).ravel()}
        _draw_lines(axis, major, base, lines, read)
        found = [line for line in range(64) if any(base + 128 * line + 16 * p in read for p in range(8))]
        d = wgmma.decode(desc)
        words.append(f"  {major}-major: start {d.start:#x}; reads of {len(found)} lines ({found[0]} to {found[-1]}), {len(read) // len(found)} "
                     f"pieces of 16 bytes each; a line is one {'row n, its pieces are eight k' if major == 'K' else 'k, its pieces are eight n'}")
    figure.suptitle(f"k-step {step}: the pieces that one wgmma reads (coloured)", fontsize=11, color=style.INK, fontweight="bold", x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words))


def _draw_lines(axis: Axes, major: str, base: int, lines: int, read: set[int]) -> None:
    along = "k" if major == "K" else "n"
    for line in range(lines):
        for piece in range(8):
            at = int(swizzle.apply(base + 128 * line + 16 * piece, "128B"))
            x, y = at % 128 // 16, (at - base) // 128
            colour = (style.SKY if major == "K" else style.ORANGE) if at in read else style.EMPTY
            axis.add_patch(Rectangle((x, y), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=0.8))
            if at in read:
                axis.text(x + 0.5, y + 0.54, f"{along}{8 * piece}", ha="center", va="center", fontsize=7, color=style.INK)
    axis.set(xlim=(0, 8), ylim=(lines, 0), xlabel=f"16-byte piece of the line (label: its first {along})",
             ylabel=f"line of 128 bytes: one {'row n' if major == 'K' else 'k'}")
    axis.set_xticks([i + 0.5 for i in range(8)], [str(i) for i in range(8)])
    axis.set_yticks([i + 0.5 for i in range(0, lines, 4)], [str(i) for i in range(0, lines, 4)])
    style.title(axis, f"{major}-major" + (": +32 bytes a k-step" if major == "K" else ": +2048 bytes a k-step"))


def width_chart(recording: Any, widest: int = 128) -> style.Picture:
    """Cycles of one bf16 wgmma by N, A from shared memory and from registers (recorded, two warpgroups), beside what shared memory and
    the multipliers need. recording: 'micro'."""
    rows = [r for r in recording.where(suite="wgmma_rate") if "warpgroups=2" in r.options and r.shape[1] <= widest]
    widths = sorted({r.shape[1] for r in rows})
    figure, (axis,) = style.new_figure(3.7)
    told = [f"cycles of one wgmma, m64 nN k16, bf16; {recording.source}", "  N | recorded SS | recorded RS | wavefronts SS | multipliers (N/2)"]
    measured = {s: [next(r.value for r in rows if r.shape[1] == n and f"A={s}" in r.options) for n in widths] for s in ("SS", "RS")}
    at = range(len(widths))
    axis.plot(at, [wavefronts_of(n) for n in widths], color=style.SKY, linewidth=6, alpha=0.55, label="wavefronts that SS reads")
    axis.plot(at, [n / 2 for n in widths], color=style.ORANGE, linewidth=6, alpha=0.55, label="multipliers: N/2")
    axis.plot(at, measured["SS"], color=style.BLUE, marker="o", linewidth=1.5, label="SS, recorded")
    axis.plot(at, measured["RS"], color=style.VERMILION, marker="s", linewidth=1.5, label="RS, recorded")
    axis.set_xticks(list(at), [str(n) for n in widths])
    axis.set(xlabel="N of the instruction", ylabel="cycles of one wgmma")
    axis.set_ylim(bottom=0)
    axis.grid(True, color=style.EMPTY)
    axis.legend(fontsize=9, frameon=False)
    style.title(axis, "SS takes as long as the slower of reading and multiplying")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    told += [f"  {n} | {ss:.2f} | {rs:.2f} | {wavefronts_of(n)} | {n // 2}" for n, ss, rs in zip(widths, measured["SS"], measured["RS"], strict=True)]
    return style.Picture(figure, "\n".join(told))


def type_rates(micro: Any, variants: Any) -> str:
    """By type and source of A: multiply-adds per cycle and SM of a loop of wgmma (`micro`), and rate and error of a whole product (`variants`)."""
    shape = variants.where(suite="operands")[0].shape
    rows = []
    for record in variants.where(suite="operands"):
        if "A_major=K" not in record.options or "B_major=K" not in record.options:
            continue
        source = record.options[0].split("=")[1]
        loop = next(r for r in micro.where(suite="wgmma_inputs", dtype=record.dtype) if f"A={source}" in r.options)
        rate = loop.shape[0] * loop.shape[1] * loop.shape[2] / loop.value
        rows.append((record.dtype, source, rate, record.tflops, record.value))
    heading = f"{'':10} products per cycle, N = 256   TFLOP/s at {' x '.join(map(str, shape))}   error against float64"
    return "\n".join([variants.source, heading, *text_table("{:5} {:2}   {:22.0f} {:25.0f} {:26.1e}", rows)])


def rates_chart(variants: Any) -> style.Picture:
    """One bar a type (A from shared memory, K-major): the recorded rate of the whole product."""
    rates = {r.dtype: r.tflops for r in variants.where(suite="operands", options=("A=SS", "A_major=K", "B_major=K"))}
    return charts.bars(dict(sorted(rates.items(), key=lambda item: -item[1])), "rate (TFLOP/s; for s8, 10¹² integer operations per second)",
                       "The same kernel, the same tile, other operands", variants.source)


def major_rates(variants: Any) -> str:
    """Rate of the bf16 product by majors and source, and the range of its ratio to SS with both K-major over the rounds."""
    lines = [variants.source]
    for record in variants.where(suite="operands", dtype="bf16"):
        source, a, b = (option.split("=")[1] for option in record.options)
        lines.append(f"  {source}, A {a}-major, B {b}-major: {record.tflops:4.0f} TFLOP/s, {record.ratio:.3f} of the first ({record.ratio_min:.3f} to "
                     f"{record.ratio_max:.3f})")
    return "\n".join(lines)


# --- the panel --------------------------------------------------------------------------------------------------------
def _recorded_rate(kind: str, source: str, a_major: str, b_major: str) -> str:
    try:
        variants = recordings.load("variants")
    except FileNotFoundError:
        return ""
    found = variants.where(suite="operands", dtype=kind, options=(f"A={source}", f"A_major={a_major}", f"B_major={b_major}"))
    return f"{found[0].tflops:.0f} TFLOP/s for {' x '.join(map(str, found[0].shape))}, {variants.source}" if found else (f"no rate of this choice was recorded "
                                                                                                                         f"({variants.source})")


def launch_operands(kind: str, source: str, a_major: str, b_major: str) -> style.Picture:
    """The panel: multiply one tile of 128 x 128 and 256 bytes of k with these operands. Raises ValueError for what wgmma cannot read."""
    made = multiply_operands(kind, source, a_major, b_major)
    count = made.run.counters
    of_b = count["wgmma"] * wavefronts_of(TILE, "RS")
    reads = {"A, by wgmma": count["wgmma_wavefronts"] - of_b, "B, by wgmma": of_b, "A, by ldmatrix": count["shared_load_wavefronts"]}
    fragments = 32 if source == "RS" else 0
    registers = {"sums": ACCUMULATORS, "fragments of A": fragments, "the rest": made.registers - ACCUMULATORS - fragments}
    figure, axes = style.new_figure(2.5, 2)
    for axis, parts, label, heading in ((axes[0], reads, "wavefronts of 128 bytes", "Read from shared memory"),
                                        (axes[1], registers, "registers per thread", "Registers, by the compiler's count")):
        left = 0
        for (name, amount), colour in zip(parts.items(), (style.SKY, style.BLUE, style.ORANGE), strict=True):
            if amount:
                axis.barh(0, amount, left=left, height=0.5, color=colour, edgecolor=style.CARD, label=f"{name}: {amount}")
                left += amount
        axis.set(yticks=[], xlabel=label, ylim=(-0.4, 1.0))
        axis.spines["left"].set_visible(False)
        axis.legend(fontsize=8, frameon=False, ncols=3, loc="upper left", bbox_to_anchor=(-0.01, 1.0), columnspacing=0.9, handlelength=0.9, borderpad=0)
        axis.set_title(f"{heading}: {left}", fontsize=9, loc="left", color=style.INK)
    k = count["wgmma"] // 2 * wgmma.K_BY_DTYPE[kind]                # two warpgroups
    heading = (f"{kind}, {source}, A {a_major}-major, B {b_major}-major: {'right' if made.right else 'WRONG'}, {len(made.run.hazards)} hazards; "
               f"{count['wgmma']} wgmma of m64 n128 k{wgmma.K_BY_DTYPE[kind]}")
    rate = _recorded_rate(kind, source, a_major, b_major)
    figure.suptitle(f"{heading}\n{rate}", fontsize=9, color=style.INK, x=0.01, ha="left", fontweight="bold")
    words = [heading, f"  columns of k: {k}", *(f"  shared memory, {n}: {v} wavefronts" for n, v in reads.items()),
             *(f"  registers, {n}: {v}" for n, v in registers.items()), f"  {rate}"]
    return style.Picture(figure, "\n".join(words))


# --- the exercise -----------------------------------------------------------------------------------------------------
@told
def check_mn_descriptor(answers: Mapping[str, Any]) -> str:
    """Lesson 08x's exercise: the fields of the descriptor of an MN-major tile, and the start of its second k-step, as the fields hold them.

    What is given is put together and compared, element by element, with where TMA left the tile.
    """
    start, panel = QUESTION["start"], QUESTION["k"] * 128
    right = {"start": start >> 4, "leading": panel >> 4, "stride": 1024 >> 4, "swizzle": wgmma.SWIZZLE_CODE["128B"], "second k-step": start + 2048 >> 4}
    answered, lines = wholes(answers, right), []
    for name, value in right.items():
        given = answered[name]
        hint = " (the field counts 16 bytes)" if given == value << 4 and name != "swizzle" else ""
        lines.append(f"{name}: not answered yet" if given is None else f"{name}: right" if given == value else f"{name}: {given:#x} is not it{hint}")
    full = {name: given for name, given in answered.items() if given is not None}
    if len(full) == len(right):
        lines.append(_read_by(full))
    return "\n".join(lines)


def tile_addresses(start: int, k: int, n: int) -> np.ndarray:
    """Where TMA leaves element (n, k) of a bf16 tile with n contiguous: panels of 64 columns, k lines of 128 bytes each, 128-byte swizzle."""
    columns, rows = np.arange(n)[:, None], np.arange(k)[None, :]
    return swizzle.apply(start + columns // 64 * (128 * k) + rows * 128 + columns % 64 * 2, "128B")


def _read_by(answers: Mapping[str, int]) -> str:
    """The first element that the given descriptor finds in the wrong place, for both k-steps."""
    limits = {"start": 14, "leading": 14, "stride": 14, "swizzle": 2, "second k-step": 14}
    for name, bits in limits.items():
        if not 0 <= answers[name] < 1 << bits:
            return f"The field of {name} has {bits} bits and cannot hold {answers[name]}."
    lies = tile_addresses(QUESTION["start"], QUESTION["k"], QUESTION["n"])
    for step, name in enumerate(("start", "second k-step")):
        desc = answers[name] | answers["leading"] << 16 | answers["stride"] << 32 | answers["swizzle"] << 62
        try:
            reads = wgmma.operand_addresses(desc, QUESTION["n"], 16, 2, "MN")
        except wgmma.DescriptorError as error:
            return f"k-step {step}: {error}"
        wrong = np.argwhere(reads != lies[:, 16 * step:16 * step + 16])
        if len(wrong):
            n, k = (int(i) for i in wrong[0])
            return f"k-step {step}: element n = {n}, k = {16 * step + k} lies at {int(lies[n, 16 * step + k]):#x} and would be read at {int(reads[n, k]):#x}: wrong"
    return "every element of both k-steps is read where TMA left it: right"
