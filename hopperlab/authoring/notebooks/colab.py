# SPDX-License-Identifier: Apache-2.0
"""The first code cell of every lesson's notebook, for Google Colab only: it installs the course there and does nothing anywhere else.

Copies in work/ and the site leave it out. Where a notebook is executed it is run and counted like any other cell, and prints nothing.
"""

from __future__ import annotations

from typing import Any

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from ..learner.workspace import COLAB

SOURCE = '''# For Google Colab: installs the course there. Anywhere else this cell does nothing.
import sys

if "google.colab" in sys.modules:
    import subprocess

    repository = ""  # @param {type:"string"}
    if not repository:
        raise SystemExit("Write the address of the course's repository into the field, then run this cell again.")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", f"hopperlab @ git+{repository}"], check=True)'''


def cell() -> NotebookNode:
    """A fresh copy of the cell, folded away where the front end can."""
    return new_code_cell(SOURCE, id=COLAB, metadata={"tags": [COLAB, "nbval-ignore-output"], "jupyter": {"source_hidden": True}, "cellView": "form"})


def is_it(candidate: Any) -> bool:
    """True for this cell, in a notebook that was read or made here."""
    return COLAB in candidate.get("metadata", {}).get("tags", [])
