# SPDX-License-Identifier: Apache-2.0
"""On the GPU: its driver, launches through CuPy, and a launch once more."""
