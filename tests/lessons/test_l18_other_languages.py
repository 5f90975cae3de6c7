# SPDX-License-Identifier: Apache-2.0
"""Lesson 18: the stored product of Triton and the Gluon copy without a wait are those of the tests, and the lesson prints their sources as they are."""
import re
from pathlib import Path

from hopperlab.lessons.l18_after_hopper import other_languages

ROOT = Path(__file__).resolve().parents[2]
ROOM = ROOT / "tests" / "runtime" / "triton_kernels"
LESSON = (ROOT / "notebooks" / "sources" / "18_after_hopper.md").read_text(encoding="utf-8")
EXAMPLES = (ROOM / "triton_examples.py").read_text(encoding="utf-8").splitlines()


def test_what_is_stored_is_what_the_tests_of_triton_record():
    for path in other_languages.STORED.glob("*.ptx"):
        assert path.read_text() == (ROOM / "stored" / path.name).read_text()


def test_the_product_is_right_and_clean_and_the_counts_are_its_own():
    right, run, text = other_languages.triton_product()
    assert right and not run.hazards
    m, n, k = other_languages.SIZE
    assert run.counters["tma_load_bytes"] == (m // 64) * (n // 64) * (k // 64) * 2 * 64 * 64 * 2
    assert run.counters["tma_store_bytes"] == m * n * 2 and text.count("wgmma.mma_async") > 0
    table = other_languages.products_beside()
    assert re.search(r"right, without a hazard +True +True", table)


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
