# SPDX-License-Identifier: Apache-2.0
"""Lesson 05x, Inside TMA: the copy engine by its latencies. Its figures, panels and checks; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    "..l05_tma_tiles.recorded": "promotion_table",
    ".blocks": "blocks_table",
    ".maps_and_pieces": "maps_chart maps_table pieces_table",
    ".copy_engine": "announce BOXES check_boxes descriptor_chart first_uses issue_table latencies latency_chart latency_table launch_queue "
                   "run_queue unit_map",
})
