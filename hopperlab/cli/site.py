# SPDX-License-Identifier: Apache-2.0
"""`python -m hopperlab.cli.site`: the rendered site, with a page of the commands, which the rooms below do not know. `make site` calls it."""
from __future__ import annotations

import sys

from ..authoring import hashes, panel_pages, reference, site
from . import COMMANDS


def main() -> int:
    """Write build/site/html and say where it opens; returns 1, with what is wrong, when it has faults."""
    try:
        rendered = site.build(reference.pages(COMMANDS))
        print(panel_pages.move(hashes.ROOT, rendered))
        print(f"open {rendered / 'index.html'}")
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
