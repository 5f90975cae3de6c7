# SPDX-License-Identifier: Apache-2.0
"""Attention's backward pass: every step gives float64's gradients at awkward lengths, causal or not, whatever lands when, and nothing is named; in order, the
result is the same to the bit; each synchronisation is missed when it is gone."""
from dataclasses import replace
from functools import cache, partial

import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import attention
from hopperlab.measure.launches import attention_backward as backward
from hopperlab.measure.launches.attention_backward import Backward
from hopperlab.measure.launches.edited import edited
from hopperlab.measure.launches.operand_checks import OperandError

BF16 = ml_dtypes.bfloat16
pytestmark = pytest.mark.rounded_between(2.0 ** -6, 2e-3)
SCHEDULES = ("lazy", "eager", "random")
EXTREMES = SCHEDULES[:2]         # for what is broken: all lands as late as it can, or at once
KERNEL = "attention_backward/backward.cu"


def operands(length, batch=1, heads=1, d=64, causal=False, size=1.0):
    """(q, k, v, o, d_o, lse), o and lse as the forward pass in float64 rounds them."""
    rng = np.random.default_rng([length, batch, heads, d])
    q, k, v, d_o = ((size * rng.standard_normal((batch * length, heads, d))).astype(BF16) for _ in range(4))
    starts = (np.arange(batch + 1) * length).astype(np.int32)
    o, lse = attention.reference(q, k, v, starts, starts, causal)
    return q, k, v, o.astype(BF16), d_o, lse.astype(np.float32)


def run(given, length, causal, choice, schedule="lazy", seed=0, hazards="raise", changes=()):
    """(dq, dk, dv), the session, the launches."""
    made = [np.full(given[0].shape, np.nan, BF16) for _ in range(3)]
    passed = backward.backward(*given, *made, length, causal, choice=choice, backend="emulator")
    begin, middle, end = passed.launches
    if changes:
        module = hl.RawModule(code=edited(KERNEL, changes), options=choice.options(given[0].shape[2], causal), backend="emulator", name=KERNEL, strict=False)
        passed = replace(passed, launches=(begin, replace(middle, kernel=module.get_function("attention_backward")), end))
    with hl.emulate(schedule=schedule, seed=seed, hazards=hazards) as session:
        passed()
    return made, session, passed


def right(given, made, length, causal):
    q, k, v, _, d_o, _ = given
    expected, bounds = backward.reference(q, k, v, d_o, length, causal)
    return all((abs(got.astype(np.float64) - wanted) <= bound).all() for got, wanted, bound in zip(made, expected, bounds, strict=True))


def check(length, causal, choice, schedule="lazy", seed=0, **sizes):
    given = operands(length, causal=causal, **sizes)
    made, session, _ = run(given, length, causal, choice, schedule, seed)
    assert right(given, made, length, causal)
    return session


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 64, 67, 129, 200, 257])
@pytest.mark.parametrize("step", backward.STEPS)
@pytest.mark.sampled(by="step", ci=6)
def test_every_step_at_awkward_lengths(step, length, causal):
    check(length, causal, backward.STEPS[step])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", backward.HEAD_SIZES)
@pytest.mark.parametrize("dq", backward.DQ)
@pytest.mark.sampled(every=12, ci=6)
def test_several_heads_and_sequences(dq, d, causal):
    check(140, causal, Backward(dq=dq), d=d, batch=2, heads=2)
    check(140, causal, Backward(dq=dq, group=2, stages=1), "random", 3, d=d, batch=1, heads=3)


@pytest.mark.parametrize("schedule, seed", [("eager", 0), ("random", 1), ("random", 2), ("late-wgmma", 0), ("late-copies", 0)])
@pytest.mark.parametrize("step", list(backward.STEPS)[1:])
@pytest.mark.parametrize("d", backward.HEAD_SIZES)
@pytest.mark.sampled(by="schedule", ci=4)
def test_every_step_under_every_schedule(d, step, schedule, seed):
    check(300, True, backward.STEPS[step], schedule, seed, d=d)


def test_large_scores_overflow_nothing():
    check(140, True, Backward(), size=8.0)


