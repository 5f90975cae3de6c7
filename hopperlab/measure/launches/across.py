# SPDX-License-Identifier: Apache-2.0
"""Launches of lesson 19's kernels, one a device of several: what they share, flags and copies. The products are in across_products.py.

A `Step` is called again and again on the same flags, which count steps: the first call is step 1. Devices are those of one host that reach each
other's memory, 2 to 8 of them, on GPUs or in the emulator.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.arrays import address_of, array_module
from ...runtime.backend import backend as choose
from ...runtime.devices import Device, devices
from ...runtime.launch_attributes import LaunchAttributes
from ...runtime.library import load_kernel
from ...runtime.module import RawKernel
from ...runtime.streams import Stream
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from .launch import Launch
from .operands import bf16_bits, bf16_values

if TYPE_CHECKING:
    from ...runtime.arrays import Array

MOST_DEVICES, MOST_BLOCKS, THREADS = 8, 64, 512         # of peers.cuh and all_reduce.cu


@dataclass(frozen=True)
class World:
    """The devices that work together, a stream on each, and the array module of their place."""

    devices: tuple[Device, ...]
    streams: tuple[Stream, ...]
    backend: str

    @property
    def count(self) -> int:
        """How many devices."""
        return len(self.devices)

    @property
    def xp(self) -> Any:
        """CuPy or the emulator's NumPy."""
        return array_module(self.backend)

    def put(self, arrays: Iterable[np.ndarray]) -> tuple[Array, ...]:
        """One array a device, from the host; there when this returns."""
        placed = []
        for device, array in zip(self.devices, arrays, strict=True):
            with device:
                placed.append(self.xp.asarray(array))
                device.synchronize()
        return tuple(placed)

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = np.uint16) -> tuple[Array, ...]:
        """The same array of zeros on every device."""
        placed = []
        for device in self.devices:
            with device:
                placed.append(self.xp.zeros(shape, dtype))
                device.synchronize()
        return tuple(placed)

    def synchronize(self) -> None:
        """The host waits for all streams, and learns what went wrong."""
        for stream in self.streams:
            stream.synchronize()


def world(count: int = 2, backend: str | None = None) -> World:
    """`count` devices of one host, 2 to 8. Raises BackendError where there are not so many, OperandError for another count."""
    checks.number("count", count, 2, MOST_DEVICES)
    place = choose(backend)
    found, streams = devices(count, backend=place), []
    for device in found:
        with device:
            streams.append(Stream(backend=place))
    return World(found, tuple(streams), place)


def pointers(arrays: Sequence[Array], name: str = "an array") -> np.void:
    """`Peers` of peers.cuh, by value: the address of each device's array. The arrays have to outlive what is launched with it. name: what the
    emulator's messages call them."""
    table = np.zeros(MOST_DEVICES, np.uint64)
    for number, array in enumerate(arrays):
        named = isinstance(array, np.ndarray)
        table[number] = address_of(array, f"{name} of device {number} ({array.dtype}, shape {array.shape})") if named else array.data.ptr
    return np.frombuffer(table.tobytes(), np.dtype(f"V{table.nbytes}"))[0]


def maps(given: Sequence[TensorMap]) -> np.void:
    """`PeerMaps`, by value: a tensor map a device; places of devices that are not there repeat the first."""
    image = b"".join(bytes(one) for one in (*given, *[given[0]] * (MOST_DEVICES - len(given))))
    return np.frombuffer(image, np.dtype(f"V{len(image)}"))[0]


@dataclass
class Step:
    """A launch a device whose last argument is the number of the step, which is filled in. held: arrays that the arguments only point to."""

    world: World
    launches: tuple[Launch, ...]
    held: tuple[Any, ...] = ()
    number: int = field(default=0)

    def __call__(self, ranks: Sequence[int] | None = None) -> None:
        """Launch the next step on all devices, on their streams, in the order `ranks`, and wait for nothing."""
        self.number += 1
        for rank in range(self.world.count) if ranks is None else ranks:
            launch = self.launches[rank]
            launch.kernel(launch.grid, launch.block, (*launch.args, np.uint32(self.number)), shared_mem=launch.shared_mem, stream=self.world.streams[rank])

    def load(self) -> None:
        """On GPUs: load the kernels on every device and raise their limits, without a launch, because loading may wait for grids that run."""
        for device, launch in zip(self.world.devices, self.launches, strict=True):
            load_on(device, launch.kernel, launch.shared_mem)

    def prepared(self, count: int) -> Callable[[], None]:
        """The next `count` steps as one callable without checks, for timing on GPUs; to be called once."""
        from ...runtime.gpu import launch_ex
        self.load()
        runs = []
        for _ in range(count):
            self.number += 1
            for rank, launch in enumerate(self.launches):
                args = tuple(arg.value if isinstance(arg, TensorMap) else arg for arg in (*launch.args, np.uint32(self.number)))
                stream = self.world.streams[rank].cupy
                with self.world.devices[rank]:
                    runs.append((self.world.devices[rank], launch_ex.prepared(launch.kernel.cupy, launch.kernel.name, launch.grid, launch.block, args,
                                                                              launch.shared_mem, stream, LaunchAttributes())))

        def run() -> None:
            for device, one in runs:
                with device:
                    one()
        return run


