# SPDX-License-Identifier: Apache-2.0
"""Lesson 15x: its kernels in the emulator, the bytes that each kind of weights costs, the panel, and the check of the exercise inside the lesson."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...measure.launches import mixed
from ...measure.launches import mixed_weights as prepare
from ...measure.launches.mixed import Choice
from ...measure.launches.operands import bf16_bits, bf16_values, normal_bf16, product_bound
from ...runtime.tables import text_table
from ...show import style
from ..chosen import unreadable
from .prepared_pictures import fields_axis, metadata_axis

KINDS = {"4 bits": 4, "8 bits": 8, "2:4 sparse": 0}
N, K = 128, 512                                 # of the products that run here


def _fresh() -> Any:
    """The emulator's array module, when everything launched before is over."""
    import hopperlab as hl

    hl.synchronize("emulator")
    return hl.array_module("emulator")


def _run(make: Any, x: Any, y: Any, dense: np.ndarray, landing: str) -> tuple[bool, Any]:
    """(right, session): right to the rounding of the result and of fp32 sums."""
    import hopperlab as hl

    with hl.emulate(schedule=landing, hazards="collect") as run:
        make()()
    left, got = bf16_values(np.asarray(x)), bf16_values(np.asarray(y))
    return bool((np.abs(got - left.astype(np.float64) @ dense.T.astype(np.float64)) <= product_bound(left, dense)).all()), run


def run_int(bits: int = 4, group: int = 128, m: int = 16, landing: str = "lazy", choice: Choice | None = None, options: Sequence[str] = ()) -> tuple[bool, Any]:
    """(right, session) of mixed/int_weights.cu on m x 512 activations and 128 x 512 weights of 4 or 8 bits. options: for NVRTC, such as '-DBUG_NIBBLES=1'."""
    xp = _fresh()
    q, scales = prepare.quantised(np.random.default_rng(bits).standard_normal((N, K), np.float32), bits, group)
    made = prepare.prepared(q, scales, bits, group)
    weights = prepare.IntWeights(xp.asarray(made.words), xp.asarray(made.scales), bits, group, N, K)
    x, y = normal_bf16(xp, (m, K), m), xp.asarray(np.full((m, N), 0x7FC0, np.uint16))
    return _run(lambda: mixed.int_weights(x, weights, y, choice or Choice(_rows(m), split=2), options, backend="emulator"), x, y,
                prepare.dequantised(q, scales, group), landing)


def run_sparse(m: int = 16, landing: str = "lazy", choice: Choice | None = None, options: Sequence[str] = ()) -> tuple[bool, Any]:
    """(right, session) of mixed/sparse.cu on the same shape, two of four weights kept."""
    xp = _fresh()
    values = prepare.pruned(bf16_values(bf16_bits(np.random.default_rng(0).standard_normal((N, K), np.float32))))
    made = prepare.prepared_sparse(values)
    weights = prepare.SparseWeights(xp.asarray(made.stored), xp.asarray(made.metadata), N, K)
    x, y = normal_bf16(xp, (m, K), m), xp.asarray(np.full((m, N), 0x7FC0, np.uint16))
    return _run(lambda: mixed.sparse(x, weights, y, choice or Choice(_rows(m), split=2), options, backend="emulator"), x, y, values, landing)


def _rows(m: int) -> int:
    return next(rows for rows in (16, 32, 64, 128, 256) if rows >= min(m, 256))


