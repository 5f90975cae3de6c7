# SPDX-License-Identifier: Apache-2.0
"""Measuring on a real GPU: events give plausible times, peers agree with us, a bug costs its own process only."""
import numpy as np

from hopperlab.measure.machine import board, peers, timing
from hopperlab.measure.suites import bench, bugs
from hopperlab.measure.launches import launch, operands
from hopperlab.measure import recordings


def test_times_grow_with_the_work(cupy):
    small, large = (cupy.zeros(size, cupy.uint8) for size in (1 << 20, 1 << 28))
    targets = [cupy.empty_like(array) for array in (small, large)]
    samples = timing.interleaved({"small": peers.device_copy(small, targets[0]), "large": peers.device_copy(large, targets[1])}, rounds=5)
    assert len(samples["small"].times) == 5
    assert 0 < samples["small"].ms < samples["large"].ms
    moved = 2 * large.nbytes / samples["large"].ms / 1e6
    assert moved < 4.8e3                                    # no faster than the memory: 4.8 TB/s by the datasheet


def test_peers_compute_the_same_product(cupy):
    a, b = operands.integer_bf16(cupy, (96, 64), 1), operands.integer_bf16(cupy, (160, 64), 2)
    exact = operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)
    for make in (peers.cublas, peers.torch_matmul):
        c = cupy.full((96, 160), 0x7FC0, cupy.uint16)
        run = make(a, b, c)
        if run is None:
            continue
        run()
        cupy.cuda.runtime.deviceSynchronize()
        assert bool((c == exact).all())


def test_bound_launch_is_the_checked_one(cupy):
    a, b = operands.integer_bf16(cupy, (256, 128), 3), operands.integer_bf16(cupy, (128, 128), 4)
    c = cupy.zeros((256, 128), cupy.uint16)
    run = launch.warp_specialized(a, b, c, backend="gpu").bound()
    first = c.get()
    c.fill(0)
    run()
    assert (c.get() == first).all() and first.any()


def test_header_names_the_board(cupy):
    head = board.header()
    assert head["gpu"].startswith("NVIDIA H") and head["power_limit_watts"] > 100
    assert head["libraries"]["numpy"] == np.__version__


def test_a_hang_and_a_failed_launch_are_outcomes():
    cases = {(case.kernel, case.bug): case for case in bugs.CASES}
    hang = bugs.record(cases["tma_copy", "BUG_FORGOTTEN_EXPECT_TX"], hang_seconds=3)
    assert (hang.outcome, hang.wrong) == ("hang", None)
    right = bugs.record(cases["tma_scale", "BUG_NO_PROXY_FENCE"])
    assert right.runs == 20 and right.outcome in ("right", "sometimes wrong", "wrong")


def test_chosen_recordings_are_written(cupy, tmp_path, capsys):
    assert bench.run(bench.Request("lessons", kernels=["timing", "tma_vs_cp_async"], rounds=3, out=tmp_path)) == 0
    assert recordings.names(tmp_path) == ["timing", "tma_vs_cp_async"]
    ways = [record.options[0] for record in recordings.load("timing", tmp_path)]
    assert ways[:2] == ["host clock, no synchronise", "host clock, synchronised"] and len(ways) == 4
    assert "timing.json" in capsys.readouterr().err
