# SPDX-License-Identifier: Apache-2.0
"""Lesson 15x's kernels: weights of 4 and 8 bits and sparse ones against NumPy, in every configuration, whatever lands when, nothing named; their preparation by its
definition; planted bugs give wrong numbers, dropped synchronisations are named."""
import itertools
from dataclasses import replace
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import hopperlab
import hopperlab as hl
from hopperlab.hopper import fragments
from hopperlab.measure.launches import mixed
from hopperlab.measure.launches import mixed_weights as prepare
from hopperlab.measure.launches.edited import changed
from hopperlab.measure.launches.mixed import Choice
from hopperlab.measure.launches.operand_checks import OperandError
from hopperlab.measure.launches.operands import bf16_bits, bf16_values, normal_bf16, product_bound
from hopperlab.runtime.library import load_kernel

INCLUDE = Path(hopperlab.__file__).parent / "kernels" / "include" / "hopperlab"
SCHEDULES = ("lazy", "eager", "random")
EXTREMES = SCHEDULES[:2]         # for what is broken: all lands as late as it can, or at once
xp = hl.array_module()


def weights(what, n, k, group=128, seed=1):
    """(prepared weights, what they stand for as float32). what: 4, 8 or 'sparse'."""
    values = np.random.default_rng(seed).standard_normal((n, k), np.float32)
    if what == "sparse":
        values = prepare.pruned(bf16_values(bf16_bits(values)))
        made = prepare.prepared_sparse(values)
        return replace(made, stored=xp.asarray(made.stored), metadata=xp.asarray(made.metadata)), values
    q, scales = prepare.quantised(values, what, group)
    made = prepare.prepared(q, scales, what, group)
    return replace(made, words=xp.asarray(made.words), scales=xp.asarray(made.scales)), prepare.dequantised(q, scales, group)


def launched(what, m, n, k, choice=None, group=128, options=()):
    """(launch, x, y, dense weights)."""
    made, dense = weights(what, n, k, group)
    x, y = normal_bf16(xp, (m, k), m + n + k), xp.asarray(np.full((m, n), 0x7FC0, np.uint16))
    launch = (mixed.sparse if what == "sparse" else mixed.int_weights)(x, made, y, choice, options, backend="emulator")
    return launch, x, y, dense


def right(x, y, dense):
    left, got = bf16_values(np.asarray(x)), bf16_values(np.asarray(y))
    return bool((np.abs(got - left.astype(np.float64) @ dense.T.astype(np.float64)) <= product_bound(left, dense)).all())


CASES = [(16, 128, 256, Choice(16), 128), (21, 256, 512, Choice(16, bk=128, split=2), 256), (40, 256, 512, Choice(32, rows=2, split=2), 64),
         (70, 256, 1024, Choice(64, rows=2, split=4), 128),
         (64, 128, 1024, Choice(64, split=8), 1024), (130, 256, 128, Choice(128, rows=1), 64), (300, 128, 256, Choice(256), 128), (1, 128, 128, Choice(16, stages=2), 64),
         (100, 512, 256, Choice(128, bk=128, stages=2), 128), (16, 256, 512, Choice(16, bk=128, split=2, ctas=2), 128), (64, 256, 256, Choice(64, ctas=2), 64)]


