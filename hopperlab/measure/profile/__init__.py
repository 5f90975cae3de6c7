# SPDX-License-Identifier: Apache-2.0
"""Nsight Compute and compute-sanitizer over the kernels of the course."""
