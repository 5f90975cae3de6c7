# SPDX-License-Identifier: Apache-2.0
"""Lesson 18: what Triton and Gluon made runs as the tests of Triton have it, and the lesson prints their sources as they are."""
import re
from pathlib import Path

from hopperlab import measure
from hopperlab.lessons.l18_after_hopper import other_languages
from hopperlab.measure.recordings import Record, Recording
from runtime.triton_kernels.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "tests" / "runtime" / "triton_kernels"
LESSON = (ROOT / "notebooks" / "sources" / "18_after_hopper.md").read_text(encoding="utf-8")
EXAMPLES = (ROOM / "triton_examples.py").read_text(encoding="utf-8").splitlines()


def test_what_is_stored_is_a_case_of_the_tests_of_triton_and_lies_there_once():
    names = {path.stem for path in other_languages.STORED.glob("*.ptx")}
    assert names and names <= set(CASES) and not {path.stem for path in (ROOM / "stored").glob("*.ptx")} & names


def test_the_product_is_right_and_clean_and_the_counts_are_its_own():
    right, run, text = other_languages.triton_product()
    assert right and not run.hazards
    m, n, k = other_languages.SIZE
    assert run.counters["tma_load_bytes"] == (m // 64) * (n // 64) * (k // 64) * 2 * 64 * 64 * 2
    assert run.counters["tma_store_bytes"] == m * n * 2 and text.count("wgmma.mma_async") > 0
    table = other_languages.products_beside()
    assert re.search(r"right, without a hazard +True +True", table)


def test_roles_double_the_work_of_a_small_tile():
    """What Triton 3.6 makes of warp_specialize on tiles of 64 x 64: right values, every product made by both consumers."""
    plain, roles = (other_languages.triton_with_roles(asked) for asked in (False, True))
    assert plain[0] and roles[0] and not plain[1].hazards and {hazard.kind for hazard in roles[1].hazards} == {"barrier-misuse", "race", "register-budget"}
    assert roles[1].counters["wgmma"] == 2 * plain[1].counters["wgmma"] and roles[1].counters["tma_loads"] == plain[1].counters["tma_loads"]
    table = other_languages.roles_beside()
    assert re.search(r"threads of a CTA +128 +384", table) and re.search(r"setmaxnreg +0 +8", table)
    for place, text in enumerate((plain[2], roles[2])):
        assert int(re.search(r"\.reqntid (\d+)", text)[1]) == list(other_languages.THREADS.values())[place]


def test_a_tall_tile_is_announced_by_half():
    hazard = other_languages.roles_on_tall_tile()
    assert hazard.kind == "barrier-misuse" and str(hazard).startswith("barrier-misuse: 8192 bytes that cp.async.bulk.tensor.2d at triton_examples.py:92")
    outcomes = {record.options[0]: record.outcome for record in measure.load("triton_roles") if "warp_specialize=1" in record.options and record.kernel == "product"}
    assert {tile.split("=")[1].split("x")[0] for tile, outcome in outcomes.items() if outcome == "hang"} == {"128"}
    assert {outcome for tile, outcome in outcomes.items() if tile.startswith("tile=64x")} == {"right"}


def test_recorded_roles_in_words():
    case = ("tile=64x64x64", "num_stages=3")
    records = (Record("triton_roles", "product", (*case, "num_warps=4", "warp_specialize=0"), outcome="right", tflops=500.4, ratio=0.72),
               Record("triton_roles", "product", (*case, "num_warps=4", "warp_specialize=1"), outcome="hang"))
    told = other_languages.recorded_roles(Recording("triton_roles", {"gpu": "G", "driver": "1", "cuda": "2", "date": "3"}, records))
    assert told.splitlines()[-1].split() == "a tile per program 64x64x64 3 500 (0.72) – hang".split()


def test_the_recording_holds_both():
    recording = measure.load("triton_roles")
    assert {option for record in recording for option in record.options if option.startswith("warp")} == {"warp_specialize=0", "warp_specialize=1"}
    assert other_languages.recorded_roles(recording).count("\n") >= 8


def test_the_missing_wait_is_named_at_its_line_of_python():
    run = other_languages.gluon_without_wait()
    found = {hazard.kind: (hazard.where.file, hazard.where.line) for hazard in run.hazards}
    assert found["read-before-arrival"] == ("triton_examples.py", 71)


def test_the_lesson_prints_the_sources_as_they_are():
    numbered = [line.split("  ", 1) for line in re.findall(r"^6\d  .*|^7\d  .*", LESSON, re.MULTILINE)]
    assert len(numbered) == 9 and all(EXAMPLES[int(number) - 1] == text for number, text in numbered)
    printed = LESSON[LESSON.index("def product("):].split("```")[0].strip().splitlines()
    start = next(n for n, line in enumerate(EXAMPLES) if line.startswith("def product("))
    assert printed == [line for line in EXAMPLES[start:start + 6] if '"""' not in line]
