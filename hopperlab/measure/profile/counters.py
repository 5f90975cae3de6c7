# SPDX-License-Identifier: Apache-2.0
"""The emulator's counters beside Nsight Compute's, launch by launch: `hopperlab profile SCRIPT.py`.

The script runs twice: in the emulator, and on the GPU under ncu. Only counts that both sides have are compared; times and
instruction counts never are. `python -m hopperlab.measure.profile.counters` is the emulator's child process.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ...runtime.tables import text_table
from . import ncu
from .ncu import ProfileError

EQUAL, DIFFERENT, NOT_MEASURED = 0, 1, 2
METRICS = {
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "global_load_requests + cp_async_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors + cp_async_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "tma_load_bytes + bulk_load_bytes": "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",
    "tma_store_bytes + bulk_store_bytes": "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",
    "tma_reduce_bytes + bulk_reduce_bytes": "l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_red.sum",
    "dsmem_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_dshared_op_ld.sum",
    "dsmem_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_dshared_op_st.sum",
    "dsmem_copy_bytes": "l1tex__m_l1tex2xbar_write_bytes_mem_dshared_op_tma_st.sum",
    "dsmem_reduce_bytes": "l1tex__m_l1tex2xbar_write_bytes_mem_dshared_op_tma_red.sum",
    "shared_atomic_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum",
    "shared_atomic_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum",
    "wgmma_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",
}
"""Counter of the emulator (or a sum of two) -> metric of Nsight Compute that must be equal. Nsight Compute counts cp.async among
the loads of global memory, and ldmatrix among those of shared memory (seen on an H200)."""
BESIDE = ("l1tex__m_xbar2l1tex_read_bytes.sum", "l1tex__m_l1tex2xbar_write_bytes.sum")
"""Recorded beside them and not compared: all bytes between L2 and the SMs, whatever engine moved them and less what L1 served."""


@dataclass
class Row:
    """One launch: counts of the emulator and of the GPU by counter name (gpu is None where it was not measured)."""

    kernel: str
    emulator: dict[str, int]
    gpu: dict[str, int] | None = None
    beside: dict[str, int] = field(default_factory=dict)

    def differing(self) -> list[str]:
        """Counters that are not equal."""
        return [] if self.gpu is None else [n for n, amount in self.gpu.items() if amount != self.counted(n)]

    def counted(self, names: str) -> int:
        """The emulator's count of a key of METRICS."""
        return sum(self.emulator.get(name, 0) for name in names.split(" + "))


def run(command: Sequence[str], module: bool = False, only_emulator: bool = False, out: Path | None = None) -> int:
    """The subcommand: prints a table, writes `out`, returns the exit code (0 equal, 1 different, 2 not measured)."""
    try:
        rows = [Row(kernel, counts) for kernel, counts in in_emulator(command, module)]
        if not only_emulator:
            attach(rows, on_gpu(command, module))
    except ProfileError as problem:
        print(f"hopperlab profile: {problem}", file=sys.stderr)
        return NOT_MEASURED
    print(table(rows))
    if out is not None:
        _write(as_dict(command, rows), out)
    if only_emulator:
        return EQUAL
    return DIFFERENT if any(row.differing() or row.gpu is None for row in rows) else EQUAL


def _write(told: dict, out: Path) -> None:
    """Into the board's folder, where hopperlab/recordings is asked for."""
    from ..recordings import shelf
    folder = shelf(out.parent, told["header"]["gpu"]) if told["header"] else out.parent
    folder.mkdir(parents=True, exist_ok=True)
    (folder / out.name).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


