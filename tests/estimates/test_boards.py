# SPDX-License-Identifier: Apache-2.0
"""Boards: what stands in a recording is read from the board's own, the rest is the first board's or says why not; who asks for another board is told."""
import dataclasses
import json

import numpy as np
import pytest

import hopperlab as hl
from hopperlab import cli
from hopperlab.estimates import accuracy, boards, clock, readings, recorded, steps, sm_units
from hopperlab.measure import recordings

H200, H100 = map(boards.board, ("h200", "h100"))


def recorded_value(board, kernel, *options):
    found = [r for r in recordings.load("micro", board=board) if r.kernel == kernel and set(options) <= set(r.options)]
    assert len(found) == 1
    return found[0].value


@pytest.mark.parametrize("board", ["h200", "h100"])
def test_constants_are_those_of_the_boards_own_recordings(board):
    table = boards.board(board)
    assert table.number("lane_latency_l2") == recorded_value(board, "chase", "space=l2")
    assert table.cluster_barrier(384, True) == recorded_value(board, "cluster_meeting", "threads=384", "RELAXED=0")
    assert table.cluster_barrier(128, False) == recorded_value(board, "cluster_meeting", "threads=128", "RELAXED=1")
    assert table.cluster_barrier(256, True) < table.cluster_barrier(320, True) < table.cluster_barrier(384, True)
    assert table.number("mbarrier") == recorded_value(board, "mbarrier_round_trip", "threads=64") / 2
    assert table.number("dram_mixed_gbs") == recordings.load("copies", board=board).one(kernel="vector_copy").gb_s
    assert set(table.constants) == set(H200.constants)


def test_a_board_with_less_bandwidth_has_less():
    assert 0.6 < H100.number("dram_gbs") / H200.number("dram_gbs") < 0.8 and H100.number("clock_mhz") == H200.number("clock_mhz")
    assert H100.number("dram_mixed_gbs") < H100.number("dram_gbs")


def test_what_was_fitted_is_the_first_boards_or_says_why_not():
    for name, constant in H100.constants.items():
        if name in readings.ROWS:
            assert constant.source == H200.constants[name].source
        elif boards.own(name, "h100"):
            assert constant.value != H200.number(name) and any(said in constant.source for said in ("micro.json", "fitted on this board", "read on an H100")), name
        else:
            assert constant.value == H200.number(name) and ("fitted" not in constant.source or constant.source.startswith("as the H200's")), name
    assert [name for name in H100.constants if boards.own(name, "h100")] == list(dict.fromkeys(n for n in H100.constants if n in boards.MOVED))


def test_what_is_moved_follows_both_boards_recordings():
    more = recorded_value("h100", "cluster_launch", "CLUSTER=1") - recorded_value("h200", "cluster_launch", "CLUSTER=1")
    assert 0.5 * more < H100.number("launch_us") - H200.number("launch_us") < more, "fitted on either board"
    later = recorded_value("h100", "tma_latency", "HOW=ld.global", "from=memory") - recorded_value("h200", "tma_latency", "HOW=ld.global", "from=memory")
    assert H100.number("lane_latency_memory") == pytest.approx(H200.number("lane_latency_memory") + later)
    less = recorded_value("h100", "stream", "space=l2", "WRITE=0") / recorded_value("h200", "stream", "space=l2", "WRITE=0")
    assert H100.number("l2_bytes") == pytest.approx(H200.number("l2_bytes") * less)


def test_a_reading_is_of_one_record():
    with pytest.raises(LookupError, match="'micro' of h200 has 3 records of chase"):
        readings.Reading("micro", "chase").number("h200")
    with pytest.raises(FileNotFoundError, match="board 'h300' has no recording 'micro'"):
        readings.Reading("micro", "chase").number("h300")


def test_another_boards_recording_does_not_do():
    assert recordings.load("peers", board="h100").header["gpu"] == "NVIDIA H200", "recordings.load takes another board's"
    with pytest.raises(FileNotFoundError):
        readings.stored("peers", "h100")


def test_records_that_a_constant_is_read_from_are_not_held_out():
    cases = [case for case in recorded.cases(("copies",), "h100") if case.fitted]
    assert {case.record.kernel for case in cases} == {"vector_copy", "bulk_read"} and len(cases) == 2


def test_the_default_is_the_learners_board_where_there_are_constants_of_it(monkeypatch):
    monkeypatch.setenv("HOPPERLAB_BOARD", "h100")
    assert boards.default() == "h100" and boards.board().name == "h100"
    monkeypatch.setattr(recordings, "nearest", lambda: "h300")
    assert boards.board().name == "h200"


