"""The worker process of `isolated`: reads launches from standard input, runs them, writes the answers.

Run as `python -m hopperlab.runtime.worker PLACE`. What a kernel prints goes to standard error; standard output carries
the answers alone.
"""
from __future__ import annotations

import os
import pickle
import sys
import time
from dataclasses import replace

import numpy as np

from . import arrays
from .errors import GpuError
from .ptxas import parse
from .tensor_map import TensorMap


def main(place: str) -> None:
    """Serve launches until standard input ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    if place == "gpu":
        import cupy
        cupy.cuda.runtime.free(0)       # makes the context now, outside any launch's time limit
    _send(answers, "ready")
    while True:
        try:
            request = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        _send(answers, _answer(request))


def _send(answers, value) -> None:
    pickle.dump(value, answers, protocol=pickle.HIGHEST_PROTOCOL)
    answers.flush()


def _answer(request: dict) -> dict:
    try:
        return _run(request)
    except Exception as problem:        # whatever happened is the caller's to read
        return {"error": str(problem), "kind": type(problem).__name__, "fatal": isinstance(problem, GpuError)}


def _run(request: dict) -> dict:
    place = request["place"]
    xp = arrays.array_module(place)
    owners = [xp.asarray(_bits(values)) for values in request["arrays"]]
    args = [_argument(described, owners, place) for described in request["args"]]
    launch = (_on_gpu if place == "gpu" else _emulated)(request)
    start = time.perf_counter()
    launch(args)
    arrays.synchronize(place)
    seconds = time.perf_counter() - start
    results = [arrays.asnumpy(owner).view(values.dtype) for owner, values in zip(owners, request["arrays"], strict=True)]
    return {"arrays": results, "seconds": seconds}


def _bits(values: np.ndarray) -> np.ndarray:
    """Numbers that CuPy has no type for (bfloat16, float8_e4m3fn …) as unsigned integers of their size; a kernel sees bytes alone."""
    return values.view(f"u{values.dtype.itemsize}") if values.dtype.kind == "V" else values


def _argument(described: tuple, owners: list, place: str):
    """Rebuild one argument of `isolated._describe`."""
    kind = described[0]
    if kind == "scalar":
        return _scalar(*described[1:])
    owner, offset = owners[described[1]], described[2]
    if kind == "map":
        start = owner.data.ptr if place == "gpu" else arrays.address_of(owner)
        return TensorMap(replace(described[3], global_address=start + offset), owner, place)
    return _bytes_from(owner, offset)


def _scalar(dtype: str, data: bytes) -> np.generic:
    try:
        return np.frombuffer(data, dtype=np.dtype(dtype))[0]
    except TypeError:
        import ml_dtypes
        return np.frombuffer(data, dtype=getattr(ml_dtypes, dtype))[0]


def _bytes_from(owner, offset: int):
    """A view of the owner's memory from `offset` on: kernels see only where an array begins."""
    if not offset:
        return owner
    return owner.reshape(-1, order="A").view(np.uint8)[offset:]


def _on_gpu(request: dict):
    from . import gpu
    module = gpu.load(request["cubin"]) if request["cubin"] else gpu.load(request["ptx"].encode(), ".ptx")
    kernel = gpu.get_function(module, request["kernel"])
    return lambda args: gpu.launch(kernel, request["kernel"], _triple(request["grid"]), _triple(request["block"]), args,
                                   request["shared_mem"])


def _emulated(request: dict):
    from . import emulated
    program = emulated.program(request["ptx"], parse(request["log"]))
    return lambda args: emulated.launch(program, request["kernel"], _triple(request["grid"]), _triple(request["block"]),
                                        args, request["shared_mem"])


def _triple(shape) -> tuple[int, int, int]:
    values = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return (*values, 1, 1)[:3]


if __name__ == "__main__":
    main(sys.argv[1])
