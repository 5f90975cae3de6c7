# SPDX-License-Identifier: Apache-2.0
"""Lesson 13: schedules are right whatever lands when, their turns are what the lesson says, and every planted bug is named."""
import pytest

from hopperlab import measure
from hopperlab.lessons.l13_persistent import schedules, split_work, waiting_model
from hopperlab.measure.launches import edited
from hopperlab.show.listings import source


@pytest.mark.parametrize("landing", ["lazy", "eager", "random"])
@pytest.mark.parametrize("kernel", list(schedules.TILES))
def test_schedules_are_right_and_silent(kernel, landing):
    right, run = schedules.run_schedule(kernel, 2, 2, 128, landing=landing)
    assert right and not run.hazards
    whole = [(1, 16), (2, 16)] * 2
    assert (schedules.turns(run) == whole) == (kernel == "pingpong")


@pytest.mark.parametrize(("bug", "kinds"), [("OWN_ORDER", {"deadlock"}),
                                            ("OUT_OF_ORDER", {"barrier-misuse", "deadlock", "phase-overrun", "read-before-arrival"})])
def test_planted_orders_are_named(bug, kinds):
    right, run = schedules.run_schedule("pingpong", 2, 4, options=(f"-DBUG_{bug}=1",))
    assert {hazard.kind for hazard in run.hazards} == kinds and right == (not kinds)
    assert len(schedules.turns(run)) != 8


@pytest.mark.parametrize(("k", "landing"), [(128, "random"), (512, "lazy"), (512, "eager")])
@pytest.mark.sampled(every=3)
def test_without_the_order_barrier_a_parity_is_taken_for_another(k, landing):
    right, run = schedules.run_schedule("pingpong", 2, 4, k, options=("-DBUG_NO_ORDER=1",), landing=landing)
    assert not right and {"overwrite-in-flight"} <= {hazard.kind for hazard in run.hazards} & {"overwrite-in-flight", "read-before-arrival"}
    right, run = schedules.run_schedule("pingpong", 2, 4, k, landing=landing)
    assert right and not run.hazards


def test_a_slot_stored_too_early_is_named():
    change = ("wait_group_read<C_SLOTS - 1>();  //", "wait_group_read<C_SLOTS>();  //")
    _, run = schedules.run_schedule("overlapped_store", 1, 2, 64, changes=(change,))
    assert {hazard.kind for hazard in run.hazards} == {"overwrite-in-flight"}


def test_an_edit_names_one_place():
    with pytest.raises(ValueError, match="0 places"):
        edited.edited("gemm/pingpong.cu", (("no such text", ""),))
    with pytest.raises(ValueError, match="name exactly one"):
        edited.edited("gemm/pingpong.cu", (("mbarrier_init", ""),))


def test_the_spans_of_ping_pong_do_not_overlap():
    _, run = schedules.run_schedule("pingpong", 2, 4, 128)
    loops = sorted((span.start, span.end, span.row) for span in schedules.schedule_spans(run, 16) if span.kind == "k-blocks of a tile")
    assert len(loops) == 8 and [row for *_, row in loops] == ["consumer 1", "consumer 2"] * 4
    picture = schedules.schedule_timeline(run, 16, "P")
    assert "waits for its turn" in picture.text and picture.png()[:4] == b"\x89PNG"
    assert schedules.turns(run) == [(1, 16), (2, 16)] * 4


@pytest.mark.parametrize(("kind", "share"), [("cooperative", 4 / 6), ("ping-pong", 16 / 20), ("overlapped", 16 / 19.5)])
def test_the_model_by_hand(kind, share):
    spans, busy = waiting_model.model(kind, 2, 4, 2)
    assert busy == pytest.approx(share)
    assert sum(span.end - span.start for span in spans if span.kind == "multiplies") == (16 if kind == "ping-pong" else 32)
    with pytest.raises(ValueError, match="no schedule"):
        waiting_model.model("other", 1, 1, 1)


def test_the_panel_names_the_recorded_share():
    told = schedules.launch_schedule("cooperative, overlapped store", 1, 2, 2, 3, "random").text
    assert "result right, no hazard" in told and "overlapped_store at 8192³" in told and "recorded on" in told
    assert "ping-pong: the tensor core" in waiting_model.schedule_model().text and measure.load("ladder")
    with pytest.raises(ValueError, match="the slots of C 65536"):
        schedules.launch_schedule("cooperative, overlapped store", 1, 2, 2, 4, "lazy")


@pytest.mark.parametrize(("tiles", "k_blocks", "ctas"), [(5, 8, 4), (3, 7, 5), (4, 4, 2), (1, 9, 4)])
def test_stretches_cover_every_k_block_once(tiles, k_blocks, ctas):
    found = split_work.stretches(tiles, k_blocks, ctas)
    assert sorted((s.tile, s.first + i) for s in found for i in range(s.count)) == [(t, i) for t in range(tiles) for i in range(k_blocks)]
    each = [sum(s.count for s in found if s.cta == cta) for cta in range(ctas)]
    assert max(each) - min(each) <= 1


def test_stream_k_and_its_picture():
    right, run = split_work.run_stream_k(128, 384, 256, 2, "random")
    assert right and not run.hazards and run.counters["tma_reduce_bytes"] == 2 * 128 * 128 * 4      # one tile, cut once
    assert "stream-K: done after 10 k-blocks; 3 tiles are shared" in split_work.work_map(5, 8, 4).text


def test_a_fused_epilogue_is_right_and_a_wrong_one_is_not():
    lines = """
            int lane = threadIdx.x % 32;
            for (int i = 0; i < BN / 2; i++) {
                int col = col0 + 8 * (i / 4) + 2 * (lane % 4) + PART;
                d[i] = fmaxf(d[i] + (col < n ? bias[col] : 0.0f), 0.0f);
            }"""
    right, run = split_work.run_fused(lines.replace("PART", "i % 2"))
    assert right and not run.hazards
    assert not split_work.run_fused(lines.replace("PART", "0"))[0]


@pytest.mark.parametrize(("answer", "words"), [
    ((None, None, None), "Not answered"), ((1, (1, 0), "1 - me"), "Right"), ((1, (1, 0), "1-me"), "Right"), ((256, (1, 0), "1 - me"), "255 of 256 arrivals pending"),
    ((1, (1, 1), "1 - me"), "goes before its turn"), ((1, (0, 0), "1 - me"), "deadlock"), ((1, (1, 0), "me"), "deadlock"),
    ((1, (2, 0), "me"), "A parity is 0 or 1"), ((0, (1, 0), "me"), "1 to"), ((1, (1, 0), "you"), "names no barrier")])
@pytest.mark.sampled(every=3)
def test_the_exercise_names_what_is_wrong(answer, words):
    assert words in split_work.check_order(*answer)


def test_the_lessons_excerpt_is_the_epilogue():
    rows = source("gemm/overlapped_store.cu", lines=(95, 119)).numbered().split("\n")
    assert "mbarrier_arrive_remote_slot" in rows[1] and rows[-1].strip().endswith("}")
