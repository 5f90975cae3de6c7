# SPDX-License-Identifier: Apache-2.0
"""Boxes of tensor loads that lie outside their array, in whole or in part: what is outside is filled with zeros, and comes no faster, but slower than what is inside,
since no neighbour's request is of use for it (benchmarks/out_of_bounds.py). So tiles at the end of a matrix take longer, and a cluster waits for its slowest CTA.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from . import order

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..emulator.launch import Plan
    from ..hopper.tensormap_fields import TensorMapFields

WINDOW = 1 << 17             # bytes of a CTA's loads that are looked at together
MOST_CLUSTERS = 400          # of a launch that has more than run at a time, whose loads are followed,
MOST_CTAS = 1600             # and CTAs of these


@dataclass(frozen=True)
class Outside:
    """Bytes that boxes of each cluster have, and those of them that lie outside, [cluster, window]: of the CTA of which most do. share: of the launch's loads, those
    that were followed."""

    boxes: NDArray[Any]
    outside: NDArray[Any]
    share: float = 1.0

    def later(self, cycles: float, places: int, in_step: bool, rate: float, edge: float) -> float:
        """Cycles by which a launch ends later. cycles: without it; places: clusters at work at a time; in_step: CTAs wait for each other at each tile;
        rate, edge: bytes a cycle that an SM gets at most of what is inside, and of what is outside."""
        each = self.boxes.sum(axis=1)
        many = len(each) > places or self.share < 1
        taken = cycles * places * self.share / each.sum() if many else cycles / each.max()
        late = (self.outside > 0) * np.maximum(0.0, (self.boxes - self.outside) / rate + self.outside / edge - taken * self.boxes)
        if in_step:
            return float(late.max(axis=0).sum() / self.share)
        return float(late.sum() / places / self.share if many else (taken * each + late.sum(axis=1)).max() - cycles)


def possible(maps: Iterable[TensorMapFields], cluster: int) -> bool:
    """Whether boxes of these maps may lie outside: extents are no multiples of theirs, or of so many that each CTA of a cluster has one."""
    return any(extent % box or cluster > 1 and extent // box % cluster
               for fields in maps if fields.mode == "tiled" for extent, box in zip(fields.global_dim, fields.box_dim, strict=True))


def of(launch: Plan, maps: Iterable[TensorMapFields], known: order.Loads | None = None) -> Outside | None:
    """Of a launch whose tensor loads have these maps; None where all boxes are inside, and where its loads cannot be followed. known: the loads of all its CTAs, where
    they were followed before."""
    shape = launch.geometry
    if not possible(maps, shape.cluster_ctas):
        return None
    clusters = shape.cta_order.reshape(-1, shape.cluster_ctas)
    most = min(MOST_CLUSTERS, MOST_CTAS // shape.cluster_ctas)
    if known is None and len(clusters) > most:
        clusters = clusters[np.sort(np.random.default_rng(1).permutation(len(clusters))[:most])]
    try:
        loads = known or order.follow(launch, clusters.ravel())
    except order.NotAlone:
        return None
    return summed(loads, shape.cluster_ctas, clusters.size / shape.ctas)


def summed(loads: order.Loads, cluster: int, share: float = 1.0) -> Outside | None:
    """Loads of clusters, window by window. share: of all clusters, these."""
    outside = loads.whole - loads.nbytes
    if not outside.any():
        return None
    windows = (loads.before() / WINDOW).astype(np.int64)
    count = int(windows.max()) + 1
    where = np.repeat(np.arange(len(loads.kept)), loads.kept) * count + windows
    boxes, beyond = (np.bincount(where, nbytes, len(loads.kept) * count).reshape(-1, cluster, count) for nbytes in (loads.whole, outside))
    most = beyond.argmax(axis=1)[:, None]
    seen = share * float(loads.kept.sum() / loads.counts.sum())
    return Outside(np.take_along_axis(boxes, most, 1)[:, 0], np.take_along_axis(beyond, most, 1)[:, 0], seen)
