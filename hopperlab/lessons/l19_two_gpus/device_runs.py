# SPDX-License-Identifier: Apache-2.0
"""Lesson 19: its kernels on two or more devices: emulated ones, with hazards collected, and where two Hopper GPUs are here, on those."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...measure.launches import across, across_products, launch
from ...measure.launches.across_products import SMALL, Copiers
from ...measure.launches.operands import bf16_bits
from ...measure.machine import here as machine
from ...runtime.backend import backend
from ...runtime.tables import counted
from ...show import style
from ..chosen import unreadable
from .overlap_model import overlap_picture
from .recorded import way_time

M, N, K = 512, 64, 128                  # of the products here: on two devices four rows of tiles each, and one column


def _two_gpus() -> bool:
    return backend() == "gpu" and machine.gpus() >= 2


def where() -> str:
    """Where this lesson's kernels run."""
    if _two_gpus():
        return "Two GPUs are here: kernels run on them, and hazards are looked for on emulated devices."
    return "There are no two Hopper GPUs here: this lesson runs on emulated devices of one host, which have peer memory and flags, and no speed."


def _emulated(count: int) -> across.World:
    import hopperlab as hl
    hl.synchronize("emulator")
    return across.world(count, "emulator")


def _vectors(here: across.World, n: int, seed: int = 1) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)
    return here.put(bf16_bits(random.integers(-9, 10, n).astype(np.float32)) for _ in here.devices)


def _reduced(here: across.World, how: str, steps: int, options: Sequence[str]) -> bool:
    xs, ys = _vectors(here, 64 * here.count), here.zeros(64 * here.count)
    step = across.all_reduce(here, xs, ys, how, 1, options)
    step.load()
    for _ in range(steps):
        step()
    here.synchronize()
    return all(bool((across_products._host(y) == across.summed([across_products._host(x) for x in xs])).all()) for y in ys)


def run_reduce(how: str = "one-shot", devices: int = 2, landing: str = "lazy", options: Sequence[str] = (), steps: int = 3) -> tuple[bool, Any]:
    """(right, session): `steps` all-reduces in a row on emulated devices. options: for NVRTC, such as '-DBUG_GPU_SCOPE=1'."""
    import hopperlab as hl

    here = _emulated(devices)
    with hl.emulate(schedule=landing, hazards="collect") as run:
        right = _reduced(here, how, steps, options)
    return right, run


