# SPDX-License-Identifier: Apache-2.0
"""The worker process of `isolated`: reads launches from standard input, runs them, writes the answers.

Run as `python -m hopperlab.runtime.workers.worker PLACE`. What a kernel prints goes to standard error; standard output carries
the answers alone.
"""
from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np

from .. import arrays
from ..compile.ptxas import parse
from ..errors import GpuError
from ..launch_attributes import LaunchAttributes
from ..tensor_map import PointedMap, TensorMap


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
        _send(answers, answer(request))


def _send(answers: IO[bytes], value: Any) -> None:
    pickle.dump(value, answers, protocol=pickle.HIGHEST_PROTOCOL)
    answers.flush()


def answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        return _run(request)
    except Exception as problem:        # whatever happened is the caller's to read
        return {"error": str(problem), "kind": type(problem).__name__, "fatal": isinstance(problem, GpuError)}


def _run(request: dict[str, Any]) -> dict[str, Any]:
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


def _argument(described: tuple[Any, ...], owners: list[arrays.Array], place: str) -> Any:
    """Rebuild one argument of `isolated._describe`."""
    kind = described[0]
    if kind == "scalar":
        return _scalar(*described[1:])
    owner, offset = owners[described[1]], described[2]
    if kind in ("map", "pointed map"):
        start = owner.data.ptr if place == "gpu" else arrays.address_of(owner)
        made = TensorMap(replace(described[3], global_address=start + offset), owner, place)
        return made if kind == "map" else PointedMap.of(made)
    return _bytes_from(owner, offset)


def _scalar(dtype: str, data: bytes) -> np.generic:
    try:
        known: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        import ml_dtypes
        known = np.dtype(getattr(ml_dtypes, dtype))
    scalar: np.generic = np.frombuffer(data, dtype=known)[0]
    return scalar


def _bytes_from(owner: arrays.Array, offset: int) -> arrays.Array:
    """A view of the owner's memory from `offset` on: kernels see only where an array begins."""
    if not offset:
        return owner
    return owner.reshape(-1, order="A").view(np.uint8)[offset:]


def _on_gpu(request: dict[str, Any]) -> Callable[[Sequence[Any]], None]:
    from ..gpu import launch
    module = launch.load(request["cubin"]) if request["cubin"] else launch.load(request["ptx"].encode(), ".ptx")
    kernel = launch.get_function(module, request["kernel"])
    return lambda args: launch.launch(kernel, request["kernel"], _triple(request["grid"]), _triple(request["block"]), args,
                                   request["shared_mem"], attributes=LaunchAttributes.read(request.get("attributes", {})))


def _emulated(request: dict[str, Any]) -> Callable[[Sequence[Any]], None]:
    from .. import emulated
    program = emulated.program(request["ptx"], parse(request["log"]))
    return lambda args: emulated.launch(program, request["kernel"], _triple(request["grid"]), _triple(request["block"]),
                                        args, request["shared_mem"], attributes=LaunchAttributes.read(request.get("attributes", {})))


def _triple(shape: Any) -> tuple[int, int, int]:
    values = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    x, y, z, *_ = (*values, 1, 1)
    return x, y, z


if __name__ == "__main__":
    main(sys.argv[1])
