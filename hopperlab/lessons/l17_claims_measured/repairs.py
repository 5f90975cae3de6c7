# SPDX-License-Identifier: Apache-2.0
"""What lesson 17 gives to mend: the article's listing, with all that is wrong with it."""
from __future__ import annotations

import re
from typing import Any

from ...measure.launches.article import REPAIRS as SWITCHES
from ..repairs import Repair, decided


BLOCK = re.compile(r"^( *)if \(FIX_\w+\) \{\n(.*?)^\1\}\n", re.M | re.S)
RULES = ((re.compile(r"^ *if \(!FIX_\w+[^\n]*\n", re.M), ""), (re.compile(r"if \(FIX_\w+\) "), ""), (re.compile(r"FIX_\w+ \? (\w+) : \w+"), r"\1"))


def mended(text: str) -> str:
    """CUDA without the switches FIX_… of the listing, as if each were 1."""
    return decided(text, BLOCK, RULES)


class Listing(Repair):
    """A repair of a file whose switches mend it; the learner sees none of them."""

    def _own(self) -> str:
        return mended(super()._own())


def _listing(landing: str) -> tuple[bool, Any]:
    from .article_listing import run_article
    return run_article(SWITCHES, landing)


def _pipeline(landing: str, run: Any) -> str:
    """What the stages are there for: the loads of two are under way at once, when they land as late as they may."""
    from .article_listing import loads_in_flight

    most = loads_in_flight(run)
    if landing != "lazy" or most >= 4:
        return ""
    return f"it is no pipeline: at most {most} loads are under way at once, those of one stage. Who waits for what he has just asked for?"


REPAIRS = (
    Listing("listing", "article/listing.cu", "if (threadIdx.x == 0) {                                     //", "the copy engine does the rest", run=_listing,
            also=_pipeline, bug=(
        ("            mbarrier_wait_parity(&empty[s], phase ^ 1);\n", ""),
        ("expect_tx(&full[s], STAGE_BYTES); ", "expect_tx(&full[s], TILE_BYTES); "),
        ("            cp_async_bulk_tensor_2d_load(stage + TILE_BYTES, &b, &full[s], i * 64, 0);\n",
         "            cp_async_bulk_tensor_2d_load(stage + TILE_BYTES, &b, &full[s], i * 64, 0);\n"
         "            mbarrier_wait_parity(&full[s], phase);                                            // \"make sure it has arrived\"\n"),
        ("mbarrier_wait_parity(&full[s], phase);                        //", "mbarrier_wait_parity(&full[s], 0);                        //"),
        ("            wgmma_fence();\n", ""),
        ("            wgmma_wait_group<0>();\n            if (thread == 0) mbarrier_arrive(&empty[s]);\n",
         "            if (thread == 0) mbarrier_arrive(&empty[s]);                   // \"the tensor core has it: release\"\n"),
        ("        fence_proxy_async_shared_cta();\n", ""),
        ("            cp_async_bulk_wait_group_read<0>();                         // \"the", "            // \"the")),
        hint="Take one message at a time, the most certain first: bytes that nobody announced, then a phase that is waited for by the wrong parity. Last of all, count "
             "the loads that are under way at once."),
)
