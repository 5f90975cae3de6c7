# SPDX-License-Identifier: Apache-2.0
"""Lesson 16b: what the backward pass costs in products, exponentials and registers, who adds to dq when, and the recording `backward` as tables and pictures.

What takes a recording takes None too, where this copy has none, and says so.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import measure
from ...measure.launches import attention_backward as backward
from ...runtime.tables import text_table
from ...show import charts, recorded, style
from ..l16_attention.attention_charts import EXPONENTIALS, MULTIPLY_ADDS


class Note(str):
    """A sentence in place of a picture: a notebook shows it without quotes."""

    def __repr__(self) -> str:
        return str(self)


NONE = Note("Nothing is recorded for this yet: `hopperlab bench backward --out hopperlab/recordings` on a Hopper GPU measures it.")


def if_recorded() -> Any:
    """The recording `backward`, or None where this copy has none."""
    return measure.load("backward") if "backward" in measure.recordings.names() else None


# --- arithmetic --------------------------------------------------------------------------------------------------------------------------------------
def balance_table_backward(sizes: Sequence[int] = backward.HEAD_SIZES, queries: int = 128, keys: int = 128) -> str:
    """A line a head size: cycles of an SM for the products and the exponentials of so many queries and keys, forward and backward."""
    rows = [(d, *(n * queries * keys * d / MULTIPLY_ADDS for n in (2, 5)), queries * keys / EXPONENTIALS) for d in sizes]
    head = ("head size", "2 products, forward", "5 products, backward", "exponentials, each")
    return "\n".join([f"{queries} queries x {keys} keys on one SM, in cycles", *text_table("{:9d} {:20.0f} {:21.0f} {:19.0f}", rows, head)])


def registers_table(shapes: Sequence[tuple[int, int, int]] = ((64, 128, 2), (128, 64, 2), (128, 128, 2), (128, 64, 3))) -> str:
    """What a consumer's thread holds at the widest moments, by head size, queries of a block and consumers, and what a thread may have: with p in fp32 while ds is made
    (dv on its way), and while dq is made. dq of a block is shared by the consumers."""
    rows = []
    for d, queries, consumers in shapes:
        sums, scores, half, dq = d, queries // 2, queries // 4, queries * d // (128 * consumers)
        rows.append((f"{d:9} {queries:7} {consumers:9}", sums, sums + 2 * scores + half, sums + scores + half + half, sums + 2 * half + dq,
                     240 if consumers == 2 else 160))
    head = ("head size queries consumers", "dk, dv", "+ s, dp, p as bf16", "+ dp, p, ds as bf16", "+ p, ds as bf16, dq", "may have")
    return "\n".join(text_table("{:27} {:>7} {:>19} {:>20} {:>20} {:>9}", rows, head))


def order(blocks: int, tiles: int, bn: int, bm: int, causal: bool, dq: str) -> list[list[tuple[int, int]]]:
    """For each block of keys the (step, block of queries) in which its CTA visits them; with dq 'ordered' a step is the earliest in which all before it have added,
    where every CTA has begun at step 0."""
    visits, done = [], {}
    numbers = range(blocks - 1, -1, -1) if causal else range(blocks)
    for number in numbers:
        first = number * bn // bm if causal else 0
        turn = first if causal or dq == "ordered" else number * tiles // blocks
        at, row = 0, []
        for i in range(tiles - first):
            m = turn + i if turn + i < tiles else turn + i - (tiles - first)
            at = max(at, done.get(m, 0)) if dq == "ordered" else at
            row.append((at, m))
            at += 1
            if dq == "ordered":
                done[m] = at
        visits.append((number, row))
    return [row for _, row in sorted(visits)]


def adds_map(length: int = 1024, d: int = 64, causal: bool = False, dq: str = "ordered") -> style.Picture:
    """Which block of keys adds to which block of queries in which step, as a table of numbers: a row a block of keys, a column a block of queries."""
    from matplotlib.patches import Rectangle

    choice = backward.Backward(dq=dq)
    bn, bm = choice.bn, choice.bm(d)
    blocks, tiles = -(-length // bn), -(-length // bm)
    visits = order(blocks, tiles, bn, bm, causal, dq)
    figure, (axis,) = style.new_figure(0.9 + 0.32 * blocks)
    last = max(step for row in visits for step, _ in row)
    words = [f"blocks of {bn} keys down, of {bm} queries across; the step in which one adds to the other"]
    for number, row in enumerate(visits):
        for step, m in row:
            axis.text(m, number, str(step), ha="center", va="center", fontsize=9, color=style.INK)
            axis.add_patch(Rectangle((m - 0.46, number - 0.46), 0.92, 0.92, facecolor=style.SKY, alpha=0.1 + 0.6 * step / max(1, last), edgecolor="none", zorder=0))
        at = {m: step for step, m in row}
        words.append(f"  keys {number}: " + " ".join(f"{at[m]:2}" if m in at else " ." for m in range(tiles)))
    axis.set(xlim=(-0.6, tiles - 0.4), ylim=(blocks - 0.4, -0.6), xlabel=f"block of {bm} queries", ylabel=f"block of {bn} keys", xticks=range(tiles),
             yticks=range(blocks))
    style.title(axis, f"dq {dq}{', causal' if causal else ''}: the step in which each CTA adds")
    return style.Picture(figure, "\n".join(words))


# --- recorded ----------------------------------------------------------------------------------------------------------------------------------------
def _mask(record: Any) -> str:
    return record.options[1]


def steps_table(recording: Any, length: int = 4096) -> str:
    """A line a step at one length: TFLOP/s and cuDNN's share, head sizes and masks across."""
    if recording is None:
        return NONE
    cells = [(d, mask) for d in backward.HEAD_SIZES for mask in ("full", "causal")]
    rows = []
    for step in [*(name for name in backward.STEPS if name != "ordered"), "final", "ordered", "cuDNN"]:
        found = [[r for r in recording if r.kernel == step and not r.note and r.options[:2] == (f"D={d}", mask) and r.shape[1] == length] for d, mask in cells]
        rows.append((step, *(f"{one[0].tflops:.0f} ({one[0].ratio:.2f})" if one else "-" for one in found)))
    head = (f"length {length}", *(f"{d}, {mask}" for d, mask in cells))
    return "\n".join([f"TFLOP/s (beside cuDNN); {recording.source}", *text_table("{:16}" + "{:>15}" * 4, rows, head)])


