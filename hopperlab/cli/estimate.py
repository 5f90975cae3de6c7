# SPDX-License-Identifier: Apache-2.0
"""`hopperlab estimate`: an estimated time of a step of the ladder, or of one launch of a .cu or .ptx file, without a GPU. A row of cli.COMMANDS points here."""
from __future__ import annotations

import argparse
import difflib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

DETAILS = (
    "WHAT is a step of the product ladder with its size (hopperlab estimate final 8192, or 4096x7168x2048), or a .cu or .ptx file "
    "with its launch, as `hopperlab sanitize` takes it (hopperlab estimate FILE.cu --grid 4 --block 128 --args f32[512] i32=512). "
    "A few CTAs run in the emulator and a model of the SM says how long they take; nothing is measured, and the error that such "
    "estimates had against measurements stands beside each (docs/estimates.md). Exit code 0: estimated; 2: no estimate, with the reason.")
EXAMPLES = """of a FILE, behind its name (`hopperlab sanitize FILE.cu --help` explains each):
  --grid N[,N,N]  --block N[,N,N]  --args WORD ...  --kernel NAME  --shared BYTES  --cluster N[,N,N]  --cooperative  -D NAME=VALUE  -I FOLDER

examples:
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
    parser.add_argument("--define", action="append", default=[], metavar="NAME=VALUE", help="a macro of the kernel; may be given more than once")
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
    except MemoryError as problem:
        print(f"hopperlab estimate: the arrays of {given.what} {given.shape} do not fit into this machine's memory ({problem})", file=sys.stderr)
        return 2
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
    path = Path(given.what)
    for name in _unknown(given.define, _texts(path.read_text(encoding="utf-8", errors="replace"), path.parent)):      # a system's header may ask for it
        print(f"hopperlab estimate: {path.name} and the files beside it that it includes have no {name}: --define {name} changes nothing there", file=sys.stderr)
    return estimate(launch.kernel, launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, cluster=launch.cluster, board=given.board)


def _step(given: argparse.Namespace):
    from ..emulator import EmulatorError
    from ..estimates import steps
    from ..measure.launches import gemm
    if given.others:
        raise ValueError(f"unrecognized arguments: {' '.join(given.others)}")
    if given.what in gemm.LADDER:
        _refuse_macros(given.what, given.define)
    try:
        return steps.estimate_step(given.what, steps.shape_of(given.shape), tuple(f"-D{macro}" for macro in given.define), given.board)
    except EmulatorError as problem:
        if given.define and re.match(r"out-of-bounds: .* shared memory", str(problem)):
            raise ValueError(f"{given.what} with {' '.join(given.define)} does not fit into the shared memory that the step is launched with (227 KiB is the most "
                             f"of a CTA): {problem}") from None
        raise


def _refuse_macros(step: str, defined: Iterable[str]) -> None:
    """Raises ValueError for a macro that neither the step's kernel nor a header of the course that it includes has."""
    from ..runtime import library
    from ..runtime.compile.toolchain import KERNELS
    file = step if (KERNELS / "gemm" / f"{step}.cu").is_file() else step.rpartition("_")[0]         # tma_wgmma_2 is tma_wgmma with two stages
    texts = _texts(library.kernel_source(f"gemm/{file}.cu"), KERNELS / "include")
    known = sorted(set(re.findall(r"^#ifndef (\w+)\n#define \1 \S", texts[0], re.MULTILINE)))
    for name in _unknown(defined, re.findall(r"^#\s*(?:el)?if.*", "\n".join(texts), re.MULTILINE)):
        near = difflib.get_close_matches(name, known, n=1)
        raise ValueError(f"{step} has no macro {name}" + (f", did you mean {near[0]}?" if near else ".") + f" Its macros: {', '.join(known) or 'none'}")


def _texts(code: str, folder: Path) -> list[str]:
    """A source, and the files of the folder that it includes."""
    from ..runtime.compile.headers import included_files
    return [code, *included_files(code, [str(folder)]).values()]


def _unknown(defined: Iterable[str], texts: list[str]) -> list[str]:
    """Names of `defined` (NAME or NAME=VALUE) that stand in none of the texts."""
    names = [macro.partition("=")[0].strip() for macro in defined]
    return [name for name in names if not any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts)]
