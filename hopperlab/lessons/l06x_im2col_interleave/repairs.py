# SPDX-License-Identifier: Apache-2.0
"""What lesson 06x breaks on the host, for the learner to mend: the map of a convolution with its corners exchanged."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..host_repairs import HostRepair

HEAD = "def map_of(image, edges, padding, stride):               # image: N, H, W, C; edges: rows and columns of the filter\n"
TAIL = "    return hl.TensorMap.im2col(image, lower, upper, channels=8, pixels=128, element_strides=(1, stride, stride, 1))"
FIRST = "    lower = tuple(-padding for edge in edges)\n"
LAST = "    upper = tuple(padding - (edge - 1) for edge in edges)\n"
CASES = (((3, 3), 1, 1), ((3, 3), 0, 1), ((5, 3), 1, 1), ((1, 5), 2, 1), ((2, 4), 1, 2))


def _lays_out(make: Callable[..., Any]) -> str:
    """'' where the maps of `make` lay out the matrix of every convolution of CASES, else which not."""
    from .convolutions import convolution_matrix, image_of, load_matrix, where_from

    for edges, padding, stride in CASES:
        image = image_of(9, 8, count=2)
        laid = load_matrix(image, edges, padding, stride, made=make(image, edges, padding, stride))
        expected = convolution_matrix(image, edges, padding, stride)
        wrong = np.flatnonzero((laid != expected).any(axis=(1, 2)))
        if wrong.size:
            tap = int((laid != expected).any(axis=2)[wrong[0]].argmax())
            found, meant = (where_from(values, image, tap)[wrong[0]] for values in (laid, expected))
            return (f"A filter of {edges[0]} x {edges[1]}, padding {padding}, stride {stride}: {wrong.size} of {len(laid)} output pixels are wrong; "
                    f"the first is {wrong[0]}, which reads {found or 'zeros'} where {meant or 'zeros'} is meant (image, row, column).")
    return ""


REPAIRS = (
    HostRepair("corners", "map_of", HEAD + FIRST.replace("lower", "upper") + LAST.replace("upper", "lower") + TAIL, HEAD + FIRST + LAST + TAIL, _lays_out,
               f"{len(CASES)} convolutions are laid out as NumPy says, one of them with a filter that has more rows than columns, one with a stride.",
               "Where does the first filter element stand for the first output pixel, counted from the image's first pixel? And for the last output pixel, counted from "
               "its last?"),
)
