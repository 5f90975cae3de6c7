# SPDX-License-Identifier: Apache-2.0
"""Kernels by others, estimated beside what they take: 134 cases in three sets, each written by somebody who had seen nothing of the model, and measured after it had been
estimated. What estimates of kernels whose lanes move their own data are off by (estimates/judged/lanes.json) comes from these.

    python -m benchmarks.kernels_of_others                      estimates beside the measurements (H200), some minutes
    python -m benchmarks.kernels_of_others --store              the same, and write estimates/judged/lanes.json
    python -m benchmarks.kernels_of_others --measure            measure them; needs an H200 with CuPy, four minutes
    python -m benchmarks.kernels_of_others --check              run each at its small size in the emulator
"""
