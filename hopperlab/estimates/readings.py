# SPDX-License-Identifier: Apache-2.0
"""Constants of a board that stand in its recordings: which record, and what is made of its numbers."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..measure import recordings
from ..measure.recordings import Record

MICRO = "micro"
CLUSTER_THREADS = (128, 256, 384, 1024)        # of a CTA, that meet those of another one
WGMMA_N = (8, 16, 32, 64, 128, 192, 256)


@dataclass(frozen=True)
class Reading:
    """A field of the one record of a recording that is of this kernel, shape, suite and mode (empty: any) and has these options among its own."""

    recording: str
    kernel: str
    options: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    field: str = "value"
    suite: str = ""
    mode: str = ""

    def record(self, board: str) -> Record:
        """The record. Raises LookupError where there is none or more than one."""
        found = [r for r in stored(self.recording, board) if r.kernel == self.kernel and set(self.options) <= set(r.options)
                 and self.shape in ((), r.shape) and self.suite in ("", r.suite) and self.mode in ("", r.mode)]
        if len(found) != 1:
            raise LookupError(f"recording {self.recording!r} of {board} has {len(found)} records of {self.kernel} {' '.join(self.options)}")
        return found[0]

    def number(self, board: str) -> float:
        """What it says."""
        return float(getattr(self.record(board), self.field))


@dataclass(frozen=True)
class Row:
    """A constant that is read: its unit, the readings, what is made of them, and how that is said."""

    unit: str
    readings: tuple[Reading, ...]
    said: str
    of: Callable[..., float] = float

    def number(self, board: str) -> float:
        """The constant of a board."""
        return float(self.of(*(reading.number(board) for reading in self.readings)))


@lru_cache(maxsize=16)
def stored(recording: str, board: str) -> tuple[Record, ...]:
    """Records of a board's own recording. Raises FileNotFoundError where the board has no such file: another board's does not do."""
    path = recordings.FOLDER / board / f"{recording}.json"
    if not path.is_file():
        raise FileNotFoundError(f"board {board!r} has no recording {recording!r} ({path})")
    return recordings.load(recording, board=board).records


def _micro(kernel: str, *options: str, **more: Any) -> Reading:
    return Reading(MICRO, kernel, options, **more)


def _tma(rows: int, columns: int, place: str) -> Reading:
    return _micro("tma_latency", "HOW=tensor", f"from={place}", shape=(rows, columns))


def _wgmma(n: int, source: str, groups: int, in_flight: int = 3, suite: str = "wgmma_rate") -> Reading:
    return _micro("wgmma_rate", f"N={n}", f"A={source}", f"warpgroups={groups}", f"IN_FLIGHT={in_flight}", suite=suite)


def _meeting(threads: int, relaxed: int) -> Row:
    options = (f"threads={threads}", f"RELAXED={relaxed}")
    return Row("cycles", (_micro("cluster_meeting", *options),), f"micro.json: cluster_meeting {' '.join(options)}, value")


LONE_TENSOR = _tma(1, 64, "memory")                                       # a load alone: those with all SMs loading are fitted
LONE_BULK, BULK_L2 = (_micro("tma_latency", "HOW=bulk", f"from={place}", shape=(1, 64)) for place in ("memory", "L2"))
LONE_LANE = _micro("tma_latency", "HOW=ld.global", "from=memory")
COPIED = Reading("copies", "vector_copy", field="gb_s")
COLD, CLEAN = (Reading("mixed", "cublasGemmEx TN", shape=(16, 8192, 8192), field="ms", suite="few", mode=mode) for mode in ("cold L2", "clean L2"))
L2_READ, L2_WRITE = _micro("stream", "space=l2", "WRITE=0"), _micro("stream", "space=l2", "WRITE=1")

ROWS: Mapping[str, Row] = {
    "clock_mhz": Row("MHz", (Reading("copies", "vector_copy", field="clock_mhz"),), "copies.json: vector_copy, clock_mhz (the highest clock; no other limit)"),
    "tma_issue": Row("cycles", (_micro("tma_issue", "HOW=tensor"),), "micro.json: tma_issue HOW=tensor, value"),
    "tma_latency_l2": Row("cycles", (_tma(1, 64, "L2"),), "micro.json: tma_latency 1x64 from=L2, value"),
    "bulk_latency_memory": Row("cycles", (LONE_BULK,), "micro.json: tma_latency HOW=bulk 1x64 from=memory, value: what lies in one piece"),
    "bulk_latency_l2": Row("cycles", (BULK_L2,), "micro.json: tma_latency HOW=bulk 1x64 from=L2, value"),
    "lane_latency_l2": Row("cycles", (_micro("chase", "space=l2"),), "micro.json: chase space=l2, value"),
    "tma_bytes": Row("bytes/cycle", (_tma(128, 256, "L2"), _tma(128, 128, "L2")),
                     "micro.json: tma_latency 128x128 and 128x256 from=L2, difference of value for 32 KiB", lambda large, small: 32768 / (large - small)),
    "lane_store_bytes": Row("bytes/cycle/SM", (L2_WRITE,), "micro.json: stream space=l2 WRITE=1, value"),
    "dram_gbs": Row("GB/s", (Reading("copies", "bulk_read", ("STAGES=6", "CHUNK_BYTES=32768"), field="gb_s"),), "copies.json: bulk_read 6 slots of 32 KiB, gb_s"),
    "dram_mixed_gbs": Row("GB/s", (COPIED,), "copies.json: vector_copy, gb_s: half read, half written, which takes turns"),
    "l2_dirty": Row("bytes", (COLD, CLEAN, COPIED), "mixed.json: cublasGemmEx TN 16x8192x8192, ms of cold L2 less that of clean L2, by copies.json: vector_copy, gb_s",
                    lambda cold, clean, rate: (cold - clean) * rate * 1e6),
    "l2_latency": Row("cycles", (_micro("chase", "space=l2"),), "micro.json: chase space=l2, value"),
    "shared_latency": Row("cycles", (_micro("chase", "space=shared"),), "micro.json: chase space=shared, value"),
    "dsmem_latency": Row("cycles", (_micro("chase", "space=dsmem"),), "micro.json: chase space=dsmem, value"),
    "dsmem_bytes": Row("bytes/cycle", (_micro("bulk_stream", "CHUNK=32768"),), "micro.json: bulk_stream CHUNK=32768, value"),
    "dsmem_load": Row("bytes/cycle", (_micro("stream", "space=dsmem", "WRITE=0"),), "micro.json: stream space=dsmem WRITE=0, value"),
    "dsmem_store": Row("bytes/cycle", (_micro("stream", "space=dsmem", "WRITE=1"),), "micro.json: stream space=dsmem WRITE=1, value"),
    "mbarrier": Row("cycles", (_micro("mbarrier_round_trip", "threads=64"),), "micro.json: mbarrier_round_trip threads=64, half of value", lambda v: v / 2),
    "mbarrier_remote": Row("cycles", (_micro("remote_round_trip", "ORDER=cta"),), "micro.json: remote_round_trip ORDER=cta, half of value", lambda v: v / 2),
    "named": Row("cycles", (_micro("named_round_trip", "threads=64"),), "micro.json: named_round_trip threads=64, half of value", lambda v: v / 2),
    **{f"cluster_barrier_{n}": _meeting(n, 0) for n in CLUSTER_THREADS},
    **{f"cluster_relaxed_{n}": _meeting(n, 1) for n in CLUSTER_THREADS},
    "wgmma_drain": Row("cycles", (_wgmma(128, "SS", 1, 0, "wgmma_groups"), _wgmma(128, "SS", 1)),
                       "micro.json: wgmma_rate N=128 warpgroups=1, value of IN_FLIGHT=0 less that of 3", lambda alone, three: alone - three),
    "wgmma_issue": Row("cycles", (_micro("wgmma_rate", "instructions=wgmma m64n64k16, 4", "until=issued"),),
                       "micro.json: wgmma_rate m64n64k16, 4, until=issued, by 4", lambda v: v / 4),
    "mma_cycles": Row("cycles", (_micro("mma_rate", "ILP=16", "warps=16"),), "micro.json: mma_rate ILP=16 warps=16, 4 times value", lambda v: 4 * v),
    "mma_latency": Row("cycles", (_micro("mma_rate", "ILP=1", "warps=1"),), "micro.json: mma_rate ILP=1 warps=1, value"),
    "setmaxnreg": Row("cycles", (_micro("setmaxnreg_cost", "WITHOUT=0", "role=dec 168 to 40"), _micro("setmaxnreg_cost", "WITHOUT=1", "role=dec 168 to 40")),
                      "micro.json: setmaxnreg_cost role=dec, WITHOUT=0 less WITHOUT=1", lambda there, without: there - without),
    "store_read": Row("cycles", (_micro("tma_latency", "wait=cp.async.bulk.wait_group"),), "micro.json: completion wait=cp.async.bulk.wait_group, value"),
}
"""What is read, by constant."""


def wgmma(board: str) -> dict[tuple[bool, int], float]:
    """Cycles of m64nNk16 by (A in registers, n): two warpgroups, three in flight."""
    return {(source == "RS", n): _wgmma(n, source, 2).number(board) for source in ("SS", "RS") for n in WGMMA_N}


def read(record: Record, recording: str, board: str) -> bool:
    """Whether a constant of the board is read from this record of a recording."""
    return any(reading.recording == recording and reading.record(board) is record for row in ROWS.values() for reading in row.readings)
