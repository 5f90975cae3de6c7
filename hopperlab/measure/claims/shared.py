# SPDX-License-Identifier: Apache-2.0
"""Claims 19 to 24: banks, padding, transaction counts and barriers. Each function settles one from Data."""
from __future__ import annotations

from .claim import FALSE, HOLDS, Claim, Data, Finding, when


def _read(data: Data, swizzle: str, row: int, access: str, pad: int = 0) -> float:
    return data.value("micro", "swizzle_reads", f"swizzle={swizzle}", f"ROW_BYTES={row}", f"PAD={pad}", f"access={access}")


def _conflicts(data: Data) -> Finding:
    plain, moved, words = (_read(data, "none", 128, "column, 16 bytes"), _read(data, "128B", 128, "column, 16 bytes"), _read(data, "128B", 128, "column, 4 bytes"))
    row = _read(data, "128B", 128, "row, 16 bytes")
    return Finding(f"a warp's read of 16 bytes per lane down a column of 128-byte rows: {plain:.0f} cycles plain, {moved:.0f} in the 128-byte swizzle, "
                   f"as a row ({row:.0f}); of 4 bytes per lane {words:.0f}, and 1 without conflicts",
                   FALSE if moved > 1.5 * row else HOLDS if words < 1.5 else when("a lane takes a whole piece of 16 bytes; columns of smaller elements still conflict"))


def _padding(data: Data) -> Finding:
    padded, swizzled, narrow = (_read(data, "none", 128, "column, 16 bytes", 16), _read(data, "128B", 128, "column, 16 bytes"),
                                _read(data, "none", 128, "column, 4 bytes", 4))
    return Finding(f"columns of 16 bytes: {padded:.0f} cycles padded, {swizzled:.0f} swizzled; of 4 bytes, padded by 4: {narrow:.0f}. But a tensor copy leaves no "
                   "gaps in a box, and a wgmma descriptor has no field for them",
                   when("ordinary loads write and read the tile; with TMA and wgmma it cannot") if padded < 1.2 * swizzled else FALSE)


def _bytes(data: Data) -> Finding:
    outcome = data.find("bugs", "warp_specialized", "BUG_WRONG_BYTES").outcome
    return Finding(f"a barrier told to expect 16 bytes more than the two boxes bring: {outcome}", FALSE if outcome == "hang" else HOLDS)


def _overhead(data: Data) -> Finding:
    trip, block = data.value("micro", "mbarrier_round_trip", "threads=64"), data.value("micro", "syncthreads", "threads=256")
    product = 4 * data.value("micro", "wgmma_rate", "N=256", "A=SS", "warpgroups=2", "IN_FLIGHT=3", suite="wgmma_rate")
    return Finding(f"full and back on empty: {trip:.0f} cycles; __syncthreads of 256 threads {block:.0f}; the products of one k-block of 64 x 256 x 64 last "
                   f"{product:.0f}",
                   when("a product runs meanwhile that lasts longer") if block < trip < product else HOLDS if trip <= block else FALSE)


def _syncthreads(data: Data) -> Finding:
    meeting = data.value("micro", "mbarrier_meeting", "threads=256", "ELECTED=0")
    missing = data.find("bugs", "warp_specialized", "BUG_NO_FULL_WAIT").outcome
    return Finding(f"each thread that reads waits on the barrier itself (all 256 do so in {meeting:.0f} cycles), and sees the data; the course's kernels have no "
                   f"__syncthreads there and are clean under every schedule; without the wait: {missing}", FALSE if missing != "right" else HOLDS)


def _named(data: Data) -> Finding:
    named, barrier = data.value("micro", "named_round_trip", "threads=64"), data.value("micro", "mbarrier_round_trip", "threads=64")
    return Finding(f"a round trip: {named:.0f} cycles on named barriers, {barrier:.0f} on mbarriers. A named barrier counts threads of one CTA and no bytes; an mbarrier "
                   "counts bytes, single threads and other CTAs, and can be asked for a phase later",
                   when("warps of one CTA order each other; for TMA, rings and clusters mbarriers are needed") if named < barrier else FALSE)


CLAIMS = (
    Claim(19, "Swizzling removes the bank conflicts of column reads.", "02", _conflicts),
    Claim(20, "Padding does as well as swizzling.", "06", _padding),
    Claim(21, "The transaction barrier counts boxes.", "04", _bytes),
    Claim(22, "Synchronising by mbarrier has a low overhead.", "04", _overhead),
    Claim(23, "After the wait on a barrier, __syncthreads is needed before other threads see TMA's data.", "04", _syncthreads),
    Claim(24, "Warp-specialised roles use named barriers.", "04", _named),
)
