# SPDX-License-Identifier: Apache-2.0
"""What lesson 00 says of the machine it runs on, and where it runs kernels that are wrong on purpose."""
from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def doctor() -> str:
    """What `hopperlab doctor` prints on this machine, with folders left out of its paths (stored outputs name no machine's folders)."""
    done = subprocess.run([sys.executable, "-m", "hopperlab", "doctor"], capture_output=True, text=True, check=False)
    return re.sub(r"(?:/[\w.-]+)+/(?=[\w.-])", "…/", done.stdout + done.stderr).rstrip()


@contextmanager
def kindest_place() -> Iterator[Any]:
    """Launches inside the block run on the GPU where there is one; else in the emulator with every copy landing at once and hazards kept quiet."""
    import hopperlab as hl

    if hl.backend() == "gpu":
        yield None
        return
    with hl.emulate(schedule="eager", hazards="collect") as run:
        yield run
