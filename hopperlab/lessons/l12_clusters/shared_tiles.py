# SPDX-License-Identifier: Apache-2.0
"""Lesson 12: what a cluster shares: traffic by cluster shape, who sends what to whom, the launch behind the panel, the recorded cost of
every way between CTAs, and the check of the exercise.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from ...measure.launches.clusters import column_mask, row_mask, shared_tiles
from ...runtime.tables import text_table
from ...show import style
from ..given import function, told

SHAPES = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 4), (4, 1), (4, 2), (4, 4))
WAYS = {"how=global memory": "global memory, a flag", "how=st.shared::cluster": "st.shared::cluster, then an arrival",
        "how=st.async": "st.async, counted on an mbarrier", "how=cp.async.bulk": "cp.async.bulk, counted on an mbarrier"}
MEMORIES = {"space=shared": "own shared memory", "space=dsmem": "a neighbour's (DSMEM)", "space=l2": "the L2"}


def tile_traffic(rows: int, cols: int, bm: int = 128, bn: int = 256, bk: int = 64) -> tuple[int, int]:
    """(bytes that arrive in a CTA's shared memory for one k-block of bf16, bytes it asks the L2 for) in a cluster of rows x cols CTAs
    that share A along a row and B along a column."""
    a, b = bm * bk * 2, bn * bk * 2
    return a + b, a // cols + b // rows


def traffic_table(shapes: Sequence[tuple[int, int]] = SHAPES, bm: int = 128, bn: int = 256) -> str:
    """A line a cluster shape: what a CTA asks the L2 for, for each k-block, and what is saved."""
    lines = []
    for rows, cols in shapes:
        arrive, asked = tile_traffic(rows, cols, bm, bn)
        lines.append(f"cluster {rows} x {cols}: a CTA asks the L2 for {asked // 1024:2d} of the {arrive // 1024} KiB of a k-block; saved "
                     f"{100 * (1 - asked / arrive):2.0f} %")
    return "\n".join(lines)


def cluster_map(rows: int, cols: int, heading: str = "") -> style.Picture:
    """The CTAs of a cluster: which part of A's tile (left) and of B's (right) each loads, and who gets it: one colour a loader."""
    figure, axes = style.new_figure(1.1 + 0.75 * rows, 2)
    words = [heading or f"A cluster of {rows} x {cols} CTAs"]
    for axis, name, sharers in ((axes[0], "A: shared along a row", row_mask), (axes[1], "B: shared along a column", column_mask)):
        for rank in range(rows * cols):
            y, x = divmod(rank, cols)
            loaders = [r for r in range(rows * cols) if sharers(r, rows, cols) >> rank & 1]
            for place, loader in enumerate(loaders):
                part = loader % cols if sharers is row_mask else loader // cols
                height = 0.9 / len(loaders)
                axis.add_patch(Rectangle((x + 0.05, y + 0.05 + place * height), 0.9, height, edgecolor=style.CARD, linewidth=1.5,
                                         facecolor=style.PALETTE[(0, 1, 2, 4)[part]]))
                if loader == rank:
                    axis.plot(x + 0.16, y + 0.05 + (place + 0.5) * height, marker="o", markersize=6, color=style.CARD, markeredgecolor=style.INK)
            axis.text(x + 0.5, y + 0.5, f"rank {rank}", ha="center", va="center", fontsize=9, color=style.INK,
                      bbox={"facecolor": style.CARD, "edgecolor": "none", "pad": 1.5, "alpha": 0.9})
            words.append(f"  {name.split(':')[0]}: rank {rank} loads a part for ranks {[r for r in range(rows * cols) if sharers(rank, rows, cols) >> r & 1]}")
        axis.set(xlim=(0, cols), ylim=(rows, 0), xticks=[], yticks=[], xlabel="dot: the part that this CTA loads for all of its group")
        for side in ("left", "bottom"):
            axis.spines[side].set_visible(False)
        style.title(axis, name)
    if heading:
        figure.suptitle(heading, fontsize=10, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words))


def cluster_numbers(rows: int, cols: int, depth: int = 256, seed: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Small integers (uint16) for one cluster's tiles: a of 64 * rows rows, b of 64 * cols, `depth` columns."""
    random = np.random.default_rng(seed)
    return tuple(random.integers(0, 9, (64 * parts, depth)).astype(np.uint16) for parts in (rows, cols))


def expected_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What shared_tiles must give: (a's tiles, b's tiles, 2) of exact sums."""
    of_a, of_b = (array.reshape(-1, 64 * array.shape[1]).sum(axis=1, dtype=np.uint32) for array in (a, b))
    return np.stack(np.broadcast_arrays(of_a[:, None], of_b[None, :]), axis=-1).astype(np.uint32)


def run_cluster(rows: int, cols: int, stages: int = 2, schedule: str = "lazy", **choices: Any) -> tuple[bool, Any]:
    """(right, session) of clusters/shared_tiles.cu on one cluster in the emulator; choices: for measure's shared_tiles."""
    import hopperlab as hl

    a, b = cluster_numbers(rows, cols)
    out = np.zeros((rows, cols, 2), np.uint32)
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        shared_tiles(a, b, out, rows, cols, stages, backend="emulator", **choices)()
    return bool((out == expected_sums(a, b)).all()), run


def asked_of_l2(run: Any, rows: int, cols: int) -> tuple[int, int]:
    """(bytes that arrived in shared memory, bytes that were read for them) of a run of one cluster: what the counters say."""
    asked = run.counters["tma_loads"] // 2 * (8192 // cols + 8192 // rows)
    return run.counters["tma_load_bytes"], asked


def launch_cluster(rows: int, cols: int, stages: int, schedule: str) -> style.Picture:
    """The panel: one cluster of rows x cols CTAs in the emulator. Raises ValueError for more than 8 CTAs, the portable limit."""
    if rows * cols > 8:
        raise ValueError(f"{rows} x {cols} = {rows * cols} CTAs: 8 are portable; up to 16 need cudaFuncAttributeNonPortableClusterSizeAllowed")
    right, run = run_cluster(rows, cols, stages, schedule)
    arrived, asked = asked_of_l2(run, rows, cols)
    found = run.hazards[0].kind if run.hazards else "no hazard"
    return cluster_map(rows, cols, f"{rows} x {cols} CTAs: result {'right' if right else 'WRONG'}, {found}; {arrived // 1024} KiB arrived, "
                                   f"{asked // 1024} KiB read from the L2: {100 * (1 - asked / arrived):.0f} % saved")


def ways_table(recording: Any) -> str:
    """From the recording `micro`, in cycles: a round trip of each way between two CTAs, a bare arrival there and back, a barrier of one
    CTA beside the cluster's, and a load from each memory."""
    def one(kernel: str, *options: str) -> float:
        return next(r.value for r in recording.where(kernel=kernel) if set(options) <= set(r.options))

    rows: list[tuple[str, float | str]] = [("a round trip of 2 KiB between two CTAs", "cycles")]
    rows += [(f"  {WAYS.get(r.options[0], r.options[0])}", r.value) for r in recording.where(kernel="exchange")]
    rows.append(("an arrival there, an arrival back", "cycles"))
    rows += [(f"  .release.{scope}, .acquire.{scope}", one("remote_round_trip", f"ORDER={scope}")) for scope in ("cluster", "cta")]
    rows.append(("a meeting of 128 threads per CTA", "cycles"))
    rows.append(("  __syncthreads, each CTA for itself", one("syncthreads", "threads=128")))
    rows += [(f"  barrier.cluster, {words}", one("cluster_meeting", "threads=128", f"RELAXED={relaxed}"))
             for words, relaxed in (("release and acquire", 0), ("arrive.relaxed", 1))]
    rows.append(("a load of 4 bytes, one after another", "cycles"))
    rows += [(f"  {MEMORIES[r.options[0]]}", r.value) for r in recording.where(kernel="chase") if r.options[0] in MEMORIES]
    return "\n".join([recording.source, *text_table("{:42} {:6.0f}", rows)])


@told
def check_masks(mask_a: Callable[..., int] | None, mask_b: Callable[..., int] | None) -> str:
    """Lesson 12's exercise: masks of a cluster of `rows` x `cols`, as functions of rank, rows and cols; run at four shapes."""
    if mask_a is None or mask_b is None:
        return "Not answered yet: write both masks, then run the cell again."
    import hopperlab as hl

    mask_a, mask_b = function("mask_a", mask_a, "lambda rank, rows, cols: …"), function("mask_b", mask_b, "lambda rank, rows, cols: …")
    for rows, cols in ((2, 1), (1, 2), (2, 2), (2, 4)):
        given = [mask(rank, rows, cols) for mask in (mask_a, mask_b) for rank in range(rows * cols)]
        wrong = [mask for mask in given if not 0 < mask < 1 << 16]
        if wrong:
            why = "then nobody gets this part, and the CTA that loads it needs it, too" if wrong[0] == 0 else "a mask has 16 bits, one for each rank"
            return f"In a cluster of {rows} x {cols} a mask is {wrong[0]}: {why}."
        try:
            right, run = run_cluster(rows, cols, mask_a=mask_a, mask_b=mask_b)
        except hl.HazardError as error:
            return f"In a cluster of {rows} x {cols}: {str(error).splitlines()[0]}"
        except hl.EmulatorError as error:
            return f"In a cluster of {rows} x {cols}: {str(error).splitlines()[0]}"
        if run.hazards:
            return f"In a cluster of {rows} x {cols}: {run.hazards[0].kind}. {_who(mask_a, mask_b, rows, cols)}"
        if not right:
            return f"In a cluster of {rows} x {cols} the sums are wrong. {_who(mask_a, mask_b, rows, cols)}"
    return "Right: in every shape each CTA gets all parts of both tiles, and each byte is read from the L2 once."


def _who(mask_a: Callable[..., int], mask_b: Callable[..., int], rows: int, cols: int) -> str:
    """The first CTA whose parts do not come from exactly its row (A) or its column (B)."""
    for name, mask, right in (("A", mask_a, row_mask), ("B", mask_b, column_mask)):
        for rank in range(rows * cols):
            given, wanted = ([r for r in range(rows * cols) if m(r, rows, cols) >> rank & 1] for m in (mask, right))
            if given != wanted:
                return f"Rank {rank} gets parts of {name} from ranks {given}; its {'row' if name == 'A' else 'column'} is {wanted}."
    return ""
