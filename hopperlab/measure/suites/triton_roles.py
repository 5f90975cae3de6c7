# SPDX-License-Identifier: Apache-2.0
"""Lesson 18's measurement, the recording `triton_roles`: a product in Triton with and without `warp_specialize`, beside cuBLAS.

Needs a Hopper GPU, PyTorch and Triton. Each case runs in a process of its own (`python -m hopperlab.measure.suites.triton_roles NAME ROUNDS`):
what a compiler makes of a request may be wrong, fail to launch
or hang, and that is part of the answer. Only right results are timed.
"""
from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Timer
from typing import IO

from ..recordings import Record
from .bugs import FATAL, TURN
from .fields import beside, tflops, times

SHAPE = (4096, 4096, 4096)
METHOD = ("events around single launches, cold L2, each case beside cuBLAS in a process of its own, interleaved round by round, random normal bf16 operands; "
          "every result compared with cuBLAS's at the timed shape, after the first launch and after the last")
SECONDS = 8                     # of one case, once it is compiled
START = 60                      # to import, and to compile
BOTH = (((64, 64, 64), 3), ((64, 128, 64), 4), ((128, 128, 64), 4), ((128, 256, 64), 3))
ALONE = (((128, 128, 64), 4), ((128, 256, 64), 3))          # eight warps: with these Triton makes no roles, asked or not


@dataclass(frozen=True)
class Case:
    """One product. kernel: of machine.peers_triton_roles.KERNELS; tile: BM, BN, BK; roles: warp_specialize is asked for."""

    kernel: str
    tile: tuple[int, int, int]
    stages: int
    warps: int
    roles: bool

    @property
    def name(self) -> str:
        """A word for the command line."""
        return f"{self.kernel}:{'x'.join(map(str, self.tile))}:{self.stages}:{self.warps}:{int(self.roles)}"

    @property
    def words(self) -> tuple[str, ...]:
        """As options of a record."""
        return (f"tile={'x'.join(map(str, self.tile))}", f"num_stages={self.stages}", f"num_warps={self.warps}", f"warp_specialize={int(self.roles)}")


def case_of(name: str) -> Case:
    """The case of a `name`."""
    kernel, tile, stages, warps, roles = name.split(":")
    bm, bn, bk = (int(part) for part in tile.split("x"))
    return Case(kernel, (bm, bn, bk), int(stages), int(warps), roles == "1")


def cases() -> Iterator[Case]:
    """All that is measured."""
    for kernel in ("product", "persistent"):
        for tile, stages in BOTH if kernel == "product" else BOTH[1:3]:
            yield from (Case(kernel, tile, stages, 4, roles) for roles in (False, True))
        yield from (Case(kernel, tile, stages, 8, False) for tile, stages in ALONE)


def record(case: Case, rounds: int, seconds: float = SECONDS) -> Record:
    """Run one case in a fresh process and say what came of it. Processes may start and compile side by side; each has the GPU to itself when it launches."""
    command = [sys.executable, "-m", "hopperlab.measure.suites.triton_roles", case.name, str(rounds)]
    made = partial(Record, "triton_roles", case.kernel, case.words, SHAPE, "bfloat16")
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            if not _ready(child):
                return made(**_died(child, errors, "not compiled"))
            with TURN:
                out, _ = child.communicate("go\n", timeout=seconds)
        except subprocess.TimeoutExpired:
            return made(outcome="hang", note=f"ended by its time limit of {seconds:g} s")
        finally:
            child.kill()
            child.wait()
        if child.returncode:
            return made(**_died(child, errors, "failed"))
    found = json.loads(out.strip().splitlines()[-1])
    return made(**{key: tuple(value) if isinstance(value, list) else value for key, value in found.items()})


def _ready(child: subprocess.Popen) -> bool:
    """True once the child has said that its kernel is compiled; False where it ended before."""
    stop = Timer(START, child.kill)
    stop.start()
    try:
        return any(line.strip() == "ready" for line in iter(child.stdout.readline, ""))
    finally:
        stop.cancel()


def _died(child: subprocess.Popen, errors: IO[str], outcome: str) -> dict[str, str]:
    """The fields of a process that ended badly, and the last line that it said."""
    child.wait()
    errors.seek(0)
    lines = [line.strip() for line in errors.read().splitlines() if line.strip()] or [f"code {child.returncode}"]
    lost = any(word in " ".join(lines).lower() for word in FATAL)
    return {"outcome": "launch failure" if lost else outcome, "note": "the CUDA context was lost" if lost else lines[-1][:200]}


def run(case: Case, rounds: int) -> dict:
    """The fields of a case's record, measured in this process."""
    import cupy

    from ..launches.operands import bf16_values, normal_bf16
    from ..machine import peers, peers_triton_roles
    from ..machine.timing import interleaved
    m, n, k = SHAPE
    a, b, c = normal_bf16(cupy, (m, k), 41), normal_bf16(cupy, (n, k), 42), cupy.empty((m, n), cupy.uint16)
    expected = cupy.empty_like(c)
    peers.cublas(a, b, expected)()
    theirs = bf16_values(expected)

    def wrong() -> float:
        """Share of the elements that are not cuBLAS's, to bf16 accuracy."""
        cupy.cuda.runtime.deviceSynchronize()
        error = abs(bf16_values(c) - theirs) / abs(theirs).max()
        return float(((error > 2e-2) | (error != error)).mean())
    c.fill(0x7FC0)
    launch, made = peers_triton_roles.bound(case.kernel, case.tile, case.stages, case.warps, case.roles, a, b, c)
    fields: dict = {"registers": made.registers, "spills": made.spills, "shared_bytes": made.shared, "block": [made.threads]}
    share = wrong()
    samples = None
    if not share:
        other = cupy.empty_like(c)
        samples = interleaved({"Triton": launch, "cuBLAS": peers.cublas(a, b, other)}, rounds)
        share = wrong()
    if share or samples is None:
        return {**fields, "outcome": "wrong", "worst": round(share, 4)}
    ours, peer = samples["Triton"], samples["cuBLAS"]
    return {**fields, "outcome": "right", "tflops": tflops(SHAPE, ours), **times(ours), **beside(ours, "cuBLAS", peer, tflops(SHAPE, peer))}


def measure(rounds: int = 9, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """A record for each of `cases`; keep: called with what there is after each."""
    records: list[Record] = []
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(partial(record, rounds=rounds), cases()):
            records.append(found)
            keep(list(records))
    return records


def main(name: str, rounds: int) -> None:
    """The process of one case: compile, say so, wait for the word, measure."""
    from ..machine import peers_triton_roles

    case = case_of(name)
    peers_triton_roles.compiled(case.kernel, case.tile, case.stages, case.warps, case.roles, SHAPE)
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(run(case, rounds)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
