# SPDX-License-Identifier: Apache-2.0
"""The story of the ladder: shares and gains follow from the records, and README's tables from the story."""
import importlib
import json
import re

import pytest

from hopperlab import cli
from hopperlab.measure import readme, recordings, story, targets
from hopperlab.measure.recordings import HEADER_FIELDS, Record, Recording

HEADER = {**dict.fromkeys(HEADER_FIELDS, "x"), "gpu": "a GPU", "driver": "1", "cuda": "13.0", "date": "2026-01-01"}


def step(kernel, speed, size=8192, **fields):
    return Record("ladder", kernel, shape=(size,) * 3, tflops=speed, ratio=speed / 800, peer="cuBLAS (torch)", peer_value=800.0, **fields)


RECORDS = (step("cublasGemmEx", 700.0), step("torch", 800.0, watts=700.0), step("final", 760.0, watts=690.0, registers=168, shared_bytes=2048, spills=0),
           step("tma_wgmma", 400.0), step("shared_tile", 20.0), step("final", 640.0, 4096, note="group 4"), step("final", 720.0, 4096, note="no cluster"))
LADDER = Recording("ladder", HEADER, RECORDS)


def test_steps_climb_in_order_with_their_gains():
    told = story.tell(LADDER)
    assert [(s.name, s.gain) for s in told.steps] == [("shared_tile", None), ("tma_wgmma", 20.0), ("final", 1.9)]
    assert (told.peer, told.peer_tflops, told.steps[-1].share) == ("torch", 800.0, 0.95)


def test_the_text_has_every_column():
    text = str(story.tell(LADDER))
    line = next(line for line in text.splitlines() if line.startswith("final"))
    assert line.split()[:7] == ["final", "760.0", "95.0", "x1.90", "168", "2", "0"]
    assert "recorded on a GPU, driver 1" in text


def test_rates_of_single_launches_are_not_divided_by_the_power_of_a_run_without_a_pause():
    assert not any(word in str(story.tell(LADDER)) for word in (" W", "watt"))


def test_the_best_configuration_of_each_shape_is_told():
    best, = story.tell(LADDER).shapes
    assert (best.shape, best.configuration, best.share) == ((4096,) * 3, "no cluster", 0.9)
    assert story.mean_share([best, story.Best((1,), "", 1.0, 1.0, 0.4)]) == pytest.approx(0.6)


def test_a_verdict_beside_cublas_alone_goes_before_the_fastest_trial():
    """A maximum over many trials flatters: where the chosen one ran once more, that counts."""
    trials = (step("final", 700.0, 2048, note="a", options=("X=1",)), step("split_k", 720.0, 2048, note="b", options=("X=2",)),
              step("torch", 800.0, 2048, note="torch"), step("final", 710.0, 2048, options=("X=2",)))
    best, = story.tell(Recording("ladder", HEADER, (*RECORDS[:5], *trials))).shapes
    assert (best.tflops, best.configuration) == (710.0, "b")


def test_edges_and_sustained_speed_are_told():
    more = (Record("ladder", "edge", ("final",), (4095, 4096, 4096), tflops=700.0, ratio=0.985, note="ratio"),
            Record("ladder", "sustained", ("final",), (8192,) * 3, tflops=700.0, ratio=1.0, watts=700.0, note="in turns"))
    text = str(story.tell(Recording("ladder", HEADER, (*RECORDS, *more))))
    assert "edge 4095x4096x4096 final: 98.5 % of the speed" in text and "sustained 8192x8192x8192 final: 700 TFLOP/s, 700 W, 1.00 TFLOP/s a watt" in text
    figure = importlib.import_module("hopperlab.lessons.l14_beat_cublas.ladder_figures")
    roof = Recording("ceilings", HEADER, (Record("ceilings", "device copy", dtype="bytes", gb_s=1234.0),
                                          Record("ceilings", "cuBLAS product", dtype="bfloat16", tflops=900.0)))
    drawn = figure.ladder(story.tell(Recording("ladder", HEADER, (*RECORDS, *more))), roof).text
    assert "shared_tile" in drawn and not any(word in drawn for word in ("edge", "sustained"))


def test_a_size_that_was_not_measured_names_those_that_were():
    with pytest.raises(ValueError, match="no steps of the ladder at 1000³; it has 8192³"):
        story.tell(LADDER, 1000)


def test_every_step_that_is_recorded_has_its_idea():
    assert not [s.name for s in story.tell(story.read()).steps if not s.idea]


