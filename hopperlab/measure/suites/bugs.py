# SPDX-License-Identifier: Apache-2.0
"""What an H200 does with kernels that are known to be wrong: right, wrong, hang, or launch failure.

Each case runs in a process of its own (`python -m hopperlab.measure.suites.bugs --case NAME --runs N`), because a failed launch costs the
CUDA context and a deadlock never returns. `hopperlab bench lessons --kernels bugs` records all of them, `--missing` here those that are not recorded.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np

from .. import recordings
from ..machine import command
from ..machine.board import header
from ..recordings import Record

RUNS = 20
FATAL = ("launch failure", "launchfailure", "launch_failed", "misaligned", "illegal")    # in what CUDA says of a lost context
HANG_SECONDS = 8                                            # once data and module are ready
TURN = Lock()                                               # held while a case has the GPU


@dataclass(frozen=True)
class Case:
    """One wrong kernel. bug: the macro that plants the bug ('' where the file itself is wrong); size: of the problem."""

    kernel: str
    bug: str
    size: int
    blocks: int = 132
    runs: int = RUNS

    @property
    def name(self) -> str:
        """A word for the command line."""
        return f"{self.kernel}:{self.bug}:{self.size}:{self.blocks}"

    @property
    def suite(self) -> str:
        """Of its record."""
        return "start_here" if self.kernel.startswith("kernel_") else "bugs"

    @property
    def key(self) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
        """Kernel, options and shape of its record, which tell it from the others."""
        if self.suite == "start_here":
            return self.kernel, (f"blocks={self.blocks}",), (self.size * 512,)
        return self.kernel, (self.bug,), (self.size, self.size)


def _cases() -> Iterator[Case]:
    for bug in ("BUG_WAIT_TOO_SHALLOW", "BUG_NO_BARRIER_AFTER_WAIT"):
        yield Case("mma_multistage", bug, 2048)
    for bug in ("BUG_NO_FULL_WAIT", "BUG_EARLY_RELEASE", "BUG_WRONG_PARITY", "BUG_FORGOTTEN_EXPECT_TX", "BUG_WRONG_BYTES",
                "BUG_PRODUCER_PARITY", "BUG_PRODUCER_LEAVES", "BUG_ARRIVE_PER_THREAD"):
        yield Case("warp_specialized", bug, 2048)
    for bug in ("BUG_EARLY_RELEASE", "BUG_WAIT_AFTER_LOOP"):
        yield Case("multistage", bug, 2048)
    for bug in ("BUG_NO_PROXY_FENCE", "BUG_REUSE_BEFORE_READ", "BUG_NO_FULL_WAIT", "BUG_WRONG_PARITY",
                "BUG_FORGOTTEN_EXPECT_TX", "BUG_WRONG_BYTES"):
        yield Case("tma_scale", bug, 2048)
    for bug in ("BUG_NO_FULL_WAIT", "BUG_WRONG_PARITY", "BUG_FORGOTTEN_EXPECT_TX", "BUG_WRONG_BYTES"):
        yield Case("tma_copy", bug, 2048)
    yield Case("tma_copy_ring", "BUG_REUSE_BEFORE_READ", 2048)
    for bug in ("BUG_NO_TILE_BARRIER", "BUG_NO_REUSE_BARRIER"):
        yield Case("shared_tile", bug, 1024)
    yield Case("transpose", "BUG_SWIZZLE_MISMATCH", 32)
    for bug in ("BUG_WRONG_PARITY", "BUG_MISSING_ARRIVE", "BUG_WRONG_BYTES", "BUG_PRODUCER_PARITY"):
        yield Case("mbarrier_ring", bug, 2048)
    for bug in ("BUG_TILE_AT_128", "BUG_TILE_AT_64"):
        yield Case("columns", bug, 2048)
    for bug in ("BUG_DESCRIPTOR_SWIZZLE", "BUG_READ_BEFORE_WAIT"):
        yield Case("one_tile", bug, 64)
    for number in (1, 2, 3, 4):
        for blocks in (132, 1056, 4000):
            yield Case(f"kernel_{number}", "", 20000, blocks, 300)


CASES = tuple(_cases())


def records(cases: Iterable[Case], workers: int = 6) -> list[Record]:
    """One record a case. Their processes start side by side, and then launch one after the other: each has the GPU to itself."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(record, cases))


