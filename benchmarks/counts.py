# SPDX-License-Identifier: Apache-2.0
"""What Nsight Compute counts of the launches of a module of benchmarks. Needs a Hopper GPU with CuPy and Nsight Compute."""
from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from hopperlab.measure.machine import command
from hopperlab.measure.profile import ncu

Launches = Callable[[], Iterable[tuple[str, Callable[[], object]]]]
WATCHED = "launch"                      # the argument of the process that Nsight Compute watches


def begin(doc: str | None, module: str) -> None:
    """Take the command line, as measure.machine.command has it, in the process that counts: Nsight Compute has to be there, too."""
    if sys.argv[1:] == [WATCHED]:
        return
    command.begin(doc, module)
    try:
        ncu.find()
    except ncu.ProfileError as problem:
        print(f"{module}: {problem}", file=sys.stderr)
        sys.exit(2)


def counted(module: str, launches: Launches, metrics: Sequence[str]) -> Iterator[tuple[str, list[float]]]:
    """Name and metrics of each launch of a kernel `gemm`. It runs `python -m MODULE launch` under Nsight Compute; in that process, which comes here, too, it
    launches everything once and yields nothing."""
    if sys.argv[1:] == [WATCHED]:
        import cupy
        for _, run in launches():
            run()
            cupy.cuda.Device().synchronize()
        return
    rows = ncu.run(ncu.find(), metrics, (module, WATCHED), module=True, kernel="^gemm$").rows
    for (name, _), row in zip(launches(), rows, strict=True):
        yield name, [ncu.number(row.get(metric)) or 0.0 for metric in metrics]
