# SPDX-License-Identifier: Apache-2.0
"""Malformed PTX ends in errors of our own, and soon: a fixed sample here, any number by `PYTHONPATH=tests python -m emulator.fuzz --mutants 20000 --seed 3`."""
import pytest

from emulator.fuzz.judge import draw, judge

pytestmark = pytest.mark.emulator_only
SEED, BLOCK = 2026, 50


def bad(first: int, count: int) -> list[str]:
    found = []
    for number in range(first, first + count):
        verdict = judge(*draw(SEED, number))
        if verdict.bad:
            found.append(f"mutant {number} of {verdict.case}: {verdict.outcome}, {verdict.seconds:.1f} s\n{verdict.detail}")
    return found


def test_a_few_mutants():
    assert not bad(0, 40)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(0, 2000, BLOCK))
@pytest.mark.sampled(ci=2)
def test_two_thousand_mutants(first):
    assert not bad(first, BLOCK)
