# SPDX-License-Identifier: Apache-2.0
"""`hopperlab bench`: what it refuses before anything runs, what it says without a GPU, and what it writes where there is one."""
import io
import json
from dataclasses import replace

import pytest

from hopperlab.measure.suites import bench, race as races, race_copy, race_gemm, report, table
from hopperlab.measure.machine import board, here, peers
from hopperlab.measure import recordings, summaries
from hopperlab.measure.suites.bench import Request
from hopperlab.measure.suites.race import Contestant, Race
from hopperlab.measure.recordings import HEADER_FIELDS, Record
from hopperlab.measure.machine.timing import Sample

HEADER = {**dict.fromkeys(HEADER_FIELDS, "x"), "gpu": "NVIDIA H200"}


@pytest.mark.parametrize(("request_", "message"), [
    (Request("zgemm"), "no suite 'zgemm'; there are gemm, copy, micro"),
    (Request("gemm", shapes=["4096x4096"]), "no shape of a product"),
    (Request("gemm", shapes=["0"]), "every size is at least 1"),
    (Request("gemm", shapes=["64x64x12"]), "k is 12, no multiple of 8"),
    (Request("gemm", shapes=["304000"]), "more than 16 GiB"),
    (Request("gemm", peers=["cutlass"]), "no peer 'cutlass'; there are cublas, cublaslt, torch, triton, quack"),
    (Request("gemm", kernels=["fast"]), "no kernel 'fast'; there are naive"),
    (Request("gemm", modes=["hot"]), "no mode 'hot'; there are cold, clean, sustained"),
    (Request("gemm", rounds=1), "need 2 rounds or more"),
    (Request("gemm", power=-1.0), "--power -1"),
    (Request("copy", shapes=["1GB"]), "no size of a copy"),
    (Request("copy", shapes=["1000B"]), "multiple of 64 KiB"),
    (Request("copy", shapes=["16x12"]), "no multiple of 8"),
    (Request("copy", shapes=["64GiB"]), "more than 64 GiB"),
    (Request("copy", peers=["cublas"]), "no peer 'cublas'; there are memcpy"),
    (Request("ladder", shapes=["4096"]), "takes no --shapes"),
    (Request("ladder", kernels=["final"]), "ladder has no 'final'; there are ladder, ceilings, gemm, stages"),
    (Request("micro", kernels=["fast"]), "micro has no 'fast'; there are barriers"),
    (Request("ladder", peers=["cublas"]), "takes no --peers"),
    (Request("fp8", kernels=["final"]), "fp8 is measured as a whole and takes no --kernels"),
    (Request("lessons", kernels=["gemm"]), "lessons has no 'gemm'; there are copy, tma_vs_cp_async, timing, roles, schedules, "
     "pipelines, engine, fp8_grouped, triton_roles, clusters, bugs"),
    (Request("gemm", kernels=["none"], peers=["none"]), "nobody would race"),
    (Request("memcheck"), "no suite 'memcheck'"),
])
def test_a_bad_request_is_refused_by_its_rule_before_anything_runs(request_, message, monkeypatch, capsys):
    monkeypatch.setattr(here, "no_gpu", lambda: pytest.fail("the machine was asked first"))
    assert bench.run(request_) == 2
    assert message in capsys.readouterr().err


def test_out_names_a_folder_where_several_files_are_written(tmp_path):
    with pytest.raises(bench.RequestError, match="several files"):
        bench.check(Request("ladder", out=tmp_path / "one.json"))
    (tmp_path / "file").write_text("")
    with pytest.raises(bench.RequestError, match="not a folder"):
        bench.check(Request("gemm", out=tmp_path / "file"))


def test_shapes_and_defaults_are_parsed():
    checked = bench.check(Request("gemm", shapes=["64", "64x64x64", "128x256x8"], peers=["none"]))
    assert checked.shapes == ((64, 64, 64), (128, 256, 8)) and checked.peers == ()
    assert checked.plan.modes == races.USUAL
    assert bench.check(Request("gemm")).shapes == race_gemm.SHAPES
    assert bench.check(Request("copy", shapes=["4GiB", "64MiB"])).shapes == ((65536, 32768), (1024, 32768))
    assert bench.check(Request("copy")).shapes == race_copy.SHAPES
    assert bench.check(Request("gemm", modes=["sustained"])).plan.modes == ("sustained",)