def run_gathered(order: str = "own first", piece_rows: int = 128, copiers: int = 2, devices: int = 2, landing: str = "lazy", dedicated: bool = False,
                 options: Sequence[str] = ()) -> tuple[bool, Any]:
    """(right, session): an all-gather under a product on emulated devices, 128 x 64 a tile."""
    import hopperlab as hl

    here = _emulated(devices)
    given = across_products.gather_operands(here, M // 2 * devices, N, K)
    step = across_products.gathered(here, given.a, given.b, given.c, SMALL, Copiers(copiers, dedicated), piece_rows, order, 3, options)
    given.clear()
    with hl.emulate(schedule=landing, hazards="collect") as run:
        step()
        here.synchronize()
    return given.right(), run


def run_scattered(order: str = across_products.IN_TURNS, devices: int = 2, landing: str = "lazy", options: Sequence[str] = ()) -> tuple[bool, Any]:
    """(right, session): a product under a reduce-scatter on emulated devices, and on each a copy of C behind it, which reads what has been added."""
    import hopperlab as hl

    here = _emulated(devices)
    given = across_products.scatter_operands(here, M // 2 * devices, N, K)
    step, seen = across_products.scattered(here, given.a, given.b, given.c, SMALL, order, 2, options), here.zeros(given.c[0].shape)
    with hl.emulate(schedule=landing, hazards="collect") as run:
        step()
        for stream, c, copy in zip(here.streams, given.c, seen, strict=True):
            one = across.peer_copy(here, c, copy, 1, 4, 4096)
            one.kernel(one.grid, one.block, one.args, shared_mem=one.shared_mem, stream=stream)
        here.synchronize()
    return given.right() and all(bool((a == b).all()) for a, b in zip(seen, given.c, strict=True)), run


def in_this_place() -> str:
    """The lesson's kernels once each in this place, on two GPUs where they are here: whether their results are right."""
    here = across.world(2, "gpu" if _two_gpus() else "emulator")
    told = [f"{how}: {_reduced(here, how, 5, ())}" for how in across.ALL_REDUCES]
    gather = across_products.gather_operands(here, M, N, K)
    step = across_products.gathered(here, gather.a, gather.b, gather.c, SMALL, Copiers(2), blocks=3)
    scatter = across_products.scatter_operands(here, M, N, K)
    other = across_products.scattered(here, scatter.a, scatter.b, scatter.c, SMALL, blocks=2)
    for one in (step, other):
        one.load()
        one()
    here.synchronize()
    return "\n".join([*told, f"all-gather under a product: {gather.right()}", f"product under a reduce-scatter: {scatter.right()}"])


def copied(blocks: int = 4, landing: str = "lazy") -> str:
    """A line for each way over the link in the emulator: whether the bytes have come, and who moved how many."""
    import hopperlab as hl

    here, lines = _emulated(2), []
    data = np.random.default_rng(3).integers(0, 1 << 16, 1 << 15, np.uint16)
    for way, rank in (("push", 0), ("pull", 1)):
        source, target = here.put([data, np.zeros_like(data)])
        one = across.peer_copy(here, source, target, blocks, 4, 4096)
        with hl.emulate(schedule=landing, hazards="collect") as run:
            one.kernel(one.grid, one.block, one.args, shared_mem=one.shared_mem, stream=here.streams[rank])
            here.synchronize()
        lines.append(f"{way}, launched on device {rank}: right: {bool((target == data).all())}; {run.counters['bulk_load_bytes']} bytes loaded, "
                     f"{run.counters['bulk_store_bytes']} stored by {blocks} threads; {len(run.hazards)} hazards")
    return "\n".join(lines)


HAND_OVER = r"""
#include <hopperlab/peers.cuh>
extern "C" __global__ void put(float* data, unsigned* flag) {          // on device 0; both arrays lie on device 1
    data[threadIdx.x] = threadIdx.x + 1.0f;
    __syncthreads();                                                   // all have written
    if (threadIdx.x == 0) raise_flag(flag, 1);
}
extern "C" __global__ void take(const float* data, const unsigned* flag, float* out) {
    if (threadIdx.x == 0) await_flag(flag, 1);
    __syncthreads();                                                   // what one has acquired, all know
    out[threadIdx.x] = 2 * data[127 - threadIdx.x];
}"""


def handed_over(gpu_scope: bool = False, landing: str = "lazy") -> tuple[bool, Any]:
    """(right, session): one device writes 128 numbers into the memory of another and raises a flag there, which that one awaits."""
    import hopperlab as hl

    here = _emulated(2)
    module = hl.RawModule(code=HAND_OVER, options=(f"-DBUG_GPU_SCOPE={int(gpu_scope)}",), backend="emulator")
    put, take = module.get_function("put"), module.get_function("take")
    data, flag, out = here.zeros(128, np.float32)[1], here.zeros(1, np.uint32)[1], here.zeros(128, np.float32)[1]
    with hl.emulate(schedule=landing, hazards="collect") as run:
        take((1,), (128,), (data, flag, out), stream=here.streams[1])
        put((1,), (128,), (data, flag), stream=here.streams[0])
        here.synchronize()
    return bool((out == 2 * np.arange(128, 0, -1)).all()), run


def launch_gathered(order: str, pieces: int, copiers: int, landing: str) -> style.Picture:
    """The panel: the kernel on two emulated devices, and the model of its times. pieces: of a shard; copiers: CTAs that copy, of the model's 132."""
    right, run = run_gathered(order, M // 2 // pieces, min(3, copiers), landing=landing)
    found = run.hazards[0].kind if run.hazards else "no hazard"
    told = f"{order}, {counted(pieces, 'piece')} per shard, {copiers} CTAs copy: result {'right' if right else 'WRONG'}, {found}"
    picture = overlap_picture(order, pieces, copiers, heading=told)
    _copies_alone(copiers)
    told = way_time(order, copiers)
    picture.figure.axes[0].set_xlabel(f"time in the model (free units; what waits for what, not speed)\n{told}", fontsize=9)
    return style.Picture(picture.figure, f"{picture.text}\n  {told}")


def _copies_alone(copiers: int) -> None:
    """The copies by themselves, inside one device and without a stream: on a GPU a panel repeats and times what is launched so."""
    import hopperlab as hl

    hl.synchronize("emulator")
    data = hl.array_module("emulator").zeros(1 << 13, np.uint16)
    with hl.emulate(hazards="collect"):
        launch.bulk_copy(data, data.copy(), 4, 1024, copiers, backend="emulator")()


FLAGS = {"a": ("a counter that the CTAs of one device raise, and a producer of the same device awaits", False),
         "b": ("'my shard is complete', read by a copying thread of another device", True),
         "c": ("'I have read your shard', which a kernel of the other device awaits before it ends", True), "d": ("an mbarrier in shared memory", False),
         "e": ("'you may add to my C'", True), "f": ("the step inside a word of 8 bytes that a device writes into another's mail", True)}


def check_flags(letters: Collection[str] | None) -> str:
    """The lesson's exercise: which of FLAGS need system scope."""
    said = unreadable(letters, FLAGS)
    if letters is None or said:
        return said
    for letter, (what, needs) in FLAGS.items():
        if needs and letter not in letters:
            return f"Not yet: {letter}, {what}: writer and reader are on two devices."
        if not needs and letter in letters:
            return f"Not yet: {letter}, {what}: nobody outside the device reads it."
    return "Right: the scope is the smallest that holds both ends. System scope inside a device would be right as well, and slower."
