# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: k dealt out over CTAs (Stream-K), a fused epilogue, and the ping-pong order by mbarriers, which is the exercise.

The stretches are computed as gemm/stream_k.cu computes them; the runs are of the kernels, edited where a lesson says so.
"""
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...measure.launches import gemm
from ...measure.launches.gemm_configurations import StreamK
from ...measure.launches.edited import changed, operands, product
from ...show import style
from .schedules import run_schedule, turns


@dataclass(frozen=True)
class Stretch:
    """k-blocks first .. first + count - 1 of tile `tile`, by one CTA."""

    cta: int
    tile: int
    first: int
    count: int


def stretches(tiles: int, k_blocks: int, ctas: int) -> list[Stretch]:
    """Who works on what in gemm/stream_k.cu: all k-blocks in a row, tile after tile, cut into `ctas` equal stretches.
    Osama et al., Stream-K (PPoPP 2023)."""
    found, units = [], tiles * k_blocks
    for cta in range(ctas):
        unit, end = units * cta // ctas, units * (cta + 1) // ctas
        while unit < end:
            first = unit % k_blocks
            count = min(k_blocks - first, end - unit)
            found.append(Stretch(cta, unit // k_blocks, first, count))
            unit += count
    return found


def work_map(tiles: int = 5, k_blocks: int = 8, ctas: int = 4) -> style.Picture:
    """Left: a tile a CTA, wave after wave. Right: stream-K. A row a CTA, time to the right in k-blocks, one colour a tile."""
    figure, axes = style.new_figure(1.5 + 0.34 * ctas, 2)
    whole = [Stretch(tile % ctas, tile, 0, k_blocks) for tile in range(tiles)]
    words = [f"{tiles} tiles of {k_blocks} k-blocks on {ctas} CTAs"]
    longest = -(-tiles // ctas) * k_blocks
    for axis, name, parts in ((axes[0], "whole tiles", whole), (axes[1], "stream-K", stretches(tiles, k_blocks, ctas))):
        at = [0] * ctas
        for part in parts:
            colour = style.PALETTE[part.tile % 7]
            axis.barh(part.cta, part.count, left=at[part.cta], height=0.74, color=colour, edgecolor=style.CARD)
            axis.text(at[part.cta] + part.count / 2, part.cta, str(part.tile), ha="center", va="center", fontsize=9, color=style.ink_on(colour))
            at[part.cta] += part.count
        shared = sum(1 for tile in range(tiles) if sum(part.tile == tile for part in parts) > 1)
        words.append(f"  {name}: done after {max(at)} k-blocks; {shared} tiles are shared between CTAs")
        axis.set(xlim=(0, longest), xlabel=f"k-blocks (a number is a tile); {shared} tiles to be added up", yticks=range(ctas),
                 yticklabels=[f"CTA {cta}" for cta in range(ctas)])
        axis.invert_yaxis()
        style.title(axis, f"{name}: {max(at)} k-blocks long")
    return style.Picture(figure, "\n".join(words))


def run_stream_k(m: int = 128, n: int = 640, k: int = 512, ctas: int = 4, landing: str = "lazy") -> tuple[bool, Any]:
    """(right, session) of gemm/stream_k.cu with tiles of 128 x 128 in the emulator."""
    import hopperlab as hl

    a, b, c = operands(m, n, k)
    launch = gemm.stream_k(a, b, c, StreamK(bn=128, stages=4, blocks=ctas), backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        launch()
    return bool((c == product(a, b)).all()), run


BIAS_ARGUMENT = ("int m, int n, int k) {", "int m, int n, int k, const float* bias) {")
BIAS_PLACE = "            #pragma unroll\n            for (int chunk = 0; chunk < BN / 64; chunk++) {"


def run_fused(lines: str, landing: str = "lazy") -> tuple[bool, Any]:
    """(equals max(a b^T + bias, 0) rounded once, session) of gemm/overlapped_store.cu with `lines` of CUDA before its epilogue.

    The lines see d[128], the warpgroup's fp32 sums, col0, n, and `const float* bias`, a number a column.
    """
    import hopperlab as hl

    a, b, c = operands(256, 264, 128)
    bias = np.random.default_rng(13).integers(-9, 10, 264).astype(np.float32)
    launch = gemm.overlapped_store(a, b, c, blocks=2, backend="emulator")
    changes = (BIAS_ARGUMENT, (BIAS_PLACE, lines.rstrip() + "\n" + BIAS_PLACE))
    launch = changed(launch, "gemm/overlapped_store.cu", changes, ("-DSTAGES=3", "-DGROUP=8", "-DC_SLOTS=4"))
    launch = replace(launch, args=(*launch.args, bias))
    with hl.emulate(schedule=landing, hazards="collect") as run:
        launch()
    exact = np.maximum(a.astype(np.float32) @ b.astype(np.float32).T + bias, 0).astype(a.dtype)
    return bool((c == exact).all()), run


def order_changes(count: int, parities: tuple[int, int], tells: str) -> tuple[tuple[str, str], ...]:
    """gemm/pingpong.cu with two mbarriers in place of its named barriers: order[me] expects `count` arrivals, consumer `me` waits for
    parity parities[me] before its first tile, the other before its second, and so on; one thread arrives on order[tells]."""
    first = parities[0] | parities[1] << 1
    made = f"        mbarrier_init(&order[0], {count});\n        mbarrier_init(&order[1], {count});\n"
    place, start = "    mbarrier_t* empty = full + STAGES;\n", "    if (threadIdx.x == 0) {\n"
    stages, tiles = "        for (int s = 0; s < STAGES; s++) {\n", "        for (int index = blockIdx.x + me * gridDim.x;"
    return ((place, f"{place}    mbarrier_t* order = empty + STAGES;\n"),
            (start + stages, start + made + stages),
            (tiles, f"        int turn = {first} >> me & 1;\n{tiles}"),
            ("if (index != blockIdx.x && !BUG_NO_ORDER) bar_sync(1 + me, 256);", "mbarrier_wait_parity(&order[me], turn), turn ^= 1;"),
            ("bar_arrive(BUG_OWN_ORDER ? 1 + me : 2 - me, 256);", f"{{ if (thread == 0) mbarrier_arrive(&order[{tells}]); }}"))


def run_order(count: int, parities: tuple[int, int], tells: str, tiles: int = 4, landing: str = "lazy") -> tuple[bool, Any]:
    """(right, session) of ping-pong with `order_changes` on 2 x tiles / 2 tiles by one CTA."""
    return run_schedule("pingpong", 2, tiles // 2, 128, landing=landing, changes=order_changes(count, parities, tells))


def check_order(count: int | None, parities: tuple[int, int] | None, tells: str | None) -> str:
    """Lesson 13's exercise: the ping-pong order by two mbarriers. count: arrivals each expects; parities: what consumers 1 and 2 wait for
    before their first tile; tells: 'me' or '1 - me', the barrier on which a consumer's thread 0 arrives after its last k-block."""
    if count is None or parities is None or tells is None:
        return "Not answered yet: write all three, then run the cell again."
    tells = "1 - me" if tells.replace(" ", "") == "1-me" else tells
    if tells not in ("me", "1 - me"):
        return f"{tells!r} names no barrier: a consumer tells 'me' or '1 - me'."
    if not isinstance(count, int) or not 1 <= count < 1 << 20:
        return f"An mbarrier expects 1 to {(1 << 20) - 1} arrivals, not {count!r}."
    if len(parities) != 2 or not set(parities) <= {0, 1}:
        return f"A parity is 0 or 1, one for each consumer, not {parities!r}."
    for tiles in (2, 4, 6):
        for landing in ("lazy", "random"):
            right, run = run_order(count, parities, tells, tiles, landing)
            if run.hazards:
                return f"With {tiles} tiles: {run.hazards[0].kind}. {_waiting(run)}"
            if not right:
                return f"With {tiles} tiles the product is wrong."
            found = turns(run)
            if [who for who, _ in found] != [1 + tile % 2 for tile in range(tiles)]:
                return (f"With {tiles} tiles the product is right, and nothing is in order: {len(found)} turns at the tensor core where {tiles} tiles "
                        "should be issued one after the other. Somebody does not wait.")
    return "Right: whatever lands when, each tile's k-blocks are issued together, and the consumers take turns."


def _waiting(run: Any) -> str:
    """Who waits for an order barrier, of a deadlock's report; for another hazard, what it means here."""
    text = str(run.hazards[0])
    lines = [line.strip(" -") for line in text.splitlines() if "arrivals pending" in line]
    if lines:
        return lines[0]
    return "A consumer goes before its turn: its first wait passes at once, and then it is a phase behind on its own barrier."
