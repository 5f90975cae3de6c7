"""Lesson 11: the registers of a block as a budget that roles share: the rule, its picture, what the compiler makes of a choice, and
the launch behind the panel.
"""
from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..hopper import limits
from ..measure.launches_roles import Roles, register_roles
from . import style

NAMES = ("producer", "consumer 1", "consumer 2", "consumer 3")


def registers_at_entry(threads: int) -> int:
    """Most registers a thread can have when `threads` threads of one block share an SM: a multiple of 8, at most 255 (which is
    allotted as 256). CUDA Programming Guide, compute capability 9.0; ptxas allots this with __launch_bounds__(threads, 1)."""
    return min(limits.MAX_REGISTERS_PER_THREAD, limits.REGISTERS_PER_SM // threads // 8 * 8)


@dataclass(frozen=True)
class Budget:
    """Registers a thread of each warpgroup, and of the launch: `entry`. All may hold at most entry x warpgroups."""

    roles: tuple[int, ...]
    entry: int

    @property
    def limit(self) -> int:
        """What the roles' counts may add up to (measured on an H200: no slack)."""
        return -(-self.entry // 8) * 8 * len(self.roles)

    @property
    def problem(self) -> str:
        """Why this budget cannot be asked for; empty when it can."""
        low, high = limits.SETMAXNREG_RANGE
        for count in self.roles:
            if count % 8 or not low <= count <= high:
                return f"setmaxnreg takes multiples of 8 from {low} to {high}, not {count}"
        if sum(self.roles) > self.limit:
            return f"{' + '.join(map(str, self.roles))} = {sum(self.roles)}, and there are {self.limit}: the last setmaxnreg.inc waits for ever"
        return ""


def budget_table(choices: Sequence[Sequence[int]]) -> str:
    """A line a choice of registers (producer first): what they add up to, and whether it works."""
    lines = []
    for roles in choices:
        entry = registers_at_entry(128 * len(roles))
        budget = Budget(tuple(roles), entry)
        verdict = budget.problem or f"works; {budget.limit - sum(roles)} unused"
        lines.append(f"{' / '.join(map(str, roles)):15s} {entry} at entry x {len(roles)} = {budget.limit}: {verdict}")
    return "\n".join(lines)


def budget_chart(choices: Sequence[Sequence[int]], accumulators: int = 0) -> style.Picture:
    """A stacked bar a choice, in registers a thread of each warpgroup, against what the block has. accumulators: of a consumer's
    thread, hatched inside its part; 0 leaves them out."""
    figure, (axis,) = style.new_figure(1.6 + 0.5 * len(choices))
    words, widest = [], 0
    for row, roles in enumerate(choices):
        budget = Budget(tuple(roles), registers_at_entry(128 * len(roles)))
        left = 0
        for part, count in enumerate(roles):
            axis.barh(row, count, left=left, height=0.62, color=style.PALETTE[(1, 0, 4, 2)[part]], edgecolor=style.CARD)
            if part and accumulators:
                axis.barh(row, min(accumulators, count), left=left, height=0.62, facecolor="none", edgecolor=style.CARD, hatch="///", linewidth=0)
            axis.text(left + count / 2, row, str(count), ha="center", va="center", fontsize=9, color=style.INK,
                      bbox={"facecolor": style.CARD, "edgecolor": "none", "pad": 1.5, "alpha": 0.85})
            left += count
        axis.plot([budget.limit] * 2, [row - 0.42, row + 0.42], color=style.VERMILION, linewidth=2.5)
        widest = max(widest, left, budget.limit)
        words.append(f"  {' / '.join(map(str, roles))}: {sum(roles)} of {budget.limit}{' – too many' if budget.problem else ''}")
    axis.set_yticks(range(len(choices)), [" / ".join(map(str, roles)) for roles in choices])
    axis.invert_yaxis()
    axis.set_xlim(0, widest * 1.06)
    axis.set_xlabel("registers a thread, added over the block's warpgroups (red line: what there are)")
    heading = "Registers by role: producer first" + (f"; hatched: {accumulators} accumulators" if accumulators else "")
    style.title(axis, heading)
    return style.Picture(figure, "\n".join([heading, *words]))


def role_build(roles: Roles) -> str:
    """What the compiler makes of a choice: registers at entry, accumulators, loads and stores of spilled registers in the machine
    code, and ptxas's notes."""
    from ..runtime.library import load_kernel
    from ..runtime.sass import sass

    with warnings.catch_warnings():                             # the notes are in the answer
        warnings.simplefilter("ignore")
        kernel = load_kernel("registers/roles.cu", "gemm", roles.options, strict=False, backend="emulator")
    spills = sass(kernel).counts(None).get("spill", 0)
    notes = sorted({note.code for note in kernel.module.ptxas_info.notes})
    asked = f"{roles.producer}/{roles.consumer}" if roles.consumer else "as at entry"
    return (f"tile {roles.rows} x {roles.bn}, registers {asked}: {roles.accumulators} accumulators, {spills} spill instructions, "
            f"{'notes ' + ', '.join(notes) if notes else 'no notes'}")


def _run(roles: Roles, schedule: str = "lazy"):
    """(right, session) of a product of one tile and three k-blocks in the emulator."""
    import hopperlab as hl
    from ml_dtypes import bfloat16

    random = np.random.default_rng(roles.rows + roles.bn)
    a, b = (random.integers(-2, 3, (rows, 192)).astype(bfloat16) for rows in (roles.rows, roles.bn))
    c = np.zeros((roles.rows, roles.bn), bfloat16)
    launch = register_roles(a, b, c, roles, backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        launch()
    exact = (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)
    return bool((c == exact).all()), run


def launch_roles(tile: str, consumers: int, producer: int, consumer: int) -> style.Picture:
    """The panel: run one tile with these registers in the emulator. tile: rows a consumer x columns, such as '64x256'. Raises
    ValueError for a count setmaxnreg does not take, NoteError when ptxas cannot hold the tile in them."""
    low, high = limits.SETMAXNREG_RANGE
    for count in (producer, consumer):
        if count % 8 or not low <= count <= high:
            raise ValueError(f"setmaxnreg takes multiples of 8 from {low} to {high}, not {count}")
    rows, columns = (int(part) for part in tile.split("x"))
    roles = Roles(consumers, rows // 64, columns, 2, producer, consumer)
    right, run = _run(roles)
    chart = budget_chart([(producer, *[consumer] * consumers)], roles.accumulators)
    found = run.hazards[0].kind if run.hazards else "no hazard"
    style.title(chart.figure.axes[0], f"Tile {roles.rows} x {columns}: result {'right' if right else 'WRONG'}; {found}; "
                                      f"most registers held by a thread: {run.counters['peak_registers']}")
    said = f"\n  {run.hazards[0].message.splitlines()[0]}" if run.hazards else ""
    return style.Picture(chart.figure, f"Tile {roles.rows} x {columns}, {producer}/{consumer}: {'right' if right else 'WRONG'}; {found}{said}\n{chart.text}")


def check_registers(producer: int | None, consumer: int | None) -> str:
    """Lesson 11's exercise: registers for a tile of 384 x 128 with two consumers (192 accumulators a thread)."""
    if producer is None or consumer is None:
        return "Not answered yet: write both counts, then run the cell again."
    import hopperlab as hl

    budget = Budget((producer, consumer, consumer), registers_at_entry(384))
    if budget.problem:
        return f"Not possible: {budget.problem}."
    roles = Roles(2, 3, 128, 2, producer, consumer)
    if producer > budget.entry or consumer < budget.entry:
        return f"A producer gives registers back and a consumer takes some: {producer} must be at most {budget.entry}, {consumer} at least."
    try:
        right, run = _run(roles)
    except hl.CompileError as error:
        return f"The budget holds, and the tile does not: ptxas says {str(error).split(':')[1].strip()} (too few registers for 192 accumulators)."
    if run.hazards or not right:
        return f"Not right: {run.hazards[0].kind if run.hazards else 'the product is wrong'}."
    return f"Right: {producer} + 2 x {consumer} = {sum(budget.roles)} of {budget.limit}, and the tile runs without a spill."


def roles_table(recording: Any) -> str:
    """The recording `roles`: each tile with and without setmaxnreg, as rate, share of cuBLAS and spilled bytes a thread."""
    lines = [recording.source, f"{'tile and registers':32s} TFLOP/s  of cuBLAS  spilled bytes"]
    for record in recording.where(kernel="register_roles"):
        lines.append(f"{record.note:32s} {record.tflops:7.0f}  {record.ratio:9.2f}  {record.spills or 0:13d}")
    return "\n".join(lines)
