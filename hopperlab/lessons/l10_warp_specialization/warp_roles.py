# SPDX-License-Identifier: Apache-2.0
"""Lesson 10: roles against none on the same tiles, where each warp's time went, and the launch and the check behind panel and exercise.

Measured rates and timelines come from recordings; the panel and the exercise run kernels in the emulator.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...emulator.hazards.causes import causes_first
from ...measure.launches import launch as launches
from ...measure.launches import variants
from ...runtime.tables import text_table
from ...show import charts, style
from ...show.hazard_words import explain
from ...show.rings import ring_timeline
from ..given import told, wholes
from ..l09_multistage.overlap import SCHEDULES, _numbers, _options, run_product
from .register_budget import Budget, registers_at_entry

NONE, WARP, GROUP = "no roles (lesson 09)", "one producer warp", "a producer warpgroup"
ROLES = {NONE: (variants.multistage, {}), WARP: (variants.producer_warp, {"warps": 1}), GROUP: (variants.producer_warp, {"warps": 4})}
"""The kernels that a choice of roles stands for, and what the launch takes."""
WAITING = "a producer that waits for its own loads"
OWN_LOAD = "-DWAIT_FOR_OWN_LOAD=1"


def _role(record: Any) -> str:
    words = _options(record)
    if record.kernel == "multistage":
        return NONE
    if record.kernel == "producer_warp":
        return WAITING if "WAIT_FOR_OWN_LOAD" in words else WARP if words["PRODUCER_WARPS"] == "1" else GROUP
    return record.kernel


def _rates(recording: Any, size: int) -> dict[str, dict[int, float]]:
    """role -> stages -> TFLOP/s of the suite `roles` at one size."""
    found: dict[str, dict[int, float]] = {}
    for record in recording.where(suite="roles", shape=(size,) * 3):
        if record.options:
            found.setdefault(_role(record), {})[int(_options(record)["STAGES"])] = record.tflops
    return found


def roles_chart(recording: Any, size: int = 4096) -> style.Picture:
    """Rate against stages with and without roles, on tiles of 128 x 128 x 64 (the recording `variants`)."""
    rates = _rates(recording, size)
    depths = sorted(rates[NONE])
    series: dict[str, list[float | None]] = {role: [rates[role].get(depth) for depth in depths] for role in (NONE, WARP, GROUP, WAITING)}
    series["cuBLAS"] = [recording.one(suite="roles", kernel="cuBLAS", shape=(size,) * 3).tflops] * len(depths)
    return charts.lines(depths, series, "stages in the ring", "rate (TFLOP/s)", f"One tile, with roles and without: {size}³", recording.source)


def roles_gains(recording: Any) -> str:
    """How many times faster roles are than none, by size and depth, and with each kernel at its own best depth."""
    sizes = sorted({record.shape[0] for record in recording.where(suite="roles")})
    rows = []
    for size in sizes:
        rates = _rates(recording, size)
        rows += [(f"{size}³, {stages} stages", rates[WARP][stages] / plain, rates[GROUP][stages] / plain) for stages, plain in sorted(rates[NONE].items())]
        best = {role: max(values.values()) for role, values in rates.items()}
        rows.append((f"{size}³, each at its best", best[WARP] / best[NONE], best[GROUP] / best[NONE]))
    return "\n".join([recording.source, *text_table("{:31}{:18.2f}  {:20.2f}", rows, ("times the speed of 'no roles'", f" {WARP:>18}", GROUP))])


def own_load_cost(recording: Any, size: int = 4096) -> str:
    """What it costs when the producer waits for its own loads: both rates at every depth, in words."""
    rates = _rates(recording, size)
    lines = [f"{size}³: {recording.source}"]
    for stages in sorted(rates[WAITING]):
        free, held = rates[WARP][stages], rates[WAITING][stages]
        lines.append(f"{stages} stages: the producer runs ahead {free:.0f} TFLOP/s; "
                     f"it waits for its own loads {held:.0f} TFLOP/s, {held / free:.2f} of it")
    return "\n".join(lines)


def tiles_on_way(run: Any, boxes: int = 2, block: int = 0) -> int:
    """The most tiles that were on their way at once in one block of a run: copies issued and not landed, `boxes` of them a tile."""
    under_way = most = 0
    for event in run.timeline:
        if event.block == block and event.what in ("issue cp", "land cp"):
            under_way += 1 if event.what == "issue cp" else -1
            most = max(most, under_way)
    return most // boxes


def time_by_warp(found: Any, block: int = 0, producer: int = 0) -> str:
    """What each warp of a block did with its time, from its first mark to its last: the share of each event, in words.

    found: a timeline (hl.timeline, or measure.timelines.load()); producer: the warp that copies. Raises ValueError for a block that
    left no marks.
    """
    rows = [row for row in found if row.block == block]
    if not rows:
        raise ValueError(f"block {block} left no marks; there are blocks {sorted({row.block for row in found})}")
    lines = [found.source] if found.source else []
    for warp in sorted({row.warp for row in rows}):
        own = [row for row in rows if row.warp == warp]
        life = max(row.end for row in own) - min(row.start for row in own)
        shares = {event: sum(row.end - row.start for row in own if row.event == event) / life for event in ("wait", "mma", "store")}
        told = ", ".join(f"{event} {100 * share:.0f} %" for event, share in shares.items() if share)
        lines.append(f"warp {warp:2d}, {'producer' if warp == producer else 'consumer'}: {told} of {life:.0f} {found.unit}")
    return "\n".join(lines)


def cost_of_marks(found: Any, recording: Any, warp: int = 4, size: int = 4096, stages: int = 4) -> str:
    """How long a k-block of gemm/warp_specialized.cu takes with marks, and without: from the starts of a warp's products, and from the unmarked kernel's rate.

    found: its timeline on a GPU; recording: `variants`, whose time at size³ has the ends of each tile in it.
    """
    starts = [row.start for row in found if (row.block, row.warp, row.event) == (0, warp, "mma")]
    marked, rate = (starts[-1] - starts[0]) / (len(starts) - 1), _rates(recording, size)["warp_specialized"][stages]
    free = 2 * 128 * 128 * 64 * 132 / rate / 1e3                # ns of a k-block on one of 132 SMs
    return (f"a k-block takes {marked:.0f} ns here; at the rate of the kernel without marks ({rate:.0f} TFLOP/s at {size}³, "
            f"{stages} stages) {free:.0f} ns: {marked / free:.2f} times as long")


def waiting_share(found: Any, block: int = 0, warp: int = 0) -> float:
    """Per cent of a warp's time, from its first mark to its last, in which it waited on a barrier; a whole number, since marks cost time themselves."""
    own = [row for row in found if row.block == block and row.warp == warp]
    return round(100 * found.total("wait", block, warp) / (max(row.end for row in own) - min(row.start for row in own)))


