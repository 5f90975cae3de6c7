# SPDX-License-Identifier: Apache-2.0
"""Figures in another language: their words where there is a font for them, else English; never boxes."""

import pytest
from matplotlib import font_manager

from hopperlab.runtime import language
from hopperlab.show import figure_words, panels, style, voting


@pytest.fixture
def chinese(tmp_path, monkeypatch):
    (tmp_path / "zh").mkdir()
    (tmp_path / "zh" / "a.toml").write_text('"rate (TFLOP/s)" = "速率 (TFLOP/s)"\n"A heading" = "标题"\n"slow" = "慢"\n"Rows" = "行"\n"words of {0}" = "{0} '
                                            '的文字"\n"which?" = "哪个？"\n'
                                            '"<b>Predict.</b> {0}" = "<b>预测。</b>{0}"\n"Launches: {0}. Not launched: {1}" = "未启动：{1}"\n')
    monkeypatch.setattr(language, "STRINGS", tmp_path)
    monkeypatch.setenv(language.VARIABLE, "zh")
    for kept in (language.table, language._patterns):
        kept.cache_clear()
    yield
    for kept in (language.table, language._patterns):
        kept.cache_clear()


def picture():
    figure, (axis,) = style.new_figure(2.0)
    axis.bar([0, 1], [1, 2])
    axis.set_xticks([0, 1], ["slow", "fast"])
    axis.set_ylabel("rate (TFLOP/s)")
    style.title(axis, "A heading")
    return style.Picture(figure, "A heading\nwords of x")


def words_of(figure):
    figure.draw_without_rendering()
    axis = figure.axes[0]
    return [axis.get_title(loc="left"), axis.get_ylabel(), *(label.get_text() for label in axis.get_xticklabels())]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_words_and_labels_of_ticks_are_translated_where_a_font_has_them(chinese, monkeypatch):
    monkeypatch.setattr(figure_words, "font", lambda: "DejaVu Sans")
    shown = picture()
    shown._repr_mimebundle_()
    assert words_of(shown.figure) == ["标题", "速率 (TFLOP/s)", "慢", "fast"]
    assert repr(shown) == "标题\nx 的文字"


@pytest.mark.filterwarnings("ignore:Glyph")
def test_labels_of_ticks_may_be_numbers(chinese, monkeypatch):
    monkeypatch.setattr(figure_words, "font", lambda: "DejaVu Sans")
    shown = picture()
    shown.figure.axes[0].set_xticks([0, 1], range(3, 5))
    shown._repr_mimebundle_()
    assert words_of(shown.figure) == ["标题", "速率 (TFLOP/s)", "3", "4"]


def test_without_a_font_the_figure_stays_english_and_its_words_do_not(chinese, monkeypatch):
    monkeypatch.setattr(figure_words, "font", lambda: None)
    shown = picture()
    bundle, _ = shown._repr_mimebundle_()
    assert words_of(shown.figure) == ["A heading", "rate (TFLOP/s)", "slow", "fast"] and bundle["text/plain"] == "标题\nx 的文字"


def test_the_font_is_one_that_matplotlib_knows():
    assert figure_words.font() in {None, *(entry.name for entry in font_manager.fontManager.ttflist)}


def test_labels_questions_and_status_are_translated(chinese, monkeypatch):
    question = voting.predict("which?")
    assert question.question == "which?"
    monkeypatch.setattr(voting, "have_widgets", lambda: False)

    def refuse(rows):
        raise ValueError("too many")
    panel = panels.panel(refuse, rows=panels.Choice("Rows", ["slow"], "slow"))
    assert panel._repr_mimebundle_()[0]["text/plain"] == "未启动：too many" and panel.status == "Launches: 0. Not launched: too many"
    widget = panels._control(panels.Choice("Rows", ["slow", 3], "slow"), 8)
    assert widget.description == "行" and widget.options == (("慢", "slow"), ("3", 3)) and widget.value == "slow"
    assert voting._number_box("which?", "", None).children[0].value == "<b>预测。</b>哪个？"
