# SPDX-License-Identifier: Apache-2.0
"""Random shapes asked for by `hopperlab bench gemm --random`, the search's table, and `measure.tune` with a clock of our own, without a GPU."""
import pytest

from hopperlab import measure
from hopperlab.measure import recordings
from hopperlab.measure.launches import gemm_choice, gemm_tuned
from hopperlab.measure.launches.gemm_configurations import MOST_STAGES
from hopperlab.measure.launches.random_shapes import few_tiles_shapes, random_shapes
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.recordings import Record
from hopperlab.measure.suites import compile_ahead, race, report, search
from hopperlab.measure.suites.bench import Request, RequestError, check
from hopperlab.runtime.errors import CompileError

SHAPE = (100, 200, 304)


def test_random_shapes_are_asked_for():
    checked = check(Request("gemm", random=7, seed=5, peers=["none"]))
    assert checked.shapes == tuple(random_shapes(7, 5)) and checked.kernels == ("final",) and checked.plan.modes == race.MODES[:2] and checked.plan.power_seconds == 0
    assert check(Request("gemm", random=3, seed=0, peers=["none"])).shapes == tuple(random_shapes(3, 0))
    assert check(Request("gemm", random=2, peers=["none"], power=1.5, modes=["sustained"])).plan == race.Plan(modes=("sustained",), power_seconds=1.5)
    assert check(Request("gemm", peers=["none"])).plan.power_seconds == 0.5


@pytest.mark.parametrize(("request_", "words"), [
    (Request("gemm", seed=5), "--seed draws shapes for --random"), (Request("gemm", random=0), "1 to 1000"), (Request("gemm", random=2, seed=-1), "0 or more"),
    (Request("gemm", random=2, shapes=["64"]), "leave --shapes out"),
    (Request("copy", random=2), "copy has none"), (Request("micro", random=2), "takes no --random"),
    (Request("fp8", random=2, shapes=["64"]), "leave --shapes out"), (Request("attention", seed=3), "--seed draws shapes")])
def test_what_random_cannot_do_is_told(request_, words):
    with pytest.raises(RequestError, match=words):
        check(request_)


def test_many_cells_are_told_with_quartiles_and_the_worst():
    records = [Record("gemm", "final", (), (16 * i, 8, 8), "bfloat16", ms=1.0, tflops=1.0, peer="cuBLAS", ratio=0.80 + i / 50, ratio_min=0.8, ratio_max=1.3,
                      mode="cold L2") for i in range(1, 21)]
    told = report.table(records)
    assert "quartiles 0.905, 1.010, 1.115; 11 of 20 not slower" in told and "the worst: 16x8x8 0.820, 32x8x8 0.840" in told
    assert "quartiles" not in report.table(records[:5])


def test_the_searchs_table_is_the_recordings():
    recording = recordings.load("search")
    told = search.shown(recording)
    shapes = {record.shape for record in recording}
    firsts = [record.ratio for record in recording if record.note == "1"]
    assert len(firsts) == len(shapes) == told.count("BM=") and f"({min(firsts):.3f} to {max(firsts):.3f}) over {len(shapes)} cells" in told


def test_a_search_of_few_tiles_tries_the_first_and_deep_rings():
    """As many as FEW says of each order of B, none twice, the first of both rankings among them; the same every time."""
    shape = (128, 640, 2560)
    found = search.few(shape)
    assert found == search.few(shape) and len(found) == len(set(found)) == sum(sum(search.FEW[b_mn]) - search.FEW[b_mn][2] for b_mn in (False, True))
    for b_mn in (False, True):
        ranked, mine = gemm_choice.ranked(*shape, b_mn=b_mn), [choice for choice in found if choice.b_mn == b_mn]
        assert mine[:search.FEW[b_mn][0]] == list(ranked[:search.FEW[b_mn][0]])
        assert len([choice for choice in mine if choice.stages > MOST_STAGES]) >= sum(search.FEW[b_mn][3:])
    assert not any(choice.b_mn for choice in search.few((128, 644, 2560))), "rows of n that TMA cannot read"


def test_a_search_keeps_what_it_has_after_each_shape(monkeypatch):
    asked, kept = [], []
    monkeypatch.setattr(search, "compile_ahead", lambda kernels, say: asked.extend(kernels) or [])

    def timed(shape, choices, rounds):
        return {**{place: Sample((1.0 + place,) * rounds) for place in range(len(choices))}, "torch TN": Sample((2.0,) * rounds)}
    monkeypatch.setattr(search, "timed", timed)
    monkeypatch.setattr(search, "_free", lambda: None)
    records = search.measure_few(3, lambda records: kept.append(len(records)), seed=5, count=2)
    shapes = few_tiles_shapes(2, 5)
    assert list(dict.fromkeys(record.shape for record in records)) == shapes and kept == [len(search.few(shapes[0])), len(records)] and len(asked) == len(records)
    assert [record.ratio for record in records if record.note == "1"] == [2.0, 2.0] and {record.peer for record in records} == {"cuBLAS (torch TN)"}


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """`tune` on a board of our own, where the model's fourth is the fastest."""
    monkeypatch.setenv("HOPPERLAB_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(gemm_tuned, "board", lambda: "a board, driver 1")
    asked = []
    monkeypatch.setattr(search, "compile_ahead", lambda kernels: asked.extend(kernels) or [])
    monkeypatch.setattr(search, "timed", lambda shape, choices, rounds, families: {place: Sample((1.0 + abs(place - 3),) * rounds) for place in range(len(choices))})
    gemm_tuned._known.cache_clear()
    yield asked
    gemm_tuned._known.cache_clear()


def test_tune_remembers_the_fastest(clock):
    found = measure.tune(*SHAPE, count=6)
    ranked = gemm_choice.ranked(*SHAPE)
    assert found.choice == ranked[3] == gemm_tuned.remembered(*SHAPE) and found.gain == 4.0 and len(found.times) == 6 == len(clock)
    assert str(found).startswith("100 x 200 x 304: 1000.0 us, 4.000 of the speed")
    measure.tune(8, 8, 8, count=4)
    assert gemm_tuned.remembered(*SHAPE) == ranked[3], "one more shape does not displace it"


@pytest.mark.parametrize(("given", "words"), [((0, 8, 8), "at least 1"), ((8, 8, 12), "no multiple of 8"), ((8, 8, 8, 0), "count 0")])
def test_tune_says_what_it_cannot(clock, given, words):
    with pytest.raises(ValueError, match=words):
        measure.tune(*given)


def test_what_does_not_compile_is_told(monkeypatch):
    from hopperlab.runtime import library

    def fails(path, kernel, options, backend):
        raise CompileError(f"{path} does not compile:", "no")
    monkeypatch.setattr(library, "load_kernel", fails)
    assert compile_ahead.compile_ahead([("a.cu", "gemm", ("-DX=1",))] * 3)[0].startswith("a.cu -DX=1: a.cu does not compile")


def test_where_processes_cannot_begin_it_compiles_here(monkeypatch):
    """As in a program that Python reads from standard input."""
    from hopperlab.runtime import library
    seen = []
    monkeypatch.setattr(library, "load_kernel", lambda path, *more, **place: seen.append(path))

    def broken(*arguments, **more):
        raise compile_ahead.BrokenProcessPool("terminated abruptly")
    monkeypatch.setattr(compile_ahead, "ProcessPoolExecutor", broken)
    wanted = [(f"{name}.cu", "gemm", ()) for name in "cab"]
    assert compile_ahead.compile_ahead(wanted) == [] and seen == ["a.cu", "b.cu", "c.cu"]
