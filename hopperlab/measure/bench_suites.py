"""The suites of `hopperlab bench`, one row each in SUITES. Add a suite by adding a row.

`Races` race kernels and peers over shapes (bench_race.py does the measuring): give it a function that builds a Race for a shape.
`Table` runs functions that return records by themselves, and says which file each belongs to.
"""
from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from . import copies, launches_gemm, peers, recordings, suites
from .bench_facts import flop
from .bench_race import Contestant, Race, WrongResult
from .operands import bf16_values, normal_bf16
from .recordings import Record, Recording

CUBES = tuple((size, size, size) for size in (1024, 2048, 4096, 8192, 16384))
GEMM_SHAPES = (*CUBES, (4096, 7168, 2048), (4096, 4096, 14336), (128, 7168, 18432))
MOST_BYTES = {"gemm": 16 << 30, "copy": 64 << 30}      # of the arrays of one shape; a product's reference takes as much again
BYTES = {"B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
COPY_COLUMNS = 32768            # of the bf16 matrix that a size in bytes stands for


Part = Callable[[int], "Recording | list[Record]"]


@dataclass(frozen=True)
class Races:
    """A suite of races. shape(text) parses one --shapes word and raises ValueError that names the rule it breaks."""

    name: str
    help: str
    shapes: tuple[tuple[int, ...], ...]
    shape: Callable[[str], tuple[int, ...]]
    kernels: Mapping[str, object]
    default_kernels: tuple[str, ...]
    peers: Mapping[str, peers.Peer]
    race: Callable[[tuple[int, ...], tuple[str, ...], tuple[str, ...]], Race]
    """race(shape, kernels, peers) builds the contestants; it needs a GPU."""

    def contestants(self, kernels: tuple[str, ...], chosen: tuple[str, ...]) -> int:
        """How many contestants a race has."""
        return len(kernels) + sum(len(self.peers[name].entries) for name in chosen)


@dataclass(frozen=True)
class Table:
    """A suite that measures by itself. parts(chosen): file name -> function(rounds) that returns a recording or its records.

    kernels(): what --kernels may choose (chosen is empty for everything); needs: the module it lives in, where that may be absent.
    """

    name: str
    help: str
    parts: Callable[[tuple[str, ...]], Mapping[str, Part]]
    kernels: Callable[[], Mapping[str, object]]
    needs: str = ""
    rounds: int = 9

    def missing(self) -> bool:
        """True where the module it needs is not part of this installation."""
        return bool(self.needs) and importlib.util.find_spec(self.needs) is None


# --- products ---------------------------------------------------------------------------------------------------------
def gemm_shape(text: str) -> tuple[int, int, int]:
    """'4096' or '4096x7168x2048' (m x n x k). Raises ValueError that names the rule."""
    numbers = re.fullmatch(r"(\d+)(?:x(\d+)x(\d+))?", text)
    if numbers is None:
        raise ValueError(f"{text!r} is no shape of a product: write 4096 for a cube, or 4096x7168x2048 for m x n x k")
    m, n, k = (int(numbers[i] or numbers[1]) for i in (1, 2, 3))
    if min(m, n, k) < 1:
        raise ValueError(f"{text!r}: every size is at least 1")
    if k % 8:
        raise ValueError(f"{text!r}: k is {k}, no multiple of 8; TMA needs rows of a multiple of 16 bytes, 8 bf16 elements")
    _check_size(text, 2 * (m * k + n * k + m * n), "gemm")
    return m, n, k


def _check_size(text: str, total: int, suite: str) -> None:
    if total > MOST_BYTES[suite]:
        raise ValueError(f"{text!r}: the arrays take {total / 2**30:.0f} GiB, more than {MOST_BYTES[suite] >> 30} GiB")


def wrong_share(ours, expected, k: int) -> float:
    """Fraction of elements of a bf16 product (as float32) that are further from the fp32 product than rounding explains.

    One rounding to bf16 is at most 2^-9 of the value (doubled here); sums in another order differ by far less than
    2^-10 sqrt(k), a thousandth of a sum's own size for standard normal operands, and one missing k-step by far more.
    """
    import cupy
    return float((~(cupy.abs(ours - expected) <= 2.0 ** -8 * cupy.abs(expected) + 2.0 ** -10 * k ** 0.5)).mean())


def gemm_race(shape: tuple[int, ...], kernels: tuple[str, ...], chosen: tuple[str, ...]) -> Race:
    """The course's kernels and the chosen peers on random normal bf16 operands."""
    import cupy
    m, n, k = shape
    a, b, c = normal_bf16(cupy, (m, k), 11), normal_bf16(cupy, (n, k), 12), cupy.empty((m, n), cupy.uint16)
    expected = bf16_values(a) @ bf16_values(b).T            # fp32, by cuBLAS's SGEMM
    made = {name: GEMM_KERNELS[name](a, b, c) for name in kernels}
    field = {name: Contestant(name, launch.bound(), _options(launch), launch) for name, launch in made.items()}
    field |= {entry: Contestant(entry, run, family=family) for entry, (family, run) in peers.products(chosen, a, b, c).items()}

    def wrong(contestant: Contestant) -> float:
        c.fill(0x7FC0)                                      # NaN: what is not written is wrong
        contestant.run()
        return wrong_share(bf16_values(c), expected, k)
    return Race("gemm", (m, n, k), "bfloat16", flop(shape), "tflops", field, wrong)


def _options(launch) -> tuple[str, ...]:
    return tuple(option[2:] for option in launch.kernel.module.options if option.startswith("-D"))


GEMM_KERNELS = launches_gemm.LADDER


# --- copies -----------------------------------------------------------------------------------------------------------
def copy_shape(text: str) -> tuple[int, int]:
    """'1GiB', '64MiB', or '16384x32768' (rows x bf16 columns). Raises ValueError that names the rule."""
    size = re.fullmatch(r"(\d+)(B|[KMG]iB)", text, re.IGNORECASE)
    pair = re.fullmatch(r"(\d+)x(\d+)", text)
    if size is None and pair is None:
        raise ValueError(f"{text!r} is no size of a copy: write 64MiB or 4GiB, or 16384x32768 for rows x bf16 columns")
    if size is not None:
        total = int(size[1]) * BYTES[size[2].upper()]
        rows, columns = total // (2 * COPY_COLUMNS), COPY_COLUMNS
        if rows < 1 or rows * 2 * columns != total:
            raise ValueError(f"{text!r}: a size is a multiple of {2 * COPY_COLUMNS // 1024} KiB")
    else:
        rows, columns = int(pair[1]), int(pair[2])
    if rows < 1 or columns < 8 or columns % 8:
        raise ValueError(f"{text!r}: {columns} columns, no multiple of 8; TMA needs rows of a multiple of 16 bytes")
    _check_size(text, 4 * rows * columns, "copy")
    return rows, columns


def copy_race(shape: tuple[int, ...], kernels: tuple[str, ...], chosen: tuple[str, ...]) -> Race:
    """Every way to copy a bf16 matrix, beside cudaMemcpy."""
    import cupy
    source = cupy.random.default_rng(3).integers(0, 1 << 16, size=shape, dtype=cupy.uint16)
    target = cupy.empty_like(source)
    streamed = copies.stream_copy(source.reshape(-1), target.reshape(-1))
    variants = {**suites.copy_variants(source, target), "stream_copy": (_options(streamed), streamed)}
    field = {name: Contestant(launch.kernel.name, launch.bound(), options, launch)
             for name, (options, launch) in variants.items() if launch.kernel.name in kernels}
    for name in chosen:
        field |= {entry: Contestant(entry, make(source, target), family=COPY_PEERS[name].family)
                  for entry, make in COPY_PEERS[name].entries.items()}

    def wrong(contestant: Contestant) -> float:
        target.fill(0x7FC0)
        contestant.run()
        return float((source != target).mean())
    return Race("copy", tuple(shape), "bfloat16", 2 * source.nbytes, "gb_s", field, wrong)


COPY_KERNELS = dict.fromkeys(("vector_copy", "stream_copy", "cp_async_copy", "bulk_copy", "tma_copy", "tma_copy_ring"))
COPY_PEERS = {"memcpy": peers.Peer("cudaMemcpy", "cupy", {"cudaMemcpy": peers.device_copy})}


# --- recordings that are measured as a whole --------------------------------------------------------------------------
MODULES = {"ladder": "ladder", "variants": "variants", "copies": "copies_record", "micro": "micro", "fp8": "fp8", "attention": "attention",
           "attention_fp8": "attention_fp8"}
"""Recordings with a module of their own here: its main() takes --rounds and --out and writes the recording."""


def _module(name: str) -> str:
    return f"{__package__}.{MODULES[name]}"


def whole(name: str, rounds: int, arguments: tuple[str, ...] = ()) -> Recording:
    """A recording of MODULES, measured now. Raises WrongResult when its module found nothing right to time."""
    module = importlib.import_module(_module(name))
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
        if module.main([*arguments, "--rounds", str(rounds), "--out", folder]):
            raise WrongResult(f"{name}: nothing is right on this GPU, so nothing was timed")
        return recordings.load(name, Path(folder))


def _ladder_parts() -> dict[str, Part]:
    return {"ladder": partial(whole, "ladder"), **{name: suites.SUITES[name] for name in ("ceilings", "gemm", "stages")}}


def _all_parts() -> dict[str, Part]:
    from . import record
    own = {file: partial(record.measure, name) for name, file in record.FILES.items()}
    return {**{name: partial(whole, name) for name in MODULES if importlib.util.find_spec(_module(name))}, **own}


def _only(parts: Callable[[], dict[str, Part]]) -> Callable[[tuple[str, ...]], dict[str, Part]]:
    """Parts by file, those chosen."""
    return lambda chosen: {name: part for name, part in parts().items() if not chosen or name in chosen}


def _micro_parts(chosen: tuple[str, ...]) -> dict[str, Part]:
    return {"micro": lambda rounds: whole("micro", rounds, ("--only", *chosen) if chosen else ())}


def _one(name: str) -> Callable[[tuple[str, ...]], dict[str, Part]]:
    """A suite that is one recording of MODULES, measured as a whole."""
    return lambda chosen: {name: partial(whole, name)}


def _none() -> Mapping[str, object]:
    return {}


def _experiments() -> Mapping[str, object]:
    return importlib.import_module(_module("micro")).EXPERIMENTS


SUITES: Mapping[str, Races | Table] = {suite.name: suite for suite in (
    Races("gemm", "bf16 products of the course beside cuBLAS, PyTorch and Triton", GEMM_SHAPES, gemm_shape, GEMM_KERNELS,
          ("mma_multistage", "tma_wgmma", "warp_specialized", "final"), peers.PRODUCT_PEERS, gemm_race),
    Races("copy", "every way to copy a matrix, beside cudaMemcpy", ((16384, 32768), (65536, 32768)), copy_shape, COPY_KERNELS,
          tuple(COPY_KERNELS), COPY_PEERS, copy_race),
    Table("micro", "latency and throughput of single mechanisms", _micro_parts, _experiments, _module("micro"), 5),
    Table("fp8", "fp8 products with fine-grained scales beside cuBLASLt's, and what their sums lose", _one("fp8"), _none, _module("fp8")),
    Table("attention", "attention forward beside cuDNN's, over head sizes, lengths and masks", _one("attention"), _none, _module("attention")),
    Table("ladder", "what the story of the ladder reads: its steps, ceilings, depths of the ring", _only(_ladder_parts), _ladder_parts),
    Table("all", "every recording of the course", _only(_all_parts), _all_parts))}
