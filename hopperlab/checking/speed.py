# SPDX-License-Identifier: Apache-2.0
"""How fast an answer is by the estimate (`hl.estimate`), beside a reference: of exercises that ask for speed where no GPU is.

An estimate is no measurement, and what is asked for (Speed.least) leaves more room than its error.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import hopperlab as hl

from ..hopper import limits
from ..runtime.shapes import Shape

if TYPE_CHECKING:
    from ..estimates.estimating import Estimate

BOARD = "h200"
FLOPS = 4096             # of an SM per cycle, dense products of bf16: 989 TFLOP/s with 132 SMs at 1830 MHz
NEARLY_ALL = 0.95        # of a product's FLOPs: estimates of right answers count 1.03 to 1.07 times what there is
L2_BYTES = 64            # of an SM per cycle, about: what `Estimate.l2` is a share of
MOST_EDGE = 256          # of a square tile whose sums fill the registers of an SM; fewer bytes for a product take a cluster
CLUSTER_EDGES = 4        # such tiles along one edge of the largest cluster, whose CTAs share what they load
NEARLY_THE_BYTES = 0.8   # what L2_BYTES stands for lies between 56 and 71
SHARES = ("multicast::cluster", "mapa")
OWN = "the course's own answer"


class NoSpeed(ValueError):
    """An answer whose speed cannot be judged; the message says why."""


@dataclass(frozen=True)
class Speed:
    """What an answer's speed is judged by.

    run:          run(launch) launches the answer's kernels on a large problem, as Case.run does on a small one; zeros will do as operands
    says:         the problem in words, 'm, n, k = 2048, 2048, 2048'
    reference_us: gives the estimated microseconds that the answer is compared with
    flops:        of the problem's products, all of which wgmma must do
    than:         what takes reference_us, in words
    prepares:     kernels that only say how others are launched: they run, and are not timed
    least:        the share of the reference's speed that is asked for
    loads:        bytes that the L2 has to bring for the products, at the fewest, where CTAs do not share them (0: not asked)
    """

    run: Callable[[Callable[..., None]], None]
    says: str
    reference_us: Callable[[], float]
    flops: int
    than: str = OWN
    prepares: Collection[str] = ()
    least: float = 0.8
    loads: int = 0

    def __str__(self) -> str:
        return f"at least {self.least:g} of the speed of {self.than} at {self.says}, estimated for an H200 (no measurement)"


@dataclass(frozen=True)
class Pace:
    """What the estimate says of one answer: microseconds of it and of the reference, what bounds it, and the estimate's error in words."""

    us: float
    reference_us: float
    bound: str
    family: str

    @property
    def ratio(self) -> float:
        """The answer's speed in speeds of the reference."""
        return self.reference_us / self.us

    def beside(self, speed: Speed) -> str:
        """Both times and their ratio, in words that go on after a colon."""
        return (f"by the estimate it takes {self.us:.1f} us on an H200 at {speed.says}, and {speed.than} takes {self.reference_us:.1f} us: "
                f"{self.ratio:.3f} of that speed")

    def complaint(self, speed: Speed) -> str:
        """What is said of an answer that is too slow; '' where it is fast enough."""
        if self.ratio >= speed.least:
            return ""
        return (f"It is not fast enough yet: {self.beside(speed)}, and at least {speed.least:g} is asked for.\nIt is bound by {self.bound}.\n"
                f"This is an estimate and no measurement. Its error is that of {self.family}. `hl.estimate` says more of your launches.")


def of_product(size: int, dtype: Any, launched: Callable[..., None], reference_us: Callable[[], float], than: str = OWN, prepares: Collection[str] = ()) -> Speed:
    """The speed of C = A·Bᵀ with m, n and k = `size`. launched(launch, a, b, c) launches it: a and b are zeros in bf16, c is of `dtype`."""
    def run(launch: Callable[..., None]) -> None:
        import ml_dtypes
        import numpy as np

        a, b = (np.zeros((size, size), ml_dtypes.bfloat16) for _ in range(2))
        launched(launch, a, b, np.zeros((size, size), dtype))
    return Speed(run, f"m, n, k = {size}, {size}, {size}", reference_us, 2 * size ** 3, than, prepares, loads=2 * 2 * size ** 3 // MOST_EDGE)


def fast_enough(speed: Speed, module: hl.RawModule, budget: int | None = None, limit: int | None = None) -> tuple[str, str]:
    """What is wrong with a right answer's speed, or ''; and its times in words where they are known. Called as `pace`."""
    try:
        found = pace(speed, module, budget, limit)
    except NoSpeed as why:
        return str(why), ""
    return found.complaint(speed), found.beside(speed)


def pace(speed: Speed, module: hl.RawModule, budget: int | None = None, limit: int | None = None) -> Pace:
    """The answer's and the reference's estimated time. budget, limit: those of hl.emulate under which kernels run that prepare. Raises NoSpeed where there is
    no estimate, and for an answer that leaves out a part of the problem."""
    found = estimated(speed, module, budget, limit)
    slowest = max(found, key=lambda one: one.us)
    return Pace(sum(one.us for one in found), speed.reference_us(), slowest.bound, slowest.family)


def estimated(speed: Speed, module: hl.RawModule, budget: int | None = None, limit: int | None = None) -> Sequence[Estimate]:
    """The estimate of each kernel that is timed, in the order of the launches. Called, and raising, as `pace`."""
    from ..estimates.estimating import estimate

    try:
        found = [estimate(kernel, grid, block, args, shared_mem=shared_mem, board=BOARD)
                 for kernel, grid, block, args, shared_mem in launched(speed, module, budget, limit)]
    except (hl.EmulatorError, hl.HopperlabError) as problem:
        raise NoSpeed(f"Its speed at {speed.says} could not be estimated: {str(problem).rstrip('.')}.") from None
    done = sum(one.tensor * one.cycles for one in found) * limits.SMS * FLOPS
    if done < NEARLY_ALL * speed.flops:
        raise NoSpeed(f"Its speed does not count: at {speed.says} its tensor cores do {done / speed.flops:.0%} of the work that the product takes. "
                      "A kernel must do for a large problem what it does for a small one.")
    brought, fewest = sum(one.l2 * one.cycles for one in found) * limits.SMS * L2_BYTES, speed.loads
    if any(word in module.ptx for word in SHARES):
        fewest //= CLUSTER_EDGES
    if brought < NEARLY_THE_BYTES * fewest:
        raise NoSpeed(f"Its speed does not count: at {speed.says} it loads about {brought / 2 ** 20:,.0f} MiB, and the product takes "
                      f"{fewest / 2 ** 20:,.0f} MiB at the fewest. A kernel must do for a large problem what it does for a small one.")
    return found


def launched(speed: Speed, module: hl.RawModule, budget: int | None = None, limit: int | None = None) -> list[tuple[hl.RawKernel, Shape, Shape, Sequence[Any], int]]:
    """(kernel, grid, block, arguments, shared memory) of each launch that is timed, in order; none of them is made, those that prepare are. Called as `pace`; raises
    what those raise."""
    found: list[tuple[hl.RawKernel, Shape, Shape, Sequence[Any], int]] = []

    def launch(name: str, grid: Shape, block: Shape, args: Sequence[Any] = (), shared_mem: int = 0, dependent: bool = False) -> None:
        kernel = module.get_function(name)
        if name not in speed.prepares:
            found.append((kernel, grid, block, args, shared_mem))
            return
        with hl.emulate(trace=False, budget=budget, limit=limit):
            kernel(grid, block, args, shared_mem=shared_mem, dependent=dependent)
    speed.run(launch)
    return found
