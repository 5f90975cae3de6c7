# SPDX-License-Identifier: Apache-2.0
"""Lesson 19's kernels on emulated devices: right for 2 to 4 of them, silent whatever lands when, step after step; each synchronisation that is dropped is named."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import across, across_products
from hopperlab.measure.launches.across_products import SMALL, Copiers, Tile
from hopperlab.measure.launches.operand_checks import OperandError
from hopperlab.measure.launches.operands import bf16_bits
from hopperlab.runtime.library import kernel_source, standing_in
from hopperlab.runtime.compile.toolchain import KERNELS

SCHEDULES = ("lazy", "eager", "random")
EXTREMES = SCHEDULES[:2]         # for what is broken: all lands as late as it can, or at once
CLUSTERED = Tile(bm=128, bn=64, stages=2, cluster_m=2, group=1)
NEIGHBOURS = r"""
extern "C" __global__ void fill(uint4* x, int vectors, const uint4* values) {
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) x[i] = values[i];
}
extern "C" __global__ void look(const uint4* x, int vectors, uint4* out) {
    for (int i = threadIdx.x; i < vectors; i += blockDim.x) out[i] = x[i];
}"""


@pytest.fixture(scope="module")
def neighbours():
    """Kernels that stand in front of and behind the lesson's, in the same streams."""
    module = hl.RawModule(code=NEIGHBOURS, backend="emulator")
    return module.get_function("fill"), module.get_function("look")


def emulated(schedule, body, seed=3):
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as run:
        body()
    return run


def vectors(here, n, seed=1):
    random = np.random.default_rng(seed)
    return here.put(bf16_bits(random.standard_normal(n).astype(np.float32)) for _ in here.devices)


@pytest.mark.parametrize("how", across.ALL_REDUCES)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("devices, n, blocks", [(2, 8 * 70, 2), (3, 8 * 9, None), (4, 8 * 530, 2)], ids=str)
@pytest.mark.sampled(by="how")
def test_all_reduce(how, schedule, devices, n, blocks):
    """Every device has the same bits, for three steps in a row, which nobody waits for."""
    here = across.world(devices, "emulator")
    n = n * devices if how == "two-shot" else n
    xs, ys = vectors(here, n), here.zeros(n)
    step = across.all_reduce(here, xs, ys, how, blocks)

    def body():
        for number in range(3):
            step(ranks=[(rank + number) % devices for rank in range(devices)])
        here.synchronize()
    run = emulated(schedule, body)
    assert not run.hazards and all((y == across.summed(xs)).all() for y in ys)


