# SPDX-License-Identifier: Apache-2.0
"""One room a lesson: lNN_topic/ holds what only this lesson draws, launches, models, checks and asks.

    __init__.py          the names that its notebook uses, as `from hopperlab.lessons import lNN_topic as lesson`; each is looked up at
                         first use (rooms.py), so that whoever wants the exercises loads no figure
    exercises.py         the graded exercises: EXERCISES, one entry each, with their references and requirements; found by catalogue.py
    exercise_figures.py  the pictures beside their texts in exercises/NN_topic.ipynb
    recorded.py          recorded measurements as words, tables and charts; the notebook passes the recordings in
    repairs.py           what the lesson breaks and the learner mends: REPAIRS, one entry a %%repair cell; found by ../repairs.py
    checks.py            the check of a small exercise inside the lesson, which no grader sees
    everything else      named after its subject: the lesson's models and figures, and the launches behind its panel

The same file name means the same thing in every room. A room may use show/, checking/ and what is below them, and rooms of earlier lessons
(l16x uses l16), never of later ones; what is drawn in several lessons and belongs to none is in show/. tests/test_architecture.py holds both.
"""
