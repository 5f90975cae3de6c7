# SPDX-License-Identifier: Apache-2.0
"""The commands that measure or show measurements: `hopperlab bench`, `ladder` and `profile`. Rows of cli.COMMANDS point here.

Modules are imported by the command that needs them, so that --help answers at once.
"""
from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

from ..measure.suites.table import BENCHES
from ..runtime.tables import text_table

BENCH_DETAILS = (
    "Contestants run in one process, interleaved round by round, on random normal data; every result is compared with fp32 before "
    "anything is timed. Three modes: cold (single launches, each after a write that empties the L2), clean (each after that memory has been "
    "read, too) and sustained (bursts back to back). Reported are medians, the spread, and the ratio to each peer round by "
    "round; power, energy and clocks come from the board. A throttled or shared GPU is named. Exit code "
    "0: measured; 1: a result was wrong; 2: not understood, or no Hopper GPU.")
_SUITES = "\n".join(text_table("  {:13} {}", BENCHES.items()))
BENCH_EXAMPLES = f"""suites:
{_SUITES}

examples:
  hopperlab bench gemm                                        eight shapes, every peer that is installed
  hopperlab bench gemm --shapes 4096 128x7168x18432 --peers cublas triton --kernels final
  hopperlab bench gemm --random 60 --seed 7                   shapes that nobody chose (fp8 and attention have them, too)
  hopperlab bench copy --shapes 64MiB 4GiB --rounds 21
  hopperlab bench ladder --out hopperlab/recordings           repeat the recordings of the ladder"""


def words(text: str) -> list[str]:
    """'a,b' -> ['a', 'b']."""
    return [word for word in text.split(",") if word]


def bench_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hopperlab bench`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = textwrap.fill(parser.description or "", 100), BENCH_EXAMPLES
    parser.add_argument("suite", metavar="SUITE", help="what to measure: one of the suites below")

    def listed(option: str, metavar: str, text: str) -> None:
        parser.add_argument(option, nargs="+", type=words, action="extend", metavar=metavar, help=text)
    listed("--shapes", "SHAPE", "gemm: 4096 (a cube) or 4096x7168x2048 (m x n x k); copy: 64MiB or 16384x32768 (rows x bf16 columns)")
    listed("--kernels", "NAME", "which of ours: gemm takes the steps of the ladder, copy the kernels of kernels/copy (or none), micro and variants "
                                "their experiments, ladder, lessons and all the names of recordings")
    listed("--peers", "NAME", "gemm: cublas cublaslt torch triton quack; copy: memcpy; with --random fp8: cublaslt deepgemm, attention: cudnn; or none "
                              "(default: those that are installed; with --random the first's family)")
    listed("--modes", "MODE", "cold, clean, sustained (default: cold and sustained; with --random cold and clean)")
    parser.add_argument("--rounds", type=int, metavar="N", help="launches or bursts of each contestant that count (default: the suite's own, 9 for most)")
    parser.add_argument("--power", type=float, metavar="SECONDS",
                        help="how long each contestant runs alone for its power; 0 leaves power out (default 0.5; with --random 0)")
    parser.add_argument("--random", type=int, metavar="N",
                        help="gemm, fp8, attention: N shapes that nobody chose, `final` beside cuBLAS or cuDNN, with a cold and a clean L2")
    parser.add_argument("--seed", type=int, metavar="S", help="of --random (default: today's date, as 20261123)")
    parser.add_argument("--out", type=Path, metavar="FILE|DIR",
                        help="also write the records: FILE.json, or a folder for files named by suite")
    parser.add_argument("--json", action="store_true", help="print the header and the records as JSON instead of the table")


def _flat(given: list[list[str]] | None) -> list[str]:
    return [word for group in given or [] for word in group]


def bench(given: argparse.Namespace) -> int:
    """`hopperlab bench`."""
    from ..measure.suites import bench as command
    peers = None if given.peers is None else _flat(given.peers)
    return command.run(command.Request(given.suite, _flat(given.shapes), _flat(given.kernels), peers, given.rounds,
                                       _flat(given.modes), given.power, given.out, given.json, given.random, given.seed))


def ladder_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hopperlab ladder`."""
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE|DIR",
                        help="what `hopperlab bench ladder --out` or `--json` wrote (default: the recording)")
    parser.add_argument("--size", type=int, default=8192, metavar="N", help="the product's size: 8192 or 4096 (default 8192)")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="also draw the roofline and the ladder to FILE.png")
    parser.add_argument("--json", action="store_true", help="print the steps as JSON instead of the table")
    parser.add_argument("--estimate", action="store_true", help="each step's estimated time, without a GPU, beside the recorded one (a minute or two)")
    parser.add_argument("--board", metavar="BOARD", help="whose recordings or estimates: h200 or h100 (default: the board of this machine's GPU; without one, h200)")


def ladder(given: argparse.Namespace) -> int:
    """`hopperlab ladder`."""
    import json

    from ..measure import recordings, story
    try:
        _refuse_unused(given)
        if given.estimate:
            from ..estimates import steps
            print("\n".join(steps.told(given.size, board=given.board)))
            return 0
        recording = story.read(given.source, given.board)
        told = story.tell(recording, given.size)
    except MemoryError as problem:
        print(f"hopperlab ladder: the arrays of a product of {given.size} cubed do not fit into this machine's memory ({problem})", file=sys.stderr)
        return 2
    except BrokenPipeError:
        raise
    except (ValueError, OSError) as problem:
        print(f"hopperlab ladder: {problem}", file=sys.stderr)
        return 2
    print(json.dumps(told.as_dict(), indent=1) if given.json else told)
    if given.plot is None:
        return 0
    try:
        from ..lessons.l14_beat_cublas import ladder
    except ImportError as problem:
        print(f"hopperlab ladder: --plot needs Matplotlib ({problem}): python -m pip install -e .[lab]", file=sys.stderr)
        return 2
    beside = given.source and (given.source if given.source.is_dir() else given.source.parent)
    roof = recordings.load("ceilings", beside) if beside and (beside / "ceilings.json").is_file() else None
    if given.board:
        roof = recordings.load("ceilings", board=given.board.lower())
    given.plot.write_bytes(ladder(told, roof).png())
    print(f"written: {given.plot}", file=sys.stderr)
    return 0


def _refuse_unused(given: argparse.Namespace) -> None:
    """Raises ValueError for options of `hopperlab ladder` that would be passed over, and for a picture that cannot be written."""
    if given.source and given.board:
        raise ValueError("--from names a recording, which is of the board that it was measured on: leave --board out")
    unused = [name for name, value in (("--from", given.source), ("--plot", given.plot), ("--json", given.json)) if value]
    if given.estimate and unused:
        raise ValueError(f"--estimate prints estimates as a table and does not take {' or '.join(unused)}")
    if given.plot and not given.plot.absolute().parent.is_dir():
        raise ValueError(f"--plot {given.plot} cannot be written: there is no folder {given.plot.absolute().parent}")
