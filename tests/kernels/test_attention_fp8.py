# SPDX-License-Identifier: Apache-2.0
"""fp8 attention: float64's result of the quantised numbers on awkward lengths, heads that share k and v, causal or not, under every schedule, without a
hazard; and every key of v counted with its own p."""
import ml_dtypes
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.hopper import limits
from hopperlab.measure.launches import attention_fp8 as fp8
from hopperlab.measure.launches.attention_fp8 import ForwardFp8
from hopperlab.measure.launches.operand_checks import OperandError
from hopperlab.runtime.library import load_kernel
from hopperlab.runtime.sass.sass import sass

# A score that differs in its last bits turns a p that lies between two numbers of e4m3 to the other one, 2^-3 of it away.
pytestmark = pytest.mark.sums_of_fp8(2.0 ** -4, 1e-3)

BF16 = ml_dtypes.bfloat16
SEQUENCES = {"one each": ([1], [1]), "odd": ([67, 130], [131, 33]), "more queries": ([150], [70]), "whole": ([128], [256]), "none": ([64, 3], [0, 5])}
WAYS = {"promoted": ForwardFp8(blocks=2), "by the tensor core": ForwardFp8(promoted=0, blocks=0), "in parts": ForwardFp8(bn=64, wide=64, blocks=2),
        "held": ForwardFp8(bn=64, held=1, blocks=2), "held, in parts": ForwardFp8(bn=96, wide=64, held=1, blocks=2),
        "one warpgroup": ForwardFp8(bn=64, consumers=1, overlap=0, turns=0, promoted=0, blocks=0)}


def packed(q_lengths, k_lengths, heads, kv_heads, d, seed=0, size=1.0):
    """q, k, v in e4m3, their scales, and where sequences begin."""
    rng = np.random.default_rng([seed, d, *q_lengths, *k_lengths])
    starts = [np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32) for lengths in (q_lengths, k_lengths)]
    shapes = [(starts[i][-1], h, d) for i, h in ((0, heads), (1, kv_heads), (1, kv_heads))]
    made = [fp8.quantise(size * rng.standard_normal(shape) * rng.uniform(0.5, 2, (shape[1], 1))) for shape in shapes]
    return [x for x, _ in made], [s for _, s in made], starts


def launched(numbers, scales, starts, causal, choice, schedule="lazy", seed=0, scale=None):
    """(o, lse) of one hazard-free run."""
    q, heads = numbers[0], numbers[0].shape[1]
    o, lse = np.full(q.shape, np.nan, BF16), np.full((heads, len(q)), np.nan, np.float32)
    launch = fp8.forward_fp8(*numbers, o, lse, *scales, *starts, causal, scale, choice, backend="emulator")
    with hl.emulate(schedule=schedule, seed=seed, hazards="raise"):
        launch()
    return o.astype(np.float64), lse


def run(lengths, d=64, heads=2, kv_heads=1, causal=False, choice=None, schedule="lazy", seed=0, size=1.0):
    given = packed(*lengths, heads, kv_heads, d, seed, size)
    o, lse = launched(*given, causal, choice, schedule, seed)
    numbers, scales, starts = given
    expected, expected_lse = fp8.reference(*numbers, *scales, *starts, causal)
    # o is rounded to bf16 once; what rounding p costs, `rounding` derives.
    bound = fp8.rounding(*numbers, *scales, *starts, causal) + 2.0 ** -8 * np.abs(expected) + 1e-6
    assert (np.abs(o - expected) <= bound).all()
    with np.errstate(invalid="ignore"):
        assert ((lse == expected_lse) | (np.abs(lse - expected_lse) <= 2e-5 * np.maximum(1, np.abs(expected_lse)))).all()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.sampled(every=5)
def test_awkward_lengths(name, causal):
    run(SEQUENCES[name], causal=causal)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sampled(every=4)
def test_every_way_to_sum_up(way):
    run(([130, 67], [200, 90]), d=128 if "parts" in way else 64, causal=True, choice=WAYS[way])


