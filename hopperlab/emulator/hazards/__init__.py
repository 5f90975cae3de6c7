# SPDX-License-Identifier: Apache-2.0
"""Whether accesses are ordered, and what is said where they are not."""