def trace_roles(k: int = 512, schedule: str = "lazy") -> Any:
    """The timeline of one tile of 128 x 128 x k by gemm/warp_specialized.cu in the emulator (virtual time), as hl.timeline gives it."""
    import hopperlab as hl

    a, b, c, _ = _numbers(128, 128, k, k)
    launch = launches.warp_specialized(a, b, c, backend="emulator")
    with hl.emulate(schedule=schedule):
        return hl.timeline(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)


def lead(found: Any, block: int = 0, producer: int = 0) -> int:
    """How far the producer ran ahead at most: tiles issued, counting the newest, that the slowest consumer had not multiplied yet."""
    rows = [row for row in found if row.block == block]
    ends: dict[int, list[float]] = {}
    for row in rows:
        if row.event == "mma":
            ends.setdefault(row.warp, []).append(row.end)
    issues = [row for row in rows if row.event == "issue" and row.warp == producer]
    return max(row.id + 1 - min(sum(end <= row.start for end in own) for own in ends.values()) for row in issues)


def role_instructions(micro: Any) -> str:
    """Warp instructions (PTX, counted by the emulator) that one k-tile of 128 x 128 x 64 takes, without roles and with them."""
    lines = ["PTX instructions of warps for one k-tile of 128 x 128 x 64, counted by the emulator (the compiler makes other numbers of them):"]
    kernels = {"cp_async_mma": "cp.async + mma.sync", "multistage": "TMA + wgmma, no roles", "warp_specialized": "TMA + wgmma, roles"}
    for kernel, name in kernels.items():
        counts = {_options(r)["class"]: r.value for r in micro.where(suite="instructions", kernel=kernel)}
        lines += text_table("  {:22} {:5.0f} in all, {:4.0f} of them for the tensor core", [(name, counts["all"], counts["tensor"])])
    return "\n".join(lines)


def launch_warp_roles(roles: str, stages: int, waits: str, schedule: str, recording: Any = None) -> style.Picture:
    """Lesson 10's panel: one tile of 128 x 128 x 512 with these roles in the emulator, its ring, and the recorded rate where there is one.

    roles: a key of ROLES; waits: 'yes' makes the producer wait for its own loads; recording: `variants`. Raises ValueError for a wait
    without a producer.
    """
    make, choices = ROLES[roles]
    if waits == "yes" and roles == NONE:
        raise ValueError("without roles there is no producer that could wait for its own loads: the warp that loads also multiplies")
    options = (OWN_LOAD,) if waits == "yes" else ()
    right, run, launch = run_product(make, schedule=schedule, stages=stages, options=options, **choices)
    name = roles if waits == "no" else WAITING if roles == WARP else ""                 # of a waiting warpgroup there is no recording
    rate = _rates(recording, 4096).get(name, {}).get(stages) if recording else None
    recorded = f"recorded on an H200: {rate:.0f} TFLOP/s at 4096³" if rate else "not recorded"
    found = run.hazards[0].kind if run.hazards else "no hazard"
    heading = (f"{roles}, {stages} stages: result {'right' if right else 'WRONG'}, {found}\n"
               f"at most {tiles_on_way(run)} tile(s) on their way; {launch.block[0]} threads x {launch.kernel.num_regs} registers at entry\n"
               f"{recorded}")
    return ring_timeline(run, stages, heading)


