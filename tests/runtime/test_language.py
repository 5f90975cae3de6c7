# SPDX-License-Identifier: Apache-2.0
"""The language of a notebook, and strings in it."""

import json

import pytest

from hopperlab.runtime import language
from hopperlab.runtime.language import LanguageError, say


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch):
    monkeypatch.delenv(language.VARIABLE, raising=False)
    monkeypatch.delenv(language.SESSION, raising=False)
    language._of_notebook.cache_clear()


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """A folder of tables in which a test writes its own."""
    monkeypatch.setattr(language, "STRINGS", tmp_path)
    (tmp_path / "zh").mkdir()
    for kept in (language.table, language._patterns):
        kept.cache_clear()
    yield tmp_path / "zh"
    for kept in (language.table, language._patterns):
        kept.cache_clear()


def test_english_without_a_word(tables):
    (tables / "a.toml").write_text('"step" = "步骤"')
    assert language.language() == "en" and say("step") == "step" and say("step", "zh") == "步骤"


@pytest.mark.parametrize("given", ["zh", "ZH", "zh_CN.UTF-8", "zh-TW"])
def test_the_variable_decides(given, monkeypatch):
    monkeypatch.setenv(language.VARIABLE, given)
    assert language.language() == "zh"


def test_a_notebooks_file_says_its_language(tmp_path, monkeypatch):
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"metadata": {"hopperlab": {"language": "zh"}}}))
    assert language.language_of(path) == "zh" and language.language() == "en"
    monkeypatch.setenv(language.VARIABLE, "en")
    assert language.language_of(path) == "en"


def test_an_unknown_language_is_named_with_those_there_are(monkeypatch):
    monkeypatch.setenv(language.VARIABLE, "fr")
    with pytest.raises(LanguageError, match=r"'fr'; there are: en \(English\), zh"):
        language.language()


@pytest.mark.parametrize(("metadata", "expected"), [({"hopperlab": {"language": "zh"}}, "zh"), ({"hopperlab": {"language": "xx"}}, "en"),
                                                    ({"hopperlab": {}}, "en"), ({}, "en")])
def test_without_the_variable_the_notebook_of_the_kernel_decides(metadata, expected, tmp_path, monkeypatch):
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"metadata": metadata}))
    monkeypatch.setenv(language.SESSION, str(path))
    assert language.language() == expected


@pytest.mark.parametrize("name", ["gone.ipynb", "3f2a", ""])
def test_a_session_without_a_notebook_is_english(name, monkeypatch):
    monkeypatch.setenv(language.SESSION, name)
    assert language.language() == "en"


def test_places_lines_and_strings_within_strings(tables):
    (tables / "a.toml").write_text('"{0} of {1} judged rightly." = "{1} 个里对了 {0} 个。"\n"{0}: right" = "{0}：正确"\n"kernel" = "核"\n"a\\nb" = "整"\n')
    assert say("3 of 4 judged rightly.", "zh") == "4 个里对了 3 个。"
    assert say("x\n  3 of 4 judged rightly.\n\nkernel: right", "zh") == "x\n  4 个里对了 3 个。\n\n核：正确"
    assert say("a\nb", "zh") == "整"
    assert say("12: 34", "zh") == "12: 34"
    assert language.named(["kernel", "other", 3]) == ["kernel", "other", 3]


def test_what_a_semicolon_joins_in_a_place_is_translated_one_by_one_or_not_at_all(tables):
    (tables / "a.toml").write_text('"The values are right, but: {0}." = "共：{0}。"\n"{0} is {1}: {2}" = "{0} 是 {1}：{2}"\n"why" = "因"\n"one; and two" = "一又二"\n')
    assert say("The values are right, but: a is 1: why; b is 2: why; why.", "zh") == "共：a 是 1：因；b 是 2：因；因。"
    assert say("The values are right, but: why; one; and two; a is 1: why.", "zh") == "共：因；一又二；a 是 1：因。"
    assert say("The values are right, but: why; because.", "zh") == "共：why; because。"
    assert say("The values are right, but: 1 -> 2; 3 -> 4.", "zh") == "共：1 -> 2; 3 -> 4。"


def test_a_place_takes_no_half_of_a_pair_of_parentheses_where_it_need_not(tables):
    (tables / "a.toml").write_text('"not so: {0} ({1})." = "不是：{0}（{1}）。"\n"few words (of {0})" = "少（{0}）"\n"at {0}" = "在 {0}"\n')
    assert say("not so: few words (of 3) (at 5).", "zh") == "不是：少（3）（在 5）。"
    assert say("not so: few words (of f(3)) (at 5).", "zh") == "不是：少（f(3)）（在 5）。"
    assert say("not so: a :( b (at 5).", "zh") == "不是：a :( b（在 5）。"


