# SPDX-License-Identifier: Apache-2.0
"""Reading what a class handed in: names, attempts, deadlines, and files that are broken or dishonest."""
import io
import json
import os
import random
import stat
import zipfile
from datetime import UTC, datetime, timedelta

import pytest
from support.classroom import PHASES, RING, STEM, cells, hand_in, lesson, notebook, right

import nbformat
from hopperlab.grading import learners, submissions
from hopperlab.grading.submission_files import InputError, ReadLimits
from hopperlab.grading.submissions import LateRule, SubmissionError, collect, read, taken

NOTEBOOK = nbformat.writes(notebook(right())).encode()


def zipped(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members:
            archive.writestr(name, data)
    return path


def one(found):
    assert len(found) == 1, [s.learner.key for s in found]
    return found[0]


# --- one notebook -----------------------------------------------------------------------------------------------------
def test_only_answer_cells_are_taken(tmp_path):
    got = read(hand_in(tmp_path, {PHASES: "COUNT = 2", RING: "%%cuda ring\n"}))
    assert got.answers == {PHASES: "COUNT = 2", RING: "%%cuda ring\n"} and not got.notes


def document(**changes):
    return json.loads(NOTEBOOK) | changes


@pytest.mark.parametrize("data, says", [
    (b"", "empty"), (b"   \n", "empty"), (b"{\"cells\": [", "no notebook: .* at line 1"), (b"[]", "not an object"), (b"PK\x03\x04junk", "no notebook"),
    (b"[" * 200_000, "nested too deeply"), (b'{"nbformat": ' + b"9" * 5000 + b"}", "too long"),
    (json.dumps(document(nbformat=3)).encode(), "nbformat is 3"), (json.dumps(document(nbformat=5)).encode(), "nbformat is 5"),
    (json.dumps(document(nbformat="4")).encode(), "nbformat is '4'"), (json.dumps({"cells": []}).encode(), "nbformat is None"),
    (json.dumps(document(cells={})).encode(), "no list of cells"), (json.dumps(document(cells=[{}] * 5001)).encode(), "5,000 cells"),
    (NOTEBOOK.decode().encode("utf-16"), "UTF-16"), (NOTEBOOK.decode().encode("utf-16-le"), "UTF-16"), (NOTEBOOK.decode().encode("utf-32"), "UTF-16 or UTF-32"),
    ('{"nbformat": 4, "cells": [], "é": 1}'.encode("latin-1"), "Latin-1"),
])
def test_what_is_no_notebook_is_refused_with_its_reason(data, says):
    with pytest.raises(SubmissionError, match=says):
        taken(data)


def test_a_byte_order_mark_is_read_and_said():
    got = taken(b"\xef\xbb\xbf" + NOTEBOOK)
    assert got.answers == taken(NOTEBOOK).answers and "byte order mark" in got.notes[0]


def test_grade_id_goes_before_cell_id_and_cell_id_before_a_mark():
    made = document()
    answer = next(cell for cell in made["cells"] if cell["id"] == PHASES)
    marked = {**answer, "id": "x", "metadata": {}, "source": "# answer 04.1\nmarked"}
    by_id = {**answer, "metadata": {}, "source": "by id"}
    by_grade_id = {**answer, "id": "other", "source": "by grade_id"}
    def texts(*given):
        return taken(json.dumps({**made, "cells": list(given)}).encode()).answers[PHASES]
    assert texts(marked) == "# answer 04.1\nmarked"
    assert texts(by_id, marked) == texts(marked, by_id) == "by id"
    assert texts(by_grade_id, marked, by_id) == texts(by_id, marked, by_grade_id) == "by grade_id"


def test_a_mark_of_cuda_may_stand_in_any_line():
    assert taken(cells("%%cuda ring\n// answer 04.2\nint x;")).answers == {RING: "%%cuda ring\n// answer 04.2\nint x;"}


def test_duplicates_are_said_and_the_cell_with_the_right_id_counts():
    made = document()
    answer = next(cell for cell in made["cells"] if cell["id"] == PHASES)
    copied = {**answer, "id": "a-copy", "source": "copied"}
    got = taken(json.dumps({**made, "cells": [*made["cells"], copied]}).encode())
    assert got.answers[PHASES] == right()[PHASES]
    assert any("2 cells have the grade_id answer-04-1, with different texts" in note for note in got.notes)


def test_an_answer_that_became_text_is_not_taken():
    made = document()
    next(cell for cell in made["cells"] if cell["id"] == PHASES)["cell_type"] = "markdown"
    got = taken(json.dumps(made).encode())
    assert PHASES not in got.answers and "not a code cell" in got.notes[0]


@pytest.mark.parametrize("cell", [None, 3, {}, {"cell_type": "code", "id": PHASES}, {"cell_type": "code", "id": PHASES, "metadata": [], "source": {"a": 1}},
                                  {"cell_type": "code", "id": [1], "metadata": {"nbgrader": 3}, "source": [1, None, "x"]},
                                  {"cell_type": "code", "id": PHASES, "metadata": {"nbgrader": {"grade_id": {}}}, "source": "\ud800"}])
def test_strange_cells_never_raise(cell):
    got = taken(json.dumps(document(cells=[cell])).encode())
    assert all(text.encode() is not None for text in got.answers.values())


# --- files that are refused -------------------------------------------------------------------------------------------
def test_links_and_special_files_are_refused_and_nothing_outside_is_read(tmp_path):
    outside = hand_in(tmp_path / "outside", right())
    folder = tmp_path / "class"
    (folder / "eve").mkdir(parents=True)
    (folder / "eve" / f"{STEM}.ipynb").symlink_to(outside)
    (folder / "mallory").symlink_to(tmp_path / "outside")
    (folder / "pipe").mkdir()
    os.mkfifo(folder / "pipe" / f"{STEM}.ipynb")
    hand_in(folder / "ada", right())
    found = {s.learner.key: s for s in collect(folder, lesson())}
    assert "symbolic link" in found["eve"].error and "symbolic link" in found["mallory"].error and "neither a file" in found["pipe"].error
    assert not found["ada"].error and found["ada"].answers == right()


def test_a_huge_notebook_is_refused(tmp_path):
    hand_in(tmp_path / "ada", right())
    hand_in(tmp_path / "bob", {PHASES: "#" * 400_000})
    found = {s.learner.key: s for s in collect(tmp_path, lesson(), limits=ReadLimits(notebook_bytes=300_000))}
    assert "larger than" in found["bob"].error and not found["ada"].error


def test_path_tricks_in_a_zip_are_refused_and_the_rest_is_read(tmp_path):
    path = tmp_path / "class.zip"
    link = zipfile.ZipInfo("eve/04_mbarrier.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    zipped(path, [("ada/04_mbarrier.ipynb", NOTEBOOK), ("../bob/04_mbarrier.ipynb", NOTEBOOK), ("/etc/carl/04_mbarrier.ipynb", NOTEBOOK),
                  ("C:\\dora\\04_mbarrier.ipynb", NOTEBOOK), (link, "/etc/passwd"), ("__MACOSX/ada/._04_mbarrier.ipynb", b"junk"),
                  ("ada/.ipynb_checkpoints/04_mbarrier-checkpoint.ipynb", b"junk")])
    found = {s.learner.key: s for s in collect(path, lesson())}
    assert found["ada"].answers == right() and not found["ada"].notes
    outside = [key for key, s in found.items() if "leads outside" in s.error]
    assert len(outside) == 3 and "symbolic link" in found["eve"].error
    assert not list(tmp_path.glob("**/*.ipynb")) and len(found) == 5


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_files_of_one_name_in_a_zip_are_refused(tmp_path):
    path = zipped(tmp_path / "class.zip", [("ada/04_mbarrier.ipynb", NOTEBOOK), ("ada/04_mbarrier.ipynb", b"{}"), ("bob/04_mbarrier.ipynb", NOTEBOOK)])
    found = {s.learner.key: s for s in collect(path, lesson())}
    assert "2 files of this name" in found["ada"].error and not found["bob"].error


