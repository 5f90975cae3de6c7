# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: persistent schedules: the kernels run on a few tiles in the emulator, and who issued which k-blocks in which order.

`changes` edits a kernel's text before it is compiled: pairs (old, new), each old text occurring exactly once.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import measure
from ...emulator.observe.timeline import wgmma_turns
from ...hopper import limits
from ...measure.launches import gemm
from ...measure.launches.edited import Changes, changed, operands, product
from ...show import style
from ...show.timelines import Span, gantt

TILES = {"persistent": (256, 256), "overlapped_store": (256, 256), "pingpong": (128, 128)}     # of a cluster, or of a consumer
WGMMA_A_BLOCK = {"persistent": 4, "overlapped_store": 4, "pingpong": 8}                          # of a consumer, in 64 columns of k
STAGES = {"persistent": 4, "overlapped_store": 3, "pingpong": 6}
STAGE_BYTES = {"persistent": 49152, "overlapped_store": 49152, "pingpong": 32768}
SCHEDULES = {"cooperative": "persistent", "cooperative, overlapped store": "overlapped_store", "ping-pong": "pingpong"}


def run_schedule(kernel: str = "pingpong", rows: int = 2, cols: int = 4, k: int = 192, group: int = 2, blocks: int = 0, landing: str = "lazy",
                 options: Sequence[str] = (), changes: Changes = (), stages: int = 0) -> tuple[bool, Any]:
    """(right, session) of rows x cols tiles by a persistent kernel of TILES in the emulator.

    k: columns; group: rows of tiles in a group; blocks: CTAs (0: the fewest, so that one CTA or cluster works on all tiles); landing: the
    emulator's schedule; options: for NVRTC, such as '-DBUG_NO_ORDER=1'; stages: of the ring (0: the kernel's own).
    """
    import hopperlab as hl

    tile, least = TILES[kernel], 1 if kernel == "pingpong" else 2
    a, b, c = operands(rows * tile[0], cols * tile[1], k)
    stages = stages or STAGES[kernel]
    launch = gemm.LADDER[kernel](a, b, c, stages=stages, group=group, blocks=blocks or least, options=options, backend="emulator")
    if changes:
        launch = changed(launch, f"gemm/{kernel}.cu", changes, (f"-DSTAGES={stages}", f"-DGROUP={group}", *options))
    with hl.emulate(schedule=landing, hazards="collect") as run:
        launch()
    return bool((c == product(a, b)).all()), run


def turns(run: Any, block: int = 0) -> list[tuple[int, int]]:
    """Who issued wgmma in block `block`, in order: (consumer 1 or 2, how many in a row)."""
    return wgmma_turns(run.timeline, block)


def schedule_spans(run: Any, per_tile: int, block: int = 0) -> list[Span]:
    """What each consumer of block `block` did, a row a consumer: tiles' k-blocks from the first wgmma to the last landing, what comes
    before the next tile, waits at named barriers, and stores handed to TMA. per_tile: wgmma that a consumer issues for a tile.
    Time is the order of the block's events, counted from 0.
    """
    events = [event for event in run.timeline if event.block == block]
    spans: list[Span] = []
    for consumer in (1, 2):
        spans += _consumer_spans([(at, e) for at, e in enumerate(events) if e.warp == 4 * consumer], f"consumer {consumer}", per_tile)
    return spans


def _consumer_spans(mine: Sequence[tuple[int, Any]], row: str, per_tile: int) -> list[Span]:
    spans: list[Span] = []
    issued = landed = 0
    begun, free, waiting = 0, None, None
    for at, event in mine:
        if event.what == "issue wgmma":
            if issued % per_tile == 0:
                spans += [Span(row, free, at, "between two tiles: epilogue")] if free is not None else []
                begun, free = at, None
            issued += 1
        elif event.what == "land wgmma":
            landed += 1
            if landed % per_tile == 0:
                spans.append(Span(row, begun, at, "k-blocks of a tile", str(landed // per_tile)))
                free = at
        elif event.what == "wait bar" and free is not None:
            spans.append(Span(row, free, at, "between two tiles: epilogue"))
            waiting, free = at, None
        elif event.what == "wake bar" and waiting is not None:
            spans.append(Span(row, waiting, at, "waits for its turn"))
            waiting = None
        elif event.what == "issue store cp":
            spans.append(Span(row, at, at, "hands C to TMA"))
    return spans


def schedule_timeline(run: Any, per_tile: int, heading: str, block: int = 0) -> style.Picture:
    """`schedule_spans` as a picture."""
    colours = {"k-blocks of a tile": style.BLUE, "waits for its turn": style.FAINT, "between two tiles: epilogue": style.ORANGE,
               "hands C to TMA": style.VERMILION}
    return gantt(schedule_spans(run, per_tile, block), heading, "order of events in the emulator (what came after what; not seconds)", colours)


def launch_schedule(schedule: str, rows: int, cols: int, group: int, stages: int, landing: str) -> style.Picture:
    """The panel: rows x cols tiles by a schedule of SCHEDULES on one CTA (cluster) in the emulator, as the order of its consumers.
    Raises ValueError when ring and slots of C do not fit into shared memory.
    """
    kernel = SCHEDULES[schedule]
    ring, slots = stages * STAGE_BYTES[kernel], 65536 if kernel == "overlapped_store" else 0
    if ring + slots + 128 > limits.SHARED_PER_BLOCK:
        raise ValueError(f"{stages} stages take {ring} bytes" + (f" and the slots of C {slots}" if slots else "")
                         + f": a CTA may have {limits.SHARED_PER_BLOCK} bytes of shared memory")
    right, run = run_schedule(kernel, rows, cols, 128, group, landing=landing, stages=stages)
    found = run.hazards[0].kind if run.hazards else "no hazard"
    heading = f"{schedule}, {rows} x {cols} tiles: result {'right' if right else 'WRONG'}, {found}; {len(turns(run))} turns"
    picture = schedule_timeline(run, WGMMA_A_BLOCK[kernel] * 2, heading)
    told = recorded_share(kernel)
    picture.figure.axes[0].set_xlabel(f"order of events in the emulator (what came after what; not seconds)\n{told}", fontsize=9)
    return style.Picture(picture.figure, picture.text + "\n  " + told.replace("\n", " "))


def recorded_share(kernel: str, size: int = 8192) -> str:
    """What the recording `ladder` says of a kernel at size³, in a line that says so."""
    found = measure.load("ladder")
    record = found.one(kernel=kernel, shape=(size, size, size), note="")
    return f"{kernel} at {size}³: {100 * record.ratio:.1f} % of cuBLAS,\n{found.source}"