def test_five_products_a_block_and_nothing_else():
    """Each warpgroup: D / 16 wgmma for s and for dp, BM / 16 for dv and for dk, BN / 16 for dq; queries and their gradients are loaded once a block of keys."""
    session = check(256, False, Backward(), d=128)
    blocks = 2 * 4                                              # blocks of 128 keys x blocks of 64 queries
    assert session.counters["wgmma"] == blocks * 2 * (8 + 8 + 4 + 4 + 8)
    assert session.counters["tma_load_bytes"] == 2 * 2 * 128 * 256 + blocks * 2 * 64 * 256


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", backward.HEAD_SIZES)
@pytest.mark.thorough
def test_in_order_means_the_same_bits_whatever_lands_when(d, causal):
    length = 500 if causal and d == 64 else 300             # causal, of blocks of 128 queries: fewer additions, which seldom differ
    given = operands(length, d=d, causal=causal)
    orders = ("lazy", 0), ("eager", 0), *(("random", seed) for seed in range(3))
    results = [run(given, length, causal, Backward(dq="ordered"), schedule, seed)[0] for schedule, seed in orders]
    assert right(given, results[0], length, causal)
    assert all((a.view(np.uint16) == b.view(np.uint16)).all() for one in results[1:] for a, b in zip(results[0], one, strict=True))
    first, *others = (partial(run, given, length, causal, Backward(), "random", seed) for seed in range(6))
    sums = first()[2].sums
    assert any((sums != other()[2].sums).any() for other in others)                  # without an order: other bits in some run


