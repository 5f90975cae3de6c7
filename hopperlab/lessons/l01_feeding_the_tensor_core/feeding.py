# SPDX-License-Identifier: Apache-2.0
"""Lesson 01: what it takes to feed the multipliers. Little's law over recorded loads, and a tile's counts beside what is needed.

Latency and bandwidth come from recordings, the counts from runs in the emulator; nothing measured stands in this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...hopper import limits
from ...show import style
from ...show.recorded import ceilings as _ceilings

WHO = {"tma_load": "TMA, 1 thread issues", "cp_async_load": "cp.async, 128 threads issue"}
FP32_LANES = 128
"""Single-precision multipliers of one SM (CUDA Programming Guide, compute capability 9.0); each does two operations per clock."""


@dataclass(frozen=True)
class Flight:
    """A recorded load: the kernel, the bytes that each SM keeps on their way, the bandwidth (GB/s) of the whole GPU, the tile (rows, columns of bf16) and
    the blocks of an SM, each with four such tiles on their way."""

    kernel: str
    bytes_per_sm: int
    gb_s: float
    tile: tuple[int, int] = (0, 0)
    blocks: int = 1

    @property
    def latency_ns(self) -> float:
        """Little's law turned round: bytes in flight over bandwidth, in ns."""
        return self.bytes_per_sm * limits.SMS / self.gb_s


def flights(recording: Any) -> list[Flight]:
    """The loads of the recording `tma_vs_cp_async`: a block keeps STAGES boxes on their way."""
    found = []
    for record in recording:
        options = dict(option.split("=") for option in record.options)
        rows, columns, blocks = (int(options[name]) for name in ("BOX_ROWS", "BOX_COLS", "blocks_per_sm"))
        found.append(Flight(record.kernel, int(options["STAGES"]) * rows * columns * 2 * blocks, record.gb_s, (rows, columns), blocks))
    return sorted(found, key=lambda flight: (flight.kernel, flight.bytes_per_sm))


def memory_latency(recording: Any, kernel: str = "tma_load") -> float:
    """ns from asking to having, when little else is on its way: Little's law at the fewest bytes in flight of `kernel`."""
    return min((flight for flight in flights(recording) if flight.kernel == kernel), key=lambda flight: flight.bytes_per_sm).latency_ns


def bytes_in_flight(latency_ns: float, gb_s: float) -> float:
    """Little's law: bytes that must be on their way, on the whole GPU, for `gb_s` (10^9 bytes per second) at this latency.

    Source: Little, A proof for the queuing formula L = λW, Operations Research 9(3), 1961.
    """
    return latency_ns * gb_s


def enough_in_flight(recording: Any, share: float = 0.97, kernel: str = "tma_load") -> int:
    """The fewest bytes per SM, among those recorded, that reached `share` of the best bandwidth of `kernel`."""
    own = [flight for flight in flights(recording) if flight.kernel == kernel]
    best = max(flight.gb_s for flight in own)
    return min(flight.bytes_per_sm for flight in own if flight.gb_s >= share * best)


def littles_law(recording: Any) -> style.Picture:
    """Bandwidth (GB/s) against bytes on their way in each SM (KiB): what was recorded, latency x bandwidth, and the roof of the memory."""
    found = flights(recording)
    latency, roof = memory_latency(recording), max(flight.gb_s for flight in found)
    figure, (axis,) = style.new_figure(3.8)
    kib = np.logspace(np.log10(1.6), np.log10(256), 100)
    axis.plot(kib, np.minimum(kib * 1024 * limits.SMS / latency, roof), color=style.INK, linewidth=1.5, linestyle="--",
              label=f"bytes in flight / {latency:.0f} ns, up to the roof")
    for index, (kernel, name) in enumerate(WHO.items()):
        for alone, said in ((True, "one block per SM"), (False, "several blocks per SM")):
            own = [flight for flight in found if flight.kernel == kernel and (flight.blocks == 1) == alone]
            axis.plot([f.bytes_per_sm / 1024 for f in own], [f.gb_s for f in own], style.MARKERS[index], color=style.PALETTE[index], markersize=7,
                      markerfacecolor=style.PALETTE[index] if alone else style.CARD, label=f"{name}, {said}")
    knee = bytes_in_flight(latency, roof) / limits.SMS / 1024
    axis.axvline(knee, color=style.FAINT, linewidth=1.2)
    axis.text(knee * 0.95, roof * 0.06, f"latency x bandwidth:\n{knee:.0f} KiB per SM", fontsize=9, color=style.INK, ha="right")
    axis.set(xscale="log", xlabel="bytes on their way in each SM (KiB)", ylabel="bandwidth (GB/s read)", ylim=(0, roof * 1.12))
    axis.set_xticks([2, 4, 8, 16, 32, 64, 128, 256], ["2", "4", "8", "16", "32", "64", "128", "256"])
    axis.minorticks_off()
    axis.grid(True, color=style.EMPTY)
    axis.legend(fontsize=9, frameon=False, loc="lower right")
    style.title(axis, "Little's law on this memory")
    figure.supxlabel(recording.source, fontsize=8, color=style.INK, x=0.01, ha="left")
    words = ["Little's law on this memory", f"  {recording.source}",
             f"  latency at few bytes in flight: {latency:.0f} ns; roof: {roof:.0f} GB/s; their product: {knee:.0f} KiB per SM"]
    words += [f"  {WHO[f.kernel]}: {f.bytes_per_sm / 1024:g} KiB per SM (tiles of {f.tile[0]} x {f.tile[1]} bf16, blocks per SM: {f.blocks}), {f.gb_s:.0f} GB/s, "
              f"so each byte {f.latency_ns:.0f} ns" for f in found]
    return style.Picture(figure, "\n".join(words))


