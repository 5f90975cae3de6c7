# SPDX-License-Identifier: Apache-2.0
"""Shared-memory wavefronts and bank conflicts of one warp access, counted as Nsight Compute counts them.

Shared memory has 32 banks of 4 bytes, and each serves one word a wavefront, to any number of lanes. The rules below gave
the profiler's numbers for 522 access patterns on an H200 (l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld and _op_st).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hopperlab.hopper.limits import BANK_BYTES, BANKS, WARP_THREADS

WARP = WARP_THREADS

ACCESS_BYTES = (1, 2, 4, 8, 16)
"""Bytes a lane may access with one instruction: ld.shared.b8 up to ld.shared.v4.b32."""

_LANES = np.arange(WARP)


def passes(words: np.ndarray) -> int:
    """Wavefronts that a set of 4-byte word indices needs: the most distinct words in one bank, 0 for none.

    words: integer ndarray of byte address // 4; equal words are served together.
    """
    if not words.size:
        return 0
    return int(np.bincount(np.unique(words) % BANKS).max())


def _lanes(addresses: Sequence[int] | np.ndarray, access_bytes: int, active: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Checked addresses and active mask of one warp."""
    at = np.asarray(addresses, dtype=np.int64)
    on = np.ones(WARP, dtype=bool) if active is None else np.asarray(active, dtype=bool)
    if at.shape != (WARP,) or on.shape != (WARP,):
        raise ValueError(f"a warp access has {WARP} addresses and {WARP} active flags, not {at.shape} and {on.shape}")
    if access_bytes not in ACCESS_BYTES:
        raise ValueError(f"access_bytes = {access_bytes}: a lane accesses 1, 2, 4, 8 or 16 bytes")
    wrong = on & (at % access_bytes != 0)
    if wrong.any():
        lane = int(np.argmax(wrong))
        raise ValueError(f"lane {lane} accesses {access_bytes} bytes at {at[lane]:#x}, which is not a multiple of {access_bytes}")
    return at, on


def _group_lanes(at: np.ndarray, access_bytes: int, on: np.ndarray, store: bool) -> int:
    """Lanes served together: the warp up to 4 bytes per lane, half a warp at 8, a quarter at 16; twice that where a load pairs up.

    A load pairs up when all active lanes i and i ^ 1, or all active lanes i and i ^ 2, name the same address.
    """
    lanes = {8: 16, 16: 8}.get(access_bytes, WARP)
    if lanes < WARP and not store:
        for step in (1, 2):
            both = on & on[_LANES ^ step]
            if (at == at[_LANES ^ step])[both].all():
                return 2 * lanes
    return lanes


def _groups(at: np.ndarray, access_bytes: int, on: np.ndarray, store: bool) -> list[int]:
    """Wavefronts of each group of lanes that has an active one."""
    lanes = _group_lanes(at, access_bytes, on, store)
    words = at[:, None] // BANK_BYTES + np.arange(max(1, access_bytes // BANK_BYTES))
    found = (passes(words[i : i + lanes][on[i : i + lanes]]) for i in range(0, WARP, lanes))
    return [count for count in found if count]


def atomic_wavefronts(addresses: Sequence[int] | np.ndarray, access_bytes: int, active: np.ndarray | None = None,
                      combined: bool = False) -> int:
    """Wavefronts of one atomic on shared memory by a warp: one for each lane of a bank, even of the same word.

    combined: lanes of the same word are served together, as where 1 is added and nobody wants the old value (the machine's
    POPC.INC). addresses, access_bytes (4 or 8), active: as in `wavefronts`. A compare-and-swap takes twice as many.
    Source: Nsight Compute on an H200 (recordings/counters_engines.json).
    """
    at, on = _lanes(addresses, access_bytes, active)
    if combined:
        return wavefronts(at, access_bytes, on, store=True)
    lanes = 16 if access_bytes == 8 else WARP
    words = at // BANK_BYTES
    return sum(int(np.bincount(words[i : i + lanes][on[i : i + lanes]] % BANKS, minlength=1).max()) for i in range(0, WARP, lanes))


