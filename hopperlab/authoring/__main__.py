# SPDX-License-Identifier: Apache-2.0
"""`python -m hopperlab.authoring VERB`: build the notebooks from their sources, run them in the present place, check what is stored."""

from __future__ import annotations

import argparse
import sys

from .verbs import VERBS


def main(arguments: list[str] | None = None) -> int:
    """Parse and run; returns the exit code: 0 when all went well, 1 with findings or a cell that raised."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.authoring", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in VERBS:
        sub = verbs.add_parser(verb.name, help=verb.help)
        sub.add_argument("lessons", nargs="*", help="lesson numbers or names; all when none is given")
        for option, facts in verb.options.items():
            sub.add_argument(option, **facts)
        sub.set_defaults(run=verb.run)
    given = parser.parse_args(arguments)
    return given.run(given)


if __name__ == "__main__":
    sys.exit(main())
