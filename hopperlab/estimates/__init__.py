# SPDX-License-Identifier: Apache-2.0
"""Time without a GPU: an estimate in cycles and microseconds of a kernel that runs in the emulator, with its measured error.

sample.py runs a few CTAs and writes down what each warp did (trace.py); programs.py prices it (costs.py); sm.py replays it on one multiprocessor or a
cluster of them; chip.py adds up waves, memory and the clock that power allows; boards.py has the constants. docs/estimates.md has rules and errors.
"""
