# SPDX-License-Identifier: Apache-2.0
"""What the recordings of the capstones decide: the configuration of each shape, read back from what was measured; and who is measured beside."""
import sys
import types

import numpy as np
import pytest

from hopperlab.hopper import limits
from hopperlab.measure.suites import attention, attention_fp8, fp8, fp8_operands
from hopperlab.measure.launches import attention as launches_attention, attention_fp8 as launches_attention_fp8, fp8 as launches_fp8
from hopperlab.measure.recordings import Record


def test_every_configuration_fits_in_shared_memory():
    assert [name for name, choice in fp8.CONFIGURATIONS.items() if choice.shared_bytes > limits.SHARED_PER_BLOCK] == []
    for suite in (attention, attention_fp8):
        assert [name for name, (d, choice) in suite._named().items() if choice.shared_bytes(d) > limits.SHARED_PER_BLOCK] == []


def test_a_configuration_is_read_back_from_its_record():
    for choice in fp8.CONFIGURATIONS.values():
        assert launches_fp8.parsed(fp8.named(choice)) == choice
    for _, choice in attention._named().values():
        assert launches_attention.parsed(choice.named) == choice
    for _, choice in attention_fp8._named().values():
        assert launches_attention.parsed(choice.named, launches_attention_fp8.ForwardFp8) == choice


@pytest.mark.parametrize("parsed", [launches_fp8.parsed, launches_attention.parsed])
def test_an_option_that_is_gone_is_an_error(parsed):
    with pytest.raises(ValueError, match="has no gone"):
        parsed(("GONE=1",))


@pytest.mark.parametrize("shape", [*fp8.SHAPES, (1, 8, 16), (300, 5000, 4096), (64, 64, 64)])
def test_every_shape_gets_a_configuration_whose_grid_covers_it(shape):
    m, n, k = shape
    choice = launches_fp8.choose(m, n, k)
    grid = choice.grid(m, n)
    assert choice.group or grid[0] * choice.bn >= n and grid[1] * choice.bm >= m
    assert choice.group == 0 or 0 < grid[0] <= 132


@pytest.mark.parametrize("length", [1, 100, 1024, 1500, 16384, 10 ** 6])
@pytest.mark.parametrize("d", launches_attention.HEAD_SIZES)
def test_every_length_gets_a_configuration_that_was_measured(d, length):
    """That of the nearest length in the table, or one for short sequences."""
    chosen = launches_attention.choose(d, True, length)
    known = {size: choice for (head, causal, size), choice in launches_attention.table().items() if (head, causal) == (d, True)}
    if length < launches_attention.LONG and length not in known:
        assert chosen in [short.choice for short in launches_attention.SHORT[d].values() if short.suits(True)]
    else:
        assert chosen in (list(known.values()) or [launches_attention.BY_HEAD_SIZE[d]]) and chosen == known.get(length, chosen)
    assert launches_attention_fp8.choose(d, True, length).promoted          # whatever was measured: sums that lose nothing


def test_work_of_a_cell():
    assert attention.flop(128, False, 4096) == 4 * 4 * 16 * 4096 ** 2 * 128
    assert attention.flop(128, True, 4096) == attention.flop(128, False, 4096) // 2


def test_table_of_fp8_attention_names_gains_and_errors():
    times = {"ms": 1.0, "ms_min": 1.0, "ms_max": 1.0, "ratio": 1.5, "ratio_min": 1.4, "ratio_max": 1.6, "peer": "cuDNN", "peer_value": 400.0}
    cell = {"options": ("D=128", "full"), "shape": (4, 4096, 16, 128)}
    records = [Record("attention_fp8", "forward_fp8", note="128", tflops=700.0, **cell, **times), Record("attention_fp8", "bf16", tflops=500.0, **cell, **times),
               Record("attention_fp8", "final", tflops=750.0, **{**cell, "options": ("D=128", "full", "BN=128")}, **times),
               Record("attention_fp8", "accuracy", ("promoted", "normal"), (256, 1024, 4, 128), "e4m3", value=1e-3, value_max=2e-3, note="error")]
    text = attention_fp8.shown(records)
    assert "D=128 full 4096: 750, bf16 500: 1.50" in text and "128 700 (1.500)" in text and "mean 1.00e-03 worst 2.00e-03" in text


def test_a_configuration_is_right_only_at_every_shape(capsys):
    from hopperlab.measure.suites import attention
    asked = []
    assert attention.every_shape("64: drawn", lambda *lengths: lengths, lambda given, causal: float(asked.append((given, causal)) or 0)) == 0
    assert len(asked) == 2 * len(attention.CHECKS) and "64: drawn: right at 6 shapes" in capsys.readouterr().out
    assert attention.every_shape("64: drawn", lambda *lengths: lengths, lambda given, causal: 0.25 * causal) == 1
    assert "25.00% wrong at [1] [1] causal" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["attention", "attention_fp8"])
def test_each_configuration_is_checked_twice_with_its_own_launch(module, monkeypatch):
    import importlib
    measured = importlib.import_module(f"hopperlab.measure.suites.{module}")
    calls = []
    monkeypatch.setattr(measured, "operands", lambda *given: given)
    monkeypatch.setattr(measured, "make", lambda given, causal, choice: (given, causal, choice))
    monkeypatch.setattr(measured, "wrong", lambda given, causal, launch: calls.append(launch) or 0.0)
    name = next(iter(measured._named()))
    assert measured.check(name) == 0 and len(calls) == 2 * 2 * 3 and all(call[2] == measured._named()[name][1] for call in calls)


def test_deepgemm_gets_the_same_operands_where_it_can_be_imported(monkeypatch):
    a_scales = types.SimpleNamespace(t=np.arange(2 * 132.0).reshape(2, 132).transpose)      # a tensor's t()
    given = {"tensors": {"a": np.zeros((130, 256)), "b": np.zeros((264, 256)), "a_scales": a_scales, "b_scales": np.ones((3, 2)), "c": np.zeros((130, 264))}}
    calls = []
    monkeypatch.setitem(sys.modules, "deep_gemm", types.SimpleNamespace(fp8_gemm_nt=lambda a, b, c, *rest, **named: calls.append((a, b, c, named))))
    fp8_operands.deepgemm(given)()
    (a, a_scales), (b, b_scales), c, named = calls[0]
    assert a_scales.shape == (130, 2) and a_scales[129, 1] == 132 + 129 and named == {"disable_ue8m0_cast": True}
    assert a is given["tensors"]["a"] and b is given["tensors"]["b"] and b_scales is given["tensors"]["b_scales"] and c is given["tensors"]["c"]
    monkeypatch.setitem(sys.modules, "deep_gemm", None)         # import raises ImportError
    assert fp8_operands.deepgemm(given) is None


def test_the_last_lines_are_the_means_over_the_shapes():
    cell = dict(shape=(8, 8, 8), dtype="e4m3", ms=1.0, ms_min=1.0, ms_max=1.0, tflops=2.0, ratio_min=1.0, ratio_max=2.0, peer="cuBLASLt block-scaled")
    final = [Record("fp8", "final", ratio=ratio, **{**cell, "shape": (size,) * 3}) for ratio, size in ((1.0, 8), (4.0, 16))]
    assert fp8.shown(final).endswith("final, geometric mean: 2.000 (1.000 to 4.000) over 2 cells of cuBLASLt block-scaled")
    assert fp8.shown([*final, Record("fp8", "DeepGEMM", ratio=0.5, **cell)]).endswith("DeepGEMM, geometric mean: 0.500 (0.500 to 0.500) over 1 cell of "
                                                                                      "cuBLASLt block-scaled")