def load_on(device: Device, kernel: RawKernel, shared_mem: int = 0) -> None:
    """Load a kernel on a GPU and raise its limit of dynamic shared memory, without a launch; nothing in the emulator."""
    if kernel.backend == "gpu":
        with device:
            raw = kernel.cupy
            if raw.num_regs and shared_mem > raw.max_dynamic_shared_size_bytes:
                raw.max_dynamic_shared_size_bytes = shared_mem


ALL_REDUCES = {"one-shot": "one_shot", "one-shot, words": "one_words", "two-shot": "two_shot"}
"""Name -> kernel of all_reduce.cu."""


def all_reduce(here: World, xs: Sequence[Array], ys: Sequence[Array], how: str = "one-shot", blocks: int | None = None, options: Sequence[str] = ()) -> Step:
    """ys[d] = sum of all xs, on every device, by peers/all_reduce.cu.

    xs, ys: an array of n bf16 (or their bits) a device, n a multiple of 8 (two-shot: of 8 * devices). blocks: CTAs, at most 64; None: one for 512 vectors
    of 16 bytes. Mail and flags are made here. Raises OperandError.
    """
    if how not in ALL_REDUCES:
        raise checks.OperandError("array", f"how is {how!r}: one of {', '.join(ALL_REDUCES)}")
    _a_device("xs", xs, here, 1), _a_device("ys", ys, here, 1)
    n, parts = xs[0].size, here.count if how == "two-shot" else 1
    if n % (8 * parts) or any(array.size != n for array in (*xs, *ys)):
        raise checks.OperandError("size", f"xs and ys have {[array.size for array in (*xs, *ys)]} elements: all as many, a multiple of {8 * parts}")
    blocks = blocks or max(1, min(MOST_BLOCKS, -(-n // parts // (8 * THREADS))))
    checks.number("blocks", blocks, 1, MOST_BLOCKS)
    mail = here.zeros(2 * here.count * n // parts * (2 if how == "one-shot, words" else 1))
    flags = here.zeros(2 * MOST_DEVICES * MOST_BLOCKS, np.uint32)
    kernel = load_kernel("peers/all_reduce.cu", ALL_REDUCES[how], tuple(options), backend=here.backend)
    common = (pointers(mail, "mail"), pointers(flags, "flags"), np.int32(n))
    launches = [Launch(kernel, (blocks,), (THREADS,), (xs[rank], pointers(ys, "y") if how == "two-shot" else ys[rank], *common, np.int32(rank), np.int32(here.count)))
                for rank in range(here.count)]
    return Step(here, tuple(launches), (tuple(xs), tuple(ys), mail, flags))


def summed(xs: Sequence[Array], xp: Any = np) -> Array:
    """What all_reduce leaves: the bits of the sum of bf16 arrays (or their bits), added in float32 in the order of the devices."""
    total = xp.zeros(xs[0].shape, np.float32)
    for x in xs:
        total = total + bf16_values(xp.asarray(x).view(np.uint16))
    return bf16_bits(total)


def meeting(here: World, options: Sequence[str] = ()) -> Step:
    """Every device waits for all others, by peers/flags.cu: what is launched behind it begins everywhere at about the same time."""
    flags = here.zeros(MOST_DEVICES, np.uint32)
    kernel = load_kernel("peers/flags.cu", "meet", tuple(options), backend=here.backend)
    launches = [Launch(kernel, (1,), (MOST_DEVICES,), (pointers(flags, "flags"), np.int32(rank), np.int32(here.count))) for rank in range(here.count)]
    return Step(here, tuple(launches), (flags,))


def round_trips(here: World, rounds: int, options: Sequence[str] = ()) -> tuple[tuple[Launch, Launch], tuple[Array, ...]]:
    """(a launch on each of the first two devices, their flags): `rounds` times a flag to and fro; cycles[0] of the first is its clock. Set the flags to 0 before each."""
    flags, cycles = here.zeros(1, np.uint32), here.zeros(1, np.int64)
    kernel = load_kernel("peers/flags.cu", "round_trip", tuple(options), backend=here.backend)
    first, second = (Launch(kernel, (1,), (1,), (flags[rank], flags[1 - rank], np.int32(rank == 0), np.int32(rounds), cycles[rank])) for rank in (0, 1))
    return (first, second), flags


def peer_copy(here: World, source: Array, target: Array, blocks: int = 16, stages: int = 12, chunk: int = 16384) -> Launch:
    """target = source by bulk copies (copy/bulk_copy.cu), whichever devices they lie on: a pull launched where the target is, a push where the source is.

    stages: slots of `chunk` bytes per CTA, half of them being loaded.
    """
    total = checks.flat(source, target)
    kernel = load_kernel("copy/bulk_copy.cu", "bulk_copy", (f"-DSTAGES={stages}", f"-DCHUNK_BYTES={chunk}"), backend=here.backend)
    return Launch(kernel, (blocks,), (32,), (source, target, np.int64(total)), stages * chunk)


def _a_device(name: str, arrays: Sequence[Array], here: World, dimensions: int) -> None:
    if len(arrays) != here.count:
        raise checks.OperandError("array", f"{name} has {len(arrays)} arrays: one for each of {here.count} devices")
    for number, array in enumerate(arrays):
        checks.array(f"{name}[{number}]", array, checks.BF16, dimensions)
