# SPDX-License-Identifier: Apache-2.0
"""The product ladder in the emulator: every step and configuration exact on awkward shapes, under every schedule, no hazard."""
from dataclasses import replace
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hopperlab
import hopperlab as hl
from hopperlab.measure.launches import gemm, operands
from hopperlab.measure.launches.edited import changed
from hopperlab.measure.launches.gemm_configurations import Final, SplitK, StreamK

INCLUDE = Path(hopperlab.__file__).parent / "kernels" / "include" / "hopperlab"
SCHEDULES = ("lazy", "eager", "random")
EXTREMES = SCHEDULES[:2]         # for what is broken: all lands as late as it can, or at once
NEW = ("naive", "shared_tile", "register_double_buffer", "tma_mma", "two_consumers_128x256", "cluster_multicast", "persistent",
       "pingpong", "overlapped_store", "stream_k", "split_k", "final")
FEW = {"persistent": {"blocks": 2}, "pingpong": {"blocks": 2}, "overlapped_store": {"blocks": 2},     # several tiles per CTA
       "stream_k": {"choice": StreamK(blocks=3)}, "split_k": {"choice": SplitK(stages=3)},
       "final": {"choice": Final(blocks=2)}}
N_OF_8 = ("overlapped_store",)                              # a TMA store: rows of C are multiples of 16 bytes
TOGETHER = Final(in_flight=0, stagger=0)
CHOICES = {"staggered": Final(), "together": TOGETHER, "no cluster": replace(TOGETHER, cluster_m=1), "3 stages": Final(stages=3, c_slots=4),
           "A shared": Final(cluster_m=1, cluster_n=2), "both shared": Final(bn=128, cluster_m=2, cluster_n=2),
           "B shared by four": Final(bn=64, stages=4, cluster_m=4, c_slots=1),
           "A shared by four": Final(bm=64, bn=64, consumers=1, stagger=0, cluster_m=1, cluster_n=4, group=0),
           "eight, B by four": Final(bm=64, bn=32, consumers=1, stagger=0, stages=10, cluster_m=4, cluster_n=2, group=0, c_slots=1),
           "eight, A by four": Final(bn=96, stages=7, cluster_m=2, cluster_n=4, c_slots=1),
           "eight, swapped": Final(bn=32, swapped=1, c_slots=1, cluster_m=4, cluster_n=2),
           "256x128": replace(TOGETHER, bm=256, bn=128), "128x128": Final(bn=128, stages=5), "one slot": Final(c_slots=1),
           "128x64, alone": Final(bn=64, stages=7, c_slots=1, cluster_m=1), "group 1": Final(group=1), "in step": Final(in_step=1),
           "in step, alone": Final(in_step=1, cluster_m=1), "two in flight, 3 stages": Final(in_flight=2, stages=3),
           "64x128": Final(bm=64, bn=128, consumers=1, stages=8, stagger=0), "one wave": Final(group=0),
           "one wave, alone": Final(group=0, cluster_m=1, in_flight=0, stagger=0, promotion=128),
           "64x128, one wave": Final(bm=64, bn=128, consumers=1, stages=8, stagger=0, group=0),
           "64x128, one wave, alone": Final(bm=64, bn=128, consumers=1, stages=4, stagger=0, group=0, cluster_m=1, in_flight=3),
           "64x256": Final(bm=64, consumers=1, stagger=0), "split-K": SplitK(stages=4), "split-K by 4": SplitK(bn=256, split=4, stages=4, in_flight=0),
           "128x192": Final(bn=192, cluster_m=1, c_slots=3), "128x160": Final(bn=160, c_slots=5, stages=4), "128x176": Final(bn=176, c_slots=1, cluster_m=1),
           "256x192": replace(TOGETHER, bm=256, bn=192, stages=3, c_slots=1, cluster_m=1, cluster_n=2),
           "192x160, three consumers": Final(bm=192, bn=160, consumers=3, stagger=0, cluster_m=1, c_slots=1),
           "swapped": Final(bn=48, swapped=1, c_slots=1, cluster_m=1), "swapped, shared": Final(bn=112, swapped=1, c_slots=1, cluster_n=2, cluster_m=1),
           "swapped, 16 columns": Final(bm=64, bn=16, swapped=1, c_slots=1, consumers=1, stagger=0, group=0, cluster_m=2, stages=10),
           "swapped, 240 columns in parts": Final(bn=240, swapped=1, c_slots=2, group=0, stagger=0, cluster_m=1),
           "swapped, 176 columns in rounds": Final(bn=176, swapped=1, c_slots=4, cluster_m=1),
           "dealt out": Final(stream=1, stages=3), "dealt out, alone": Final(stream=1, cluster_m=1, bn=96, c_slots=1),
           "dealt out, swapped": Final(bm=64, consumers=1, stagger=0, bn=48, swapped=1, stream=1, cluster_m=1, c_slots=1),
           "k in 2": Final(bn=128, split=2, cluster_m=1, group=0, stagger=0, c_slots=1), "k in 2, B shared": Final(bn=128, split=2, group=0, stagger=0, c_slots=1),
           "k in 3, A shared": Final(bn=96, split=3, cluster_m=1, cluster_n=2, group=0, stagger=0, c_slots=1),
           "k in 2, both shared": Final(bm=64, bn=64, consumers=1, split=2, cluster_n=2, group=0, stagger=0, c_slots=1),
           "k in 4, swapped": Final(bm=64, consumers=1, bn=48, swapped=1, split=4, group=0, stagger=0, c_slots=1),
           "256 rows, k in 2": replace(TOGETHER, bm=256, bn=128, split=2, cluster_m=1, group=0, c_slots=1),
           "split-K, wide": SplitK(bn=256, stages=3, stream_b=1), "stream-K": StreamK(), "stream-K 64": StreamK(bn=64, stages=3)}


