# SPDX-License-Identifier: Apache-2.0
"""`python -m hopperlab.cli.site`: the rendered site, with a page of the commands, which the rooms below do not know. `make site` and `make pdf` call it."""
from __future__ import annotations

import argparse
import sys

from ..authoring import hashes
from ..authoring.site import moving_panels, pdf, reference, sphinx_build
from . import COMMANDS

NO_REPOSITORY = ("no address of the repository is known (git remote origin): pages have no links to it and to Colab. Name it: make site "
                 "REPOSITORY=https://github.com/OWNER/NAME")


def main(arguments: list[str] | None = None) -> int:
    """Write build/site/html and say where it opens; returns 1, with what is wrong, when it has faults."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.cli.site",
                                     description="Render the course as HTML in build/site/html; it opens from a folder and needs no server.")
    parser.add_argument("--repository", default="", metavar="URL", help="where links lead to, such as https://github.com/OWNER/NAME (default: the clone's origin)")
    parser.add_argument("--branch", default="main", help="the branch that they show (default: %(default)s)")
    parser.add_argument("--pdf", action="store_true", help=f"print {' and '.join(pdf.FILES)} too; needs Chromium, Chrome or Edge")
    given = parser.parse_args(arguments)
    settings = sphinx_build.Settings(given.repository or sphinx_build.repository_of(hashes.ROOT), given.branch, given.pdf)
    try:
        rendered = sphinx_build.build(reference.pages(COMMANDS), settings=settings)
        print(moving_panels.move(hashes.ROOT, rendered))
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    if not settings.repository:
        print(NO_REPOSITORY)
    print("\n".join([f"open {rendered / 'index.html'}", *(f"open {rendered / file}" for file in pdf.FILES if given.pdf)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
