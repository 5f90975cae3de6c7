# SPDX-License-Identifier: Apache-2.0
"""The tools on a real GPU: bench measures and records, every peer computes the product, a timeline tells nanoseconds."""
import numpy as np
import pytest

import hopperlab as hl
from hopperlab.measure.suites import bench
from hopperlab.measure.machine import board, peers, timing
from hopperlab.measure.launches import operands
from hopperlab.measure import recordings, timelines
from hopperlab.measure.suites.bench import Request


def test_every_peer_computes_the_product(cupy):
    a, b = operands.integer_bf16(cupy, (96, 64), 1), operands.integer_bf16(cupy, (160, 64), 2)
    exact = operands.bf16_bits(operands.bf16_values(a) @ operands.bf16_values(b).T)
    c = cupy.empty((96, 160), cupy.uint16)
    found = peers.products(peers.installed(peers.PRODUCT_PEERS), a, b, c)
    assert {"cublasGemmEx TN", "cublasGemmEx NN"} <= set(found)
    for name, (_, run) in found.items():
        c.fill(0x7FC0)
        run()
        cupy.cuda.runtime.deviceSynchronize()
        assert bool((c == exact).all()), name


def test_bench_measures_checks_and_records(cupy, tmp_path, capsys):
    asked = Request("gemm", ["256x512x64"], ["warp_specialized"], ["cublas"], rounds=2, power=0.1, out=tmp_path)
    assert bench.run(asked) == 0
    assert "of cuBLAS (cublasGemmEx" in capsys.readouterr().out
    recording = recordings.load("bench_gemm", tmp_path)
    assert {record.mode for record in recording} == {"cold L2", "sustained"} and len(recording) == 6
    ours = recording.where(kernel="warp_specialized", mode="sustained")[0]
    assert ours.registers == 168 and ours.tflops > 0 and ours.options == ("STAGES=4",)
    assert recording.header["board_before"] and "interleaved" in recording.header["method"]


@pytest.mark.parametrize(("suite", "peer"), [("fp8", "cuBLASLt block-scaled"), ("attention", "cuDNN")])
def test_what_nobody_chose_is_measured_beside_its_peer(suite, peer, cupy, tmp_path, capsys):
    pytest.importorskip("torch")
    assert bench.run(Request(suite, random=4, seed=3, rounds=2, out=tmp_path)) == 0
    recording = recordings.load(f"{suite}_random", tmp_path)
    final = recording.where(kernel="final")
    assert len(final) == 4 * 2 and any(record.peer == peer for record in final) and all(record.tflops > 0 and record.registers for record in final)
    assert "at its" in recording.header["method"] and "final" in capsys.readouterr().out


def test_a_wrong_kernel_is_not_timed(cupy, monkeypatch, capsys):
    from hopperlab.measure.suites import race_gemm
    from hopperlab.measure.launches import launch

    def scaled(a, b, c):
        a += 1                                              # other operands than the reference had
        return launch.warp_specialized(a, b, c)
    monkeypatch.setattr(race_gemm, "KERNELS", {**race_gemm.KERNELS, "warp_specialized": scaled})
    assert bench.run(Request("gemm", ["256"], ["warp_specialized"], ["none"], rounds=2, power=0)) == 1
    assert "nothing was timed" in capsys.readouterr().err


def test_copies_are_measured(cupy, tmp_path):
    assert bench.run(Request("copy", ["16MiB"], ["bulk_copy"], rounds=2, power=0, modes=["cold"], out=tmp_path / "copy.json")) == 0
    records = recordings.load("copy", tmp_path)
    assert {record.kernel for record in records} == {"bulk_copy", "cudaMemcpy"} and all(0 < record.gb_s < 4800 for record in records)


def test_sustained_times_are_shares_of_a_burst(cupy):
    source = cupy.zeros(1 << 26, cupy.uint8)
    target = cupy.empty_like(source)
    samples = timing.sustained({"copy": peers.device_copy(source, target)}, rounds=3, burst_ms=5.0)
    assert len(samples["copy"].times) == 3 and 0.02 < samples["copy"].ms < 1.0


