# SPDX-License-Identifier: Apache-2.0
"""Mailboxes, tickets and totals in volatile words (mailboxes.cu): each bug is named at its lines under every schedule, and what is correct is left alone."""
import re
from pathlib import Path

import hopperlab as hl
import numpy as np
import pytest
from support.emulated import SCHEDULES, told

pytestmark = pytest.mark.emulator_only

FILE = Path(__file__).with_name("mailboxes.cu")
LINES = FILE.read_text().splitlines()
SHAPES = {name: (int(grid), int(block)) for name, grid, block in re.findall(r"// (\w+): grid (\d+), block (\d+)", FILE.read_text())}
BUGS = {
    "mail_counted": {1: "letter-lost"}, "mail_flag_plain": {1: "global-race", 2: "global-race", 3: "global-race"},
    "mail_flag_volatile": {1: "letter-lost", 2: "letter-lost", 3: "letter-lost"}, "mail_shared": {1: "letter-lost", 2: "letter-early"},
    "mail_one_word": {1: "update-lost"}, "tickets": {1: "update-lost", 2: "update-lost", 3: "global-race"}, "tickets_shared": {1: "update-lost"},
    "count_volatile": {1: "update-lost", 2: "update-lost"}, "in_turn": {1: "update-lost"}, "in_lock": {1: "update-lost"},
    "handed_on": {1: "letter-early"}, "never_written": dict.fromkeys((1, 2, 3), "never-written"),
}
CASES = [(name, bug, case) for name, bugs in BUGS.items() for bug, case in bugs.items()]


@pytest.fixture(scope="module")
def module():
    names = tuple(f"{name}<{bug}>" for name in SHAPES for bug in (0, *BUGS.get(name, ())))
    return hl.RawModule(path=FILE, backend="emulator", name_expressions=names)


def launch(module, name, bug, schedule, seed=1):
    grid, block = SHAPES[name]
    x, y, z = (np.arange(4096) % 251 + 1).astype(np.float32), np.zeros(4096, np.float32), np.zeros(4096, np.int32)
    with hl.emulate(schedule=schedule, seed=seed, hazards="collect") as session:
        module.get_function(f"{name}<{bug}>")((grid,), (block,), (x, y, z))
    return session


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", SHAPES)
def test_correct_words_are_left_alone(module, name, schedule):
    session = launch(module, name, 0, schedule)
    assert not session.hazards and not session.warnings, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name, bug, case", CASES)
def test_words_that_miss_an_order_are_named(module, name, bug, case, schedule):
    session = launch(module, name, bug, schedule)
    found = [h for h in [*session.hazards, *session.warnings] if h.case == case]
    lines = {site.line for h in found for site in (h.where, h.other) if site}
    assert any(re.search(rf"//.*\bB{bug}\b", LINES[line - 1]) for line in lines), told(session) + [str(w) for w in session.warnings]


def test_a_lost_ticket_says_which_load_it_comes_from(module):
    (hazard,) = launch(module, "tickets", 1, "lazy").warnings
    assert hazard.severity == "warning" and re.search(r"follows from what ld.volatile.u32 at mailboxes.cu:\d+ read there before", str(hazard))