@pytest.mark.parametrize("d", fp8.HEAD_SIZES)
@pytest.mark.sampled(every=3)
def test_every_head_size(d):
    run(([130, 3], [140, 60]), d=d, heads=4, kv_heads=2, causal=True)


@pytest.mark.parametrize("choice", [ForwardFp8(bn=160, stages=3, blocks=3), ForwardFp8(bn=128, consumers=3, promoted=0, blocks=2),
                                    ForwardFp8(bn=224, promoted=0, blocks=1),
                                    ForwardFp8(bn=64, group=3, turns=0, blocks=5)], ids=str)
@pytest.mark.sampled(every=4)
def test_other_configurations(choice):
    run(([260, 30], [100, 250]), heads=2, kv_heads=2, causal=True, choice=choice)


@pytest.mark.parametrize("schedule, seed", [("eager", 0), ("random", 1), ("late-wgmma", 0), ("late-copies", 0)])
@pytest.mark.parametrize("d", [64, 128])
@pytest.mark.sampled(every=5)
def test_under_every_schedule(d, schedule, seed):
    run(([130, 60], [260, 90]), d=d, heads=1, causal=True, choice=ForwardFp8(blocks=2, bn=64), schedule=schedule, seed=seed)


@pytest.mark.parametrize("bn, d", [(64, 128), (128, 64), (160, 64), (64, 256)])
@pytest.mark.sampled(every=4)
def test_each_query_finds_its_own_key(bn, d):
    """Scores that single one key out make o that key's v, exactly: a key in another's place, in p or in V^T, would show."""
    keys = 200
    rng = np.random.default_rng(bn)
    k = rng.choice([-8.0, 8.0], (keys, 1, d)).astype(ml_dtypes.float8_e4m3fn)
    v = rng.integers(-15, 16, (keys, 1, d)).astype(ml_dtypes.float8_e4m3fn)
    of, one, starts = rng.permutation(keys), np.ones(1, np.float32), np.array([0, keys], np.int32)
    o, _ = launched([k[of], k, v], [one] * 3, [starts, starts], False, ForwardFp8(bn=bn, stages=1, consumers=1, overlap=0, promoted=0), scale=1.0)
    assert (o == v[of].astype(np.float64)).all()


def test_equal_scores_give_the_mean_exactly():
    """p is 256 for every key that is seen: sums of small integers, which fp32 holds."""
    lengths, d = np.array([0, 150], np.int32), 64
    rng = np.random.default_rng(3)
    q, k, v = (rng.integers(low, 9, (150, 1, d)).astype(ml_dtypes.float8_e4m3fn) for low in (-8, 8, -8))
    o, lse = launched([0 * q, k, v], [np.full(1, s, np.float32) for s in (1, 1, 0.5)], [lengths, lengths], True, ForwardFp8(bn=64))
    mean = 0.5 * np.cumsum(v[:, 0].astype(np.float64), axis=0) / np.arange(1, 151)[:, None]
    assert (np.abs(o[:, 0] - mean) <= 2.0 ** -8 * np.abs(mean)).all()
    assert np.abs(lse[0] - np.log(np.arange(1, 151))).max() < 1e-5


@pytest.mark.parametrize("bn, d", [(64, 64), (128, 128), (160, 64)])
def test_the_transpose_has_no_bank_conflicts(bn, d):
    """In every swizzle, of 32 (keys of 160), 64 and 128 bytes: each byte of v is read once and written once, 128 a wavefront."""
    numbers, scales, starts = packed([64], [bn], 1, 1, d)
    o, lse = np.zeros(numbers[0].shape, BF16), np.zeros((1, 64), np.float32)
    launch = fp8.forward_fp8(*numbers, o, lse, *scales, *starts, choice=ForwardFp8(bn=bn, consumers=1, overlap=0, promoted=0), backend="emulator")
    with hl.emulate() as session:
        launch()
    assert session.counters["shared_load_conflicts"] == session.counters["shared_store_conflicts"] == 0
    assert session.counters["shared_store_wavefronts"] == bn * d // 128 + 2          # and twice the number of the tile


