# SPDX-License-Identifier: Apache-2.0
"""Lesson 16: what attention costs on paper (products and exponentials by head size), which blocks of keys a causal mask leaves, how tiles of
different length are shared out, and what was recorded (the recording `attention`, passed in).
"""
from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.patches import Patch, Rectangle

from ...hopper import limits
from ...measure import summaries
from ...measure.launches.attention import HEAD_SIZES, STEPS
from ...measure.suites.attention import CONFIGURATIONS
from ...runtime.tables import text_table
from ...show import style

EXPONENTIALS = 16           # a cycle and SM: CUDA Programming Guide, arithmetic throughput of special functions for compute capability 9.0
MULTIPLY_ADDS = 2048        # a cycle and SM, bf16 wgmma: m64n256k16 takes 128 cycles (lesson 08)


def cycles(d: int, queries: int = 128, keys: int = 128) -> tuple[float, float]:
    """(cycles of both products, cycles of the exponentials) that one SM needs at least for queries x keys scores of head size d."""
    return 2 * queries * keys * d / MULTIPLY_ADDS, queries * keys / EXPONENTIALS


def share_by_turns(d: int) -> float:
    """The tensor core's share of the time where products and exponentials are never at work together: d / (d + 64)."""
    products, exponentials = cycles(d)
    return products / (products + exponentials)


def balance_table(sizes: Sequence[int] = HEAD_SIZES) -> str:
    """A line a head size: cycles of products and exponentials for a block of 128 x 128 scores, and what the tensor core gets by turns and together."""
    rows = []
    for d in sizes:
        products, exponentials = cycles(d)
        rows.append((d, products, exponentials, 100 * share_by_turns(d), 100 * min(1.0, products / exponentials)))
    head = ("head size", "products", "exponentials", "tensor core busy: by turns, together at most", "")
    return "\n".join(["128 queries x 128 keys on one SM, in cycles", *text_table("{:9d} {:9.0f} {:13.0f}   {:24.0f} %{:17.0f} %", rows, head)])


