# SPDX-License-Identifier: Apache-2.0
"""Lesson 16x: runs are right, keys are held as the kernel says, planted bugs are named or only wrong, and the exercise answers in words."""
import numpy as np
import pytest

from hopperlab import measure
from hopperlab.hopper import fragments
from hopperlab.lessons.l16x_fp8_attention import fp8_attention_charts, fp8_attention_panels
from hopperlab.show import style

RECORDED = measure.load("attention_fp8")


@pytest.mark.parametrize("place", ["emulator", None])
def test_a_run_is_right_and_a_wrong_result_is_not(place):
    found = fp8_attention_panels.run_attention_fp8((67,), (131,), heads=2, causal=True, place=place)
    assert found.right and 0 < found.mean
    found.lse = False
    assert not found.right
    found.lse, found.worst = True, float("nan")
    assert not found.right


def test_scores_and_values_agree_on_keys_and_a_register_of_a_does_not():
    scores, wanted, values = fp8_attention_panels.keys_held().values()
    assert (scores == values).all() and not (scores == wanted).all()
    assert all(sorted(keys.ravel()) == list(range(16)) for keys in (scores, wanted, values))
    picture = fp8_attention_panels.keys_map()
    assert isinstance(picture, style.Picture) and picture.text == fp8_attention_panels.keys_table()


@pytest.mark.parametrize(("changes", "header", "kinds", "right"), [
    (("fence_proxy_async_shared_cta();             // each lane", "// each lane"), None, {"missing-proxy-fence"}, True),
    (("mbarrier_wait_parity(&vt_empty[ring.slot], ring.phase ^ 1);", ""), None, {"overwrite-in-flight", "phase-overrun"}, True),
    (None, ("lane < 16 ? 0x6420 : 0x7531", "0x6420"), set(), False),
], ids=["no fence", "no wait", "wrong selector"])
@pytest.mark.sampled(every=2)
def test_planted_bugs(changes, header, kinds, right):
    found = fp8_attention_panels.run_attention_fp8(k_lengths=(384,), changes=[changes] if changes else (), header=[header] if header else ())
    assert {hazard.kind for hazard in found.run.hazards} == kinds and found.right == right


def test_what_cycles_and_terms_say():
    lines = fp8_attention_panels.balance_table_fp8().splitlines()
    assert [line.split()[-2] for line in lines[2:]] == ["1.0", "2.0", "2.0"]
    terms = fp8_attention_panels.terms_table().splitlines()
    assert terms[1].split()[-4:] == ["4", "%", "4", "%"] and "-100 %          4 %" in terms[6]


def test_the_panel_shows_each_block_transposed_before_its_values():
    picture = fp8_attention_panels.launch_attention_fp8(64, 192, "yes", 64)
    assert "right, no hazard" in picture.text and "transposition moves" in picture.text
    found = fp8_attention_panels.run_attention_fp8((128,), (256,))
    spans = fp8_attention_panels.transposed_spans(found)
    values = [s for s in fp8_attention_panels.attention_spans(found) if s.kind == "values"]
    assert len(spans) == 4 and spans[0].end <= min(s.start for s in values)
    with pytest.raises(ValueError, match="more than the 232448 bytes"):
        fp8_attention_panels.launch_attention_fp8(256, 64, "no", 192)


def test_what_was_recorded_is_told():
    table = fp8_attention_charts.attention_fp8_table(RECORDED)
    assert RECORDED.source in table and "18 cells" in table and len(table.splitlines()) == 22
    assert f"{100 + fp8_attention_charts.gain_over_bf16(RECORDED):.0f}" in fp8_attention_charts.attention_fp8_chart(RECORDED).text
    assert len(fp8_attention_charts.attention_fp8_errors(RECORDED).splitlines()) == 11
    assert all(f"{d}, {mask}" in fp8_attention_charts.promotion_cost(RECORDED) for d in (64, 128, 256) for mask in ("full", "causal"))


def place(key):
    return key // 16 * 16 + key % 8 // 2 * 4 + key % 16 // 8 * 2 + key % 2


def key_of(at):
    return at // 16 * 16 + at % 4 // 2 * 8 + at % 16 // 4 * 2 + at % 2


@pytest.mark.parametrize(("answer", "says"), [(place, "Right"), (lambda key: None, "Not answered"), (key_of, "other way round"), (lambda key: key, "without an order"),
                                              (lambda key: 0, "taken twice"), (lambda key: 31 - key, "elsewhere"), (lambda key: place(key % 16), "taken twice")])
def test_the_exercise_in_words(answer, says):
    assert says in fp8_attention_panels.check_place(answer)


def test_the_places_make_the_accumulator_a_fragment():
    held, wanted = fragments.wgmma_d(32), fragments.wgmma_a(8)
    assert all(sorted(place(int(k)) for k in held.col[t]) == sorted(map(int, wanted.col[t])) for t in range(128))
    assert np.array_equal([key_of(place(key)) for key in range(32)], np.arange(32))
