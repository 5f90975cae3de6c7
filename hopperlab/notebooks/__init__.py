"""How the lessons' notebooks are made: text sources to .ipynb, executed here or on a GPU machine, and checked.

`python -m hopperlab.notebooks build|execute|check`. Sources stand in `notebooks/src/*.md`; nobody edits the JSON by hand.
"""
