# SPDX-License-Identifier: Apache-2.0
"""The site, built once a run: test_site_built.py reads its files, tests/ui/test_site_in_browser.py and test_site_panels_in_browser.py look at its pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from .once import once

REPOSITORY = "https://github.com/someone/course"


def site(tmp_path_factory) -> Path:
    """The folder of the site's HTML, with links to REPOSITORY; it is only read. Skips the test where the site's packages are missing."""
    pytest.importorskip("myst_nb", reason="the site's packages are not installed: make site")

    def build(out: Path) -> None:
        from hopperlab import cli
        from hopperlab.authoring import hashes
        from hopperlab.authoring.site import reference
        from hopperlab.authoring.site import sphinx_build as builder
        builder.build(reference.pages(cli.COMMANDS), hashes.ROOT, out, builder.Settings(REPOSITORY))
    return once(tmp_path_factory, "site", build) / "html"
