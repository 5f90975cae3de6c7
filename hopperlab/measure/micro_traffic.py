"""What the L2 delivers when the CTAs of a cluster read the same boxes: counted by Nsight Compute, which must be installed.

`python -m hopperlab.measure.micro_traffic` is the process that ncu watches: it launches every variant once.
"""
from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import micro_launches as micro
from .profile import parse
from .recordings import Record

BOXES, ROWS, COLUMNS, BLOCKS, PASSES = 128, 64, 256, 128, 8
VARIANTS = tuple((size, shared) for size in (1, 2, 4, 8) for shared in (False, True) if size > 1 or not shared)
METRICS = {
    "lts__t_sectors_srcunit_tex_op_read.sum": "sectors of 32 bytes read from the L2",
    "lts__t_requests_srcunit_tex_op_read.sum": "read requests to the L2",
    "l1tex__m_xbar2l1tex_read_bytes.sum": "bytes that reached the multiprocessors",
    "dram__bytes_read.sum": "bytes read from the memory",
}


def launches() -> None:
    """Launch every variant once, in the order of VARIANTS."""
    import cupy

    matrix = cupy.random.default_rng(1).integers(0, 1 << 16, (ROWS * BOXES, COLUMNS), dtype=cupy.uint16)
    for size, shared in VARIANTS:
        micro.multicast(matrix, size, shared, BLOCKS, passes=PASSES, backend="gpu")()
    cupy.cuda.runtime.deviceSynchronize()


def arriving(size: int) -> int:
    """Bytes that arrive in shared memory, all CTAs together: each cluster's boxes in each of its CTAs."""
    return BOXES * size * PASSES * ROWS * COLUMNS * 2


def measure(_rounds: int) -> list[Record]:
    """Sectors and requests of the L2 by cluster size, with and without multicast; one record that says so without ncu."""
    ncu = shutil.which("ncu")
    if ncu is None:
        return [Record("multicast_traffic", "multicast_load", note="Nsight Compute (ncu) is not installed: nothing was counted")]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        watched = [sys.executable, "-m", "hopperlab.measure.micro_traffic"]
        options = ["--clock-control", "none", "--kernel-name", "multicast_load", "--csv", "--page", "raw"]
        options += ["--metrics", ",".join(METRICS)]
        done = subprocess.run(
            [ncu, *options, "--log-file", str(log), *watched],
            env={**os.environ, "HOPPERLAB_BACKEND": "gpu"},
            capture_output=True,
            text=True,
        )
        rows = parse(log.read_text()) if log.exists() else []
    if len(rows) != len(VARIANTS):
        told = f"{len(rows)} launches of {len(VARIANTS)}: {done.stdout[-300:]} {done.stderr[-300:]}"
        raise RuntimeError(f"ncu ended with code {done.returncode} and {told}")
    return records(rows)


def records(rows: list[dict[str, str]]) -> list[Record]:
    """A record for each metric of each launch, in the order of VARIANTS; one that this ncu does not know is left out."""
    found = []
    for (size, shared), row in zip(VARIANTS, rows, strict=True):
        for metric, unit in METRICS.items():
            text = row.get(metric, "").replace(",", "")
            if not text or not text.replace(".", "").isdigit():
                continue
            value = float(text)
            found.append(
                Record(
                    "multicast_traffic",
                    "multicast_load",
                    (f"CLUSTER={size}", f"MULTICAST={int(shared)}", f"metric={metric}"),
                    value=value,
                    value_min=value,
                    value_max=value,
                    unit=unit,
                    note=f"{arriving(size)} bytes arrive in shared memory",
                )
            )
    return found


if __name__ == "__main__":
    launches()
