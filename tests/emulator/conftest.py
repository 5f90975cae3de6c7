# SPDX-License-Identifier: Apache-2.0
"""What another test launched last is no launch of this one: launches are numbered from the first that the host has not waited for."""
import pytest


@pytest.fixture(autouse=True)
def _nothing_launched_before():
    from hopperlab.emulator.machine import memory
    memory.default().forget()
