# SPDX-License-Identifier: Apache-2.0
"""The site, built once a test process: test_site_built.py reads its files, tests/ui/test_site_in_browser.py looks at its pages."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = "https://github.com/someone/course"


@cache
def site() -> Path:
    """The folder of the site's HTML, with links to REPOSITORY. Skips the test where the site's packages are missing."""
    pytest.importorskip("myst_nb", reason="the site's packages are not installed: make site")
    from hopperlab import cli
    from hopperlab.authoring import hashes, reference
    from hopperlab.authoring import site as builder
    return builder.build(reference.pages(cli.COMMANDS), hashes.ROOT, Path(tempfile.mkdtemp(prefix="hopperlab-site-")), builder.Settings(REPOSITORY))