# --- the emulator -----------------------------------------------------------------------------------------------------
def in_emulator(command: Sequence[str], module: bool) -> list[tuple[str, dict[str, int]]]:
    """(kernel, counters) of every launch of the script in the emulator. Raises ProfileError when the script fails."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "counters.json"
        done = subprocess.run([sys.executable, "-m", "hopperlab.measure.profile.counters", str(answer), str(int(module)), *command],
                              env={**os.environ, "HOPPERLAB_BACKEND": "emulator"}, capture_output=True, text=True, check=False)
        if not answer.exists():
            raise ProfileError(f"the script ended with code {done.returncode} in the emulator\n{done.stderr[-3000:]}")
        told = json.loads(answer.read_text())
    if told["error"]:
        raise ProfileError(f"the script failed in the emulator:\n{told['error']}")
    if not told["launches"]:
        raise ProfileError("the script launched no kernel of hl.RawModule")
    return [(kernel, counts) for kernel, counts in told["launches"]]


def child(arguments: list[str]) -> int:
    """Run the script of `arguments[2:]` in the emulator and write the counters of its launches to `arguments[0]`."""
    from ...runtime import sanitize
    from ...runtime import session as sessions
    how = sessions.Forced("lazy")
    with sessions.force(how, threads=True):
        error = sanitize.run_script(arguments[2:], arguments[1] == "1", [])
    launches = [launch for session in how.sessions for launch in session.counters.by_launch()]
    Path(arguments[0]).write_text(json.dumps({"error": error, "launches": launches}))
    return 0


# --- the GPU ----------------------------------------------------------------------------------------------------------
def on_gpu(command: Sequence[str], module: bool) -> list[dict[str, str]]:
    """One dictionary (ncu's columns) a kernel that the script launches on the GPU. Raises ProfileError where that is impossible."""
    return ncu.run(ncu.find(), [*METRICS.values(), *BESIDE], command, module).rows


def _counts(found: Mapping[str, str], metrics: Mapping[str, str]) -> dict[str, int]:
    """Counter -> its count, those that this Nsight Compute measured."""
    values = {counter: ncu.number(found.get(metric)) for counter, metric in metrics.items()}
    return {counter: int(value) for counter, value in values.items() if value is not None}


def attach(rows: list[Row], measured: list[dict[str, str]]) -> None:
    """Give each launch of the emulator the GPU's counts: kernels in order, those that are not ours (CuPy's own) left out."""
    waiting = list(rows)
    for found in measured:
        name = found["Kernel Name"].split("(")[0].split("<")[0]
        row = next((row for row in waiting if row.kernel == name or name in row.kernel and row.kernel.startswith("_Z")), None)
        if row is None:
            continue
        waiting.remove(row)
        row.gpu, row.beside = _counts(found, METRICS), _counts(found, dict(zip(BESIDE, BESIDE, strict=True)))


# --- the report -------------------------------------------------------------------------------------------------------
def table(rows: Sequence[Row]) -> str:
    """A line a counter that is not zero on both sides: emulator, Nsight Compute, and whether they are equal."""
    lines = []
    for number, row in enumerate(rows, 1):
        lines.append(f"{number}. {row.kernel}" + ("" if row.gpu is not None else ": not measured on a GPU"))
        names = METRICS if row.gpu is not None else sorted(row.emulator)
        for name in names:
            here, there = row.counted(name), None if row.gpu is None else row.gpu.get(name)
            if here or there:
                lines += text_table("    {:42} {:>14,} {:>14,} {}", [(name, here, there, _verdict(row, here, there))])
    wrong = sum(bool(row.differing()) for row in rows)
    measured = sum(row.gpu is not None for row in rows)
    lines.append(f"{len(rows)} launches, {measured} measured on a GPU, {measured - wrong} with every counter equal")
    return "\n".join(lines)


def _verdict(row: Row, here: int, there: int | None) -> str:
    if row.gpu is None:
        return ""
    return "not measured by this Nsight Compute" if there is None else "equal" if here == there else "DIFFERENT"


def as_dict(command: Sequence[str], rows: Sequence[Row]) -> dict:
    """Plain data for --json, with the machine's header where a GPU was measured."""
    head = {}
    if any(row.gpu is not None for row in rows):
        from ..machine.board import header
        head = {**header(), "method": "Nsight Compute, clocks as they are (--clock-control none), each kernel launched once"}
    listed = [{**asdict(row), "differing": row.differing()} for row in rows]
    for row in listed:                  # PTX instructions and registers depend on the compiler and are never compared
        row["emulator"] = {name: n for name, n in sorted(row["emulator"].items()) if not name.startswith(("warp_instructions", "peak_"))}
    return {"schema": 1, "header": head, "script": " ".join(command), "metrics": METRICS, "rows": listed}


if __name__ == "__main__":
    sys.exit(child(sys.argv[1:]))
