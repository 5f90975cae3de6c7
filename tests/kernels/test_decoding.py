# SPDX-License-Identifier: Apache-2.0
"""Lesson 16d's kernels: decoding over a paged cache is right for any lengths, pages, splits and heads, whatever lands when, and nothing is named;
each dropped order is."""
from dataclasses import replace
from functools import cache
from itertools import product as every

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import decoding
from hopperlab.measure.launches.decoding import Choice, plan
from hopperlab.measure.launches.operand_checks import OperandError
from hopperlab.measure.launches.operands import bf16_bits

SCHEDULES = ("lazy", "eager", "random")
EXTREMES = SCHEDULES[:2]         # for what is broken: all lands as late as it can, or at once
xp = hl.array_module()
CASES = {                               # lengths, operands, choice
    "one key": ([1], {}, Choice()),
    "two sequences, cut anywhere": ([200, 70], {}, Choice(blocks=3)),
    "a piece a row": ([64, 129, 5], {"heads": 8, "kv_heads": 4}, Choice(blocks=5, splits=1)),
    "three splits": ([300, 17], {"heads": 16, "kv_heads": 2, "page": 16}, Choice(blocks=4, splits=3)),
    "sixteen heads, pages of 32": ([97, 64], {"heads": 16, "page": 32, "d": 64}, Choice(blocks=2)),
    "pages of 128, one group": ([290], {"page": 128}, Choice(blocks=2, groups=1, stages=2)),
    "twelve heads, gathered from pages of 5": ([83, 140], {"heads": 12, "page": 5}, Choice(blocks=3, gather=1)),
    "gathered from pages of 1": ([66], {"page": 1, "heads": 1}, Choice(blocks=1, gather=1, groups=1)),
    "latent": ([100, 33, 1], {"latent": True, "heads": 16}, Choice(blocks=2)),
    "latent, two blocks of heads": ([70], {"latent": True, "heads": 32, "page": 32}, Choice(blocks=3, stages=2))}


def ran(step, schedule="lazy", dependent=True, seed=0):
    step.given.o.view(np.uint16)[...] = decoding.NAN
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as run, hl.Stream(backend="emulator") as stream:
        step(dependent)
        stream.synchronize()
    return run


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(every=5)
def test_any_lengths_pages_and_heads(name, schedule):
    lengths, chosen, choice = CASES[name]
    step = decoding.decode(decoding.operands(xp, lengths, seed=len(name), **chosen), choice)
    assert not ran(step, schedule, seed=sum(lengths)).hazards and step.right()
    assert (len(step.launches) == 2) == bool(step.plan.slots)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.sampled(every=3)
def test_random_steps(seed):
    random = np.random.default_rng(seed)
    group, kv_heads, page = int(random.integers(1, 17)), int(random.integers(1, 3)), int(random.choice([16, 32, 64, 128]))
    lengths = random.integers(1, 260, int(random.integers(1, 5))).tolist()
    step = decoding.decode(decoding.operands(xp, lengths, group * kv_heads, kv_heads, int(random.choice([64, 128])), page, seed),
                           Choice(blocks=int(random.integers(1, 7)), splits=int(random.integers(0, 4)), groups=int(random.integers(1, 3))))
    assert not ran(step, "random", seed=seed).hazards and step.right(), (group, kv_heads, page, lengths)


def test_a_table_longer_than_a_warp_holds():
    """Pages of 16: 32 lanes hold the indices of 512 keys, and the next 32 are on their way."""
    step = decoding.decode(decoding.operands(xp, [1111], page=16), Choice(blocks=1))
    assert not ran(step).hazards and step.right() and step.plan.tiles == [18]
    step = decoding.decode(decoding.operands(xp, [1111], heads=16, page=32, latent=True), Choice(blocks=1))
    assert not ran(step).hazards and step.right()


def test_large_scores_need_the_maximum():
    given = decoding.operands(xp, [300], size=60)
    assert not ran(decoding.decode(given, Choice(blocks=3))).hazards and decoding.wrong(given) == 0
    assert not ran(decoding.decode(given, Choice(blocks=3), ("-DBUG_NO_MAXIMUM=1",))).hazards and decoding.wrong(given) > 0
    small = decoding.operands(xp, [300])
    ran(decoding.decode(small, Choice(blocks=3), ("-DBUG_NO_MAXIMUM=1",)))
    assert decoding.wrong(small) == 0, "with small scores it does not show"


def test_a_wrong_element_is_found():
    step = decoding.decode(decoding.operands(xp, [70], latent=True, heads=16))
    ran(step)
    assert step.right()
    step.given.o.view(np.uint16)[0, 3, 500] ^= 0x4000
    assert not step.right()


