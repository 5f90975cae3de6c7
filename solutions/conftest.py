# SPDX-License-Identifier: Apache-2.0
"""What nbval compares in the solutions was stored with the recordings of one board, so these are read on every machine. Beside its line a check of speed tells times on
the standard error output, which is not compared, as in exercises."""
import os

import pytest

from hopperlab.grading.pristine import UNCOMPARED
from hopperlab.measure.recordings import LESSONS_BOARD

os.environ.setdefault("HOPPERLAB_BOARD", LESSONS_BOARD)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """nbval's notebooks, with what is not compared."""
    found = yield
    for notebook in found:
        notebook.skip_compare = (*getattr(notebook, "skip_compare", ()), *UNCOMPARED)
    return found