def exponential_roofline(recording: Any, ceilings: Any = None, length: int = 16384) -> style.Picture:
    """Attainable rate by head size, at the board's highest clock: the slower of both units, and both by turns; with the recorded rates of the last
    step at this length (no mask). ceilings: the recording of that name, for the rate of a plain product on the same kind of board.
    """
    peak = 2 * MULTIPLY_ADDS * limits.SMS * recording.header["clocks"]["sm_max_mhz"] / 1e6
    sizes = np.logspace(4, 9, 120, base=2)
    by_turns = np.array([share_by_turns(d) for d in sizes]) * peak
    together = np.minimum(1, sizes / 64) * peak
    figure, (axis,) = style.new_figure(3.0, width=5.6)
    axis.plot(sizes, together, color=style.BLUE, linewidth=2.2, label="both at once")
    axis.plot(sizes, by_turns, color=style.VERMILION, linewidth=2.2, linestyle="--", label="one after the other")
    words = [f"Roofs by head size: {peak:.0f} TFLOP/s where every SM multiplies all the time at its highest clock; {recording.source}"]
    if ceilings is not None:
        plain = ceilings.one(kernel="cuBLAS product", dtype="bfloat16")
        axis.axhline(plain.tflops, color=style.GREEN, linewidth=1.4, linestyle=":", label="cuBLAS, 8192³")
        words.append(f"  a product of 8192³ by cuBLAS, recorded: {plain.tflops:.0f} TFLOP/s (the clock falls under load)")
    for index, d in enumerate(HEAD_SIZES):
        record = next(r for r in recording.where(kernel="final", shape=(16384 // length, length, 2048 // d, d)) if r.options[1] == "full")
        axis.plot([d], [record.tflops], "o", color=style.INK, markersize=8, label=None if index else "the last step")
        words.append(f"  head size {d}: by turns at most {share_by_turns(d) * peak:.0f}, together at most {min(1, d / 64) * peak:.0f}, recorded "
                     f"{record.tflops:.0f} TFLOP/s")
    axis.set_xscale("log", base=2)
    axis.set_xticks([16, 64, 128, 256, 512], ["16", "64", "128", "256", "512"])
    axis.set_yticks([0, 250, 500, 750, 1000])
    axis.set(xlabel="head size D", ylabel="TFLOP/s", xlim=(16, 512), ylim=(0, 1.2 * peak))
    axis.axvline(64, color=style.FAINT, linewidth=1)
    axis.legend(fontsize=8, frameon=False, loc="lower right")
    style.title(axis, "A roofline with the exponential unit")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words), style.FEWER)


# --- blocks and tiles -------------------------------------------------------------------------------------------------
def key_blocks(queries: int, keys: int, bm: int = 128, bn: int = 64, causal: bool = True) -> list[int]:
    """Blocks of keys that some of each `bm` queries see, the first queries first (attention.cuh's blocks_of): what is loaded for a tile of that many
    queries, or, with bm 64, what each warpgroup multiplies."""
    found = []
    for first in range(0, queries, bm):
        seen = min(keys, first + bm + keys - queries) if causal else keys
        found.append(-(-max(0, seen) // bn))
    return found


def counted_blocks(found: Any, d: int) -> int:
    """Blocks of keys that a run's warpgroups multiplied with, each of 64 queries, from its count of wgmma: D / 16 for the scores and BN / 16 for the values."""
    return found.run.counters["wgmma"] // (d // 16 + found.choice.bn // 16)


def causal_map(queries: int = 768, keys: int = 768, bm: int = 128, bn: int = 128) -> style.Picture:
    """A row a tile of queries, a square a block of keys: whole, masked in part, or left out. Query i sees keys up to i + keys - queries."""
    kinds = {"whole": style.SKY, "masked in part": style.BLUE, "left out": style.EMPTY}
    rows, across = key_blocks(queries, keys, bm, bn), -(-keys // bn)
    figure, (axis,) = style.new_figure(1.3 + 0.2 * len(rows), width=4.4)
    names, counts = list(kinds), [0, 0, 0]
    for tile, blocks in enumerate(rows):
        for j in range(across):
            whole = (j + 1) * bn - 1 <= tile * bm + keys - queries and (j + 1) * bn <= keys
            kind = 2 if j >= blocks else 0 if whole else 1
            counts[kind] += 1
            axis.add_patch(Rectangle((j * bn, tile - 0.45), bn, 0.9, facecolor=kinds[names[kind]], edgecolor=style.CARD, linewidth=1.5))
    axis.set(xlim=(0, across * bn), ylim=(len(rows) - 0.4, -0.6), xlabel="keys", ylabel=f"tile of {bm} queries")
    axis.set_yticks(range(len(rows)))
    figure.legend(handles=[Patch(facecolor=colour, label=f"{name} ({count})") for (name, colour), count in zip(kinds.items(), counts)], fontsize=8, frameon=False,
                  ncols=3, loc="outside lower center")
    style.title(axis, f"{queries} queries, {keys} keys, causal")
    return style.Picture(figure, f"{queries} queries, {keys} keys, causal: " + ", ".join(f"{count} blocks {name}" for name, count in zip(names, counts)), style.FEWER)


WAYS_TO_SHARE = ("a tile at a time by number", "drawn, shortest first", "drawn, longest first")


def shared_out(blocks: Sequence[int], ctas: int, way: str, each: float = 1.0) -> list[list[tuple[float, float]]]:
    """A model: (start, end) of every tile on each CTA, a list a CTA. A tile takes `each` (its start and its end) and 1 for a block of keys.

    way: of WAYS_TO_SHARE: tile i on CTA i % ctas, in the order given; or whoever is free takes the next one.
    """
    if way not in WAYS_TO_SHARE:
        raise ValueError(f"no way {way!r}; there are {', '.join(WAYS_TO_SHARE)}")
    found: list[list[tuple[float, float]]] = [[] for _ in range(ctas)]
    ordered = list(blocks) if way == WAYS_TO_SHARE[0] else sorted(blocks, reverse=way == WAYS_TO_SHARE[2])
    free = [(0.0, cta) for cta in range(ctas)]
    for index, count in enumerate(ordered):
        now, cta = (found[index % ctas][-1][1] if found[index % ctas] else 0.0, index % ctas) if way == WAYS_TO_SHARE[0] else heapq.heappop(free)
        found[cta].append((now, now + each + count))
        if way != WAYS_TO_SHARE[0]:
            heapq.heappush(free, (now + each + count, cta))
    return found


def sharing_table(cases: Sequence[tuple[int, int]], ctas: int = 132, bm: int = 128, bn: int = 128) -> str:
    """How much longer than an even share each way takes, for (length, heads x sequences), causal; a model."""
    rows = []
    for length, heads in cases:
        blocks = key_blocks(length, length, bm, bn) * heads
        even = sum(1 + b for b in blocks) / ctas
        ends = [max(tile[1] for cta in shared_out(blocks, ctas, way) for tile in cta[-1:]) for way in WAYS_TO_SHARE]
        rows.append((f"{length} x {heads:5d}", len(blocks), *(100 * (end / even - 1) for end in ends)))
    lines = text_table("{:>16} {:6d}" + "{:27.0f} %" * len(WAYS_TO_SHARE), rows, ("length, heads", "tiles", *WAYS_TO_SHARE))
    return "\n".join([f"longer than an even share of the work on {ctas} CTAs:", *lines])


# --- what was recorded ------------------------------------------------------------------------------------------------
def _final(recording: Any, d: int, mask: str) -> list[Any]:
    return sorted((r for r in recording.where(kernel="final") if r.options[:2] == (f"D={d}", mask)), key=lambda r: r.shape[1])


def attention_table(recording: Any) -> str:
    """The last step over all recorded cells: TFLOP/s and, in parentheses, per cent of cuDNN in the same rounds; and their geometric mean."""
    lengths = sorted({r.shape[1] for r in recording.where(kernel="final")})
    rows = [(f"{d:4d} {mask}", *(f"{r.tflops:.0f} ({100 * r.ratio:.1f})" for r in _final(recording, d, mask))) for d in HEAD_SIZES for mask in ("full", "causal")]
    lines = [recording.source, "TFLOP/s (% of cuDNN); length times sequences is 16384, heads times head size 2048",
             *text_table("{:17}" + "{:>16}" * len(lengths), rows, ("head size, mask", *(f"length {length}" for length in lengths)))]
    ratios = [r.ratio for r in recording.where(kernel="final")]
    ahead = sum(ratio >= 1 for ratio in ratios)
    found = summaries.summary(ratios)
    return "\n".join([*lines, f"geometric mean over {found.count} cells: {100 * found.mean:.1f} % of cuDNN; ahead in {ahead}, least {100 * found.least:.1f} %"])


def attention_chart(recording: Any) -> style.Picture:
    """The last step as per cent of cuDNN by length, a line a head size: without a mask (solid) and causal (dashed)."""
    figure, (axis,) = style.new_figure(3.0, width=5.6)
    words = [f"The last step in per cent of cuDNN, {recording.source}"]
    for mask, line in (("full", "-"), ("causal", "--")):
        for index, d in enumerate(HEAD_SIZES):
            records = _final(recording, d, mask)
            x = [r.shape[1] for r in records]
            axis.plot(x, [100 * r.ratio for r in records], line, color=style.PALETTE[index], marker=style.MARKERS[index], linewidth=2, label=f"{d}, {mask}")
            words.append(f"  {mask}, head size {d}: " + ", ".join(f"{r.shape[1]}: {100 * r.ratio:.1f} ({100 * r.ratio_min:.1f} to {100 * r.ratio_max:.1f})"
                                                                  for r in records))
    axis.axhline(100, color=style.INK, linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set_xticks(x, [f"{v // 1024}k" for v in x])
    axis.set(xlabel="length (tokens)", ylabel="speed, % of cuDNN")
    figure.legend(fontsize=9, frameon=False, loc="outside right center", title="head size", handlelength=4)
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words), style.FEWER)


IDEAS = {"one_warpgroup": "scores, softmax, values in a row", "two_consumers": "a second consumer", "pingpong": "turns by named barriers",
         "overlapped": "next scores before this softmax", "persistent": "a CTA draws tile after tile", "final": "what is fastest in this cell"}


def steps_of(recording: Any, mask: str, length: int = 4096, d: int = 128) -> dict[str, Any]:
    """Step -> its record at this cell, in climbing order, for the steps that were recorded; `final` last."""
    shape = (16384 // length, length, 2048 // d, d)
    return {name: r for name in (*STEPS, "final") for r in recording.where(kernel=name, shape=shape) if r.options[:2] == (f"D={d}", mask)}


def attention_steps(recording: Any, length: int = 4096, d: int = 128) -> str:
    """A line a step: TFLOP/s without a mask and causal, each over the step before, and what is new."""
    full, causal = (steps_of(recording, mask, length, d) for mask in ("full", "causal"))
    rows: list[tuple] = []
    for before, name in zip((None, *full), full):
        over = [f"x {r[name].tflops / r[before].tflops:.3f}" if before else "" for r in (full, causal)]
        rows.append((name, full[name].tflops, over[0], causal[name].tflops, over[1], IDEAS[name]))
    head = ("step", "every key", "over before", "causal", "over before", "what is new")
    return "\n".join([f"head size {d}, length {length}, {recording.source}", *text_table("{:14} {:10.0f} {:>12} {:8.0f} {:>12}  {}", rows, head)])


def last_over_first(recording: Any, length: int = 4096, d: int = 128) -> float:
    """How much faster the last step is than one warpgroup, in per cent to one decimal, without a mask."""
    found = steps_of(recording, "full", length, d)
    return round(100 * (found["final"].tflops / found["one_warpgroup"].tflops - 1), 1)


DESIGNS = {"turns between the warpgroups": {"turns": 0}, "a second slot for q": {"q_slots": 1}, "dealt out, not drawn": {"dealt": 0},
           "pairs, beside dealt out": {"cluster": 1}, "CTAs that stay": {"blocks": 132}}
"""What a configuration has -> the option without it (`CTAs that stay` the other way round: blocks 0 is one CTA per tile)."""


def _gains(recording: Any, mask: str, lengths: Sequence[int], without: dict[str, int]) -> list[float]:
    """Rates of configurations over those of the same ones `without`, in the cells that have both."""
    found = []
    for d, choices in CONFIGURATIONS.items():
        names = {choice: name for name, choice in reversed(choices.items())}
        for length in lengths:
            rates = {r.note: r.tflops for r in recording.where(kernel="forward") if r.note and r.options[:2] == (f"D={d}", mask) and r.shape[1] == length}
            for choice, name in names.items():
                other = names.get(replace(choice, **without))
                if other and other != name and name in rates and other in rates:
                    found.append(rates[name] / rates[other])
    return found


def attention_designs(recording: Any) -> str:
    """What each design brings, in per cent: the geometric mean over all recorded pairs of configurations that differ in it alone, by mask, over all
    lengths and at the shortest."""
    every = sorted({r.shape[1] for r in recording.where(kernel="final")})
    rows = []
    for name, without in DESIGNS.items():
        sign = -1 if "blocks" in without else 1
        cells = [_gains(recording, mask, lengths, without) for mask in ("full", "causal") for lengths in (every, every[:1])]
        rows.append((name, *(100 * (summaries.summary(c).mean ** sign - 1) for c in cells), len(cells[0]) + len(cells[2])))
    head = ("what", *(f"{mask}, {which}" for mask in ("full", "causal") for which in ("all lengths", f"length {every[0]}")), "pairs")
    return "\n".join([f"speed with it over speed without it, in %; {recording.source}", *text_table("{:30}" + "{:+22.1f}" * 4 + "{:8d}", rows, head)])