@dataclass(frozen=True)
class Fed:
    """What one run of shared_tile.cu showed: whether the product is right, its counts, registers and spilled bytes per thread."""

    right: bool
    flop: float
    loaded: int
    wavefronts: int
    tile_bytes: int
    blocks: int
    registers: int
    spills: int
    limited_by: str

    def shares(self, needs: Mapping[str, float]) -> dict[str, float]:
        """Each count as a share of what is needed (1 is enough); `needs` as from `needs_of`."""
        return {"FLOP per byte of global memory, for the fp32 units": self.flop / self.loaded / needs["fp32"],
                "FLOP per byte of global memory, for the tensor core": self.flop / self.loaded / needs["tensor"],
                "FLOP per wavefront of loads, for the fp32 units": self.flop / self.wavefronts / (2 * FP32_LANES),
                "bytes on their way while a tile loads": self.tile_bytes * self.blocks / needs["enough"]}


def needs_of(ceilings: Any, loads: Any) -> dict[str, float]:
    """What this GPU needs, from the recordings `ceilings` and `tma_vs_cp_async`: FLOP per byte for fp32 and for the bf16 tensor core, and bytes in flight
    per SM: `bytes` is latency x bandwidth, the least that could do, and `enough` what was measured to do on a busy memory (`enough_in_flight`)."""
    peaks, terabytes = _ceilings(ceilings)
    return {"fp32": peaks["fp32"] / terabytes, "tensor": peaks["bf16 tensor core"] / terabytes,
            "bytes": bytes_in_flight(memory_latency(loads), max(f.gb_s for f in flights(loads))) / limits.SMS, "enough": enough_in_flight(loads)}


def refuse_tile(bm: int, bn: int, bk: int) -> None:
    """Raise ValueError for a tile that the 256 threads of shared_tile.cu cannot share out; the kernel asserts the same."""
    if bm % 64 or bn % 64:
        raise ValueError(f"{bm} x {bn}: 16 x 16 threads compute 64 x 64 pieces of the tile, so BM and BN are multiples of 64")
    at_once = 256 * 4 // bk
    if bm % at_once or bn % at_once:
        raise ValueError(f"BK = {bk}: 256 threads load 4 numbers each, {at_once} rows of {bk} at once, which do not go evenly into {min(bm, bn)} rows")


def run_tile(bm: int, bn: int, bk: int, m: int = 128, n: int = 128, k: int = 64, options: tuple[str, ...] = ()) -> tuple[Any, Fed]:
    """Run shared_tile.cu with this tile in the emulator on an m x n x k product of small integers. Returns (run, what it showed).

    Raises ValueError for a tile that 256 threads cannot share out or no SM holds.
    """
    refuse_tile(bm, bn, bk)
    import hopperlab as hl

    from ...measure.launches import gemm, operands

    a, b = operands.integer_bf16(np, (m, k), seed=m + k), operands.integer_bf16(np, (n, k), seed=n + k + 1)
    c = np.full((m, n), 0x7FC0, np.uint16)
    launch = gemm.shared_tile(a, b, c, options, "emulator", (bm, bn, bk))
    use = launch.kernel.use
    fit = limits.occupancy(256, use.registers, use.static_shared)
    with hl.emulate(hazards="collect") as run:
        launch()
    right = bool((c == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all())
    return run, Fed(right, 2.0 * m * n * k, run.counters["global_load_bytes"], run.counters["shared_load_wavefronts"], (bm + bn) * bk * 2,
                    fit.blocks, use.registers, use.spill_loads + use.spill_stores, fit.limited_by)


def feeding_chart(fed: Fed, needs: Mapping[str, float], heading: str) -> style.Picture:
    """Four bars: each count of a run as a share of what this GPU needs. Right of the line at 1 is enough."""
    shares = fed.shares(needs)
    figure, (axis,) = style.new_figure(3.0)
    names = list(shares)
    axis.barh(range(len(names)), [shares[name] for name in names], color=[style.BLUE if shares[name] >= 1 else style.VERMILION for name in names], height=0.6)
    axis.axvline(1, color=style.INK, linewidth=1.5)
    for row, name in enumerate(names):
        end = shares[name] if not 0.55 < shares[name] < 1 else 1.0           # clear of the line at 1
        axis.text(max(end, 0.051) * 1.06, row, f"{shares[name]:.2f}" + (" enough" if shares[name] >= 1 else ""), va="center", fontsize=9, color=style.INK)
    axis.set(xscale="log", xlim=(0.05, 30), xlabel="share of what is needed (1 is enough)")
    axis.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
    axis.set_yticks(range(len(names)), [name.replace(", for", ",\nfor").replace(" while", "\nwhile") for name in names])
    axis.invert_yaxis()
    style.title(axis, heading)
    return style.Picture(figure, "\n".join([heading, *(f"  {name}: {share:.2f} of what is needed" for name, share in shares.items())]))


def launch_tile(bm: int, bn: int, bk: int, needs: Mapping[str, float]) -> style.Picture:
    """Lesson 01's panel: launch shared_tile.cu with this tile, count, and compare with what the GPU needs. Raises as `run_tile` does."""
    _, fed = run_tile(bm, bn, bk, m=max(128, bm), n=max(128, bn))
    heading = (f"{bm} x {bn} x {bk}: product {'right' if fed.right else 'WRONG'}, {fed.flop / fed.loaded:.0f} FLOP per byte loaded\n"
               f"{fed.registers} registers per thread" + (f" and {fed.spills} bytes SPILLED" if fed.spills else "")
               + f"; blocks per SM: {fed.blocks}, limited by {fed.limited_by}")
    return feeding_chart(fed, needs, heading)