def test_the_board_is_read(cupy):
    found = board.state()
    if found.now is None:
        pytest.skip("pynvml is not installed")
    assert 200 < found.now.clock_mhz < 3000 and 0 < found.now.watts < 1500
    load = board.under_load(lambda: None, lambda: None, seconds=0.2)
    assert load.watts is None or load.watts > 0


@pytest.mark.parametrize("blocks", [1, 20])
def test_a_timeline_tells_nanoseconds(cupy, blocks):
    kernel = hl.load_kernel("micro/traced_ring.cu", "traced_ring", backend="gpu")
    x = cupy.random.default_rng(3).standard_normal(2048 * 8 * blocks, dtype=cupy.float32)
    y = cupy.full_like(x, cupy.nan)
    found = hl.timeline(kernel, (blocks,), (160,), (x, y, np.float32(2), np.int32(x.size)), shared_mem=3 * 8192, names={0: "scale"})
    assert bool((y == 2 * x).all())
    assert (found.place, found.unit, found.dropped, found.open) == ("gpu", "ns", 0, 0)
    assert len(found) == blocks * (2 * 8 + 4 * 3 * 8) and len({row.sm for row in found}) == blocks
    assert 500 < max(row.end for row in found) < 1e6        # microseconds, not milliseconds
    for block in range(blocks):
        issued = {row.id: row.start for row in found.of("issue") if row.block == block}
        waited = {(row.warp, row.id): row.end for row in found.of("wait") if row.block == block}
        assert all(issued[chunk] < waited[1, chunk] + 200 for chunk in issued)      # the mark of the issue follows the issue


def test_both_places_tell_the_same_events(cupy):
    kernel = hl.load_kernel("micro/traced_ring.cu", "traced_ring", backend="gpu")
    x, y = cupy.ones(2048 * 6, cupy.float32), cupy.zeros(2048 * 6, cupy.float32)
    args = (x, y, np.float32(3), np.int32(x.size))
    real = hl.timeline(kernel, (2,), (160,), args, shared_mem=3 * 8192)
    with hl.emulate():
        virtual = hl.timeline(kernel, (2,), (160,), args, shared_mem=3 * 8192)
    assert (real.place, virtual.place) == ("gpu", "emulator")
    assert [(r.block, r.warp, r.event, r.id) for r in real] == [(r.block, r.warp, r.event, r.id) for r in virtual]


def test_a_module_is_silent_after_its_timeline(cupy):
    kernel = hl.load_kernel("micro/traced_ring.cu", "traced_ring", (timelines.OPTION,), backend="gpu")
    x, y = cupy.ones(2048, cupy.float32), cupy.zeros(2048, cupy.float32)
    args = (x, y, np.float32(3), np.int32(x.size))
    assert len(hl.timeline(kernel, (1,), (160,), args, shared_mem=3 * 8192)) == 2 + 4 * 3
    kernel((1,), (160,), args, shared_mem=3 * 8192)
    hl.synchronize()
    assert bool((y == 3).all())


def test_nsight_compute_says_what_the_lessons_read(cupy):
    import shutil

    from hopperlab.measure.profile import lesson_metrics
    if shutil.which("ncu") is None:
        pytest.skip("Nsight Compute is not installed")
    found, missing = lesson_metrics.measure(["hopperlab.measure.profile.step", "tma_wgmma", "512"], True, "gemm")
    values = found[0]["values"]
    assert len(found) == 1 and found[0]["kernel"] == "gemm"
    assert values["tensor cores: wgmma instructions"] == 4 * (512 // 64) * (512 // 128) * (512 // 16)
    assert values["traffic: TMA into shared memory"] == pytest.approx(1e-6 * 16 * 8 * 32768)       # 16 blocks, 8 k-blocks of 32 KiB
    assert 0 < values["tensor cores: tensor pipe busy"] < 100 and "occupancy: registers per thread" not in missing
