# SPDX-License-Identifier: Apache-2.0
"""Lesson 15: the e4m3 format as a picture, operands with outliers, scales shared by more or fewer numbers, and the panel that runs
fp8/promoted.cu with them in the emulator.

The kernel always reads a scale for each 1 x 128 of A and 128 x 128 of B; a coarser choice repeats one number.
"""
from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from ...measure.launches import fp8
from ...runtime.tables import text_table
from ...show import style

SCALES = {"one per matrix": "one", "one per row of A, one per 128 rows of B": "row", "1 x 128 of A, 128 x 128 of B": "block"}
OUTLIERS = ("8 single elements of A", "every 16th row of A", "one k-block of A, B as much smaller")
SMALLEST_NORMAL, SMALLEST = 2.0 ** -6, 2.0 ** -9                # of e4m3
FATES = ("kept: error at most 1/16", "few bits left: error over 1/16", "became zero")
FATE_COLOURS = (style.EMPTY, style.ORANGE, style.BLACK)

Operands = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def relative_error(values: np.ndarray) -> np.ndarray:
    """|e4m3(x) - x| / |x| of positive numbers: 1 where x becomes zero, infinite where it becomes NaN (beyond 448 and its rounding)."""
    from ml_dtypes import float8_e4m3fn

    back = values.astype(float8_e4m3fn).astype(np.float64)
    return np.where(np.isnan(back), np.inf, np.abs(back - values) / values)


def worst_errors() -> dict[int, float]:
    """Power p -> the largest relative error of rounding a number from 2^p up to 2^(p + 1), or up to 448, to e4m3."""
    found = {}
    for power in range(-12, 9):
        inside = 2.0 ** power * (1 + np.arange(4096) / 4096)
        found[power] = float(relative_error(inside[inside <= fp8.LARGEST]).max())
    return found


def e4m3_chart() -> style.Picture:
    """The largest relative error of rounding to e4m3 by the magnitude of a number, a bar a power of two."""
    figure, (axis,) = style.new_figure(2.7)
    worst = worst_errors()
    colours = [style.BLUE if 2.0 ** power >= SMALLEST_NORMAL else style.ORANGE if 2.0 ** power >= SMALLEST else style.BLACK for power in worst]
    axis.bar([power + 0.5 for power in worst], [100 * error for error in worst.values()], width=0.94, color=colours)
    for power, error in [item for item in worst.items() if item[0] <= np.log2(SMALLEST_NORMAL)]:
        axis.text(power + 0.5, 100 * error + 1.5, f"{100 * error:.0f}", ha="center", fontsize=9, color=style.INK)
    axis.set(xlabel="magnitude of a number after scaling (power of two; the last bar ends at 448)", ylabel="largest error (%)", xlim=(-12, 9), ylim=(0, 112))
    axis.set_xticks(range(-12, 10, 3))
    keys = ((style.BLACK, "zero, or the smallest number"), (style.ORANGE, "subnormal"), (style.BLUE, "normal: three bits kept"))
    axis.legend(handles=[Patch(facecolor=colour, label=name) for colour, name in keys], fontsize=9, frameon=False, loc="upper right")
    style.title(axis, "What e4m3 keeps of a number")
    words = ["The largest relative error of rounding to e4m3, by power of two"] + [f"  from 2^{power}: {100 * error:.1f} %" for power, error in worst.items()]
    return style.Picture(figure, "\n".join([*words, "  beyond 448: NaN"]), style.FEWER)


