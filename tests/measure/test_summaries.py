# SPDX-License-Identifier: Apache-2.0
"""One summary for all: the geometric mean over every cell, the least and the most, and the names of what was left out."""
from dataclasses import replace

import numpy as np
import pytest

from hopperlab.measure import recordings, summaries
from hopperlab.measure.recordings import Record
from hopperlab.measure.summaries import Summary, summary


def test_mean_least_most_count():
    assert summary([0.5, 2.0, 4.0]) == Summary(pytest.approx(4 ** (1 / 3)), 0.5, 4.0, 3)
    assert str(summary([1.0, 4.0])) == "2.000 (1.000 to 4.000) over 2 cells" and str(summary([1.0])).endswith("over 1 cell")


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_exponential_of_the_mean_logarithm_whatever_the_side(seed):
    rng = np.random.default_rng(seed)
    ratios = np.exp(rng.normal(0, 1, rng.integers(1, 40)))
    found, other = summary(list(ratios)), summary(list(1 / ratios))
    assert found.mean == pytest.approx(np.exp(np.log(ratios).mean())) and found.mean * other.mean == pytest.approx(1)
    assert (found.least, found.most, found.count) == (ratios.min(), ratios.max(), len(ratios)) and found.least <= found.mean * (1 + 1e-12)


def test_what_is_left_out_is_named():
    found = summary({"full": 2.0, "causal": None, "both": 2.0})
    assert found == Summary(pytest.approx(2.0), 2.0, 2.0, 2, ("causal",)) and str(found).endswith("over 2 cells; left out: causal")
    with pytest.raises(ValueError, match="no ratio"):
        summary({"full": None})
    with pytest.raises(ValueError, match="no ratio"):
        summary([])


def record(ratio, mask="full", length=1024, **fields):
    return Record("attention", "final", ("D=64", mask), (16, length, 32, 64), "bfloat16", ratio=ratio, peer="cuDNN", **fields)


def test_masks_of_one_shape_are_two_cells():
    """Full and causal have one shape, and the better of them is not what the kernel reaches."""
    found = summaries.of_records([record(1.0), record(4.0, "causal"), record(None, length=2048)])
    assert (found.mean, found.least, found.count) == (pytest.approx(2.0), 1.0, 2)
    assert found.left_out == ("16x2048x32x64 bfloat16 D=64 full",)


def test_two_records_of_one_cell_are_an_error():
    with pytest.raises(ValueError, match="two records of final at 16x1024x32x64"):
        summaries.of_records([record(1.0), record(1.5)])


def test_contestants_are_told_apart_by_kernel_note_mode_and_family():
    records = [record(1.0), record(1.1, note="wide"), record(1.2, mode="sustained"), replace(record(1.3), peer="cuBLAS (torch)"),
               replace(record(1.4), peer="cuBLAS (cublasGemmEx)"), record(None), replace(record(1.0), kernel="cuDNN"), replace(record(1.0), options=("cuDNN",))]
    found = summaries.contestants(records)
    assert {key: [r.ratio for r in of] for key, of in found.items()} == {
        ("attention", "final", "", "", "cuDNN"): [1.0], ("attention", "final", "wide", "", "cuDNN"): [1.1],
        ("attention", "final", "", "sustained", "cuDNN"): [1.2], ("attention", "final", "", "", "cuBLAS"): [1.3, 1.4]}


@pytest.mark.parametrize("name", recordings.names())
def test_every_measured_ratio_of_a_recording_is_in_one_summary(name):
    """Nothing is merged: the cells of all summaries are the records that ran beside somebody else."""
    recording = recordings.load(name)
    found = summaries.contestants(recording)
    counted = sum(summaries.of_records(records).count for records in found.values())
    assert counted == sum(r.ratio is not None and summaries.family(r) not in (r.kernel, *r.options) for r in recording)


def test_attention_is_summarised_over_all_thirty_cells():
    records = recordings.load("attention").where(kernel="final")
    found = summaries.of_records(records)
    assert found.count == len(records) == 30 and len({record.shape for record in records}) == 15
    assert found.mean == pytest.approx(np.exp(np.mean([np.log(record.ratio) for record in records])))
    from hopperlab.measure.suites import attention
    assert attention.shown(records).endswith(f"final, geometric mean: {found} of cuDNN")
    assert "left out: d256 causal 16384" in attention.shown([r for r in records if r.options[:2] != ("D=256", "causal") or r.shape[1] != 16384])
