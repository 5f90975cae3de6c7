# SPDX-License-Identifier: Apache-2.0
"""run.timeline: complete, in order, plain data; printed on request; empty when switched off."""
import json

import numpy as np
import pytest
from support.emulated import run
from support.gemms import warp_specialized

import hopperlab as hl
from hopperlab.emulator.observe.timeline import KINDS

RING = r"""
extern "C" __global__ void k(const float* in, float* out) {
    __shared__ __align__(16) float tile[256];
    __shared__ mbarrier_t full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, 1024);
        cp_async_bulk_load(tile, in, 1024, &full);
    }
    mbarrier_wait_parity(&full, 0);
    for (int i = threadIdx.x; i < 256; i += 64) tile[i] += 1.0f;
    fence_proxy_async_shared_cta();
    __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_store(out, tile, 1024);
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
    }
}"""


def ring(**options):
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    session = run(RING, (x, y), block=(64,), **options)
    assert (y == x + 1).all()
    return session


def test_a_copy_is_issued_lands_flips_its_barrier_and_wakes_the_waiters():
    timeline = ring().timeline
    kinds = [(event.kind, event.what) for event in timeline if event.opcode.startswith(("cp", "mbarrier")) or event.kind == "flip"]
    order = [("arrive", "arrive mbarrier"), ("issue", "issue cp"), ("wait", "wait mbarrier"), ("land", "land cp"), ("flip", "phase flips"),
             ("wake", "wake mbarrier"), ("issue", "issue store cp"), ("land", "read store cp"), ("land", "land store cp")]
    places = [kinds.index(step) for step in order]
    assert places == sorted(places)
    assert {event.warp for event in timeline.of("wake") if "mbarrier" in event.what} == {0, 1}
    steps = [event.step for event in timeline]
    assert steps == sorted(steps) and {event.kind for event in timeline} == set(KINDS) - {"access"}


def test_accesses_are_events_of_their_own_between_the_others():
    plain, timeline = ring().timeline, ring(trace="accesses").timeline
    own = [event.what for event in timeline.of("access") if event.warp == 1]
    assert own[0] == own[-1] == "meet bar" and {"load shared", "store shared"} <= set(own) and len(timeline.of("access")) + len(plain) == len(timeline)
    assert not plain.of("access")


def test_with_accesses_copies_have_a_number_and_a_place():
    """The place counts from the beginning of the dynamic shared memory, here behind 16 bytes of barriers; the tile is static and lies before it."""
    timeline = ring(trace="accesses").timeline
    assert [event.detail for event in timeline if event.what in ("issue cp", "land cp")] == ["1024 bytes, copy 1"] * 2
    places = {event.what: int(event.detail) for event in timeline if event.what.startswith("place")}
    assert places.keys() == {"place cp", "place store cp"} and places["place cp"] == places["place store cp"] < 0


def test_with_accesses_a_copy_that_wgmma_reads_is_told_once():
    timeline = warp_specialized(128, 128, 256, trace="accesses")[2].timeline
    issued = {event.detail.partition(", ")[2] for event in timeline if event.what == "issue cp"}
    read = [event.detail for event in timeline if event.what == "multiply cp"]
    assert len(issued) == 8 and sorted(read) == sorted(issued)


def test_events_name_block_warp_line_and_barrier():
    timeline = ring().timeline
    issue = next(event for event in timeline if event.what == "issue cp")
    assert issue.block == 0 and issue.warp == 0 and issue.line > 0 and issue.file == "kernel.cu" and issue.detail == "1024 bytes"
    arrive = next(event for event in timeline if event.kind == "arrive")
    assert arrive.detail.endswith("expects 1024 bytes")
    barrier = arrive.detail.split(" expects")[0]
    assert next(event for event in timeline if event.kind == "flip").detail == barrier
    assert all(event.detail == f"{barrier} parity 0" for event in timeline if event.what == "wait mbarrier")


def test_every_wake_follows_a_wait_of_the_same_warp():
    timeline = warp_specialized(256, 128, 256)[2].timeline
    parked = set()
    for event in timeline:
        who = (event.block, event.warp)
        if event.kind == "wait":
            assert who not in parked
            parked.add(who)
        elif event.kind == "wake":
            parked.remove(who)
    assert timeline.of("wake")


def test_products_are_issued_and_land():
    timeline = warp_specialized(128, 128, 128)[2].timeline
    issued = [event for event in timeline if event.what == "issue wgmma"]
    landed = [event for event in timeline if event.what == "land wgmma"]
    assert len(issued) == len(landed) == 2 * 2 * 4 * 4                 # k-tiles, warpgroups, k-steps, warps
    assert all(event.opcode.startswith("wgmma.mma_async") for event in issued)


def test_cp_async_is_issued_and_lands():
    source = r"""extern "C" __global__ void k(const float4* in, float4* out) {
    __shared__ float4 tile[64];
    cp_async_cg_16(&tile[threadIdx.x], &in[threadIdx.x]);
    cp_async_commit_group();
    cp_async_wait_group<0>();
    out[threadIdx.x] = tile[threadIdx.x];
}"""
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    for schedule in ("lazy", "eager", "random"):
        timeline = run(source, (x, y), block=(64,), schedule=schedule, seed=3).timeline
        issued = [event.warp for event in timeline if event.what == "issue cp.async"]
        landed = [event.warp for event in timeline if event.what == "land cp.async"]
        assert issued == [0, 1] and set(landed) == {0, 1}


def test_the_timeline_is_plain_data():
    timeline = ring().timeline
    data = json.loads(json.dumps(timeline.as_dicts()))
    assert len(data) == len(timeline) and {"step", "kind", "what", "block", "warp", "line", "detail", "opcode"} <= set(data[0])
    assert repr(timeline).startswith(f"<timeline of {len(timeline)} events: ")
    with pytest.raises(ValueError, match="issue, land"):
        timeline.of("landing")


def test_trace_print_prints_each_event_once(capsys):
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    kernel = hl.RawModule(code='#include <hopperlab/tma.cuh>\n#include <hopperlab/fence.cuh>\n' + RING, backend="emulator").get_function("k")
    with hl.emulate(trace="print") as session:
        kernel((1,), (64,), (x, y))
    printed = capsys.readouterr().out.splitlines()
    assert printed == [str(event) for event in session.timeline]
    assert any("land cp" in line and "1024 bytes" in line and "kernel.cu:" in line for line in printed)


def test_trace_off_leaves_nothing_and_changes_nothing():
    kernel = hl.RawModule(code='#include <hopperlab/tma.cuh>\n#include <hopperlab/fence.cuh>\n' + RING, backend="emulator").get_function("k")
    x, y = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    with hl.emulate(trace=False) as session:
        kernel((1,), (64,), (x, y))
    assert len(session.timeline) == 0 and (y == x + 1).all() and session.counters == ring().counters
    with pytest.raises(ValueError, match="print"), hl.emulate(trace="loud"):
        pass
