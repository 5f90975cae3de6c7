# SPDX-License-Identifier: Apache-2.0
"""How a program that measures begins on the command line: --help prints what it says of itself, and what this machine lacks is one line."""
from __future__ import annotations

import argparse
import sys

from . import here


def begin(doc: str | None, module: str, needs_gpu: bool = True) -> None:
    """Take the command line of a program without options of its own: `doc` is its help. Ends with code 2 for a line that is not understood, and, with a reason,
    where no Hopper GPU can measure; with 0 after --help."""
    argparse.ArgumentParser(prog=f"python -m {module}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if needs_gpu:
        require_gpu(module)


def require_gpu(module: str) -> None:
    """End with code 2 and a line that says why, where no Hopper GPU can measure."""
    if (why := here.no_gpu("it")) is not None:
        print(f"{module}: {why}", file=sys.stderr)
        sys.exit(2)