def launches_of(choice) -> int:
    """Two for a configuration that leaves a workspace or counters to the next launch."""
    return 2 if isinstance(choice, StreamK) or getattr(choice, "stream", 0) or getattr(choice, "in_step", 0) else 1


def check(make, m: int, n: int, k: int, schedule: str = "lazy", launches: int = 1, **choices) -> None:
    """Integer operands: every sum is exact in fp32, so every element must be one rounding away."""
    a, b = operands.integer_bf16(np, (m, k), m + k), operands.integer_bf16(np, (n, k), n + k + 1)
    c = np.empty((m, n), np.uint16)
    launch = make(a, b, c, backend="emulator", **choices)
    exact = operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)
    for _ in range(launches):
        c.fill(0x7FC0)
        with hl.emulate(schedule=schedule, seed=m, hazards="raise"):
            launch()
        assert (c == exact).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("step", NEW)
@pytest.mark.sampled(by="schedule", ci=4)          # every step below, and in emulator/hazards/test_no_false_alarms.py
def test_step_is_exact_under_every_schedule(step, schedule):
    check(gemm.LADDER[step], 130, 264, 328, schedule, **FEW.get(step, {}))


@pytest.mark.parametrize("step", NEW)
@pytest.mark.parametrize("shape", [(1, 1, 8), (129, 257, 72), (257, 100, 8), (300, 520, 136)], ids=str)
@pytest.mark.sampled(by="step", thin=False)
def test_step_on_awkward_shapes(step, shape):
    m, n, k = shape
    check(gemm.LADDER[step], m, -(-n // 8) * 8 if step in N_OF_8 else n, k, "random", **FEW.get(step, {}))


@pytest.mark.parametrize("step", ["naive", "shared_tile"])
@pytest.mark.parametrize("k", [1, 7, 33])
def test_steps_without_tma_take_any_k(step, k):
    check(gemm.LADDER[step], 67, 35, k)


@pytest.mark.parametrize("name", CHOICES)
@pytest.mark.sampled(every=25, ci=4)
def test_configuration_is_exact_launch_after_launch(name):
    choice = CHOICES[name] if isinstance(CHOICES[name], SplitK) else replace(CHOICES[name], blocks=4)
    check(gemm.final, 300, 264, 328, SCHEDULES[len(name) % 3], launches_of(choice), choice=choice)
    check(gemm.final, 129, 257, 200, SCHEDULES[(len(name) + 1) % 3], choice=choice)


STORED_K_BY_N = {"128x256": Final(b_mn=1), "alone, 128x64": Final(bn=64, stages=7, c_slots=1, cluster_m=1, b_mn=1), "A shared": Final(cluster_m=1, cluster_n=2, b_mn=1),
                 "both shared": Final(bn=128, cluster_m=2, cluster_n=2, b_mn=1), "192 columns": Final(bn=192, cluster_m=1, c_slots=3, b_mn=1),
                 "256 rows": replace(TOGETHER, bm=256, bn=128, b_mn=1), "swapped": Final(bn=48, swapped=1, c_slots=1, cluster_m=1, b_mn=1),
                 "swapped, both shared": Final(bm=64, bn=80, swapped=1, c_slots=1, consumers=1, stagger=0, cluster_m=2, cluster_n=2, b_mn=1),
                 "swapped, three consumers": Final(bm=192, bn=144, swapped=1, c_slots=2, consumers=3, stagger=0, group=0, cluster_n=2, cluster_m=1, b_mn=1),
                 "dealt out": Final(stream=1, stages=3, b_mn=1), "k in 2": Final(bn=128, split=2, cluster_m=1, group=0, stagger=0, c_slots=1, b_mn=1),
                 "k in 4, swapped": Final(bm=64, consumers=1, bn=48, swapped=1, split=4, group=0, stagger=0, c_slots=1, b_mn=1), "in step": Final(in_step=1, b_mn=1)}


@pytest.mark.parametrize("name", STORED_K_BY_N)
@pytest.mark.sampled(every=5)
def test_b_may_be_stored_k_by_n(name):
    """In both operands' places, shared and not: the product of the same B, and TMA's zeros past the ends of n and k. What waits for what is the same as where B
    is stored the other way, which runs under every schedule above; so each choice runs under two."""
    turn, choice = len(name) % 3, replace(STORED_K_BY_N[name], blocks=4)

    def turned(a, b, c, **choices):
        return gemm.final(a, np.ascontiguousarray(b.T).T, c, **choices)
    check(turned, 300, 264, 328, SCHEDULES[turn], launches_of(choice), choice=choice)
    check(turned, 129, 72, 200, SCHEDULES[(turn + 1) % 3], choice=choice)


def test_the_order_of_b_belongs_to_the_choice():
    a, b, c = np.zeros((64, 64), np.uint16), np.zeros((64, 128), np.uint16), np.zeros((64, 128), np.uint16)
    assert gemm.final(a, b.T, c, backend="emulator").kernel.module.options.count("-DB_MN=1") == 1
    with pytest.raises(ValueError, match="stored k x n, the choice is for the other way"):
        gemm.final(a, b.T, c, Final(), backend="emulator")
    with pytest.raises(ValueError, match="stored n x k, the choice is for the other way"):
        gemm.final(a, np.zeros((128, 64), np.uint16), c, Final(b_mn=1), backend="emulator")
    with pytest.raises(ValueError, match="row-major arrays without gaps"):
        gemm.persistent(a, b.T, c, backend="emulator")


DEALT = Final(bm=64, bn=64, consumers=1, stagger=0, cluster_m=1, c_slots=1, stream=1, blocks=4)
PARTS = Final(bm=64, bn=64, consumers=1, stagger=0, split=2, group=0, c_slots=1)
TURNED = Final(bm=64, bn=48, swapped=1, consumers=1, stagger=0, cluster_m=1, c_slots=1, blocks=2)
DROPPED = {                         # choice, header (None: the kernel itself), lines taken out (or exchanged), one of the kinds that name it
    "all rings are idle": (PARTS, None, "                barrier_cluster_arrive();                       // nobody in the cluster needs its ring any more\n"
                                        "                barrier_cluster_wait();\n", "", "overwrite-in-flight"),
    "the mail has arrived": (PARTS, None, "                barrier_cluster_arrive();                       // the mail has arrived; nobody writes to another "
                                          "CTA after this\n"
                                          "                barrier_cluster_wait();\n", "", "race"),
    "sums are sent before the flag": (DEALT, "mailbox.cuh", "    bar_sync(barrier, 128);\n    if (thread == 0) asm", "    if (thread == 0) asm", "race"),
    "the flag publishes": (DEALT, "mailbox.cuh", "st.release.gpu", "st.relaxed.gpu", "race"),
    "all have seen the flag": (DEALT, "mailbox.cuh", "        *flag = 0;\n    }\n    bar_sync(barrier, 128);", "        *flag = 0;\n    }", "race"),
    "the slots are free": (TURNED, "tile_store.cuh", "            bar_sync(barrier, 128);                             // the slots are free\n", "",
                           "overwrite-in-flight"),
    "the slots have been read": (TURNED, "tile_store.cuh", "            if (BY_TMA && thread == 0) cp_async_bulk_wait_group_read<0>();\n", "", "overwrite-in-flight"),
    "the engine sees the slots": (TURNED, "tile_store.cuh", "            if (BY_TMA) fence_proxy_async_shared_cta();\n", "", "missing-proxy-fence"),
    "the slots are complete": (TURNED, "tile_store.cuh", "            bar_sync(barrier, 128);                             // the slots are complete\n", "", "race")}


@cache
def named(choice, schedule, changes=()):
    """Kinds of what the emulator names; of the unchanged kernel it is asked once for each choice and schedule."""
    a, b, c = operands.integer_bf16(np, (140, 328), 1), operands.integer_bf16(np, (168, 328), 2), np.empty((140, 168), np.uint16)
    launch = gemm.final(a, b, c, choice, backend="emulator")
    with hl.emulate(schedule=schedule, seed=3, hazards="collect") as run:
        changed(launch, "gemm/final.cu", changes, choice.options)()
    return {hazard.kind for hazard in run.hazards}


@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.parametrize("schedule", EXTREMES)
@pytest.mark.sampled(every=6, ci=1)           # one of the cluster's, of the mailbox's and of the store's among them
def test_what_orders_the_parts_is_missed_when_it_is_gone(name, schedule):
    """Each synchronisation of the exchange in a cluster, the mailbox and the store, dropped: named under every landing order."""
    choice, header, old, new, kind = DROPPED[name]
    text = hl.kernel_source("gemm/final.cu")
    if header is None:
        change = old, new
    else:
        inside = (INCLUDE / header).read_text()
        assert inside.count(old) == 1 and f"#include <hopperlab/{header}>\n" in text
        change = f"#include <hopperlab/{header}>\n", inside.replace(old, new).replace("#pragma once", "") + "\n"
    assert kind in named(choice, schedule, (change,)) and kind not in named(choice, schedule)


@pytest.mark.parametrize("choice", [Final(blocks=2), SplitK(stages=3), pytest.param(StreamK(blocks=3), marks=pytest.mark.thorough)], ids=str)
def test_rows_of_the_operands_may_lie_apart(choice):
    a, b = operands.integer_bf16(np, (130, 216), 1)[:, :200], operands.integer_bf16(np, (264, 208), 2)[:, :200]
    c = np.full((130, 264), 0x7FC0, np.uint16)
    launch = gemm.final(a, b, c, choice, backend="emulator")
    assert {map_.fields.l2_promotion for map_ in launch.args[:2]} <= {"128B", "none"}         # 256B is for rows of whole lines
    with hl.emulate(hazards="raise"):
        launch()
    assert (c == operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)).all()
    with pytest.raises(ValueError, match="row-major arrays without gaps"):
        gemm.persistent(a, b, c, backend="emulator")


@pytest.mark.parametrize("blocks", [1, 2, 5, 7, 11])
@pytest.mark.sampled(every=5)
def test_k_blocks_are_dealt_out_anywhere(blocks):
    """Tiles that one CTA begins and another ends, that three share, and whole ones after them; the flags are zero for the next launch."""
    choice = Final(bm=64, bn=64, consumers=1, stagger=0, cluster_m=1, c_slots=1, stages=4, stream=1, blocks=blocks)
    check(gemm.final, 140, 300, 456, "random", 2, choice=choice)
    check(gemm.final, 60, 60, 200, "random", choice=choice)             # fewer k-blocks than CTAs


@pytest.mark.parametrize("blocks", [1, 2, 5, 7])
@pytest.mark.sampled(every=4)
def test_stream_k_splits_tiles_anywhere(blocks):
    check(gemm.stream_k, 140, 300, 456, "random", 2, choice=StreamK(bn=128, stages=4, blocks=blocks))


@pytest.mark.emulator_only
@pytest.mark.parametrize("k", [8, 64, 72, 200])
@pytest.mark.sampled(every=2)
def test_split_k_with_less_k_than_ctas(k):
    """A CTA whose part lies past the end of k multiplies zeros."""
    check(gemm.split_k, 70, 136, k, "random", choice=SplitK(bn=256, split=4, stages=4))


@pytest.mark.parametrize("blocks", [3, 1, 4])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.sampled(every=9)
def test_ctas_in_step_count_to_the_end(schedule, blocks):
    """The count of tiles begun is back at zero after each launch, however many rounds and CTAs there were."""
    check(gemm.final, 400, 520, 136, schedule, 2, choice=Final(in_step=1, cluster_m=1, blocks=blocks))


def test_the_count_of_tiles_begun_is_one_word():
    a, b = operands.integer_bf16(np, (300, 72), 1), operands.integer_bf16(np, (600, 72), 2)
    launch = gemm.final(a, b, np.empty((300, 600), np.uint16), Final(in_step=1, cluster_m=1, blocks=2), backend="emulator")
    launch()
    steps = launch.args[4]
    assert steps.shape == (1,) and steps[0] == 0


@pytest.mark.emulator_only                      # sums of real numbers are rounded in another order on a GPU: tests/gpu compares those
@pytest.mark.parametrize("step", ["pingpong", "register_double_buffer", "stream_k", "split_k", "final"])
@pytest.mark.sampled(every=3)
def test_real_products_are_within_their_bound(step):
    a, b = operands.normal_bf16(np, (200, 264), seed=41), operands.normal_bf16(np, (152, 264), seed=42)
    left, right = operands.bf16_values(a), operands.bf16_values(b)
    exact, bound = left.astype(np.float64) @ right.astype(np.float64).T, operands.product_bound(left, right)
    c = np.full((200, 152), 0x7FC0, np.uint16)
    with hl.emulate(schedule="random", seed=5, hazards="raise"):
        gemm.launch(step, a, b, c, backend="emulator")()
    assert (abs(operands.bf16_values(c) - exact) <= bound).all()


def test_multicast_reads_b_once_for_two_ctas():
    """The mechanism, by the emulator's counters: the cluster's loads of B are shared."""
    a, b = operands.integer_bf16(np, (256, 64), 1), operands.integer_bf16(np, (256, 64), 2)
    ptx = gemm.cluster_multicast(a, b, np.empty((256, 256), np.uint16), backend="emulator").kernel.module.ptx
    assert "multicast::cluster" in ptx and "mbarrier.arrive.release.cta.shared::cluster" in ptx


def test_every_tile_is_visited_once():
    """raster.cuh's formula: each tile once, in groups of at most HEIGHT rows."""
    for height, rows, cols in ((8, 5, 3), (4, 9, 7), (16, 33, 2), (1, 3, 4)):
        seen = []
        for index in range(rows * cols):
            group, inside = divmod(index, height * cols)
            tall = min(height, rows - group * height)
            seen.append((group * height + inside % tall, inside // tall))
        assert sorted(seen) == [(row, col) for row in range(rows) for col in range(cols)]


def test_slots_are_handed_back_without_fences_of_all_memory():
    """A release publishes no write: what .release.cluster costs on top is in cluster.cuh."""
    a, b = operands.integer_bf16(np, (256, 64), 1), operands.integer_bf16(np, (256, 64), 2)
    for step in ("cluster_multicast", "persistent", "overlapped_store", "final"):
        options = {"choice": Final()} if step == "final" else {}
        ptx = gemm.LADDER[step](a, b, np.empty((256, 256), np.uint16), backend="emulator", **options).kernel.module.ptx
        assert "mbarrier.arrive.release.cta.shared::cluster" in ptx
        assert "mbarrier.arrive.release.cluster" not in ptx and "mbarrier.try_wait.parity.acquire.cluster" not in ptx


def test_last_wave_is_as_full_as_the_others():
    assert Final().grid(8192, 8192) == (128,)                               # 1024 cluster tiles: 16 waves of 64, not 15.5 of 66
    assert Final(cluster_m=1).grid(128, 512) == (2,)
    assert Final(group=0).grid(300, 600) == (4, 3)
    assert Final(blocks=1).grid(8192, 8192) == (2,)
    assert Final(cluster_n=2).grid(8192, 8192) == (116,)                    # 30 clusters of four run at a time, not 33: 18 waves of 29
    assert Final(stream=1, cluster_n=2).grid(8192, 8192, 8192) == (120,) and Final(stream=1).grid(64, 64, 128) == (4,)


def test_wrong_sizes_are_named():
    a = np.zeros((8, 16), np.uint16)
    with pytest.raises(ValueError, match="m x k"):
        gemm.naive(a, np.zeros((8, 24), np.uint16), np.zeros((8, 8), np.uint16))
    with pytest.raises(KeyError, match="persistent"):
        gemm.launch("no such", a, a, np.zeros((8, 8), np.uint16))


@pytest.mark.parametrize(("choice", "columns", "promoted"), [(Final(), 64, "256B"), (Final(promotion=128), 64, "128B"), (Final(), 72, "128B")])
def test_operands_are_promoted_into_the_l2_as_the_choice_says(choice, columns, promoted):
    """And by 128 bytes at most where rows begin inside a line (72 columns of 2 bytes)."""
    a, b, c = (np.zeros(shape, ml_dtypes.bfloat16) for shape in ((128, columns), (256, columns), (128, 256)))
    launch = gemm.final(a, b, c, choice, backend="emulator")
    assert [launch.args[i].fields.l2_promotion for i in range(2)] == [promoted] * 2 and not any("PROMOTION" in option for option in choice.options)


def test_one_thread_makes_the_barriers_at_constant_addresses():
    """A full and an empty one a slot, each an instruction of its own; lanes with addresses of their own would become two in a loop."""
    choice = Final(bm=64, bn=128, consumers=1, stages=8, stagger=0, group=0, cluster_m=1)
    code = str(hl.sass("gemm/final.cu", "gemm", choice.options))
    assert code.count("SYNCS.EXCH") == 2 * choice.stages
