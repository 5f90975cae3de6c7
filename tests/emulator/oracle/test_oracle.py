# SPDX-License-Identifier: Apache-2.0
"""Drawn programs and every mutant of some: the model of the rules and the emulator say the same under each schedule (docs/oracle.md).

Always the same few dozen; thousands by `python -m tests.emulator.oracle --programs 2000 --seed 1` from the root of the repository.
"""
import random

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings

from emulator.oracle.compare import disagreements
from emulator.oracle.generate import FAMILIES, programs
from emulator.oracle.model import Oracle, TooManyStates
from emulator.oracle.mutants import mutants

pytestmark = pytest.mark.emulator_only
LIMIT = 1500                                            # states of the model; larger programs are left to the command
FIXED = dict(database=None, deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.explicit, Phase.generate, Phase.shrink])


def judge(program):
    """The model's verdict of a program that is compared here; others are not counted as examples."""
    try:
        verdict = Oracle(program, limit=LIMIT).verdict()
    except TooManyStates:
        assume(False)
    return verdict


def agree(program, verdict):
    found = disagreements(program, verdict)
    assert not found, f"{program}\nthe model: {sorted(verdict.may)}\nthe emulator: {found}"


@pytest.mark.parametrize("family", FAMILIES)
def test_programs_as_drawn(family):
    seen = []

    @seed(2026)
    @settings(max_examples=12, **FIXED)
    @given(programs([family]))
    def drawn(program):
        verdict = judge(program)
        agree(program, verdict)
        seen.append(verdict)

    drawn()
    assert len(seen) >= 12 and any(v.correct for v in seen)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.sampled(every=2)
def test_programs_with_one_synchronisation_less(family):
    seen = []

    @seed(2027)
    @settings(max_examples=25, **FIXED)
    @given(programs([family]))
    def drawn(program):
        every = list(mutants(program))
        assume(every)
        mutant = random.Random(str(program)).choice(every)[2]
        verdict = judge(mutant)
        agree(mutant, verdict)
        seen.append(verdict)

    drawn()
    assert any(not v.clean for v in seen)
    assert any(v.correct for v in seen) or family == "epilogue"     # of an epilogue nothing is redundant
