# SPDX-License-Identifier: Apache-2.0
"""Instructions to NumPy code: calls linked, loops and masks found, each basic block translated once."""
