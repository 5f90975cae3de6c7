# SPDX-License-Identifier: Apache-2.0
"""The blocks that NVIDIA's patent draws inside the copy engine, each with the recorded experiment that tests it, or with why none of ours can.

Source of the blocks: US 12,141,082 B2, "Method and apparatus for efficient access to multidimensional data structures and/or other large data blocks".
"""
from __future__ import annotations

import textwrap
from typing import Any

from .copy_engine import first_uses, latencies
from .maps_and_pieces import NEAR, kept, pieces

LINE = 128              # bytes of a line of the L2


def _issue(micro: Any) -> float:
    """Cycles that the issuing thread needs for a box of 8 KiB, of four issued one after the other."""
    return next(r.value for r in micro.where(suite="issue") if "HOW=tensor" in r.options)


def _maps_kept(engine: Any) -> str:
    most, too_many = kept(engine, NEAR)
    return f"copies through up to {most} maps in turn are as quick as through one" + (f", through {too_many} no more" if too_many else "; more were not tried")


def _early(engine: Any) -> str:
    """What a barrier says of the pieces that was told too few bytes, for the box of 64 x 64 from the L2."""
    found = pieces(engine, 64, 64, "L2")
    early = [told for told, (share, _) in found.items() if share and told < 8192]
    return f"seen: complete_tx comes in pieces; of {len(found) - 1} announcements that were too small for 8 KiB {len(early)} opened the barrier early (below)"


def engine_blocks(micro: Any, engine: Any) -> list[tuple[str, str, str]]:
    """(block, what it is said to do, what the recordings say of it) of each block, in the order in which a request passes them. micro, engine: recordings."""
    box = latencies(micro, "tensor", "L2")
    uses, issue = first_uses(micro), _issue(micro)
    far = latencies(micro, "tensor", "memory")
    least, most = min(far), max(far)
    more = {source: [latencies(micro, "tensor", source)[size] - latencies(micro, "bulk", source)[size] for size in box] for source in ("L2", "memory")}
    apart, more_far = max(map(abs, more["L2"])), more["memory"]
    under_way = most / LINE * far[least] / far[most]            # Little's law: lines, times how long one takes, over how long all take
    return [
        ("request queue", "holds requests until the engine takes them",
         f"seen: a thread issues a box of 8 KiB in {issue:.0f} cycles and the box lands after {box[8192]:.0f}, so several wait or are under way; how many fit "
         f"was not measured"),
        ("set-up block", "decodes the map and prepares the walk over the box",
         f"not seen from the L2: with a map (tensor) and without one (bulk) the same bytes take the same time, within {apart:.0f} cycles at every size; from the memory "
         f"the tensor copy takes {min(more_far):.0f} to {max(more_far):.0f} cycles more, in no order by size"),
        ("descriptor cache", "keeps maps that were used",
         f"seen: the first use of a map in global memory takes {uses['global memory, cold']:.0f} cycles, the second {uses['global memory, used before']:.0f}; "
         f"{_maps_kept(engine)}"),
        ("request generator", "cuts the box into requests to the L2",
         f"seen: {least} bytes from memory take {far[least]:.0f} cycles and {most // 1024} KiB "
         f"{far[most]:.0f}, so that of their {most // LINE} lines some {under_way:.0f} were under way at a time"),
        ("response tracking", "counts what came back, in any order, and tells the barrier",
         _early(engine)),
        ("address translation", "virtual to physical, in the memory management unit", "not tested: it would take copies that touch many pages for the first time"),
    ]


def blocks_table(micro: Any, engine: Any, width: int = 112) -> str:
    """`engine_blocks` as text, a paragraph a block."""
    lines = [micro.source]
    for name, said, found in engine_blocks(micro, engine):
        lines += textwrap.wrap(f"{name}: {said}.", width)
        lines += textwrap.wrap(found, width, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)
