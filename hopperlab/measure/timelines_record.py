"""Record the course's own timeline on this GPU: `python -m hopperlab.measure.timelines_record [--out FILE]`.

A warp-specialised product of 2048 x 2048 x 1024: every block is traced, two are kept, so that the file stays small.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..runtime.arrays import array_module
from . import board, launches, recordings, timelines
from .operands import bf16_bits, bf16_values, integer_bf16

METHOD = ("marks of trace.cuh in one launch, after two that do not count: the SM's clock at each mark, SMs aligned by the global timer; "
          "marks cost time of their own, so that spans are longer than without them; integer inputs, the result exact")
BLOCKS = (0, 1)


def product(m: int = 2048, n: int = 2048, k: int = 1024, launches_before: int = 2, blocks: Sequence[int] = BLOCKS) -> timelines.KernelTimeline:
    """The timeline of these blocks of gemm/warp_specialized.cu. Raises AssertionError when the traced product is wrong."""
    xp = array_module()
    a, b, c = integer_bf16(xp, (m, k), 1), integer_bf16(xp, (n, k), 2), xp.zeros((m, n), np.uint16)
    launch = launches.warp_specialized(a, b, c)
    for _ in range(launches_before + 1):
        found = timelines.timeline(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem)
    if not bool((c == bf16_bits(bf16_values(a) @ bf16_values(b).T)).all()):
        raise AssertionError("the traced product is wrong")
    return found.only(blocks)


def main(arguments: list[str] | None = None) -> int:
    """Command line. Returns 2 where there is no Hopper GPU."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.timelines_record", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=recordings.FOLDER / "timeline.json", metavar="FILE", help="where to write (the package's recording)")
    given = parser.parse_args(arguments)
    from .bench import no_gpu
    if (why := no_gpu()) is not None:
        print(why, file=sys.stderr)
        return 2
    found = product()
    timelines.save(found, given.out, {**board.header(), "method": METHOD})
    print(f"{given.out.name}: {found!r}, timer of {found.timer_ns} ns")
    return 0


if __name__ == "__main__":
    sys.exit(main())
