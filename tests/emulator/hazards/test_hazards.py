# SPDX-License-Identifier: Apache-2.0
"""Every hazard kind: kernels that commit it, named at both lines under every schedule, and clean twins that are silent."""
import warnings
from pathlib import Path

import pytest
from hopperlab.emulator.hazards.kinds import Kind
from support import hazard_cases

SCHEDULES = ("lazy", "eager", "random")
CASES = hazard_cases.all_cases()
BUGS = [c for c in CASES if not c.clean]
KINDS = tuple(map(str, Kind))
pytestmark = pytest.mark.filterwarnings("ignore::hopperlab.runtime.errors.PtxasWarning")


def named(cases):
    return [f"{c.kind}-{c.name}" for c in cases]


def told(session):
    return "\n".join(f"{h}\n  where={h.where and h.where.line} other={h.other and h.other.line}" for h in (*session.hazards, *session.warnings))


def code_of(case, bug):
    """PTX without line tables and comments."""
    ptx = hazard_cases.module(case, bug).ptx.split(".section")[0]
    return "\n".join(line for line in ptx.splitlines() if not line.lstrip().startswith((".loc", "//")))


@pytest.mark.parametrize("case", BUGS, ids=named(BUGS))
@pytest.mark.sampled(every=3)           # that each bug is still there shows where it is named, below
def test_bug_is_in_the_ptx(case):
    """The compiler has neither mended nor removed it."""
    how, *text = case.ptx or ("differs",)
    bug, clean = code_of(case, 1), code_of(case, 0)
    assert bug != clean or len(set(case.given)) == 2            # layout-mismatch's page: the kernel is the same, its tensor map is not
    if text:
        counts = bug.count(text[0]), clean.count(text[0])
        assert (counts[0] < counts[1]) if how == "fewer" else (counts[0] > counts[1]), counts


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", BUGS, ids=named(BUGS))
def test_bug_is_named_at_its_lines(case, schedule):
    session, _ = hazard_cases.run(case, 1, schedule)
    listed = session.warnings if case.warning else session.hazards
    found = [h for h in listed if h.kind == case.kind]
    assert found, told(session)
    assert {h.kind for h in session.hazards} <= (set(case.also) if case.warning else {case.kind, *case.also}), told(session)
    assert all(h.severity == ("warning" if case.warning else "error") for h in found)
    where, other = case.lines("HAZARD"), case.lines("OTHER")
    assert where, "the case marks no line"
    assert any(h.where is not None and h.where.line in where and (not other or h.other is not None and h.other.line in other)
               for h in found), f"{told(session)}\nmarked: {where} {other}"


@pytest.mark.parametrize("case", CASES, ids=named(CASES))
@pytest.mark.sampled(every=3)
def test_clean_twin_is_silent(case):
    """No hazard under any schedule, and the same values under all."""
    results = []
    for schedule in SCHEDULES:
        session, arrays = hazard_cases.run(case, 0, schedule, seed=3)
        assert not session.hazards and not session.warnings, f"{schedule}: {told(session)}"
        results.append([a.tobytes() for a in arrays])
    assert results[0] == results[1] == results[2]


def test_the_suite_is_complete():
    """Two kernels or more for each kind, one of which its page shows, and 60 in all."""
    count = {kind: sum(c.kind == kind for c in BUGS) for kind in KINDS}
    assert all(n >= 2 for n in count.values()), count
    assert {c.kind for c in BUGS} == set(KINDS) == {c.kind for c in BUGS if c.given}
    assert len(BUGS) + len(CASES) >= 60


def test_messages_are_for_learners():
    """Each message names an instruction and a line, and says what to write or check."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in BUGS[::3]:
            session, _ = hazard_cases.run(case, 1, "lazy")
            for h in (*session.hazards, *session.warnings):
                assert len(h.message) > 60 and Path(case.file).stem in h.message, str(h)
