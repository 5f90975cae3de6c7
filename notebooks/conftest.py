# SPDX-License-Identifier: Apache-2.0
"""What nbval compares in the lessons was stored with the recordings of one board, so these are read on every machine."""
import os

from hopperlab.measure.recordings import LESSONS_BOARD

os.environ.setdefault("HOPPERLAB_BOARD", LESSONS_BOARD)
