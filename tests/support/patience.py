# SPDX-License-Identifier: Apache-2.0
"""How patient tests are with this machine: a limit on time is written as `30 * PATIENCE` where a slow machine could reach it.

PATIENCE is 1 on a usual machine and grows with what Python takes to start here. HOPPERLAB_TEST_PATIENCE decides instead; it also hands the
measured value on to xdist's workers.
"""
from __future__ import annotations

import os
import subprocess
import sys
import time

USUAL = 0.15                # seconds that `python -c "import numpy"` takes on a usual machine that does nothing else


def measured() -> float:
    """1, or on a slow machine twice what its start of Python takes, in usual ones. The better of two: the first may read from a cold disk."""
    slower = min(_start() for _ in range(2)) / USUAL
    return 1.0 if slower < 1.3 else round(2 * slower, 1)


def _start() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy"], check=True)
    return time.perf_counter() - began


PATIENCE = float(os.environ.get("HOPPERLAB_TEST_PATIENCE") or measured())
os.environ["HOPPERLAB_TEST_PATIENCE"] = str(PATIENCE)