def wavefronts(
    addresses: Sequence[int] | np.ndarray, access_bytes: int, active: np.ndarray | None = None, store: bool = False
) -> int:
    """Wavefronts of one ld.shared or st.shared by a warp.

    addresses: (32,) shared byte addresses, each a multiple of access_bytes; access_bytes: bytes per lane, 1 to 16; active: (32,)
    bool, all lanes if None; store: loads whose lanes share addresses pairwise take half the groups, stores do not.
    Up to 4 bytes per lane the warp goes at once; at 8 bytes by halves, at 16 by quarters. Raises ValueError for wrong
    shapes, sizes or alignment. Source: Nsight Compute on an H200 (this module's opening); CUDA Programming Guide, shared memory.
    """
    at, on = _lanes(addresses, access_bytes, active)
    return sum(_groups(at, access_bytes, on, store))


def conflicts(
    addresses: Sequence[int] | np.ndarray, access_bytes: int, active: np.ndarray | None = None, store: bool = False
) -> int:
    """Bank conflicts of one ld.shared or st.shared: wavefronts beyond one for each group of lanes.

    Arguments and errors are those of `wavefronts`. Source: l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld and _op_st.
    """
    at, on = _lanes(addresses, access_bytes, active)
    found = _groups(at, access_bytes, on, store)
    return sum(found) - len(found)


def wavefronts_of_many(addresses: np.ndarray, access_bytes: int, active: np.ndarray, store: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(wavefronts, conflicts), each (warps,), of one ld.shared or st.shared by many warps.

    addresses: (warps, 32) byte addresses from 0 on, multiples of access_bytes; active: (warps, 32) bool. The rules are those of `wavefronts`.
    """
    waves, groups = np.zeros(len(addresses), np.int64), np.zeros(len(addresses), np.int64)
    lanes = {8: 16, 16: 8}.get(access_bytes, WARP)
    paired = np.zeros(len(addresses), bool)
    if lanes < WARP and not store:
        for step in (1, 2):
            other = _LANES ^ step
            paired |= ((addresses == addresses[:, other]) | ~(active & active[:, other])).all(axis=1)
    for together, chosen in ((lanes, ~paired), (2 * lanes, paired)):
        at, on = addresses[chosen], active[chosen]
        if not len(at):
            continue
        words = at[:, :, None] // BANK_BYTES + np.arange(max(1, access_bytes // BANK_BYTES))
        words = np.where(on[:, :, None], words, -1).reshape(len(at) * (WARP // together), -1)
        found = _passes_of_many(words).reshape(len(at), -1)
        waves[chosen], groups[chosen] = found.sum(axis=1), (found > 0).sum(axis=1)
    return waves, waves - groups


def _passes_of_many(words: np.ndarray) -> np.ndarray:
    """`passes` of every row of word indices (-1: none)."""
    words = np.sort(words, axis=1)
    fresh = words >= 0
    fresh[:, 1:] &= words[:, 1:] != words[:, :-1]
    row, column = np.nonzero(fresh)
    banks = np.bincount(row * BANKS + words[row, column] % BANKS, minlength=len(words) * BANKS)
    most: np.ndarray = banks.reshape(-1, BANKS).max(axis=1)
    return most


def matrix_wavefronts(addresses: Sequence[int] | np.ndarray, num: int) -> int:
    """Wavefronts of one ldmatrix or stmatrix .x`num`: its matrices one after another, each 8 rows of 16 bytes at once.

    addresses: (32,) byte addresses of the lanes, of which lanes 8j..8j+7 give the rows of matrix j; num: 1, 2 or 4.
    Without conflicts it is `num`. Raises ValueError for wrong shapes, numbers or a row that is not 16-byte aligned.
    Source: PTX ISA 9.7.14.5.15; Nsight Compute on an H200.
    """
    if num not in (1, 2, 4):
        raise ValueError(f"num = {num}: ldmatrix and stmatrix move 1, 2 or 4 matrices")
    at, _ = _lanes(addresses, 16, _LANES < 8 * num)
    words = at[: 8 * num].reshape(num, 8, 1) // BANK_BYTES + np.arange(4)
    return sum(passes(rows) for rows in words)


def matrix_conflicts(addresses: Sequence[int] | np.ndarray, num: int) -> int:
    """Bank conflicts of one ldmatrix or stmatrix: `matrix_wavefronts` beyond one per matrix. Errors as there."""
    return matrix_wavefronts(addresses, num) - num
