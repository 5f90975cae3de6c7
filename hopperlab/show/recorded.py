"""Recorded measurements as pictures and tables. Each carries the line that says which GPU, driver and date they came from.

The reader is `measure.load`; a notebook passes the Recording in, so that its outputs are stale when the recording changes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from . import charts
from .style import Picture

NAMES = {"mma_multistage": "cp.async + mma.sync", "tma_wgmma": "TMA + wgmma", "warp_specialized": "TMA + wgmma, warp-specialised", "cuBLAS": "cuBLAS"}
PEAKS = {"bfloat16": "bf16 tensor core", "float16": "fp16 tensor core", "tf32": "tf32 tensor core", "float32": "fp32"}
FOLDS = ("kernel_1", "kernel_2", "kernel_3", "kernel_4")


def ceilings(recording: Any, dtypes: tuple[str, ...] = ("bfloat16", "float32")) -> tuple[dict[str, float], float]:
    """(name -> TFLOP/s of the best product, TB/s of the best copy) from the recording `ceilings`."""
    products = {record.dtype: record.tflops for record in recording.where(kernel="cuBLAS product")}
    copied = recording.one(kernel="device copy").gb_s / 1000
    return {PEAKS[dtype]: products[dtype] for dtype in dtypes if dtype in products}, copied


def _option(record: Any, name: str) -> int:
    """The number after `name=` in the record's options; 0 where it has none."""
    found = [option.split("=")[1] for option in record.options if option.startswith(name + "=")]
    return int(found[0]) if found else 0


def _label(record: Any) -> str:
    name = NAMES.get(record.kernel, record.kernel)
    return f"{name}, {_option(record, 'BM')}x{_option(record, 'BN')}" if _option(record, "BN") else name


def stages_chart(recording: Any, kernels: tuple[str, ...] = ("mma_multistage",)) -> Picture:
    """Rate against the number of stages for each kernel and tile, with cuBLAS in the same run as a level line."""
    chosen = [record for record in recording if record.kernel in kernels]
    depths = sorted({_option(record, "STAGES") for record in chosen})
    series: dict[str, list[float | None]] = {}
    for record in chosen:
        row = series.setdefault(_label(record), [None] * len(depths))
        row[depths.index(_option(record, "STAGES"))] = record.tflops
    for record in recording.where(kernel="cuBLAS"):
        series["cuBLAS"] = [record.tflops] * len(depths)
    shape = chosen[0].shape
    return charts.lines(depths, series, "stages in the ring", "rate (TFLOP/s)", f"bf16 product of {shape[0]}³ by depth of the ring", recording.source)


def best_depth(recording: Any, kernel: str = "mma_multistage") -> str:
    """For each tile of `kernel`: the depth with the highest rate, and the least depth within 2 % of it, in words."""
    lines = []
    labels = list(dict.fromkeys(_label(record) for record in recording.where(kernel=kernel)))
    for label in labels:
        rates = {_option(r, "STAGES"): r.tflops for r in recording.where(kernel=kernel) if _label(r) == label}
        best = max(rates, key=rates.__getitem__)
        enough = min(depth for depth, rate in rates.items() if rate >= 0.98 * rates[best])
        lines.append(f"{label}: fastest with {best} stages; {enough} are within 2 % of that")
    return "\n".join(lines)


def gemm_bars(recording: Any, shape: tuple[int, int, int] = (8192, 8192, 8192)) -> Picture:
    """One bar a kernel (its best variant) at one shape."""
    best: dict[str, float] = {}
    for record in recording.where(shape=shape):
        name = NAMES.get(record.kernel, record.kernel)
        best[name] = max(best.get(name, 0.0), record.tflops)
    ordered = dict(sorted(best.items(), key=lambda item: item[1]))
    return charts.bars(ordered, "rate (TFLOP/s)", f"bf16 product {' x '.join(map(str, shape))}", recording.source, best="cuBLAS")


def percent_of_peer(recording: Any, kernel: str, shape: tuple[int, int, int] = (8192, 8192, 8192)) -> float:
    """The best variant of `kernel` at `shape` as per cent of its peer's speed in the same interleaved rounds."""
    return 100 * max(record.ratio for record in recording.where(kernel=kernel, shape=shape))


