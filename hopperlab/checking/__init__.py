# SPDX-License-Identifier: Apache-2.0
"""Is one answer right? What an exercise is, how an answer is run and judged, and which mechanism it must use."""
