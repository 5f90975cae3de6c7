# SPDX-License-Identifier: Apache-2.0
"""The learner's side of the notebooks: the working copies, the landing page that lists them, and how far the learner is."""