def test_the_eight_shapes_are_those_of_the_recorded_ladder():
    recorded = {record.shape for record in recordings.load("ladder") if record.note and record.kernel != "edge"}
    assert set(race_gemm.SHAPES) == recorded


def test_without_a_gpu_it_says_so_and_what_is_recorded(monkeypatch, capsys):
    monkeypatch.setattr(here, "gpu", lambda: None)
    assert bench.run(Request("gemm")) == 2
    said = capsys.readouterr().err
    assert "needs a Hopper GPU" in said and "hopperlab ladder" in said
    for name in recordings.names():
        assert f"    {name} " in said


def test_another_gpu_is_named(monkeypatch):
    from hopperlab.runtime.gpu.driver import Gpu
    monkeypatch.setattr(here, "gpu", lambda: Gpu("NVIDIA A100", (8, 0), 108, (13, 0)))
    assert "NVIDIA A100 has compute capability 8.0" in here.no_gpu()


def test_a_backend_that_is_set_to_the_emulator_is_named(monkeypatch):
    from hopperlab.runtime import backend
    from hopperlab.runtime.gpu.driver import Gpu
    monkeypatch.setattr(here, "gpu", lambda: Gpu("NVIDIA H200", (9, 0), 132, (13, 0)))
    monkeypatch.setattr(backend, "has_cupy", lambda: True)
    monkeypatch.setattr(backend, "backend", lambda choice=None: "emulator")
    assert "unset it" in here.no_gpu()
    monkeypatch.setattr(backend, "backend", lambda choice=None: "gpu")
    assert here.no_gpu() is None
    monkeypatch.setattr(backend, "has_cupy", lambda: False)
    assert here.no_gpu().startswith("timing needs CuPy")


def test_a_race_of_peers_alone_can_be_asked_for(monkeypatch):
    monkeypatch.setattr(bench, "installed", lambda table: ["cublas", "triton"])
    checked = bench.check(Request("gemm", shapes=["1024", "4096"], kernels=["none"]))
    assert checked.kernels == () and checked.peers == ("cublas", "triton") and checked.shapes == ((1024,) * 3, (4096,) * 3)


def test_what_is_picked_is_recordings_or_what_the_one_suite_offers():
    assert [row.recording for row in bench.check(Request("ladder")).rows] == ["ladder", "ceilings", "gemm", "stages"]
    picked = bench.check(Request("ladder", kernels=["gemm"]))
    assert [row.recording for row in picked.rows] == ["gemm"] and picked.kernels == () and picked.rounds is None
    micro = bench.check(Request("micro", kernels=["barriers", "issue", "barriers"], rounds=3))
    assert micro.kernels == ("barriers", "issue") and micro.rounds == 3
    assert [row.recording for row in bench.check(Request("all", kernels=["fp8", "bugs"])).rows] == ["fp8", "bugs"]


def test_peers_that_are_not_installed_are_refused_where_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr(here, "gpu", lambda: "a GPU")
    monkeypatch.setattr(bench, "installed", lambda table: ["cublas"])
    with pytest.raises(bench.RequestError, match="not installed here: triton"):
        bench.check(Request("gemm", peers=["cublas", "triton"]))
    assert bench.check(Request("gemm")).peers == ("cublas",)


def test_peers_of_a_product_keep_those_that_exist(monkeypatch):
    table = {"a": peers.Peer("A", "numpy", {"one": lambda a, b, c: "run one", "gone": lambda a, b, c: None}),
             "b": peers.Peer("B", "no_such_package", {"two": lambda a, b, c: "run two"})}
    monkeypatch.setattr(peers, "PRODUCT_PEERS", table)
    assert peers.products(["b", "a"], 0, 0, 0) == {"two": ("B", "run two"), "one": ("A", "run one")}
    assert peers.installed(table) == ["a"]


