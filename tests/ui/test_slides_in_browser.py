# SPDX-License-Identifier: Apache-2.0
"""The workshop's slides in a browser: each fits the screen, speaker notes are there, and nothing comes from a network."""

import pytest

from hopperlab.authoring.site import slides

pytestmark = [pytest.mark.browser, pytest.mark.thorough]
BOXES = """() => {
    const parts = [...Reveal.getCurrentSlide().querySelectorAll('*')].filter(e => !e.closest('aside')).map(e => e.getBoundingClientRect());
    return [Math.max(...parts.map(b => b.bottom)), Math.max(...parts.map(b => b.right)), Reveal.getCurrentSlide().textContent.slice(0, 60)];
}"""


def test_every_slide_fits_and_nothing_is_fetched(chromium, tmp_path, shots):
    pytest.importorskip("sphinx_revealjs", reason="what renders slides is not installed: make site")
    page, wrong = chromium.new_page(viewport={"width": 1280, "height": 720}), []
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(slides.build(out=tmp_path)[0].as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    total = page.evaluate("Reveal.getTotalSlides()")
    for number in range(1, total + 1):
        bottom, right, words = page.evaluate(BOXES)
        assert bottom <= 720 and right <= 1280, f"slide {number} is larger than the screen: {words}"
        shots(page, f"slide_{number:02d}.png")
        page.evaluate("Reveal.next()")
    assert total > 40 and wrong == [] and "notes" in page.evaluate("Object.keys(Reveal.getPlugins()).join()")
    page.close()
