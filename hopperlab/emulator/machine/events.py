# SPDX-License-Identifier: Apache-2.0
"""What happens in a launch, said once by machine and handlers, and heard by whoever wants to: order of accesses, counters, timeline.

`Listener` is the list of everything that can be said. A listener overrides what it wants to hear; `Events` binds each name to the methods that do,
so that what nobody hears costs one call of nothing. Listeners look at the machine and never change it.

Words used for arguments: C, a cohort; index, the instruction; gid, a thread; flat, byte positions in M.smem by lane; ids, mbarriers by lane;
info, the decoded instruction as its handler knows it; parts, [(allocation, lanes or None for all, byte offsets)] of global memory.
"""
from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from ...hopper.tensormap_fields import TensorMapFields
    from ...hopper.tile import GlobalRows
    from ..compile.translated import Block
    from ..isa.value import Value
    from .cohort import Cohort
    from .in_flight import GroupOp, Operation
    from .waits import Wait


class Listener:
    """Hears nothing yet. The methods are the events, in groups."""

    # --- the launch and its threads ---------------------------------------------------------------------------------
    def runs_on(self) -> None:
        """A cohort starts to run, or jumps back."""

    def running(self, C: Cohort, block: Block) -> None:
        """A cohort is about to run the instructions of a block."""

    def finished(self) -> None:
        """The launch has come to its end (no fault ended it)."""

    def closed(self) -> None:
        """The launch is over, in whatever way."""

    def admitted(self, domains: NDArray[Any], reused: NDArray[Any]) -> None:
        """CTAs start in these clusters' places; `reused`: slots among them that held other CTAs before."""

    def ctas_end(self, slots: NDArray[Any]) -> None:
        """CTAs end; what is in flight in their shared memory is still there."""

    def parked(self, C: Cohort, wait: Wait, index: int) -> None:
        """Threads are set aside until their wait may be over."""

    def passed(self, C: Cohort, wait: Wait, index: int) -> None:
        """Threads go on at a blocking instruction."""

    def stuck(self, waiting: list, why: str) -> None:
        """Nothing can run and nothing is in flight. waiting: (cohort, wait or None); why: what is known of loops."""

    def gathering(self, C: Cohort, block: Block) -> None:
        """Lanes begin to wait at a collective for the rest of their warps."""

    def met_apart(self, C: Cohort, blocks: list[Block]) -> None:
        """Lanes that have gathered at these blocks, of which C stands for one, are about to meet as C."""

    def named_lanes_met(self, C: Cohort, index: int, mask: Value) -> None:
        """A collective with a member mask runs."""

    def lanes_asked(self, C: Cohort, index: int, source: NDArray[Any], mask: Value) -> None:
        """shfl.sync with a mask that leaves lanes out: each lane takes the register of lane `source`."""

    def warp_synced(self, C: Cohort) -> None:
        """A converged collective orders memory inside the cohort's warps."""

    # --- accesses by lanes ------------------------------------------------------------------------------------------
    def shared_read(self, C: Cohort, flat: NDArray[Any], info: Any) -> None:
        """ld of shared memory."""

    def shared_written(self, C: Cohort, flat: NDArray[Any], info: Any, value: Callable[..., Any]) -> None:
        """st to shared memory, before it changes; value(lanes): the bytes that lanes (positions) store."""

    def shared_atomic(self, C: Cohort, flat: NDArray[Any], info: Any) -> None:
        """atom or red on shared memory, before it changes."""

    def rows_read(self, C: Cohort, gids: NDArray[Any], flat: NDArray[Any], count: int, index: int) -> None:
        """ldmatrix: threads `gids` name 16-byte rows, 8 * count a warp."""

    def rows_written(self, C: Cohort, gids: NDArray[Any], flat: NDArray[Any], count: int, index: int) -> None:
        """stmatrix, likewise."""

    def image_read(self, C: Cohort, gids: NDArray[Any], flat: NDArray[Any], index: int) -> None:
        """Threads read tensor maps (128 bytes) in shared memory."""

    def image_written(self, C: Cohort, gids: NDArray[Any], flat: NDArray[Any], index: int) -> None:
        """Threads change tensor maps in shared memory."""

    def global_read(self, C: Cohort, address: NDArray[Any], parts: list, info: Any) -> None:
        """ld of global memory at per-lane (or one) addresses."""

    def map_words_read(self, C: Cohort, nbytes: int, index: int) -> None:
        """Lanes read `nbytes` each of a tensor map among the parameters."""

    def global_written(self, C: Cohort, address: NDArray[Any], parts: list, info: Any, value: Callable[..., Any]) -> None:
        """st to global memory, before it changes; value(where) gives the function of lanes for a part."""

    def global_atomic(self, C: Cohort, parts: list, info: Any) -> None:
        """atom or red on global memory, before it changes."""

    def region_written(self, C: Cohort, parts: list, nbytes: int, index: int) -> None:
        """Lanes change `nbytes` of global memory each, by neither st nor atom."""

    # --- asynchronous copies ----------------------------------------------------------------------------------------
    def cp_async(self, C: Cohort, live: Cohort, address: NDArray[Any], parts: list, flat: NDArray[Any], size: int, index: int) -> None:
        """cp.async of `size` bytes per lane; `live`: the cohort of lanes that read global memory at `address`; parts: lanes are positions in C."""

    def cp_closed(self, C: Cohort) -> None:
        """The running cp.async groups of these threads end: an arrival stands for them."""

    def committed(self, C: Cohort, bulk: bool) -> None:
        """commit_group."""

    def groups_waited(self, C: Cohort, bulk: bool, pending: int, read_only: bool) -> None:
        """wait_group has returned: all but the `pending` newest groups of these threads are complete (read_only: have read their source)."""

    def map_used(self, gid: int, allocation: Any, offset: int, index: int) -> None:
        """A copy takes a tensor map in global memory."""

    def box_read(self, gid: int, fields: TensorMapFields, rows: GlobalRows, index: int, barriers: list[int]) -> None:
        """A tensor load reads the rows of its box in global memory; these barriers will hear of its end."""

    def boxes_read(self, gids: NDArray[Any], fields: TensorMapFields, starts: list[NDArray[Any]]) -> None:
        """In place of box_read, where nothing lands (machine.landing.lands): boxes of one map that threads load at once; their coordinates, innermost first."""

    def span_read(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, barriers: list[int]) -> None:
        """A bulk load reads bytes of global memory."""

    def load_issued(self, gid: int, barrier: int, spans: list, nbytes: int, index: int, slot: int, tile: tuple[Any, Any] | None) -> None:
        """A bulk or tensor copy into the shared memory of `slot` starts. spans: (first byte, bytes); tile: (fields, place) of a tensor copy."""

    def store_issued(self, gid: int, spans: list, nbytes: int, index: int, reduction: bool, tile: tuple[Any, Any] | None) -> None:
        """A bulk or tensor copy (or reduction) from shared memory starts, in the running bulk group of its thread."""

    def stored_together(self, warps: NDArray[Any]) -> None:
        """The bulk store that these warps have just run is one for several of their lanes (ops/copy_stores.py)."""

    def box_written(self, gid: int, fields: TensorMapFields, rows: GlobalRows, index: int, reduction: bool) -> None:
        """What that tensor copy will write in global memory."""

    def span_written(self, gid: int, allocation: Any, first: int, nbytes: int, index: int, reduction: bool) -> None:
        """What that bulk copy will write in global memory."""

    def copy_out(self, gid: int, first: int, nbytes: int, barrier: int, index: int, reduction: bool) -> None:
        """A bulk copy to another CTA reads its source; it completes on `barrier`."""

    def async_stored(self, C: Cohort, flat: NDArray[Any], nbytes: int, ids: NDArray[Any], index: int, reduction: bool) -> None:
        """st.async or red.async by every lane."""

    def remote_issued(self, gid: int, barrier: int, first: int, nbytes: int, index: int, reduction: bool) -> None:
        """A transfer to another CTA's shared memory starts."""

    def issued(self, op: Operation) -> None:
        """An operation (in_flight.py) starts."""

    def landed(self, op: Operation, pick: Any) -> None:
        """Its effect is there; pick: of a cp.async, the lanes that landed."""

    def source_read(self, op: GroupOp) -> None:
        """A store has read its source."""

    # --- mbarriers --------------------------------------------------------------------------------------------------
    def mbarrier_born(self, C: Cohort, ids: NDArray[Any], flat: NDArray[Any], live: NDArray[Any], count: NDArray[Any], index: int) -> None:
        """mbarrier.init, before it takes effect; live: which were barriers already."""

    def mbarrier_gone(self, C: Cohort, ids: NDArray[Any], flat: NDArray[Any], index: int) -> None:
        """mbarrier.inval, before it takes effect."""

    def mbarrier_used(self, C: Cohort, ids: NDArray[Any], index: int) -> None:
        """An instruction names live barriers."""

    def mbarrier_missing(self, gid: int, slot: int, offset: int, index: int) -> None:
        """An instruction names a word in the shared memory of `slot` that is no barrier; a fault follows."""

    def mbarriers_grew(self, old: int, new: int) -> None:
        """A CTA may have `new` barriers instead of `old`."""

    def arrived(self, C: Cohort, ids: NDArray[Any], count: NDArray[Any], expect: NDArray[Any] | None, info: Any) -> None:
        """mbarrier.arrive by every lane, before it counts; expect: bytes that it announces, or None."""

    def too_many_arrivals(self, gids: NDArray[Any], barrier: int, together: int, index: int) -> None:
        """One instruction of a warp arrives more often than the phase has pending (none at all where bytes alone are to come)."""

    def no_complete_completes(self, gid: int, barrier: int, index: int) -> None:
        """A .noComplete arrival leaves nothing pending."""

    def arrival_issued(self, op: Operation) -> None:
        """cp.async.mbarrier.arrive: `op` will arrive when the copies of its threads have landed."""

    def too_many_landed(self, op: Operation, pending: int) -> None:
        """An asynchronous arrival of several lanes lands where only `pending` are missing."""

    def announced(self, ids: NDArray[Any], nbytes: NDArray[Any], index: int) -> None:
        """expect_tx, with or without an arrival."""

    def expected_too_much(self, gid: int, barrier: int, nbytes: int, index: int) -> None:
        """expect_tx of more than a count of bytes holds, alone or with what has been announced; before it counts."""

    def bytes_arrived(self, barrier: int, nbytes: int, index: int | None) -> None:
        """Bytes are signalled to a barrier."""

    def bytes_unannounced(self, barrier: int, nbytes: int) -> None:
        """More bytes came than the phase was told of."""

    def phases_completed(self, ids: NDArray[Any], index: int | None, gid: int) -> None:
        """Phases are over; the instruction of thread `gid` brought the last of what they waited for."""

    def phase_seen(self, C: Cohort, ids: NDArray[Any], info: Any) -> None:
        """Lanes have observed that the latest phase of their barrier is complete."""

    def wait_unread(self, C: Cohort, ids: NDArray[Any], index: int) -> None:
        """A test_wait or try_wait runs at whose result the program never looks."""

    def answered_no(self, gids: NDArray[Any], ids: NDArray[Any], index: int) -> None:
        """A test_wait or try_wait is answered no, whatever its barrier says (doubts.py)."""

    # --- other barriers and fences ----------------------------------------------------------------------------------
    def named_arrived(self, C: Cohort, keys: NDArray[Any], threads: NDArray[Any], info: Any) -> None:
        """bar.sync, bar.arrive, bar.red, before it counts; keys: slot * 16 + barrier by lane."""

    def named_completed(self, keys: NDArray[Any]) -> None:
        """Generations of named barriers are complete; the counts are still there."""

    def named_left(self, C: Cohort, keys: NDArray[Any]) -> None:
        """Lanes leave their named barrier."""

    def cluster_arrived(self, C: Cohort, domain: NDArray[Any], release: bool) -> None:
        """barrier.cluster.arrive."""

    def cluster_completed(self, domains: NDArray[Any]) -> None:
        """Phases of cluster barriers are complete."""

    def cluster_out_of_turn(self, gid: int, again: bool, index: int) -> None:
        """A thread arrives at its cluster barrier again before it has waited, or waits without having arrived."""

    def cluster_left(self, C: Cohort, domain: NDArray[Any], acquire: bool) -> None:
        """barrier.cluster.wait has returned."""

    def remote_touched(self, C: Cohort, target: NDArray[Any], slot: NDArray[Any], index: int) -> None:
        """Lanes in CTAs `slot` name shared memory of CTAs `target`."""

    def multicast_reached(self, gid: int, target: int, index: int) -> None:
        """A multicast of thread `gid` goes to the CTA in slot `target`."""

    def peer_gone(self, gid: int, rank: int, index: int) -> None:
        """A thread names shared memory of a CTA that has no threads."""

    def memory_fenced(self, C: Cohort, narrow: bool, system: bool) -> None:
        """fence or membar (narrow: of CTA scope; system: of system scope)."""

    def grids_waited(self, C: Cohort) -> None:
        """griddepcontrol.wait has returned: the grids in front of this one are over."""

    def proxy_fenced(self, C: Cohort, space: str) -> None:
        """fence.proxy.async; space: '' for all, 'global', or 'shared::…'."""

    def inits_fenced(self, C: Cohort) -> None:
        """fence.mbarrier_init."""

    def maps_released(self, C: Cohort) -> None:
        """fence.proxy.tensormap::generic.release."""

    def maps_acquired(self, C: Cohort, address: Value) -> None:
        """fence.proxy.tensormap::generic.acquire of 128 bytes by every lane."""

    # --- products and registers -------------------------------------------------------------------------------------
    def multiplied(self, C: Cohort, index: int, what: str, warps: int) -> None:
        """mma.sync or wmma (`what`: 'mma_sync', 'wmma') by `warps` warps."""

    def wgmma_issued(self, C: Cohort, issue: Any) -> None:
        """wgmma.mma_async; issue: see ops/wgmma.py."""

    def product_started(self, warps: NDArray[Any], index: int) -> None:
        """A wgmma of these warps is in flight."""

    def product_landed(self, warps: NDArray[Any], index: int) -> None:
        """It has been computed."""

    def products_waited(self, C: Cohort, done: NDArray[Any]) -> None:
        """wgmma.wait_group has returned: groups up to `done` (by warp of the cohort) are complete."""

    def accumulator_used(self, C: Cohort, index: int) -> None:
        """An instruction uses an accumulator whose wgmma has not been waited for."""

    def accumulator_replaced(self, C: Cohort, index: int, old: Value) -> None:
        """An instruction is about to compute a register that can hold an accumulator; old: what it holds."""

    def operand_replaced(self, C: Cohort, index: int, products: tuple, what: str) -> None:
        """An instruction computes a register that is operand `what` ('A', 'D' or 'metadata') of the wgmma instructions `products`."""

    def operands_taken(self, C: Cohort, index: int, scale: Value, d_times: tuple, a_times: tuple, metadata_times: tuple = ()) -> None:
        """A wgmma takes registers that were computed at these times (machine/fence_counts.py); scale: whether it reads D."""

    def registers_asked(self, C: Cohort, index: int, direction: str, count: int) -> None:
        """setmaxnreg, before it takes effect."""

    def registers_set(self, warps: NDArray[Any], index: int, direction: str, count: int) -> None:
        """Warps hold `count` registers per thread from now on."""


NAMES = tuple(name for name, member in vars(Listener).items() if callable(member) and not name.startswith("_"))
"""Every event."""


class Events:
    """Says what happens: one attribute an event, bound to those of `listeners` that hear it, in their order."""

    __slots__ = NAMES

    def __init__(self, listeners: list[Listener]):
        for name, who in _hearers(tuple(map(type, listeners))):
            heard = [getattr(listeners[k], name) for k in who]
            setattr(self, name, _nothing if not heard else heard[0] if len(heard) == 1 else _both(*heard) if len(heard) == 2 else _all(heard))


@lru_cache(maxsize=64)
def _hearers(kinds: tuple[type, ...]) -> list[tuple[str, list[int]]]:
    """Of each event, which listeners of these kinds hear it."""
    return [(name, [k for k, kind in enumerate(kinds) if getattr(kind, name) is not getattr(Listener, name)]) for name in NAMES]


def _nothing(*said) -> None:
    """Nobody listens."""


def _both(one, other):
    def tell(*said) -> None:
        one(*said)
        other(*said)
    return tell


def _all(heard: list):
    def tell(*said) -> None:
        for hear in heard:
            hear(*said)
    return tell
