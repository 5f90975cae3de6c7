# SPDX-License-Identifier: Apache-2.0
"""What leaves the repository: the offline bundle and its installer, the kernels compiled for machines without a compiler."""