# --- a machine that only pretends --------------------------------------------------------------------------------------
SPEEDS = {"ours": (2.0, 2.0, 4.0), "cublas": (1.0, 2.0, 4.0), "torch": (1.0, 1.0, 4.0), "triton": (4.0, 4.0, 4.0)}


def a_race(wrong=lambda contestant: 0.0) -> Race:
    contestants = {"ours": Contestant("ours", lambda: None, ("BM=128",)), "cublas": Contestant("cublas", lambda: None, family="cuBLAS"),
                   "torch": Contestant("torch", lambda: None, family="cuBLAS"), "triton": Contestant("triton", lambda: None, family="triton")}
    return Race("gemm", (8, 8, 8), "bfloat16", 10 ** 12, "tflops", contestants, wrong)


def fakes(calls: list):
    def timer(runs, rounds):
        calls.append(("time", rounds))
        return {name: Sample(SPEEDS[name]) for name in runs}
    return races.Instruments(dict.fromkeys(races.MODES, timer),
                                  lambda run, seconds: {"watts": 700.0, "joules": 0.5, "clock_mhz": 1500, "limited": "power"})


def test_records_stand_beside_the_fastest_entry_of_each_family():
    records = races.run(a_race(), races.Plan(3), instruments=fakes([]))
    cold = [record for record in records if record.mode == "cold L2"]
    assert [(r.kernel, r.peer) for r in cold] == [("ours", "cuBLAS (torch)"), ("ours", "triton"), ("cublas", "cuBLAS (torch)"),
                                                  ("torch", "cuBLAS (torch)"), ("triton", "cuBLAS (torch)")]
    ours = cold[0]
    assert (ours.tflops, ours.peer_value, ours.ms) == (500.0, 1000.0, 2.0)
    assert (ours.ratio, ours.ratio_min, ours.ratio_max) == (0.5, 0.5, 1.0)          # round by round: 1/2, 1/2, 4/4
    assert (ours.watts, ours.joules, ours.limited) == (700.0, 0.5, "power")
    assert len(records) == 2 * len(cold) and summaries.family(ours) == "cuBLAS"


def test_a_wrong_result_stops_the_race_before_anything_is_timed():
    calls = []
    race = a_race(lambda contestant: 0.25 if contestant.kernel == "torch" else 0.0)
    with pytest.raises(races.WrongResult, match=r"torch at 8x8x8: 25.00% of the elements are wrong; nothing was timed"):
        races.run(race, races.Plan(3), instruments=fakes(calls))
    with pytest.raises(races.WrongResult, match="nan"):
        races.run(a_race(lambda contestant: float("nan")), races.Plan(3), instruments=fakes(calls))
    assert calls == []


def test_progress_counts_what_run_reports():
    told, plan = [], races.Plan(3)
    races.run(a_race(), plan, told.append, fakes([]))
    assert len(told) == races.steps([4], plan)
    silent = races.Plan(3, ("cold L2",), 0.0)
    told.clear()
    records = races.run(a_race(), silent, told.append, fakes([]))
    assert len(told) == races.steps([4], silent) and {r.watts for r in records} == {None}


@pytest.fixture
def machine(monkeypatch):
    """A suite 'gemm' of pretended contestants on a machine that pretends to have a GPU; returns its races' `wrong`."""
    told = {"wrong": lambda contestant: 0.0, "warnings": ()}
    monkeypatch.setattr(race_gemm, "RACES", replace(race_gemm.RACES, race=lambda shape, kernels, chosen: a_race(told["wrong"])))
    monkeypatch.setattr(here, "no_gpu", lambda: None)
    monkeypatch.setattr(here, "gpus", lambda: 1)
    monkeypatch.setattr(bench, "_free", lambda: None)
    monkeypatch.setattr(board, "header", lambda: dict(HEADER))
    monkeypatch.setattr(board, "state", lambda idle=True: board.State(board.Instant(1980, 30, 75.0), told["warnings"]))
    tools = fakes([])
    monkeypatch.setattr(races, "Instruments", lambda: tools)
    return told