def test_zip_bombs_are_bounded(tmp_path):
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(20):
            archive.writestr(f"{i:02d}.ipynb", b" " * 3_000_000)
    path = zipped(tmp_path / "class.zip", [("eve/bomb.zip", bomb.getvalue()), ("ada/04_mbarrier.ipynb", NOTEBOOK)])
    found = collect(path, lesson(), limits=ReadLimits(notebook_bytes=1 << 20, zip_total=4 << 20))
    eve = next(s for s in found if s.learner.key == "eve")
    assert eve.error and not next(s for s in found if s.learner.key == "ada").error
    assert any("unpacks to more than" in note or "larger than" in note for note in (eve.error, *eve.notes))


def test_zips_in_zips_are_opened_but_not_without_end(tmp_path):
    inner = NOTEBOOK
    for depth in range(4):
        data = io.BytesIO()
        zipped(data, [("04_mbarrier.ipynb" if depth == 0 else "more.zip", inner)])
        inner = data.getvalue()
        (tmp_path / f"learner{depth}").mkdir()
        (tmp_path / f"learner{depth}" / "work.zip").write_bytes(inner)
    found = {s.learner.key: s.error for s in collect(tmp_path, lesson())}
    assert found["learner0"] == found["learner1"] == "" and "nested deeper" in found["learner2"] and "nested deeper" in found["learner3"]