@pytest.mark.emulator_only                      # scores in the thousands: their last bits decide which key wins
def test_large_magnitudes_overflow_nothing():
    run(([65], [200]), d=128, heads=1, size=30.0)


@pytest.mark.parametrize("d", fp8.HEAD_SIZES)
def test_what_is_chosen_fits_without_spills_and_nothing_is_serialised(d):
    numbers, scales, starts = packed([64], [64], 1, 1, d)
    o, lse = np.zeros(numbers[0].shape, BF16), np.zeros((1, 64), np.float32)
    launch = fp8.forward_fp8(*numbers, o, lse, *scales, *starts, backend="emulator")
    assert "C75" not in launch.kernel.module.log
    assert launch.kernel.use.spill_stores == 0
    assert launch.shared_mem <= limits.SHARED_PER_BLOCK


def test_quantised_heads_stand_for_the_originals():
    values = np.random.default_rng(9).standard_normal((50, 3, 64)) * [[1e-3], [1], [1e4]]
    bits, scales = fp8.quantise(values)
    back = bits.astype(np.float64) * scales[:, None]
    assert (np.abs(back - values) <= 2.0 ** -4 * np.abs(values) + 2.0 ** -10 * scales[:, None] * 1.01).all()
    assert (np.abs(bits.astype(np.float32)).max(axis=(0, 2)) == 448).all()


@pytest.mark.parametrize("change, says", [
    (lambda a: a | {"q": a["q"][:, :, :32].copy(), "o": a["o"][:, :, :32].copy()}, "head size 32"),
    (lambda a: a | {"k": a["k"].astype(BF16)}, "k has dtype bfloat16"),
    (lambda a: a | {"o": a["o"].astype(np.float32)}, "o has dtype float32"),
    (lambda a: a | {"v": a["v"][:, :1].copy()}, "must be alike"),
    (lambda a: a | {"k_scale": a["k_scale"][:1].copy()}, "k_scale has shape"),
    (lambda a: a | {"q_scale": -a["q_scale"]}, "greater than 0"),
    (lambda a: a | {"v_scale": a["v_scale"].astype(np.float64)}, "v_scale has dtype"),
    (lambda a: a | {"k_starts": np.array([0, 10, 64], np.int32)}, "sequences"),
])
def test_bad_operands_name_the_rule(change, says):
    (q, k, v), (q_scale, k_scale, v_scale), (qs, ks) = packed([64], [64], 2, 2, 64)
    given = {"q": q, "k": k, "v": v, "o": np.zeros(q.shape, BF16), "lse": np.zeros((2, 64), np.float32),
             "q_scale": q_scale, "k_scale": k_scale, "v_scale": v_scale, "q_starts": qs, "k_starts": ks}
    with pytest.raises(OperandError, match=says):
        fp8.forward_fp8(**change(given), backend="emulator")


@pytest.mark.parametrize("held, told", [(0, ["product", "wait", "exponential"]), (1, ["product", "wait", "exponential", "wait"])])
def test_ptxas_leaves_the_wait_for_the_values_behind_the_softmax_where_it_is_held(held, told):
    kernel = load_kernel(ForwardFp8.SOURCE, "attention", ForwardFp8(held=held).options(128, False), backend="emulator")
    code = sass(kernel)
    loop = min((loop for loop in code.loops if any("GMMA" in code.instructions[i].opcode for i in loop)), key=len)
    known = {"QGMMA": "product", "WARPGROUP.DEPBAR": "wait", "MUFU.EX2": "exponential"}
    order = [name for i in loop for opcode, name in known.items() if code.instructions[i].opcode.startswith(opcode)]
    seen = [name for k, name in enumerate(order) if not k or name != order[k - 1]]
    assert seen[:len(told)] == told and seen[len(told):] in ([], ["exponential"])
