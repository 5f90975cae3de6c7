# SPDX-License-Identifier: Apache-2.0
"""Messages as a notebook shows them: lines that fit, broken between words, with every word kept."""
import random

import pytest

from hopperlab.emulator import errors
from hopperlab.emulator.errors import COLUMNS, DeadlockError, MemoryFault


@pytest.mark.parametrize("seed", range(5))
def test_lines_are_broken_between_words_only(seed):
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh./:_-", k=draw.randint(1, 30))) for _ in range(200)]
    lines = [" " * draw.randint(0, 8) + " ".join(words[k:k + 20]) for k in range(0, 200, 20)]
    text, = errors.shown("\n".join(lines))
    assert text.split() == words and max(map(len, text.split("\n"))) <= COLUMNS
    assert [line for line in text.split("\n") if line.startswith(lines[3][:40])], "a line keeps its indent"


def test_a_deadlock_in_a_notebook_has_no_line_that_is_wider():
    text, = DeadlockError(["deadlock: " + "block (0, 0, 0), threads 0 to 127: waits at kernel.cu:12 for the mbarrier at shared 1024 " * 4])._render_traceback_()
    assert text.startswith("DeadlockError: 1 hazard found") and max(map(len, text.split("\n"))) <= COLUMNS


def test_what_is_short_stays_as_it_is():
    assert MemoryFault("an access\n  outside")._render_traceback_() == ["MemoryFault: an access\n  outside"]
