# SPDX-License-Identifier: Apache-2.0
"""Launches of lesson 13x's chain: small products, each on what the one before wrote, and a norm. Like launch.py: arrays in, launches out.

The same chain runs in four ways: launch after launch, as a CUDA graph, with programmatic dependent launches, and as one persistent kernel.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.launch_attributes import LaunchAttributes
from ...runtime.library import load_kernel
from ...runtime.streams import Stream
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from .launch import SMS, Launch
from .operands import bf16_bits, bf16_values

if TYPE_CHECKING:
    from ...runtime.arrays import Array

TILE, MOST_COLUMNS, EPSILON = 64, 4096, np.float32(1e-5)
LAUNCH_AT: Mapping[str, int] = {"never": 0, "start": 1, "loaded": 2, "multiplied": 3}
"""Where griddepcontrol.launch_dependents stands -> LAUNCH_AT of chain.cuh."""
WAIT_AT: Mapping[str, int] = {"never": 0, "start": 1, "loads": 2, "x": 3}
"""Where griddepcontrol.wait stands -> WAIT_AT of chain.cuh; 'never' is wrong in a dependent launch."""


@dataclass(frozen=True)
class Operands:
    """What a chain works on, bf16 or its bits. steps: (products + 1) x m x n, of which steps[0] is the input; weights: products x n x n; gain: n; out: m x n."""

    steps: Array
    weights: Array
    gain: Array
    out: Array

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, columns, products)."""
        return self.steps.shape[1], self.steps.shape[2], self.weights.shape[0]

    def clear(self) -> None:
        """Fill everything that kernels write with NaN."""
        nan = np.uint16(0x7FC0)
        self.steps.view(np.uint16)[1:] = nan
        self.out.view(np.uint16)[...] = nan


def operands(xp: Any, m: int, n: int, products: int = 4, seed: int = 13, exact: bool = True) -> Operands:
    """Operands as bits of bf16. exact: eight weights of a row are 1 or -1, the rest 0, and inputs are small integers, so that every sum of a product is exact; otherwise
    all are normal numbers, the weights so small that results keep their size."""
    random = np.random.default_rng(seed)
    x, weights = random.integers(-4, 5, (m, n)).astype(np.float32), np.zeros((products, n, n), np.float32)
    if exact:
        columns = np.argsort(random.random((products, n, n)), axis=-1)[:, :, :8] if n <= 256 else random.integers(0, n, (products, n, 8))
        np.put_along_axis(weights, columns, random.choice(np.float32([-1, 1]), columns.shape), axis=-1)
    else:
        x, weights = random.standard_normal((m, n), np.float32), random.standard_normal((products, n, n), np.float32) / np.float32(n ** 0.5)
    steps = np.zeros((products + 1, m, n), np.uint16)
    steps[0] = bf16_bits(x)
    gain = bf16_bits(random.integers(1, 9, n).astype(np.float32) / 4)
    return Operands(*(xp.asarray(array) for array in (steps, bf16_bits(weights), gain, np.zeros((m, n), np.uint16))))


def reference(given: Operands, xp: Any = np) -> tuple[list[Array], Array]:
    """(what each product leaves, what the norm leaves) as float32, rounded to bf16 after every kernel. given: arrays of xp."""
    x, results = bf16_values(given.steps[0]), []
    for weights in given.weights:
        x = bf16_values(bf16_bits(x @ bf16_values(weights).T))
        results.append(x)
    scale = 1 / xp.sqrt((x * x).mean(axis=1, keepdims=True) + EPSILON)
    return results, x * scale * bf16_values(given.gain)