def appended(lengths=(65, 128, 33), options=(), page=64):
    """The cache without its newest tokens, and the step that appends them and decodes: (step, cache as it must be)."""
    given = decoding.operands(xp, lengths, heads=16, kv_heads=2, page=page)
    wanted = [pages.copy() for pages in given.pages]
    new, fresh = [], np.zeros(len(lengths), np.int32)
    for pages in given.pages:
        tokens = [pages[given.table[i, (n - 1) // page], :, (n - 1) % page].copy() for i, n in enumerate(lengths)]
        new.append(xp.asarray(np.stack(tokens)))
    for i, n in enumerate(lengths):
        for pages in given.pages:
            pages[given.table[i, (n - 1) // page], :, (n - 1) % page] = decoding.NAN
        if n % page == 1:
            fresh[i], given.table[i, (n - 1) // page] = given.table[i, (n - 1) // page], 0
    return decoding.appended(decoding.decode(given, Choice(blocks=3), options), *new, xp.asarray(fresh)), wanted


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("page", [16, 64])
def test_behind_the_kernel_that_appends(page, schedule):
    step, wanted = appended(page=page)
    assert not ran(step, schedule).hazards and step.right()
    assert all((pages.view(np.uint16) == other.view(np.uint16)).all() for pages, other in zip(step.given.pages, wanted, strict=True))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("bug", ["BUG_TABLE_BEFORE_WAIT", "BUG_NO_GRID_WAIT"])
@pytest.mark.sampled(ci=1)
def test_what_is_read_too_early_is_named(bug, schedule):
    step, _ = appended(options=(f"-D{bug}=1",))
    found = ran(step, schedule).hazards
    assert found and {(hazard.kind, hazard.case) for hazard in found} == {("read-before-arrival", "read-before-grid-wait")}
    step, _ = appended(options=(f"-D{bug}=1",))
    assert not ran(step, schedule, dependent=False).hazards and step.right()


DECODE, LATENT, GATHER = "decoding/decode.cu", "decoding/latent.cu", Choice(blocks=2, gather=1, stages=2)
DROPPED = {                             # kernel, choice, what is taken out (or exchanged), one of the kinds that name it
    "a tile has landed": (DECODE, Choice(blocks=1, stages=2), "            mbarrier_wait_parity(&full[ring.slot], ring.phase);\n", "", "read-before-arrival"),
    "a gathered tile has landed": (DECODE, GATHER, "cp_async_mbarrier_arrive_noinc(&full[ring.slot]);", "mbarrier_arrive(&full[ring.slot]);", "read-before-arrival"),
    "a slot is free": (DECODE, Choice(blocks=1, stages=2), "                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);\n                if (me == 0)",
                       "                if (me == 0)", "overwrite-in-flight"),
    "a slot is free to gather": (DECODE, GATHER, "                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);\n                #pragma",
                                 "                #pragma", "overwrite-in-flight"),
    "all lanes have read": (DECODE, Choice(blocks=1, stages=2), "            __syncwarp();                                       // all lanes have read\n",
                            "", "phase-overrun"),
    "sums are there": (DECODE, Choice(blocks=1), "        bar_sync(1, CONSUMERS);\n        auto", "        auto", "race"),
    "outputs are whole": (DECODE, Choice(blocks=1), "        bar_sync(1, CONSUMERS);                                 // outputs", "        // outputs", "race"),
    "a latent tile has landed": (LATENT, Choice(blocks=1), "            mbarrier_wait_parity(&full[ring.slot], ring.phase);\n", "", "read-before-arrival"),
    "a latent slot is free": (LATENT, Choice(blocks=1, stages=2), "                mbarrier_wait_parity(&empty[ring.slot], ring.phase ^ 1);\n", "",
                              "overwrite-in-flight"),
    "quarters are there": (LATENT, Choice(blocks=1), "            bar_sync(1, CONSUMERS);\n", "", "race"),
    "two buffers by turns": (LATENT, Choice(blocks=1), "ring.advance(), turn ^= 1)", "ring.advance())", "race")}


@cache
def named(path, choice, schedule, old="", new=""):
    """Kinds of what the emulator names with `new` in the place of `old`; of the unchanged kernel it is asked once for each choice and schedule."""
    given = decoding.operands(np, [330, 90], heads=16, latent=True) if path == LATENT else decoding.operands(np, [330, 90], page=64)
    step = decoding.decode(given, choice, backend="emulator")
    if old:
        first, text = step.launches[0], hl.kernel_source(path)
        assert text.count(old) == 1
        module = hl.RawModule(code=text.replace(old, new), options=first.kernel.module.options, backend="emulator", name_expressions=())
        step = replace(step, launches=(replace(first, kernel=module.get_function(first.kernel.name)), *step.launches[1:]))
    return {hazard.kind for hazard in ran(step, schedule, seed=2).hazards}


@pytest.mark.parametrize("name", DROPPED)
@pytest.mark.parametrize("schedule", EXTREMES)
@pytest.mark.sampled(every=14, ci=1)
def test_what_orders_the_parts_is_missed_when_it_is_gone(name, schedule):
    path, choice, old, new, kind = DROPPED[name]
    assert kind in named(path, choice, schedule, old, new) and kind not in named(path, choice, schedule)


def by_hand(planned, lengths, heads):
    """Every key of every row exactly once, slots in the order of keys, whole rows without one."""
    for sequence, head in every(range(len(lengths)), range(heads)):
        mine = sorted(planned.pieces[(planned.pieces[:, 0] == sequence) & (planned.pieces[:, 1] == head)][:, 2:].tolist())
        assert [first for first, _, _ in mine] == [0, *(end for _, end, _ in mine[:-1])] and mine[-1][1] == lengths[sequence]
        cut = planned.cut[(planned.cut[:, 0] == sequence) & (planned.cut[:, 1] == head)][:, 2:].tolist()
        slots = [slot for _, _, slot in mine]
        assert (slots == [-1] and not cut) or (len(slots) > 1 and cut == [[slots[0], len(slots)]] and slots == list(range(slots[0], slots[0] + len(slots))))


@pytest.mark.parametrize("seed", range(30))
def test_a_plan_deals_every_key_once(seed):
    random = np.random.default_rng(seed)
    lengths, heads, blocks, tile = random.integers(1, 3000, int(random.integers(1, 12))).tolist(), int(random.integers(1, 9)), int(random.integers(1,
            140)), int(random.choice([32, 64]))
    for splits in (0, 1, int(random.integers(2, 9))):
        made = plan(lengths, heads, blocks, splits, tile)
        by_hand(made, lengths, heads)
        assert made.blocks <= blocks and all(made.tiles) and sum(made.tiles) == heads * sum(-(-n // tile) for n in lengths) and len(made.pieces) == made.starts[-1]
        assert splits == 0 or made.slots == sum(count for n in lengths if (count := min(splits, -(-n // tile))) > 1) * heads
        assert splits or max(made.tiles) - min(made.tiles) <= 1


def test_plans_by_hand():
    made = plan([200, 70], 1, blocks=3)                     # four tiles and two, two a CTA
    assert made.pieces.tolist() == [[0, 0, 0, 128, 0], [0, 0, 128, 200, 1], [1, 0, 0, 70, -1]] and made.starts.tolist() == [0, 1, 2,
            3] and made.cut.tolist() == [[0, 0, 0, 2]]
    whole = plan([640, 64, 64], 1, blocks=2, splits=1)
    assert whole.tiles == [10, 2] and whole.balance == 0.6 and whole.slots == 0


@pytest.mark.parametrize("broken, words", [
    (lambda: plan([], 1), "at least one sequence"), (lambda: plan([3, 0], 1), "sees at least its own token"), (lambda: plan([3], 0), "heads is 0"),
    (lambda: decoding.decode(decoding.operands(np, [64], heads=17)), "17 query heads over 1"), (lambda: decoding.decode(decoding.operands(np, [64], page=48)),
            "pages of 48 keys"),
    (lambda: decoding.decode(decoding.operands(np, [64], heads=8, latent=True)), "a multiple of 16 heads"),
    (lambda: decoding.decode(decoding.operands(np, [9]), Choice(groups=3)), "groups is 3"),
    (lambda: decoding.decode(decoding.operands(np, [9]), Choice(promotion=32)), "promotion is 32"),
    (lambda: decoding.decode(decoding.operands(np, [9]), Choice(stages=3)), "stages is 3"),
    (lambda: decoding.decode(replace(decoding.operands(np, [9]), lengths=(65,))), "one row a sequence"),
    (lambda: decoding.decode(decoding.operands(np, [9], d=96)), "64 or 128"),
    (lambda: decoding.appended(decoding.decode(decoding.operands(np, [9])), *[bf16_bits(np.zeros((2, 1, 128), np.float32))] * 2, np.zeros(1, np.int32)), "k has shape")])
def test_what_cannot_be_launched_is_told(broken, words):
    with pytest.raises(OperandError, match=words):
        broken()


@pytest.mark.parametrize("lengths, heads, latent, wanted", [
    ([8192] * 32, 8, False, (1, 264)), ([32768] * 8, 8, False, (2, 132)), ([4096] * 128, 8, False, (1, 132)), ([65536], 8, False, (16, 132)),
    ([8192] * 17, 8, False, (0, 264)), ([64, 70000, 300], 8, False, (0, 264)), ([1], 1, False, (0, 264)), ([16384] * 32, 1, True, (4, 132)),
    ([8192] * 16, 8, True, (0, 132))])
def test_the_choice_gives_each_cta_one_stretch_where_that_is_even(lengths, heads, latent, wanted):
    """(splits, CTAs) that `choose` picks: rows or parts of them alone, where they are as many as CTAs; else a line."""
    q = np.zeros((len(lengths), 16 * heads, 576 if latent else 128), np.uint16)
    pages = (np.zeros((1, 64, 576) if latent else (1, heads, 64, 128), np.uint16),) * (2 - latent)
    given = decoding.Given(q, pages, np.zeros((len(lengths), 1), np.int32), tuple(lengths), q)
    choice = decoding.choose(given)
    assert (choice.splits, choice.blocks) == wanted and choice.promotion == 0