def boxes_chart(recording: Any) -> Picture:
    """Load bandwidth against box size: one thread with TMA, 128 threads with cp.async; one block an SM, and as many as fit."""
    boxes = sorted({record.shape for record in recording}, key=lambda box: (box[0] * box[1], box[1]))
    series: dict[str, list[float | None]] = {}
    for record in recording:
        crowd = "1 block an SM" if _option(record, "blocks_per_sm") == 1 else "as many blocks as fit"
        who = "TMA, 1 thread issues" if record.kernel == "tma_load" else "cp.async, 128 threads issue"
        series.setdefault(f"{who}, {crowd}", [None] * len(boxes))[boxes.index(record.shape)] = record.gb_s
    ticks = [f"{rows}x{columns}\n{rows * columns * 2 // 1024 or rows * columns * 2 / 1024:g} KiB" for rows, columns in boxes]
    return charts.lines(range(len(boxes)), dict(sorted(series.items())), "box (rows x bf16 columns, bytes)", "bandwidth (GB/s read)",
                        "Loading boxes into shared memory", recording.source, ticks=ticks)


def boxes_table(recording: Any) -> str:
    """Registers and instructions of both loaders, and the ratio of their bandwidths at the smallest box and at the largest, in words."""
    lines = [recording.source]
    for kernel, who in (("tma_load", "TMA"), ("cp_async_load", "cp.async")):
        registers = sorted({record.registers for record in recording.where(kernel=kernel)})
        lines.append(f"{who}: {' or '.join(map(str, registers))} registers in each of 128 threads")
    ordered = sorted(recording.where(kernel="tma_load"), key=lambda r: (r.shape[0] * r.shape[1], _option(r, "blocks_per_sm")))
    for rows, columns in sorted({record.shape for record in (ordered[0], ordered[-1])}):
        lines.append(f"box of {rows} x {columns} bf16: {rows * columns // 8} cp.async of 16 bytes, or 1 TMA copy")
    for record in (*ordered[:2], ordered[-1]):
        blocks = _option(record, "blocks_per_sm")
        lines.append(f"box of {record.shape[0]} x {record.shape[1]}, {blocks} block{'s' if blocks > 1 else ''} an SM: "
                     f"TMA loads at {record.ratio:.2f} times the bandwidth of cp.async")
    return "\n".join(lines)


def bugs_table(recording: Any, kernel: str) -> str:
    """What the GPU did with each planted bug of `kernel`: how many launches were wrong, and the largest share of wrong elements."""
    lines = [recording.source, f"{'planted bug':28s} {'outcome':16s} launches"]
    for record in recording.where(kernel=kernel, suite="bugs"):
        count = f"{record.wrong} of {record.runs} wrong" if record.wrong is not None else record.note
        share = f", up to {100 * record.worst:.3g} % of the elements" if record.wrong else ""
        lines.append(f"{record.options[0]:28s} {record.outcome:16s} {count}{share}")
    return "\n".join(lines)


def folds_table(recording: Any) -> str:
    """How often the four kernels of lesson 00 were wrong on the GPU, by number of blocks."""
    lines = [recording.source, f"{'':10s} {'blocks':>7s}  wrong launches"]
    for kernel in FOLDS:
        for record in recording.where(kernel=kernel, suite="start_here"):
            count = f"{record.wrong} of {record.runs}" if record.wrong is not None else record.note
            lines.append(f"{kernel.replace('_', ' '):10s} {_option(record, 'blocks'):7d}  {count}")
    return "\n".join(lines)


def timing_lesson(recording: Any) -> str:
    """Lesson 00: one copy timed four ways on this GPU, or, without one, the spread of the recorded copies."""
    import hopperlab as hl

    if hl.backend() == "gpu":
        return _timed_here()
    lines = ["No GPU here, so no launch to time. " + recording.source + ":", "median, least and greatest time of single launches, cold L2, copying 1 GiB:"]
    for record in recording:
        name = f"{record.kernel} {' '.join(record.options)}".strip()
        lines.append(f"  {name:58s} {record.ms:.4f} ms ({record.ms_min:.4f} to {record.ms_max:.4f}) {record.gb_s:5.0f} GB/s")
    return "\n".join(lines)


def _timed_here() -> str:
    import cupy

    from ..measure import launches, timing

    source = cupy.zeros(1 << 24, dtype=cupy.uint8)
    run = launches.vector_copy(source, cupy.empty_like(source)).bound()
    wait = cupy.cuda.runtime.deviceSynchronize
    wait()
    ways = {"host clock, no synchronise (the bug)": _host(run, lambda: None), "host clock, synchronised": _host(run, wait),
            "events, warm L2": timing.interleaved({"x": run}, 21, 3, cold=False)["x"].ms,
            "events, cold L2": timing.interleaved({"x": run}, 21, 3)["x"].ms}
    wait()
    lines = ["copying 16 MiB on this GPU, median of 21 launches:"]
    return "\n".join(lines + [f"  {name:38s} {ms:.4f} ms = {2 * source.nbytes / ms / 1e6:8.0f} GB/s" for name, ms in ways.items()])


def _host(run: Callable[[], None], wait: Callable[[], Any]) -> float:
    times = []
    for _ in range(21):
        began = time.perf_counter()
        run()
        wait()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)
