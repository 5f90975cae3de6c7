# SPDX-License-Identifier: Apache-2.0
"""Verdicts are computed: all 43 claims are there, and when the data changes, so does the verdict."""
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hopperlab.measure.claims import claims, pipelines, sources
from hopperlab.measure import recordings
from hopperlab.measure.claims.claims import FALSE, HOLDS, OPEN, Data


def changed(name, change):
    """The recordings with every record of `name` sent through `change` (a Record or None to leave it)."""
    recording = recordings.load(name)
    records = tuple(change(record) or record for record in recording)
    return Data({name: replace(recording, records=records)})


def verdict(number, data=None):
    return claims.settle(data or Data(), [number])[number][1].verdict


def test_a_claim_says_where_it_stands_or_what_it_is_held_against():
    """Articles by title and section, specifications by section; the report prints it under the claim, and says where nothing was found."""
    assert set(sources.SAID) | set(sources.SPECIFIED) == set(range(1, 44)) - {2}
    assert all("section" in place for place in sources.SAID.values())
    assert all(re.search(r"\d+\.\d+|cuTensorMap\w+: \w|cuda::", place) for place in sources.SPECIFIED.values())
    told = " ".join(claims.report(numbers=[32, 33, 17, 5, 2]).split())
    assert 'alone cannot hide latency. (said in NVIDIA: CUTLASS documentation, "Efficient GEMM in CUDA", section "Pipelining")' in told
    assert "held against PTX ISA 9.7.9.25.6.2 (cp.async.bulk.wait_group))" in told and "2501.12084" in told
    assert "naming a direction; held against PTX ISA 9.7.9.25.4.2" in told
    assert f"only who computes addresses changes. ({sources.NOT_FOUND}) TMA over" in told and told.count(sources.NOT_FOUND) == 1


def test_every_claim_has_a_verdict_figures_and_a_lesson():
    found = claims.settle()
    assert sorted(found) == list(range(1, 44))
    for claim, finding in found.values():
        assert finding.verdict in (HOLDS, FALSE, OPEN) or finding.verdict.startswith("holds when ")
        assert len(finding.figures) > 20 and claim.lesson[:2].isdigit() and claim.text.endswith(".")
    assert sum(claims.tally().values()) == 43


def set_value(kernel, value, *options):
    return lambda r: replace(r, value=value) if r.kernel == kernel and set(options) <= set(r.options) else None


@pytest.mark.parametrize(("number", "now", "name", "change", "then"), [
    (1, HOLDS, "micro", set_value("cp_async_load", 50.0, "step=box of 64 x 64", "class=all"), FALSE),
    (13, "holds when", "micro", set_value("descriptor_fetch", 392.0), FALSE),
    (14, "holds when", "micro", set_value("tma_latency", 100.0, "HOW=bulk"), HOLDS),
    (14, "holds when", "micro", lambda r: replace(r, value=1000.0 * r.shape[0] * r.shape[1]) if r.kernel == "tma_latency" and "from=memory" in r.options
     and r.shape else None, FALSE),
    (3, "holds when", "micro", set_value("tma_load", 400.0, "step=box of 64 x 64", "class=integer"), FALSE),
    (8, "holds when", "micro", lambda r: replace(r, outcome="wrong") if r.kernel == "tma_landing" else None, FALSE),
    (9, "holds when", "micro", lambda r: replace(r, outcome="wrong") if r.kernel == "tma_landing" else None, FALSE),
    (12, "holds when", "micro", lambda r: replace(r, outcome="accepted") if r.kernel == "ptxas sm_90a" else None, HOLDS),
    (27, FALSE, "micro", lambda r: replace(r, kernel="warp_specialized") if r.kernel == "cp_async_mma" and "class=memory" in r.options else None, HOLDS),
    (29, FALSE, "variants", lambda r: replace(r, registers=240) if r.kernel == "wgmma_operands" and "A=RS" in r.options else None, HOLDS),
    (17, FALSE, "micro", set_value("tma_latency", 390.0, "wait=cp.async.bulk.wait_group"), HOLDS),
    (19, "holds when", "micro", set_value("swizzle_reads", 32.0, "swizzle=128B", "access=column, 16 bytes"), FALSE),
    (22, "holds when", "micro", set_value("mbarrier_round_trip", 5000.0), FALSE),
    (25, "holds when", "micro", set_value("mma_rate", 192.0, "until=issued"), HOLDS),
    (15, "holds when", "micro", set_value("multicast_load", 1.0, "CLUSTER=4", "MULTICAST=1", "metric=l1tex__m_xbar2l1tex_read_bytes.sum"), FALSE),
    (26, "holds when", "micro", set_value("wgmma_rate", 64.0, "N=256", "A=SS", "warpgroups=2"), HOLDS),
    (32, HOLDS, "roles", lambda r: replace(r, registers=300) if r.note == "128x256, as at entry" else None, FALSE),
    (33, HOLDS, "variants", lambda r: replace(r, tflops=400.0) if r.kernel == "multistage" else None, "holds when"),
    (35, "holds when", "variants", lambda r: replace(r, tflops=470.0) if r.kernel == "multistage" else None, FALSE),
    (37, "holds when", "variants", lambda r: replace(r, tflops=100.0) if r.kernel == "warp_specialized" else None, FALSE),
    (39, FALSE, "variants", lambda r: replace(r, tflops=600.0) if "WAIT_FOR_OWN_LOAD=1" in r.options else None, HOLDS),
    (40, "holds when", "roles", lambda r: replace(r, tflops=600.0), FALSE),
    (41, "holds when", "micro", set_value("exchange", 4000.0, "how=st.async"), FALSE),
    (42, FALSE, "peers", lambda r: replace(r, ratio=1.5) if r.kernel == "Triton" else None, HOLDS),
    (31, FALSE, "bugs", lambda r: replace(r, wrong=0) if r.options == ("BUG_EARLY_RELEASE",) else None, HOLDS)])
