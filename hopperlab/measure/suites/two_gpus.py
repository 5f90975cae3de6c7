# SPDX-License-Identifier: Apache-2.0
"""What two GPUs of one host do together, the recording `two_gpus`: `hopperlab bench two_gpus`.

Needs two Hopper GPUs that reach each other's memory. Lesson 19: copies over the link by CTAs, a flag's round trip, all-gather under a product, product
under a reduce-scatter, all-reduces of small vectors; beside the products alone, NCCL before and after cuBLAS, and the copy engine. Every result is checked
before it is timed.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..launches import across, across_products, gemm
from ..launches.across import World
from ..launches.across_products import IN_TURNS, PARKED, Copiers, widest
from ..launches.launch import Launch
from ..launches.operands import bf16_values, normal_bf16
from ..recordings import Record
from . import two_gpus_peers as others
from .fields import beside, facts, gb_s, tflops, times
from .two_gpus_timing import Clock, Run, again, steps

METHOD = ("two GPUs of one host; on each device a kernel that only lasts, a meeting of both by flags over the link, an event, the work, an event, so that the host is "
          "ahead; the time of the device that took longest; variants interleaved in one process, medians; products and copies after a write of 512 MiB on each device, "
          "all-reduces as the share of 20 in a row with what the L2 keeps; random normal inputs; the ratio is that of speeds, round by round; rates are one device's")
GATHERED = ((8192, 5120, 8192), (8192, 28672, 8192), (4096, 14336, 4096), (2048, 28672, 8192))
"""m, n, k on each of two devices: projections of queries, keys and values, and of gate and up, of models of 70 and 8 billion parameters, tensor-parallel by two."""
SCATTERED = ((8192, 8192, 4096), (8192, 8192, 14336), (4096, 4096, 7168), (2048, 8192, 14336))
"""The same models' projections back: m, n, and k on each of two devices."""
SMALL_BYTES = (4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
COPY_BYTES, CTAS, ROUND_TRIPS, IN_A_ROW = 256 << 20, (1, 2, 4, 8, 16, 32, 64), 1000, 20
ALONE, ENGINE = "alone: ", "copy engine"
Variants = dict[str, Callable[[], Run]]


class WrongTogether(AssertionError):
    """Devices left wrong numbers together, so that nothing of it is timed."""


def check(name: object, right: bool) -> None:
    """Raise WrongTogether unless `right`."""
    if not right:
        raise WrongTogether(f"{name}: the result is wrong")


def random(here: World, shape: tuple[int, ...], seed: int) -> tuple[Any, ...]:
    """Random normal bits of bf16, others on every device."""
    made = []
    for number, device in enumerate(here.devices):
        with device:
            made.append(normal_bf16(here.xp, shape, seed + number))
            device.synchronize()
    return tuple(made)


def fill(here: World, arrays: Sequence[Any], value: int) -> None:
    """Fill one array a device, and wait."""
    for device, array in zip(here.devices, arrays, strict=True):
        with device:
            array[...] = value
            device.synchronize()


def on_streams(here: World, *pairs: tuple[Launch, int]) -> Run:
    """Launches on these devices' streams, as one callable."""
    for launch, number in pairs:
        across.load_on(here.devices[number], launch.kernel, launch.shared_mem)

    def run() -> None:
        for launch, number in pairs:
            launch.kernel(launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, stream=here.streams[number])
    return run


def link(rounds: int, here: World) -> list[Record]:
    """256 MiB over the link: pulled and pushed by 1 to 64 CTAs, by the copy engine, and pulled by both devices at once."""
    data, spare = here.zeros(COPY_BYTES // 2), here.zeros(COPY_BYTES // 2)
    fill(here, data, 12345)
    launches = {blocks: across.peer_copy(here, data[0], spare[1], blocks) for blocks in CTAS}
    variants: dict[str, Run] = {f"{way}, {blocks} CTAs": on_streams(here, (launch, number)) for blocks, launch in launches.items() for number,
                                way in enumerate(("push", "pull"))}
    variants["both pull, 16 CTAs"] = on_streams(here, (launches[16], 1), (across.peer_copy(here, data[1], spare[0], 16), 0))
    variants[ENGINE] = others.one_copy(here, data[0], spare[1])
    for name, run in variants.items():
        fill(here, spare, 0)
        run()
        here.synchronize()
        with here.devices[1]:
            check(name, bool((spare[1] == 12345).all()))
    found = Clock(here).interleaved({name: again(run) for name, run in variants.items()}, rounds)
    peer = found[ENGINE]
    return [Record("link", "cudaMemcpyPeer" if name == ENGINE else "bulk_copy", (name,), (COPY_BYTES,), "uint8", **times(sample), gb_s=gb_s(COPY_BYTES, sample),
                   **beside(sample, ENGINE, peer, gb_s(COPY_BYTES, peer)), mode="cold L2", **facts(None if name == ENGINE else launches[16])) for name,
                   sample in found.items()]


def flags(rounds: int, here: World) -> list[Record]:
    """Cycles of a flag to and fro between two threads of two devices."""
    launches, words = across.round_trips(here, ROUND_TRIPS)
    run, values = on_streams(here, *((launch, number) for number, launch in enumerate(launches))), []
    for _ in range(rounds + 1):
        fill(here, words, 0)
        run()
        here.synchronize()
        values.append(int(launches[0].args[-1].get()[0]) / ROUND_TRIPS)
    values = values[1:]
    return [Record("flag", "round_trip", value=round(float(np.median(values)), 1), value_min=round(min(values), 1), value_max=round(max(values), 1),
                   unit="cycles", **facts(launches[0]))]


def final_alone(here: World, a: Sequence[Any], b: Sequence[Any], c: Sequence[Any]) -> Run:
    """The course's last product on every device."""
    launches = []
    for number, (device, *operands) in enumerate(zip(here.devices, a, b, c, strict=True)):
        with device:
            launches.append((gemm.final(*operands, backend=here.backend), number))
            device.synchronize()
    return on_streams(here, *launches)


def near(here: World, got: Sequence[Any], wanted: Sequence[Any], rounding: float = 2.0 ** -7) -> bool:
    """Whether bf16 results of every device are as near as their rounding allows; wanted: float32 there."""
    right = []
    for device, mine, theirs in zip(here.devices, got, wanted, strict=True):
        with device:
            xp, scale = here.xp, float(abs(theirs).mean())
            right.append(bool((xp.abs(bf16_values(mine) - theirs) <= rounding * (xp.abs(theirs) + 4 * scale)).all()))
    return all(right)


def numbers(here: World, arrays: Sequence[Any]) -> list[Any]:
    """Bits of bf16 as float32, on their devices."""
    values = []
    for device, array in zip(here.devices, arrays, strict=True):
        with device:
            values.append(bf16_values(array))
            device.synchronize()
    return values


def gathered_variants(here: World, shape: tuple[int, int, int], ours: Mapping[str, Mapping[str, Any]]) -> tuple[Variants, dict[str, across.Step]]:
    """Our ways (name -> choices) and the others', all checked, on the same operands."""
    m, n, k = shape
    whole, b, c = random(here, (m, k), 1), random(here, (n, k), 5), here.zeros((m, n))
    rows, peer = m // here.count, others.Others(here)
    others.copies(here, whole)()                                # each device's own rows everywhere: A
    here.synchronize()
    alone = peer.products(whole, b, c)
    alone()
    here.synchronize()
    wanted = numbers(here, c)
    made: dict[str, across.Step] = {}
    for name, choices in ours.items():
        made[name] = step = across_products.gathered(here, whole, b, c, **choices)
        step.load()
        for rank, device in enumerate(here.devices):
            with device:
                whole[rank][:rank * rows], whole[rank][(rank + 1) * rows:], c[rank][...] = 0x7FC0, 0x7FC0, 0x7FC0
                device.synchronize()
        step()
        here.synchronize()
        check((name, shape), near(here, c, wanted))
    runs = {ALONE + "cuBLAS": alone, ALONE + "final": final_alone(here, whole, b, c), "NCCL, then cuBLAS": others.after(peer.all_gather(whole), alone),
            "copy engine, then cuBLAS": others.after(others.copies(here, whole), alone)}
    for name, run in runs.items():
        run()
        here.synchronize()
        check((name, shape), near(here, c, wanted))
    return {**{name: steps(step) for name, step in made.items()}, **{name: again(run) for name, run in runs.items()}}, made


def scattered_variants(here: World, shape: tuple[int, int, int], ours: Mapping[str, Mapping[str, Any]]) -> tuple[Variants, dict[str, across.Step]]:
    """The same for products under a reduce-scatter."""
    m, n, k = shape
    a, b, partial_c, c = random(here, (m, k), 1), random(here, (n, k), 5), here.zeros((m, n)), here.zeros((m // here.count, n))
    peer = others.Others(here)
    alone = peer.products(a, b, partial_c)
    scatter = peer.reduce_scatter(partial_c, c)
    others.after(alone, scatter)()
    here.synchronize()
    wanted = numbers(here, c)
    made: dict[str, across.Step] = {}
    for name, choices in ours.items():
        fill(here, c, 0)
        made[name] = step = across_products.scattered(here, a, b, c, **choices)
        step.load()
        step()
        here.synchronize()
        check((name, shape), near(here, c, wanted, 2.0 ** -6))
    runs = {ALONE + "cuBLAS": alone, ALONE + "final": final_alone(here, a, b, partial_c), "cuBLAS, then NCCL": others.after(alone, scatter)}
    return {**{name: steps(step) for name, step in made.items()}, **{name: again(run) for name, run in runs.items()}}, made


def product_records(suite: str, clock: Clock, shape: tuple[int, int, int], variants: Variants, made: Mapping[str, across.Step], rounds: int) -> list[Record]:
    """A record for each of ours beside each of the others, and one for each of the others beside the faster product alone."""
    samples = clock.interleaved(variants, rounds)
    best = min((name for name in samples if name.startswith(ALONE)), key=lambda name: samples[name].ms)
    found = []
    for name, sample in samples.items():
        step = made.get(name)
        peers = [best, *(other for other in samples if other not in made and not other.startswith(ALONE))] if step else [best]
        for other in peers:
            found.append(Record(suite, step.launches[0].kernel.name if step else name, (name,), shape, "bfloat16", **times(sample), tflops=tflops(shape, sample),
                                **beside(sample, other, samples[other], tflops(shape, samples[other])), mode="cold L2", **facts(step.launches[0] if step else None)))
    return found


ALL_COPY = "all CTAs copy"
WAYS: Mapping[str, Mapping[str, Any]] = {
    ALL_COPY: {}, "66 CTAs copy": {"copiers": Copiers(66)}, "16 CTAs copy": {"copiers": Copiers(16)}, "4 CTAs copy": {"copiers": Copiers(4)},
    "8 CTAs only copy": {"copiers": Copiers(8, dedicated=True, chunk=8192)}, "tiles as they lie": {"order": "as they lie"}, "own tiles last": {"order": "own last"},
    "pieces of 1024 rows": {"piece_rows": 1024}, "each chunk told": {"options": ("-DTELL_EACH=1",)},
    "16 CTAs copy, each chunk told": {"copiers": Copiers(16), "options": ("-DTELL_EACH=1",)},
    "8 CTAs only copy, each chunk told": {"copiers": Copiers(8, dedicated=True, chunk=8192), "options": ("-DTELL_EACH=1",)}}


def gather(rounds: int, here: World) -> list[Record]:
    """All-gather under a product at four shapes."""
    clock, chosen = Clock(here), {ALL_COPY: {}, **{name: WAYS[name] for name in ("66 CTAs copy", "8 CTAs only copy")}}
    return [record for shape in GATHERED for record in product_records("gather", clock, shape,
                                                                       *gathered_variants(here, shape, chosen), rounds)]


def ways(rounds: int, here: World) -> list[Record]:
    """All-gather under a product at one shape: who copies, the order of tiles, pieces."""
    return product_records("ways", Clock(here), GATHERED[0], *gathered_variants(here, GATHERED[0], WAYS), rounds)


def scatter_ways(here: World, shape: tuple[int, int, int]) -> dict[str, Mapping[str, Any]]:
    """Orders of tiles, and the room that a finished tile has: two chunks for each consumer (half of its tile waits until the other half has been read), or all of it."""
    rows, few = shape[0] // here.count, {"c_slots": 2}
    return {"own tiles first": {"order": "own first", "tile": widest(rows, **few)}, "own tiles last": {"order": "own last", "tile": widest(rows, **few)},
            "own first, parked": {"order": "own first", "tile": widest(rows, **PARKED)}, "own last, parked": {"order": "own last", "tile": widest(rows, **PARKED)},
            IN_TURNS: {"order": IN_TURNS, "tile": widest(rows, **few)}, "in turns, parked": {"order": IN_TURNS, "tile": widest(rows, **PARKED)}}


def scatter(rounds: int, here: World) -> list[Record]:
    """Product under a reduce-scatter at four shapes: the order of tiles, and what a tile waits for before the next one begins."""
    clock = Clock(here)
    return [record for shape in SCATTERED for record in product_records("scatter", clock, shape, *scattered_variants(here, shape, scatter_ways(here, shape)), rounds)]


def all_reduce(rounds: int, here: World) -> list[Record]:
    """All-reduces of 4 KiB to 4 MiB, in three ways, beside NCCL."""
    clock, peer, found = Clock(here, spin_cycles=20_000_000), others.Others(here), []
    for size in SMALL_BYTES:
        xs, ys = random(here, (size // 2,), size), here.zeros(size // 2)
        nccl = peer.all_reduce(xs, ys)
        made = {how: across.all_reduce(here, xs, ys, how) for how in across.ALL_REDUCES}
        wanted = across.summed([x.get() for x in xs])
        for how, step in made.items():
            step.load()
            for _ in range(3):
                step()
            here.synchronize()
            check((how, size), all(bool((y.get() == wanted).all()) for y in ys))
        variants = {**{how: steps(step, IN_A_ROW) for how, step in made.items()}, "NCCL": again(others.after(*[nccl] * IN_A_ROW))}
        samples = clock.interleaved(variants, rounds, cold=False, repeats=IN_A_ROW)
        found += [Record("all_reduce", across.ALL_REDUCES.get(how, how), (how,), (size,), "bfloat16", **times(sample),
                         **beside(sample, "NCCL", samples["NCCL"], 1e3 * samples["NCCL"].ms),
                         mode="warm L2", **facts(made[how].launches[0] if how in made else None)) for how, sample in samples.items()]
    return found


EXPERIMENTS: Mapping[str, Callable[[int, World], list[Record]]] = {"link": link, "flags": flags, "gather": gather, "ways": ways, "scatter": scatter,
                                                                   "all_reduce": all_reduce}


def shown(recording: Sequence[Record]) -> str:
    """The records as lines: time, spread, rate, and speed beside the peer."""
    lines = []
    for r in recording:
        what = f"{r.suite:10} {'x'.join(map(str, r.shape)):16} {' '.join(r.options):26}"
        if r.ms is None:
            lines.append(f"{what} {r.value:10.1f} {r.unit}")
            continue
        rate = f"{r.tflops:7.1f} TFLOP/s" if r.tflops else f"{r.gb_s:7.1f} GB/s" if r.gb_s else " " * 15
        lines.append(f"{what} {1e3 * r.ms:9.2f} us ({1e3 * (r.ms_min or 0):.2f} to {1e3 * (r.ms_max or 0):.2f}) {rate:15}  {r.ratio:.3f} of the speed of {r.peer}")
    return "\n".join(lines)


def measure(rounds: int = 9, only: Sequence[str] = (), keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """The records of these EXPERIMENTS, or of all. Raises BackendError where there are not two GPUs that reach each other, RuntimeError without PyTorch."""
    here = across.world(2, "gpu")
    if not others.available():
        raise RuntimeError("two_gpus runs beside NCCL, by PyTorch: python -m pip install torch")
    found: list[Record] = []
    for name in only or EXPERIMENTS:
        found += EXPERIMENTS[name](rounds, here)
        for device in here.devices:
            with device:
                here.xp.get_default_memory_pool().free_all_blocks()
        keep(found)
    return found
