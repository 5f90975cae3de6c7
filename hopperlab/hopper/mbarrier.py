# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the mbarrier object: one 64-bit word, and what each operation makes of it.

The hardware's layout is opaque; this one is ours: bits 19:0 pending arrivals, 39:20 expected arrivals, 60:40 tx-count
(signed), 62:61 phase modulo 4, 63 set while the object is live. All functions are pure and take an int or a uint64 ndarray.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np

MAX_COUNT = (1 << 20) - 1
"""Largest arrival count, and largest tx-count in bytes either way (PTX ISA 9.7.13.15.2)."""

BYTES = 8
"""Size and alignment of an mbarrier object (PTX ISA 9.7.13.15.1)."""

DEAD = 0
"""What `inval` leaves: a word without a live object."""

_TX_BITS = 21
_PHASES = 4

Word = TypeVar("Word", int, np.ndarray)


class MbarrierError(ValueError):
    """An operation that the PTX ISA leaves undefined for the state the barrier is in."""


class MbarrierFields(NamedTuple, Generic[Word]):
    """The state of a barrier: phase (modulo 4), pending and expected arrivals, and tx-count in bytes (signed).

    Values are ints, or int64 ndarrays of one shape. Source: PTX ISA 9.7.13.15.2.
    """

    phase: Word
    pending: Word
    expected: Word
    tx: Word


def is_live(word: Word) -> Word:
    """True where the word holds an initialised barrier (bool, or a bool array)."""
    live: Word = (word >> 63) == 1
    return live


def unpack(word: Word) -> MbarrierFields[Word]:
    """The fields of a barrier word. Raises MbarrierError if it is no live barrier (never initialised, or invalidated)."""
    live = is_live(word)
    if not (live.all() if isinstance(live, np.ndarray) else live):
        raise MbarrierError(
            "this word is not an mbarrier: mbarrier.init has not run, or mbarrier.inval has (PTX ISA 9.7.13.15.9)"
        )
    if isinstance(word, np.ndarray):
        w = word.astype(np.int64)
        tx = (w << 3) >> 43
        return MbarrierFields(w >> 61 & 3, w & MAX_COUNT, w >> 20 & MAX_COUNT, tx)
    number = int(word)
    tx_bits = number >> 40 & (1 << _TX_BITS) - 1
    return MbarrierFields(number >> 61 & 3, number & MAX_COUNT, number >> 20 & MAX_COUNT, tx_bits - ((tx_bits >> _TX_BITS - 1) << _TX_BITS))


def pack(fields: MbarrierFields[Word]) -> Word:
    """The 64-bit word of `fields` (phase taken modulo 4), an int or a uint64 ndarray.

    Raises MbarrierError for counts outside 0..2^20-1 or a tx-count outside +-(2^20-1).
    """
    phase, pending, expected, tx = fields
    _in_range("pending arrivals", pending, 0)
    _in_range("expected arrivals", expected, 0)
    _in_range("tx-count", tx, -MAX_COUNT)
    if isinstance(pending, np.ndarray) or isinstance(tx, np.ndarray) or isinstance(phase, np.ndarray):
        phase, pending, expected, tx = (np.asarray(value, dtype=np.int64).astype(np.uint64) for value in fields)
    low_part = pending | expected << 20 | (tx & (1 << _TX_BITS) - 1) << 40
    return low_part | (phase % _PHASES) << 61 | 1 << 63


def _in_range(name: str, value: Word, low: int) -> None:
    if isinstance(value, np.ndarray):
        fits = bool(((value >= low) & (value <= MAX_COUNT)).all())
    else:
        fits = low <= value <= MAX_COUNT
    if not fits:
        raise MbarrierError(f"{name} = {value}: outside {low} to {MAX_COUNT} (PTX ISA 9.7.13.15.2)")


def init(count: int) -> int:
    """mbarrier.init: a fresh barrier in phase 0 that expects `count` arrivals in every phase.

    Raises MbarrierError unless count is 1 to 2^20-1. Source: PTX ISA 9.7.13.15.9.
    """
    if not 1 <= count <= MAX_COUNT:
        raise MbarrierError(f"mbarrier.init with count = {count}: the count is 1 to {MAX_COUNT} (PTX ISA 9.7.13.15.9)")
    return pack(MbarrierFields(0, count, count, 0))


def inval(word: Word) -> Word:
    """mbarrier.inval: the word of a dead object. Raises MbarrierError if it was not live. Source: PTX ISA 9.7.13.15.10."""
    unpack(word)
    return word * 0


def _settle(f: MbarrierFields[Word]) -> Word:
    """Complete the phase where nothing is pending and the tx-count is zero, then pack (PTX ISA 9.7.13.15.6)."""
    done = (f.pending == 0) & (f.tx == 0)
    if isinstance(done, np.ndarray):
        f = MbarrierFields(*np.broadcast_arrays(*f))
        return pack(f._replace(phase=f.phase + done, pending=np.where(done, f.expected, f.pending)))
    return pack(f._replace(phase=f.phase + 1, pending=f.expected) if done else f)


