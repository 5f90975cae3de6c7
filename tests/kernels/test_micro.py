# SPDX-License-Identifier: Apache-2.0
"""The kernels of micro/ in the emulator at tiny sizes: they run under every schedule without a hazard, and do what they time."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.launches import micro

pytestmark = pytest.mark.emulator_only          # what they leave are clock cycles, different by nature in the two places
SCHEDULES = ("lazy", "eager", "random")


def clean(probe, schedule: str = "random") -> np.ndarray:
    with hl.emulate(schedule=schedule, seed=3, hazards="raise"):
        return probe.cycles()


BARRIERS = {"mbarrier_round_trip": (64, {}), "named_round_trip": (64, {}), "syncthreads": (96, {}), "mbarrier_meeting": (96, {}),
            "mbarrier_meeting elected": (96, {"elected": 1}), "cluster_meeting": (64, {}), "cluster_meeting relaxed": (64, {"relaxed": 1}),
            "remote_round_trip": (64, {}), "remote_round_trip cta": (64, {"order": 1})}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", BARRIERS)
def test_barriers(name, schedule):
    threads, choices = BARRIERS[name]
    probe = micro.barrier(name.split()[0], threads, rounds=5, samples=2, backend="emulator", **choices)
    assert (clean(probe, schedule) > 0).all()


@pytest.mark.parametrize("how", ["tensor", "bulk", "ld.global", "wait_group"])
def test_latencies(how):
    assert (clean(micro.copy("tma_latency", how, 4, 32, copies=4, backend="emulator")) > 0).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("how", ["tensor", "bulk", "cp.async"])
def test_issue(how, schedule):
    assert (clean(micro.copy("tma_issue", how, 16, 64, copies=12, tiles=4, backend="emulator"), schedule) > 0).all()


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("place", micro.PLACES)
def test_descriptors(place, prefetch):
    assert (clean(micro.descriptor(place, prefetch, maps=8, pause=10, backend="emulator")) > 0).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("maps", "stride", "turn"), [(1, 1, False), (5, 1, True), (3, 4, False)])
def test_every_pass_uses_every_map(maps, stride, turn, schedule):
    probe = micro.map_cache(maps, 3, stride, turn, backend="emulator")
    with hl.emulate(schedule=schedule, seed=3, hazards="raise") as run:
        out = probe.cycles()
    assert out.shape == (3 * maps,) and (out > 0).all() and run.counters["tma_loads"] == 2 + 3 * maps


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_barrier_that_was_told_all_opens_when_all_is_there(schedule):
    """With patience: whoever gives up after a few tries is answered no, and what follows is named."""
    assert clean(micro.early_opening(16, 64, 2048, 3, 20_000, backend="emulator"), schedule)[::2].tolist() == [16] * 3


def test_a_barrier_that_was_told_too_little_is_named():
    with hl.emulate(schedule="random", seed=3, hazards="collect") as run:
        micro.early_opening(16, 64, 1024, 1, 50, backend="emulator").cycles()
    assert "barrier-misuse" in {hazard.kind for hazard in run.hazards}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("space", micro.SPACES)
def test_chases_come_back_to_where_they_began(space, schedule):
    probe = micro.chase(space, chain=64, samples=2, backend="emulator")
    out = clean(probe, schedule)
    assert (out[:2] > 0).all()
    end = {"shared": 0, "dsmem": 1 << 24, "l2": 0}[space]
    assert out[2] & ~0xFFFF == end and (space != "l2" or out[2] == 0)


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("space", micro.SPACES)
def test_streams_read_what_lies_there(space, write):
    probe = micro.stream(space, write, threads=64, rounds=8, blocks=4, backend="emulator")
    clean(probe)
    block, thread = np.meshgrid(np.arange(4), np.arange(64), indexing="ij")
    seen = block ^ 1 if space == "dsmem" and not write else block
    vectors = [thread] * 8 if write else [(thread + 32 * i) % 64 for i in range(8)]
    assert (probe.more.reshape(4, 64) == sum(vector ^ seen ^ 1 ^ 2 for vector in vectors)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("cluster", "depth"), [(2, 2), (4, 3)])
def test_bulk_streams(cluster, depth, schedule):
    assert (clean(micro.bulk_stream(256, depth, 8, cluster, cluster, backend="emulator"), schedule) > 0).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("how", micro.EXCHANGES)
def test_every_message_is_answered(how, schedule):
    out = clean(micro.exchange(how, rounds=3, samples=2, backend="emulator"), schedule)
    assert out[2] == 6


@pytest.mark.parametrize(("n", "kind", "source"), [(8, "bf16", "SS"), (16, "f16", "RS"), (32, "tf32", "SS"), (64, "e4m3", "RS"), (128, "s8", "SS"),
                                                   (192, "bf16", "RS"), (256, "bf16", "SS"), (256, "s8", "RS")])
@pytest.mark.parametrize("in_flight", [0, 3])
@pytest.mark.sampled(every=3)
def test_wgmma(n, kind, source, in_flight):
    probe = micro.wgmma(n, kind, source, in_flight, rounds=2, samples=1, backend="emulator")
    issued, done = clean(probe)
    assert 0 < issued <= done
    if source == "SS" and in_flight:
        code = f"m64n{n}k{micro.INPUTS[kind][1]}"
        assert code in probe.launch.kernel.module.ptx


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("n", "copy_bytes"), [(32, 1024), (64, 0), (128, 2048), (256, 1024)])
def test_wgmma_beside_copies(n, copy_bytes, schedule):
    probe = micro.wgmma_beside_copies(n, copy_bytes, copies=3, rounds=2, blocks=2, backend="emulator")
    with hl.emulate(schedule=schedule, seed=1, hazards="raise") as run:
        probe.launch()
    multiplied, copied, copies = probe.out.reshape(2, 3).T
    assert (multiplied > 0).all() and run.counters["wgmma"] == 2 * 2 * 8
    assert ((copied > 0) == (copy_bytes > 0)).all() and (copies % 3 == 0).all()
    # Those that were counted, and three that were under way at the end in each CTA.
    assert run.counters["bulk_load_bytes"] == (copies + 3).sum() * copy_bytes
    assert probe.more.reshape(4, 128).any(axis=1).all()


@pytest.mark.parametrize("ilp", [1, 4])
def test_mma(ilp):
    probe = micro.mma(ilp, warps=2, rounds=3, samples=1, backend="emulator")
    issued, done = clean(probe)
    assert 0 < issued <= done and len(set(probe.more.tolist())) > 1


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("cluster", "shared"), [(1, False), (2, True), (2, False), (4, True)])
def test_multicast_brings_every_cta_the_same(cluster, shared, schedule):
    matrix = np.random.default_rng(2).integers(0, 1 << 16, (16 * 5, 64)).astype(np.uint16)
    launch = micro.multicast(matrix, cluster, shared, 2 * cluster, rows=16, stages=2, passes=2, backend="emulator")
    with hl.emulate(schedule=schedule, seed=1, hazards="raise"):
        launch()
    words = matrix.reshape(5, -1).view(np.uint32).sum(1, dtype=np.uint32)
    assert launch.args[1].tolist() == [words[4]] * cluster + [words[3]] * cluster


@pytest.mark.parametrize("without", [False, True])
def test_setmaxnreg(without):
    probe = micro.setmaxnreg(without, backend="emulator")
    clean(probe)
    assert ("setmaxnreg.inc" in probe.launch.kernel.module.ptx) != without


@pytest.mark.parametrize("access", micro.ACCESSES)
@pytest.mark.parametrize(("swizzle", "pad"), [("none", 0), ("none", 16), ("32B", 0), ("64B", 0), ("128B", 0)])
def test_reads_find_what_lies_there(swizzle, pad, access):
    probe = micro.reads(swizzle, access, pad=pad, rounds=1, samples=1, warps=1, backend="emulator")
    with hl.emulate(hazards="raise") as session:
        probe.cycles()
    width = 128 if swizzle == "none" else int(swizzle[:-1])
    words = np.arange(64 * width // 4, dtype=np.uint32)
    lane, step = np.meshgrid(np.arange(32), np.arange(8), indexing="ij")
    row = lane + 32 * (step % 2)
    if access == "column, 4 bytes":
        assert (probe.more == words.reshape(64, -1)[row, step // 2].sum(1)).all()
    if access == "column, 16 bytes":
        assert (probe.more == words.reshape(64, -1, 4)[row, step // 2 * 16 % width // 16].sum((1, 2))).all()
    if access == "row, 16 bytes":
        assert probe.more.sum() == np.tile(words, 8)[:32 * 8 * 4].sum()
    if (swizzle, access) in (("128B", "column, ldmatrix"), ("128B", "column, 16 bytes")):
        assert session.counters["shared_load_conflicts"] == 0
    if (swizzle, pad, access) in (("none", 0, "column, 4 bytes"),):
        assert session.counters["shared_load_conflicts"] == 8 * 31


@pytest.mark.parametrize("cluster", [1, 4])
def test_cluster_launch(cluster):
    probe = micro.cluster_launch(cluster, 8, backend="emulator")
    assert (clean(probe) > 0).all()