def test_a_fresh_file_can_be_told(tmp_path, capsys):
    recordings.save("fresh", HEADER, RECORDS, tmp_path)
    assert cli.main(["ladder", "--from", str(tmp_path / "fresh.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][0]["name"] == "shared_tile"


def test_a_folder_of_fresh_recordings_brings_its_own_roof(tmp_path, capsys, monkeypatch):
    figure = importlib.import_module("hopperlab.lessons.l14_beat_cublas.ladder_figures")
    recordings.save("ladder", HEADER, RECORDS, tmp_path)
    recordings.save("ceilings", HEADER, [Record("ceilings", "device copy", dtype="bytes", gb_s=1234.0),
                                         Record("ceilings", "cuBLAS product", dtype="bfloat16", tflops=900.0)], tmp_path)
    drawn = []
    monkeypatch.setattr(figure, "_roof", lambda axis, told, peak, bandwidth: drawn.append((peak, bandwidth)))
    assert cli.main(["ladder", "--from", str(tmp_path), "--plot", str(tmp_path / "x.png")]) == 0
    assert drawn == [(900.0, 1.234)] and "shared_tile" in capsys.readouterr().out
    assert cli.main(["ladder", "--from", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize(("text", "message"), [("nonsense", "is not JSON"), ("[]", "holds no recording"), ('{"header": {}}', "not header and records")])
def test_a_file_that_is_no_recording_is_named(text, message, tmp_path, capsys):
    path = tmp_path / "x.json"
    path.write_text(text)
    assert cli.main(["ladder", "--from", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_the_command_prints_and_draws(tmp_path, capsys):
    assert cli.main(["ladder", "--size", "4096", "--plot", str(tmp_path / "ladder.png")]) == 0
    assert "The product ladder at 4096³" in capsys.readouterr().out
    assert (tmp_path / "ladder.png").read_bytes().startswith(b"\x89PNG")


# --- README -----------------------------------------------------------------------------------------------------------
def test_readmes_tables_are_those_of_the_recordings():
    text = readme.README.read_text(encoding="utf-8")
    assert readme.rendered(text) == text, "README.md is stale: run python -m hopperlab.measure.readme"
    listed = readme.LIST.read_text(encoding="utf-8")
    assert readme.rendered(listed, readme.listed(), readme.BEGIN_LIST, readme.END_LIST) == listed, "recordings/README.md is stale: as above"
    assert readme.rendered(listed, targets.table(), readme.BEGIN_TARGETS, readme.END_TARGETS) == listed, "recordings/README.md is stale: as above"


@pytest.mark.thorough
def test_a_stale_readme_is_noticed_and_mended(tmp_path, capsys):
    path, listed = tmp_path / "README.md", tmp_path / "list.md"
    path.write_text(f"before\n{readme.BEGIN}\nold numbers\n{readme.END}\nafter\n")
    listed.write_text(f"{readme.BEGIN_LIST}\n{readme.listed()}\n{readme.END_LIST}\n{readme.BEGIN_TARGETS}\n{targets.table()}\n{readme.END_TARGETS}\n")
    assert readme.main(["--check"], path, listed) == 1
    told = capsys.readouterr().err
    assert "README.md is stale" in told and "list.md" not in told
    assert readme.main([], path, listed) == 0
    text = path.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old numbers" not in text and "| `final` |" in text
    assert readme.main(["--check"], path, listed) == 0
    listed.write_text(listed.read_text().replace("`hopperlab bench fp8`", "by hand"))
    assert readme.main(["--check"], path, listed) == 1 and "list.md is stale" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["nothing", f"{readme.END}{readme.BEGIN}", f"{readme.BEGIN}{readme.BEGIN}{readme.END}"])
def test_marks_that_are_missing_are_named(text):
    with pytest.raises(ValueError, match="needs the lines"):
        readme.rendered(text)


def test_a_changed_recording_changes_the_section():
    section = readme.performance({"ladder": LADDER})
    assert "| `final` | all of it, with a tile and schedule by shape | 760 | 95% | 168 | 2 KiB |" in section
    assert "| 4096³ | 720 | 800 | 90.0% |" in section


def test_deepgemm_has_a_column_where_it_was_measured():
    recording = recordings.load("fp8")
    without = recordings.Recording("fp8", recording.header, tuple(r for r in recording if r.kernel != "DeepGEMM"))
    share = 100 * recording.one(kernel="DeepGEMM", shape=(4096,) * 3).ratio
    row = next(line for line in readme.fp8(lambda name: recording) if line.startswith("| 4096³ "))
    assert row.endswith(f"| {share:.1f}% |") and "DeepGEMM" not in "".join(readme.fp8(lambda name: without))
    for lines in (readme.fp8(lambda name: recording), readme.fp8(lambda name: without)):
        assert len({line.count("|") for line in lines if line.startswith("|")}) == 1


def test_static_shared_memory_is_what_the_sources_declare():
    """The column has dynamic bytes alone, which for these steps are none."""
    from hopperlab.runtime.library import load_kernel
    for name, nbytes in readme.STATIC.items():
        arrays = re.findall(r"\.shared\s+\.align \d+ \.b8 [\w$]+\[(\d+)\]", load_kernel(f"gemm/{name}.cu", "gemm", backend="emulator").module.ptx)
        assert sum(map(int, arrays)) == nbytes
    assert "`shared_tile` has 8.5 KiB" in (text := readme.performance()) and "| registers | dynamic shared memory |" in text
