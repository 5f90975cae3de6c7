# SPDX-License-Identifier: Apache-2.0
"""Attention: every step gives float64's result on awkward lengths, heads that share k and v, causal or not, under every schedule, without a hazard."""
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import attention
from hopperlab.measure.launches.attention import Forward
from hopperlab.measure.launches.operand_checks import OperandError

BF16 = ml_dtypes.bfloat16
SEQUENCES = {"one each": ([1], [1]), "odd": ([67, 130], [131, 33]), "prime": ([197], [211]), "more queries": ([150], [70]), "whole": ([128], [256]),
             "none": ([64, 3], [0, 5])}


def packed(q_lengths, k_lengths, heads, kv_heads, d, seed=0, size=1.0):
    rng = np.random.default_rng([seed, d, *q_lengths, *k_lengths])
    starts = [np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32) for lengths in (q_lengths, k_lengths)]
    made = [(size * rng.standard_normal((starts[i][-1], h, d))).astype(BF16) for i, h in ((0, heads), (1, kv_heads), (1, kv_heads))]
    return made, starts


def run(lengths, d=64, heads=2, kv_heads=1, causal=False, choice=None, schedule="lazy", seed=0, size=1.0):
    (q, k, v), starts = packed(*lengths, heads, kv_heads, d, seed, size)
    if not len(k):
        pytest.skip("a tensor map needs one token")
    o, lse = np.full(q.shape, np.nan, BF16), np.full((heads, len(q)), np.nan, np.float32)
    launch = attention.forward(q, k, v, o, lse, *starts, causal, choice=choice, backend="emulator")
    with hl.emulate(schedule=schedule, seed=seed, hazards="raise") as session:
        launch()
    expected, expected_lse = attention.reference(q, k, v, *starts, causal)
    # p is rounded to bf16 (2^-9 of each term), o once more; scores err by fp32 sums of D products, which the exponential magnifies.
    bound = 2.0 ** -7 * np.maximum(np.abs(expected), np.abs(v.astype(np.float32)).max()) * (1 if size <= 1 else 2)
    assert (np.abs(o.astype(np.float64) - expected) <= bound).all()
    with np.errstate(invalid="ignore"):
        assert ((lse == expected_lse) | (np.abs(lse - expected_lse) <= 2e-5 * np.maximum(1, np.abs(expected_lse)))).all()
    return launch, session.counters


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("step", attention.STEPS)
@pytest.mark.sampled(by=("step",), ci=4)
def test_every_step_on_awkward_lengths(step, name, causal):
    run(SEQUENCES[name], causal=causal, choice=attention.STEPS[step])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", attention.HEAD_SIZES)
@pytest.mark.sampled(every=4)
def test_every_head_size(d, causal):
    run(([130, 67], [130, 300]), d=d, heads=4, kv_heads=2, causal=causal)


@pytest.mark.parametrize("choice", [Forward(bn=192, blocks=3), Forward(consumers=3, blocks=2), Forward(bn=64, stages=3, blocks=5), Forward(group=3, blocks=1),
                                    Forward(blocks=4, overlap=0), Forward(blocks=2, staged=0, chains=4), Forward(blocks=2, chains=2),
                                    Forward(bn=176, blocks=2), Forward(q_slots=2, consumers=3, blocks=2), Forward(q_slots=2, overlap=0, blocks=1),
                                    Forward(q_slots=2, staged=0, blocks=1)], ids=str)
@pytest.mark.sampled(every=11)
def test_other_configurations(choice):
    run(([400, 30], [100, 250]), heads=4, kv_heads=4, causal=True, choice=choice)


@pytest.mark.parametrize("schedule, seed", [("eager", 0), ("random", 1), ("random", 2), ("late-wgmma", 0), ("late-copies", 0)])
@pytest.mark.parametrize("step", attention.STEPS)
@pytest.mark.sampled(by="schedule")
def test_every_step_under_every_schedule(step, schedule, seed):
    run(([130, 200], [300, 90]), causal=True, choice=replace(attention.STEPS[step], blocks=2), schedule=schedule, seed=seed)


PAIRS = [Forward(dealt=1, cluster=2, blocks=4), Forward(dealt=1, cluster=2, consumers=3, q_slots=2, blocks=2), Forward(dealt=1, cluster=2, bn=64, overlap=0, blocks=0),
         Forward(dealt=1, cluster=2, bn=176, staged=0, blocks=2), Forward(dealt=1, blocks=3)]


