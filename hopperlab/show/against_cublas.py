"""Lesson 14: the recorded ladder as gains over the step that each builds on, the last kernel beside cuBLAS by shape, and power.

Everything is read from the recording `ladder`; a notebook passes it in.
"""
from __future__ import annotations

from typing import Any

from ..measure.story import Story
from . import style

# What each step changed: from its header. A branch is a step that the last one does not stand on.
BUILDS_ON = {"register_double_buffer": "shared_tile", "mma_multistage": "register_double_buffer", "tma_mma": "mma_multistage", "tma_wgmma_2": "tma_mma",
             "tma_wgmma": "tma_wgmma_2", "warp_specialized": "tma_wgmma", "two_consumers_128x256": "warp_specialized",
             "cluster_multicast": "two_consumers_128x256", "persistent": "cluster_multicast", "pingpong": "persistent", "overlapped_store": "persistent",
             "stream_k": "persistent", "split_k": "persistent", "final": "overlapped_store"}
BRANCHES = ("pingpong", "stream_k", "split_k")


def gains(told: Story) -> dict[str, float]:
    """Step -> its speed over the speed of the step that it builds on, for the steps of which both were recorded."""
    rate = {step.name: step.tflops for step in told.steps}
    return {name: rate[name] / rate[before] for name, before in BUILDS_ON.items() if name in rate and before in rate}


def gains_table(told: Story) -> str:
    """A line a step: its speed over the step that it builds on, and what is new in it."""
    ideas = {step.name: step.idea for step in told.steps}
    lines = [f"{told.size}³, {told.source}", f"{'step':24s} {'speed':>7s} over {'':22s} what is new"]
    for name, gain in gains(told).items():
        branch = " (a branch)" if name in BRANCHES else ""
        lines.append(f"{name:24s} {f'x {gain:.2f}':>7s} {BUILDS_ON[name] + branch:27s} {ideas[name]}")
    return "\n".join(lines)


def _as_launched(recording: Any) -> list[Any]:
    """The last step's records without a note: one a shape, beside the better cuBLAS entry point in the same rounds."""
    return sorted((r for r in recording if r.kernel == "final" and not r.note), key=lambda r: (len(set(r.shape)) > 1, r.shape[0] * r.shape[1] * r.shape[2]))


def shapes_chart(recording: Any, peer: str = "cuBLAS", span: tuple[int, int] | None = (84, 118)) -> style.Picture:
    """The last kernel's share of its peer's speed by shape: the median of the rounds, and a bar from the lowest round to the highest. span: of the axis, in per
    cent (None: what the rounds need)."""
    records = _as_launched(recording)
    span = span or (int(100 * min(r.ratio_min for r in records)) - 1, int(100 * max(r.ratio_max for r in records)) + 2)
    figure, (axis,) = style.new_figure(1.2 + 0.34 * len(records))
    words = [f"The last kernel over {peer}, by shape, {recording.source}"]
    for row, record in enumerate(records):
        colour = style.BLUE if record.ratio >= 1 else style.VERMILION
        axis.plot([100 * record.ratio_min, 100 * record.ratio_max], [row, row], color=colour, linewidth=3, alpha=0.45, solid_capstyle="butt")
        axis.plot([100 * record.ratio], [row], "o", color=colour, markersize=7)
        axis.text(span[1] + 1, row, f"{100 * record.ratio:.1f} %   {record.tflops:.0f} TFLOP/s", va="center", ha="left", fontsize=9, color=style.INK)
        words.append(f"  {_x(record.shape)}: {100 * record.ratio:.1f} % ({100 * record.ratio_min:.1f} to {100 * record.ratio_max:.1f}), "
                     f"{record.tflops:.0f} and {record.peer_value:.0f} TFLOP/s")
    axis.axvline(100, color=style.INK, linewidth=1.2, linestyle="--")
    axis.set_yticks(range(len(records)), [_x(record.shape) for record in records])
    axis.invert_yaxis()
    axis.set_xlim(*span)
    axis.grid(True, axis="x", color=style.EMPTY)
    axis.set_xlabel(f"speed, % of {peer} in the same round (dot: median; bar: lowest to highest round)")
    style.title(axis, "The last kernel by shape")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words))


def _x(shape: Any) -> str:
    return " x ".join(map(str, shape))


def power_table(recording: Any) -> str:
    """Launches without a pause, in turns with cuBLAS: rate, watts, clock under load, rate a watt; and the clocks and power of the board."""
    header = recording.header
    lines = [recording.source, f"the board: at most {header['clocks']['sm_max_mhz']:.0f} MHz and {header['power_limit_watts']:.0f} W",
             f"{'without a pause':22s} {'who':14s} {'TFLOP/s':>8s} {'W':>6s} {'MHz':>6s} {'TFLOP/s a watt':>15s}"]
    for record in recording.where(kernel="sustained"):
        lines.append(f"{_x(record.shape):22s} {record.options[0]:14s} {record.tflops:8.0f} {record.watts:6.0f} {record.clock_mhz:6.0f} "
                     f"{record.tflops / record.watts:15.2f}")
    return "\n".join(lines)


def branches_table(recording: Any) -> str:
    """Persistent, its two successors with another schedule or another way of C, and the split ones, at every recorded cube, as shares of cuBLAS."""
    names = ("cluster_multicast", "persistent", "pingpong", "overlapped_store", "stream_k", "split_k")
    sizes = sorted({r.shape[0] for r in recording if r.kernel == "persistent" and not r.note})
    lines = [recording.source, f"{'% of cuBLAS (lowest to highest round)':38s}" + "".join(f"{f'{size}³':>26s}" for size in sizes)]
    for name in names:
        cells = []
        for size in sizes:
            record = recording.one(kernel=name, shape=(size, size, size), note="")
            cells.append(f"{100 * record.ratio:.1f} ({100 * record.ratio_min:.1f} to {100 * record.ratio_max:.1f})")
        lines.append(f"{name:38s}" + "".join(f"{cell:>26s}" for cell in cells))
    return "\n".join(lines)