def _all(test: object) -> bool:
    return bool(test.all()) if isinstance(test, np.ndarray) else bool(test)


def _counted(f: MbarrierFields[Word], n: Word | int, what: str) -> MbarrierFields[Word]:
    """`f` with n arrivals less pending; raises when n is not 1 or more, or more than are pending."""
    if not _all(n >= 1):
        raise MbarrierError(f"{what} with count = {n}: the count is at least 1 (PTX ISA 9.7.13.15.13)")
    if not _all(n <= f.pending):
        raise MbarrierError(f"{what} of {n} with {f.pending} arrivals pending: more arrivals than this phase expects")
    return f._replace(pending=f.pending - n)


def arrive(word: Word, n: Word | int = 1) -> Word:
    """mbarrier.arrive: n arrivals less pending, then the phase completes if it can.

    Raises MbarrierError for n below 1 or above the pending count. Source: PTX ISA 9.7.13.15.13.
    """
    return _settle(_counted(unpack(word), n, "mbarrier.arrive"))


def expect_tx(word: Word, nbytes: Word | int) -> Word:
    """mbarrier.expect_tx: the tx-count grows by nbytes. The phase never completes here.

    Raises MbarrierError if the tx-count leaves its range. Source: PTX ISA 9.7.13.15.5, 9.7.13.15.11.
    """
    f = unpack(word)
    return pack(f._replace(tx=f.tx + nbytes))


def complete_tx(word: Word, nbytes: Word | int) -> Word:
    """complete-tx: the tx-count shrinks by nbytes, then the phase completes if it can.

    The count may be negative for a while: a copy may land before the thread that expects it gets to say so.
    Raises MbarrierError if the tx-count leaves its range. Source: PTX ISA 9.7.13.15.5, 9.7.13.15.12.
    """
    f = unpack(word)
    return _settle(f._replace(tx=f.tx - nbytes))


def arrive_expect_tx(word: Word, nbytes: Word | int, n: Word | int = 1) -> Word:
    """mbarrier.arrive.expect_tx: expect_tx of nbytes, then arrive. Raises as both do. Source: PTX ISA 9.7.13.15.13."""
    return arrive(expect_tx(word, nbytes), n)


def arrive_drop(word: Word, n: Word | int = 1) -> Word:
    """mbarrier.arrive_drop: later phases expect n arrivals less, and n arrive now.

    Raises MbarrierError if fewer than n are expected or pending. Source: PTX ISA 9.7.13.15.14.
    """
    f = _counted(unpack(word), n, "mbarrier.arrive_drop")
    return _settle(f._replace(expected=f.expected - n))


def arrive_no_complete(word: Word, n: Word | int = 1) -> Word:
    """mbarrier.arrive.noComplete: n arrivals that must leave the phase incomplete.

    Raises MbarrierError if the phase would complete, which is undefined. Source: PTX ISA 9.7.13.15.13.
    """
    f = _counted(unpack(word), n, "mbarrier.arrive.noComplete")
    if not _all((f.pending != 0) | (f.tx != 0)):
        raise MbarrierError("mbarrier.arrive.noComplete completed the phase: undefined (PTX ISA 9.7.13.15.13)")
    return pack(f)


def add_pending(word: Word, n: Word | int = 1) -> Word:
    """n more pending arrivals in this phase: what cp.async.mbarrier.arrive without .noinc does before it arrives later.

    Raises MbarrierError past 2^20-1. Source: PTX ISA 9.7.13.15.15.
    """
    f = unpack(word)
    return pack(f._replace(pending=f.pending + n))


def try_wait_parity(word: Word, parity: Word | int) -> Word:
    """test_wait.parity and try_wait.parity: True when the phase with this parity is complete.

    That is so when the current phase has the other parity: on a fresh barrier parity 1 passes at once and parity 0 waits.
    parity is 0 or 1. Source: PTX ISA 9.7.13.15.16.
    """
    complete: Word = (unpack(word).phase & 1) != parity
    return complete


def try_wait_state(word: Word, state: Word) -> Word:
    """test_wait and try_wait with the state an arrive returned (the word before it): True when that phase is complete.

    Source: PTX ISA 9.7.13.15.16.
    """
    complete: Word = unpack(word).phase != unpack(state).phase
    return complete


def pending_count(state: Word) -> Word:
    """mbarrier.pending_count: arrivals that were pending in the state a noComplete arrive returned (PTX ISA 9.7.13.15.17)."""
    return unpack(state).pending


def describe(word: int) -> str:
    """One line for messages: "phase parity 1, 2 of 3 arrivals pending, 16384 bytes to come"; says so if it is no barrier."""
    if not is_live(int(word)):
        return "not initialised"
    f = unpack(int(word))
    if f.tx < 0:
        tail = f"{-f.tx} bytes arrived that nobody expected yet"
    else:
        tail = f"{f.tx} bytes to come"
    return f"phase parity {f.phase & 1}, {f.pending} of {f.expected} arrivals pending, {tail}"
