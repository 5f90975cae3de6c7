# SPDX-License-Identifier: Apache-2.0
"""`hopperlab bench fp8 --random` and `bench attention --random`: what is drawn and compiled, how results are checked, and races with stand-ins for the GPU."""
import sys
import types
from dataclasses import replace
from importlib.machinery import ModuleSpec

import numpy as np
import pytest

from hopperlab.measure import readme, recordings, summaries
from hopperlab.measure.launches import attention, fp8
from hopperlab.measure.launches.launch import Launch
from hopperlab.measure.launches.operands import bf16_bits, bf16_values
from hopperlab.measure.launches.random_cells import HIDDEN, TOKENS, Cell, random_cells
from hopperlab.measure.launches.random_shapes import MOST_FLOP, fp8_shapes, random_shapes
from hopperlab.measure.machine.timing import Sample
from hopperlab.measure.recordings import Record, Recording
from hopperlab.measure.suites import bench, race, race_attention, race_fp8, report, table
from hopperlab.measure.suites.bench import Request, RequestError, check


def test_shapes_of_fp8_are_those_of_products_with_rows_of_16_bytes():
    shapes, products = fp8_shapes(300, 7), random_shapes(300, 7)
    assert shapes == fp8_shapes(300, 7) and all(k % 16 == 0 and n % 8 == 0 and 2.0 * m * n * k <= MOST_FLOP for m, n, k in shapes)
    assert any(n % 16 for _, n, _ in shapes) and any(k % 8 == 0 and k % 16 for _, _, k in products)
    assert 100 < sum(n % 128 == 0 and k % 128 == 0 for _, n, k in shapes) < 200


def test_cells_are_what_they_say():
    cells = [Cell.of(numbers) for numbers in random_cells(400, 3)]
    assert random_cells(400, 3)[:20] == random_cells(20, 3) != random_cells(20, 4)
    for cell in cells:
        assert cell.heads % cell.kv_heads == 0 and HIDDEN[0] <= cell.heads * cell.d <= HIDDEN[1] and 0 < sum(cell.lengths) <= TOKENS and min(cell.lengths) > 0
        assert Cell.of(cell.numbers) == cell and max(cell.lengths) == cell.lengths[0]
    assert {cell.d for cell in cells} == set(attention.HEAD_SIZES) and {cell.causal for cell in cells} == {True, False}
    assert 150 < sum(max(cell.lengths) % 128 == 0 for cell in cells) and 100 < sum(max(cell.lengths) % 128 > 0 for cell in cells)
    assert all(sum(cell.lengths) >= 4096 for cell in cells if not cell.even)
    assert 40 < sum(not cell.even for cell in cells) < 150 and 150 < sum(cell.heads > cell.kv_heads for cell in cells) < 350


def test_a_cell_is_named_and_counted():
    cell = Cell(64, True, 8, 2, (300, 100))
    assert str(cell) == "2x300x8x64 causal KV_HEADS=2 TOKENS=400 varlen" and cell.options[0] == "D=64" and cell.flop == 4 * 8 * 64 * (300 ** 2 + 100 ** 2) // 2
    assert Cell(64, False, 8, 8, (300, 300)).options == ("D=64", "full", "KV_HEADS=8", "TOKENS=600")


@pytest.mark.parametrize(("suite", "drawn"), [("fp8", fp8_shapes), ("attention", random_cells)])
def test_random_is_the_suite_s_race(suite, drawn):
    checked = check(Request(suite, random=5, seed=9, peers=["none"]))
    assert checked.races.name == suite and checked.shapes == tuple(drawn(5, 9)) and checked.kernels == ("final",) and checked.plan.modes == race.MODES[:2]
    assert [row.recording for row in checked.rows] == [f"{suite}_random"] and [row.recording for row in check(Request(suite)).rows] == [suite]
    with pytest.raises(RequestError, match="no kernel 'promoted'; there are tried, final"):
        check(Request(suite, random=5, kernels=["promoted"]))
    with pytest.raises(ValueError, match="give --random N"):
        checked.races.shape("64")


