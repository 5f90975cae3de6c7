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
        kernel((VECTOR // 256,), (256,), (a, b, c, np.int32(VECTOR)))
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


def seconds(launch, rounds: int) -> tuple[float, float, float]:
    """Median, least and most seconds of `rounds` runs."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        launch()
        times.append(time.perf_counter() - start)
    return statistics.median(times), min(times), max(times)


def cases(quick: bool) -> list[tuple[str, float | None, object]]:
    """(name, target in seconds or None, maker of the launch)."""
    warp, mma = "gemm/warp_specialized.cu", "gemm/mma_multistage.cu"
    listed = [
        ("vector addition, 2^20 floats", 0.3, vector_add),
        ("warp-specialised GEMM, 256^3, lazy", None, lambda: gemm(warp, 256, "lazy")),
        ("warp-specialised GEMM, 512^3, lazy", 0.5, lambda: gemm(warp, 512, "lazy")),
        ("warp-specialised GEMM, 512^3, lazy, hazards off", None, lambda: gemm(warp, 512, "lazy", check=False)),
        ("warp-specialised GEMM, 512^3, random", 1.0, lambda: gemm(warp, 512, "random")),
        ("mma.sync GEMM, 512^3, lazy", 1.5, lambda: gemm(mma, 512, "lazy")),
    ]
    if not quick:
        listed.append(("warp-specialised GEMM, 1024^3, lazy", 3.0, lambda: gemm(warp, 1024, "lazy")))
    return listed


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmarks and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.emulator", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="leave out 1024^3 and Numba's simulator")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each case (default 5)")
    parser.add_argument("--json", metavar="FILE", help="also write the results to FILE")
    options = parser.parse_args(arguments)
    rows = []
    print(f"{'case':52} {'median':>9} {'range':>17} {'target':>8}")
    for name, target, make in cases(options.quick):
        median, low, high = seconds(make(), options.rounds)
        rows.append({"case": name, "seconds": median, "least": low, "most": high, "target": target})
        aim = f"{target:.1f} s" if target else ""
        print(f"{name:52} {median:7.3f} s {low:7.3f}-{high:.3f} s {aim:>8}", flush=True)
    if not options.quick:
        simulated = simulator_seconds()
        if simulated is None:
            print("Numba's CUDA simulator: not measured (pip install numba)")
        else:
            ratio = simulated / rows[0]["seconds"]
            rows.append({"case": "numba simulator, 2^20 threads, extrapolated", "seconds": simulated, "ratio": ratio})
            print(f"{'Numba CUDA simulator, 2^20 threads, extrapolated':52} {simulated:7.1f} s   {ratio:.0f} times the emulator's")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory {peak:.2f} GB")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"rows": rows, "peak_gb": peak}, file, indent=1)


if __name__ == "__main__":
    main()
