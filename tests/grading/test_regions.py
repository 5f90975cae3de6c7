# SPDX-License-Identifier: Apache-2.0
"""Solution and hidden regions, and the notebooks made of them."""
import pytest

from hopperlab.grading import generate, regions

CELL = """%%cuda ring
int a;
    // BEGIN SOLUTION
    //> // your code: wait (1 line)
    //>
    wait();
    // END SOLUTION
int b;"""


def test_learner_sees_the_marked_lines_instead_of_the_solution():
    assert regions.without_solutions(CELL) == "%%cuda ring\nint a;\n    // your code: wait (1 line)\n\nint b;"


def test_solution_as_handed_in_has_no_marks():
    assert regions.solution_without_stubs(CELL) == "%%cuda ring\nint a;\n    wait();\nint b;"


def test_a_solution_without_lines_of_its_own_asks_for_code():
    assert regions.without_solutions("# BEGIN SOLUTION\n    x = 1\n# END SOLUTION") == "    # your code here"


def test_hidden_checks_leave_a_comment_or_the_rest_of_the_cell():
    assert regions.without_hidden("### BEGIN HIDDEN TESTS\ncheck()\n### END HIDDEN TESTS").startswith("# Hidden checks")
    assert regions.without_hidden("a = 1\n### BEGIN HIDDEN TESTS\ncheck()\n### END HIDDEN TESTS") == "a = 1"


@pytest.mark.parametrize("text", ["// BEGIN SOLUTION\n", "// END SOLUTION\n", "// BEGIN SOLUTION\n// BEGIN SOLUTION\n// END SOLUTION"])
def test_a_mark_without_its_partner_is_an_error(text):
    with pytest.raises(regions.RegionError):
        regions.without_solutions(text)


@pytest.mark.parametrize("cell, expected", [("answer-04-2", ("answer", "04.2")), ("hidden-11-1", ("hidden", "11.1")), ("fast-14-2", ("fast", "14.2")), ("setup", None),
                                            ("answer-4-2", None)])
def test_role_comes_from_the_cell_id(cell, expected):
    assert generate.role({"id": cell}) == expected
