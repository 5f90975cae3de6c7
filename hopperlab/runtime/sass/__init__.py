# SPDX-License-Identifier: Apache-2.0
"""Machine code of a compiled kernel, and the loops in it."""