def weights_table(m: int, n: int, k: int, group: int = 128) -> str:
    """Bytes that a product reads and writes with each kind of weights, how many times fewer than in bf16, and operations per byte. Computed."""
    weights, sides = {"bf16": 2 * n * k, "8 bits": n * k + 2 * n * k // group, "4 bits": n * k // 2 + 2 * n * k // group, "2:4 sparse bf16": n * k
                      + n * k // 8}, 2 * m * (n + k)
    rows = [(name, f"{size / 2**20:.1f}", f"{(weights['bf16'] + sides) / (size + sides):.2f}", f"{2 * m * n * k / (size + sides):.0f}") for name, size in weights.items()]
    return "\n".join([f"{m} rows of x, {n} x {k} weights, a scale for {group} columns", *text_table("{:16} {:>14} {:>24} {:>19}", rows, (
        "weights", "MiB of weights", "times fewer bytes in all", "operations per byte"))])


def choices_table(shapes: Sequence[tuple[int, int, int]] = ((16, 8192, 8192), (64, 8192, 8192), (16, 28672, 8192), (1024, 8192, 8192), (4096, 8192, 8192))) -> str:
    """The configuration that `choose` picks at a shape, with the CTAs that it launches."""
    rows = []
    for m, n, k in shapes:
        one = mixed.choose(m, n, k, 128)
        made = one.with_stages(one.bn * one.bk // 2 + 2 * one.bn)
        rows.append((f"{m} x {n} x {k}", f"{made.bm} x {made.bn}", made.bk, made.split, made.stages, made.tiles(m, n) * made.split, made.ctas))
    head = ("m x n x k", "tile of y (m x n)", "k-block", "split", "stages", "tiles x split", "CTAs per SM")
    return "\n".join(text_table("{:20} {:>17} {:>8} {:>6} {:>7} {:>14} {:>11}", rows, head))


def fp8_table() -> str:
    """Every pair of fp8 kinds: largest number, step above 1, and whether mixed/fp8_kinds.cu multiplies small integers exactly."""
    import hopperlab as hl
    import ml_dtypes

    xp = _fresh()
    types = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
    lines = [f"{kind}: largest {float(ml_dtypes.finfo(one).max):g}, step above 1: {float(ml_dtypes.finfo(one).eps):g}" for kind, one in types.items()]
    for kinds in (("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e5m2")):
        a, b = (np.random.default_rng(i).integers(-4, 5, (64, 256)).astype(types[kind]) for i, kind in enumerate(kinds))
        c = xp.zeros((64, 64), np.float32)
        with hl.emulate(hazards="collect") as run:
            mixed.fp8_kinds(xp.asarray(a.view(np.uint8)), xp.asarray(b.view(np.uint8)), c, kinds, backend="emulator")()
        exact = bool((np.asarray(c) == a.astype(np.float32) @ b.astype(np.float32).T).all())
        lines.append(f"{kinds[0]} x {kinds[1]}: exact: {exact}; {len(run.hazards)} hazards")
    return "\n".join(lines)


def launch_mixed(kind: str, group: int, m: int, order: str, landing: str) -> style.Picture:
    """The panel: a product with this kind of weights (of KINDS) in the emulator, and whose bits or metadata stand where. order: 'as prepared' or 'exchanged'."""
    wrong = order != "as prepared"
    if KINDS[kind]:
        right, run = run_int(KINDS[kind], group, m, landing, options=("-DBUG_NIBBLES=1",) if wrong else ())
    else:
        right, run = run_sparse(m, landing, options=("-DBUG_METADATA=1",) if wrong else ())
    found = run.hazards[0].kind if run.hazards else "no hazard"
    figure, (axis,) = style.new_figure(3.4)
    words = fields_axis(axis, KINDS[kind]) if KINDS[kind] else metadata_axis(axis)
    shape = f"{m} x {N} x {K}" + (f", a scale for {group} columns" if KINDS[kind] else "")
    heading = f"{kind}, {shape}: values {'right' if right else 'WRONG'}, {found}"
    style.title(axis, heading)
    each = {4: 0.5 + 2 / group, 8: 1 + 2 / group, 0: 1 + 1 / 8}[KINDS[kind]]
    told = f"{each:.3f} bytes a weight, {2 / each:.2f} times fewer than bf16"
    axis.set_xlabel(f"{axis.get_xlabel()}\n{told}", fontsize=9)
    return style.Picture(figure, "\n".join([heading, f"  {told}", *words]))


ANSWERS = {"a": ("the nibbles of every byte exchanged", True), "b": ("the scales of rows g and g + 8 exchanged", True),
           "c": ("wgmma_fence between the conversion and the product left out", False),
           "d": ("each lane holding the word of a lane that the other selector names", True), "e": ("a slot handed back before wait_group", False)}


def check_wrong(letters: str | None) -> str:
    """The lesson's exercise: which of ANSWERS does the emulator not name, since nothing is out of order?"""
    said = unreadable(letters, ANSWERS)
    if letters is None or said:
        return said
    for letter, (what, silent) in ANSWERS.items():
        if silent != (letter in letters):
            return f"Not yet: {letter}, {what}: " + ("every access is in order, and the numbers are wrong. Only a reference finds it." if silent
                                                     else "something is read or written too early, and the emulator names it.")
    return "Right: what stands in the wrong place is no race. A reference in NumPy, not a hazard checker, finds it."
