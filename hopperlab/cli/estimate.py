# SPDX-License-Identifier: Apache-2.0
"""`hopperlab estimate`: an estimated time of a step of the ladder, or of one launch of a .cu or .ptx file, without a GPU. A row of cli.COMMANDS points here."""
from __future__ import annotations

import argparse
import json
import sys

DETAILS = (
    "WHAT is a step of the product ladder with its size (hopperlab estimate final 8192, or 4096x7168x2048), or a .cu or .ptx file "
    "with its launch, as `hopperlab sanitize` takes it (hopperlab estimate FILE.cu --grid 4 --block 128 --args f32[512] i32=512). "
    "A few CTAs run in the emulator and a model of the SM says how long they take; nothing is measured, and the error that such "
    "estimates had against measurements stands beside each (docs/estimates.md). Exit code 0: estimated; 2: no estimate, with the reason.")
EXAMPLES = """examples:
  hopperlab estimate final 8192
  hopperlab estimate final 8192 --board h100
  hopperlab estimate overlapped_store 4096x7168x2048 --define STAGES=2
  hopperlab estimate kernel.cu --grid 132 --block 128 --args f32[1048576] f32[1048576] i32=1048576
  hopperlab ladder --estimate --size 4096"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hopperlab estimate`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EXAMPLES
    parser.add_argument("what", nargs="?", metavar="STEP|FILE", help="a step of the ladder, or a file of CUDA C++ or PTX")
    parser.add_argument("shape", nargs="?", default="4096", metavar="SIZE", help="of a step: 4096 (a cube) or 4096x7168x2048 (m x n x k); default 4096")
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE", help="a macro of the step's kernel")
    parser.add_argument("--json", action="store_true", help="print numbers as JSON instead of sentences")
    parser.add_argument("--board", metavar="BOARD", help="estimate for this board: h200 or h100 (default: the board of this machine's GPU; without one, h200)")
    parser.add_argument("--judge", action="store_true", help="instead: estimate everything that was recorded on the board, store the errors and write the "
                                                             "tables of docs/estimates.md (many minutes)")


def run(given: argparse.Namespace) -> int:
    """`hopperlab estimate`."""
    from ..emulator import EmulatorError
    from ..runtime.errors import HopperlabError
    try:
        if given.judge:
            from ..estimates import boards, judging
            name = boards.board(given.board).name
            print(f"{judging.write(name)} measurements of the {name.upper()} judged")
            return 0
        if given.what is None:
            print("hopperlab estimate: what? A step of the ladder with its size, or a file: hopperlab estimate final 8192", file=sys.stderr)
            return 2
        found = _file(given) if _is_file(given.what) else _step(given)
    except (HopperlabError, EmulatorError, ValueError) as problem:
        print(f"hopperlab estimate: {problem}", file=sys.stderr)
        return 2
    print(json.dumps(found.as_dict(), indent=1) if given.json else found)
    return 0


def _is_file(name: str) -> bool:
    from ..runtime import launch_file
    return launch_file.is_kernel_file(name)


def _file(given: argparse.Namespace):
    from ..estimates.estimating import estimate
    from ..runtime import launch_file
    launch = launch_file.prepare([given.what, *([] if given.shape == "4096" else [given.shape]), *given.others, *(f"-D{macro}" for macro in given.define)])
    return estimate(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, cluster=launch.cluster, board=given.board)


def _step(given: argparse.Namespace):
    from ..estimates import steps
    if given.others:
        raise ValueError(f"unrecognized arguments: {' '.join(given.others)}")
    return steps.estimate_step(given.what, steps.shape_of(given.shape), tuple(f"-D{macro}" for macro in given.define), given.board)
