# SPDX-License-Identifier: Apache-2.0
"""Lesson 12, Clusters: neighbours that share what they load. Its figures, panels, checks and exercises; the notebook imports this room as `lesson`."""
from ..rooms import offer

__getattr__, __dir__, __all__ = offer(__name__, {
    ".exercise_figures": "draw_multicast draw_shares",
    ".hand_back": "fences_table",
    ".handed": "handed_bytes handed_table run_handed",
    ".shared_tiles": "asked_of_l2 check_masks cluster_map cluster_numbers expected_sums launch_cluster run_cluster tile_traffic traffic_table "
                     "ways_table",
})