@pytest.mark.parametrize("what", [4, 8, "sparse"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}x{case[1]}x{case[2]}")
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.sampled(every=16, ci=6)
def test_products(case, what, schedule):
    m, n, k, choice, group = case
    launch, x, y, dense = launched(what, m, n, k, choice, group)
    for _ in range(2):
        with hl.emulate(schedule=schedule, seed=m, hazards="collect") as run:
            launch()
        assert not run.hazards and not run.warnings and right(x, y, dense)


@pytest.mark.parametrize("what", [4, 8, "sparse"])
def test_a_cta_that_stays_takes_several_tiles(what, monkeypatch):
    monkeypatch.setattr(mixed, "SMS", 2)
    launch, x, y, dense = launched(what, 48, 256, 256, Choice(16))
    assert launch.grid == (2,)
    with hl.emulate(schedule="random", hazards="collect") as run:
        launch()
    assert not run.hazards and not run.warnings and right(x, y, dense)


@pytest.mark.parametrize("kinds", [("e4m3", "e5m2"), ("e5m2", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e4m3")])
def test_two_kinds_of_fp8(kinds):
    types = [ml_dtypes.float8_e4m3fn if kind == "e4m3" else ml_dtypes.float8_e5m2 for kind in kinds]
    a, b = (np.random.default_rng(i).integers(-4, 5, (64 * (i + 1), 272)).astype(kind) for i, kind in enumerate(types))
    c = xp.zeros((64, 128), np.float32)
    with hl.emulate(schedule="random", hazards="collect") as run:
        mixed.fp8_kinds(xp.asarray(a.view(np.uint8)), xp.asarray(b.view(np.uint8)), c, kinds, backend="emulator")()
    assert not run.hazards and (np.asarray(c) == a.astype(np.float32) @ b.astype(np.float32).T).all()


@pytest.mark.parametrize("bits", [4, 8])
def test_the_prepared_layout_by_its_definition(bits):
    """Every element of every fragment, field by field, beside the fragments of wgmma."""
    n, k, group = 128, 128, 64
    q = np.random.default_rng(bits).integers(-8, 8, (n, k)).astype(np.int8) if bits == 4 else np.random.default_rng(bits).integers(-128, 128, (n, k)).astype(np.int8)
    scales = np.arange(n * k // group, dtype=np.uint16).reshape(n, k // group)
    made, a = prepare.prepared(q, scales, bits, group), fragments.wgmma_a(16)
    width = 256 // bits
    words = made.words.view(np.uint32).reshape(n // 64, k // width, 128, 4)
    for step in range(width // 16):
        for e in range(8):
            r, odd = e // 2, e % 2
            word = words[..., step] if bits == 4 else words[..., 2 * step + r // 2]
            field = word >> np.uint32(4 * r + 16 * odd if bits == 4 else 8 * (r % 2) + 16 * odd)
            got = (field & 15).astype(int) - 8 if bits == 4 else (field & 255).astype(np.uint8).view(np.int8)
            for block in range(n // 64):
                for column in range(k // width):
                    assert (got[block, column] == q[64 * block + a.row[:, e], width * column + 16 * step + a.col[:, e]]).all()
    thread = np.arange(128)
    pairs = made.scales[:, :, thread // 4]
    for block in range(n // 64):
        row = 64 * block + 16 * (thread // 32) + thread % 32 // 4
        assert (pairs[block].T == (scales[row] | scales[row + 8].astype(np.uint32) << 16)).all()


def test_metadata_by_their_definition():
    """2 bits for each stored number; a thread's word by PTX's rule: rows g and g + 8, 16 columns, by the selector of the k-step."""
    values = prepare.pruned(np.random.default_rng(3).standard_normal((64, 128), np.float32))
    values[5, 8:12] = 0, 0, 0, 2.0                         # fewer than two: a zero stands in
    stored, places = prepare.compressed(values)
    rebuilt = np.zeros_like(values)
    for row in range(64):
        for at in range(64):
            rebuilt[row, 4 * (at // 2) + places[row, at]] = stored[row, at]
    assert (rebuilt == values).all() and (places[:, ::2] < places[:, 1::2]).all()
    words = prepare.metadata_words(places)
    for thread in range(128):
        w, g, q = thread // 32, thread % 32 // 4, thread % 4
        for block in range(2):
            bits = [sum(int(places[16 * w + g + 8 * high, 32 * block + 8 * q + j]) << 2 * j for j in range(8)) for high in (0, 1)]
            assert words[0, block, thread] == bits[0] | bits[1] << 16


def test_quantised_weights_are_near_and_scales_are_used():
    values = np.random.default_rng(0).standard_normal((64, 256), np.float32) * np.arange(1, 65, dtype=np.float32)[:, None]
    for bits in (4, 8):
        near = 0.5 / prepare.LARGEST[bits] + 2.0 ** -7                                 # half a step, and two roundings to bf16: of the scale and of the product
        q, scales = prepare.quantised(values, bits, 64)
        error = np.abs(prepare.dequantised(q, scales, 64) - values).reshape(64, 4, 64).max(-1) / np.abs(values).reshape(64, 4, 64).max(-1)
        assert error.max() < near and np.abs(q.astype(int)).max() == prepare.LARGEST[bits]


@pytest.mark.parametrize("what, bug", [(4, "BUG_NIBBLES"), (8, "BUG_NIBBLES"), ("sparse", "BUG_METADATA")])
@pytest.mark.sampled(ci=1)
def test_planted_bugs_are_wrong_numbers_and_no_hazard(what, bug):
    launch, x, y, dense = launched(what, 16, 128, 256, Choice(16), options=(f"-D{bug}=1",))
    with hl.emulate(hazards="collect") as run:
        launch()
    assert not run.hazards and np.isfinite(bf16_values(np.asarray(y))).all() and not right(x, y, dense)


ALONE, PARTS = Choice(16, stages=2), Choice(16, split=2, stages=2)
DROPPED = {                 # kernel, choice, header (None: the kernel itself), line taken out, or exchanged, one of the kinds that name it
    "the tiles have arrived": ("int_weights", ALONE, None, "        mbarrier_wait_parity(&full[ring.slot], ring.phase);\n", "", "read-before-arrival"),
    "the sparse tiles have arrived": ("sparse", ALONE, None, "        mbarrier_wait_parity(&full[ring.slot], ring.phase);\n", "", "read-before-arrival"),
    "the slot is free": ("int_weights", ALONE, None, "mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1), fence", "fence", "overwrite-in-flight"),
    "the sparse slot is free": ("sparse", ALONE, None, "mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1), fence", "fence", "overwrite-in-flight"),
    "generic reads before the refill": ("int_weights", ALONE, None, ", fence_proxy_async_shared_cta();      // weights", ";      // weights", "unfenced-overwrite"),
    "metadata's reads before the refill": ("sparse", ALONE, None, ", fence_proxy_async_shared_cta();      // metadata", ";      // metadata", "unfenced-overwrite"),
    "fragments before the product": ("int_weights", ALONE, None,
                                     "        wgmma_fence();                                          // the fragments' registers were written\n", "",
                                     "register-in-flight"),
    "metadata before the product": ("sparse", ALONE, None, "        wgmma_fence();                                          // the metadata's registers were "
                                                           "written\n", "", "register-in-flight"),
    "the product before has read": ("int_weights", ALONE, None, "        wgmma_wait_group<1>(); ", "        wgmma_wait_group<2>(); ", "register-in-flight"),
    "the sparse product before has read": ("sparse", ALONE, None, "        wgmma_wait_group<1>(); ", "        wgmma_wait_group<2>(); ", "register-in-flight"),
    "the sums are there": ("int_weights", ALONE, None, "        wgmma_wait_group<0>();\n", "", "register-in-flight"),
    "all rings are idle": ("int_weights", PARTS, "weights_left.cuh",
                           "        barrier_cluster_arrive();                               // nobody in the cluster needs its ring any more\n"
                           "        barrier_cluster_wait();\n", "", "overwrite-in-flight"),
    "the mail has arrived": ("int_weights", PARTS, "weights_left.cuh",
                             "        barrier_cluster_arrive();                               // the mail has arrived; nobody writes to another CTA after this\n"
                             "        barrier_cluster_wait();\n", "", "race"),
    "the slots of y are read": ("int_weights", ALONE, None, "    if (thread == 0) cp_async_bulk_wait_group_read<0>();        // shared memory outlives its readers\n",
                                "", "exit-in-flight")}


@cache
def named(kernel, choice, schedule, changes=()):
    """Kinds of what the emulator names; of the unchanged kernel it is asked once for each choice and schedule."""
    launch = launched(4 if kernel == "int_weights" else "sparse", 16, 128, 1024, choice)[0]
    options = tuple(f"-D{field.upper()}={value}" for field, value in vars(choice).items()) + (("-DBITS=4", "-DGROUP=128") if kernel == "int_weights" else ())
    with hl.emulate(schedule=schedule, seed=3, hazards="collect") as run:
        changed(launch, f"mixed/{kernel}.cu", changes, options)()
    return {hazard.kind for hazard in (*run.hazards, *run.warnings)}


@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.parametrize("schedule", EXTREMES)
@pytest.mark.sampled(every=14, ci=1)
def test_what_orders_the_parts_is_missed_when_it_is_gone(name, schedule):
    kernel, choice, header, old, new, kind = DROPPED[name]
    change = old, new
    if header:
        inside = (INCLUDE / header).read_text()
        assert inside.count(old) == 1
        change = f"#include <hopperlab/{header}>\n", inside.replace(old, new).replace("#pragma once", "") + "\n"
    assert kind in named(kernel, choice, schedule, (change,)) and kind not in named(kernel, choice, schedule)


INDEXED = (("unsigned even[ROWS][STEPS][4], odd[ROWS][STEPS][4];", "unsigned fragments[2][ROWS][STEPS][4];"),
           ("i += 2) {                  // in pairs: a register's name is a constant\n            k_block(i, even);\n            k_block(i + 1, odd);\n        }",
            "i++) k_block(i, fragments[i % 2]);"))


def test_an_index_in_place_of_two_names_leaves_one_set_of_registers():
    """What lesson 15x says of `fragments[i % 2]`: the compiler makes one set of both, and it is written while a product may read it."""
    launch = launched(4, 16, 128, 1024, ALONE)[0]
    options = (*(f"-D{field.upper()}={value}" for field, value in vars(ALONE).items()), "-DBITS=4", "-DGROUP=128")
    with hl.emulate(hazards="collect") as run:
        changed(launch, "mixed/int_weights.cu", INDEXED, options)()
    assert {hazard.kind for hazard in run.hazards} == {"register-in-flight"}


@pytest.mark.parametrize("shape", [(1, 4096, 4096), (16, 8192, 8192), (64, 8192, 8192), (64, 28672, 8192), (32, 8192, 28672), (1024, 8192, 8192),
                                   (4096, 4096, 14336), (300, 128, 128)], ids=str)
def test_the_choice_fits_the_machine(shape):
    for one in (mixed.choose(*shape), mixed.choose(*shape, 128), *mixed.choices(*shape)):
        assert one.fits(*shape)
        for bits in (4, 8):
            slot = one.bn * one.bk * bits // 8 + one.bn * 2
            made = one.with_stages(slot)
            assert 2 <= made.stages <= mixed.MOST_STAGES and made.bytes_for(made.stages, slot) <= mixed.SHARED_BYTES[made.ctas]
            assert one.split == 1 or one.tiles(*shape[:2]) * one.split <= 132 * one.ctas


@pytest.mark.parametrize("what", [4, 8, "sparse"])
@pytest.mark.sampled(every=3)
@pytest.mark.thorough
def test_what_is_chosen_keeps_its_registers(what):
    """At shapes of many kinds: nothing, or a word or two in the epilogue, goes to local memory."""
    spilled, shapes = {}, itertools.product((1, 16, 33, 64, 129, 300, 1000, 4096), (256, 768, 1920, 4096, 11008), (512, 2048, 8192))
    for one in {mixed.choose(m, n, k, 0 if what == "sparse" else 128) for m, n, k in shapes}:
        sparse = what == "sparse"
        chosen = one.with_stages(one.bn * one.bk * 9 // 8 if sparse else one.bn * (one.bk * what // 8 + 2))
        options = chosen.macros if sparse else (*chosen.macros, f"-DBITS={what}", "-DGROUP=128")
        name = "sparse" if sparse else "int_weights"
        use = load_kernel(f"mixed/{name}.cu", name, options, backend="emulator").use
        spilled[chosen] = use.spill_stores
    assert len(spilled) > 5 and not {chosen: size for chosen, size in spilled.items() if size > 8}


@pytest.mark.parametrize("broken, words", [
    (lambda: launched(4, 16, 128, 192, group=64), "k of 128"), (lambda: launched(4, 16, 128, 256, Choice(16, rows=2)), "n is a multiple of 256"),
    (lambda: launched(4, 16, 128, 256, Choice(16, bk=128), group=64), "groups of 64"), (lambda: launched(8, 16, 128, 256, Choice(256, stages=8)), "shared memory"),
    (lambda: mixed.choose(16, 100, 256), "n is a multiple of 128"), (lambda: prepare.prepared(np.zeros((60, 64), np.int8), np.zeros((60, 1), np.uint16), 4, 64),
                                                                     "q is 60 x 64"),
    (lambda: prepare.compressed(np.ones((64, 64), np.float32)), "prune first"),
    (lambda: mixed.fp8_kinds(*(np.zeros((64, 64), np.uint8),) * 2, np.zeros((64, 64), np.float32), ("e4m3", "e3m4")), "kinds are e4m3 or e5m2")])
def test_what_cannot_be_launched_is_told(broken, words):
    with pytest.raises(OperandError, match=words):
        broken()