def test_a_broken_and_an_encrypted_member_only_cost_their_learner(tmp_path):
    path = zipped(tmp_path / "class.zip", [("ada/04_mbarrier.ipynb", NOTEBOOK), ("bob/04_mbarrier.ipynb", NOTEBOOK)])
    data = bytearray(path.read_bytes())
    place = data.index(b"bob/04_mbarrier.ipynb") + 200
    data[place:place + 20] = bytes(20)
    path.write_bytes(data)
    (tmp_path / "junk").mkdir()
    found = {s.learner.key: s.error for s in collect(path, lesson())}
    assert found["ada"] == "" and "cannot be unpacked" in found["bob"]


def test_what_is_no_folder_and_no_zip_is_an_input_error(tmp_path):
    (tmp_path / "x.zip").write_bytes(b"no zip")
    for path in (tmp_path / "x.zip", tmp_path / "nothing"):
        with pytest.raises(InputError):
            collect(path, lesson())


def test_notebooks_damaged_at_random_never_raise(tmp_path):
    rng = random.Random(4)
    for _ in range(300):
        data = bytearray(NOTEBOOK)
        for _ in range(rng.choice((1, 3, 40))):
            place = rng.randrange(len(data))
            data[place:place + rng.choice((0, 1, 30))] = rng.choice((b"", b"{", b'"', b"\xff", b"\\ud800", b"null,", bytes([rng.randrange(256)])))
        try:
            got = taken(bytes(data))
        except SubmissionError as problem:
            assert str(problem)
        else:
            assert all(text.encode() is not None for text in got.answers.values())


def test_the_reports_folder_is_no_submission(tmp_path):
    hand_in(tmp_path / "ada", right())
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("")
    assert [s.learner.key for s in collect(tmp_path, lesson(), skip=tmp_path / "report")] == ["ada"]


# --- who, and which attempt -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path, key, name, late", [
    ("submitted/ada/04/04_mbarrier.ipynb", "ada", "ada", False),
    ("class/submitted/ada/04/04_mbarrier.ipynb", "class", "class", False), ("mallory/submitted/ada/04/04_mbarrier.ipynb", "mallory", "mallory", False),
    ("lovelaceada_12345_67890_04_mbarrier.ipynb", "lovelaceada_12345", "lovelaceada", False),
    ("lovelaceada_LATE_12345_67890_04_mbarrier-2.ipynb", "lovelaceada_12345", "lovelaceada", True),
    ("Ada Lovelace_4711_assignsubmission_file_/04_mbarrier.ipynb", "Ada Lovelace_4711", "Ada Lovelace", False),
    ("ada/04_mbarrier.ipynb", "ada", "ada", False), ("ada/deep/er/04_mbarrier.ipynb", "ada", "ada", False),
    ("ada_04_mbarrier.ipynb", "ada", "ada", False), ("04_mbarrier-ada.ipynb", "ada", "ada", False), ("ada (1).ipynb", "ada", "ada", False),
    ("Åsa <b>\u202e/04_mbarrier.ipynb", "Åsa <b>\ufffd", "Åsa <b>\ufffd", False),
])
def test_names_of_nbgrader_canvas_moodle_and_plain_folders(path, key, name, late):
    who = learners.named(tuple(path.split("/")), [STEM])
    found = learners.unlisted(who)
    assert (found.key, found.name, who.late) == (key, name, late)


def test_a_folder_around_everything_in_a_zip_is_no_learner(tmp_path):
    path = zipped(tmp_path / "class.zip", [("week 4/ada/x.ipynb", NOTEBOOK), ("week 4/bob/x.ipynb", NOTEBOOK)])
    assert [s.learner.key for s in collect(path, lesson())] == ["ada", "bob"]


def test_of_an_nbgrader_course_only_submitted_is_read(tmp_path):
    for folder in ("source/04", "release/04", "submitted/ada/04", "feedback/ada/04"):
        hand_in(tmp_path / folder, right())
    assert one(collect(tmp_path, lesson())).learner.key == "ada"


def test_the_latest_attempt_counts_and_others_are_named(tmp_path):
    for number, name in enumerate(("04_mbarrier.ipynb", "04_mbarrier-1.ipynb", "04_mbarrier-2.ipynb")):
        path = hand_in(tmp_path, {PHASES: f"attempt {number}"}, f"doe_12_34{number}_{name}")
        os.utime(path, (1_800_000_000, 1_800_000_000))
    found = one(collect(tmp_path, lesson()))
    assert found.answers[PHASES] == "attempt 2" and len(found.others) == 2
    os.utime(tmp_path / "doe_12_340_04_mbarrier.ipynb", (1_900_000_000, 1_900_000_000))
    assert one(collect(tmp_path, lesson())).answers[PHASES] == "attempt 0", "a later date goes before a number"


