# SPDX-License-Identifier: Apache-2.0
"""How fast the emulator is: `python -m benchmarks.emulator [--quick] [--json FILE]`.

Times the course's GEMMs and a vector addition with hazards on, caches warm, and the same vector addition under Numba's CUDA
simulator (measured at 2^14 threads, extrapolated). Every result is checked before it is timed.
"""
from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

from hopperlab.runtime.tables import text_table

ROW = "{:50} {:7.3f} s {:>15} {:>7} {:17,.0f} {:5.2f} GB"
VECTOR = 1 << 20
SIMULATED = 1 << 14
ADD = r"""
extern "C" __global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}"""


def gemm(path: str, size: int, schedule: str, check: bool = True):
    """A function that launches a square GEMM of the course in the emulator and returns its session."""
    import ml_dtypes

    import hopperlab as hl
    rng = np.random.default_rng(size)
    a, b = (rng.integers(-3, 4, (size, size)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c = np.zeros((size, size), ml_dtypes.bfloat16)
    exact = (a.astype(np.float32) @ b.astype(np.float32).T).astype(ml_dtypes.bfloat16)
    kernel = hl.load_kernel(path, "gemm", backend="emulator")
    shape = tuple(np.int32(size) for _ in range(3))
    tiles = -(-size // 128)

    def launch():
        with hl.emulate(schedule=schedule) as session:
            if not check:
                session.check = False
            if "warp" in path:
                maps = [hl.TensorMap.tiled(x, box=(128, 64), swizzle="128B") for x in (a, b)]
                kernel((tiles, tiles), (384,), (*maps, c, *shape), shared_mem=4 * 32768 + 64)
            else:
                kernel((tiles, tiles), (256,), (a, b, c, *shape), shared_mem=4 * 16384)
        return session
    launch()
    if not (c == exact).all():
        raise SystemExit(f"{path} at {size}: wrong values; nothing was timed")
    return launch


def vector_add():
    """A function that adds two vectors of 2^20 floats in the emulator."""
    import hopperlab as hl
    kernel = hl.RawModule(code=ADD, backend="emulator").get_function("add")
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((2, VECTOR)).astype(np.float32)
    c = np.zeros(VECTOR, np.float32)

    def launch():
        with hl.emulate(hazards="raise") as session:
            kernel((VECTOR // 256,), (256,), (a, b, c, np.int32(VECTOR)))
        return session
    launch()
    if not (c == a + b).all():
        raise SystemExit("vector addition: wrong values; nothing was timed")
    return launch


SIMULATOR = f"""
import time, numpy as np
from numba import cuda
@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]
n = {SIMULATED}
a, b = np.random.default_rng(1).standard_normal((2, n)).astype(np.float32)
c = np.zeros_like(a)
add[1, 256](a[:256], b[:256], c[:256])
start = time.perf_counter()
add[n // 256, 256](a, b, c)
print(time.perf_counter() - start)
assert (c == a + b).all()
"""


def simulator_seconds() -> float | None:
    """Seconds that Numba's CUDA simulator needs for 2^20 threads, extrapolated from 2^14; None without Numba."""
    environment = dict(os.environ, NUMBA_ENABLE_CUDASIM="1")
    run = subprocess.run([sys.executable, "-c", SIMULATOR], capture_output=True, text=True, env=environment)
    return float(run.stdout.split()[-1]) * VECTOR / SIMULATED if run.returncode == 0 else None


def seconds(launch, rounds: int) -> tuple[float, float, float, int]:
    """Median, least and most seconds of `rounds` runs, and the PTX warp instructions of one."""
    times, count = [], 0
    for _ in range(rounds):
        start = time.perf_counter()
        session = launch()
        times.append(time.perf_counter() - start)
        count = session.counters["warp_instructions"]
    return statistics.median(times), min(times), max(times), count


START = """
import time
start = time.perf_counter()
import hopperlab as hl
kernel = hl.load_kernel("gemm/final.cu", "gemm", options=("-DSALT=%d",), backend="emulator")
kernel.module.program.translation(kernel.mangled)
print(time.perf_counter() - start)
"""


def start_seconds() -> float:
    """Seconds a fresh process needs to import, compile (not from the cache), parse and translate the largest kernel."""
    run = subprocess.run([sys.executable, "-c", START % time.time_ns()], capture_output=True, text=True, check=True)
    return float(run.stdout.split()[-1])


def cases(quick: bool) -> list[tuple[str, float | None, object]]:
    """(name, target in seconds or None, maker of the launch)."""
    warp, mma = "gemm/warp_specialized.cu", "gemm/mma_multistage.cu"
    targets = {512: 0.5, 1024: 3.0}
    listed = [("vector addition, 2^20 floats", 0.3, vector_add)]
    for size in (256, 512) if quick else (256, 512, 1024):
        name = f"warp-specialised GEMM, {size}^3, lazy"
        listed.append((name, targets.get(size), lambda size=size: gemm(warp, size, "lazy")))
        listed.append((f"{name}, hazards off", None, lambda size=size: gemm(warp, size, "lazy", check=False)))
    listed.append(("warp-specialised GEMM, 512^3, random", 1.0, lambda: gemm(warp, 512, "random")))
    listed.append(("mma.sync GEMM, 512^3, lazy", 1.5, lambda: gemm(mma, 512, "lazy")))
    return listed


def peak_gb() -> float:
    """The most memory this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmarks and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulator", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave out 1024^3 and Numba's simulator")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each case (default 5)")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    options = parser.parse_args(arguments)
    rows = []
    print(*text_table(ROW, [], ("case", "median", "range", "target", "PTX warp instr/s", "peak")))
    for name, target, make in cases(options.quick):
        median, low, high, count = seconds(make(), options.rounds)
        rows.append({"case": name, "seconds": median, "least": low, "most": high, "target": target,
                     "warp_instructions_per_second": count / median, "peak_gb": peak_gb()})
        aim = f"{target:.1f} s" if target else ""
        print(*text_table(ROW, [(name, median, f"{low:.3f}-{high:.3f}", aim, count / median, peak_gb())]), flush=True)
    if not options.quick:
        _extras(rows)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": rows}, file, indent=1)


def _extras(rows: list[dict]) -> None:
    """Start-up, and Numba's simulator beside the vector addition."""
    started = start_seconds()
    rows.append({"case": "start-up", "seconds": started, "target": 1.0})
    print(*text_table("{:50} {:7.3f} s {:>15} {:>7}", [("import, compile, parse and translate gemm/final.cu", started, "", "1.0 s")]))
    simulated = simulator_seconds()
    if simulated is None:
        print("Numba's CUDA simulator: not measured (pip install numba)")
        return
    ratio = simulated / rows[0]["seconds"]
    rows.append({"case": "numba simulator, 2^20 threads, extrapolated", "seconds": simulated, "ratio": ratio})
    print(*text_table("{:50} {:7.1f} s   {:.0f} times the emulator's", [("Numba CUDA simulator, 2^20 threads, extrapolated", simulated, ratio)]))


if __name__ == "__main__":
    main()
