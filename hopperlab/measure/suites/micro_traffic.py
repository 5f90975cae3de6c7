# SPDX-License-Identifier: Apache-2.0
"""Micro-experiments that Nsight Compute counts, which must be installed: the L2's traffic with multicast, issue slots of the 2x2.

`python -m hopperlab.measure.suites.micro_traffic NAME` is the process that ncu watches: it launches every variant of NAME once.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..launches import variants
from ..launches import micro
from ..launches.operands import normal_bf16
from ..profile.ncu import parse
from ..recordings import Record

BOXES, ROWS, COLUMNS, BLOCKS, PASSES = 128, 64, 256, 128, 8
CLUSTERS = tuple((size, shared) for size in (1, 2, 4, 8) for shared in (False, True) if size > 1 or not shared)
TRAFFIC = {
    "lts__t_sectors_srcunit_tex_op_read.sum": "sectors of 32 bytes read from the L2",
    "lts__t_requests_srcunit_tex_op_read.sum": "read requests to the L2",
    "l1tex__m_xbar2l1tex_read_bytes.sum": "bytes that reached the multiprocessors",
    "dram__bytes_read.sum": "bytes read from the memory",
}
PRODUCT = (4096, 4096, 4096)
SLOTS = {
    "smsp__inst_executed.sum": "warp instructions",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "percent of issue slots used",
    "sm__cycles_active.max": "cycles",
    "lts__t_sectors_srcunit_tex_op_read.sum": "sectors of 32 bytes read from the L2",
}


def _clusters() -> None:
    import cupy

    matrix = cupy.random.default_rng(1).integers(0, 1 << 16, (ROWS * BOXES, COLUMNS), dtype=cupy.uint16)
    for size, shared in CLUSTERS:
        micro.multicast(matrix, size, shared, BLOCKS, passes=PASSES, backend="gpu")()


def _products() -> None:
    import cupy

    m, n, k = PRODUCT
    a, b, c = normal_bf16(cupy, (m, k), 1), normal_bf16(cupy, (n, k), 2), cupy.empty((m, n), cupy.uint16)
    for make in variants.TWO_BY_TWO.values():
        make(a, b, c, stages=3, blocks=2, backend="gpu")()


LAUNCHES: Mapping[str, Callable[[], None]] = {"multicast_load": _clusters, "gemm": _products}
"""Kernel name -> what launches its variants once each."""


def arriving(size: int) -> int:
    """Bytes that arrive in shared memory, all CTAs together: each cluster's boxes in each of its CTAs."""
    return BOXES * size * PASSES * ROWS * COLUMNS * 2


def _ncu(ncu: str, kernel: str, metrics: Sequence[str]) -> tuple[list[dict[str, str]], str]:
    """ncu's rows for the launches of `kernel`, and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        options = ["--clock-control", "none", "--kernel-name", kernel, "--csv", "--page", "raw", "--metrics", ",".join(metrics)]
        watched = [sys.executable, "-m", "hopperlab.measure.suites.micro_traffic", kernel]
        environment = {**os.environ, "HOPPERLAB_BACKEND": "gpu"}
        done = subprocess.run([ncu, *options, "--log-file", str(log), *watched], env=environment, capture_output=True, text=True)
        text = log.read_text() if log.exists() else ""
    return parse(text), f"code {done.returncode}: {text[-300:]} {done.stderr[-300:]}"


def counted(kernel: str, metrics: Mapping[str, str], count: int) -> list[dict[str, str]] | None:
    """ncu's row of each of the `count` launches of `kernel`; None where ncu is not installed.

    A metric that this ncu does not know is left out. Raises RuntimeError when ncu counts nothing.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        return None
    rows, told = _ncu(ncu, kernel, list(metrics))
    if len(rows) == count:
        return rows
    rows = [{} for _ in range(count)]
    for metric in metrics:                                  # one of them may be unknown: each for itself
        alone, told = _ncu(ncu, kernel, [metric])
        for row, found in zip(rows, alone, strict=False):
            row.update(found)
    if not any(rows):
        raise RuntimeError(f"ncu counted no launch of {kernel}, {told}")
    return rows


def records(
    suite: str, kernel: str, named: Sequence[tuple[str, ...]], notes: Sequence[str], metrics: Mapping[str, str], rows: list | None
) -> list[Record]:
    """A record for each metric of each launch; `named` are the launches' options. Without ncu one record that says so."""
    if rows is None:
        return [Record(suite, kernel, note="Nsight Compute (ncu) is not installed: nothing was counted")]
    found = []
    for options, note, row in zip(named, notes, rows, strict=True):
        for metric, unit in metrics.items():
            text = row.get(metric, "").replace(",", "")
            if text.replace(".", "").isdigit():
                value = float(text)
                spread = {"value": value, "value_min": value, "value_max": value}
                found.append(Record(suite, kernel, (*options, f"metric={metric}"), **spread, unit=unit, note=note))
    return found


def multicast(_rounds: int) -> list[Record]:
    """Sectors and requests of the L2 by cluster size, with and without multicast."""
    named = [(f"CLUSTER={size}", f"MULTICAST={int(shared)}") for size, shared in CLUSTERS]
    notes = [f"{arriving(size)} bytes arrive in shared memory" for size, _ in CLUSTERS]
    rows = counted("multicast_load", TRAFFIC, len(CLUSTERS))
    return records("multicast_traffic", "multicast_load", named, notes, TRAFFIC, rows)


def issue_slots(_rounds: int) -> list[Record]:
    """Machine instructions and issue slots of the 2x2 at 4096 cubed, three stages, two blocks a multiprocessor."""
    named = [(f"copy={copied}", f"multiply={multiplied}", "STAGES=3") for copied, multiplied in variants.TWO_BY_TWO]
    rows = counted("gemm", SLOTS, len(named))
    return records("issue_slots", "gemm", named, ["4096 x 4096 x 4096, bf16"] * len(named), SLOTS, rows)


if __name__ == "__main__":
    LAUNCHES[sys.argv[1]]()
    import cupy

    cupy.cuda.runtime.deviceSynchronize()