def test_a_run_prints_a_table_and_writes_a_recording(machine, capsys, tmp_path):
    machine["warnings"] = ("the GPU is shared with process 7",)
    assert bench.run(Request("gemm", shapes=["8"], peers=["none"], out=tmp_path / "mine.json")) == 0
    shown = capsys.readouterr()
    assert "0.500 (0.500, 1.000) of cuBLAS (torch)" in shown.out and "board: 1980 MHz, 75 W, 30 °C before" in shown.out
    assert "shared with process 7" in shown.err and "power held the clocks down" in shown.err
    recording = recordings.load("mine", tmp_path)
    assert len(recording) == 10 and recording.header["warnings"] == ["the GPU is shared with process 7"]


def test_a_recording_keeps_its_method(machine, monkeypatch, tmp_path, capsys):
    """A suite that measures by itself is told rounds and what was picked; its records are shown and written with this run's board and its own method."""
    from hopperlab.measure.suites import micro

    def measure(rounds, only):
        told.append((rounds, only))
        return [Record("s", "k", value=5.0, value_min=4.0, value_max=6.0, unit="cycles")]
    told = []
    monkeypatch.setattr(micro, "measure", measure)
    assert bench.run(Request("micro", kernels=["barriers"], rounds=3, out=tmp_path, as_json=True)) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["records"][0]["value"] == 5.0 and shown["header"]["method"] == micro.METHOD
    assert bench.run(Request("micro")) == 0
    assert told == [(3, ("barriers",)), (5, ())]
    stored = recordings.load("micro", tmp_path)
    assert stored.header["method"] == micro.METHOD and "board_before" in stored.header


def test_what_a_suite_keeps_is_on_disk_before_it_ends(machine, monkeypatch, tmp_path):
    from hopperlab.measure.suites import attention

    def measure(rounds, keep):
        keep([Record("attention", "forward")])
        raise races.WrongResult("the second cell is wrong")
    monkeypatch.setattr(attention, "measure", measure)
    assert bench.run(Request("attention", out=tmp_path)) == 1
    stored = recordings.load("attention", tmp_path)
    assert len(stored) == 1 and stored.header["warnings"] == ["cut short: more was to follow"]


def test_several_recordings_are_files_of_their_own(machine, monkeypatch, tmp_path, capsys):
    from hopperlab.measure.suites import ceilings, products
    monkeypatch.setattr(ceilings, "ceilings", lambda rounds: [Record("ceilings", f"{rounds} rounds", gb_s=1.0)])
    monkeypatch.setattr(products, "stages", lambda rounds: [Record("stages", f"{rounds} rounds", tflops=1.0)])
    assert bench.run(Request("ladder", kernels=["stages", "ceilings"], out=tmp_path)) == 0
    assert recordings.names(tmp_path) == ["ceilings", "stages"] and recordings.load("stages", tmp_path).records[0].kernel == "9 rounds"
    assert "ceilings" in capsys.readouterr().out


def test_the_ladder_is_shown_as_its_story():
    recording, (ladder, _, _, stages) = recordings.load("ladder"), table.rows("ladder")
    text = bench.shown(ladder, recording)
    assert text.startswith("The product ladder at 8192³") and "configurations by shape" in text
    few = recordings.Recording("ladder", recording.header, recording.records[:3])
    assert bench.shown(ladder, few).startswith("ladder 1024x1024x1024")
    assert bench.shown(stages, recordings.load("stages")).startswith("stages 4096x4096x4096")


def test_json_goes_to_standard_output_alone(machine, capsys, tmp_path):
    assert bench.run(Request("gemm", shapes=["8"], peers=["none"], out=tmp_path, as_json=True)) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["records"][0]["peer"] == "cuBLAS (torch)" and told["header"]["gpu"] == "NVIDIA H200"
    assert recordings.names(tmp_path) == ["bench_gemm"]


