# SPDX-License-Identifier: Apache-2.0
"""Lesson 12: traffic by shape, the sums of the shared tiles, the exercise's masks, and the recorded table."""
import pytest

import hopperlab as hl
from hopperlab import measure
from hopperlab.lessons import repairs
from hopperlab.lessons.l12_clusters import shared_tiles
from hopperlab.measure.launches.clusters import column_mask, row_mask


def test_traffic_falls_with_the_shape():
    assert shared_tiles.tile_traffic(1, 1) == (49152, 49152) and shared_tiles.tile_traffic(2, 1) == (49152, 32768)
    assert shared_tiles.tile_traffic(4, 4)[1] * 4 == 49152
    assert shared_tiles.traffic_table(((2, 2),)).endswith("saved 50 %")


@pytest.mark.parametrize("schedule", ["lazy", "eager", "random"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 1), (1, 4), (2, 2), (4, 2)], ids=str)
def test_every_shape_is_right_and_silent(shape, schedule):
    right, run = shared_tiles.run_cluster(*shape, schedule=schedule)
    assert right and not run.hazards
    arrived, asked = shared_tiles.asked_of_l2(run, *shape)
    assert arrived == 4 * 16384 * shape[0] * shape[1] and asked * 2 == arrived // shape[0] + arrived // shape[1]


@pytest.mark.parametrize(("bug", "kinds"), [("LEAVES_EARLY", {"cluster-lifetime"}), ("COUNTS_ONE_CTA", {"overwrite-in-flight"}),
                                            ("NO_FIRST_BARRIER", {"barrier-misuse", "cluster-lifetime"})])
def test_planted_bugs_are_named(bug, kinds):
    _, run = shared_tiles.run_cluster(2, 2, options=(f"-DBUG_{bug}=1",))
    assert {hazard.kind for hazard in run.hazards} == kinds


@pytest.mark.parametrize(("masks", "words"), [
    ((None, None), "Not answered"), ((row_mask, column_mask), "Right"), ((column_mask, row_mask), "its row is [0]"),
    ((lambda r, rows, cols: 1 << r, column_mask), "its row is [0, 1]"), ((lambda *_: 1 << 20, column_mask), "a mask has 16 bits"),
    ((lambda *_: 0, column_mask), "nobody gets this part"), ((row_mask, lambda r, rows, cols: 1 << r), "its column is [0, 1]")])
def test_the_exercise_says_whose_parts_are_missing(masks, words):
    assert words in shared_tiles.check_masks(*masks)


def test_the_map_shows_who_sends_to_whom():
    picture = shared_tiles.cluster_map(2, 4)
    assert "A: rank 5 loads a part for ranks [4, 5, 6, 7]" in picture.text and "B: rank 5 loads a part for ranks [1, 5]" in picture.text
    assert picture.png()[:4] == b"\x89PNG"


def test_the_panel_explains_what_is_too_large():
    assert "50 % saved" in shared_tiles.launch_cluster(2, 2, 2, "random").text
    with pytest.raises(ValueError, match="8 are portable"):
        shared_tiles.launch_cluster(4, 4, 2, "lazy")


def test_the_recorded_ways_are_all_there():
    told = shared_tiles.ways_table(measure.load("micro"))
    for words in ("global memory, a flag", "st.async", "cp.async.bulk", ".release.cluster", ".release.cta", "DSMEM",
                  "__syncthreads", "arrive.relaxed"):
        assert words in told
    assert len({len(line) for line in told.splitlines()[1:]}) == 1, "the numbers stand in one column"


def test_the_cluster_barrier_at_the_end_needs_no_syncwarp_of_its_own():
    """What the lesson says beside its repair: the machine code is the same with and without, and an answer without it is right."""
    text = hl.kernel_source("clusters/shared_tiles.cu")
    assert text.count("    __syncwarp();\n") == 1
    code = [hl.sass(hl.RawModule(code=source, backend="emulator"), "shared_tiles").instructions for source in (text, text.replace("    __syncwarp();\n", ""))]
    found = [[str(instruction) for instruction in instructions] for instructions in code]
    assert found[0] == found[1]
    barrier = max(i for i, line in enumerate(found[0]) if "UCGABAR_ARV" in line)
    assert any("WARPSYNC" in line for line in found[0][barrier - 6:barrier])
    repair = repairs.find("12", "leaves")
    assert repair.judge(repair.reference.replace("    __syncwarp();\n", "")).startswith("Right")
