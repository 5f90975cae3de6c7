# SPDX-License-Identifier: Apache-2.0
"""Exercises: what they ask, how an answer is checked, and how a class's submissions are graded.

exercise.py says what an exercise is, exercises/ holds them by lesson, check.py judges an answer, requires.py asks whether the
mechanism asked for was used, regions.py and generate.py make exercises/ from solutions/. Nothing above this room is imported here.
"""
