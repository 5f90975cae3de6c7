# SPDX-License-Identifier: Apache-2.0
"""The state of one launch: threads, scheduler, memory, barriers, and what is in flight."""