def record(case: Case, hang_seconds: float = HANG_SECONDS) -> Record:
    """Run one case in a fresh process and say what came of it."""
    command = [sys.executable, "-m", "hopperlab.measure.suites.bugs", "--case", case.name, "--runs", str(case.runs)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    suite, (_, options, shape) = case.suite, case.key
    try:
        ready = child.stdout.readline().strip()             # printed once kernel and data are ready
        if ready != "ready":
            raise RuntimeError(f"{case.name} did not start: {child.stderr.read()[-2000:]}")
        with TURN:
            out, err = _communicate(child, hang_seconds)
    except subprocess.TimeoutExpired:
        return Record(suite, case.kernel, options, shape, runs=1, outcome="hang",
                      note=f"ended by its time limit of {hang_seconds} s")
    if child.returncode:
        if not any(word in err.lower() for word in FATAL):
            raise RuntimeError(f"{case.name} failed otherwise than by its launch: {err[-2000:]}")
        return Record(suite, case.kernel, options, shape, runs=1, outcome="launch failure", note="the CUDA context was lost")
    result = json.loads(out)
    wrong = result["wrong"]
    outcome = "right" if not wrong else "wrong" if wrong == case.runs else "sometimes wrong"
    return Record(suite, case.kernel, options, shape, runs=case.runs, wrong=wrong, outcome=outcome, worst=result["worst"])


def _communicate(child: subprocess.Popen, seconds: float) -> tuple[str, str]:
    """What the child writes from the word on; it is gone from the GPU when TimeoutExpired is raised."""
    try:
        return child.communicate("go\n", timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise


def _product(case: Case):
    import cupy

    from ..launches import gemm, variants
    from ..launches.launch import GEMMS
    from ..launches.operands import bf16_bits, bf16_values
    values = [np.random.default_rng(seed).integers(-4, 5, (case.size, case.size)).astype(np.float32) for seed in (1, 2)]
    a, b = (cupy.asarray(bf16_bits(value)) for value in values)
    c = cupy.empty_like(a)
    expected = bf16_values(bf16_bits(bf16_values(a) @ bf16_values(b).T))
    make = {**GEMMS, "shared_tile": gemm.shared_tile, "multistage": variants.multistage}[case.kernel]
    launch = make(a, b, c, options=(f"-D{case.bug}=1",))
    return launch, c, lambda: bf16_values(c) != expected


def _movement(case: Case):
    import cupy

    from ..launches.launch import tma_copy, tma_copy_ring, tma_scale
    x = cupy.random.default_rng(5).standard_normal((case.size, case.size), dtype=cupy.float32)
    y = cupy.empty_like(x)
    option = (f"-D{case.bug}=1",)
    if case.kernel == "tma_scale":
        return tma_scale(x, y, 2.5, 264, option), y, lambda: y != x * cupy.float32(2.5)
    if case.kernel == "tma_copy":
        return tma_copy(x, y, (64, 32), "128B", option), y, lambda: y != x
    return tma_copy_ring(x, y, (64, 32), "128B", 4, 264, option), y, lambda: y != x


def _fold(case: Case):
    import cupy

    from ..launches.launch import fold
    from ..launches.operands import folded
    values = np.random.default_rng(7).integers(-1000, 1001, case.size * 512).astype(np.float32)
    x, expected = cupy.asarray(values), cupy.asarray(folded(values))
    y = cupy.empty_like(x)
    return fold(int(case.kernel[-1]), x, y, case.blocks), y, lambda: y != expected


def _ring(case: Case):
    import cupy

    from ...runtime.library import load_kernel
    from ..launches.launch import SMS, Launch
    from ..launches.operands import folded
    values = np.random.default_rng(8).integers(-1000, 1001, case.size * 512).astype(np.float32)
    x, expected = cupy.asarray(values), cupy.asarray(folded(values))
    y = cupy.empty_like(x)
    kernel = load_kernel("mbarrier/ring.cu", "fold", (f"-D{case.bug}=1",))
    return Launch(kernel, (SMS,), (160,), (x, y, np.int32(case.size))), y, lambda: y != expected


def _transpose(case: Case):
    import cupy

    from ...runtime.library import load_kernel
    from ..launches.launch import Launch
    x = cupy.arange(1024, dtype=cupy.float32).reshape(32, 32)
    y = cupy.empty_like(x)
    kernel = load_kernel("banks/transpose.cu", "transpose", ("-DSWIZZLE=1", f"-D{case.bug}=1"))
    return Launch(kernel, (1,), (32, 32), (x, y)), y, lambda: y != x.T


def _columns(case: Case):
    import cupy

    from ...runtime.library import load_kernel
    from ...runtime.tensor_map import TensorMap
    from ..launches.launch import Launch
    x = cupy.arange(case.size * 32, dtype=cupy.int32).reshape(case.size, 32)
    tiles = case.size // 32
    y = cupy.empty((tiles, 8, 32, 4), dtype=cupy.int32)
    expected = x.reshape(tiles, 32, 8, 4).swapaxes(1, 2)
    kernel = load_kernel("layouts/columns.cu", "columns", (f"-D{case.bug}=1",))
    return Launch(kernel, (tiles,), (128,), (TensorMap.tiled(x, box=(32, 32), swizzle="128B"), y), 8192), y, lambda: y != expected


def _one_tile(case: Case):
    import cupy

    from ...hopper import fragments, wgmma
    from ...runtime.library import load_kernel
    from ...runtime.tensor_map import TensorMap
    from ..launches.launch import Launch
    from ..launches.operands import bf16_values, integer_bf16
    n = case.size
    a, b = integer_bf16(cupy, (64, 256), 9), integer_bf16(cupy, (n, 256), 10)
    y = cupy.empty((128, n // 2), dtype=cupy.float32)
    where = fragments.wgmma_d(n)
    expected = (bf16_values(a) @ bf16_values(b).T)[cupy.asarray(where.row), cupy.asarray(where.col)]
    maps = [TensorMap.tiled(x, box=(len(x), 64), swizzle="128B", dtype="bfloat16") for x in (a, b)]
    options = (f"-DN={n}", "-DBLOCKS=4", "-DIN_FLIGHT=1", f"-D{case.bug}=1")
    kernel = load_kernel("wgmma/one_tile.cu", "one_tile", options, strict=False)
    layout = np.uint64(wgmma.encode(0, 16, 1024, "128B"))
    return Launch(kernel, (1,), (128,), (*maps, y, layout), 4 * (64 + n) * 128 + 64), y, lambda: y != expected


def _run(case: Case, runs: int, make: Callable) -> dict:
    import cupy
    launch, out, wrong_elements = make(case)
    _ = launch.kernel.cupy.attributes                       # loads the module, and
    out.view("uint8").fill(0xFF)
    wrong_elements().mean()                                 # what compares, so that only launches are left
    cupy.cuda.runtime.deviceSynchronize()
    print("ready", flush=True)
    sys.stdin.readline()                                    # the word that it is this process's turn
    wrong, worst = 0, 0.0
    for _ in range(runs):
        out.view("uint8").fill(0xFF)                        # NaN in bf16 and fp32
        launch()
        cupy.cuda.runtime.deviceSynchronize()
        share = float(wrong_elements().mean())
        wrong, worst = wrong + (share > 0), max(worst, share)
    return {"wrong": int(wrong), "worst": round(worst, 6)}


MAKERS: Mapping[str, Callable] = {
    "mma_multistage": _product, "warp_specialized": _product, "multistage": _product, "shared_tile": _product, "mbarrier_ring": _ring,
    "transpose": _transpose, "columns": _columns, "one_tile": _one_tile, **{f"kernel_{number}": _fold for number in (1, 2, 3, 4)},
    "tma_scale": _movement, "tma_copy": _movement, "tma_copy_ring": _movement}
"""Kernel of a case -> what makes its launch, its output, and a function that says which elements are wrong."""


def measure(_rounds: int = 0) -> list[Record]:
    """One record for each of CASES; how often each is launched, it says itself."""
    return records(CASES)


def with_missing(known: Sequence[Record]) -> list[Record]:
    """The records of all CASES, in that order: those known, and the others measured now."""
    found = {_key(record): record for record in known}
    found |= {_key(record): record for record in records([case for case in CASES if case.key not in found])}
    return [found[case.key] for case in CASES]


def _key(record: Record) -> tuple:
    return record.kernel, record.options, record.shape


def main(arguments: list[str] | None = None) -> int:
    """Command line: one case, in this process, whose result is printed as JSON; or what is missing in a recording."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.suites.bugs", description="Planted bugs on this GPU.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--case", choices=[case.name for case in CASES], metavar="NAME", help="run this case once it is told to go on by a line of input")
    what.add_argument("--missing", action="store_true", help="run the cases that are not recorded, and write the recording with them")
    parser.add_argument("--runs", type=int, default=RUNS, metavar="N", help=f"launches of a case ({RUNS})")
    parser.add_argument("--out", type=Path, default=recordings.FOLDER, metavar="DIR", help="where the recording is (the package's)")
    given = parser.parse_args(arguments)
    if given.case:
        case = next(case for case in CASES if case.name == given.case)
        print(json.dumps(_run(case, given.runs, MAKERS[case.kernel])))
        return 0
    command.require_gpu("hopperlab.measure.suites.bugs --missing")
    head = header()
    found = with_missing(list(recordings.load("bugs", recordings.shelf(given.out, head["gpu"]))))
    print(f"{recordings.save('bugs', head, found, given.out)}: {len(found)} records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