FIRST = {"threads": 256, "rows of C": 64, "stage bytes": 24576, "full arrivals": 1, "empty arrivals": 1, "consumer registers": 256}
"""gemm/warp_specialized.cu with one consumer warpgroup; the producer keeps 40 registers."""
PLACES = {"threads": ("__launch_bounds__(384, 1)", "__launch_bounds__({}, 1)"), "rows of C": ("BM = 128,", "BM = {},"),
          "stage bytes": ("BUG_WRONG_BYTES ? STAGE_BYTES + 16 : STAGE_BYTES", "{}"),
          "full arrivals": ("mbarrier_init(&full[s], 1)", "mbarrier_init(&full[s], {})"),
          "empty arrivals": ("mbarrier_init(&empty[s], 2)", "mbarrier_init(&empty[s], {})"),
          "consumer registers": ("setmaxnreg_inc<232>()", "setmaxnreg_inc<{}>()")}
"""What each number replaces in that file."""


def roles_source(answers: Mapping[str, int]) -> str:
    """gemm/warp_specialized.cu with the numbers of FIRST's keys in their places."""
    import hopperlab as hl

    text = hl.kernel_source("gemm/warp_specialized.cu")
    for key, (place, words) in PLACES.items():
        if text.count(place) != 1:
            raise ValueError(f"gemm/warp_specialized.cu has {text.count(place)} places for {key!r}")
        text = text.replace(place, words.format(answers[key]))
    return text


def run_roles(answers: Mapping[str, int], schedule: str = "lazy", seed: int = 0) -> tuple[bool, Any]:
    """(right, session) of a product of 128 x 128 x 576 by the kernel with these numbers, in the emulator."""
    import hopperlab as hl

    kernel = hl.RawModule(code=roles_source(answers), name="warp_specialized.cu", backend="emulator").get_function("gemm")
    a, b, c, exact = _numbers(128, 128, 576, 10)
    rows = answers["rows of C"]
    maps = [hl.TensorMap.tiled(a, box=(rows, 64), swizzle="128B"), hl.TensorMap.tiled(b, box=(128, 64), swizzle="128B")]
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as run:
        sizes = (np.int32(size) for size in (128, 128, 576))
        kernel((1, -(-128 // rows)), (answers["threads"],), (*maps, c, *sizes), shared_mem=4 * (rows + 128) * 128 + 64)
    return bool((c == exact).all()), run


@told
def check_second_consumer(answers: Mapping[str, int | None]) -> str:
    """Lesson 10's exercise: the six numbers that change when a second consumer warpgroup joins, put into the kernel and run.

    answers: the keys of FIRST. A consumer multiplies 64 rows, the producer keeps 40 registers.
    """
    given = wholes(answers, FIRST)
    missing = [key for key, number in given.items() if number is None]
    if missing:
        return f"Not answered yet: {', '.join(missing)}."
    answers = {key: number for key, number in given.items() if number is not None}
    import hopperlab as hl

    if answers["threads"] != 384:
        return f"{answers['threads']} threads are not three warpgroups."
    if answers["rows of C"] != 128:
        return f"Two consumers multiply 64 rows each; a tile of {answers['rows of C']} rows does not give each of them its own."
    budget = Budget((40, answers["consumer registers"], answers["consumer registers"]), registers_at_entry(384))
    if budget.problem:
        return f"Registers: {budget.problem}."
    try:
        for schedule, seed in SCHEDULES:
            right, run = run_roles(answers, schedule, seed)
            if run.hazards:
                return f"Not yet. The emulator, with copies landing {schedule}:\n{explain(causes_first(run.hazards)[0])}"
            if not right:
                return f"No hazard, but the product is wrong with copies landing {schedule}."
    except hl.CompileError as error:
        return f"It does not compile: {error}"
    if answers["consumer registers"] < budget.entry:
        return f"It runs, but a consumer takes registers: {answers['consumer registers']} are fewer than the {budget.entry} at entry."
    return "Right: three warpgroups, 128 rows, 32 KiB per stage; one producer arrives on full, two consumers on empty, and the registers fit."
