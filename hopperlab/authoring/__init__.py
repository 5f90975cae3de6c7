# SPDX-License-Identifier: Apache-2.0
"""How the lessons' notebooks are made: text sources to .ipynb, executed here or on a GPU machine, and checked.

`python -m hopperlab.authoring build|execute|check`. Sources stand in `notebooks/sources/*.md`; nobody edits the JSON by hand.
"""