def backward_table(recording: Any) -> str:
    """A line a cell: TFLOP/s of `final`, of `ordered` and of every peer, and both ratios to cuDNN."""
    if recording is None:
        return NONE
    rows = []
    for last in recording.where(kernel="final"):
        same = {r.kernel: r for r in recording if not r.note and r.options[:2] == last.options[:2] and r.shape == last.shape and r.tflops}
        told = lambda name, same=same: f"{same[name].tflops:.0f}" if name in same else "-"
        rows.append((last.options[0][2:], _mask(last), last.shape[1], told("final"), told("ordered"), told("cuDNN"), told("FlashAttention 2"),
                     told("FlashAttention 3"), f"{last.ratio:.3f}",
                     f"{same['ordered'].ratio:.3f}" if "ordered" in same else "-"))
    head = ("head", "mask", "length", "final", "ordered", "cuDNN", "FA 2", "FA 3", "final/cuDNN", "ordered/cuDNN")
    return "\n".join([f"TFLOP/s; {recording.source}", *text_table("{:>4} {:>7} {:>7} {:>6} {:>8} {:>6} {:>6} {:>6} {:>12} {:>14}", rows, head)])


def backward_chart(recording: Any, d: int = 128) -> style.Picture | Note:
    """TFLOP/s by length, causal, of one head size."""
    if recording is None:
        return NONE
    mine = [r for r in recording if not r.note and r.tflops and r.options[:2] == (f"D={d}", "causal") and r.kernel in ("final", "ordered", "cuDNN",
            "FlashAttention 2", "FlashAttention 3")]
    lengths = sorted({r.shape[1] for r in mine})
    series = {name: [next((r.tflops for r in mine if r.kernel == name and r.shape[1] == length), None) for length in lengths]
              for name in dict.fromkeys(r.kernel for r in mine)}
    return charts.lines(lengths, series, "queries and keys", "TFLOP/s", f"Backward, causal, heads of {d}", recording.source)


def parts_table(recording: Any) -> str:
    """Microseconds of each of the three kernels, where the steps are recorded."""
    if recording is None:
        return NONE
    rows = [(r.options[0][2:], _mask(r), r.shape[1], r.options[2], f"{1e3 * r.ms:.1f}") for r in recording.where(kernel="part")]
    return "\n".join([recording.source, *text_table("{:>4} {:>7} {:>7}  {:26} {:>9}", rows, ("head", "mask", "length", "kernel", "us"))])


def accuracy_table(recording: Any) -> str:
    """Mean and worst error against float64, a line a result and whose it is."""
    if recording is None:
        return NONE
    rows = [(r.options[0][2:], r.options[3], r.options[2], f"{r.value:.2e}", f"{r.value_max:.2e}") for r in recording.where(kernel="accuracy")]
    return "\n".join([f"errors as a share of the results' root mean square; {recording.source}", *text_table("{:>4} {:4} {:18} {:>12} {:>12}", rows,
            ("head", "of", "by", "mean", "worst"))])


def bits_table(recording: Any) -> str:
    """In how many runs a bit was another than in the first."""
    if recording is None:
        return NONE
    rows = [(r.options[0][2:], recorded.option(r, "DQ"), f"{r.value:.0f} {r.unit}") for r in recording.where(kernel="bits")]
    return "\n".join([recording.source, *text_table("{:>4} {:10} {:>24}", rows, ("head", "dq", "from the first run"))])


def times_as_long(recording: Any, forward: Any, d: int = 128, length: int = 4096) -> float:
    """How many times the forward pass's time the backward pass takes, of one cell without a mask, from both recordings' rates. Raises LookupError
    where one is missing."""
    rates = [next((r.tflops for r in one if r.kernel == "final" and r.options[:2] == (f"D={d}", "full") and r.shape[1] == length), None) for one in (recording, forward)]
    if None in rates:
        raise LookupError(f"no `final` of heads of {d} at length {length}")
    return round(2.5 * rates[1] / rates[0], 2)
