# SPDX-License-Identifier: Apache-2.0
"""What a stored output is made of, as hashes: the cell, the kernels and the drawing code behind it, the recordings it read. Nothing is run."""
