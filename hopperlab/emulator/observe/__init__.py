# SPDX-License-Identifier: Apache-2.0
"""Listeners: counters, timeline, deadlock reports, progress, and the bound on work."""