@pytest.mark.parametrize("how", across.ALL_REDUCES)
def test_the_vector_changes_from_step_to_step(how, neighbours):
    """The kernel in front writes x, the one behind reads y, on each device's stream."""
    here, n = across.world(2, "emulator"), 160
    xs, ys, outs = here.zeros(n), here.zeros(n), [here.zeros(n) for _ in range(4)]
    given = [vectors(here, n, seed) for seed in range(4)]
    step, (fill, look) = across.all_reduce(here, xs, ys, how, 1), neighbours

    def body():
        for number in range(4):
            for rank, stream in enumerate(here.streams):
                fill((1,), (32,), (xs[rank], np.int32(n // 8), given[number][rank]), stream=stream)
            step()
            for rank, stream in enumerate(here.streams):
                look((1,), (32,), (ys[rank], np.int32(n // 8), outs[number][rank]), stream=stream)
        here.synchronize()
    run = emulated("random", body)
    assert not run.hazards and all((out == across.summed(given[number])).all() for number in range(4) for out in outs[number])


GATHERS = {"beside": (2, SMALL, Copiers(3), {}), "one copier": (2, SMALL, Copiers(1, slots=2, chunk=2048), {}), "dedicated": (2, SMALL, Copiers(1, dedicated=True), {}),
           "clusters": (2, CLUSTERED, Copiers(2), {}), "clusters, dedicated": (2, CLUSTERED, Copiers(2, dedicated=True), {"order": "as they lie"}),
           "three": (3, SMALL, Copiers(4), {"order": "own last"}), "pieces of two tiles": (2, SMALL, Copiers(2), {"piece_rows": 256, "order": "next first"}),
           "each chunk told": (2, SMALL, Copiers(3), {"options": ("-DTELL_EACH=1",)})}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", GATHERS)
@pytest.mark.sampled(every=7, ci=4)
def test_all_gather_under_a_product(name, schedule):
    devices, tile, copiers, choices = GATHERS[name]
    here = across.world(devices, "emulator")
    given = across_products.gather_operands(here, 256 * devices, 64, 136)
    step = across_products.gathered(here, given.a, given.b, given.c, tile, copiers, blocks=2 * tile.cluster_m, **choices)
    for _ in range(2):
        given.clear()

        def body():
            step()
            here.synchronize()
        assert not emulated(schedule, body).hazards and given.right()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("devices, tile, order", [(2, SMALL, "own last"), (2, CLUSTERED, "own first"), (3, SMALL, "as they lie"), (2, SMALL, "in turns"),
                                                  (3, SMALL, "in turns")], ids=str)
def test_product_under_a_reduce_scatter(devices, tile, order, schedule):
    here = across.world(devices, "emulator")
    given = across_products.scatter_operands(here, 256 * devices, 64, 72)
    step = across_products.scattered(here, given.a, given.b, given.c, tile, order, blocks=4)

    def body():
        for _ in range(2):
            step()
        here.synchronize()
    assert not emulated(schedule, body).hazards and given.right(steps=2)


@pytest.mark.thorough           # tiles of 128 x 64 take the same path above
def test_the_wide_tile_that_gpus_get():
    """One step of each product at the size that is measured, with clusters and two tiles per CTA."""
    here = across.world(2, "emulator")
    given = across_products.gather_operands(here, 1024, 256, 128)
    step = across_products.gathered(here, given.a, given.b, given.c, blocks=4)
    assert across_products.widest(512).group == 2 and step.launches[0].shared_mem <= 232448 - 1024
    given.clear()

    def body():
        step()
        here.synchronize()
    assert not emulated("random", body).hazards and given.right()
    given = across_products.scatter_operands(here, 512, 256, 128)
    step = across_products.scattered(here, given.a, given.b, given.c, blocks=2)
    assert not emulated("random", body).hazards and given.right()


def test_a_tile_that_waits_for_nobody():
    """All sums of a tile have room: two tiles per CTA, of which the second is multiplied while the first one is read."""
    here = across.world(2, "emulator")
    given, tile = across_products.scatter_operands(here, 1024, 512, 64), across_products.widest(512, **across_products.PARKED)
    assert tile.shared_bytes <= 232448 - 1024 and tile.c_slots * 64 == tile.bn
    step = across_products.scattered(here, given.a, given.b, given.c, tile, blocks=4)

    def body():
        step()
        here.synchronize()
    assert not emulated("random", body).hazards and given.right()


def gather_with_neighbours(options, schedule, neighbours):
    """Two steps, the shards written by a kernel in front of each, zeros first, without waiting in between."""
    here, (fill, _) = across.world(2, "emulator"), neighbours
    given = across_products.gather_operands(here, 256, 64, 64)
    given.clear()
    shards = [given.whole[rank * 128:(rank + 1) * 128] for rank in (0, 1)]
    sources = [here.put(np.zeros_like(shard) for shard in shards), here.put(shards)]
    step = across_products.gathered(here, given.a, given.b, given.c, SMALL, Copiers(1), blocks=2, options=options)

    def body():
        for number in range(2):
            for rank, stream in enumerate(here.streams):
                fill((1,), (64,), (given.a[rank][rank * 128:(rank + 1) * 128], np.int32(128 * 8), sources[number][rank]), stream=stream)
            step()
        here.synchronize()
    return emulated(schedule, body), given.right()


def scatter_with_neighbours(options, schedule, neighbours):
    """Two steps, C cleared in front of each and read behind it."""
    here, (fill, look) = across.world(2, "emulator"), neighbours
    given = across_products.scatter_operands(here, 256, 64, 128)
    zeros, out = here.zeros((128, 64)), here.zeros((128, 64))
    step = across_products.scattered(here, given.a, given.b, given.c, SMALL, blocks=2, options=options)

    def body():
        for _ in range(2):
            for rank, stream in enumerate(here.streams):
                fill((1,), (64,), (given.c[rank], np.int32(128 * 8), zeros[rank]), stream=stream)
            step()
            for rank, stream in enumerate(here.streams):
                look((1,), (64,), (given.c[rank], np.int32(128 * 8), out[rank]), stream=stream)
        here.synchronize()
    return emulated(schedule, body), all((one == c).all() for one, c in zip(out, given.c, strict=True)) and given.right()


def reduce_three(how):
    def body(options, schedule, neighbours):
        """Three steps, y read behind each, without waiting in between."""
        here, (_, look) = across.world(2, "emulator"), neighbours
        xs, ys, out = vectors(here, 640), here.zeros(640), here.zeros(640)
        step = across.all_reduce(here, xs, ys, how, 1, options)

        def steps():
            for _ in range(3):
                step()
                for rank, stream in enumerate(here.streams):
                    look((1,), (64,), (ys[rank], np.int32(80), out[rank]), stream=stream)
            here.synchronize()
        return emulated(schedule, steps, seed=1), all((y == across.summed(xs)).all() for y in out)
    return body


GATHER, SCATTER, REDUCE = "peers/gathered_product.cu", "peers/scattered_product.cu", "peers/all_reduce.cu"
PROGRAMS = {GATHER: gather_with_neighbours, SCATTER: scatter_with_neighbours, REDUCE: reduce_three("one-shot"), "two": reduce_three("two-shot")}


BUGS = ("", "BUG_GPU_SCOPE", "BUG_FLAG_BEFORE_DATA", "BUG_OVERWRITTEN")
HARMLESS = {("two", "BUG_OVERWRITTEN")}         # the second flag says that the mail has been read


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("path, bug", [(path, bug) for path in PROGRAMS for bug in BUGS])
@pytest.mark.sampled(by="bug", ci=2)
def test_planted_bugs_are_named(path, bug, schedule, neighbours):
    run, right = PROGRAMS[path]((f"-D{bug}=1",) if bug else (), schedule, neighbours)
    clean = not bug or (path, bug) in HARMLESS
    assert {str(hazard.kind) for hazard in run.hazards} == (set() if clean else {"read-before-arrival"} if (path, bug) == (GATHER, "BUG_FLAG_BEFORE_DATA") else {"race"})
    assert right or not clean


# program, header (None: the kernel itself), lines taken out or exchanged, one of the kinds that name it (wrong: nothing there is ordered by time, so the result tells)
DROPPED = {
    "a chunk has come": (GATHER, "peer_copy.cuh", "            mbarrier_wait_parity(&full[stored % SLOTS], stored / SLOTS % 2);\n", "", "read-before-arrival"),
    "a piece's flag publishes": (GATHER, None, "                red_release_gpu_add(&pieces[piece], written);\n", "                "
                                 'asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" :: "l"(&pieces[piece]), "r"(written) : "memory");\n', "race"),
    "a piece is waited for": (GATHER, None, "                    wait_for_count(&pieces[piece], step * piece_chunks);\n", "", "wrong"),
    "a shard is complete": (GATHER, None, "                await_flag(flags.of<unsigned>(rank) + READY + shard, step);\n", "", "race"),
    "all pieces are here": (GATHER, None, "                for (int i = 0; i < shard_pieces; i++) wait_for_count(&pieces[shard * shard_pieces + i], step * "
                                          "piece_chunks);\n", "", "race"),
    "C may be added to": (SCATTER, None, "                await_flag(here + OPEN + owner, step);\n", "", "race"),
    "additions publish": (SCATTER, "peers.cuh", "red.release.gpu", "red.relaxed.gpu", "race"),
    "all additions are waited for": (SCATTER, None, "            wait_for_count(done, step * tiles * CLUSTER_M * CONSUMERS);\n", "", "race"),
    "the others' additions are waited for": (SCATTER, None,
                                             "            for (int other = 1; other < devices; other++) await_flag(here + ADDED + (rank + other) % devices, step);\n",
                                             "", "race"),
    "a flag of the system publishes": (REDUCE, "peers.cuh", "st.release.sys", "st.relaxed.sys", "race"),
    "a flag of the system is acquired": (REDUCE, "peers.cuh", "ld.acquire.sys", "ld.relaxed.sys", "race"),
    "mail is complete": (REDUCE, None, "    if (!BUG_FLAG_BEFORE_DATA) __syncthreads();", "    //", "race"),
    "all know that mail has come": (REDUCE, None, "    __syncthreads();                                            // what one thread", "    // what one thread", "race"),
    "the second flag": ("two", None, "    exchange_flags(flags, rank, devices, 1, step);", "    //", "race")}


@pytest.mark.parametrize("schedule", EXTREMES)
@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.sampled(every=5, ci=1)
def test_what_is_dropped_is_named(name, schedule, neighbours):
    program, header, old, new, kind = DROPPED[name]
    path = REDUCE if program == "two" else program
    text = kernel_source(path)
    if header is None:
        assert text.count(old) == 1
        text = text.replace(old, new)
    else:
        inside, line = (KERNELS / "include" / "hopperlab" / header).read_text(), f"#include <hopperlab/{header}>\n"
        assert inside.count(old) == 1 and line in text
        text = text.replace(line, inside.replace(old, new).replace("#pragma once", "") + "\n")
    with standing_in(path, text):
        run, right = PROGRAMS[program]((), schedule, neighbours)
    assert kind in {str(hazard.kind) for hazard in run.hazards} | (set() if right else {"wrong"})


def test_flags_go_to_and_fro():
    here = across.world(2, "emulator")
    (first, second), flags = across.round_trips(here, 5)
    with hl.emulate(hazards="collect") as run:
        for launch, stream in ((first, here.streams[0]), (second, here.streams[1])):
            launch.kernel(launch.grid, launch.block, launch.args, stream=stream)
        here.synchronize()
    assert not run.hazards and [int(flag[0]) for flag in flags] == [5, 5] and int(first.args[-1][0]) > 0
    meet = across.meeting(across.world(4, "emulator"))

    def body():
        for _ in range(3):
            meet()
        meet.world.synchronize()
    assert not emulated("random", body).hazards


@pytest.mark.parametrize("home", [0, 1])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_copy_is_pulled_or_pushed(home, schedule):
    here = across.world(2, "emulator")
    data = np.random.default_rng(home).integers(0, 1 << 16, 40008, np.uint16)
    source, target = here.put([data, np.zeros_like(data)])
    launch = across.peer_copy(here, source, target, blocks=3, stages=4, chunk=2048)

    def body():
        launch.kernel(launch.grid, launch.block, launch.args, shared_mem=launch.shared_mem, stream=here.streams[home])
        here.synchronize()
    assert not emulated(schedule, body).hazards and (target == data).all()


def test_the_sum_is_the_definition():
    xs = [bf16_bits(np.float32([1, 2, 256])), bf16_bits(np.float32([0.5, -2, 1]))]
    assert (across.summed(xs) == bf16_bits(np.float32([1.5, 0, 257]))).all()
    assert across.pointers(()).nbytes == 64 and across.World.__doc__


def _products(changes, kind="gathered", m=256, n=64, k=128):
    here = across.world(2, "emulator")
    given = (across_products.gather_operands if kind == "gathered" else across_products.scatter_operands)(here, m, n, k)
    return getattr(across_products, kind)(here, given.a, given.b, given.c, **{"tile": SMALL, **changes})


@pytest.mark.parametrize("broken, words", [
    (lambda: across.world(1, "emulator"), "count"), (lambda: across.world(9, "emulator"), "count"),
    (lambda: _products({}, m=320), "m is 320"), (lambda: _products({}, "scattered", m=320), "m is 320"), (lambda: _products({"piece_rows": 100}), "pieces of 100"),
    (lambda: _products({}, n=72), "n is 72"), (lambda: _products({"order": "random"}), "order is 'random'"), (lambda: _products({"copiers": Copiers(0)}), "0 CTAs copy"),
    (lambda: _products({"copiers": Copiers(1, dedicated=True), "blocks": 1}), "dedicated ones leave"), (lambda: _products({"blocks": 133}), "blocks"),
    (lambda: across.all_reduce(across.world(2, "emulator"), *[across.world(2, "emulator").zeros(20)] * 2), "a multiple of 8"),
    (lambda: across.all_reduce(across.world(2, "emulator"), *[across.world(3, "emulator").zeros(8)] * 2), "one for each of 2 devices"),
    (lambda: across.all_reduce(across.world(2, "emulator"), *[across.world(2, "emulator").zeros(8)] * 2, how="ring"), "how is 'ring'")])
def test_what_cannot_be_launched_is_told(broken, words):
    with pytest.raises(OperandError, match=words):
        broken()
