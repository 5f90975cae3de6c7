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
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ..recordings import Record
from .bugs import FATAL
from .fields import beside, tflops, times

SHAPE = (4096, 4096, 4096)
METHOD = ("events around single launches, cold L2, each case beside cuBLAS in a process of its own, interleaved round by round, random normal bf16 operands; "
          "every result compared with cuBLAS's at the timed shape, after the first launch and after the last")
SECONDS = 120                   # of one case, compiling included
BOTH = (((128, 128, 64), 3), ((128, 128, 64), 4), ((64, 128, 64), 4), ((64, 64, 64), 3), ((128, 256, 64), 3))
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
        for tile, stages in BOTH if kernel == "product" else BOTH[:3]:
            yield from (Case(kernel, tile, stages, 4, roles) for roles in (False, True))
        yield from (Case(kernel, tile, stages, 8, False) for tile, stages in ALONE)


def record(case: Case, rounds: int, seconds: float = SECONDS) -> Record:
    """Run one case in a fresh process and say what came of it. Raises RuntimeError where it failed otherwise than by its kernel."""
    command = [sys.executable, "-m", "hopperlab.measure.suites.triton_roles", case.name, str(rounds)]
    made = partial(Record, "triton_roles", case.kernel, case.words, SHAPE, "bfloat16")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return made(outcome="hang", note=f"ended by its time limit of {seconds} s")
    if done.returncode:
        if any(word in done.stderr.lower() for word in FATAL):
            return made(outcome="launch failure", note="the CUDA context was lost")
        if "PassManager" in done.stderr:
            return made(outcome="not compiled", note="Triton's compiler gave up")
        raise RuntimeError(f"{case.name}: {done.stderr[-2000:]}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    return made(**{key: tuple(value) if isinstance(value, list) else value for key, value in found.items()})


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


def measure(rounds: int = 15) -> list[Record]:
    """A record for each of `cases`."""
    return [record(case, rounds) for case in cases()]


if __name__ == "__main__":
    print(json.dumps(run(case_of(sys.argv[1]), int(sys.argv[2]))))
