# SPDX-License-Identifier: Apache-2.0
"""Lesson 08: launching wgmma/one_tile.cu, its accumulator put together from the threads' registers, and its groups over time.

The fragment map is `hopper.fragments`', the descriptor `hopper.wgmma`'s; nothing here knows a layout of its own.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...hopper import fragments, wgmma
from ...show.style import Picture
from ...show.timelines import Span, gantt
from ..machine_facts import notes_of

WIDTHS = (8, 16, 32, 64, 128, 256)
"""N that the wrappers of the course have; the instruction has every multiple of 8 up to 256."""
SWIZZLE_OF = {32: "32B", 64: "64B", 128: "128B"}
FILE = "wgmma/one_tile.cu"
EARLY = ("-DBUG_READ_BEFORE_WAIT=1",)


@dataclass(frozen=True)
class Product:
    """One launch of one_tile: right in every place it ran?, the emulator's run, d (64 x n, float32), registers per thread as ptxas counted, ptxas's notes."""

    right: bool
    run: Any
    d: np.ndarray
    registers: int
    notes: tuple[str, ...]


def one_tile_operands(n: int, blocks: int, row_bytes: int = 128) -> tuple[np.ndarray, np.ndarray]:
    """Small integers in bf16: a (64, k) and b (n, k) with k = blocks * row_bytes / 2, so that every sum is exact."""
    from ml_dtypes import bfloat16

    random = np.random.default_rng(n)
    return tuple(random.integers(-2, 3, (rows, blocks * row_bytes // 2)).astype(bfloat16) for rows in (64, n))


def descriptor_layout(row_bytes: int = 128, swizzle: str | None = None) -> int:
    """A matrix descriptor without its start, for K-major rows of `row_bytes` under the swizzle of that span: 8 rows from group to group."""
    return wgmma.encode(0, 16, 8 * row_bytes, swizzle or SWIZZLE_OF[row_bytes])


def options_of(n: int, blocks: int, in_flight: int, row_bytes: int = 128, options: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Compiler options of one_tile.cu."""
    names = {"N": n, "BLOCKS": blocks, "ROW_BYTES": row_bytes, "IN_FLIGHT": in_flight}
    return (*(f"-D{name}={value}" for name, value in names.items()), *options)


def multiply_tile(n: int = 64, blocks: int = 1, in_flight: int = 0, row_bytes: int = 128, layout: int | None = None,
                  options: tuple[str, ...] = (), schedule: str = "lazy") -> Product:
    """d = a * b^T by wgmma/one_tile.cu: in the chosen place, then in the emulator for hazards and timeline.

    layout: a descriptor without its start (None: the right one). A planted bug (`options`) and a layout of the caller's run in
    the emulator only. Raises ValueError for an n without a wrapper, LaunchError when the blocks do not fit.
    """
    import hopperlab as hl

    if n not in WIDTHS:
        legal = "wgmma has it, but the course has no wrapper for it" if n in wgmma.legal_n("bf16") else "N is a multiple of 8 from 8 to 256 (PTX ISA 9.7.15.2)"
        raise ValueError(f"n = {n}: {legal}")
    xp = hl.array_module()
    chosen = options_of(n, blocks, in_flight, row_bytes, options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # the notes are shown instead
        kernel = hl.load_kernel(FILE, "one_tile", chosen, strict=False)
    a, b = one_tile_operands(n, blocks, row_bytes)
    maps = [hl.TensorMap.tiled(xp.asarray(x.view(np.uint16)), box=(len(x), row_bytes // 2), swizzle=SWIZZLE_OF[row_bytes], dtype="bfloat16")
            for x in (a, b)]
    word = np.uint64(descriptor_layout(row_bytes) if layout is None else layout)
    size, exact = blocks * (64 + n) * row_bytes + 64, a.astype(np.float32) @ b.astype(np.float32).T
    right = True
    for place in (["gpu"] if hl.backend() == "gpu" and layout is None and not options else []) + ["emulator"]:
        out = xp.zeros((128, n // 2), dtype=np.float32)
        if place == "gpu":
            kernel((1,), (128,), (*maps, out, word), shared_mem=size)
        else:
            with hl.emulate(schedule=schedule, hazards="collect") as run:
                kernel((1,), (128,), (*maps, out, word), shared_mem=size)
        d = np.zeros((64, n), dtype=np.float32)
        where = fragments.wgmma_d(n)
        d[where.row, where.col] = hl.asnumpy(out)           # register i of thread t is element (row[t, i], col[t, i])
        right = right and bool(np.array_equal(d, exact))
    return Product(right, run, d, kernel.num_regs, notes_of(kernel, FILE, chosen))


def group_spans(run: Any, blocks: int) -> list[Span]:
    """The blocks' copies and the groups of products of one_tile, over the order of the run's events: two rows of spans.

    A copy lasts from its first issue to its last landing, a group from its first product's issue to its last one's landing.
    """
    events = [event for event in run.timeline if event.warp in (0, -1)]
    spans = []
    for row, words in (("TMA", ("issue cp", "land cp")), ("tensor core", ("issue wgmma", "land wgmma"))):
        starts, ends = ([at for at, event in enumerate(events) if event.what == what] for what in words)
        each = len(starts) // blocks
        for s in range(blocks):
            name, kind = ("copy", "copy under way") if row == "TMA" else ("group", "group in flight")
            spans.append(Span(f"{row}, block {s}", starts[s * each], ends[(s + 1) * each - 1], kind, f"{name} {s}"))
    return spans


def launch_groups(n: int, in_flight: int, blocks: int, schedule: str) -> Picture:
    """Lesson 08's panel: one tile of n columns, `blocks` k-blocks, `in_flight` groups unfinished while the next is issued; drawn over the order of events."""
    made = multiply_tile(n, blocks, in_flight, schedule=schedule)
    most = most_in_flight(made.run, blocks)
    heading = (f"64 x {n} x {64 * blocks}: result {'right' if made.right else 'WRONG'}, {len(made.run.hazards)} hazards; "
               f"{made.run.counters['wgmma']} wgmma in {blocks} groups\n"
               f"{n // 2} of {made.registers} registers hold the accumulator; at most {most} group{'s' * (most > 1)} in flight at once")
    return gantt(group_spans(made.run, blocks), heading, "order of events in the emulator (what came after what; not seconds)")


def most_in_flight(run: Any, blocks: int) -> int:
    """The most groups that were in flight at one moment of the run."""
    groups = [span for span in group_spans(run, blocks) if span.kind == "group in flight"]
    return max(sum(other.start <= span.start < other.end for other in groups) for span in groups)
