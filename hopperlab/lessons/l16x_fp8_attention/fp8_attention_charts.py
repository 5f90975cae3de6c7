# SPDX-License-Identifier: Apache-2.0
"""Lesson 16x: what was recorded of attention on e4m3 (the recording `attention_fp8`, passed in): speed beside bf16 and cuDNN, and what sums over keys lose."""
from __future__ import annotations

from typing import Any

from ...measure import summaries
from ...measure.launches.attention_fp8 import HEAD_SIZES
from ...runtime.tables import text_table
from ...show import style


def _cells(recording: Any, kernel: str, d: int, mask: str) -> list[Any]:
    """Records of the chosen configuration, the shortest length first."""
    return sorted((r for r in recording.where(kernel=kernel) if not r.note and r.options[:2] == (f"D={d}", mask)), key=lambda r: r.shape[1])


def _gains(recording: Any) -> dict[tuple[int, str, int], float]:
    """(head size, mask, length) -> e4m3 over our bf16 forward in the same rounds."""
    return {(d, mask, ours.shape[1]): ours.tflops / other.tflops for d in HEAD_SIZES for mask in ("full", "causal")
            for ours, other in zip(_cells(recording, "final", d, mask), _cells(recording, "bf16", d, mask), strict=True)}


def attention_fp8_table(recording: Any) -> str:
    """A line a cell: TFLOP/s of e4m3, of our bf16 forward and of cuDNN's, and e4m3 over both; then the range and the geometric means."""
    rows, ratios = [], []
    for d in HEAD_SIZES:
        for mask in ("full", "causal"):
            for ours, other, peer in zip(*(_cells(recording, kernel, d, mask) for kernel in ("final", "bf16", "cuDNN")), strict=True):
                ratios.append(ours.ratio)
                rows.append((f"{d}, {mask}, {ours.shape[1]}", ours.tflops, other.tflops, peer.tflops, 100 * ours.tflops / other.tflops, 100 * ours.ratio))
    head = ("head size, mask, length", "e4m3", "bf16", "cuDNN", "of bf16", "of cuDNN")
    lines = [recording.source, "TFLOP/s; length times sequences is 16384, heads times head size 2048",
             *text_table("{:>24} {:6.0f} {:6.0f} {:6.0f} {:7.0f} % {:7.0f} %", rows, head)]
    gains, shares = summaries.summary(list(_gains(recording).values())), summaries.summary(ratios)
    return "\n".join([*lines, f"{gains.count} cells: {gains.least:.2f} to {gains.most:.2f} of our bf16, geometric mean {gains.mean:.2f}; of cuDNN's bf16 "
                              f"{shares.mean:.2f}"])


def gain_over_bf16(recording: Any, d: int = 128, mask: str = "full", length: int = 16384) -> float:
    """How much faster e4m3 is than our bf16 forward, in per cent to one decimal."""
    return round(100 * (_gains(recording)[d, mask, length] - 1), 1)


def attention_fp8_chart(recording: Any) -> style.Picture:
    """e4m3 as per cent of our bf16 forward by length, a line a head size: without a mask (solid) and causal (dashed)."""
    figure, (axis,) = style.new_figure(2.8, width=5.6)
    gains = _gains(recording)
    words = [f"Attention on e4m3 in per cent of bf16, {recording.source}"]
    for mask, line in (("full", "-"), ("causal", "--")):
        for index, d in enumerate(HEAD_SIZES):
            found = {length: 100 * gain for (size, masked, length), gain in gains.items() if (size, masked) == (d, mask)}
            axis.plot(list(found), list(found.values()), line, color=style.PALETTE[index], marker=style.MARKERS[index], linewidth=2, label=f"{d}, {mask}")
            words.append(f"  {mask}, head size {d}: " + ", ".join(f"{length}: {value:.0f}" for length, value in found.items()))
    axis.axhline(100, color=style.INK, linewidth=1)
    axis.set_xscale("log", base=2)
    axis.set_xticks(list(found), [f"{length // 1024}k" for length in found])
    axis.set(xlabel="length (tokens)", ylabel="speed, % of bf16")
    figure.legend(fontsize=9, frameon=False, loc="outside right center", title="head size", handlelength=4)
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words))


def attention_fp8_errors(recording: Any) -> str:
    """Mean error of o in per cent of its root mean square, by the signs of v and the number of keys: what rounding p and the sums lose (against the e4m3
    numbers), and all that 8 bits cost (against the numbers before they were quantised), with bf16 beside it."""
    columns = (("promoted", "e4m3"), ("not promoted", "e4m3"), ("promoted", "bfloat16"), ("bf16", "bfloat16"))
    rows = []
    for kind, name in (("normal", "both signs"), ("positive", "one sign")):
        found = {(r.options[0], r.dtype, r.shape[1]): r.value for r in recording.where(kernel="accuracy") if r.options[1] == kind}
        for keys in sorted({keys for _, _, keys in found}):
            rows.append((f"{name}, {keys}", *(100 * found[(*column, keys)] for column in columns)))
    return "\n".join([f"mean error of o, in % of its root mean square; {recording.source}",
                      *text_table("{:20} {:>26} {:>28}", [("", "against the e4m3 numbers", "against the numbers before")]),
                      *text_table("{:20}{:13.2f}{:14.2f}{:15.2f}{:14.2f}", rows, ("v, keys", "promoted", "not promoted", "e4m3", "bf16"))])


def tried(recording: Any, d: int, mask: str = "full", length: int = 16384) -> dict[str, float]:
    """Configuration (note) -> its TFLOP/s in one cell."""
    return {r.note: r.tflops for r in recording.where(kernel="forward_fp8") if r.note and r.options[:2] == (f"D={d}", mask) and r.shape[1] == length}


def promotion_cost(recording: Any, length: int = 16384) -> str:
    """The fastest promoted and the fastest unpromoted configuration that were tried, by head size and mask, with the rate of each and its name."""
    rows = []
    for d in HEAD_SIZES:
        for mask in ("full", "causal"):
            rates = tried(recording, d, mask, length)
            best = [max((rate, note) for note, rate in rates.items() if ("not promoted" in note) == plain) for plain in (False, True)]
            rows.append((f"{d}, {mask}", *(f"{rate:.0f} ({note.removesuffix(', not promoted')})" for rate, note in best)))
    return "\n".join([f"length {length}, TFLOP/s and configuration; {recording.source}",
                      *text_table("{:>16}  {:32} {}", rows, ("head size, mask", "fastest promoted", "fastest not promoted"))])