def test_drawn_products_leave_the_table_s_shapes_alone():
    """`--out DIR` writes products_best, not bench_gemm, which README's table of eight shapes comes from."""
    assert [row.recording for row in check(Request("gemm", random=5, seed=9, peers=["none"])).rows] == ["products_best"]
    assert [row.recording for row in check(Request("gemm", peers=["none"])).rows] == ["bench_gemm"]


def test_the_seed_of_today_is_the_date(monkeypatch):
    class Day(bench.date):
        @classmethod
        def today(cls):
            return cls(2026, 11, 25)
    monkeypatch.setattr(bench, "date", Day)
    assert check(Request("fp8", random=3, peers=["none"])).shapes == tuple(fp8_shapes(3, 20261125))


@pytest.mark.parametrize(("races", "module"), [(race_fp8.RACES, race_fp8), (race_attention.RACES, race_attention)], ids=("fp8", "attention"))
def test_what_is_compiled_ahead_is_what_is_launched(races, module, monkeypatch):
    wanted = []
    monkeypatch.setattr(module, "compile_ahead", lambda kernels: wanted.extend(kernels))
    shapes = races.random(40, 1)
    races.ahead(shapes, ("final",))
    assert len(wanted) == 40
    if module is race_fp8:
        assert set(wanted) == {("fp8/block_scaled.cu", "gemm", fp8.choose(*shape).options) for shape in shapes}
    else:
        cells = [Cell.of(numbers) for numbers in shapes]
        assert set(wanted) == {("attention/forward.cu", "attention", race_attention.picked(c).options(c.d, c.causal)) for c in cells}


