# SPDX-License-Identifier: Apache-2.0
"""Lesson 11: the registers of a block as a budget that roles share: tables and picture of choices, what the compiler makes of one, the launch
behind the panel, and the check of the small exercise.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...emulator.hazards.causes import causes_first
from ...hopper import limits
from ...measure.launches.roles import Roles, register_roles
from ...runtime.errors import ToolchainError
from ...runtime.tables import text_table
from ...show import style
from ...show.hazard_words import explain
from ..given import told, whole
from ..l10_warp_specialization.register_budget import Budget, registers_at_entry
from ..machine_facts import of_kernel

FILE = "registers/roles.cu"
BUILDS = (Roles(producer=0, consumer=0), Roles(), Roles(blocks=3, bn=128, producer=0, consumer=0), Roles(blocks=3, bn=128, producer=120, consumer=192),
          Roles(blocks=3, bn=128))
"""The choices that the lesson compiles: two tiles, without setmaxnreg and with it."""


def budget_table(choices: Sequence[Sequence[int]]) -> str:
    """A line a choice of registers (producer first): what a thread is handed at entry, what that adds up to, and whether the choice works."""
    lines = []
    for roles in choices:
        entry = registers_at_entry(128 * len(roles))
        budget = Budget(tuple(roles), entry)
        verdict = budget.problem or f"works; {budget.limit - sum(roles)} unused"
        lines.append(f"{' / '.join(map(str, roles)):15s} {budget.limit // len(roles)} at entry x {len(roles)} = {budget.limit}: {verdict}")
    return "\n".join(lines)


def budget_chart(choices: Sequence[Sequence[int]], accumulators: int = 0, entry: int | None = None) -> style.Picture:
    """A stacked bar a choice, in registers per thread of each warpgroup, against what the block has. accumulators: of a consumer's
    thread, hatched inside its part; 0 leaves them out. entry: registers per thread has at entry; None: the most it can have."""
    figure, (axis,) = style.new_figure(1.6 + 0.5 * len(choices))
    words, widest = [], 0
    for row, roles in enumerate(choices):
        budget = Budget(tuple(roles), entry or registers_at_entry(128 * len(roles)))
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
    axis.set_xlabel("registers per thread, added over the block's warpgroups (red line: what there are)")
    heading = "Registers by role: producer first" + (f"; hatched: {accumulators} accumulators" if accumulators else "")
    style.title(axis, heading)
    return style.Picture(figure, "\n".join([heading, *words]))


def role_build(roles: Roles) -> str:
    """What the compiler makes of a choice: accumulators, loads and stores of spilled registers in the machine code, and ptxas's notes; what is not known
    here, because nothing of NVIDIA's is installed, and not kept either, it says."""
    asked = f"{roles.producer}/{roles.consumer}" if roles.consumer else "as at entry"
    head = f"tile {roles.rows} x {roles.bn}, registers {asked}: {roles.accumulators} accumulators, "
    try:
        found, kept = of_kernel(FILE, "gemm", roles.options)
    except ToolchainError as problem:
        return f"{head}the rest is not known here: {problem}"
    notes = ", ".join(found["notes"])
    return f"{head}{found['spill']} spill instructions, {f'notes {notes}' if notes else 'no notes'}" + (f" ({kept})" if kept else "")


def budget_changes(roles: Roles) -> int:
    """How often setmaxnreg stands in the machine code. Raises ToolchainError where nobody knows."""
    return int(of_kernel(FILE, "gemm", roles.options)[0]["register budget"])


def run_tile(roles: Roles, schedule: str = "lazy") -> tuple[bool, Any, int]:
    """(right, session, registers per thread has at entry) of a product of one tile and three k-blocks in the emulator. With setmaxnreg ptxas gives a kernel
    as many at entry as the largest count it names, at most what its launch bounds allow."""
    from ml_dtypes import bfloat16

    import hopperlab as hl

    random = np.random.default_rng(roles.rows + roles.bn)
    a, b = (random.integers(-2, 3, (rows, 192)).astype(bfloat16) for rows in (roles.rows, roles.bn))
    c = np.zeros((roles.rows, roles.bn), bfloat16)
    launch = register_roles(a, b, c, roles, backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        launch()
    exact = (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)
    return bool((c == exact).all()), run, launch.kernel.use.registers


def launch_roles(tile: str, consumers: int, producer: int, consumer: int) -> style.Picture:
    """The panel: run one tile with these registers in the emulator. tile: rows per consumer x columns, such as '64x256'. Raises
    ValueError for a count that setmaxnreg does not take, NoteError when ptxas cannot hold the tile in them."""
    low, high = limits.SETMAXNREG_RANGE
    for count in (producer, consumer):
        if count % 8 or not low <= count <= high:
            raise ValueError(f"setmaxnreg takes multiples of 8 from {low} to {high}, not {count}")
    rows, columns = (int(part) for part in tile.split("x"))
    roles = Roles(consumers, rows // 64, columns, 2, producer, consumer)
    right, run, entry = run_tile(roles)
    chart = budget_chart([(producer, *[consumer] * consumers)], roles.accumulators, entry)
    shown = causes_first(run.hazards)[:1]
    found = shown[0].kind if shown else "no hazard"
    style.title(chart.figure.axes[0], f"Tile {roles.rows} x {columns}: result {'right' if right else 'WRONG'}; {found}; "
                                      f"most registers held by a thread: {run.counters['peak_registers']}")
    head = f"Tile {roles.rows} x {columns}, {producer}/{consumer}: {'right' if right else 'WRONG'}; {found}"
    return style.Picture(chart.figure, "\n".join([head, *map(explain, shown), chart.text]))


@told
def check_registers(producer: int | None, consumer: int | None) -> str:
    """Lesson 11's exercise: registers for a tile of 384 x 128 with two consumers (192 accumulators per thread)."""
    if producer is None or consumer is None:
        return "Not answered yet: write both counts, then run the cell again."
    import hopperlab as hl

    producer, consumer = whole("producer", producer), whole("consumer", consumer)
    budget = Budget((producer, consumer, consumer), registers_at_entry(384))
    if budget.problem:
        return f"Not possible: {budget.problem}."
    roles = Roles(2, 3, 128, 2, producer, consumer)
    if producer > budget.entry or consumer < budget.entry:
        return f"A producer gives registers back and a consumer takes some: {producer} must be at most {budget.entry}, {consumer} at least."
    try:
        right, run, _ = run_tile(roles)
    except hl.CompileError as error:
        return f"The budget holds, and the tile does not: ptxas says {str(error).split(':')[1].strip()} (too few registers for 192 accumulators)."
    if run.hazards or not right:
        return f"Not right: {explain(causes_first(run.hazards)[0]) if run.hazards else 'the product is wrong.'}"
    return f"Right: {producer} + 2 x {consumer} = {sum(budget.roles)} of {budget.limit}, and the tile runs without a spill."


def roles_table(recording: Any) -> str:
    """The recording `roles`: each tile with and without setmaxnreg, as rate, share of cuBLAS and spilled bytes per thread."""
    rows = [(record.note, record.tflops, record.ratio, record.spills or 0) for record in recording.where(kernel="register_roles")]
    return "\n".join([recording.source, *text_table("{:32} {:7.0f}  {:9.2f}  {:13d}", rows, ("tile and registers", "TFLOP/s", "of cuBLAS", "spilled bytes"))])
