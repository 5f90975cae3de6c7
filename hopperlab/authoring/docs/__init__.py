# SPDX-License-Identifier: Apache-2.0
"""What is written into files that people read on a code host: tables of README.md and docs/, the plan of the rooms, the README's pictures."""
