# SPDX-License-Identifier: Apache-2.0
"""What lesson 12 breaks, for the learner to mend: how the CTAs of a cluster begin, share and end."""
from __future__ import annotations

from typing import Any

from ..repairs import Repair


class Joined(Repair):
    """A repair in whose lines a switch stood on a line of its own: the parenthesis behind it closes the line before."""

    def _own(self) -> str:
        return super()._own().replace("\n               )", ")")


def _cluster(landing: str) -> tuple[bool, Any]:
    """(right, session) of clusters/shared_tiles.cu on one cluster of 2 x 2."""
    from .shared_tiles import run_cluster
    return run_cluster(2, 2, schedule=landing)


FIRST = "    barrier_cluster_arrive();                               // nobody sends to a barrier before it is one\n    barrier_cluster_wait();\n"
LAST = ("    barrier_cluster_arrive();                                   // the others still arrive on my barriers, and my parts are on\n"
        "    barrier_cluster_wait();                                     // their way to them\n")
REPAIRS = (
    Repair("begin", "clusters/shared_tiles.cu", "if (threadIdx.x == 0) {", "Ring<STAGES> ring;", bug=((FIRST, "    __syncthreads();\n"),), run=_cluster,
           hint="The multicast signals barriers of other CTAs. Who says that those CTAs have begun, and that their barriers are barriers?"),
    Joined("counts", "clusters/shared_tiles.cu", "} else if (threadIdx.x < 128) {", "unsigned* mine", bug=(
        (" && (threadIdx.x / COLS == row || threadIdx.x % COLS == col)", " && threadIdx.x == rank"),), run=_cluster,
        hint="My tile of A goes to the CTAs of my row, my tile of B to those of my column. Whose producers have to know that I have read?"),
    Repair("leaves", "clusters/shared_tiles.cu", "atomicAdd(mine, sum_a);", "their way to them", bug=((LAST.rstrip("\n"), ""),), run=_cluster,
           hint="Other CTAs arrive on this CTA's barriers to the end, and its engine writes into their memory. How does it know that all is over?"),
)
