# SPDX-License-Identifier: Apache-2.0
"""How long importing, compiling and taking a kernel from the cache take: `python -m benchmarks.runtime`.

Each line is the median of several runs, each in a fresh process with an empty cache unless the line says otherwise.
Aims: import 0.4 s; first compilation 0.5 s, about 1 s with libcu++ (0.3 s with a precompiled header); from the cache 10 ms.
"""
from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from hopperlab.measure.machine import command
from hopperlab.runtime.tables import text_table

RUNS = 5
TIMED = """
import time
{before}
start = time.perf_counter()
{timed}
print(time.perf_counter() - start)
"""
MODULES = "import hopperlab as hl; hl.RawModule; hl.load_kernel"
LOADED = MODULES + "; hl.RawModule(code='', backend='emulator')"
GEMM = "hl.load_kernel('gemm/warp_specialized.cu', 'gemm', backend='emulator')"
HEAVY = "hl.RawModule(code='#include <cuda/barrier>\\n__global__ void f{}() {{}}', backend='emulator')"

FROM_CACHE = "the same, from the cache in a fresh process"
CASES = (
    ("import hopperlab", "", "import hopperlab"),
    ("first use of hl.RawModule (NumPy and the runtime)", "import hopperlab as hl", "hl.RawModule"),
    ("first compilation of gemm/warp_specialized.cu, NVRTC not loaded yet", MODULES, GEMM),
    ("the same, NVRTC loaded", LOADED, GEMM),
    (FROM_CACHE, MODULES, GEMM),
    ("the same, from the cache in this process", f"{LOADED}\n{GEMM}", GEMM),
    ("first compilation of a kernel that includes <cuda/barrier>", LOADED, HEAVY.format(1)),
    ("the next one, with a precompiled header", f"{LOADED}\n{HEAVY.format(1)}", HEAVY.format(2)),
)


def measure(before: str, timed: str, cache: str | None = None) -> float:
    """Seconds that `timed` takes in a fresh process after `before`; `cache` is the cache's folder, None an empty one."""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "HOPPERLAB_CACHE_DIR": cache or empty}
        shown = subprocess.run([sys.executable, "-c", TIMED.format(before=before, timed=timed)], env=environment, text=True,
                               capture_output=True, check=True)
    return float(shown.stdout)


def main() -> None:
    """Print one line a case."""
    command.begin(__doc__, "benchmarks.runtime", needs_gpu=False)
    for title, before, timed in CASES:
        if title is FROM_CACHE:
            with tempfile.TemporaryDirectory() as kept:
                measure(before, timed, kept)
                seconds = [measure(before, timed, kept) for _ in range(RUNS)]
        else:
            seconds = [measure(before, timed) for _ in range(RUNS)]
        print(*text_table("{:9.1f} ms  {}", [(statistics.median(seconds) * 1e3, title)]), flush=True)


if __name__ == "__main__":
    main()