def test_a_broken_latest_attempt_is_said_and_the_one_before_counts(tmp_path):
    os.utime(hand_in(tmp_path / "ada", right(), "a_04_mbarrier.ipynb"), (1_000_000_000,) * 2)
    (tmp_path / "ada" / "b_04_mbarrier.ipynb").write_text("{")
    found = one(collect(tmp_path, lesson()))
    assert found.answers == right() and "b_04_mbarrier.ipynb cannot be graded" in found.notes[0]


def test_missing_answers_and_foreign_notebooks_are_said(tmp_path):
    made = notebook(right())
    made.cells = [cell for cell in made.cells if cell.id != RING]
    (tmp_path / "ada").mkdir()
    nbformat.write(made, tmp_path / "ada" / "04_mbarrier.ipynb")
    (tmp_path / "bob").mkdir()
    (tmp_path / "bob" / "x.ipynb").write_bytes(cells("print(1)"))
    (tmp_path / "carl").mkdir()
    (tmp_path / "carl" / "answer.pdf").write_bytes(b"%PDF")
    (tmp_path / "roster.csv").write_text("id,name")
    found = {s.learner.key: s for s in collect(tmp_path, lesson())}
    assert sorted(found) == ["ada", "bob", "carl"] and found["ada"].notes == ("the answer cell of 04.2 is missing",)
    assert "no answer cell of this assignment" in found["bob"].error and "answer.pdf" in found["carl"].error


def test_roster_of_canvas_and_moodle(tmp_path):
    canvas = tmp_path / "canvas.csv"
    canvas.write_text("Student,ID,SIS User ID,SIS Login ID,Section\n    Points Possible,,,,\n\"Lovelace, Ada\",12,s1,ada,A\n\"Babbage, Charles\",13,s2,cb,A\n")
    hand_in(tmp_path / "class", right(), "lovelaceada_12_99_04_mbarrier.ipynb")
    hand_in(tmp_path / "class" / "stranger", right())
    found = {s.learner.key: s for s in collect(tmp_path / "class", lesson(), learners.roster(canvas))}
    assert found["12"].learner.name == "Lovelace, Ada" and found["12"].answers == right()
    assert found["13"].error == "nothing was handed in" and "not in the roster" in found["stranger"].notes
    moodle = tmp_path / "moodle.csv"
    moodle.write_bytes("\ufeffIdentifier;Full name;Email address\nParticipant 4711;Ada Lovelace;ada@example.org\n".encode())
    hand_in(tmp_path / "m" / "Ada Lovelace_4711_assignsubmission_file_", right())
    assert one(collect(tmp_path / "m", lesson(), learners.roster(moodle))).learner.key == "Participant 4711"


@pytest.mark.parametrize("text, says", [("a,b\n1,2\n", "must name the columns"), ("id,name\n1,A\n1,B\n", "twice"), ("id,name\n,\n,x\n", None)])
def test_rosters_that_cannot_be_used(tmp_path, text, says):
    (tmp_path / "r.csv").write_text(text)
    if says is None:
        assert learners.roster(tmp_path / "r.csv").learners[0].key == "x"
        return
    with pytest.raises(InputError, match=says):
        learners.roster(tmp_path / "r.csv")


# --- late -------------------------------------------------------------------------------------------------------------
DEADLINE = datetime(2026, 11, 3, 23, 59, tzinfo=UTC)


@pytest.mark.parametrize("after, days, factor", [(timedelta(0), 0, 1.0), (timedelta(seconds=1), 1, 0.9), (timedelta(days=1), 1, 0.9),
                                                 (timedelta(days=1, seconds=1), 2, 0.8),
                                                 (timedelta(days=30), 30, 0.0)])
def test_the_late_rule_counts_begun_days(after, days, factor):
    rule = LateRule(DEADLINE, 0.1)
    assert rule.days(DEADLINE + after, False) == days and rule.factor(days) == pytest.approx(factor)
    assert LateRule(DEADLINE, None).factor(days) == (0.0 if days else 1.0)


def test_nbgraders_timestamp_goes_before_the_files_date(tmp_path):
    path = hand_in(tmp_path / "submitted" / "ada" / "04", right())
    os.utime(path, (1_700_000_000,) * 2)
    (path.parent / "timestamp.txt").write_text("2026-11-05 09:00:00.5 UTC")
    found = one(collect(tmp_path, lesson(), late=LateRule(DEADLINE, 0.1)))
    assert found.days_late == 2 and found.factor == pytest.approx(0.8)
    assert submissions.timestamp(b"rubbish \xff") is None and submissions.timestamp(b"2026-11-05 09:00:00 America/Denver").hour == 9


def test_canvas_says_late(tmp_path):
    path = hand_in(tmp_path, right(), "doe_LATE_1_2_04_mbarrier.ipynb")
    os.utime(path, (1_700_000_000,) * 2)
    assert one(collect(tmp_path, lesson(), late=LateRule(DEADLINE, 0.1))).days_late == 1
