# SPDX-License-Identifier: Apache-2.0
"""The claims that lesson 17 settles, each from recordings."""
