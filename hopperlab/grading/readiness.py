# SPDX-License-Identifier: Apache-2.0
"""Whether this machine can grade at all: what a verdict and a notebook's run need is imported once, in the places where they will run.

Without that, a package that the sandbox does not see would end every run, and everybody's answers would count as wrong.
"""
from __future__ import annotations

import sys
from functools import cache

from . import nbval_run, sandbox, supervise
from .sandbox import Limits

INSIDE = "import hopperlab.grading.verdict_child, hopperlab.emulator, ipykernel.kernelapp"
OUTSIDE = "import nbval.plugin, pytest, hopperlab.grading.nbval_plugin"


class NotReadyError(RuntimeError):
    """This machine cannot run what grading needs; no answer is to blame."""


@cache
def check(unsafe: bool = False) -> None:
    """Try once a process. Raises NotReadyError that says what is missing and where; SandboxError where nothing isolates."""
    limits = Limits()
    inside = sandbox.run([sys.executable, "-c", INSIDE], read_only=[sandbox.PACKAGE], limits=limits, unsafe=unsafe)
    outside = supervise.run([sys.executable, "-c", OUTSIDE], seconds=limits.seconds, memory_bytes=limits.memory_bytes, output_bytes=limits.output_bytes,
                            processes=limits.processes, env=nbval_run.environment())
    for place, done in (("in the sandbox", inside), ("beside it", outside)):
        if done.returncode or done.killed:
            said = done.stderr.decode(errors="replace").strip().splitlines() or [f"it ended with {done.killed or done.returncode}"]
            raise NotReadyError(f"Grading cannot start Python {place}: {said[-1]}. Packages must be installed where {sys.executable} finds them by itself: "
                                "what PYTHONPATH names is not passed on. `hopperlab doctor` lists what is missing.")


__all__ = ["NotReadyError", "check"]
