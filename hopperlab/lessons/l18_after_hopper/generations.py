# SPDX-License-Identifier: Apache-2.0
"""Lesson 18: which instruction exists on which architecture, asked of the assembler itself, and what a tile product costs to issue.

No GPU takes part: NVRTC assembles for architectures that this machine does not have. A new instruction is a row of INSTRUCTIONS.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...runtime.compile.assembles import assembles
from ...runtime.tables import text_table
from ...show import style

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_90a", "sm_100a")
NAMES = {"sm_75": "Turing", "sm_80": "Ampere", "sm_90": "Hopper", "sm_90a": "Hopper", "sm_100a": "Blackwell"}


@dataclass(frozen=True)
class Instruction:
    """A mechanism: the lesson that has it (0: none), one PTX statement of it (operands %0: a 32-bit register, %1: a 64-bit one), and the
    architectures of ARCHITECTURES whose assembler takes it (what a machine without NVRTC shows)."""

    lesson: int
    ptx: str
    known: tuple[str, ...]


SINCE_AMPERE, SINCE_HOPPER, BLACKWELL = ARCHITECTURES[1:], ARCHITECTURES[2:], ARCHITECTURES[4:]
LOAD = "cp.async.bulk.tensor.2d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [%0], [%1, {{{at}}}], [%0];"
INSTRUCTIONS: Mapping[str, Instruction] = {
    "ldmatrix": Instruction(2, "{.reg .b32 r; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {r}, [%0];}", ARCHITECTURES),
    "mma.sync, bf16": Instruction(2, "{.reg .f32 d; mov.f32 d, 0f00000000; mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                                     "{d,d,d,d}, {%0,%0,%0,%0}, {%0,%0}, {d,d,d,d};}", SINCE_AMPERE),
    "cp.async": Instruction(3, "cp.async.ca.shared.global [%0], [%1], 16;", SINCE_AMPERE),
    "mbarrier.init, arrive": Instruction(4, "mbarrier.init.shared.b64 [%0], 1;", SINCE_AMPERE),
    "mbarrier.try_wait": Instruction(4, "{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%0], 0;}", SINCE_HOPPER),
    "cp.async.bulk": Instruction(5, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%0];", SINCE_HOPPER),
    "TMA, tiles": Instruction(5, LOAD.format(mode="tile", at="%0, %0"), SINCE_HOPPER),
    "clusters": Instruction(12, "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", SINCE_HOPPER),
    "wgmma": Instruction(8, "wgmma.fence.sync.aligned;", ("sm_90a",)),
    "setmaxnreg": Instruction(11, "setmaxnreg.inc.sync.aligned.u32 96;", ("sm_90a", "sm_100a")),
    "TMA, gather4": Instruction(0, LOAD.format(mode="tile::gather4", at="%0, %0, %0, %0, %0"), BLACKWELL),
    "tcgen05.alloc": Instruction(0, "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;", BLACKWELL),
    "tcgen05.mma": Instruction(0, "{.reg .pred p; setp.ne.u32 p, %0, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %0, p;}", BLACKWELL),
    "tcgen05.mma, CTA pair": Instruction(0, "{.reg .pred p; setp.ne.u32 p, %0, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %1, %0, p;}", BLACKWELL),
    "cluster launch control": Instruction(0, "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%0];",
                                          BLACKWELL),
}


def accepted(names: Sequence[str] | None = None) -> dict[str, tuple[str, ...]]:
    """Instruction -> the architectures whose assembler takes it: asked now, or as known where there is no NVRTC."""
    from ...runtime.errors import ToolchainError

    found = {}
    for name in names or INSTRUCTIONS:
        row = INSTRUCTIONS[name]
        try:
            found[name] = tuple(a for a in ARCHITECTURES if assembles(row.ptx, a))
        except ToolchainError:
            found[name] = row.known
    return found


def generations_table(found: Mapping[str, Sequence[str]]) -> str:
    """`accepted` as text: a row an instruction, a column an architecture."""
    rows: list[tuple[str, ...]] = [("", "", *(NAMES[a] for a in ARCHITECTURES))]
    for name, architectures in found.items():
        lesson = INSTRUCTIONS[name].lesson
        rows.append((name, f"{lesson:02d}" if lesson else "–", *("yes" if a in architectures else "–" for a in ARCHITECTURES)))
    return "\n".join(text_table("{:26}{:>7}" + "{:>10}" * len(ARCHITECTURES), rows, ("", "lesson", *ARCHITECTURES)))


@dataclass(frozen=True)
class Issue:
    """How one generation multiplies: its largest bf16 or fp16 instruction (m, n, k), and how many warps issue each (0: one thread)."""

    name: str
    shape: tuple[int, int, int]
    warps: int
    accumulators: str


ISSUES = (
    Issue("Volta, mma.m8n8k4 (four at once)", (16, 16, 4), 1, "registers of a warp"),
    Issue("Ampere, mma.m16n8k16", (16, 8, 16), 1, "registers of a warp"),
    Issue("Hopper, wgmma.m64n256k16", (64, 256, 16), 4, "registers of four warps"),
    Issue("Blackwell, tcgen05.mma 128x256x16", (128, 256, 16), 0, "tensor memory"),
    Issue("Blackwell, a CTA pair, 256x256x16", (256, 256, 16), 0, "tensor memory of two SMs"),
)


def issued(tile: tuple[int, int, int] = (256, 256, 64)) -> dict[str, int]:
    """Instructions that warps (or, on Blackwell, one thread) issue to multiply a tile of m x n x k, by generation. Raises ValueError when
    the tile is no multiple of every instruction's shape."""
    counts = {}
    for issue in ISSUES:
        if any(whole % part for whole, part in zip(tile, issue.shape, strict=True)):
            raise ValueError(f"the tile {tile} is no multiple of {issue.shape} ({issue.name})")
        steps = [whole // part for whole, part in zip(tile, issue.shape, strict=True)]
        counts[issue.name] = steps[0] * steps[1] * steps[2] * max(1, issue.warps)
    return counts


def issued_chart(tile: tuple[int, int, int] = (256, 256, 64)) -> style.Picture:
    """`issued` as bars on a logarithmic axis, with the place of the accumulators."""
    counts = issued(tile)
    figure, (axis,) = style.new_figure(0.9 + 0.5 * len(counts))
    colours = [style.PALETTE[(0, 0, 2, 1, 1)[i]] for i in range(len(counts))]
    axis.barh(range(len(counts)), list(counts.values()), color=colours, height=0.62)
    axis.set_yticks(range(len(counts)), list(counts))
    axis.invert_yaxis()
    axis.set_xscale("log")
    axis.set_xlim(1, max(counts.values()) * 4000)                  # room for the words beside the longest bar
    for row, (issue, count) in enumerate(zip(ISSUES, counts.values(), strict=True)):
        axis.text(count * 1.12, row, f"{count}; accumulators in {issue.accumulators}", va="center", fontsize=9, color=style.INK)
    axis.set_xlabel("instructions issued for the tile (logarithmic)")
    heading = f"What threads issue for {tile[0]} x {tile[1]} x {tile[2]} (16-bit numbers)"
    style.title(axis, heading)
    words = [heading] + [f"  {issue.name}: {count}; accumulators in {issue.accumulators}" for issue, count in zip(ISSUES, counts.values(), strict=True)]
    return style.Picture(figure, "\n".join(words))
