# SPDX-License-Identifier: Apache-2.0
"""What CTAs that run at the same time load together, and what memory brings because of it."""
from dataclasses import replace

import numpy as np
import pytest

from hopperlab.estimates import boards, chip, estimating, programs, readings, sample, wave
from hopperlab.estimates.costs import single
from hopperlab.estimates.together import Together
from hopperlab.measure.launches import gemm, micro, variants
from hopperlab.measure.launches import launch as steps

H200 = boards.board("h200")


def planned(launch):
    return sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)[0]


def arrays(m, n, k):
    return np.zeros((m, k), np.uint16), np.zeros((n, k), np.uint16), np.zeros((m, n), np.uint16)


@pytest.mark.parametrize("make", [variants.VARIANTS["tma_wgmma"], steps.mma_multistage], ids=["boxes", "cp.async"])
def test_ctas_of_a_wave_share_rows_of_a_and_columns_of_b(make):
    """Six tiles of 128 x 128, two by three: of A two different rows of tiles are wanted, three times each."""
    a, b, c = arrays(256, 384, 1024)
    launch = make(a, b, c, backend="emulator")
    told = wave.together(planned(launch), 132)
    assert sorted(round(told.share(address), 3) for address in told.asked) == [round(2 / 6, 3), round(3 / 6, 3)]
    assert told.share(0) == 0, "nothing is said of an array of which no load was seen"


def test_stretches_that_begin_anywhere_share_nothing():
    a, b, c = arrays(128, 1024, 2560)                     # eight tiles of 40 k-blocks over eleven CTAs
    launch = gemm.stream_k(a, b, c, gemm.StreamK(bn=128, blocks=11), backend="emulator")
    told = wave.together(planned(launch), 132)
    assert max(told.share(address) for address in told.asked) == 1


def test_a_later_wave_finds_in_the_l2_what_has_not_been_pushed_out():
    shares = Together({1: 100.0, 2: 100.0}, {1: 25.0, 2: 50.0})
    kept, gone = H200.number("l2_keeps"), H200.number("l2_forgets")

    def brought(size, rounds):
        return chip.missed({1: (40 * size, size), 2: (40 * size, size)}, 0.0, shares, H200, rounds) / size
    assert brought(kept / 2, 1) == 2, "both arrays fit"
    assert brought(gone, 10) == pytest.approx(30), "a quarter and half of what is loaded"
    assert brought(gone, 30 * gone / kept) == 2, "so little between two waves that it is still there"
    assert 2 < brought(gone, 60 * gone / (kept + gone)) < 30
    assert chip.missed({1: (1e9, 1e8)}, 0.0, None, H200, 10.0) == 1e8


def test_memory_brings_what_nsight_compute_counted():
    """The last kernel at 4096 cubed, without Nsight's own choice of a configuration: its tiles go in groups of 16 rows."""
    counted = next(r.value for r in readings.stored("profiles", "h200") if r.kernel == "final" and r.options == ("4096",) and r.note == "traffic: memory read")
    launch = gemm.final(*arrays(4096, 4096, 4096), backend="emulator")
    found = estimating.sampled(planned(launch), "final")
    assert chip.simulate(found, H200).traffic.unique == pytest.approx(1e6 * counted, rel=0.2)


def test_what_the_l2_holds_comes_once_whatever_the_order():
    launch = variants.VARIANTS["tma_wgmma"](*arrays(256, 384, 1024), backend="emulator")
    found = sample.typical(planned(launch))
    assert chip.traffic(replace(found, wave=wave.of(found)), 1.0, H200, 1.0).unique == 2 * (256 + 384) * 1024
    once = variants.VARIANTS["tma_wgmma"](*arrays(128, 128, 1024), backend="emulator")
    assert wave.of(sample.typical(planned(once))) is None, "nothing is loaded twice"


@pytest.mark.parametrize("cluster, multicast, paired", [(1, False, 0.0), (2, False, 0.5), (2, True, 0.0)])
def test_ctas_of_a_cluster_that_load_the_same_are_found(cluster, multicast, paired):
    launch = micro.multicast(np.zeros((16384, 128), np.uint16), cluster, multicast, 128, backend="emulator")
    told = wave.together(planned(launch), 128)
    assert sum(told.paired.values()) == pytest.approx(paired * sum(told.asked.values())) and not sum(told.near.values())


@pytest.mark.parametrize("boxes, share", [(128, 1.0), (1024, 0.0)])
def test_boxes_that_a_cta_asks_for_again_and_again_are_found_and_take_the_l2_longer(boxes, share):
    """128 CTAs: each asks for the same box all the time, or for one of its eight after the other."""
    launch = micro.multicast(np.zeros((64 * boxes, 256), np.uint16), 1, False, 128, passes=8, backend="emulator")
    planned, _kept = sample.planned(launch.kernel, launch.grid, launch.block, launch.args, launch.shared_mem)
    told = wave.together(planned, 128)
    assert list(told.repeated.values()) == [share]
    array, found = next(iter(told.asked)), sample.run(planned)
    plain, again = (chip.merged(replace(found, wave=one), {array: 1.0}, H200, 1.0) for one in (replace(told, repeated={}), told))
    assert again / plain == pytest.approx(1 + (H200.number("l2_again") - 1) * share)


def test_stores_of_parts_of_sectors_take_longer():
    """Eight rows of 16 bytes per warp instruction: half of each sector."""
    launch = variants.VARIANTS["tma_wgmma"](*arrays(128, 128, 256), backend="emulator")
    found = sample.typical(planned(launch))
    stored = [i for i in found.machine.body if i.op == "st" and "global" in i.mods and found.counts.get(i.index, {}).get("global_store_requests")]
    assert stored and single(stored[0], found.counts.get(stored[0].index, {}), H200).stored == pytest.approx(8 * 32 * H200.number("store_parts"))
    pricers = [programs.Pricer(replace(found, wave=wave.Together(new=new)), H200) for new in (False, True)]
    pricers += [programs.Pricer(replace(found, wave=wave.Together(new=True), total=total), H200) for total in (66, 264, 5280)]
    each = [pricer.piece(stored[0].index, stored[0].index + 1)[0].stored / (8 * 32) for pricer in pricers]
    alone, few, all_of_them = (H200.number(f"store_parts{name}") for name in ("", "_few", "_apart"))
    assert each[0] == each[3] == pytest.approx(alone), "two short tiles an SM end at the same time"
    assert each[2::2] == pytest.approx([(few + all_of_them) / 2, all_of_them]), "less so where tiles end at different times"
    assert few < each[1] < each[2] and found.total < 66, "and the less, the fewer SMs store"


def test_what_goes_to_another_cta_of_the_cluster_takes_the_time_that_was_measured():
    """Split-k: each thread stores 16 bytes at a time into the other CTA's shared memory."""
    launch = gemm.split_k(*arrays(128, 128, 256), gemm.SplitK(), backend="emulator")
    found = sample.typical(planned(launch))
    sent = [i for i in found.machine.body if found.counts.get(i.index, {}).get("dsmem_store_bytes")]
    assert sent and single(sent[0], found.counts.get(sent[0].index, {}), H200).port == pytest.approx(32 * 16 / H200.number("dsmem_store"))
