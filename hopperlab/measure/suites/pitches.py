# SPDX-License-Identifier: Apache-2.0
"""What the distance of an operand's rows costs a product, the recording `pitches`: `hopperlab bench pitches`.

Needs a Hopper GPU. A product of one size, in which only k and the row pitches of a and b change, so that a k that is no multiple of
the tile and rows that begin inside a 128-byte line are told apart. Three run on each: gemm/final.cu as `choose` has it, the same in
the configuration and with the tensor maps of the rows of whole lines ("fixed"), and cublasGemmEx; and where it costs most, several
configurations and promotions.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ..launches import gemm
from ..machine import peers
from .fields import beside, tflops, times
from ..launches.gemm_choice import choose
from ..launches.gemm_configurations import Final
from ..launches.operands import bf16_values, normal_bf16
from ..recordings import Record
from ..machine.timing import interleaved

SIZES = (4096, 8192)
WHOLE = "whole lines"


@dataclass(frozen=True)
class Rows:
    """k, and the row pitches of a and b in elements, all relative to the size of the product."""

    k: int = 0
    a: int = 0
    b: int = 0


CASES: Mapping[str, Rows] = {
    WHOLE: Rows(), "k 8 less": Rows(-8, -8, -8), "k 8 less, rows of whole lines": Rows(-8),
    "rows 16 bytes longer": Rows(0, 8, 8), "rows 32 bytes longer": Rows(0, 16, 16), "rows 64 bytes longer": Rows(0, 32, 32),
    "rows 128 bytes longer": Rows(0, 64, 64), "a's rows 16 bytes longer": Rows(0, 8, 0), "b's rows 16 bytes longer": Rows(0, 0, 8)}
ALONE = Final(stages=3, c_slots=4, in_flight=0, stagger=0, cluster_m=1, group=16)
TRIED: Mapping[str, Final] = {          # who loads how much: 384 rows per CTA and k-block, 256, 320, 256, 192, 192
    "128x256 alone": ALONE, "two share B": Final(), "two share A": replace(ALONE, cluster_n=2, group=8),
    "256x128, two share A": Final(bm=256, bn=128, cluster_m=1, cluster_n=2, stagger=0), "four share B": replace(ALONE, cluster_m=4, group=8),
    "two by two": replace(ALONE, cluster_m=2, cluster_n=2, group=8)}
TRIED_ON: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {        # case -> configurations, promotions
    "k 8 less": (tuple(TRIED), ("none", "128B", "256B")), "rows 32 bytes longer": (("128x256 alone", "two share B"), ("128B", "256B")),
    "rows 64 bytes longer": (("128x256 alone", "two share B"), ("128B", "256B"))}


@dataclass(frozen=True)
class Entry:
    """One contestant: its kernel, case, what was tried, and its operands."""

    kernel: str
    case: str
    tried: tuple[str, ...]
    a: object
    b: object

    @property
    def peer(self) -> tuple[str, str, tuple[str, ...]]:
        """What it is compared with: itself on rows of whole lines; for what is tried, `final` there."""
        return self.kernel, WHOLE, self.tried if self.tried == ("fixed",) else ()


def _entries(size: int) -> dict[tuple, tuple[Entry, Callable[[], None]]]:
    """(kernel, case, tried) -> the entry and its launch, checked."""
    import cupy
    fixed, c = choose(size, size, size), cupy.empty((size, size), cupy.uint16)
    found = {}
    for case, rows in CASES.items():
        a, b = (normal_bf16(cupy, (size, size + pitch), seed)[:, :size + rows.k] for pitch, seed in ((rows.a, 11), (rows.b, 12)))
        runs = {("final", ()): gemm.final(a, b, c).bound(), ("cublasGemmEx", ()): peers.cublas(a, b, c),
                ("final", ("fixed",)): gemm.final(a, b, c, fixed, promotion="256B").bound()}
        names, promotions = TRIED_ON.get(case, ((), ()))
        runs |= {("final", (f"TRIED={name}", f"PROMOTION={word}")): gemm.final(a, b, c, TRIED[name], promotion=word).bound()
                 for name in names for word in promotions}
        for (kernel, tried), run in runs.items():
            _check(f"{kernel} {tried}, {case}, {size}", run, a, b, c)
            found[kernel, case, tried] = Entry(kernel, case, tried, a, b), run
    return found


def _check(name: str, run: Callable[[], None], a, b, c) -> None:
    """Compare 256 rows with the fp32 product, and see that all are written."""
    import cupy
    c.fill(0x7FC0)
    run()
    expected = bf16_values(a[:256]) @ bf16_values(b).T
    error = float(cupy.abs(bf16_values(c[:256]) - expected).max() / cupy.abs(expected).max())
    if not error < 1e-2 or bool((c == 0x7FC0).any()):
        raise AssertionError(f"{name}: largest error {error:.2e} of the largest result")


def pitches(rounds: int) -> list[Record]:
    """Records of every case at SIZES; note: the case, options: pitches in bytes and what was tried, ratio: of speeds."""
    records = []
    for size in SIZES:
        entries = _entries(size)
        samples = interleaved({key: run for key, (_, run) in entries.items()}, rounds, 2)
        for key, (entry, _) in entries.items():
            shape, full = (size, size, entry.a.shape[1]), (size, size, size)
            whole = samples[entry.peer]
            records.append(Record("pitches", entry.kernel, (f"A_PITCH={entry.a.strides[0]}", f"B_PITCH={entry.b.strides[0]}", *entry.tried),
                                  shape, "bfloat16", **times(samples[key]), tflops=tflops(shape, samples[key]),
                                  **beside(samples[key], " ".join((entry.kernel, *entry.peer[2])) + f", {WHOLE}", whole, tflops(full, whole)),
                                  note=entry.case))
        del entries
    return records
