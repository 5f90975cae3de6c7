# SPDX-License-Identifier: Apache-2.0
"""Which of several hazards is explained first."""
from types import SimpleNamespace

from hopperlab.emulator.hazards.causes import causes_first


def hazard(kind: str, where: int, other: int | None = None):
    return SimpleNamespace(kind=kind, where=where, other=other, case=kind, sort_key=lambda: (where, kind))


READ, OVERWRITE = hazard("read-before-arrival", 44, 36), hazard("overwrite-in-flight", 36, 44)


def test_a_read_too_early_is_a_cause_but_not_where_its_slot_was_released_before_it():
    assert causes_first([hazard("deadlock", 1), OVERWRITE, hazard("read-before-arrival", 50, 36)])[0].where == 50
    assert causes_first([READ, OVERWRITE]) == [OVERWRITE, READ]


def test_who_waited_for_the_wrong_phase_read_too_early_whatever_was_overwritten():
    assert causes_first([hazard("phase-overrun", 34, 46), OVERWRITE, READ])[0] is READ
