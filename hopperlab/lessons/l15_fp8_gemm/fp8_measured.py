# SPDX-License-Identifier: Apache-2.0
"""Lesson 15: what the tensor core's own fp8 sums lose, as a model and as recorded, and the recorded speed of the fp8 ladder.

The recording is `fp8`; a notebook passes it in. The model (`cut_sum`) is ours: NVIDIA documents no number of bits.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from ...measure import summaries
from ...measure.launches import fp8
from ...measure.recordings import Record
from ...runtime.tables import text_table
from ...show import charts, style

KINDS = {"normal": "normal", "positive": "positive", "outliers": "normal, outliers in A"}
WAYS = ("tensor core alone", "promoted")
LADDER = ("promoted", "staged_scales", "multicast", "overlapped", "final")
PEER = "cuBLASLt block-scaled"


def cut_sum(a: np.ndarray, b: np.ndarray, bits: int = 13, every: int = 0) -> np.ndarray:
    """a (m x k) times b (n x k) transposed, added up as the tensor core seems to add e4m3 products.

    One wgmma adds 32 products to the sum: all 33 numbers are aligned to the largest of them, and what lies below `bits` binary
    places of its exponent is cut off. every: columns after which the sum goes into a float64 one and starts from zero (0: never).
    """
    left, right = a.astype(np.float64), b.astype(np.float64)
    total = np.zeros((len(a), len(b)))
    part = np.zeros_like(total)
    for k in range(0, a.shape[1], 32):
        if every and k % every == 0:
            total, part = total + part, np.zeros_like(part)
        terms = np.concatenate([left[:, None, k:k + 32] * right[None, :, k:k + 32], part[:, :, None]], axis=2)
        _, exponent = np.frexp(np.abs(terms).max(axis=2, keepdims=True))
        unit = np.exp2(exponent - 1.0 - bits)                   # the last place that is kept
        part = (np.trunc(terms / unit) * unit).sum(axis=2)
    return total + part


def accuracy_operands(kind: str, k: int, rows: int = 24, seed: int = 15) -> tuple[np.ndarray, np.ndarray]:
    """Random operands (rows x k) in e4m3 of the kinds that were recorded: 'normal', 'positive', 'outliers' (each 512th column of A times 64)."""
    from ml_dtypes import float8_e4m3fn

    if kind not in KINDS:
        raise ValueError(f"no kind {kind!r}; there are: {', '.join(KINDS)}")
    random = np.random.default_rng([seed, k, len(kind)])
    a, b = random.standard_normal((rows, k)), random.standard_normal((rows, k))
    if kind == "positive":
        a, b = np.abs(a), np.abs(b)
    if kind == "outliers":
        a[:, ::512] *= 64
    return tuple(np.clip(x, -fp8.LARGEST, fp8.LARGEST).astype(float8_e4m3fn) for x in (a, b))


def mean_error(c: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Mean distance of c, rounded to bf16, from the float64 product, over that product's root mean square."""
    from ml_dtypes import bfloat16

    exact = a.astype(np.float64) @ b.astype(np.float64).T
    return float(np.abs(c.astype(bfloat16).astype(np.float64) - exact).mean() / np.sqrt((exact ** 2).mean()))


def emulated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a times b transposed by fp8/tensor_scale.cu, without promotion, in the emulator."""
    from ml_dtypes import bfloat16

    import hopperlab as hl

    c = np.zeros((len(a), len(b)), bfloat16)
    launch = fp8.tensor_scale(a, b, c, backend="emulator")
    with hl.emulate():
        launch()
    return c


def sums_beside(kind: str = "positive", k: int = 1024) -> str:
    """Mean error without promotion: in the emulator, and of the model."""
    a, b = accuracy_operands(kind, k)
    sums = {"emulator, sums in fp32": emulated(a, b), "model, 13 places kept": cut_sum(a, b), "model, promoted each 128 columns": cut_sum(a, b, every=128)}
    return "\n".join(text_table("{:34} {:.2f} %", [(name, 100 * mean_error(c, a, b)) for name, c in sums.items()]))


def every_table(kind: str = "positive", k: int = 4096) -> str:
    """The model's mean error by how often the sum is promoted, and the fp32 additions a thread makes for it, each wgmma of 128 columns."""
    a, b = accuracy_operands(kind, k)
    rows = [(f"{every} columns" if every else "never", 100 * mean_error(cut_sum(a, b, every=every), a, b), 1000 / (every or k)) for every in (32, 128, 512, 2048, 0)]
    heading = f"k = {k}, {KINDS[kind]}: promoted each   mean error   fp32 operations for 1000 products"
    return "\n".join([heading, *text_table("{:>36}   {:8.2f} %   {:8.1f}", rows)])