def test_the_longer_fixed_text_wins(tables):
    (tables / "a.toml").write_text('"{0}: {1}" = "{0}＝{1}"\n"{0}: wrong ({1})" = "{0} 错（{1}）"\n')
    assert say("kernel 1: wrong (you trusted it)", "zh") == "kernel 1 错（you trusted it）"


@pytest.mark.parametrize("text", ['"a {0}" = "{1}"', '"a" = 3', 'a = "unfinished'])
def test_a_table_that_cannot_be_right_is_named(text, tables):
    (tables / "bad.toml").write_text(text)
    with pytest.raises(LanguageError, match=r"bad\.toml"):
        language.table("zh")


def test_two_translations_of_one_string_are_an_error(tables):
    (tables / "a.toml").write_text('"step" = "步骤"')
    (tables / "b.toml").write_text('"step" = "步"')
    with pytest.raises(LanguageError, match=r"b\.toml: 'step' has another translation already: '步骤'"):
        language.table("zh")


def test_what_is_looked_up_in_vain_is_noted(tables, tmp_path, monkeypatch):
    (tables / "a.toml").write_text('"step" = "步骤"')
    file = tmp_path / "missing"
    monkeypatch.setenv(language.NOTE_MISSING, str(file))
    say("step\nother words\n12 34\n已有译文 with words", "zh")
    assert file.read_text() == '"other words"\n'


def test_widths_count_wide_characters_twice(tables, monkeypatch):
    (tables / "a.toml").write_text('"step" = "步骤a"')
    monkeypatch.setenv(language.VARIABLE, "zh")
    assert len(language.columns("step")) == 5 and len(language.columns("other")) == 5
    assert language.named(["step", 4]) == [("步骤a", "step"), ("4", 4)]


@pytest.mark.parametrize("to", [code for code in language.LANGUAGES if code != "en"])
def test_the_tables_of_the_course_can_be_read(to):
    assert len(language.table(to)) > 100 and all(value for value in language.table(to).values())


@pytest.mark.parametrize(("english", "chinese"), [
    ("y[0, 3] is never written, expected 7; 5 of 64 elements are wrong (tiles, blocks = 1, 2; schedule random(3)).",
     "y[0, 3]：从未写过，应为 7；64 个元素里有 5 个不对（tile 数、block 数 = 1, 2；调度 random(3)）。"),
    ("y[1] is 2, expected 3; 4 of 9 elements are wrong (m, n = 3, 3; schedule lazy). Every wrong element is right elsewhere: y[1] holds what belongs to y[2].",
     "y[1]：2，应为 3；9 个元素里有 4 个不对（m, n = 3, 3；调度 lazy）。每个错误的元素放在别处都是对的：y[1] 里是属于 y[2] 的值。"),
    ("The values are right, but not by what was asked for: global_load_requests is 8, and should be 0: the copy engine reads x, no thread does (m, n = 3, 3; "
     "schedule lazy).",
     "结果是对的，但不是用要求的方法得到的：global_load_requests 是 8，应当是 0：读 x 的是拷贝引擎，不是线程（m, n = 3, 3；调度 lazy）。"),
    ("The values are right, but not by what was asked for: there are atom or red (global_atomic_requests is 8), which "
     "this exercise has no use for: x comes by bulk copies, and consumers read it from the ring; warp 1 of block 0 "
     "arrives 0 times, and should 1: each warp hands back for itself, none for another (tiles, blocks = 1, 1; schedule lazy).",
     "结果是对的，但不是用要求的方法得到的：用了 atom 或 red（global_atomic_requests 是 8），本练习用不着它：x 由批量拷贝搬来，消费者从环里读；"
     "block 0 的 warp 1 arrive 了 0 次，应当是 1 次：每个 warp 替自己交还，不替别人（tile 数、block 数 = 1, 1；调度 lazy）。"),
    ("column(7296, 3, 1) returned 5 at [0], the address of piece 3 of row 0, expected 7.", "column(7296, 3, 1) 返回的 [0] 处（第 0 行小块 3 的地址）是 5，应为 7。")])
def test_what_a_check_of_an_exercise_says(english, chinese):
    assert say(f"02.2 is not right yet. {english}", "zh") == f"02.2 还不对。{chinese}"
