# SPDX-License-Identifier: Apache-2.0
"""Where the emulator says otherwise than the rules today, exactly. A test that fails here was mended: take its entry out of known.py.

Which side is right, and by which section, stands beside each entry of known.py: the model in all of them.
"""
import pytest

from emulator.oracle.compare import disagreements, named
from emulator.oracle.known import KNOWN
from emulator.oracle.model import Oracle
from emulator.oracle.writer import SCHEDULES, run

pytestmark = pytest.mark.emulator_only
CASES = [pytest.param(name, *case, id=f"{name} {k}") for name, known in KNOWN.items() for k, case in enumerate(known.cases)]


@pytest.mark.parametrize("name, program, today", CASES)
def test_the_emulator_says_today(name, program, today):
    found = {s: [(n.kind, n.line, n.other) for n in named(run(program, s))] for s in SCHEDULES}
    assert found == {s: list(today[s] if isinstance(today, dict) else today) for s in SCHEDULES}


@pytest.mark.parametrize("name, program, today", CASES)
def test_it_is_a_disagreement_and_set_aside(name, program, today):
    verdict = Oracle(program).verdict()
    assert disagreements(program, verdict) and KNOWN[name].applies(program, verdict)


def test_every_entry_has_a_case():
    assert all(known.cases and "PTX ISA" in known.right for known in KNOWN.values())
