# SPDX-License-Identifier: Apache-2.0
"""A lesson's cells, run one after the other in this process, and which compared ones come out otherwise than stored."""
from __future__ import annotations

from hopperlab.authoring.notebooks import mutations


def differences(cells, compared) -> dict[str, str]:
    """{compared cell: how its output differs from the stored one} of cells that run one after the other."""
    from matplotlib import pyplot
    differ = {}
    for cell, outputs in zip(cells, mutations.run_each(cell.source for cell in cells), strict=True):
        if cell.id in compared and (verdict := mutations.compare(outputs, cell.outputs)):
            differ[cell.id] = verdict
        pyplot.close("all")
    return differ
