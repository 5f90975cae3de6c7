# SPDX-License-Identifier: Apache-2.0
"""Address windows of the emulated machine: generic addresses carry their space in the bits above 40."""

SHARED_WINDOW = 0x7F00_0000_0000
LOCAL_WINDOW = 0x7E00_0000_0000
PARAM_WINDOW = 0x7D00_0000_0000
SYSTEM_SHARED = 0x400          # the first KiB of shared memory is the system's (measured on an H200)
LOCAL_BASE = 1 << 24            # where a thread's local memory starts in its own space: no variable is at 0
FIRST_BARRIERS = 16                # mbarriers of a CTA that tables have room for at first
