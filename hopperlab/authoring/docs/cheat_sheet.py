# SPDX-License-Identifier: Apache-2.0
"""The cheat sheet: every asynchronous mechanism of the course as one table, and docs/cheat-sheet.md's lines from it.

A row says what a mechanism does, its PTX instruction, the wrappers of include/hopperlab that emit it, who waits for whom, and what the emulator names when the
row is forgotten; behind the rows stand the kinds of hazards that none of them names. Tests hold the table to the headers: no wrapper is missing, none is
invented, and each emits the instruction its row names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ...emulator.hazards.kinds import Kind
from ..editions import hazard_pages


@dataclass(frozen=True)
class Mechanism:
    """One row. instruction: how the PTX begins, one or several; wrappers: names, `*` for a family; lesson: the number of one that uses it, or "".

    forgotten: the kind of hazard that the emulator names, or None where nothing goes wrong, and in words when.
    """

    does: str
    instruction: tuple[str, ...]
    wrappers: tuple[str, ...]
    waits: str
    forgotten: tuple[tuple[Kind | None, str], ...]
    lesson: str


def _row(does: str, instruction: str, wrappers: str, waits: str, lesson: str, *forgotten: tuple[Kind | None, str]) -> Mechanism:
    """A row; instructions and wrappers are parted by blanks."""
    return Mechanism(does, tuple(instruction.split()), tuple(wrappers.split()), waits, forgotten, lesson)


GROUPS: tuple[tuple[str, tuple[Mechanism, ...]], ...] = (
    ("Copies by every thread (Ampere)", (
        _row("copy 4, 8 or 16 bytes", "cp.async", "cp_async_cg_16* cp_async_ca_*",
             "Nobody waits: it is in flight until its own thread waits for its group.", "03",
             (Kind.MISALIGNED, "an address that is no multiple of the size")),
        _row("close a group", "cp.async.commit_group", "cp_async_commit_group",
             "The thread's copies since its last commit are one group.", "03",
             (Kind.READ_BEFORE_ARRIVAL, "the wait counts groups, and this one is not there")),
        _row("wait for groups", "cp.async.wait_group cp.async.wait_all", "cp_async_wait_group cp_async_wait_all",
             "The thread waits for its own copies. A barrier follows before other threads read.", "03",
             (Kind.READ_BEFORE_ARRIVAL, "no wait, or one group too shallow, or no barrier behind it")),
        _row("arrive when the copies have landed", "cp.async.mbarrier.arrive", "cp_async_mbarrier_arrive*",
             "Who waits for the phase waits for this thread's copies too. With .noinc, mbarrier.init counts the arrival.", "03x",
             (Kind.READ_BEFORE_ARRIVAL, "an ordinary arrive comes before the copies have landed")),
    )),
    ("mbarrier", (
        _row("begin", "mbarrier.init", "mbarrier_init",
             "One thread, once; all others pass `__syncthreads()` before their first use.", "04",
             (Kind.BARRIER_MISUSE, "used before it is initialised, or before that is visible")),
        _row("arrive", "mbarrier.arrive", "mbarrier_arrive",
             "What this thread did before is visible to those who wait for this phase. It does not wait.", "04",
             (Kind.DEADLOCK, "the phase never ends"), (Kind.OVERWRITE_IN_FLIGHT, "a slot is handed back before its last read")),
        _row("announce bytes", "mbarrier.arrive.expect_tx mbarrier.expect_tx", "mbarrier_arrive_expect_tx mbarrier_expect_tx",
             "The phase waits for as many bytes as all its copies bring, those out of bounds included.", "04",
             (Kind.BARRIER_MISUSE, "bytes that nobody announced"), (Kind.DEADLOCK, "more announced than come")),
        _row("wait for a phase", "mbarrier.try_wait.parity mbarrier.test_wait.parity", "mbarrier_wait_parity* mbarrier_try_wait_parity* mbarrier_test_wait_parity",
             "The thread waits until the phase of this parity is over: all arrivals and all bytes. A fresh barrier passes parity 1.", "04",
             (Kind.READ_BEFORE_ARRIVAL, "a full slot is read too early"), (Kind.OVERWRITE_IN_FLIGHT, "an empty slot is filled too early"),
             (Kind.PHASE_OVERRUN, "the next phase does not wait for those who still wait for this one")),
        _row("count bytes by hand", "mbarrier.complete_tx", "mbarrier_complete_tx",
             "What copy engines do by themselves.", "04", (Kind.DEADLOCK, "announced bytes that nothing brings")),
        _row("leave for good", "mbarrier.arrive_drop mbarrier.arrive_drop.expect_tx", "mbarrier_arrive_drop mbarrier_arrive_drop_expect_tx",
             "Later phases expect one arrival fewer.", "", (Kind.DEADLOCK, "a thread that ends is still waited for")),
        _row("end", "mbarrier.inval", "mbarrier_inval",
             "After everyone's last use; only then is the word plain memory.", "", (Kind.BARRIER_MISUSE, "the word is written, or initialised again")),
    )),
    ("TMA: loads", (
        _row("load a box", "cp.async.bulk.tensor", "cp_async_bulk_tensor_*d_load cp_async_bulk_tensor_*_im2col cp_async_bulk_tensor_2d_load_hint",
             "One thread issues and goes on; the bytes count on the mbarrier, and readers wait for its phase.", "05",
             (Kind.READ_BEFORE_ARRIVAL, "no wait for the phase")),
        _row("load a range", "cp.async.bulk.shared::cluster.global", "cp_async_bulk_load",
             "The same without a map; addresses and size are multiples of 16.", "05", (Kind.READ_BEFORE_ARRIVAL, "no wait for the phase"),
             (Kind.EXIT_IN_FLIGHT, "the CTA ends first")),
        _row("fetch ahead", "prefetch.tensormap cp.async.bulk.prefetch.L2", "prefetch_tensormap cp_async_bulk_prefetch_l2",
             "Nobody waits: a hint.", "05", (None, "nothing but time")),
        _row("change a map", "tensormap.replace tensormap.cp_fenceproxy fence.proxy.tensormap",
             "tensormap_replace_* tensormap_cp_fenceproxy fence_proxy_tensormap_acquire",
             "The writer publishes the map; who issues a copy with it acquires it first.", "07", (Kind.MISSING_PROXY_FENCE, "the engine may hold the old map")),
    )),
    ("TMA: stores, and the two proxies", (
        _row("order ordinary accesses before TMA and wgmma", "fence.proxy.async", "fence_proxy_async fence_proxy_async_shared_cta",
             "Every thread that wrote (or read), after its accesses and before the barrier; then one thread issues.", "07",
             (Kind.MISSING_PROXY_FENCE, "the engine may read what was there before"),
             (Kind.UNFENCED_OVERWRITE, "a load overwrites what ordinary loads have read (a warning)")),
        _row("write fragments to shared memory", "stmatrix", "stmatrix_x4 stmatrix_x4_trans",
             "An ordinary store of a whole warp: proxy fence and barrier before a bulk store.", "13",
             (Kind.MISSING_PROXY_FENCE, "no proxy fence before the store by TMA")),
        _row("store a box or a range", "cp.async.bulk.tensor cp.async.bulk.global", "cp_async_bulk_tensor_*d_store cp_async_bulk_store",
             "One thread issues and goes on; the store is in that thread's bulk group.", "07", (Kind.EXIT_IN_FLIGHT, "the CTA ends before its shared memory is read")),
        _row("combine with what is there", "cp.reduce.async.bulk", "cp_reduce_async_bulk_tensor_2d_* CP_REDUCE_ASYNC_BULK_*",
             "As a store; each element is atomic, and elements come in no order.", "07", (Kind.OVERWRITE_IN_FLIGHT, "its source is rewritten before it is read")),
        _row("close a bulk group", "cp.async.bulk.commit_group", "cp_async_bulk_commit_group",
             "The thread's stores since its last commit are one group.", "07", (Kind.OVERWRITE_IN_FLIGHT, "the wait counts groups, and this one is not there")),
        _row("wait until the sources are read", "cp.async.bulk.wait_group.read", "cp_async_bulk_wait_group_read",
             "The issuing thread waits, then tells the others by a barrier: the buffer may be written again.", "07",
             (Kind.OVERWRITE_IN_FLIGHT, "the buffer is reused too early"), (Kind.EXIT_IN_FLIGHT, "the CTA ends too early")),
        _row("wait until the stores are done", "cp.async.bulk.wait_group", "cp_async_bulk_wait_group",
             "The issuing thread waits, then a barrier, or a fence and a flag, tells the others: the results are there.", "07",
             (Kind.READ_BEFORE_ARRIVAL, "the results are read too early (.read is not enough)")),
    )),
    ("wgmma", (
        _row("hand over registers", "wgmma.fence", "wgmma_fence",
             "The warpgroup's register writes come before its next wgmma. It is no proxy fence.", "08",
             (Kind.REGISTER_IN_FLIGHT, "the tensor core may read registers before they are written"), (Kind.DIVERGENT_COLLECTIVE, "a warp stays away")),
        _row("multiply tiles", "wgmma.mma_async", "wgmma_m64*k16_bf16",
             "Four warps issue together and go on; tiles and accumulator belong to it until wait_group.", "08",
             (Kind.LAYOUT_MISMATCH, "descriptor and tile differ in their swizzle")),
        _row("close a group", "wgmma.commit_group", "wgmma_commit_group",
             "The warpgroup's products since its last commit are one group.", "08", (Kind.REGISTER_IN_FLIGHT, "the wait counts groups, and this one is not there")),
        _row("wait for products", "wgmma.wait_group", "wgmma_wait_group",
             "The warpgroup waits; then the accumulator may be read, and the tiles handed back.", "08",
             (Kind.REGISTER_IN_FLIGHT, "the accumulator is used too early"), (Kind.OVERWRITE_IN_FLIGHT, "the tiles are handed back too early")),
    )),
    ("Warps with roles", (
        _row("choose one thread", "elect.sync", "elect_sync",
             "Nobody waits; one lane of a converged warp is chosen.", "10", (None, "32 lanes arrive, announce and copy where one was counted")),
        _row("meet at a named barrier", "bar.sync", "bar_sync",
             "As many threads as it names wait for one another.", "04", (Kind.RACE, "one side does not wait"), (Kind.DEADLOCK, "not all come")),
        _row("arrive at a named barrier", "bar.arrive", "bar_arrive",
             "Those in bar.sync wait for this warp; it goes on.", "13", (Kind.DEADLOCK, "they wait for ever"),
             (Kind.BARRIER_MISUSE, "nobody takes the arrival (a warning)")),
        _row("move registers between warpgroups", "setmaxnreg.dec setmaxnreg.inc", "setmaxnreg_dec setmaxnreg_inc",
             "inc waits until others have given back enough; all four warps of a warpgroup run it.", "11",
             (Kind.REGISTER_BUDGET, "the pool never holds enough, or ptxas ignores it")),
    )),
    ("Clusters", (
        _row("meet in the cluster", "barrier.cluster.arrive barrier.cluster.wait", "barrier_cluster_arrive barrier_cluster_arrive_relaxed barrier_cluster_wait",
             "Every thread of the cluster waits for all: before the first remote access, and after the last.", "12",
             (Kind.CLUSTER_LIFETIME, "a peer has not begun, or has ended")),
        _row("publish new barriers", "fence.mbarrier_init", "fence_mbarrier_init_release_cluster",
             "The thread's mbarrier.init are visible in the cluster after the next cluster barrier.", "12",
             (Kind.BARRIER_MISUSE, "a peer uses a barrier that is not there for it")),
        _row("load for several CTAs", "cp.async.bulk.tensor", "cp_async_bulk_tensor_*_multicast",
             "The bytes count on each CTA's own barrier; the issuer first waits until the slot is free in all of them.", "12",
             (Kind.OVERWRITE_IN_FLIGHT, "a neighbour still reads the slot")),
        _row("arrive in another CTA", "mapa mbarrier.arrive", "mapa_shared_cluster mbarrier_arrive_remote mbarrier_arrive_remote_slot",
             "Who waits there waits for this thread: so a consumer frees its slot for the CTA that loads it.", "12",
             (Kind.OVERWRITE_IN_FLIGHT, "the empty barrier counts one CTA only"), (Kind.CLUSTER_LIFETIME, "that CTA has ended")),
        _row("wait for other CTAs", "mbarrier.try_wait.parity.acquire.cluster", "mbarrier_wait_parity_cluster",
             "As a wait for a phase; what other CTAs released for the cluster is visible.", "07",
             (Kind.RACE, "an acquire of CTA scope promises nothing between CTAs (a warning)")),
        _row("read or write a neighbour's shared memory", "ld.shared::cluster st.shared::cluster", "ld_shared_cluster* st_shared_cluster_v4",
             "Ordered by cluster barriers, or by an mbarrier of cluster scope.", "12", (Kind.RACE, "nothing between the two CTAs"),
             (Kind.CLUSTER_LIFETIME, "the neighbour has ended")),
        _row("send to a neighbour", "st.async cp.async.bulk.shared::cluster.shared::cta mbarrier.arrive.expect_tx",
             "st_async_v4 cp_async_bulk_to_cta mbarrier_arrive_expect_tx_remote",
             "The bytes count on a barrier of the receiver, who waits for its phase.", "12", (Kind.READ_BEFORE_ARRIVAL, "the receiver does not wait"),
             (Kind.OVERWRITE_IN_FLIGHT, "the source is rewritten before the receiver has told that it came")),
    )),
    ("Grids", (
        _row("let the next grid begin", "griddepcontrol.launch_dependents", "griddepcontrol_launch_dependents",
             "Nobody waits: a hint. When all CTAs have said so, or have ended, a dependent launch may begin.", "13x", (None, "nothing but time")),
        _row("wait for the grid in front", "griddepcontrol.wait", "griddepcontrol_wait",
             "Its thread, and whom that meets afterwards, waits until that grid has ended.", "13x",
             (Kind.READ_BEFORE_ARRIVAL, "a dependent launch reads what that grid still writes")),
        _row("raise and await a flag in global memory", "red.release.gpu ld.acquire.gpu atom.acq_rel.gpu",
             "red_release_gpu_add_one ld_acquire_gpu atom_acq_rel_gpu_add_one",
             "Who acquires the count sees what was released into it; a barrier of the block stands before and behind. All CTAs are on the GPU at once.", "13x",
             (Kind.RACE, "read or reset by one whom nothing orders"), (Kind.UNFENCED_FLAG, "polled by relaxed loads, and no fence behind the poll (a warning)")),
        _row("raise and await a flag of another device", "st.release.sys ld.acquire.sys", "st_release_sys ld_acquire_sys",
             "As a flag in global memory, with system scope at both ends; the data are complete before it (a bulk group waited for without `.read`).", "19",
             (Kind.RACE, "a scope of one device; raised before the data; memory that is written again unasked")),
        _row("data and flag in one word", "st.relaxed.sys ld.relaxed.sys", "st_relaxed_sys_u64 ld_relaxed_sys_u64",
             "Whoever reads the step in a word has the 4 bytes beside it.", "19", (None, "the word of a step before is taken for this one's")),
    )),
)


def rows() -> Iterator[Mechanism]:
    """Every row, in the order of the page."""
    for _, group in GROUPS:
        yield from group


def others() -> list[Kind]:
    """The kinds that no row names: what a step that is forgotten does not bring about."""
    named = {kind for row in rows() for kind, _ in row.forgotten}
    return [kind for kind in Kind if kind not in named]


def lines(root: Path) -> list[str]:
    """The page's lines: a heading and a table a group, and the kinds of hazards that no row names, with links to docs/hazards. Lessons are numbers, as in the
    glossary: where they stand differs between a clone, work/ and the site."""
    out: list[str] = []
    for title, group in GROUPS:
        out += [f"## {title}", "", "| to | instruction | wrapper | who waits for whom | forgotten | lesson |", "|---|---|---|---|---|---|"]
        out += [_line(one) for one in group] + [""]
    return [*out, "## Other hazards", "", *hazard_pages.table(root, others(), "hazards/")]


def _line(one: Mechanism) -> str:
    named = "; ".join(words if kind is None else f"[{kind}](hazards/{kind}.md): {words}" for kind, words in one.forgotten)
    return f"| {one.does} | {_code(one.instruction)} | {_code(one.wrappers)} | {one.waits} | {named} | {one.lesson} |"


def _code(names: Iterable[str]) -> str:
    return "<br>".join(f"`{name}`" for name in names)
