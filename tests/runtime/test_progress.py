# SPDX-License-Identifier: Apache-2.0
"""Progress of what takes long: one line drawn over and over on a terminal, the same words as lines elsewhere."""
import io

from hopperlab.runtime.progress import Bar

FORM = "[{bar:8}] {n_fmt}/{total_fmt} {desc}"


class Terminal(io.StringIO):
    def isatty(self):
        return True


def told(stream, **options):
    bar = Bar(FORM, 4, stream=stream, **options)
    bar.tell(1, "one")
    bar.tell(3, "three")
    bar.close()
    return stream.getvalue()


def test_lines_where_no_terminal_reads_them():
    assert told(io.StringIO()) == "[##......] 1/4 one\n[######..] 3/4 three\n"


def test_a_terminal_has_one_line_that_goes_or_stays():
    gone, kept = told(Terminal()), told(Terminal(), keep=True)
    for text in (gone, kept):
        assert "\r[##......] 1/4 one" in text and "\r[######..] 3/4 three" in text
    assert gone.endswith("\r") and not gone.split("\r")[-2].strip()
    assert kept.count("\n") == 1 and "3/4 three" in kept.split("\r")[-1]


def test_rates_are_of_this_run_only():
    stream = io.StringIO()
    bar = Bar("{rate_noinv_fmt}", 100, done=50, unit="answer", stream=stream)
    bar._began -= 10
    bar.tell(70)
    rate = float(stream.getvalue().split("answer")[0])
    assert 1.5 < rate <= 2.0