@dataclass(frozen=True)
class Chain:
    """The launches of a chain, in order. Call it to launch them all; `captured` makes a CUDA graph of them. cooperative: the blocks of a launch wait for each other."""

    launches: tuple[Launch, ...]
    given: Operands
    cooperative: bool = False

    def __call__(self, dependent: bool = False, stream: Stream | None = None) -> None:
        """Launch all, in a stream (None: the current one). dependent: every launch but the first may begin before the one in front of it has ended."""
        for number, launch in enumerate(self.launches):
            launch.kernel(launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, stream=stream, dependent=dependent and number > 0,
                          cooperative=self.cooperative or None)

    def bound(self, dependent: bool = False) -> Callable[[], None]:
        """The same without checks, for timing on a GPU: a callable that launches all in what is now CuPy's current stream."""
        from ...runtime.gpu import launch_ex
        self(dependent)                                     # loads every kernel and raises its limits
        runs = []
        for number, launch in enumerate(self.launches):
            args = tuple(arg.value if isinstance(arg, TensorMap) else arg for arg in launch.args)
            attributes = LaunchAttributes(dependent=dependent and number > 0, cooperative=self.cooperative)
            runs.append(launch_ex.prepared(launch.kernel.cupy, launch.kernel.name, launch.grid, launch.block, args, launch.shared_mem, None, attributes))

        def run() -> None:
            for one in runs:
                one()
        return run

    def captured(self, dependent: bool = False) -> Callable[[], None]:
        """The same launches as a CUDA graph: a callable that launches it in CuPy's current stream. dependent: with programmatic edges.

        In the emulator, which has no graphs, the callable launches them one after another.
        """
        if self.launches[0].kernel.backend == "emulator":
            return lambda: self(dependent)
        self(dependent)                                     # loads every kernel, which a capture does not allow
        stream = Stream(backend="gpu")
        stream.synchronize()
        with stream:
            stream.cupy.begin_capture()
            self(dependent)
            graph = stream.cupy.end_capture()
        return lambda held=self: graph.launch()             # held: what the graph's pointers point to

    def right(self, xp: Any = np) -> bool:
        """Whether all results are right: products of exact operands to the bit, others and the norm to the rounding of bf16. Waits for the current stream."""
        products, norm = reference(self.given, xp)
        made = [bf16_values(array) for array in (*self.given.steps[1:], self.given.out)]
        close = all(bool(xp.isfinite(got).all()) and bool((xp.abs(got - wanted) <= 2.0 ** -7 * xp.abs(wanted) + 2.0 ** -7 * xp.abs(wanted).max()).all())
                    for got, wanted in zip(made, (*products, norm), strict=True))
        exact = bool(xp.abs(bf16_values(self.given.weights)).max() == 1)
        return close and (not exact or all(bool((got == wanted).all()) for got, wanted in zip(made, products, strict=False)))


