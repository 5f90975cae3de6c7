# SPDX-License-Identifier: Apache-2.0
"""Lesson 07: reductions by TMA against their NumPy reference, grouped problems by edited maps, and the split-K exercise.

Which type each operation has is the table TYPES (PTX ISA 9.7.9.25.5.3); the kernels are copy/tma_reduce.cu and stores/*.cu.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from ...measure.launches import copies
from ...runtime.tables import text_table
from ...show import style
from ..given import function, told, whole

OPERATIONS = copies.REDUCTIONS
TYPES = {"uint32": OPERATIONS, "int32": ("add", "min", "max", "and", "or", "xor"), "uint64": ("add", "min", "max", "and", "or", "xor"),
         "int64": ("min", "max", "and", "or", "xor"), "float16": ("add", "min", "max"), "bfloat16": ("add", "min", "max"), "float32": ("add",)}
"""Element types of a tensor map, and the reductions that tensor stores into global memory have for them."""

ROWS, SHOWN = 8, (4, 8)


def reduced(operation: str, old: np.ndarray, value: np.ndarray) -> np.ndarray:
    """What a reduction leaves in memory, element by element. inc and dec wrap at `value` (PTX ISA 9.7.13.5, atom: inc, dec)."""
    if operation == "inc":
        return np.where(old >= value, 0, old + 1).astype(old.dtype)
    if operation == "dec":
        return np.where((old == 0) | (old > value), value, old - 1).astype(old.dtype)
    names = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return names[operation](old, value)


def refusal(operation: str, dtype: str) -> str:
    """Why TMA has no such reduction; '' where it has."""
    if operation in TYPES.get(dtype, ()):
        return ""
    having = [name for name, known in TYPES.items() if operation in known]
    return f"a TMA reduction {operation} of {dtype} does not exist: {operation} takes {', '.join(having)} (PTX ISA 9.7.9.25.5.3)"


def types_table() -> str:
    """Operation by type: which reductions a tensor store into global memory has."""
    rows = [(name, *("yes" if operation in known else "-" for operation in OPERATIONS)) for name, known in TYPES.items()]
    return "\n".join(text_table("{:10}" + "{:>5}" * len(OPERATIONS), rows, ("", *OPERATIONS)))


def _values(dtype: str, shape: tuple[int, int], seed: int, largest: int) -> np.ndarray:
    """Small whole numbers, so that every sum is exact in every type."""
    import ml_dtypes

    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return np.random.default_rng(seed).integers(0, largest, shape).astype(kind)


def reduce_tile(operation: str, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, bool]:
    """target = target `operation` source by copy/tma_reduce.cu, on 8 rows of 128 bytes. Returns (before, source, after, right?).

    Runs in the chosen place. Raises ValueError for a combination that the hardware does not have.
    """
    import hopperlab as hl

    why = refusal(operation, dtype)
    if why:
        raise ValueError(why)
    xp = hl.array_module()
    columns = 128 // _values(dtype, (1, 1), 0, 2).itemsize
    before, source = _values(dtype, (ROWS, columns), 1, 12), _values(dtype, (ROWS, columns), 2, 10)
    bits = (lambda a: a.view(np.uint16)) if dtype == "bfloat16" else (lambda a: a)
    target = xp.asarray(bits(before).copy())
    copies.tma_reduce(xp.asarray(bits(source)), target, operation, (ROWS, columns), "bfloat16" if dtype == "bfloat16" else None)()
    after = hl.asnumpy(target).view(before.dtype)
    return before, source, after, bool(np.array_equal(after, reduced(operation, before, source)))


def launch_reduce(operation: str, dtype: str) -> style.Picture:
    """Lesson 07's panel: one reduction, launched in the chosen place, with the upper left of the three tiles drawn: memory before, the tile, memory after."""
    before, source, after, right = reduce_tile(operation, dtype)
    figure, axes = style.new_figure(2.7, columns=3)
    for axis, name, tile, colour in zip(axes, ("global memory before", f"tile: {operation}", "global memory after"), (before, source, after),
                                        (style.EMPTY, style.SKY, style.YELLOW)):
        for row in range(SHOWN[0]):
            for column in range(SHOWN[1]):
                axis.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=1))
                axis.text(column + 0.5, row + 0.53, f"{float(tile[row, column]):g}", ha="center", va="center", fontsize=9, color=style.ink_on(colour))
        axis.set(xlim=(0, SHOWN[1]), ylim=(SHOWN[0], 0), xlabel="column (elements)", ylabel="row" if axis is axes[0] else "")
        axis.set_xticks([c + 0.5 for c in range(0, SHOWN[1], 2)], [str(c) for c in range(0, SHOWN[1], 2)])
        axis.set_yticks([r + 0.5 for r in range(SHOWN[0])], [str(r) for r in range(SHOWN[0])])
        style.title(axis, name)
    heading = f"{operation} of {dtype}: as the reference says: {right}"
    figure.suptitle(heading, fontsize=11, color=style.INK)
    words = [heading] + [f"  {name}, row 0: " + " ".join(f"{float(v):g}" for v in tile[0, :SHOWN[1]]) for name,
                         tile in (("before", before), ("tile", source), ("after", after))]
    return style.Picture(figure, "\n".join(words))


