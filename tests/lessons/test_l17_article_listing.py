# SPDX-License-Identifier: Apache-2.0
"""Lesson 17's second half: every error of the listing is found, and its repairs are all needed."""
import pytest

from hopperlab.lessons.l17_claims_measured import article_listing as lesson
from hopperlab.measure.launches.article import REPAIRS, article


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
def test_with_every_repair_the_listing_is_right_and_silent(schedule):
    right, run = lesson.run_article(REPAIRS, schedule)
    assert right and not run.hazards


@pytest.mark.parametrize(("left_out", "kinds"), [
    ("BYTES", {"read-before-arrival", "deadlock"}), ("PARITY", {"read-before-arrival", "phase-overrun"}), ("WGMMA_FENCE", {"register-in-flight"}),
    ("RELEASE", {"overwrite-in-flight"}), ("EMPTY_WAIT", {"overwrite-in-flight", "barrier-misuse"}), ("PROXY_FENCE", {"missing-proxy-fence"}),
    ("READ_WAIT", {"exit-in-flight"})])
def test_every_repair_is_needed(left_out, kinds):
    _, run = lesson.run_article([name for name in REPAIRS if name != left_out])
    assert kinds <= {hazard.kind for hazard in run.hazards}


def test_the_producers_own_wait_is_no_hazard_but_no_pipeline():
    _, run = lesson.run_article([name for name in REPAIRS if name != "OWN_WAIT"])
    assert not run.hazards and lesson.loads_in_flight(run) == 2
    assert lesson.loads_in_flight(lesson.run_article(REPAIRS)[1]) == 4


@pytest.mark.parametrize(("repairs", "words"), [(None, "Not answered"), (["TURBO"], "no repair TURBO"), ([], "Not yet"), (REPAIRS, "Right: clean"),
                                                ([r for r in REPAIRS if r != "OWN_WAIT"], "no pipeline")])
def test_the_check_says_what_is_left(repairs, words):
    assert words in lesson.check_repairs(repairs)


def test_wrong_shapes_and_repairs_are_named():
    import numpy as np
    a, c = np.zeros((64, 128), np.uint16), np.zeros((64, 64), np.float32)
    with pytest.raises(ValueError, match="no repair SPEED"):
        article(a, a, c, ["SPEED"], backend="emulator")
    with pytest.raises(ValueError, match="multiplies"):
        article(a[:, :100], a[:, :100], c, backend="emulator")


@pytest.mark.thorough
def test_the_verdicts_are_drawn_and_listed():
    assert [int(line.split()[0]) for line in lesson.verdicts().splitlines()] == list(range(1, 44))
    chart = lesson.verdict_chart()
    assert "43 claims" in chart.figure.axes[0].get_title(loc="left")
    assert sum(int(line.split(": ")[1]) for line in chart.text.splitlines()) == 43


def test_the_lines_without_switches_are_the_listing_with_all_of_them():
    import hopperlab as hl
    from hopperlab.authoring.stamps.kernel_uses import digests
    from hopperlab.lessons import repairs
    from hopperlab.lessons.l17_claims_measured.repairs import mended as without_switches
    from hopperlab.runtime.compile.nvrtc import Source

    text, mended = hl.kernel_source("article/listing.cu"), tuple(f"-DFIX_{name}=1" for name in REPAIRS)
    assert "FIX_" not in repairs.find("17", "listing").reference + repairs.find("17", "listing").broken
    assert digests(Source(without_switches(text), "article/listing.cu", ()))[0] == digests(Source(text, "article/listing.cu", mended))[0]


def test_a_listing_that_waits_for_its_own_loads_is_no_repair():
    from hopperlab.lessons import repairs

    repair = repairs.find("17", "listing")
    own = ("&b, &full[s], i * 64, 0);\n", "&b, &full[s], i * 64, 0);\n            mbarrier_wait_parity(&full[s], phase);\n")
    assert repair.reference.count(own[0]) == 1
    assert "no hazard is named, but it is no pipeline: at most 2 loads" in repair.judge(repair.reference.replace(*own))