def test_unknown_boards_are_an_error(capsys):
    run = hl.RawModule(code='extern "C" __global__ void nothing() {}', backend="emulator").get_function("nothing")
    with pytest.raises(ValueError, match="no board 'b200' to estimate: there are h200, h100"):
        hl.estimate(run, (1,), (32,), (), board="b200")
    for words in (["estimate", "tma_wgmma", "512", "--board", "b200"], ["ladder", "--estimate", "--board", "b200"], ["estimate", "--judge", "--board", "b200"]):
        assert cli.main(words) == 2
        assert "there are h200, h100" in capsys.readouterr().err


def test_the_command_takes_a_board(capsys):
    found = {}
    for board in ("h200", "h100"):
        assert cli.main(["estimate", "tma_wgmma", "512", "--json", "--board", board]) == 0
        found[board] = json.loads(capsys.readouterr().out)
        assert found[board]["board"] == boards.TITLES[board] and board.upper() in boards.TITLES[board]
    assert found["h100"]["us"] > found["h200"]["us"], "a launch takes longer there"
    with pytest.raises(SystemExit):
        cli.main(["estimate", "--help"])
    assert "--board BOARD" in capsys.readouterr().out


def test_the_ladder_is_told_of_a_board():
    head, *lines = steps.told(4096, ["tma_wgmma"], "h100")
    measured = next(r.ms for r in recordings.load("ladder", board="h100") if r.kernel == "tma_wgmma" and r.shape == (4096,) * 3)
    assert "H100" in head and f"{measured:.3f}" in "\n".join(lines)


def test_a_copy_is_slower_where_memory_is():
    """Of 64 MiB, so that the launch itself counts for little."""
    code = r"""extern "C" __global__ void copy(const float4* in, float4* out) { long long i = blockIdx.x * 256LL + threadIdx.x; out[i] = in[i]; }"""
    run = hl.RawModule(code=code, backend="emulator").get_function("copy")
    x, y = np.zeros(1 << 24, np.float32), np.zeros(1 << 24, np.float32)
    times = {board: hl.estimate(run, (1 << 14,), (256,), (x, y), board=board).us for board in ("h200", "h100")}
    slower = H200.number("dram_mixed_gbs") / H100.number("dram_mixed_gbs")
    assert 0.8 * slower < times["h100"] / times["h200"] < 1.1 * slower


def busy(**more):
    return dataclasses.replace(clock.Busy(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), **more)


def test_the_clock_follows_what_arrives_and_how_long():
    copies, reads = busy(issue=0.1, arrived=8.2, read=8.2, memory=16.3), busy(issue=0.02, arrived=17.4, read=17.4, memory=17.4)
    full = busy(wgmma=0.95, issue=0.17, arrived=43.0, read=28.0, memory=3.0)
    for calm in (copies, reads):
        assert clock.megahertz(calm, H200, 2e6) > 0.985 * H200.number("clock_mhz"), "copies nearly hold the highest clock"
    assert clock.megahertz(full, H200, 3e5) < 1700
    assert clock.megahertz(full, H200, 3e7) < clock.megahertz(full, H200, 3e5), "the write before a long launch is less of a rest"
    assert clock.megahertz(dataclasses.replace(full, arrived=55.0), H200, 3e5) < clock.megahertz(full, H200, 3e5)
    assert clock.megahertz(dataclasses.replace(full, read=40.0), H200, 3e5) < clock.megahertz(full, H200, 3e5), "what the L2 has to read"
    assert clock.megahertz(dataclasses.replace(full, working=0.5), H200, 3e5) > clock.megahertz(full, H200, 3e5), "SMs without work ask for nothing"


def test_where_tensor_cores_are_used_the_clock_is_never_the_highest():
    for calm in (busy(wgmma=0.1), busy(mma=0.1)):
        assert clock.megahertz(calm, H200, 2e6) == H200.number("tensor_mhz") < H200.number("clock_mhz")
    assert clock.megahertz(busy(wgmma=0.01), H200, 2e6) == H200.number("clock_mhz")
    assert clock.megahertz(busy(wgmma=0.95, issue=0.4, arrived=45.0, read=30.0), H200, 2e6) < H200.number("tensor_mhz")


