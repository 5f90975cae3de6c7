# SPDX-License-Identifier: Apache-2.0
"""`hopperlab profile --metrics lessons`: what Nsight Compute says of each kernel of a script, in the words of the lessons.

METRICS is the table: title, names that different versions of Nsight Compute give it (the first that exists is taken), unit, and
what it means. A name that this version does not have is shown as missing, never an error.
"""
from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...runtime.tables import text_table
from . import ncu
from .counters import EQUAL, NOT_MEASURED
from .ncu import ProfileError


METHOD = "Nsight Compute with replay, clocks as they are (--clock-control none)"


@dataclass(frozen=True)
class Metric:
    """One line of the table. names: candidates, best first; scale: what a value is multiplied by to have `unit`."""

    group: str
    title: str
    names: tuple[str, ...]
    unit: str
    words: str
    scale: float = 1.0


def _stall(reason: str, title: str, words: str) -> Metric:
    return Metric("stall reasons", title, (f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio",), "warps", words)


METRICS: tuple[Metric, ...] = (
    Metric("time", "duration", ("gpu__time_duration.sum",),
           "µs", "one launch, under the profiler's replay; time it with bench instead", 1e-3),
    Metric("time", "SM clock", ("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second"),
           "MHz", "while it ran", 1e-6),
    Metric("tensor cores", "tensor pipe busy", ("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
           "sm__pipe_tensor_op_gmma_cycles_active.avg.pct_of_peak_sustained_active",
           "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"),
           "%", "share of cycles in which the tensor cores multiply: the roof of a product"),
    Metric("tensor cores", "wgmma instructions",
           ("sm__inst_executed_pipe_tensor_op_gmma.sum", "smsp__inst_executed_pipe_tensor_op_gmma.sum"),
           "", "warp instructions that start asynchronous multiplications: four per wgmma"),
    Metric("tensor cores", "all on f16, bf16, tf32",
           ("sm__inst_executed_pipe_tensor_op_hmma.sum", "smsp__inst_executed_pipe_tensor_op_hmma.sum"),
           "", "the same and mma.sync; the difference is mma.sync alone"),
    Metric("issue slots", "issue slots used",
           ("smsp__issue_active.avg.pct_of_peak_sustained_active", "smsp__inst_issued.avg.pct_of_peak_sustained_active"),
           "%", "share of cycles in which a scheduler issued an instruction; small is fine when the engines are busy"),
    Metric("issue slots", "instructions", ("smsp__inst_executed.sum", "sm__inst_executed.sum"),
           "", "warp instructions: what TMA and wgmma save"),
    Metric("issue slots", "warps ready", ("smsp__warps_eligible.avg.per_cycle_active",),
           "", "warps a scheduler could pick from, on average"),
    Metric("traffic", "TMA instructions", ("sm__inst_executed_pipe_tma.sum", "smsp__inst_executed_pipe_tma.sum"),
           "", "one per box, or per bulk copy"),
    Metric("traffic", "TMA into shared memory", ("l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",),
           "MB", "what the copy engine loaded", 1e-6),
    Metric("traffic", "of that, multicast", ("l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld_dest_multicast.sum",), "MB",
           "what came by copies for several CTAs of a cluster at once", 1e-6),
    Metric("traffic", "TMA out of shared memory", ("l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",),
           "MB", "what the copy engine stored", 1e-6),
    Metric("traffic", "L2 to the SMs", ("l1tex__m_xbar2l1tex_read_bytes.sum",),
           "MB", "all that came from the L2, whatever loaded it", 1e-6),
    Metric("traffic", "SMs to the L2", ("l1tex__m_l1tex2xbar_write_bytes.sum",), "MB", "all that went to the L2", 1e-6),
    Metric("traffic", "L2 hit rate", ("lts__t_sector_hit_rate.pct",),
           "%", "share of sectors that needed no memory access: tile order and multicast"),
    Metric("traffic", "memory read", ("dram__bytes_read.sum",),
           "MB", "from HBM; at least each input once, when the L2 is cold", 1e-6),
    Metric("traffic", "memory written", ("dram__bytes_write.sum",), "MB", "to HBM; what stays in the L2 is written later", 1e-6),
    Metric("traffic", "memory bandwidth", ("dram__throughput.avg.pct_of_peak_sustained_elapsed",), "%", "of what HBM could do"),
    Metric("shared memory", "loads", ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
           "wavefronts", "passes of 128 bytes for ld.shared and ldmatrix"),
    Metric("shared memory", "stores", ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
           "wavefronts", "passes for st.shared and stmatrix"),
    Metric("shared memory", "wgmma operands", ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum",),
           "wavefronts", "passes in which wgmma read its tiles"),
    Metric("shared memory", "wgmma conflicts", ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum",), "wavefronts",
           "passes that bank conflicts added to those: a swizzle that does not fit"),
    Metric("shared memory", "load conflicts", ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",),
           "wavefronts", "passes that bank conflicts added"),
    Metric("shared memory", "store conflicts", ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",),
           "wavefronts", "the same for stores"),
    Metric("occupancy", "registers per thread", ("launch__registers_per_thread",),
           "", "at launch; setmaxnreg moves them afterwards"),
    Metric("occupancy", "dynamic shared memory", ("launch__shared_mem_per_block_dynamic",), "KiB", "per block", 1 / 1024),
    Metric("occupancy", "blocks per SM, by registers", ("launch__occupancy_limit_registers",), "", "what fits"),
    Metric("occupancy", "blocks per SM, by shared memory", ("launch__occupancy_limit_shared_mem",), "", "what fits"),
    Metric("occupancy", "warps resident", ("sm__warps_active.avg.pct_of_peak_sustained_active",),
           "%", "of 64 per SM; asynchronous kernels need few"),
    Metric("occupancy", "waves", ("launch__waves_per_multiprocessor",),
           "", "grid over what fits at once; just above a whole number is a bad tail"),
    _stall("long_scoreboard", "memory", "wait for a load from L2 or HBM into a register"),
    _stall("short_scoreboard", "shared memory", "wait for a load from shared memory, or for a special function"),
    _stall("barrier", "barrier", "wait at __syncthreads or a named barrier; on an H200 waits for wgmma groups are counted here too"),
    _stall("gmma", "wgmma queue", "the queue of asynchronous multiplications is full"),
    _stall("math_pipe_throttle", "arithmetic pipe", "the pipe they want is full: for mma.sync, the tensor cores"),
    _stall("mio_throttle", "shared-memory queue", "the queue for shared memory and special functions is full"),
    _stall("lg_throttle", "load queue", "the queue for loads from memory is full"),
    _stall("wait", "fixed latency", "wait for the result of the instruction before"),
    _stall("sleeping", "sleeping", "parked, as by nanosleep or a blocking try_wait"),
    _stall("branch_resolving", "branch", "wait for a jump's target: polling loops on mbarriers show here"),
    _stall("membar", "fence", "wait for a memory fence"),
    _stall("no_instruction", "instruction fetch", "the next instruction is not there yet"),
    _stall("not_selected", "not selected", "ready, but another warp was picked: no loss"),
)


def run(command: Sequence[str], module: bool = False, kernel: str | None = None, out: Path | None = None,
        launches: int | None = None) -> int:
    """Profile a script and print a table a kernel; writes `out`. kernel: a regular expression of names. Returns the exit code."""
    try:
        found, missing = measure(command, module, kernel, launches)
    except ProfileError as problem:
        print(f"hopperlab profile: {problem}", file=sys.stderr)
        return NOT_MEASURED
    print(table(found, missing))
    if out is not None:
        from ..machine.board import header
        head = {**header(), "method": METHOD}
        data = {"schema": 1, "header": head, "script": " ".join(command), "missing": missing, "kernels": found}
        out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return EQUAL


def measure(command: Sequence[str], module: bool, kernel: str | None = None, launches: int | None = None
            ) -> tuple[list[dict], list[str]]:
    """([{'kernel': name, 'values': {title: value}} of each launch], titles that this ncu cannot measure). Raises ProfileError."""
    tool = ncu.find()
    chosen = choose(ncu.known(tool))
    answer = ncu.run(tool, [*chosen.values()], command, module, kernel, launches)
    found = [row for row in read(answer.rows, chosen) if not row["kernel"].startswith("cupy_")]
    titles = [title(metric) for metric in METRICS]
    return found, [name for name in titles if not any(name in row["values"] for row in found)]


def title(metric: Metric) -> str:
    """'group: title', unique in METRICS."""
    return f"{metric.group}: {metric.title}"


def choose(known: set[str]) -> dict[str, str]:
    """title -> the name to ask for. launch__ metrics and stall ratios are not in ncu's list, and are asked for regardless."""
    def exists(name: str) -> bool:
        return not known or name.startswith("launch__") or "issue_stalled" in name or name.split(".")[0] in known
    found = {title(metric): next((name for name in metric.names if exists(name)), None) for metric in METRICS}
    return {key: name for key, name in found.items() if name is not None}


def read(rows: Sequence[Mapping[str, str]], chosen: Mapping[str, str]) -> list[dict]:
    """Launches of ncu's rows: kernel, and value by title in the table's units. What is empty or 'n/a' is left out."""
    scales = {title(metric): metric.scale for metric in METRICS}
    out = []
    for row in rows:
        numbers = {key: ncu.number(row.get(name)) for key, name in chosen.items()}
        values = {key: round(value * scales[key], 4) for key, value in numbers.items() if value is not None}
        out.append({"kernel": row["Kernel Name"].split("(")[0], "values": values})
    return out


def table(found: Sequence[Mapping], missing: Sequence[str] = ()) -> str:
    """A block a launch: each metric with its value and what it means; the largest stall reasons only."""
    lines = []
    for number, row in enumerate(found, 1):
        lines.append(f"{number}. {row['kernel']}")
        group = ""
        for metric in _shown(row["values"]):
            if metric.group != group:
                group = metric.group
                lines.append(f"  {group}" + (", warps of a scheduler that wait for it at each issue" if group == "stall reasons" else ""))
            lines += text_table("    {:30} {:>14} {:10} {}", [(metric.title, _text(row["values"][title(metric)]), metric.unit, metric.words)])
    if missing:
        lines.append(f"not measured by this Nsight Compute: {', '.join(missing)}")
    return "\n".join(lines)


def _shown(values: Mapping[str, float], stalls: int = 6) -> list[Metric]:
    there = [metric for metric in METRICS if title(metric) in values]
    reasons = sorted((metric for metric in there if metric.group == "stall reasons"), key=lambda metric: -values[title(metric)])
    return [metric for metric in there if metric.group != "stall reasons"] + reasons[:stalls]


def _text(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or float(value).is_integer() else f"{value:,.2f}"
