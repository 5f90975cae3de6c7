# SPDX-License-Identifier: Apache-2.0
"""Whose work it is: nothing inside a learner's folder or zip names another learner, conflicts are said, and times are not the learner's to give."""
import io
import os
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from support.classroom import PHASES, STEM, hand_in, lesson, notebook, right

import nbformat
from hopperlab.grading import layouts, learners
from hopperlab.grading.submission_files import InputError
from hopperlab.grading.submissions import LateRule, collect, collected, timestamp

MINE, FORGED = {PHASES: "mine"}, {PHASES: "forged"}
ROSTER = "id,name,login,email\n12345,\"Lovelace, Ada\",ada,ada@x.org\n4711,Bob Babbage,bob,bob@x.org\n666,Mallory M,mallory,m@x.org\n"


def data(answers):
    return nbformat.writes(notebook(answers)).encode()


def zipped(members) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def put(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def roster(folder):
    (folder / "roster.csv").write_text(ROSTER)
    return learners.roster(folder / "roster.csv")


def taken(found) -> dict:
    """By learner: the text of the first answer that is graded, or None."""
    return {s.learner.key: (s.answers or {}).get(PHASES) for s in found.submissions}


HIDDEN_INSIDE = {                       # what mallory puts into a folder or zip of her own
    "nbgrader's layout": f"submitted/ada/04/{STEM}.ipynb", "nbgrader's, of bob": f"submitted/bob/04/{STEM}.ipynb",
    "Canvas's name": f"lovelaceada_12345_99999_{STEM}.ipynb", "Canvas's name, deeper": f"x/lovelaceada_12345_99999_{STEM}.ipynb",
    "Moodle's name": f"Bob Babbage_4711_assignsubmission_file_/{STEM}.ipynb", "a zip in a zip": f"ada.zip/{STEM}.ipynb", "a folder": f"ada/{STEM}.ipynb",
    "out of the zip": f"../ada/{STEM}.ipynb", "an absolute path": f"/ada/{STEM}.ipynb", "backslashes": f"..\\ada\\{STEM}.ipynb",
}


@pytest.mark.parametrize("listed", [False, True], ids=["no roster", "roster"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["folder", "zip"])
@pytest.mark.parametrize("name", HIDDEN_INSIDE.values(), ids=HIDDEN_INSIDE)
def test_nothing_inside_a_learners_folder_or_zip_names_another(tmp_path, name, wrapped, listed):
    folder = tmp_path / "class"
    put(folder, {f"ada/{STEM}.ipynb": data(MINE), f"bob/{STEM}.ipynb": data(MINE)})
    if wrapped:
        inner = {name: data(FORGED)} if "ada.zip" not in name else {"ada.zip": zipped({f"{STEM}.ipynb": data(FORGED)})}
        put(folder, {"mallory.zip": zipped(inner)})
    else:
        put(folder / "mallory", {name.replace("..", "up").replace("\\", "/").lstrip("/"): data(FORGED)})
    os.utime(folder / "ada" / f"{STEM}.ipynb", (1_000_000_000,) * 2)
    found = collected(folder, lesson(), roster(tmp_path) if listed else None)
    of = {"ada": "12345", "bob": "4711"} if listed else {"ada": "ada", "bob": "bob"}
    assert taken(found)[of["ada"]] == taken(found)[of["bob"]] == "mine"
    assert len([s for s in found.submissions if s.path]) == 3
    if "submitted" in name or "assignsubmission" in name:
        assert any("looks like a class's layout" in warning and "mallory" in warning for warning in found.warnings)


@pytest.mark.parametrize("export", ["canvas", "moodle", "nbgrader"])
def test_in_an_export_only_the_platforms_part_of_a_name_counts(tmp_path, export):
    forged = {"canvas": f"mallorym_666_2_lovelaceada_12345_99999_{STEM}.ipynb",
              "moodle": f"Mallory M_666_assignsubmission_file_/Ada_12345_assignsubmission_file_/{STEM}.ipynb",
              "nbgrader": f"submitted/mallory/04/submitted/ada/04/{STEM}.ipynb"}[export]
    mine = {"canvas": f"lovelaceada_12345_1_{STEM}.ipynb", "moodle": f"Ada Lovelace_12345_assignsubmission_file_/{STEM}.ipynb",
            "nbgrader": f"submitted/ada/04/{STEM}.ipynb"}[export]
    put(tmp_path / "class", {mine: data(MINE), forged: data(FORGED)})
    os.utime(tmp_path / "class" / mine, (1_000_000_000,) * 2)
    assert taken(collected(tmp_path / "class", lesson(), roster(tmp_path))) == {"12345": "mine", "666": "forged", "4711": None}
    put(tmp_path, {"class.zip": zipped({mine: data(MINE), forged: data(FORGED)})})
    assert taken(collected(tmp_path / "class.zip", lesson(), roster(tmp_path))) == {"12345": "mine", "666": "forged", "4711": None}


def test_a_file_of_moodles_flat_export_that_imitates_a_second_mark_names_nobody(tmp_path):
    put(tmp_path / "class", {f"Ada Lovelace_12345_assignsubmission_file_{STEM}.ipynb": data(MINE),
                             f"Mallory_666_assignsubmission_file_Bob Babbage_4711_assignsubmission_file_{STEM}.ipynb": data(FORGED)})
    found = collected(tmp_path / "class", lesson(), roster(tmp_path))
    assert taken(found)["12345"] == "mine" and taken(found)["4711"] is None
    assert any("Mallory" in warning for warning in found.warnings)


def test_a_chosen_name_that_imitates_moodles_mark_names_nobody(tmp_path):
    put(tmp_path / "class", {f"Ada Lovelace_12345_assignsubmission_file_/{STEM}.ipynb": data(MINE), f"Mallory M_666_assignsubmission_file_/{STEM}.ipynb": data(MINE),
                             f"Bob Babbage_4711_assignsubmission_file_ M_667_assignsubmission_file_/{STEM}.ipynb": data(FORGED)})
    found = collected(tmp_path / "class", lesson(), roster(tmp_path))
    assert taken(found)["4711"] is None and taken(found)["666"] == "mine" and any("Bob Babbage" in warning for warning in found.warnings)


@pytest.mark.parametrize("forged", [f"lovelaceada_12345_99_{STEM}.ipynb", f"Lovelace Ada_12345_assignsubmission_file_/{STEM}.ipynb", f"ADA/{STEM}.ipynb",
                                    f"ada /{STEM}.ipynb",
                                    f"\uff41\uff44\uff41/{STEM}.ipynb", f"12345/{STEM}.ipynb", f"Ada Lovelace/{STEM}.ipynb", f"ada@x.org/{STEM}.ipynb",
                                    f"{STEM}-ada.ipynb"])
def test_two_sources_of_one_learner_are_a_conflict_and_neither_counts(tmp_path, forged):
    put(tmp_path / "class", {f"ada/{STEM}.ipynb": data(MINE), f"bob/{STEM}.ipynb": data(MINE), f"mallory/{STEM}.ipynb": data(MINE),
                             f"cai/{STEM}.ipynb": data(MINE), forged: data(FORGED)})
    found = collected(tmp_path / "class", lesson(), roster(tmp_path))
    assert "forged" not in {text for key, text in taken(found).items() if key == "12345"}
    assert taken(found)["4711"] == taken(found)["666"] == "mine"
    platform = "_12345_" in forged
    assert taken(found)["12345"] == ("mine" if platform else None), "in a folder that is not the platform's, its manner of naming names nobody"
    assert any(("names nobody else" if platform else "2 sources name this learner") in warning for warning in found.warnings)


@pytest.mark.parametrize("names", [("ada.zip", "ada/x.ipynb"), ("ada.zip", "ada.ZIP"), ("ada.zip", "ada (1).zip"), ("ada/x.ipynb", "ada /x.ipynb")])
def test_two_folders_or_zips_of_one_name_are_a_conflict_without_a_roster_too(tmp_path, names):
    for name in names:
        put(tmp_path, {f"class/{name}": data(MINE) if name.endswith("ipynb") else zipped({"x.ipynb": data(FORGED)})})
    put(tmp_path, {"class/bob/x.ipynb": data(MINE)})
    found = collected(tmp_path / "class", lesson())
    assert taken(found) == {"ada": None, "bob": "mine"}
    ada = next(s for s in found.submissions if s.learner.key == "ada")
    assert "2 sources name this learner" in ada.error and len(ada.others) == 1 and any(w.startswith("ada: 2 sources") for w in found.warnings)


@pytest.mark.parametrize("alike", ["\u0430da", "Ada", "a\u0301da", "\u0391da", "ad\u0251", "ada\u200b"])
def test_names_that_look_alike_are_two_learners_and_said(tmp_path, alike):
    put(tmp_path / "class", {"ada/x.ipynb": data(MINE), f"{alike}/x.ipynb": data(FORGED)})
    found = collected(tmp_path / "class", lesson())
    assert taken(found)["ada"] == "mine" and any("look alike" in warning for warning in found.warnings)
    assert not collected(tmp_path / "class", lesson(), skip=tmp_path / "class" / alike).warnings


def test_a_name_that_somebody_chose_does_not_take_anothers_login(tmp_path):
    (tmp_path / "r.csv").write_text("id,name,login\n1,bob,mallory\n2,Bob Babbage,bob\n")
    put(tmp_path / "class", {"bob/x.ipynb": data(MINE), "mallory/x.ipynb": data(FORGED)})
    assert taken(collected(tmp_path / "class", lesson(), learners.roster(tmp_path / "r.csv"))) == {"1": "forged", "2": "mine"}


def test_where_the_platforms_numbers_are_known_a_chosen_name_decides_nothing(tmp_path):
    put(tmp_path / "class", {f"Mallory_666_assignsubmission_file_/{STEM}.ipynb": data(MINE), f"Bob Babbage_999_assignsubmission_file_/{STEM}.ipynb": data(FORGED)})
    found = collected(tmp_path / "class", lesson(), roster(tmp_path))
    assert taken(found)["4711"] is None and taken(found)["Bob Babbage_999"] == "forged"
    assert any("the name is another" in warning for warning in found.warnings), "Mallory is not Mallory M"


def test_a_zip_with_a_folder_of_its_own_name_and_one_learners_zip(tmp_path):
    put(tmp_path, {"week 4.zip": zipped({"week 4/ada/x.ipynb": data(MINE), "week 4/bob/x.ipynb": data(MINE)})})
    found = collected(tmp_path / "week 4.zip", lesson())
    assert taken(found) == {"ada": "mine", "bob": "mine"} and "folder around everything" in found.warnings[0]
    put(tmp_path, {"class.zip": zipped({"mallory/submitted/ada/04/x.ipynb": data(FORGED), "mallory/submitted/bob/04/x.ipynb": data(FORGED)})})
    assert taken(collected(tmp_path / "class.zip", lesson())) == {"mallory": "forged"}
    put(tmp_path, {"class.zip": zipped({"mallory/bob/x.ipynb": data(FORGED), "mallory/ada/x.ipynb": data(FORGED)})})
    assert taken(collected(tmp_path / "class.zip", lesson(), roster(tmp_path)))["666"] == "forged"


def test_submitted_beside_others_is_asked_about(tmp_path):
    put(tmp_path / "class", {f"submitted/ada/04/{STEM}.ipynb": data(MINE), f"bob/{STEM}.ipynb": data(MINE)})
    with pytest.raises(InputError, match="notebooks beside it"):
        collect(tmp_path / "class", lesson())
    assert [s.learner.key for s in collect(tmp_path / "class" / "submitted", lesson())] == ["ada"]


def test_of_an_unreadable_folder_there_is_an_input_error(tmp_path, monkeypatch):
    def denied(path):
        raise PermissionError(13, "Permission denied")
    (tmp_path / "class").mkdir()
    monkeypatch.setattr("hopperlab.grading.submission_files.os.scandir", denied)
    with pytest.raises(InputError, match="Permission denied"):
        collect(tmp_path / "class", lesson())


# --- time -------------------------------------------------------------------------------------------------------------
DEADLINE = LateRule(datetime(2026, 11, 3, 23, 59, tzinfo=UTC), 0.1)
LATE = datetime(2026, 11, 5, 12, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("place", ["class/ada", "class/ada/04", "class/submitted/ada/04/inner", "class/submitted/ada"])
def test_a_timestamp_outside_the_layout_that_defines_it_is_ignored(tmp_path, place):
    path = hand_in(tmp_path / place, right())
    (path.parent / "timestamp.txt").write_text("2026-11-01 09:00:00 UTC")
    os.utime(path, (LATE, LATE))
    assert [s.days_late for s in collect(tmp_path / "class", lesson(), late=DEADLINE)] == [2]


@pytest.mark.parametrize("given", ["class", "class/submitted"])
def test_nbgraders_own_timestamp_counts_for_all_in_its_folder_but_none_in_a_zip(tmp_path, given):
    folder = tmp_path / "class" / "submitted" / "ada" / "04"
    put(folder, {"work.zip": zipped({f"{STEM}.ipynb": data(MINE), "timestamp.txt": b"2026-11-01 09:00:00 UTC"})})
    os.utime(folder / "work.zip", (LATE, LATE))
    found = collect(tmp_path / given, lesson(), late=DEADLINE)
    assert [(s.learner.key, s.days_late) for s in found] == [("ada", 2)]
    (folder / "timestamp.txt").write_text("2026-11-04 09:00:00 UTC")
    assert [s.days_late for s in collect(tmp_path / given, lesson(), late=DEADLINE)] == [1]
    put(tmp_path / "other", {"submitted/ada/04.zip": zipped({f"{STEM}.ipynb": data(MINE), "timestamp.txt": b"2026-11-01 09:00:00 UTC"})})
    os.utime(tmp_path / "other" / "submitted" / "ada" / "04.zip", (LATE, LATE))
    assert [s.days_late for s in collect(tmp_path / "other", lesson(), late=DEADLINE)] == [2], "in the place of nbgrader's, and in a zip"
    (folder / "timestamp.txt").write_text("some day")
    found = collect(tmp_path / given, lesson(), late=DEADLINE)
    assert found[0].days_late == 2 and "cannot be read" in found[0].notes[0]


def test_the_date_in_a_learners_zip_is_the_learners_and_that_of_the_zip_counts(tmp_path):
    early = zipfile.ZipInfo(f"{STEM}.ipynb", (2026, 10, 1, 0, 0, 0))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(early, data(MINE))
    put(tmp_path / "class", {"ada.zip": made.getvalue()})
    os.utime(tmp_path / "class" / "ada.zip", (LATE, LATE))
    assert collect(tmp_path / "class", lesson(), late=DEADLINE)[0].days_late == 2
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr(zipfile.ZipInfo("ada.zip", (2026, 11, 5, 12, 0, 0)), made.getvalue())
        archive.writestr(zipfile.ZipInfo(f"bob/{STEM}.ipynb", (2026, 11, 1, 12, 0, 0)), data(MINE))
    put(tmp_path, {"class.zip": outer.getvalue()})
    assert [s.days_late for s in collect(tmp_path / "class.zip", lesson(), late=DEADLINE)] == [2, 0]


def test_canvass_mark_in_a_folder_that_is_not_canvass_is_a_name(tmp_path):
    put(tmp_path / "class", {"ada/x.ipynb": data(MINE), "bob/x.ipynb": data(MINE), "cai/doe_LATE_1_2_x.ipynb": data(MINE)})
    assert [s.days_late for s in collect(tmp_path / "class", lesson())] == [0, 0, 0]


def test_layout_is_decided_by_top_components():
    stems = (STEM,)
    for top, kind in ((f"a_1_2_{STEM}.ipynb", layouts.CANVAS_EXPORT), ("A_1_assignsubmission_file_", layouts.MOODLE_EXPORT), ("submitted", layouts.NBGRADER),
                      ("ada", layouts.PLAIN)):
        parts = (top, "ada", "04", "x.ipynb") if kind != layouts.CANVAS_EXPORT else (top,)
        assert layouts.decide([parts], Path("class"), stems).kind == kind


CANVAS_NAMES = [                          # as content_zipper.rb makes them: SORTABLE NAME, LATE, USER ID, ATTACHMENT ID, FILE
    ("lovelaceada_12345_67890_{}.ipynb", "12345", False), ("lovelaceada_LATE_12345_67890_{}-1.ipynb", "12345", True),
    ("de_la_cruz_12345_67890_my file.ipynb", "12345", False),
    ("smithjones_12345_67890_14_beat_cublas.ipynb", "12345", False), ("anon_Ab3x9_67890_{}.ipynb", "Ab3x9", False), ("LATE_anon_Ab3x9_67890_{}-2.ipynb", "Ab3x9", True)]


@pytest.mark.parametrize("name, number, late", CANVAS_NAMES)
def test_canvass_names_are_read_as_canvas_makes_them(name, number, late):
    found = layouts.named((name.format(STEM),), [STEM])
    assert (found.words[0], found.late, found.rule) == (number, late, layouts.CANVAS_EXPORT)


@pytest.mark.parametrize("forged", ["mallory_12345_666_70001_{}.ipynb", "mallory_666_70001_12345_80001_{}.ipynb", "anon_Ab3x9_666_70001_12345_{}.ipynb"])
def test_a_name_or_a_file_that_brings_numbers_of_its_own_names_nobody(tmp_path, forged):
    """A sortable name that ends in a number, or a file that begins with two, would be another learner's to one of the two ways of reading it."""
    honest = {f"{name}_{number}_7000{i}_{STEM}.ipynb": data(MINE) for i, (name, number) in enumerate((("babbagebob", 4711), ("hoppergrace", 815)))}
    put(tmp_path / "class", honest | {forged.format(STEM): data(FORGED)})
    found = collected(tmp_path / "class", lesson(), roster(tmp_path))
    assert all("not in the roster" in s.notes for s in found.submissions if s.answers and s.answers[PHASES] == "forged")
    assert not any(s.answers for s in found.submissions if s.learner.key == "12345") and any("work of two" in line for line in found.warnings)


def test_a_name_without_its_punctuation_is_the_rosters():
    made = learners.Learner("1", "O'Brien-Smith, Anne", {})
    assert learners.Roster.named(made, "obriensmithanne") and not learners.Roster.named(made, "obriensmithann")


def test_files_that_name_one_learner_in_two_ways_are_a_conflict_and_lessons_and_copies_are_not(tmp_path):
    put(tmp_path / "a", {f"ada_{STEM}.ipynb": data(MINE), f"ada_{STEM} (1).ipynb": data(MINE), "bob.ipynb": data(MINE)})
    assert [s.error for s in collect(tmp_path / "a", lesson())] == ["", ""]
    put(tmp_path / "a", {f"{STEM}-ada.ipynb": data(FORGED)})
    found = collected(tmp_path / "a", lesson())
    assert "2 sources name this learner" in found.submissions[0].error and not found.submissions[0].answers and found.warnings


@pytest.mark.parametrize("names", [["ada+04+2026-02-02 15:58:23.948203 UTC+cmFuZG9t", "bob+04+2026-02-02 15:58:23.948203 UTC"],
                                   ["a+b+04+2026-02-02 15:58:23.948203 CEST+c-_9t"]])
def test_nbgraders_exchange_is_not_a_class(tmp_path, names):
    put(tmp_path / "inbound", {f"{name}/{STEM}.ipynb": data(MINE) for name in names})
    with pytest.raises(InputError, match="nbgrader collect"):
        collect(tmp_path / "inbound", lesson())


def test_a_whole_course_of_nbgrader_is_taken_as_it_lies_there(tmp_path):
    others = {f"{step}/04/{STEM}.ipynb": data(FORGED) for step in ("source", "release", "downloaded", "solution")}
    put(tmp_path, others | {f"{step}/ada/04/{STEM}.ipynb": data(FORGED) for step in ("autograded", "feedback")} | {
        f"submitted/ada/04/{STEM}.ipynb": data(MINE), "submitted/ada/04/submission_secret.txt": b"x", "gradebook.db": b"", "nbgrader_config.py": b""})
    assert [(s.learner.key, s.answers[PHASES]) for s in collect(tmp_path, lesson())] == [("ada", "mine")]


@pytest.mark.parametrize("stamp, hour", [("2026-06-01 12:00:00.000000 CEST", 10), ("2026-06-01 12:00:00.000000 +0200", 10), ("2026-06-01 12:00:00.000000 -05:30", 17),
                                         ("2026-06-01 12:00:00", 12), ("2026-06-01 12:00:00.5 EDT", 16), ("2026-06-01 12:00:00.5 Europe/Berlin", 10)])
def test_every_zone_that_nbgrader_writes_is_read(stamp, hour):
    assert timestamp(stamp.encode()).astimezone(UTC).hour == hour
    assert timestamp(b"2026-06-01 12:00:00 NOWHERE") is None
