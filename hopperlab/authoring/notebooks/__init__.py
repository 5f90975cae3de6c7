# SPDX-License-Identifier: Apache-2.0
"""Text sources to notebooks; notebooks run here or on a GPU, stored, checked, and stamped anew where they came out the same."""