def chain(given: Operands, launch_at: str | Sequence[str] = "loaded", wait_at: str | Sequence[str] = "x", stages: int = 6, options: Sequence[str] = (),
          backend: str | None = None,
          apart: bool = False) -> Chain:
    """The chain kernel by kernel: launches/product.cu for each product, then launches/rms_norm.cu.

    launch_at, wait_at: a key of LAUNCH_AT and of WAIT_AT, for all kernels or one a kernel. stages: 16 KiB slots of a product's ring. apart: every launch
    has a module of its own, with variables of its own. Raises OperandError.
    """
    m, n, products = _shape(given, stages)
    places = list(zip(_each(launch_at, products + 1, LAUNCH_AT, "launch_at"), _each(wait_at, products + 1, WAIT_AT, "wait_at"), strict=True))
    launches = []
    for layer, (launch, wait) in enumerate(places[:-1]):
        kernel = load_kernel("launches/product.cu", "product", (f"-DLAUNCH_AT={launch}", f"-DWAIT_AT={wait}", f"-DSTAGES={stages}", *_number(apart, layer),
                                                                *options), backend=backend)
        maps = (_map(given.steps[layer]), _map(given.weights[layer]))
        launches.append(Launch(kernel, (n // TILE, -(-m // TILE)), (160,), (*maps, given.steps[layer + 1], np.int32(m), np.int32(n), np.int32(n)), _ring_bytes(stages)))
    launch, wait = places[-1]
    kernel = load_kernel("launches/rms_norm.cu", "rms_norm", (f"-DLAUNCH_AT={launch}", f"-DWAIT_AT={wait}", _vectors(n), *options), backend=backend)
    launches.append(Launch(kernel, (m,), (128,), (given.steps[products], given.gain, given.out, np.int32(n), EPSILON)))
    return Chain(tuple(launches), given)


def persistent(given: Operands, flags: Array, stages: int = 6, blocks: int = SMS, options: Sequence[str] = (), backend: str | None = None) -> Chain:
    """The same in one launch, launches/persistent_chain.cu: m a multiple of 64; flags: uint32, products * m / 64 + 1 of them, 0 before the first
    launch. Raises OperandError."""
    m, n, products = _shape(given, stages)
    checks.array("flags", flags, ("uint32",), 1)
    if m % TILE or flags.size < products * (m // TILE) + 1:
        raise checks.OperandError("size", f"m is {m} and there are {flags.size} flags: m is a multiple of {TILE}, and there are products * m / {TILE} + 1 flags")
    kernel = load_kernel("launches/persistent_chain.cu", "persistent_chain", (f"-DSTAGES={stages}", _vectors(n), *options), backend=backend)
    maps = (_map(given.steps.reshape(-1, n)), _map(given.weights.reshape(-1, n)))
    grid = min(blocks, max(m, (m // TILE) * (n // TILE)))           # a block has a tile of every product, or a row of the norm, or both
    launch = Launch(kernel, (grid,), (160,), (*maps, given.steps, given.gain, given.out, flags, np.int32(m), np.int32(n), np.int32(products), EPSILON),
                    _ring_bytes(stages))
    return Chain((launch,), given, cooperative=True)


def flags_for(xp: Any, given: Operands) -> Array:
    """The counters of `persistent`, all 0."""
    m, _, products = given.shape
    return xp.zeros(products * -(-m // TILE) + 1, np.uint32)


def _shape(given: Operands, stages: int) -> tuple[int, int, int]:
    m, n, products = given.shape
    for name, value, dimensions in (("steps", given.steps, 3), ("weights", given.weights, 3), ("gain", given.gain, 1), ("out", given.out, 2)):
        checks.array(name, value, checks.BF16, dimensions)
    wanted = ((products + 1, m, n), (products, n, n), (n,), (m, n))
    if (given.steps.shape, given.weights.shape, given.gain.shape, given.out.shape) != wanted:
        raise checks.OperandError("shape", f"steps, weights, gain and out have shapes {given.steps.shape}, {given.weights.shape}, {given.gain.shape} and "
                                           f"{given.out.shape}, not {wanted}")
    if n % TILE or n > MOST_COLUMNS:
        raise checks.OperandError("size", f"n is {n}; it is a multiple of {TILE}, at most {MOST_COLUMNS}")
    checks.number("stages", stages, 1, 13)
    return m, n, products


def _each(given: str | Sequence[str], count: int, table: Mapping[str, int], name: str) -> list[int]:
    words = [given] * count if isinstance(given, str) else list(given)
    if len(words) != count or any(word not in table for word in words):
        raise checks.OperandError("array", f"{name} is {given!r}: one of {', '.join(table)}, for all {count} kernels or one a kernel")
    return [table[word] for word in words]


def _map(array: Array) -> TensorMap:
    return TensorMap.tiled(array, box=(TILE, TILE), swizzle="128B", dtype="bfloat16" if array.dtype == np.uint16 else None)


def _ring_bytes(stages: int) -> int:
    return stages * 16384 + 16 * stages


def _number(apart: bool, layer: int) -> tuple[str, ...]:
    return (f"-DLAYER={layer}",) if apart else ()


def _vectors(n: int) -> str:
    return f"-DVECTORS={-(-n // 1024)}"