def test_the_verdict_follows_the_data(number, now, name, change, then):
    assert verdict(number).startswith(now)
    assert verdict(number, changed(name, change)).startswith(then)


def test_a_missing_record_is_named():
    with pytest.raises(LookupError, match="micro has 0 records of nothing"):
        Data().value("micro", "nothing")
    with pytest.raises(LookupError, match="not one"):
        Data().find("micro", "exchange")


def test_a_pipeline_copies_by_cp_async_and_a_barrier_in_bulk(monkeypatch):
    """Claim 34, both halves: take the second away and nothing of it holds."""
    assert verdict(34).startswith("holds when memcpy_async has a cuda::barrier")
    monkeypatch.setattr(pipelines, "BY_BARRIER", 'extern "C" __global__ void by_barrier() {}')
    assert verdict(34) == FALSE


def test_what_no_measurement_decides_says_so():
    for number in (16, 43):
        assert claims.settle(Data(), [number])[number][1].figures.startswith(("by the documents: ", "no measurement, but their sources: "))


def test_a_mode_that_no_later_assembler_takes_is_none(monkeypatch):
    """Claim 12, its second half: Blackwell's assembler is asked, and the verdict follows it."""
    from hopperlab.measure.claims import copies
    assert copies._on_blackwell(copies.GATHER4) and copies._on_blackwell(copies.SCATTER4) and verdict(12).startswith("holds when said of Blackwell")
    monkeypatch.setattr(copies, "assembles", lambda ptx, architecture: "gather4" in ptx)
    assert verdict(12) == FALSE


def test_what_multicast_gains_in_time_stands_in_the_verdict():
    """Claim 15: the largest gain of the recording, not a phrase; where it is more than half as much again, the claim holds as a whole."""
    assert verdict(15).endswith("times the speed at best")
    faster = changed("micro", lambda r: replace(r, value=1e9) if r.suite == "multicast" and {"CLUSTER=8", "MULTICAST=1"} <= set(r.options) else None)
    assert verdict(15, faster) == HOLDS


@pytest.mark.parametrize(("cell", "numbers"), [("copies", range(1, 19)), ("shared", range(19, 25)), ("tensor", range(25, 33)), ("pipelines", range(33, 44))])
def test_lesson_17_shows_what_the_functions_say_today(cell, numbers):
    """The stored outputs of an H200's recordings: verdict, figures and source of each claim."""
    notebook = json.loads((Path(__file__).parents[2] / "notebooks" / "17_claims_measured.ipynb").read_text(encoding="utf-8"))
    shown = next(found for found in notebook["cells"] if found["id"] == f"claims-{cell}")["outputs"][0]["text"]
    assert "".join(shown).rstrip("\n") == claims.report(Data({name: recordings.load(name, board="h200") for name in claims.NEEDED}), numbers)