def _accuracy(recording: Any, way: str, kind: str) -> list[Record]:
    return sorted((r for r in recording.where(kernel="accuracy") if r.options == (way, kind)), key=lambda record: record.shape[2])


def accuracy_chart(recording: Any) -> style.Picture:
    """Recorded mean error over k, for three kinds of operands: the tensor core's own sums, promoted sums, and the model beside them."""
    figure, axes = style.new_figure(3.7, columns=3)
    words = [f"Mean error of a product against float64, in % of its root mean square; {recording.source}"]
    for axis, (kind, name) in zip(axes, KINDS.items(), strict=True):
        for way, colour, marker in ((WAYS[0], style.VERMILION, "s"), (WAYS[1], style.BLUE, "o")):
            found = _accuracy(recording, way, kind)
            axis.plot([r.shape[2] for r in found], [100 * r.value for r in found], color=colour, marker=marker, linewidth=2, label=f"{way}, recorded")
            words.append(f"  {name}, {way}: " + ", ".join(f"k = {r.shape[2]}: {100 * r.value:.2f}" for r in found))
        depths = [r.shape[2] for r in found]
        modelled = [100 * mean_error(cut_sum(*operands), *operands) for operands in (accuracy_operands(kind, k) for k in depths)]
        axis.plot(depths, modelled, color=style.BLACK, linestyle="--", marker="x", linewidth=1.2, label="model: 13 places kept")
        words.append(f"  {name}, model: " + ", ".join(f"k = {k}: {value:.2f}" for k, value in zip(depths, modelled, strict=True)))
        axis.set(xscale="log", yscale="log", ylim=(0.05, 50), xlabel="k")
        axis.set_xticks([128, 1024, 8192], ["128", "1024", "8192"])
        axis.set_yticks([0.1, 1, 10], ["0.1", "1", "10"] if axis is axes[0] else ["", "", ""])
        axis.minorticks_off()
        axis.grid(True, color=style.EMPTY)
        style.title(axis, name)
    axes[0].set_ylabel("mean error (%)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=9, frameon=False, ncols=3, loc="outside upper center")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    return style.Picture(figure, "\n".join(words), style.FEWER)


def accuracy_table(recording: Any, k: int = 4096) -> str:
    """The recorded errors at one k: mean and worst, by kind of operands, without promotion and with it."""
    rows = []
    for kind, name in KINDS.items():
        for way in WAYS:
            record = next(r for r in _accuracy(recording, way, kind) if r.shape[2] == k)
            rows.append((f"{name}: {way}", 100 * record.value, 100 * record.value_max))
    return "\n".join([f"k = {k}, {recording.source}", *text_table("{:42} {:8.2f} {:8.2f}", rows, ("error, % of the root mean square", "mean", "worst"))])


def _at(recording: Any, kernel: str, shape: tuple[int, ...]) -> Record | None:
    return next((r for r in recording.where(kernel=kernel, shape=shape) if not r.note), None)


def speed_left(recording: Any, size: int = 8192) -> float:
    """The last step's rate in per cent of the product's with one scale and no promotion, at size³."""
    shape = (size,) * 3
    return 100 * _at(recording, "final", shape).tflops / _at(recording, "tensor_scale", shape).tflops


def fp8_table(recording: Any) -> str:
    """Each step at the cubes where it was recorded: its rate, and its share of cuBLASLt's rate in the same rounds with lowest and highest round."""
    shapes = sorted({r.shape for r in recording.where(kernel="overlapped")})
    rows = []
    for name in ("tensor_scale", *LADDER, PEER, "cuBLASLt tensor-wise", "DeepGEMM"):
        found = [_at(recording, name, shape) for shape in shapes]
        if not any(found):                                       # DeepGEMM is recorded where it is installed
            continue
        cells = [f"{r.tflops:.0f}" + ("" if name.startswith("cuBLASLt") else f"  {r.ratio:.3f} ({r.ratio_min:.3f} to {r.ratio_max:.3f})") if r else "–" for r in found]
        rows.append((name, *cells))
    lines = text_table("{:24}" + "{:>30}" * len(shapes), rows, ("TFLOP/s (share of cuBLASLt)", *(f"{shape[0]}³" for shape in shapes)))
    return "\n".join([recording.source, *lines, "tensor_scale is compared with cuBLASLt's tensor-wise product, which has one scale too;",
                      "the others with its block-scaled one."])


def fp8_chart(recording: Any, size: int = 8192) -> style.Picture:
    """A bar a step at size³, in climbing order, between the product with one scale and cuBLASLt's block-scaled one."""
    found = {name: _at(recording, name, (size,) * 3) for name in ("tensor_scale", *LADDER, PEER)}
    names = {"tensor_scale": "tensor_scale (one scale)", PEER: f"{PEER} (peer)"}
    return charts.bars({names.get(name, name): r.tflops for name, r in found.items() if r}, "rate (TFLOP/s)", f"e4m3 product of {size}³", recording.source,
                       best=names[PEER])


def tiles_table(recording: Any, shape: tuple[int, int, int] = (8192,) * 3) -> str:
    """Recorded configurations at one shape, fastest first, by tile, parts, sharing of A and k-blocks in a row: rate over the product's with one scale."""
    base = _at(recording, "tensor_scale", shape).tflops
    best: dict[str, Record] = {}
    for record in recording.where(kernel="block_scaled", shape=shape):
        choice = fp8.parsed(record.options)
        kind = (f"{choice.bm} x {choice.bn}, {choice.parts} part{'s' * (choice.parts > 1)}, A {'for a pair' if choice.cluster_n > 1 else 'for itself'}"
                + f", {choice.unroll} k-blocks in a row" * (choice.unroll > 1))
        if kind not in best or record.tflops > best[kind].tflops:
            best[kind] = record
    rows = [(kind, record.tflops, 100 * record.tflops / base) for kind, record in sorted(best.items(), key=lambda item: -item[1].tflops)]
    return "\n".join([f"{_x(shape)}, {recording.source}", *text_table("{:58} {:7.0f}  {:8.0f} %", rows, ("tile, best of its kind", "TFLOP/s", "of one scale's"))])


def once_table(recording: Any, shape: tuple[int, int, int] = (128, 7168, 18432)) -> str:
    """A product one tile high, whose B is read once: the best configuration with B's lines in the L2 like all others, and with B's lines leaving first."""
    rows = []
    for stream, words in ((0, "B like all others"), (1, "B's lines leave the L2 first")):
        found = [r for r in recording.where(kernel="block_scaled", shape=shape) if fp8.parsed(r.options).stream_b == stream]
        best = max(found, key=lambda record: record.tflops)
        rows.append((words, 1e3 * best.ms, best.ratio, best.ratio_min, best.ratio_max))
    return "\n".join([f"{_x(shape)}, {recording.source}", *text_table("{:30} {:6.1f} us  {:.3f} ({:.3f} to {:.3f}) of cuBLASLt's speed", rows)])


def beside_table(recording: Any) -> str:
    """wgmma of 64 x N x 32 on one SM, alone and while TMA writes into its shared memory: cycles of one, bytes it reads a cycle, bytes written a cycle."""
    rows = []
    for n in sorted({r.shape[1] for r in recording.where(kernel="wgmma_beside_copies")}):
        found = {r.options[1:]: r.value for r in recording.where(kernel="wgmma_beside_copies", shape=(64, n, 32))}
        (copying,) = {copies for copies, _ in found if copies != "COPY_BYTES=0"}
        beside = found[copying, "wgmma"]
        rows.append((f"64 x {n} x 32", found["COPY_BYTES=0", "wgmma"], beside, (64 + n) * 32 / beside, found[copying, "copied"]))
    head = ("e4m3 wgmma of two warpgroups", "alone", "beside copies", "read a cycle", "written a cycle")
    return "\n".join([recording.source, *text_table("{:30} {:5.1f} cycles {:7.1f} cycles {:7.1f} bytes {:10.1f} bytes", rows, head)])


def _x(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))


def grouped_table(recording: Any) -> str:
    """The product of many groups in one launch, our kernel launched once per group, and cuBLASLt's once per group, in the same rounds."""
    names = {"grouped": "one launch for all groups", "a launch per group": "a launch per group, ours", "cuBLASLt a launch per group": "a launch per group, cuBLASLt"}
    found = {name: recording.one(kernel=kernel) for kernel, name in names.items()}
    record = next(iter(found.values()))
    rows = [(name, r.tflops, r.ratio, r.ratio_min, r.ratio_max) for name, r in found.items()]
    return "\n".join([f"{record.options[0].removeprefix('GROUPS=')} groups, together {_x(record.shape)}, {recording.source}",
                      *text_table("{:28} {:5.0f} TFLOP/s, {:.2f} ({:.2f} to {:.2f}) of cuBLASLt's", rows)])


def geometric_mean(recording: Any) -> tuple[float, int]:
    """(geometric mean of the last step's share of cuBLASLt's block-scaled rate over the recorded shapes, how many there are)."""
    found = summaries.of_records(r for r in recording.where(kernel="final") if not r.note)
    return found.mean, found.count