# --- checking -----------------------------------------------------------------------------------------------------------
def drawn_attention(lengths, heads, kv_heads, d, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(bf16_values(bf16_bits(rng.standard_normal((sum(lengths), h, d)).astype(np.float32))) for h in (heads, kv_heads, kv_heads))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_in_fp32_is_that_in_float64(causal):
    lengths = (130, 1, 67)
    q, k, v = drawn_attention(lengths, 6, 2, 64)
    o, lse = race_attention.reference(np, q, k, v, lengths, causal, rows=50)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    expected, expected_lse = attention.reference(q, k, v, starts, starts, causal)
    assert o.dtype == lse.dtype == np.float32
    np.testing.assert_allclose(o, expected, atol=2e-5)
    np.testing.assert_allclose(lse, expected_lse, atol=2e-5)


def test_a_wrong_element_is_counted_and_rounding_is_not():
    o = np.random.default_rng(2).standard_normal((40, 2, 64)).astype(np.float32)
    rounded = bf16_values(bf16_bits(o))
    assert race_attention.off(np, rounded, o, 1.0) == 0
    for value in (np.nan, rounded[3, 1, 5] + 0.1):
        bad = rounded.copy()
        bad[3, 1, 5] = value
        assert race_attention.off(np, bad, o, 1.0) == pytest.approx(1 / o.size)
    lse = np.full((2, 40), 3.0, np.float32)
    assert race_attention.lse_off(np, lse, lse) == 0 and race_attention.lse_off(np, lse + 0.01, lse) == 1 and race_attention.lse_off(np, lse * np.nan, lse) == 1


def test_what_a_peer_does_not_take_or_gets_wrong_is_told(capsys):
    def refuses():
        raise RuntimeError("n is no multiple of 16\nand more")
    assert race.taken("P", "8x8x8", lambda: 0.0) and capsys.readouterr().err == ""
    assert not race.taken("P", "8x8x8", refuses) and capsys.readouterr().err == "P does not take 8x8x8: n is no multiple of 16\n"
    assert not race.taken("P", "8x8x8", lambda: 0.25) and "25.00% of its elements are wrong" in capsys.readouterr().err
    assert race.taken("P", "8x8x8", lambda: 0.001, 0.001) and not race.taken("P", "8x8x8", lambda: float("nan"), 0.001)


# --- races with stand-ins -------------------------------------------------------------------------------------------------
@pytest.fixture
def stand_in(monkeypatch):
    """NumPy under CuPy's name, a PyTorch that has no GPU's memory, launches in the emulator."""
    cupy = types.ModuleType("cupy")
    cupy.__getattr__ = lambda name: getattr(np, name)
    cupy.__spec__ = ModuleSpec("cupy", None)
    torch = types.ModuleType("torch")
    torch.cuda = types.SimpleNamespace(empty_cache=lambda: None, synchronize=lambda: None)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(Launch, "bound", lambda self: self)
    return race.Instruments(dict.fromkeys(race.MODES, lambda runs, rounds: {name: Sample((1.0 + place,) * rounds) for place, name in enumerate(runs)}))


def fp8_given(shape):
    rng = np.random.default_rng(sum(shape))
    m, n, k = shape
    a8, b8, a_scales, b_scales = fp8.quantise(*(rng.standard_normal((rows, k)).astype(np.float32) for rows in (m, n)))
    return {"a": a8.view(np.uint8), "b": b8.view(np.uint8), "a_scales": a_scales, "b_scales": b_scales, "c": np.zeros((m, n), np.uint16),
            "exact": fp8.reference(a8, b8, a_scales, b_scales)}


def fp8_wrong(given, run, exact=None):
    given["c"][:] = 0x7FC0
    run()
    return float((~(np.abs(bf16_values(given["c"]) - exact) <= 2.0 ** -8 * np.abs(exact) + 2.0 ** -9 * np.sqrt(np.square(exact).mean()))).mean())


def test_a_race_of_fp8_checks_ours_and_takes_the_first_launch_of_a_peer_that_is_right(stand_in, monkeypatch, capsys):
    monkeypatch.setattr(race_fp8, "operands", fp8_given)
    monkeypatch.setattr(race_fp8, "exact_product", lambda given: given["exact"])
    monkeypatch.setattr(race_fp8, "wrong", fp8_wrong)

    def launches(given):
        def fills(value):
            return lambda: given["c"].__setitem__(slice(None), bf16_bits(value.astype(np.float32)))
        return [fills(2 * given["exact"]), fills(given["exact"])]

    def refuses(given):
        def run():
            raise RuntimeError("not here")
        return [run]
    monkeypatch.setattr(race_fp8, "PEERS", {"one": race_fp8.Peer("cuBLASLt", "numpy", {"right": launches}), "two": race_fp8.Peer("Other", "numpy", {"none": refuses})})
    made = race_fp8.race((40, 72, 144), ("final",), ("one", "two"))
    assert list(made.contestants) == ["final", "right"] and made.contestants["final"].options == race_fp8.named(fp8.choose(40, 72, 144))
    told = capsys.readouterr().err
    assert "right is left out at 40x72x144" in told and "none does not take 40x72x144: not here" in told
    records = race.run(made, race.Plan(2, race.MODES[:2], 0), instruments=stand_in)
    final = [record for record in records if record.kernel == "final"]
    assert [record.mode for record in final] == list(race.MODES[:2]) and all(record.ratio == 2 and record.peer == "cuBLASLt (right)" for record in final)
    monkeypatch.setattr(fp8, "block_scaled", lambda *arrays: types.SimpleNamespace(bound=lambda: lambda: None))
    with pytest.raises(race.WrongResult, match="final at 40x72x144: 100.00%"):
        race.run(race_fp8.race((40, 72, 144), ("final",), ()), race.Plan(2, race.MODES[:2], 0), instruments=stand_in)


def attention_given(q_lengths, k_lengths, heads, kv_heads, d):
    q, k, v = (bf16_bits(x) for x in drawn_attention(q_lengths, heads, kv_heads, d))
    starts = np.concatenate([[0], np.cumsum(q_lengths)]).astype(np.int32)
    return {"q": q, "k": k, "v": v, "o": np.zeros_like(q), "lse": np.zeros((heads, len(q)), np.float32), "q_starts": starts, "k_starts": starts}


@pytest.mark.parametrize("cell", [Cell(64, True, 4, 2, (70, 33)), Cell(128, False, 2, 2, (67, 67))], ids=str)
def test_a_race_of_attention_checks_ours_and_the_peer(cell, stand_in, monkeypatch, capsys):
    monkeypatch.setattr(race_attention, "operands", attention_given)
    monkeypatch.setattr(race_attention, "packed", lambda out: out)
    by = {"factor": 1.0}

    def peer(given, cell):
        values = [bf16_values(given[name]) for name in ("q", "k", "v")]
        return lambda: by["factor"] * race_attention.reference(np, *values, cell.lengths, cell.causal)[0]
    monkeypatch.setattr(race_attention, "PEERS", {"cudnn": race_attention.Peer("cuDNN", "numpy", {"cuDNN": peer})})
    made = race_attention.race(cell.numbers, ("final",), ("cudnn",))
    assert list(made.contestants) == ["final", "cuDNN"] and made.shape == cell.shape and made.work == cell.flop
    records = race.run(made, race.Plan(2, race.MODES[:2], 0), instruments=stand_in)
    assert {record.kernel: record.ratio for record in records} == {"final": 2, "cuDNN": 1}
    final = next(record for record in records if record.kernel == "final")
    said = len(cell.options)
    assert final.options[:said] == cell.options and attention.parsed(final.options[said:]) == race_attention.picked(cell)
    by["factor"] = 1.5
    with pytest.raises(race.WrongResult, match="cuDNN at"):
        race.run(made, race.Plan(2, race.MODES[:2], 0), instruments=stand_in)
    assert list(race_attention.race(cell.numbers, ("final",), ("cudnn",)).contestants) == ["final"] and f"cuDNN is left out at {cell}" in capsys.readouterr().err


# --- what is told -----------------------------------------------------------------------------------------------------------
def recorded(suite: str, count: int = 20, alone: int = 2) -> Recording:
    """Records of random cells in both modes, the last `alone` without a peer that takes them."""
    peer = {"fp8": "cuBLASLt (cuBLASLt block-scaled)", "attention": "cuDNN"}[suite]
    records = []
    for mode in race.MODES[:2]:
        for i in range(count):
            shape, options = ((16 * (i + 1), 64, 128), ("BN=64",)) if suite == "fp8" else ((1, 16 * (i + 1), 8, 64), ("D=64", "causal", "KV_HEADS=8", "TOKENS=64"))
            beside = {"peer": peer, "peer_value": 1.0, "ratio": 0.9 + i / 50, "ratio_min": 0.5, "ratio_max": 1.5} if i < count - alone else {}
            records.append(Record(suite, "final", options, shape, "e4m3", mode=mode, ms=1.0, ms_min=1.0, ms_max=1.0, tflops=1.0, registers=168, **beside))
    return Recording(f"{suite}_random", {"gpu": "a board", "driver": "0", "cuda": "0", "date": "2026-11-25"}, tuple(records))


@pytest.mark.parametrize("suite", ["fp8", "attention"])
def test_the_table_tells_mean_quartiles_worst_and_what_no_peer_took(suite):
    told = report.table(list(recorded(suite)))
    assert "quartiles 0.975, 1.070, 1.165; 13 of 18 not slower" in told and "cold L2: no peer took 2 of 20 cells: " in told and "clean L2: no peer took 2" in told
    assert ("the worst: 1x16x8x64 causal 0.900, 1x32x8x64 causal 0.920" if suite == "attention" else "the worst: 16x64x128 0.900, 32x64x128 0.920") in told
    assert "no peer took" not in report.table(list(recorded(suite, alone=0)))


@pytest.mark.parametrize("suite", ["fp8", "attention"])
def test_readme_has_a_sentence_where_the_recording_is_there(suite):
    one = recorded(suite)
    text = "\n".join(table.found(f"readme:{suite}_random")(lambda name: {one.name: one}[name]))
    assert "At 20 " in text and "(2 that it does not take are left out)" in text and "quartiles 97.5, 107.0 and 116.5%, least 90.0% at" in text
    assert "13 of 18 not slower" in text
    whole = readme.performance({one.name: one})
    assert text in whole and (one.name in recordings.names(recordings.FOLDER / recordings.LESSONS_BOARD) or text not in readme.performance())


def test_a_spread_is_of_one_kernel_and_needs_two_ratios():
    records = recorded("fp8").where(mode="cold L2")
    one = summaries.spread(records, worst=3)
    assert one.summary == summaries.of_records(records) and [round(record.ratio, 3) for record in one.worst] == [0.9, 0.92, 0.94] and one.summary.count == 18
    with pytest.raises(ValueError, match="two ratios or more"):
        summaries.spread(records[:1])
    with pytest.raises(ValueError, match="two records"):
        summaries.spread([records[0], *records])


def test_ratios_are_told_by_work_and_by_m_or_length():
    told = report.table(list(recorded("fp8", alone=0)))
    assert "by FLOP: from 1e9 1.084, least 0.900 (20)" in told
    assert "by m: from 16 0.920, least 0.900 (3); from 64 1.068, least 0.960 (12); from 256 1.240, least 1.200 (5)" in told
    theirs = [replace(record, registers=None) for record in recorded("fp8", alone=0)]
    assert "by FLOP" not in report.table(theirs)            # of peers only the spread
    assert "by longest sequence: from 16 0.920" in report.table(list(recorded("attention", alone=0)))
    sizes = summaries.by_size(recorded("fp8").where(mode="cold L2"), lambda record: record.shape[0], 4)
    assert {least: one.count for least, one in sizes.items()} == {16: 3, 64: 12, 256: 3}


def test_absent_peers_are_told(monkeypatch):
    monkeypatch.setattr(bench, "installed", lambda table: ["cublas", "torch"])
    assert "Triton (triton, package triton)" in check(Request("gemm", random=2)).absent and check(Request("micro")).absent == []


def test_a_race_that_is_cut_short_leaves_what_it_has(tmp_path, monkeypatch):
    monkeypatch.setattr(bench.board, "header", lambda: {**dict.fromkeys(recordings.HEADER_FIELDS, "x"), "gpu": "NVIDIA H200"})
    monkeypatch.setattr(bench, "_free", lambda: None)

    def race_of(shape, kernels, chosen):
        if shape == (2,):
            raise RuntimeError("the GPU is gone")
        return shape
    races = race.Races("fp8", (), race.only_random, {"final": None}, ("final",), {}, race_of)
    monkeypatch.setattr(bench.race, "run", lambda one, plan, step: [Record("fp8", "final", shape=one, ms=1.0, ms_min=1.0, ms_max=1.0, tflops=1.0)])
    row = table.Suite("fp8", "fp8_random", "suites.race_fp8:RACES", "", "", kind=table.RACE)
    with pytest.raises(RuntimeError, match="gone"):
        bench._raced(races, bench.Checked((row,), ((1,), (3,), (2,), (4,)), ("final",)), tmp_path)
    kept = recordings.load("fp8_random", tmp_path)
    assert [record.shape for record in kept] == [(1,), (3,)] and kept.header["warnings"] == ["cut short: more was to follow"]


def test_cudnn_is_not_timed_where_pytorch_prepares_it_at_every_call():
    """Sequences of several lengths: the launch says so, and the race leaves the peer out."""
    uneven = next(cell for cell in map(Cell.of, random_cells(60, 3)) if not cell.even)
    launch = race_attention.torch_cudnn({}, uneven)
    with pytest.raises(RuntimeError, match="no plan of cuDNN's"):
        launch()
    assert not race.taken("cuDNN", "here", launch)
