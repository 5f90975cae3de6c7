# SPDX-License-Identifier: Apache-2.0
"""What the course asks of its kernels, and what the recordings of each board hold of it: the table of targets in recordings/README.md.

A row's function takes `Load`, from a recording's name to the recording of a board, and gives the ratios of speeds that the target is about, a cell each. Add a row
to TARGETS.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from . import recordings, summaries
from .recordings import Record, Recording

Load = Callable[[str], Recording]
Ratios = Callable[[Load], Sequence[float]]
GIB = 1 << 30
OTHERS = ("PyTorch", "cuDNN")           # families of peers of a decoding step


@dataclass(frozen=True)
class Target:
    """what: in words; asked: geometric mean and least ratio of speeds (None: the mean alone, or the least alone); ratios: what is recorded."""

    what: str
    mean: float | None
    least: float | None
    ratios: Ratios

    def told(self, load: Load) -> str:
        """What a board reached: mean, least and count; empty where nothing is recorded."""
        try:
            ratios = self.ratios(load)
        except FileNotFoundError:
            return ""
        if not ratios:
            return ""
        found = summaries.summary(ratios)
        met = (self.mean is None or found.mean >= self.mean) and (self.least is None or found.least >= self.least)
        return f"{found.mean:.3f}, {found.least:.3f} ({found.count}){'' if met else ' **missed**'}"

    @property
    def asked(self) -> str:
        """The target in words."""
        return ", ".join(f"{word} {value:.2f}" for word, value in (("mean", self.mean), ("least", self.least)) if value is not None)


def _ratios(records: Iterable[Record]) -> list[float]:
    return [record.ratio for record in records if record.ratio is not None]


def _final(name: str, load: Load, kernel: str = "final") -> list[float]:
    return _ratios(load(name).where(kernel=kernel))


def _products(name: str, load: Load) -> list[float]:
    return _ratios(summaries.faster_of_notes(load(name).where(kernel="final", mode="cold L2")))


def _drawn(name: str, load: Load) -> list[float]:
    return _ratios(load(name).where(kernel="final", mode="cold L2"))


def _beside_quack(load: Load) -> list[float]:
    found = load("products_quack").where(kernel="final", mode="cold L2")
    return _ratios(summaries.faster_of_notes(record for record in found if summaries.family(record) == "quack"))


def _raced(load: Load) -> list[float]:
    found = load("bench_gemm").where(kernel="final", mode="cold L2")
    return _ratios(summaries.faster_of_notes(record for record in found if summaries.family(record) == "cuBLAS"))


def _sustained(value: Callable[[Record], float], load: Load, kernel: str = "final") -> list[float]:
    """Of ours over that of cublasGemmEx, each in its faster order of B, back to back; none where this kernel is not recorded."""
    found: dict[tuple[int, ...], list[Record]] = {}
    for record in load("products_sustained").where(mode="sustained"):
        found.setdefault(record.shape, []).append(record)

    def fastest(records: Iterable[Record], *kernels: str) -> float:
        return value(max((record for record in records if record.kernel in kernels), key=lambda record: record.tflops or 0))
    return [fastest(records, kernel) / fastest(records, "cublasGemmEx TN", "cublasGemmEx NN") for records in found.values()
            if any(record.kernel == kernel for record in records)]


def _few(load: Load) -> list[float]:
    return _products("products_few", load)


def _few_read(load: Load) -> list[float]:
    """Bytes of the weights a second, beside the fastest kernel that only reads; in an L2 that has nothing to write back, as that kernel finds it."""
    most = max(record.gb_s or 0 for record in load("copies").where(kernel="bulk_read"))
    found = summaries.faster_of_notes(load("products_few").where(kernel="final", mode="clean L2"))
    return [record.shape[1] * record.shape[2] * 2 / (record.ms or math.inf) / 1e6 / most for record in found]


def _few_beside_reads(load: Load) -> list[float]:
    return _ratios(summaries.faster_of_notes(load("reads_few").where(kernel="final", mode="clean L2")))


def _chain(load: Load) -> list[float]:
    return _ratios(r for r in load("launches").where(suite="chain", mode="cold L2") if r.options[0] == "way=graph of dependent launches")


def _int4(suite: str, load: Load) -> list[float]:
    return _ratios(r for r in load("mixed").where(suite=suite, kernel="int_weights", mode="cold L2") if "weights=int4" in r.options)


def _cells(load: Load) -> Mapping[tuple[int, ...], list[Record]]:
    """Records of a decoding step and its peers, by batch, length, heads, KV heads and head size, for caches of 1 GiB and more."""
    found: dict[tuple[int, ...], list[Record]] = {}
    for record in load("decoding").where(suite="cells"):
        batch, length, _, kv_heads, d = record.shape
        if batch * length * kv_heads * d * 2 * 2 >= GIB:                # keys and values of two bytes
            found.setdefault(record.shape, []).append(record)
    return found


def _read(load: Load) -> list[float]:
    return _ratios(r for records in _cells(load).values() for r in records if r.kernel == "decode")


def _decoding(load: Load) -> list[float]:
    """The step beside the fastest of the others, by their times."""
    found = []
    for records in _cells(load).values():
        others = min(r.ms or 0 for r in records if r.kernel.startswith(OTHERS))
        found.append(others / next(r.ms or 0 for r in records if r.kernel == "decode"))
    return found


def _two(suite: str, way: str, peer: str, load: Load) -> list[float]:
    return _ratios(r for r in load("two_gpus").where(suite=suite, options=(way,)) if peer in (r.peer or ""))


def _reduced(load: Load) -> list[float]:
    return _ratios(load("two_gpus").where(suite="all_reduce", options=("one-shot, words",), shape=(64 << 10,)))


TARGETS: tuple[Target, ...] = (
    Target("bf16 products at 60 random shapes, of the best of cuBLAS's layouts and entries", 1.00, 0.93, partial(_products, "products")),
    Target("the same at 60 others, and of the fastest of cuBLASLt's eight best candidates, timed", 1.00, 0.93, partial(_products, "products_best")),
    Target("bf16 products at seven shapes that quack is fast at and six random ones, of quack tuned at each", 1.04, None, _beside_quack),
    Target("bf16 products at the eight shapes of README's table, of the same", 1.03, None, _raced),
    Target("the same shapes, back to back, of cublasGemmEx", 1.02, None, partial(_sustained, lambda record: record.tflops or 0)),
    Target("the same, in dependent launches", 1.02, None, partial(_sustained, lambda record: record.tflops or 0, kernel="final_dependent")),
    Target("the same, launches per joule", 1.02, None, partial(_sustained, lambda record: 1 / (record.joules or math.inf))),
    Target("bf16 products with 1 to 64 rows and weights of 32 MB and more, of cuBLAS's entries and candidates", 1.00, None, _few),
    Target("the same, of a kernel that only reads as many bytes, in the same rounds", 0.85, None, _few_beside_reads),
    Target("the same, of the rate at which that kernel reads 4 GiB", 0.85, None, _few_read),
    Target("fp8 products at eight shapes, of cuBLASLt", 1.10, 0.98, partial(_final, "fp8")),
    Target("fp8 products at random shapes that cuBLASLt takes, of cuBLASLt", 1.10, 0.98, partial(_drawn, "fp8_random")),
    Target("fp8 products of 8 to 256 groups, of the faster of DeepGEMM and cuBLASLt launched once per group", 1.05, None,
           partial(_final, "fp8_grouped", kernel="grouped_tall")),
    Target("attention forward, 30 cells, of cuDNN", 1.10, 0.98, partial(_final, "attention")),
    Target("attention forward at random cells of one length, of cuDNN", 1.10, 0.98, partial(_drawn, "attention_random")),
    Target("attention backward, 20 cells, of cuDNN", 1.00, 0.93, partial(_final, "backward")),
    Target("the same, deterministic", 0.85, None, partial(_final, "backward", kernel="ordered")),
    Target("chain of small products with dependent launches, of the same kernels in a graph", 1.10, None, _chain),
    Target("int4 weights (group 128), m of 16 to 64, of cuBLAS's bf16", 2.50, None, partial(_int4, "few")),
    Target("the same, m of 1024 and more", 0.90, None, partial(_int4, "many")),
    Target("decoding, caches of 1 GiB and more, of a kernel that only reads", None, 0.88, _read),
    Target("the same, of the faster of cuDNN and PyTorch", 1.00, None, _decoding),
    Target("all-gather under a product, two GPUs, of the product alone", None, 0.93, partial(_two, "gather", "all CTAs copy", "alone")),
    Target("the same, of NCCL before cuBLAS", None, 1.00, partial(_two, "gather", "all CTAs copy", "NCCL")),
    Target("product under a reduce-scatter, two GPUs, of the product alone", None, 0.93, partial(_two, "scatter", "in turns", "alone")),
    Target("the same, of NCCL behind cuBLAS", None, 1.00, partial(_two, "scatter", "in turns", "NCCL")),
    Target("one-shot all-reduce of 64 KiB, two GPUs, of NCCL", 1.00, None, _reduced),
)


def table() -> str:
    """The table in Markdown: targets, and for each board the geometric mean, the least, and of how many cells."""
    boards = recordings.BOARDS
    lines = [f"| speed of ours, of a peer's | asked | {' | '.join(boards.values())} |", "|---|---|" + "---|" * len(boards)]
    for target in TARGETS:
        told = (target.told(lambda name, board=board: recordings.load(name, recordings.FOLDER / board)) for board in boards)
        lines.append(f"| {target.what} | {target.asked} | {' | '.join(told)} |")
    return "\n".join(lines)
