# SPDX-License-Identifier: Apache-2.0
"""An independent model of the rules, programs drawn at random, and the comparison of both with the emulator (docs/oracle.md)."""