def outlying(where: str, power: int, k: int, seed: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Normal operands a (128 x k), b (128 x k) in float32, some of them times 2^power: where of OUTLIERS. Raises ValueError for another place."""
    if where not in OUTLIERS:
        raise ValueError(f"no place {where!r}; there are: {', '.join(OUTLIERS)}")
    random = np.random.default_rng([seed, k])
    a, b = random.standard_normal((128, k)), random.standard_normal((128, k))
    if where == OUTLIERS[0]:
        a[random.choice(128, 8, replace=False), random.choice(k, 8, replace=False)] *= 2.0 ** power
    elif where == OUTLIERS[1]:
        a[::16] *= 2.0 ** power
    else:
        a[:, -fp8.BLOCK:] *= 2.0 ** power                       # channels that a network makes large in A and small in B
        b[:, -fp8.BLOCK:] /= 2.0 ** power
    return a.astype(np.float32), b.astype(np.float32)


def quantised(a: np.ndarray, b: np.ndarray, sharing: str) -> Operands:
    """(a8, b8, a_scales, b_scales) as fp8.quantise gives them, the scales shared by a matrix ('one'), a row of A and 128 rows of B
    ('row'), or 1 x 128 and 128 x 128 ('block')."""
    from ml_dtypes import float8_e4m3fn

    a8, b8, a_scales, b_scales = fp8.quantise(a, b)
    if sharing == "block":
        return a8, b8, a_scales, b_scales
    across = None if sharing == "one" else 0
    a_scales = np.broadcast_to(a_scales.max(axis=across, keepdims=True), a_scales.shape).copy()
    b_scales = np.broadcast_to(b_scales.max(axis=across if across is None else 1, keepdims=True), b_scales.shape).copy()
    (m, k), n = a.shape, len(b)
    of_a = a_scales[:, :m].T.repeat(fp8.BLOCK, 1)[:, :k]
    of_b = b_scales.repeat(fp8.BLOCK, 0)[:n].repeat(fp8.BLOCK, 1)[:, :k]
    return (a / of_a).astype(float8_e4m3fn), (b / of_b).astype(float8_e4m3fn), a_scales, b_scales


def fates(a: np.ndarray, a8: np.ndarray, a_scales: np.ndarray) -> np.ndarray:
    """For each element of A the index into FATES: what e4m3 with these scales keeps of it."""
    back = a8.astype(np.float64) * a_scales[:, :len(a)].T.repeat(fp8.BLOCK, 1)[:, :a.shape[1]]
    error = np.abs(back - a) / np.maximum(np.abs(a), np.finfo(np.float32).tiny)
    return np.where((back == 0) & (a != 0), 2, np.where(error > 1 / 16 + 1e-6, 1, 0))


def row_errors(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Each row's root mean square error over the root mean square of that row of the float64 product of the original operands."""
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    return np.sqrt(((c.astype(np.float64) - exact) ** 2).mean(1) / (exact ** 2).mean(1))


def run_scales(a: np.ndarray, b: np.ndarray, sharing: str, landing: str = "lazy") -> tuple[np.ndarray, Any, Operands]:
    """(C, session, quantised operands) of fp8/promoted.cu in the emulator. Raises OperandError for sizes that TMA does not take."""
    from ml_dtypes import bfloat16

    import hopperlab as hl

    given = quantised(a, b, sharing)
    c = np.full((len(a), len(b)), np.nan, bfloat16)
    launch = fp8.promoted(given[0], given[1], c, *given[2:], backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run:
        launch()
    return c, run, given


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def scales_table(power: int, k: int = 512) -> str:
    """For each place of outliers and each way to share scales: what became zero of A, and the typical and worst error of a row of C."""
    rows = []
    for where in OUTLIERS:
        a, b = outlying(where, power, k)
        rows.append((where, "", "", ""))
        for name, sharing in SCALES.items():
            c, _, given = run_scales(a, b, sharing)
            error = row_errors(c, a, b)
            lost = (fates(a, given[0], given[2]) == 2).mean()
            rows.append((f"  {name}", *(f"{100 * share:.1f} %" for share in (lost, np.median(error), error.max()))))
    head = ("scales", "zeros in A", "rows of C: typical", "worst error")
    return "\n".join([f"outliers 2^{power} times the rest; k = {k}", *text_table("{:38} {:>10} {:>20} {:>12}", rows, head)])


def launch_scales(scales: str, where: str, power: int, k: int) -> style.Picture:
    """The panel: operands with outliers 2^power times the rest, quantised with these scales, multiplied by fp8/promoted.cu in the emulator.

    Left: what became of each element of A; right: the error of each row of C. Raises OperandError for a k that TMA does not take.
    """
    a, b = outlying(where, power, max(k, fp8.BLOCK))
    a, b = np.ascontiguousarray(a[:, :k]), np.ascontiguousarray(b[:, :k])
    c, run, (a8, _, a_scales, b_scales) = run_scales(a, b, SCALES[scales])
    fate, error = fates(a, a8, a_scales), row_errors(c, a, b)
    figure, (left, right) = style.new_figure(4.1, columns=2, ratios=(1.5, 1))
    left.imshow(fate, cmap=ListedColormap(FATE_COLOURS), vmin=0, vmax=2, aspect="auto", interpolation="nearest")
    left.set(xlabel="column of A (k)", ylabel="row of A")
    left.set_xticks(range(0, k + 1, fp8.BLOCK))
    left.set_yticks(range(0, 129, 32))
    right.semilogx(np.maximum(100 * error, 0.1), range(128), ".", color=style.BLUE, markersize=4)
    right.set(xlabel="error of the row of C (%)", ylabel="row of C", xlim=(0.1, 300), ylim=(127.5, -0.5))
    right.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    right.set_yticks(range(0, 129, 32))
    right.grid(True, axis="x", color=style.EMPTY)
    shares = [(fate == i).mean() for i in range(3)]
    keys = [Patch(facecolor=colour, edgecolor=style.FAINT, label=f"{name} ({100 * share:.1f} %)") for colour, name,
            share in zip(FATE_COLOURS, FATES, shares, strict=True)]
    figure.legend(handles=keys, fontsize=9, frameon=False, ncols=3, loc="outside lower center", columnspacing=1.0, handletextpad=0.5)
    style.title(left, "What e4m3 keeps of A")
    style.title(right, f"C: typical {_percent(np.median(error))}, worst {_percent(error.max())}")
    distinct = f"{len(np.unique(a_scales[:, :128]))} and {len(np.unique(b_scales))}"
    found = run.hazards[0].kind if run.hazards else "no hazard"
    words = [f"Scales: {scales}; outliers: {where}, 2^{power} times the rest; k = {k}; {found}", f"  different scales of A and B: {distinct}"]
    words += [f"  A, {name}: {100 * share:.1f} %" for name, share in zip(FATES, shares, strict=True)]
    words.append(f"  error of a row of C: typical {100 * np.median(error):.1f} %, worst {100 * error.max():.1f} %")
    return style.Picture(figure, "\n".join(words), style.FEWER)
