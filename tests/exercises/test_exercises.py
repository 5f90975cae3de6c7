# SPDX-License-Identifier: Apache-2.0
"""Every exercise: its solution is right, what the learner starts from is not, and each wrong answer fails with a message that helps.

Wrong answers stand in wrong_NN.toml, as edits of the solution or whole; `says` is what the message must contain (a regular expression);
`hidden` ones are judged on hidden cases.
"""
import re
import shutil

import pytest
from support import visits
from support.answer_texts import ROOT, edited, english_left, entries, few_hidden_shapes, solution_cell, translated      # noqa: F401 - one is a fixture

import hopperlab as hl
from hopperlab.checking import check
from hopperlab.checking.exercise import PUBLIC
from hopperlab.lessons import catalogue
from hopperlab.grading import generate, regions

EXERCISES = catalogue.every()
WRONG = entries("wrong_*.toml", "wrong")
KEYS = ("autumn", "spring")


@pytest.mark.parametrize("hidden", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["public", "hidden"])
@pytest.mark.parametrize("name", EXERCISES)
def test_solution_is_right(name, hidden):
    verdict = check.judge(EXERCISES[name], regions.solution_without_stubs(solution_cell(name)), hidden=hidden)
    assert verdict.right and not verdict.warnings, f"{verdict}\n{verdict.accepted}"
    assert english_left(str(verdict), name) == []
    visits.visit("exercise", name)


@pytest.mark.parametrize("name", ["04.2", "06.2", "10.1"])
@pytest.mark.sampled(every=3)
def test_without_the_readers_fence_an_answer_is_accepted_with_a_warning(name, capsys):
    """The same line as the solution's, which nbval compares, and the warning beside it."""
    solved = regions.solution_without_stubs(solution_cell(name))
    fences = re.findall(r"\n *fence_proxy_async_shared_cta\(\);.*", solved)
    assert len(fences) == 1
    text = solved.replace(fences[0], "")
    verdict = check.judge(EXERCISES[name], text)
    hl.backend(), capsys.readouterr()                   # where kernels run is told once in a process
    assert verdict.right and len(verdict.warnings) >= 1 and all(re.match(r"unfenced-overwrite \(warning\): .*\.cu:\d+", one) for one in verdict.warnings)
    hl.backend()
    capsys.readouterr()                                     # once in a process: where kernels run
    catalogue.check(name, text)
    printed = capsys.readouterr()
    catalogue.check(name, solved)
    assert printed.out == capsys.readouterr().out and printed.err == verdict.accepted + "\n"
    assert printed.err.startswith("It is accepted, and ") and verdict.warnings[0] in printed.err


@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.sampled(every=4, thin=False)
def test_what_a_learner_starts_from_is_not_right(name):
    verdict = check.judge(EXERCISES[name], regions.without_solutions(solution_cell(name)))
    assert not verdict.right
    assert verdict.findings[0].step != "form", "the skeleton itself must be something the check tries"


@pytest.mark.parametrize("entry", WRONG)
@pytest.mark.sampled(every=48)
def test_wrong_answer_fails_and_the_message_helps(entry):
    hidden = entry.get("hidden", False)                        # right for the visible cases, or nearly
    verdict = check.judge(EXERCISES[entry["exercise"]], edited(entry), hidden=hidden, key=KEYS[0] if hidden else PUBLIC)
    assert not verdict.right, f"{entry['why']}: not noticed"
    assert re.search(entry["says"], str(verdict)), f"expected {entry['says']!r} in:\n{verdict}"
    assert english_left(str(verdict), entry["exercise"]) == [], "runtime/strings/zh/exercises.toml lacks a translation"


@pytest.mark.parametrize("name", EXERCISES)
def test_every_exercise_has_at_least_four_wrong_answers(name):
    kept = [param.values[0] for param in WRONG if param.values[0]["exercise"] == name]
    assert len(kept) >= 4
    assert len({edited(entry) for entry in kept}) == len(kept)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("name", EXERCISES)
@pytest.mark.sampled(every=40, ci=3)
@pytest.mark.usefixtures("few_hidden_shapes")
def test_in_another_edition_the_edited_solution_is_right_and_the_published_one_is_not(name, key):
    asked, published = EXERCISES[name], solution_cell(name)
    assert asked.constants, "an exercise needs a constant that an edition can change"
    setting = asked.edition(key)
    own = check.judge(asked, regions.solution_without_stubs(generate.edited(asked, published, key)), setting, key=key, hidden=True)
    assert own.right, f"{setting}: {own}"
    assert not check.judge(asked, regions.solution_without_stubs(published), setting, key=key, hidden=True).right, f"{setting}: the published solution passes"


@pytest.mark.parametrize("name", [name for name in EXERCISES if name.endswith(".2")])
@pytest.mark.sampled(every=4)
def test_same_answer_gives_the_same_verdict(name):
    skeleton = regions.without_solutions(solution_cell(name))
    assert str(check.judge(EXERCISES[name], skeleton)) == str(check.judge(EXERCISES[name], skeleton))


def test_words_of_a_check_are_asked_for_in_chinese_once_the_exercises_text_is(tmp_path):
    assert translated("03.1") and english_left("a sentence that no table has", "03.1")
    sources = tmp_path / "solutions" / "sources"
    shutil.copytree(ROOT / "solutions" / "sources", sources)
    assert translated("03.1", tmp_path)
    (sources / "zh" / "03_ampere_pipeline.md").unlink()
    translated.cache_clear()
    assert not translated("03.1", tmp_path) and translated("03.1")
