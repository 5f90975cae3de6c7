# SPDX-License-Identifier: Apache-2.0
"""Tiles, or CTAs, of the last round, which only a part of all places has: there the L2 and memory serve fewer SMs."""
from dataclasses import replace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, cut, estimating, l2_and_memory, programs, sample
from hopperlab.measure.launches import gemm
from hopperlab.measure.launches.gemm_configurations import Final

H100 = boards.board("h100")


def sampled(m, n, k, **more):
    choice = Final(**{"bm": 128, "bn": 64, "consumers": 2, "stages": 4, "cluster_m": 1, "cluster_n": 1, "group": 0, "stagger": 0, **more})
    launch = gemm.final(np.zeros((m, k), np.uint16), np.zeros((n, k), np.uint16), np.zeros((m, n), np.uint16), choice, backend="emulator")
    plan, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    return estimating.sampled(plan, "final")


def last_round(monkeypatch, found):
    """(What cut.last_round says of a sample, cycles of its launch, and cycles as if every place had the last one.)"""
    seen, ask = [], cut.last_round
    monkeypatch.setattr(cut, "last_round", lambda *given: seen.append(ask(*given)) or seen[-1])
    few = chip.simulate(found, H100).cycles
    monkeypatch.setattr(cut, "last_round", lambda *given: (1, 1.0))
    return seen[0], few, chip.simulate(found, H100).cycles


def test_a_last_round_for_a_part_of_the_chip_takes_less_time(monkeypatch):
    """176 tiles of a CTA each."""
    (rounds, part), few, every = last_round(monkeypatch, sampled(2048, 704, 1024))
    assert rounds == 2 and part == pytest.approx(44 / 132)
    assert 0.75 * every < few < 0.995 * every


def test_ctas_that_go_from_tile_to_tile_have_a_last_round_too():
    """176 tiles, which final.cu's launch deals to 88 CTAs, two each; and as if it had dealt them to 132, and to 170."""
    found = sampled(2048, 704, 512, group=8, blocks=132)
    actors = programs.programs(found, H100)
    assert found.total == 88 and cut.last_round(found, actors, 88, 1) == (1, 1.0)
    assert cut.last_round(replace(found, total=132), actors, 132, 1) == (2, pytest.approx(1 / 3))
    assert cut.last_round(replace(found, total=90), actors, 90, 1) == (1, 1.0), "nearly all have the second one"
    assert cut.last_round(replace(found, total=170, asked=9), actors, 170, 1) == (1, 1.0), "shared along k"


def test_a_last_round_for_all_is_as_the_others(monkeypatch):
    (rounds, part), few, every = last_round(monkeypatch, sampled(128 * 12, 64 * 11, 256))
    assert part == 1 and few == every


def test_what_the_last_places_have_is_what_fewer_sms_have():
    moved = chip.Traffic(1e6, 0.0, 1e6)
    everywhere = chip.Part(sampled(1536, 704, 256), H100, [], 132, 2, 1.0, 2.0).memory(moved)
    third = l2_and_memory.serving(everywhere, H100, 44, moved.merged, moved.mixed)
    assert third.dram == pytest.approx(3 * everywhere.dram) and third.l2 > everywhere.l2 and third.missed == everywhere.missed
