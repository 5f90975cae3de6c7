# SPDX-License-Identifier: Apache-2.0
"""Constants of a board, each with the recording that it comes from, or with the kernels on which it was fitted."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Constant:
    """value, its unit, and where it comes from: a recording (file: kernel, options, field), or "fitted" and on what."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True)
class Board:
    """constants: by name; wgmma: cycles of m64nNk16 and its like, by (A in registers, n); issue, latency: by class of PTX instruction, in slots and cycles."""

    name: str
    title: str
    constants: Mapping[str, Constant]
    wgmma: Mapping[tuple[bool, int], float]
    issue: Mapping[str, float] = field(default_factory=dict)
    latency: Mapping[str, float] = field(default_factory=dict)

    def number(self, name: str) -> float:
        """A constant's value. Raises KeyError for one that the table lacks."""
        return self.constants[name].value

    def wgmma_cycles(self, n: int, registers: bool) -> float:
        """Cycles of the tensor core for 64 rows, n columns and 32 bytes of k."""
        known = sorted(size for rs, size in self.wgmma if rs == registers)
        below, above = max((s for s in known if s <= n), default=known[0]), min((s for s in known if s >= n), default=known[-1])
        low, high = self.wgmma[(registers, below)], self.wgmma[(registers, above)]
        return low if above == below else low + (high - low) * (n - below) / (above - below)


MICRO = "micro.json"
POWER = "fitted: what a cycle asks of the board lowers the clock"
_TABLE = {
    "clock_mhz": (1980, "MHz", "copies.json: vector_copy, clock_mhz (the highest clock; no other limit)"),
    "sms": (132, "SMs", "hopper/limits.py"),
    "launch_us": (2.68, "us", "fitted; an empty kernel between events takes 2.8"),
    "start_cycles": (1350, "cycles", "fitted: from launch to a CTA's first instruction"),
    "next_cta": (500, "cycles", "fitted: from the end of a CTA to the next one's first instruction"),
    "tma_issue": (57, "cycles", f"{MICRO}: tma_issue HOW=tensor, value"),
    "tma_latency_l2": (300, "cycles", f"{MICRO}: tma_latency 1x64 from=L2, value"),
    "tma_latency_memory": (1150, "cycles", f"fitted, with all SMs loading; alone {MICRO}: tma_latency 1x64 from=memory, 739"),
    "tma_first": (800, "cycles", "fitted, weakly (docs/estimates.md, Errors): before the first tensor or bulk load of an SM goes out"),
    "lane_latency_l2": (269, "cycles", f"{MICRO}: chase space=l2, value"),
    "lane_latency_memory": (560, "cycles", "fitted"),
    "tma_bytes": (107, "bytes/cycle", f"{MICRO}: tma_latency 128x128 and 128x256 from=L2, difference of value for 32 KiB"),
    "l2_bytes": (54.3, "bytes/cycle/SM", "fitted"),
    "store_bytes": (25.1, "bytes/cycle/SM", "fitted"),
    "lane_store_bytes": (18.2, "bytes/cycle/SM", f"{MICRO}: stream space=l2 WRITE=1, value"),
    "l2_wait": (506, "cycles", "fitted: a load's wait in an L2 that is fully used"),
    "store_latency": (600, "cycles", "fitted"),
    "dram_gbs": (4550, "GB/s", "copies.json: bulk_read 6 slots of 32 KiB, gb_s"),
    "l2_dirty": (50e6, "bytes", "fitted (search.json; 40e6 does as well): about the L2's size. A launch is timed after a write of 512 MiB (measure/machine/timing.py)"),
    "l2_latency": (269, "cycles", f"{MICRO}: chase space=l2, value"),
    "l1_latency": (33, "cycles", "fitted"),
    "shared_latency": (23, "cycles", f"{MICRO}: chase space=shared, value"),
    "shared_bytes": (128, "bytes/cycle", f"{MICRO}: stream space=shared, value"),
    "dsmem_latency": (179, "cycles", f"{MICRO}: chase space=dsmem, value"),
    "dsmem_bytes": (14.8, "bytes/cycle", f"{MICRO}: bulk_stream CHUNK=32768, value"),
    "mbarrier": (52.5, "cycles", f"{MICRO}: mbarrier_round_trip threads=64, half of value"),
    "mbarrier_remote": (238, "cycles", f"{MICRO}: remote_round_trip ORDER=cta, half of value"),
    "named": (36.6, "cycles", f"{MICRO}: named_round_trip threads=64, half of value"),
    "cluster_barrier": (340, "cycles", f"{MICRO}: cluster_meeting threads=128, value"),
    "wgmma_drain": (50, "cycles", f"{MICRO}: wgmma_rate N=128 IN_FLIGHT=0 warpgroups=1, value less 64.4"),
    "wgmma_issue": (20, "cycles", f"{MICRO}: wgmma_rate m64n64k16, 4, until=issued, by 4"),
    "mma_cycles": (6.44, "cycles", f"{MICRO}: mma_rate ILP=16 warps=16, 4 times value"),
    "mma_latency": (30, "cycles", f"{MICRO}: mma_rate ILP=1 warps=1, value"),
    "setmaxnreg": (60, "cycles", f"{MICRO}: setmaxnreg_cost WITHOUT=0 less WITHOUT=1"),
    "special_cycles": (8, "cycles", "16 lanes a cycle and SM (CUDA Programming Guide, throughput of native arithmetic)"),
    "special_latency": (20, "cycles", "fitted"),
    "mma_ahead": (278, "cycles", "fitted: mma.sync that a warp has under way while it goes on"),
    "port_ahead": (158, "cycles", "fitted: accesses of shared memory that warps have under way while they go on"),
    "cp_async_port": (8, "cycles", f"fitted; {MICRO}: tma_issue HOW=cp.async is 199 for 8 KiB"),
    "l1_missed": (0.2, "share", "fitted: of what lanes load from global memory"),
    "store_queue": (1020, "bytes", "fitted: stores that an SM has under way before it waits"),
    "store_read": (125, "cycles", f"{MICRO}: completion wait=cp.async.bulk.wait_group, value"),
    "wgmma_ahead": (358, "cycles", "fitted: products that a warpgroup has under way before the next is handed over"),
    "power_base": (0.336, "", POWER),
    "power_wgmma": (1.75, "", POWER),
    "power_mma": (1.57, "", POWER),
    "power_l2": (0.0792, "at 50 bytes/cycle/SM", POWER),
    "power_issue": (1.7, "", POWER),
    "power_port": (0.0139, "", POWER),
    "power_slope": (0.343, "", POWER),
}
H200 = Board("h200", "NVIDIA H200",
             {name: Constant(*row) for name, row in _TABLE.items()},
             {(False, 8): 18.3, (False, 16): 20.1, (False, 32): 24.2, (False, 64): 32.2, (False, 128): 64.1, (False, 192): 96.1, (False, 256): 128.1,
              (True, 8): 15.5, (True, 16): 15.8, (True, 32): 18.4, (True, 64): 33.4, (True, 128): 64.5, (True, 192): 96.5, (True, 256): 128.6},
             {"free": 0.0, "control": 1.0, "barrier": 1.0, "warp": 1.0, "memory": 1.0, "move": 0.5, "tensor": 1.0, "async_copy": 1.0, "mbarrier": 1.0, "convert": 0.6,
              "float": 1.0, "integer": 0.7, "other": 1.0},
             {"control": 4, "barrier": 10, "warp": 24, "memory": 30, "move": 2, "mbarrier": 15, "convert": 4, "float": 4, "integer": 4})
BOARDS = {"h200": H200}