@pytest.mark.parametrize("lengths, causal", [(([400, 30], [100, 250]), True), (([130], [300]), False), (([64, 3, 300], [0, 5, 70]), True)])
@pytest.mark.parametrize("choice", PAIRS, ids=str)
@pytest.mark.sampled(every=15)
def test_tiles_that_are_dealt_out_and_clusters(choice, lengths, causal):
    run(lengths, heads=4, kv_heads=2, causal=causal, choice=choice, schedule="random", seed=7)


def test_a_pair_loads_half_a_block_each_and_both_get_all_of_it():
    """As many boxes of keys and values, half as high, and as many bytes arrive: each box arrives twice."""
    lengths, alone = ([256], [256]), Forward(dealt=1, blocks=2)
    (one, before), (pair, after) = (run(lengths, heads=1, choice=choice) for choice in (alone, replace(alone, cluster=2)))
    assert [launch.args[1].fields.box_dim[-1] for launch in (one, pair)] == [128, 64]      # k's map, rows outermost
    assert before["tma_loads"] == after["tma_loads"] and before["tma_load_bytes"] == after["tma_load_bytes"] == (2 * 128 + 2 * 2 * 256) * 64 * 2


@pytest.mark.parametrize("schedule, seed", [("eager", 0), ("random", 1), ("random", 2), ("late-wgmma", 0), ("late-copies", 0)])
@pytest.mark.parametrize("choice", PAIRS[:2] + [Forward(consumers=3, bn=64, q_slots=2, blocks=2), Forward(consumers=3, bn=64, blocks=1, overlap=0, turns=0)], ids=str)
@pytest.mark.sampled(every=13)
def test_warpgroups_that_see_nothing_skip_blocks(choice, schedule, seed):
    """Tiles of 192 queries over blocks of 64 keys: the first warpgroup skips two blocks; the last tiles hold rows of one warpgroup, and of two."""
    lengths = ([200, 320], [220, 40])
    _, counters = run(lengths, heads=2, kv_heads=2, causal=True, choice=choice, schedule=schedule, seed=seed)
    seen = [min(keys, first + 64 + keys - queries) for queries, keys in zip(*lengths, strict=True) for first in range(0, queries, 64)]
    blocks = 2 * sum(-(-max(0, keys) // choice.bn) for keys in seen)                        # of two heads
    assert counters["wgmma"] == blocks * (64 // 16 + choice.bn // 16)


SHORT = [(d, name) for d, choices in attention.SHORT.items() for name in choices]


@pytest.mark.parametrize("schedule, seed", [("eager", 0), ("random", 1), ("late-wgmma", 0), ("late-copies", 0)])
@pytest.mark.parametrize("d, name", SHORT)
@pytest.mark.sampled(every=11)
def test_what_short_sequences_may_get(d, name, schedule, seed):
    choice = attention.SHORT[d][name].choice
    run(([130, 65, 1], [70, 65, 1]), d=d, causal=seed == 0, choice=replace(choice, blocks=2 * max(choice.per_sm, choice.cluster)), schedule=schedule, seed=seed)


@pytest.mark.parametrize("d, name", SHORT)
def test_as_many_ctas_fit_on_an_sm_as_are_asked_for(d, name):
    """By registers (the launch's, and setmaxnreg's of all warpgroups together) and by shared memory, 1 KB a CTA the system's own."""
    choice = attention.SHORT[d][name].choice
    launch, counters = run(([65], [65]), d=d, heads=1, choice=choice)
    kernel = launch.kernel.module.ptxas_info.kernels["attention"]
    assert choice.per_sm * kernel.registers * launch.block[0] <= 65536 and choice.per_sm * (choice.shared_bytes(d) + 1024) <= 233472
    assert kernel.spill_stores <= 4 and "C75" not in launch.kernel.module.log and choice.blocks == 132 * choice.per_sm
    assert counters["peak_registers"] <= 240


@pytest.mark.parametrize("d", attention.HEAD_SIZES)
def test_a_short_sequence_gets_what_its_tiles_ask_for(d):
    """Not a pair whose second tile is empty; several CTAs per SM where one tile is all; few rounds of unequal tiles all heads at once; the table beyond LONG."""
    for causal in (False, True):
        shortest = attention.choose(d, causal, 100, 1000)
        assert shortest.cluster == 1 and (shortest.per_sm > 1 or d > 64)
        assert attention.choose(d, causal, attention.LONG, 1000) == (attention.nearest(attention.table(), d, causal, attention.LONG) or attention.BY_HEAD_SIZE[d])
    assert attention.choose(256, True, 1700, 18).group == 0 and attention.choose(256, True, 300, 800).group == 1
    assert attention.choose(128, False, 128, 3000).cluster == 1 and attention.choose(128, False, 512, 480).cluster == 2


def test_estimates_of_short_sequences_count_rounds_rows_and_blocks():
    def tiles(short, causal, length, units):
        return short.multiplied(attention.Equal(64, causal, length, units, units))
    short = attention.Short(Forward(blocks=10), 2.0, 1.0)
    assert tiles(short, False, 128, 10) == 3 and tiles(short, False, 129, 5) == 4
    assert tiles(short, False, 128, 11) == 6                                                # one more round for one tile
    pairs = attention.Short(Forward(blocks=10, dealt=1, cluster=2, group=1), 2.0, 1.0)
    assert tiles(pairs, False, 128, 10) == 6                                                # the second of each pair has nothing
    assert tiles(short, True, 256, 100) == 70 + 3 * attention.MODEL.last                    # tiles of 3 and 4, the shortest last
    together = attention.Short(Forward(blocks=10, group=1), 2.0, 1.0)
    assert tiles(together, True, 256, 100) == 70 + attention.MODEL.tail * 4


def test_estimates_of_short_sequences_count_bytes():
    """Shared keys and values once; those of all heads again where the L2 cannot keep them; whatever takes longer counts most."""
    each, shared = attention.Equal(128, True, 512, 400, 400), attention.Equal(128, True, 512, 400, 50)
    by_head, all_heads = attention.SHORT[128]["128 queries"], attention.SHORT[128]["all heads"]
    operand = 2 * 128 * 512 * 400
    assert by_head.moved(each) == 4 * operand and by_head.moved(shared) == all_heads.moved(shared) == 2.25 * operand
    assert all_heads.moved(each) == pytest.approx(4 * operand + attention.MODEL.again * (2 * operand - attention.KEPT))
    slow = replace(attention.MODEL, memory=1.0)
    assert by_head.estimated(each, slow) == pytest.approx(4 * operand, rel=1e-3)
    assert by_head.estimated(each, replace(attention.MODEL, memory=1e12)) == pytest.approx(attention.MODEL.start + by_head.multiplied(each))


def test_large_magnitudes_overflow_nothing():
    run(([130], [300]), d=128, size=30.0)


@pytest.mark.parametrize("d", attention.HEAD_SIZES)
def test_nothing_spills_and_nothing_is_serialised(d):
    (q, k, v), starts = packed([64], [64], 1, 1, d)
    launch = attention.forward(q, k, v, np.zeros_like(q), np.zeros((1, 64), np.float32), *starts, backend="emulator")
    assert "C75" not in launch.kernel.module.log
    assert launch.kernel.module.ptxas_info.kernels["attention"].spill_stores <= 4             # a word outside the loop over keys


@pytest.mark.parametrize("change, says", [
    (lambda a: a | {"q": a["q"][:, :, :32].copy(), "o": a["o"][:, :, :32].copy()}, "head size 32"),
    (lambda a: a | {"k": a["k"].astype(np.float32)}, "k has dtype"),
    (lambda a: a | {"k": a["k"][:, :1].copy()}, "must be alike"),
    (lambda a: a | {"lse": a["lse"].T.copy()}, "heads x tokens"),
    (lambda a: a | {"q_starts": a["q_starts"][::-1].copy()}, "must rise"),
    (lambda a: a | {"k_starts": np.array([0, 10, 64], np.int32)}, "sequences"),
])
def test_bad_operands_name_the_rule(change, says):
    (q, k, v), (qs, ks) = packed([64], [64], 3, 2, 64)
    given = {"q": q, "k": k, "v": v, "o": np.zeros_like(q), "lse": np.zeros((3, 64), np.float32), "q_starts": qs, "k_starts": ks}
    given = change(given | {"q": q[:, :2].copy(), "o": given["o"][:, :2].copy(), "lse": given["lse"][:2].copy()})
    with pytest.raises(OperandError, match=says):
        attention.forward(**given, backend="emulator")
