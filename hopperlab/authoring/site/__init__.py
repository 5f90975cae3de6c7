# SPDX-License-Identifier: Apache-2.0
"""The rendered course: the site with its theme, its panels, listings and API reference; the same on paper; the workshop's slides."""