def test_the_highest_clock_is_lower_where_tensor_cores_and_memory_are_used_and_rises_with_time():
    number = H200.number
    calm = busy(wgmma=0.5, memory=10.0)
    lowest = number("first_mhz") - number("reacts_mhz") - 0.5 * number("first_slope") - 10 * number("first_memory")
    assert [clock.highest(calm, H200, us) for us in (100, 150, 900, 9000)] == pytest.approx([lowest, lowest, *[lowest + number("rises_mhz")] * 2])
    assert lowest < clock.highest(calm, H200, 300) < lowest + number("rises_mhz")
    assert clock.megahertz(calm, H200, 150 * number("clock_mhz")) == pytest.approx(lowest), "power allows more"
    assert clock.highest(dataclasses.replace(calm, working=0.5), H200, 150) == pytest.approx(lowest + 0.25 * number("first_slope") + 5 * number("first_memory"))
    assert clock.highest(busy(wgmma=0.1), H200, 9000) == number("tensor_mhz") and clock.highest(busy(memory=20.0), H200, 150) == number("clock_mhz")


def test_a_launch_that_is_over_before_power_is_looked_at_has_the_clock_of_its_tensor_cores_alone():
    calm, full = (busy(wgmma=share, issue=0.2, arrived=45.0, read=30.0, memory=10.0) for share in (0.4, 0.8))
    short, long_ = (us * H200.number("clock_mhz") for us in (40, 400))
    first, slope = H200.number("first_mhz"), H200.number("first_slope")
    assert [clock.megahertz(one, H200, short) for one in (calm, full)] == [pytest.approx(first - share * slope) for share in (0.4, 0.8)]
    assert clock.megahertz(full, H200, long_) < clock.megahertz(full, H200, 1.2 * H200.number("power_reacts") * H200.number("clock_mhz")) < first - 0.8 * slope
    assert clock.megahertz(dataclasses.replace(full, working=0.5), H200, short) == pytest.approx(first - 0.4 * slope)
    assert clock.megahertz(busy(arrived=45.0), H200, short) == H200.number("clock_mhz"), "without tensor cores"


@pytest.mark.parametrize("board", boards.TITLES)
def test_clocks_are_near_those_that_were_counted(board):
    """profiles.json: the SM clock beside the shares of units, and the bytes, that Nsight Compute counted in the same launch."""
    found = {}
    for record in readings.stored("profiles", board):
        found.setdefault((record.kernel, record.options), {})[record.note.partition(": ")[2]] = record.value
    assert len(found) >= 14
    errors = []
    for counted in found.values():
        if counted["duration"] < 10:
            continue                            # of a few microseconds, in which the clock follows what was before
        cycles = counted["duration"] * counted["SM clock"]
        per = 1e6 / 132 / cycles
        seen = busy(wgmma=counted["tensor pipe busy"] / 100, issue=counted["issue slots used"] / 100, arrived=per * counted["L2 to the SMs"],
                    read=per * (counted["L2 to the SMs"] - counted["of that, multicast"] / 2), memory=per * (counted["memory read"] + counted["memory written"]))
        errors.append(abs(clock.megahertz(seen, boards.board(board), cycles) / counted["SM clock"] - 1))
    assert max(errors) < 0.06 and sum(errors) / len(errors) < 0.03


def test_bytes_that_are_multicast_arrive_in_each_sm():
    from hopperlab.estimates import sm, trace
    from hopperlab.estimates.programs import Actor
    sms = [sm_units.Multiprocessor(), sm_units.Multiprocessor()]
    found = sm.Simulation(H200, sm.Memory(l2=8.0, store=1.0, lane_store=1.0, dram=8.0), {}, 8, 4, {}.__getitem__)
    load = (trace.LOAD, -1, 4096, [(0, 4096, 0), (8, 4096, 1)], 0, False, 1)
    for slot, steps_of in ((0, [load]), (1, [])):
        found.start([Actor(slot, 0, 1, steps_of)], 0, slot, sms[slot], 0.0, 2)
    found.run()
    assert [one.arrived for one in sms] == [4096, 4096] and [one.loaded for one in sms] == [4096, 0]


def test_both_boards_were_judged():
    for board in boards.TITLES:
        rows = accuracy.rows(board)
        assert {"products", "ladder", "gemm", "stages", "variants", "attention", "copies", "copy", "tma_vs_cp_async"} <= {row.recording for row in rows}
        assert len({case.record.shape for case in recorded.cases(("products",), board)}) == 60
        assert len({row.group for row in rows if row.recording == "products"}) >= 58, "each of the random shapes, but for those whose kernels wait for all CTAs"
        names = {case.name: case for name in {row.recording for row in rows} for case in recorded.cases((name,), board)}
        assert all(row.name in names and row.fitted == names[row.name].fitted for row in rows)
    assert accuracy.rows("h300") == ()