def test_counters_say_how_many_have_added():
    _, _, passed = run(operands(300, heads=2, d=128), 300, True, Backward(dq="ordered"))
    counted = [[min(3, (m * 64 + 63) // 128 + 1) for m in range(5)] for _ in range(2)]
    assert passed.done[:-1].reshape(2, 5).tolist() == counted and passed.done[-1] == 2 * 3


def test_delta_is_the_sum_of_p_times_dp():
    given = operands(70, d=64)
    q, k, v, _, d_o, lse = given
    _, _, passed = run(given, 70, False, Backward())
    p = np.exp(q[:, 0].astype(np.float64) @ k[:, 0].astype(np.float64).T / 8 - lse[0][:, None])
    assert np.allclose(passed.delta[0, :70], (p * (d_o[:, 0].astype(np.float64) @ v[:, 0].astype(np.float64).T)).sum(axis=1), atol=0.03)
    assert np.isinf(passed.lse2[0, 70:]).all() and not passed.delta[0, 70:].any()


@pytest.mark.parametrize("dq", backward.DQ)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", backward.HEAD_SIZES)
@pytest.mark.sampled(by=("d", "dq"))
def test_nothing_spills_and_nothing_is_serialised(d, causal, dq):
    module = hl.load_kernel(KERNEL, "attention_backward", Backward(dq=dq).options(d, causal), backend="emulator").module
    use = module.ptxas_info.kernels["attention_backward"]
    assert "C75" not in module.log and not use.spill_stores and not use.spill_loads


EARLY = ("        release(&do_empty[slot]);\n", ""), ("        wgmma_values<BM>(dv, p, do_tile, Q_PANEL, i > 0);\n        wgmma_commit_group();\n",
                                                     "        wgmma_values<BM>(dv, p, do_tile, Q_PANEL, i > 0);\n        wgmma_commit_group();\n        "
                                                     "release(&do_empty[slot]);\n")
READS = ("                    if (lane == 0 && w < CONSUMERS - 1) cp_async_bulk_wait_group_read<CONSUMERS - 1>();\n"
         "                    else if (lane == 0) cp_async_bulk_wait_group_read<0>();\n")
DROPPED = {                         # what is gone -> changes, kinds of which one must be named
    "k has arrived": ((("    mbarrier_wait_parity(k_full, 0);\n", ""),), {"read-before-arrival"}),
    "v has arrived": ((("        if (i == 0) mbarrier_wait_parity(v_full, 0);\n", ""),), {"read-before-arrival"}),
    "q has arrived": ((("        if (!AHEAD) mbarrier_wait_parity(&q_full[slot], ring.phase);\n", ""),), {"read-before-arrival"}),
    "do has arrived": ((("        mbarrier_wait_parity(&do_full[slot], ring.phase);\n", ""),), {"read-before-arrival"}),
    "the slot of do is read": (EARLY, {"overwrite-in-flight"}),
    "the slot of q is read": ((("        wgmma_wait_group<0>();\n        release(&q_empty[slot]);\n",
                                "        release(&q_empty[slot]);\n        wgmma_wait_group<0>();\n"),), {"overwrite-in-flight"}),
    "ds of all keys": ((("        bar_sync(DS_READY, ALL); ", "        bar_sync(OWN + me, 128); "),), {"race", "overwrite-in-flight"}),
    "the tensor core sees ds": ((("        fence_proxy_async_shared_cta();\n        bar_sync(DS_READY", "        bar_sync(DS_READY"),), {"missing-proxy-fence"}),
    "the engine sees dq": ((("            fence_proxy_async_shared_cta();\n            bar_arrive(FULL", "            bar_arrive(FULL"),), {"missing-proxy-fence"}),
    "dq has been read": (((READS, ""),), {"overwrite-in-flight"}),
    "nobody reads k": ((("    bar_sync(END, ALL); ", ""),), {"overwrite-in-flight"}),
    "dk and dv are complete": ((("    bar_sync(OWN + me, 128);\n", ""),), {"race", "missing-proxy-fence"}),
}
ORDER = {                           # of an ordered pass
    "its turn": ((("                            wait_for_count(&done[tile], before);\n", ""),), {"overwrite-in-flight"}),
    "the addition is done": ((("                    cp_async_bulk_wait_group<0>();              // not only read: added\n", ""),), {"overwrite-in-flight"}),
    "the turn is handed on": ((("red_release_gpu_add_one(&done[tile]);", "atomicAdd(&done[tile], 1);"),), {"overwrite-in-flight"}),
}


@cache
def named(choice, schedule, changes=()):
    """Kinds of what the emulator names; of the unchanged kernel it is asked once a schedule."""
    _, session, _ = run(operands(320), 320, False, choice, schedule, 3, hazards="collect", changes=changes)
    return {hazard.kind for hazard in session.hazards}


@pytest.mark.parametrize("schedule", EXTREMES)
@pytest.mark.parametrize(("dq", "name"), [*(("bulk", name) for name in DROPPED), *(("ordered", name) for name in ORDER)])
@pytest.mark.sampled(every=9, ci=1)
def test_what_orders_roles_and_additions_is_missed_when_it_is_gone(dq, name, schedule):
    changes, kinds = (ORDER if dq == "ordered" else DROPPED)[name]
    assert kinds & named(Backward(dq=dq), schedule, changes) and not kinds & named(Backward(dq=dq), schedule)


@pytest.mark.parametrize("change, says", [
    (lambda a: a | {"q": a["q"][:, :, :32].copy()}, "k is"),
    (lambda a: {name: x[:, :, :32].copy() if x.ndim == 3 else x for name, x in a.items()}, "head size 32"),
    (lambda a: a | {"k": a["k"].astype(np.float32)}, "k has dtype"),
    (lambda a: a | {"lse": a["lse"].T.copy()}, "heads x tokens"),
])
def test_bad_operands_name_the_rule(change, says):
    given = change(dict(zip(("q", "k", "v", "o", "d_o", "lse"), operands(64, heads=3), strict=True)))
    with pytest.raises(OperandError, match=says):
        backward.backward(**given, dq=np.zeros_like(given["v"]), dk=np.zeros_like(given["v"]), dv=np.zeros_like(given["v"]), length=64, backend="emulator")


def test_more_that_cannot_be_launched():
    given, made = operands(64, d=128), [np.zeros((64, 1, 128), BF16) for _ in range(3)]
    with pytest.raises(OperandError, match="no whole number of sequences"):
        backward.backward(*given, *made, 60, backend="emulator")
    with pytest.raises(OperandError, match="with one consumer"):
        backward.backward(*given, *made, 64, choice=Backward(consumers=1), backend="emulator")


@pytest.mark.parametrize("choice", [*backward.STEPS.values(), Backward(stages=1, group=3)], ids=str)
def test_a_configuration_is_read_back_from_its_options(choice):
    assert backward.parsed(choice.named) == choice
    with pytest.raises(ValueError, match="has no TURNS"):
        backward.parsed((*choice.named, "TURNS=1"))
