# SPDX-License-Identifier: Apache-2.0
"""The grading pages in a browser: whole by themselves, readable when narrow, and deaf to what a learner wrote."""
import pytest
from support.classroom import PHASES, hand_in, lesson, quick, right

from hopperlab.grading import grader, reports
from hopperlab.grading.grader import Asked

pytestmark = pytest.mark.browser
EVIL = "\n# WRONG <script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"></pre><b id=owned>"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("graded")
    hand_in(tmp_path / "class" / "ada", right())
    hand_in(tmp_path / "class" / f"<img src=x onerror=alert(1)> {'long ' * 12}name", right() | {PHASES: right()[PHASES] + EVIL})
    report, timing = grader.grade(Asked(tmp_path / "class", lesson(), tmp_path / "out", workers=0, unsafe=True, work=quick, matches=lambda *_: True))
    reports.write_all(report, timing, tmp_path / "out")
    return [tmp_path / "out" / "index.html", *sorted((tmp_path / "out" / "learners").glob("*.html"))]


@pytest.mark.parametrize("width", [420, 1100])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.sampled(every=4)
def test_pages_are_whole_and_run_nothing(chromium, pages, width, scheme):
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    try:
        for path in pages:
            page, said, asked_for = context.new_page(), [], []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("request", lambda request, asked_for=asked_for: asked_for.append(request.url))
            page.goto(path.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
            assert not said and asked_for == [path.as_uri()], "nothing is fetched, nothing is blocked"
            assert "owned" not in page.title() and page.locator("#owned, img, script").count() == 0
            assert page.evaluate("document.documentElement.scrollWidth") <= width, "tables and code scroll within themselves"
            ink, paper = page.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
            assert ink != paper
            page.close()
    finally:
        context.close()


def test_the_teachers_page_leads_to_each_learner(chromium, pages):
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(pages[0].as_uri())
        page.locator("table a", has_text="ada").click()
        assert page.evaluate("location.hash") == "#ada"
        page.locator("#ada summary").first.click()
        page.locator("#ada a", has_text="learner's page").click()
        page.wait_for_load_state()
        assert page.url.endswith("/learners/ada.html") and page.locator("h1").inner_text()
    finally:
        context.close()