def write_groups(rows: Sequence[int]) -> tuple[np.ndarray, Any]:
    """stores/grouped.cu on matrices of these numbers of rows, one behind the other, then 8 rows of zeros. Returns (all rows, float32, as the chosen
    place wrote them; the emulator's run)."""
    import hopperlab as hl

    xp = hl.array_module()
    first = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
    matrices, maps = xp.zeros((int(first[-1]) + 8, 32), dtype=np.float32), xp.zeros((len(rows), 128), dtype=np.uint8)
    kernel = hl.load_kernel("stores/grouped.cu", "grouped")
    launch = ((len(rows),), (32,), (hl.TensorMap.tiled(matrices, box=(16, 32)), maps, matrices, xp.asarray(first)))
    written = None
    if hl.backend() == "gpu":
        kernel(*launch)
        written = hl.asnumpy(matrices).copy()
        matrices.fill(0)
    with hl.emulate(hazards="collect") as run:
        kernel(*launch)
    return hl.asnumpy(matrices) if written is None else written, run


@told
def check_split_k(first: Callable[[int, int, int], int] | None, before: float | None, reduced_bytes: Callable[[int], int] | None) -> str:
    """Lesson 07's exercise: deal k columns out over S blocks of stores/split_k.cu, say what C holds before, and count the bytes that the reductions move.

    first(s, S, k): the first column of block s; first(S, S, k) is the end. before: every element of C. reduced_bytes(S).
    """
    import hopperlab as hl

    if first is None or before is None or reduced_bytes is None:
        return "Not answered yet: write the three lines, then run the cell again."
    first, reduced_bytes = function("first", first, "lambda s, S, k: …"), function("reduced_bytes", reduced_bytes, "lambda S: …")
    before = whole("before", before)
    for splits, k in ((1, 40), (3, 96), (4, 50), (7, 100)):
        bounds = [first(s, splits, k) for s in range(splits + 1)]
        case = f"With {splits} block{'s' if splits > 1 else ''} and k = {k}, the first columns are {bounds}"
        if bounds[0] != 0 or bounds[-1] != k or any(b < a for a, b in pairwise(bounds)):
            return f"{case}: they must rise from 0 to {k}, so that every column belongs to one block."
        if max(np.diff(bounds)) - min(np.diff(bounds)) > -(-k // splits) - k // splits + 7:
            return f"{case}: one block has {max(np.diff(bounds))} columns and another {min(np.diff(bounds))}; deal them out more evenly."
        a, b = (np.random.default_rng(seed).integers(-3, 4, (32, k)).astype(np.float32) for seed in (splits, k))
        c = np.full((32, 32), before, dtype=np.float32)
        kernel = hl.load_kernel("stores/split_k.cu", "split_k", backend="emulator")
        with hl.emulate(schedule="random", seed=splits, hazards="collect") as run:
            kernel((splits,), (128,), (hl.TensorMap.tiled(c, box=(32, 32)), a, b, np.array(bounds, np.int32), np.int32(k)))
        if not np.array_equal(c, a @ b.T):
            return f"{case}: C is not A·Bᵀ. What did it hold before the first block added to it?"
        if reduced_bytes(splits) != run.counters["tma_reduce_bytes"]:
            return f"{case}: the product is right, but the reductions took {run.counters['tma_reduce_bytes']} bytes from shared memory, not {reduced_bytes(splits)}."
    return "Right for 1, 3, 4 and 7 blocks: every column once, C zero before, and each block moves its whole fp32 tile."
