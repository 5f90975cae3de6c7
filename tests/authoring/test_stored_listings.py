# SPDX-License-Identifier: Apache-2.0
"""Code on the site: every character of a listing is there, in its colour, and a long line goes on under its comment."""

import html
import re

import pytest

from hopperlab import show
from hopperlab.authoring import hashes
from hopperlab.authoring.site import stored_listings, wrapping

KERNELS = hashes.ROOT / "hopperlab" / "kernels"
LINE = re.compile(r'<span class="ln(?P<marked> marked)?"(?: data-n="(?P<number>\d+)")?(?: '
                  r'style="--h:(?P<wide>\d+);--d:(?P<narrow>\d+)")?>(?P<code>.*?\n)</span>(?=<span class="ln|</pre>|$)', re.DOTALL)
BACKGROUNDS = {"light": "#f0f0f0", "dark": "#272822"}
"""Of code, in the themes that conf.py names (friendly, monokai)."""


def plain(text):
    return html.unescape(re.sub(r"<[^>]+>", "", text))


def shown(listing):
    """The lines of a listing as the site has it: matches of LINE."""
    return list(LINE.finditer(stored_listings.with_classes(listing._repr_mimebundle_()["text/html"])))


@pytest.mark.parametrize("path", sorted(path.relative_to(KERNELS).as_posix() for path in KERNELS.rglob("*.cu")))
@pytest.mark.sampled(every=4)
def test_a_listing_keeps_every_character_and_number(path):
    listing = show.source(path)
    found = shown(listing)
    assert "".join(plain(line["code"]) for line in found) == listing.text + "\n"
    assert [int(line["number"]) for line in found] == list(range(listing.first, listing.first + len(found)))


def test_colours_become_classes_and_marks_stay():
    listing = show.listing('#include <a.h>\nint x = 7;   // seven\n/* two\nlines */ f("s");\n', "a.cu", mark=(2,))
    page = stored_listings.with_classes(listing._repr_mimebundle_()["text/html"])
    assert "color:" not in page and "<table" not in page
    for kind, text in (("comment-preproc", "#include"), ("keyword", "int"), ("literal-number", "7"), ("comment", "// seven"), ("comment", "/* two"),
                       ("comment", "lines */"), ("literal-string", '"s"')):
        assert re.search(rf'<span class="hl-{kind}">{re.escape(html.escape(text, quote=False))}', page), (kind, text)
    assert [bool(line["marked"]) for line in shown(listing)] == [False, True, False, False]


def test_other_tables_are_left_alone():
    table = "<table><tr><td><pre>x</pre></td></tr></table>"
    assert stored_listings.with_classes(table) == table


def code_block(inside, block="highlight-python notranslate"):
    return f'<div class="{block}"><div class="highlight"><pre><span></span>{inside}\n</pre></div>'


def test_a_long_line_goes_on_under_its_comment():
    code = "    f(x);" + " " * 20
    block = code_block(f'{code}<span class="c1">// {"word " * 20}</span>\nshort')
    long, short = LINE.finditer(wrapping.by_lines(block))
    assert (int(long["wide"]), int(long["narrow"])) == (len(code) + 3, 6) and short["wide"] is None
    assert plain(long["code"]) == f"{code}// {'word ' * 20}\n" and long["code"].count('<span class="gap">' + " " * 19 + "</span>") == 1


def test_a_line_that_is_a_comment_keeps_its_own_indent():
    line = next(LINE.finditer(wrapping.by_lines(code_block(f'<span class="w">    </span><span class="c1">// {"word " * 20}</span>'))))
    assert int(line["wide"]) == 7 and "gap" not in line["code"]


def test_a_comment_far_to_the_right_leaves_room():
    line = next(LINE.finditer(wrapping.by_lines(code_block(f'{"x" * 110} <span class="c1"># far</span>'))))
    assert int(line["wide"]) == wrapping.MOST_INDENT


def test_text_goes_on_under_its_last_column_and_tables_are_known():
    rows = [f"row {n}        12      {'words ' * 20}" for n in range(3)]
    page = wrapping.by_lines(code_block("\n".join(rows), "output stream highlight-myst-ansi notranslate"))
    assert "class=table-in-text" in page and {int(line["wide"]) for line in LINE.finditer(page)} == {rows[0].index("words")}
    prose = wrapping.by_lines(code_block("one sentence " * 9, "output stream highlight-myst-ansi notranslate"))
    assert "class=table-in-text" not in prose and next(LINE.finditer(prose))["wide"] == "2"


def test_a_table_that_ends_in_numbers_is_scrolled_and_one_that_ends_in_words_is_not():
    head = "what is measured here, in words     unit     one     two\n"
    for cell, shown in (("40.5 %", True), ("a sentence that may go on below itself", False)):
        rows = "\n".join(f"row {n} of a long table {'x' * 60}     12     {cell}" for n in range(4))
        page = wrapping.by_lines(code_block(head + rows, "output stream highlight-myst-ansi notranslate"))
        assert ("of-numbers" in page) == shown and "table-in-text" in page
    assert "of-numbers" not in wrapping.by_lines(code_block("int a     = 1\nint b     = 2\nint c     = 3\n"))


def test_names_in_tables_may_break_and_code_elsewhere_not():
    name = '<code><span class="pre">{}</span></code>'
    page = wrapping.by_lines(f'<td>{name.format("cp.async.wait_group")}</td><p>{name.format("cp.async")}</p><td>{name.format("__syncthreads()")}</td>')
    assert page.count("<wbr>") == 3 and plain(page) == "cp.async.wait_groupcp.async__syncthreads()"


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(weight * (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4) for weight, part in zip((0.2126, 0.7152, 0.0722), parts))


@pytest.mark.parametrize("theme, colours", [("light", stored_listings.LIGHT), ("dark", stored_listings.DARK)])
def test_colours_can_be_read_in_both_themes(theme, colours):
    """4.5:1, WCAG 2.1's AA for text."""
    assert set(colours) == set(stored_listings.LIGHT)
    for name, colour in colours.items():
        bright, dim = sorted((luminance(colour), luminance(BACKGROUNDS[theme])), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= 4.5, name