def test_a_wrong_result_is_exit_code_1_and_writes_nothing(machine, capsys, tmp_path):
    machine["wrong"] = lambda contestant: 0.5
    assert bench.run(Request("gemm", shapes=["8"], peers=["none"], out=tmp_path)) == 1
    assert "nothing was timed" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_a_kernel_that_refuses_the_shape_says_its_rule(machine, capsys, monkeypatch):
    from hopperlab.measure.launches import operand_checks

    def refuse(checked, out):
        raise operand_checks.OperandError("size", "n is 12")
    monkeypatch.setattr(bench, "measure", refuse)
    assert bench.run(Request("gemm", shapes=["8"], peers=["none"])) == 2
    assert "one of the kernels cannot run this shape: n is 12" in capsys.readouterr().err

    def exhaust(checked, out):
        raise MemoryError("8 GiB asked for")
    monkeypatch.setattr(bench, "measure", exhaust)
    assert bench.run(Request("gemm", shapes=["8"], peers=["none"])) == 2
    assert "too small, or in use by others: 8 GiB asked for" in capsys.readouterr().err


def test_a_summary_counts_every_cell_and_tells_variants_apart():
    def record(shape, ratio, kernel="ours", note="", options=()):
        return Record("gemm", kernel, options, (shape,) * 3, mode="cold L2", tflops=1.0, ms=1.0, ms_min=1.0, ms_max=1.0, peer="cuBLAS (torch)",
                      ratio=ratio, ratio_min=ratio, ratio_max=ratio, note=note)
    text = report.table([record(8, 0.5), record(16, 2.0), record(8, 4.0, note="wide"), record(16, 4.0, note="wide"), record(8, 1.0, "cuBLAS"), record(16, 1.0, "cuBLAS")])
    assert "  gemm ours                     1.000 (0.500 to 2.000) over 2 cells of cuBLAS, cold L2" in text
    assert "  gemm ours wide                4.000 (4.000 to 4.000) over 2 cells of cuBLAS, cold L2" in text and "gemm cuBLAS" not in text
    assert "over 4 cells" in report.table([record(size, 1.0, options=(mask,)) for size in (8, 16) for mask in ("full", "causal")])
    assert "geometric" not in report.table([record(8, 0.5)])


def test_a_kernel_beside_two_peers_is_one_row_and_two_measurements_are_two():
    def record(**fields):
        return Record("gemm", "ours", ("BM=128",), (8, 8, 8), "bfloat16", **fields)
    twice = [record(ms=2.0, tflops=500.0, peer=peer, ratio=1.0, ratio_min=1.0, ratio_max=1.0) for peer in ("cuBLAS", "Triton")]
    text = report.table(twice)
    assert text.count("500.0 TFLOP/s") == 1 and "of cuBLAS" in text and "of Triton" in text
    values = report.table([record(value=40.0, value_min=38.0, value_max=42.0, unit="cycles"), record(value=50.0, unit="cycles")])
    assert "40 cycles" in values and "50 cycles" in values and "10.0%" in values


def test_outcomes_say_how_often():
    text = report.table([Record("bugs", "ours", outcome="sometimes wrong", wrong=3, runs=20), Record("bugs", "theirs", outcome="hang")])
    assert "sometimes wrong: 3 of 20" in text and text.splitlines()[-1].split() == ["theirs", "hang"]


def test_warnings_name_noise_and_spills():
    noisy = Record("gemm", "ours", shape=(8,), ms=1.0, ms_min=0.9, ms_max=1.4, spills=8)
    told = "\n".join(report.warnings([noisy]))
    assert "1.25 times the median for 1 contestants" in told and "spilled to memory in ours" in told
    assert report.warnings([Record("gemm", "ours", ms=1.0, ms_min=0.9, ms_max=1.1)]) == []


def test_the_bar_is_lines_where_there_is_no_terminal():
    stream = io.StringIO()
    with report.Progress(2, stream) as progress:
        progress.step("one")
        progress.step("two")
    first, second, last = stream.getvalue().splitlines()
    assert first == "[############............] 1/2 one" and second.startswith("[########################] 2/2 two")
    assert last.startswith("measured in")


def test_readmes_table_has_every_command():
    from hopperlab import cli
    from hopperlab.measure import readme
    table = readme.README.read_text(encoding="utf-8").split("## Commands")[1].split("\n## ")[0]
    named = {word for line in table.splitlines() if line.startswith("| `") for word in line.split("|")[1].replace("`", " ").replace(",", " ").split()}
    assert {command.name for command in cli.COMMANDS} <= named
