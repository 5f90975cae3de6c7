# SPDX-License-Identifier: Apache-2.0
"""Tables as text: one form places headings, numbers, text among numbers, and units."""
import pytest

from hopperlab.runtime.tables import text_table


def test_headings_stand_over_numbers_with_their_unit():
    lines = text_table("{:8} {:>7.1f} {:5.0f} %  {}", [("final", 767.62, 101.6, "all of it"), ("torch", "–", None, "")], ("step", "TFLOP/s", "share", "what"))
    assert lines == ["step     TFLOP/s   share  what",
                     "final      767.6   102 %  all of it",
                     "torch          –       %"]


def test_numbers_are_flush_right_and_words_flush_left_unless_told_otherwise():
    assert text_table("{:4d}|{:4}|{:<4d}|{:>4}|", [(7, "a", 7, "a")]) == ["   7|a   |7   |   a|"]
    assert text_table("{:>9,}{:+6.1f}{:8.1e}", [(12345, 1.25, 0.0013)]) == ["   12,345  +1.2 1.3e-03"]


def test_a_star_is_the_widest_cell_heading_included():
    rows = [("a", 1), ("longer", 12345)]
    assert text_table("{:<*}  {:>*}.", rows, ("", "of")) == ["            of", "a           1.", "longer  12345."]
    assert text_table("{:<*}  {:>*}", [], ("name", "of")) == ["name  of"]


def test_words_between_columns_repeat_in_rows_only():
    assert text_table("  {:3} of {:2d} {}", [("one", 2, "x")], ("k", "n", "rest")) == ["  k       n rest", "  one of  2 x"]
    assert text_table("{:2}", []) == []


def test_no_line_ends_in_blanks():
    assert text_table("{:5} {:9}", [("a", ""), ("", None)], ("b", "")) == ["b", "a", ""]


def test_a_row_of_another_length_is_an_error():
    with pytest.raises(ValueError):
        text_table("{} {}", [(1, 2, 3)])
    with pytest.raises(ValueError):
        text_table("{} {}", [(1,)])
