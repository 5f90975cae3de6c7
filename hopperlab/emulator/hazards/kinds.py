# SPDX-License-Identifier: Apache-2.0
"""The kinds of hazards, and what is said of each situation that is one: its kind, what happened, and the step that is missing.

Docs, tests and the renderer share this list. Words only; render.py fills them in: {here} and {there} are the two ends, {where} the place in memory; everything else is
a fact that the finding gives (findings_*.py).
Lessons compare these texts: whoever changes one runs `python -m hopperlab.authoring restamp --all --take`.
"""
from __future__ import annotations

from .barrier_words import MISUSED
from .case import Case as Case, Kind as Kind

REDUCTION = " An atomic orders nothing but its own word, and that it came before another atomic there is chance: a plain access needs the barrier or the fence as well."
RELAXED = (" What is .relaxed orders no ordinary reads and writes (here: {relaxed}): drop it, write .release and .acquire, or put a fence.acq_rel before the arrival and "
           "behind the wait.")
NARROW = " What is of CTA scope tells other blocks nothing, and learns nothing of them (here: {narrow}): __threadfence(), .release.gpu, .acquire.gpu."
SPOKE = (" {spoke} of that warp has been heard of since, but speaks for itself alone: put a __syncwarp() before it arrives (or fences, or raises a flag), or "
         "let all lanes do so.")
LANES = "{here} {verb} {where} in lane {lane}, which {there} {other_verb} in lane {other_lane} of the same warp, with nothing between them: "
THREADS = "{here} {verb} {where}, which {there} {other_verb} in another thread, with no barrier between them: "
MAP = "{here} uses the tensor map at byte {address} of {map}, which {there} changed in this kernel"
ONE_FENCE = " It is missing between all writes at {writers} and all uses at {readers}."
INIT_ONCE = "Let one thread initialise each barrier, once; to start it anew, run mbarrier.inval first, when nobody uses it any more."
LETTER = "The reader waits for a flag raised after the store, the writer for an answer; or value and flag are one word. Lanes of one warp run __syncwarp() between."
NO_RACE = " in another thread, and nothing orders the two. Both are volatile or relaxed, so it is no data race; but "
STILL_READING = "{here} overwrites {where}, which {there} may still be reading. "

ORDER = {
    "read-before-copy": Case(Kind.READ_BEFORE_ARRIVAL, "{here} reads {where}, which {there} may still be writing. ",
        "Nothing makes this wait for the copy: the thread (or one it has synchronised with since) must wait on the mbarrier at shared address {barrier} "
        "for the phase this copy completes, with that phase's parity, before it reads."),
    "read-before-cp.async": Case(Kind.READ_BEFORE_ARRIVAL, "{here} reads {where}, which {there} may still be writing. ",
        "The copy's thread must run cp.async.wait_group deep enough to include it, and then other threads need a __syncthreads() (or another barrier) "
        "before they read."),
    "read-before-cp.async-arrives": Case(
        Kind.READ_BEFORE_ARRIVAL, "{here} reads {where}, which {there} may still be writing. ",
        "The copy's thread runs cp.async.mbarrier.arrive behind it, and the reader must wait on that mbarrier for the phase of this copy before it reads: a "
        "stage of a pipeline whose turn has not come, or was given back too late, is another phase."),
    "read-of-nothing": Case(Kind.READ_BEFORE_ARRIVAL, "{here} reads {where} before {there} has written it: nothing was there yet. ",
        "The reader must wait for the copy first (on its mbarrier, with the parity of the phase the copy completes, or with cp.async.wait_group and a barrier)."),
    "overwrite-read-by-copy": Case(Kind.OVERWRITE_IN_FLIGHT, STILL_READING,
        "A copy to another CTA has read its source when it completes, and only the destination's mbarrier tells: that CTA waits for it and then "
        "arrives on a barrier here (a remote mbarrier.arrive, or barrier.cluster) before the source is written again."),
    "overwrite-read-by-wgmma": Case(Kind.OVERWRITE_IN_FLIGHT, STILL_READING,
        "Wait with wgmma.wait_group until the group that reads it is done, and only then arrive on the barrier that releases the buffer."),
    "overwrite-read-by-bulk": Case(Kind.OVERWRITE_IN_FLIGHT, STILL_READING,
        "The thread that issued the store must run cp.async.bulk.wait_group.read (and tell the others by a barrier) before the buffer is written again."),
    "overwrite-read-by-plain": Case(Kind.OVERWRITE_IN_FLIGHT, STILL_READING,
        "The readers must arrive on the barrier that releases the buffer (after their last read), and the writer must wait for it.", (("spoke", SPOKE),)),
    "overwrite-written": Case(Kind.OVERWRITE_IN_FLIGHT, "{here} overwrites {where} while {there} may still be writing it: two writes with no order between them. ",
        "Wait for the first one (and release the buffer) before the second starts."),
    "race-lanes": Case(Kind.RACE, LANES, "lanes of a warp need not run in step (independent thread scheduling). Put a __syncwarp() there."),
    "race-threads": Case(Kind.RACE, THREADS, "put a __syncthreads(), a named barrier or an mbarrier arrive and wait there.",
                         (("spoke", SPOKE), ("reduction", REDUCTION), ("relaxed", RELAXED))),
    "global-read-before-bulk": Case(Kind.READ_BEFORE_ARRIVAL, "{here} reads {where}, which {there} may still be writing: ",
        "the thread that issued the store runs cp.async.bulk.wait_group 0 (not .read), and then a barrier or a fence and a flag tell the others."),
    "global-overwrite": Case(Kind.OVERWRITE_IN_FLIGHT, "{here} writes {where}, which {there} still {other_verb}s with no order between them: ",
        "wait for the first (cp.async.bulk.wait_group 0, then a barrier) before the second starts."),
    "global-overwrite-copy": Case(Kind.OVERWRITE_IN_FLIGHT, STILL_READING,
        "A load has read global memory when the phase of its mbarrier (at shared address {barrier}) is complete, not when it is issued: before the flag is "
        "raised, or the barrier arrived on, for which this write waits, somebody must wait on that mbarrier for this phase, and tell."),
    "global-overwrite-cp.async": Case(Kind.OVERWRITE_IN_FLIGHT, STILL_READING,
        "The copy's thread must run cp.async.wait_group deep enough to include it, and only then raise the flag, or arrive on the barrier, for which this write waits."),
    "global-race": Case(Kind.RACE, "{here} {verb} {where}, which {there} {other_verb} in another thread, with nothing that orders the two: ",
        "inside a block use __syncthreads(); between blocks __threadfence() and an atomic or volatile flag that the other side reads first; "
        "or split the kernel.", (("spoke", SPOKE), ("reduction", REDUCTION), ("narrow", NARROW))),
    "global-race-lanes": Case(Kind.RACE, LANES, "lanes of a warp need not run in step (independent thread scheduling). Put a __syncwarp() there.",
                              (("reduction", REDUCTION),)),
    "letter-early": Case(Kind.RACE, "{here} reads {where}, which {there} wrote" + NO_RACE + "nothing waits for this value: it may be the one before, or the one after. ",
                         LETTER, severity="warning"),
    "letter-lost": Case(Kind.RACE, "{here} overwrites {where}, which {there} read" + NO_RACE + "the reader may get this value in place of its own. ",
                        LETTER, severity="warning"),
    "update-lost": Case(
        Kind.RACE, "{here} stores to {where}, and {there} does in another thread, with nothing that orders the two; what is stored at {update} follows from what "
                   "{looked} read there before. It is no atomic: when both read the same value, or one stores between the other's two steps, one store is lost. ",
        "Use an atomic (atomicAdd, atomicExch, atomicCAS) or a lock, or wait until the other's store is there (or taken) before this one.", severity="warning"),
    "global-proxy-fence": Case(
        Kind.MISSING_PROXY_FENCE, "{here} reads {where} through the async proxy, but {there} wrote it in this kernel through the generic proxy and no "
        "fence.proxy.async lies between them. ", "After the writes (or after the barrier that follows them) run fence.proxy.async, then start the copy.",
        (("several", ONE_FENCE),)),
    "shared-proxy-fence": Case(
        Kind.MISSING_PROXY_FENCE, "{here} {verb} {where} through the async proxy, but {there} wrote it through the generic proxy and no fence.proxy.async lies "
        "between them. A barrier alone does not order the two proxies: ",
        "each writing thread runs fence.proxy.async.shared::cta after its writes and before the barrier.", (("several", ONE_FENCE),)),
    "overwrite-unfenced": Case(
        Kind.UNFENCED_OVERWRITE, "{here} overwrites {where}, which {there} has read through the generic proxy, and no fence.proxy.async "
                                 "lies between them: the threads are in order, the proxies are not. The PTX ISA asks for the fence: "
                                 "without it, 3.4 million of 35 billion words that an H200 read in one ring came from the tile after. ",
        "Each thread that reads runs fence.proxy.async.shared::cta after its last read and before it hands the buffer back (or the thread that issues the "
        "copy runs it after its wait).", severity="warning"),
    "flag-unfenced": Case(
        Kind.UNFENCED_FLAG, "{here} sees a flag of another block, and {there} reads {where}, written before the flag was raised, with no fence between the "
                            "two: it may be older than the flag. ",
        "Run __threadfence() behind the loop that polls, in its thread (or in each that reads, after the barrier), or poll with ld.acquire.gpu.", severity="warning"),
    "stale-constant": Case(Kind.RACE, "{here} reads {where} through the read-only cache, but {there} writes it in the same kernel: the cache may hold the old value. ",
        "Drop const __restrict__ or __ldg() there."),
    "lanes-collide": Case(Kind.RACE, "{here} stores different values of several lanes of a warp to {where}: one of them is kept, and which one is not defined. ",
        "Let one lane store (if (lane == 0)), give each lane a place of its own, or use an atomic.", severity="warning"),
    "narrow-atomics": Case(
        Kind.RACE, "{here} updates {where}, which {there} updates in another block, and not both are of device scope: an atomic of CTA scope is atomic for its own block "
        "alone, and an update may be lost. ", "Use atomicAdd() and the like, not atomicAdd_block() (.gpu in place of .cta), wherever several blocks share the word."),
    "warps-collide": Case(Kind.RACE, "{here} stores different values of several warps to {where}, with no order between them: ",
        "let one thread of the block store (if (threadIdx.x == 0)), give each warp a place of its own, or use an atomic."),
    "scope": Case(
        Kind.RACE, "{here} reads {where}, which {there} wrote in another CTA of the cluster. What orders them is an mbarrier arrival or wait of CTA scope, "
        "the default, which promises nothing between CTAs: ", "write mbarrier.arrive.release.cluster on one side and "
        "mbarrier.try_wait.parity.acquire.cluster on the other (of CTA scope in this kernel: {narrow}).", severity="warning"),
    "map-not-released": Case(
        Kind.MISSING_PROXY_FENCE, MAP + " and nobody published: the copy engine reads maps through a proxy of its own. ",
        "After the change its writer runs fence.proxy.tensormap::generic.release.gpu (or edits a copy in shared memory and publishes it with "
        "tensormap.cp_fenceproxy); then the thread that issues the copy runs fence.proxy.tensormap::generic.acquire.gpu [map], 128."),
    "map-not-acquired": Case(
        Kind.MISSING_PROXY_FENCE, MAP + ", without fence.proxy.tensormap::generic.acquire.gpu [map], 128 between the change and the copy: the copy engine may "
        "still hold the old map. ", "The thread that issues the copy runs that fence on the map after it has learned of the change, and before the copy."),
    "never-written": Case(
        Kind.UNINITIALISED_READ, "{here} reads {where}, and in the whole launch it never read a byte that anyone had written: shared memory holds leftovers of "
        "earlier kernels, not zeros. ", "Check the address (which buffer, which stage, which offset), or write before reading."),
    "flag-not-begun": Case(
        Kind.UNINITIALISED_READ, "{here} looks at a flag, {where}, and nothing orders the store that gives it its value before, {there} in another thread: it "
                                 "may find leftovers there. ",
        "Put a __syncthreads() (or another barrier) between that store and whoever polls; a flag that is raised by an ordinary store needs a volatile or releasing one."),
}
"""Accesses to memory that nothing orders."""

BARRIERS = {
    "barrier-overwritten": Case(
        Kind.BARRIER_MISUSE, "{here} writes {where}, which belongs to the mbarrier initialised at {there_place}: its phase and counts are lost. ",
        "Give barriers memory of their own (check sizes and offsets of the buffers beside it), or end the barrier's life with mbarrier.inval first."),
    "no-barrier": Case(
        Kind.BARRIER_MISUSE, "{here}: {why} at {where} (initialised here: {known}). ", "Run mbarrier.init in one thread, then __syncthreads(), before the first use."),
    "past-the-phase": Case(
        Kind.BARRIER_MISUSE, "{here} arrives {together} times at once, but {pending} of {expected} arrivals are pending in this phase: an H200 fails the launch. ",
        "The lanes of a warp arrive together, so either one elected thread arrives, or mbarrier.init counts every lane."),
    "completes": Case(
        Kind.BARRIER_MISUSE, "{here} says noComplete, but leaves none of the {pending} pending arrivals: it completes the phase, which is undefined. ",
        "Use mbarrier.arrive without .noComplete."),
    "unannounced": Case(
        Kind.BARRIER_MISUSE, "{nbytes} bytes that {here} brings were never announced to its mbarrier (at {where}), so the phase may end before they have "
        "arrived, or never: ", "the expect_tx of a phase must add up to the bytes of all its copies, parts out of bounds included."),
    "init-again": Case(Kind.BARRIER_MISUSE, "{here} initialises the mbarrier at {where}, but {there} has initialised it already. ", INIT_ONCE),
    "init-in-loop": Case(
        Kind.BARRIER_MISUSE, "{here} initialises the mbarrier at {where} again: the same thread has run it before (in a loop, perhaps). ",
        "Initialise each barrier once, before the loop, and go on counting its phases; to start it anew, run mbarrier.inval first, when nobody uses it any more."),
    "wait-unread": Case(
        Kind.BARRIER_MISUSE, "{here} asks whether a phase of the mbarrier at {where} is complete, and the program never looks at the answer, which may be no. ",
        "Ask again until the answer is yes: while (!mbarrier_try_wait_parity(barrier, parity)) {{}}."),
    "answer-passed-over": Case(
        Kind.BARRIER_MISUSE, "{here} asks whether a phase of the mbarrier at shared address {barrier} is complete, and where the answer is no the thread goes on "
                             "nevertheless, to {there}. ",
        "Ask again until the answer is yes, or wait on that mbarrier, before whatever the phase stands for is touched."),
    "inval-in-use": Case(
        Kind.BARRIER_MISUSE, "{here} ends the mbarrier at {where}, while {there} may still use it: nothing makes that come before. ",
        "Let all who arrive, wait or copy be done first (a __syncthreads(), or arrivals that this thread waits for); only then is the word plain memory."),
    "init-by-several": Case(
        Kind.BARRIER_MISUSE, "{here} initialises the mbarrier at {where}, but more than one thread runs it. ", INIT_ONCE),
    "init-too-few": Case(
        Kind.BARRIER_MISUSE, "{here} arrives in phase {phase} of the mbarrier at {where}, and nothing makes it come after the end of phase {last}: it was "
                             "initialised for {expected} ({there}) and receives {received} a pass, so phases end before all have arrived. ",
        "Initialise it for {received} arrivals, or let only {expected} of them arrive.",
        (("dropped", " It was initialised for {count}, of which {dropped} have dropped out (mbarrier.arrive_drop): who has dropped out arrives no more."),
         ("together", " The lanes of a warp arrive together: here {together} times, where fewer are pending, and an H200 fails the launch."),
         ("asynchronous", " Every lane that runs cp.async.mbarrier.arrive.noinc is one arrival of the count; without .noinc it is none."),)),
    "arrives-again": Case(
        Kind.BARRIER_MISUSE, "{here} arrives in phase {phase} of the mbarrier at {where}, and nothing makes it come after the end of phase {last}: it may count there. ",
        "Before it arrives for the next phase, a thread waits for the last one, or for something that comes after it."),
    "bad-count": Case(Kind.BARRIER_MISUSE, "{here} asks for {count} arrivals a phase: the count is 1 to 1048575. ", "Give the number of arrivals that end a phase."),
    "init-unseen": Case(
        Kind.BARRIER_MISUSE, "{here} uses an mbarrier that {there} initialised in another thread, with nothing between them that makes the initialisation visible: ",
        "put a __syncthreads() after the init (in a cluster: fence.mbarrier_init and a cluster barrier), before any other thread touches the barrier."),
    "phase-overrun": Case(
        Kind.PHASE_OVERRUN, "{here} waits for a phase of the mbarrier at {where}, but the next phase, which {there} ends, does not wait for this waiter: both "
        "phases may be over before it looks, the parity is then the old one again, and it waits for a phase that is past. ",
        "Something in each phase (an arrival, or the copy whose bytes it counts) must come after every wait for the phase before: let the waiters arrive "
        "on an 'empty' barrier, and wait for that one before the next phase starts."),
    "lanes-overrun": Case(
        Kind.PHASE_OVERRUN, "{here} waits in several lanes of a warp for a phase of the mbarrier at {where}, but the next phase, "
                            "which {there} ends, comes after the wait of some of them only: both phases may be over before "
                            "the others look, the parity is then the old one again, and they wait for a phase that is past. ",
        "A lane that arrives (or issues a copy) speaks for itself alone: put a __syncwarp() between the wait and what that lane does, or let all lanes arrive."),
    "thread-counts": Case(
        Kind.BARRIER_MISUSE, "{here} meets at barrier {barrier} with a count of {count}, but {there}, waiting there, said {before}. ",
        "All threads that meet at a named barrier name the same count: those that wait (bar.sync) and those that only arrive (bar.arrive) together."),
    "barrier-shared": Case(
        Kind.BARRIER_MISUSE, "{here} (warp {warp}) arrives at barrier {barrier}, where warp {other_warp} met others by {there}, "
                             "and nothing makes the one come after the other: it counts whoever comes. ",
        "Give each group of warps that meets a barrier of its own (bar.sync 1, bar.sync 2 …), or let one group come after the other."),
    "cluster-again": Case(
        Kind.BARRIER_MISUSE, "{here} arrives at the cluster barrier again, before this thread has waited for its last arrival: what a second one does is undefined. ",
        "Every barrier.cluster.arrive has its barrier.cluster.wait, in every thread, before the next arrive."),
    "cluster-unarrived": Case(
        Kind.BARRIER_MISUSE, "{here} waits at the cluster barrier, where this thread has not arrived since its last wait. ",
        "Every thread runs barrier.cluster.arrive before it."),
    "odd-count": Case(Kind.BARRIER_MISUSE, "{here} names {count} threads: ", "whole warps arrive, so the count is a multiple of 32."),
    "released-by-exit": Case(
        Kind.BARRIER_MISUSE, "{here} waits for all threads of the block, but {missing} of them have ended without coming here. The hardware lets the others "
        "go on: a barrier waits for threads that have not exited. If they had work behind it, that work is missing: ",
        "keep every thread until the last barrier and guard only its work, or meet at a named barrier (bar.sync id, count) with the threads "
        "that do come.", severity="warning"),
    "arrival-not-taken": Case(
        Kind.BARRIER_MISUSE, "{here} arrives at barrier {barrier}, and the block ends with {arrived} of {needed} arrivals there: nobody takes them, and the "
        "hardware's barrier is left with a pending count. ", "Give every bar.arrive a bar.sync with the same id and count that takes it: leave out the arrival "
        "of the last round, or let those who wait run bar.sync {barrier}, {needed} once more before they return.", severity="warning"),
}
"""Barriers that are used in a way that their rules exclude."""

LIFETIMES = {
    "exit-under-copy": Case(Kind.EXIT_IN_FLIGHT, "the CTA ends while {here} still writes its shared memory: ",
                            "wait on the copy's mbarrier, at {where}, for phase {phase} (parity {parity}), which its bytes complete, before the last thread "
                            "returns; {seen}."),
    "exit-under-store": Case(Kind.EXIT_IN_FLIGHT, "the CTA ends while {here} still reads its shared memory: ",
                             "run cp.async.bulk.wait_group.read 0 in the issuing thread before the last thread returns."),
    "exit-under-copy-out": Case(Kind.EXIT_IN_FLIGHT, "the CTA ends while {here} still reads its shared memory for another CTA: ",
                                "let the destination wait for the copy and then meet it in a cluster barrier before the last thread returns."),
    "exit-under-wgmma": Case(Kind.EXIT_IN_FLIGHT, "the CTA ends while {here} may still read its shared memory: ",
                             "run wgmma.commit_group and wgmma.wait_group 0 before the last thread returns."),
    "exited-peer": Case(
        Kind.CLUSTER_LIFETIME, "{here} reaches into the CTA of rank {rank}, which may have ended by then: its shared memory would be gone. ",
        "End every CTA of the cluster with a cluster barrier (barrier.cluster.arrive, then wait) after the last remote access."),
    "unbegun-peer": Case(
        Kind.CLUSTER_LIFETIME, "{here} reaches into the CTA of rank {rank}, which may not have begun: its shared memory and its barriers are not there yet. ",
        "Let all threads of the cluster pass a cluster barrier (barrier.cluster.arrive, then wait) after the barriers are initialised and before the "
        "first remote access or multicast."),
}
"""CTAs that end, or have not begun, while something still needs them."""

REGISTERS = {
    "accumulator-used": Case(
        Kind.REGISTER_IN_FLIGHT, "{here} uses an accumulator while {there} is still in flight and may not have written it: ",
        "run wgmma.wait_group first, with a count that includes its group."),
    "no-fence": Case(
        Kind.REGISTER_IN_FLIGHT, "{here} takes {what} that {there} wrote, with no wgmma.fence between them: the tensor core may read the register before that "
        "write. ", "Run wgmma.fence.sync.aligned after the last write and before the first wgmma that uses it. If the source has one, the compiler has moved "
        'the write past it: pin each register before the fence with asm volatile("" : "+f"(d[i]) :: "memory").'),
    "no-first-fence": Case(
        Kind.REGISTER_IN_FLIGHT, "{here} is the first of its warp, and no wgmma.fence came before it: the tensor core may read the accumulator before the zeros "
        "(or whatever it was set to) are there. ", "Every warp runs wgmma.fence.sync.aligned once its registers are set and before its first wgmma, also where "
        "they hold constants only."),
    "result-overwritten": Case(Kind.REGISTER_IN_FLIGHT, "{here} writes a register of the accumulator of {there}, which is still in flight: either may win, and later "
                               "products may add to the wrong one. ", "Run wgmma.wait_group first, with a count that includes its group."),
    "fragment-overwritten": Case(Kind.REGISTER_IN_FLIGHT, "{here} writes a register that holds A of {there}, which is still in flight and may not have read it yet: ",
        "run wgmma.wait_group before the fragment changes, or use a second set of registers. If the source has one, the compiler has put both sets into the same "
        'registers: keep the first alive behind the wait with asm volatile("" : "+r"(a[i]) :: "memory").'),
    "metadata-overwritten": Case(Kind.REGISTER_IN_FLIGHT, "{here} writes the register with the metadata of {there}, which is in flight and may not have read it yet: ",
                                 "run wgmma.wait_group first, or keep the metadata of even and of odd k-blocks in two registers."),
    "unwritten-D": Case(
        Kind.UNINITIALISED_READ, "{here} adds its product to accumulator registers (D) that nothing in the kernel has set before: registers hold leftovers of "
        "earlier work, not zeros. ", "Set all of them first: zero them (float d[...] = {{}}) before wgmma.fence, or give the first product scale-d = 0, which "
        "replaces instead of adding."),
    "unwritten-C": Case(
        Kind.UNINITIALISED_READ, "{here} adds its product to accumulator registers (C) that nothing in the kernel has set before: registers hold leftovers of "
        "earlier work, not zeros. ", "Set all of them first: zero them (float c[...] = {{}}) before the first product."),
    "layouts-differ": Case(
        Kind.LAYOUT_MISMATCH, "{here} reads {operand} at {where} as {reader}, but {there} wrote it as {writer}: the rows it sees are made of pieces of other "
        "columns. ", "Use one swizzle in both places (tensor map: CU_TENSOR_MAP_SWIZZLE_128B, 64B, 32B; descriptor bits 63:62: 1, 2, 3) and rows as wide as its span."),
    "rows-repeated": Case(
        Kind.LAYOUT_MISMATCH, "{here} reads bytes of {operand} (from {where} on) twice: {fields}. ", "{normal}.", severity="warning"),
    "rows-skipped": Case(
        Kind.LAYOUT_MISMATCH, "{here} skips rows of {operand} (from {where} on), which {there} wrote and no product reads: {fields}. ", "{normal}.", severity="warning"),
    "descriptors-differ": Case(
        Kind.ILLEGAL_DESCRIPTOR, "{here}: descriptor {value:#018x} of {operand} is not that of the other threads: all 128 threads of a warpgroup give the same "
        "descriptor (it names the whole tile). ", "Compute it from values that are equal in the warpgroup, not from the thread, lane or warp."),
    "descriptor-bits": Case(
        Kind.ILLEGAL_DESCRIPTOR, "{here}: descriptor {value:#018x} of {operand} sets bits {bits}, which have no meaning: ",
        "start, leading and stride offset are 14 bits each, in units of 16 bytes ((x & 0x3FFFF) >> 4), at bits 0, 16 and 32; the swizzle is at 62."),
    "setmaxnreg-ignored": Case(
        Kind.REGISTER_BUDGET, "{here} does nothing: ptxas ignores setmaxnreg in this kernel (note C7508), because it does not know the registers at entry. ",
        "Give the kernel __launch_bounds__(threads, 1)."),
    "setmaxnreg-wrong-way": Case(
        Kind.REGISTER_BUDGET, "{here} asks for {count} registers while the warp has {held}: setmaxnreg.{direction} needs {want} as many as it names before it "
        "runs, otherwise it is undefined. ", "Use setmaxnreg.{opposite}, or another count (ptxas gave this kernel {entry} at entry)."),
    "setmaxnreg-too-soon": Case(
        Kind.REGISTER_BUDGET, "{here} runs again in one warp before the other warps of its warpgroup are known to have run the last one: ",
        "put a bar.sync of the warpgroup between two setmaxnreg."),
    "setmaxnreg-apart": Case(
        Kind.REGISTER_BUDGET, "{here} is not the one that other warps of its warpgroup ran: ", "all four warps run the same instruction, so move it out of the branch."),
    "setmaxnreg-never": Case(
        Kind.REGISTER_BUDGET, "{here} can never be satisfied: {state}. ", "The counts of all warpgroups together may be at most {entry} (at entry) times {groups} "
        "warpgroups = {total}: lower some of them, for example 40, 232, 232."),
    "setmaxnreg-nobody-gave": Case(
        Kind.REGISTER_BUDGET, "{here} can never be satisfied: {state}. ", "No warpgroup has given any back: one that needs few runs setmaxnreg.dec first, with "
        "all four of its warps."),
    "setmaxnreg-some-gave": Case(
        Kind.REGISTER_BUDGET, "{here} can never be satisfied: {state}. ", "Of warpgroup {group} only some warps have given registers back: all four run "
        "setmaxnreg.dec, so move it out of the branch."),
}
"""Registers, descriptors and tiles of wgmma, and the register pool."""

MISSING = {
    "lanes-stay-away": "{count} lanes of this warp do not come here", "warps-stay-away": "warp {warps} of the block did not issue these wgmma",
    "warps-did-not-run": "warp {warps} of the block did not run it", "uneven-commits": "the four warps of warpgroup {group} committed {counts} groups",
    "mask-passed-by": "the mask {mask:#x} names {count} lanes that have passed it by", "mask-not-here": "the mask {mask:#x} names {count} lanes that do not come here",
    "mask-without-caller": "lane {caller} runs it with the mask {mask:#x}, which does not name it", "torn-warp": "parts of one warp arrive at different places",
    "part-of-a-warp": "only {count} of {living} lanes of the warp come here",
}
"""Who is missing at a collective instruction."""

COLLECTIVES = {case: Case(Kind.DIVERGENT_COLLECTIVE, "{here} is collective: {rule}, but " + missing + "{elsewhere}. ",
                          "Move it out of the branch (or narrow the mask to the threads that do come), so that the same instruction is reached by all.")
               for case, missing in MISSING.items()}
COLLECTIVES["lane-outside"] = Case(
    Kind.DIVERGENT_COLLECTIVE, "{here} gives lane {caller} the register of lane {asked}, which the mask {mask:#x} does not name: the value is undefined. ",
    "Every lane whose value is read runs the same shfl.sync, and the mask names it; or read a lane of the mask.", severity="warning")
RULES = {"warpgroup": "all 128 threads of the warpgroup run it together", "mask": "every thread its mask names runs it",
         "warp": "all threads of the warp run it together"}

STUCK = (("absent", "\n{absent} of {ctas} blocks have not started: they need the place of one that ends, so no block may wait for all blocks of this grid. "
          "Launch fewer, or give each more work"), ("beside", "\nBeside it: {beside}"), ("hints", "\nWhat would release them:{hints}"))
ENDS = {
    "deadlock": Case(Kind.DEADLOCK, "no thread can run and no operation is in flight. Waiting:{waiting}", "", STUCK, seen=False),
    "endless-loops": Case(Kind.DEADLOCK, "only loops that wait still run, and no operation is in flight: {why}. Waiting:{waiting}", "", STUCK, seen=False),
    **{f"fault-{kind}": Case(kind, "{here}, block {block}, thread {thread}: {detail}", seen=False) for kind in Kind},
    **{f"refused-{kind}": Case(kind, "{detail}", seen=False) for kind in Kind},
}
"""What ends a launch: deadlocks, and faults in the words of who raised them."""

ABROAD = " What is not of system scope tells other devices nothing (here: {narrow})."
LOADING = (" If the write is the one that has to wait: the load at {loads} has read its source once its mbarrier's phase (cp.async: its group) is complete, not when "
           "it is issued; wait for that, and only then raise the flag.")
WAITLESS = " {kernel} has no griddepcontrol.wait."
THROUGH = " {through} is the grid in front of {kernel}, and never runs griddepcontrol.wait itself, so waiting for it is not waiting for {other}."

GRIDS = {
    "read-before-grid-wait": Case(
        Kind.READ_BEFORE_ARRIVAL, "{here} of {kernel} reads {where}, which {there} of {other} may still be writing: {kernel} is a dependent launch, and may start "
        "before {other} has ended. ", "Run griddepcontrol.wait (cudaGridDependencySynchronize()) before this read, in its thread or in one that it meets at a "
        "barrier afterwards.", (("absent", WAITLESS), ("through", THROUGH))),
    "race-before-grid-wait": Case(
        Kind.RACE, "{here} of {kernel} {verb} {where}, which {there} of {other} {other_verb}: {kernel} is a dependent launch, and may start before {other} has "
        "ended. ", "Run griddepcontrol.wait (cudaGridDependencySynchronize()) before this access, in its thread or in one that it meets at a barrier afterwards.",
        (("absent", WAITLESS), ("through", THROUGH))),
    "race-of-grids": Case(
        Kind.RACE, "{here} of {kernel} {verb} {where}, which {there} of {other} {other_verb} on another stream, and nothing orders the two grids: ",
        "record an event behind {other} (event = stream.record()) and let the other stream wait for it (stream.wait_event(event)) before {kernel} is launched; "
        "or launch both on one stream. Grids that run side by side on purpose need a flag: __threadfence() and an atomic or volatile store, which the other side "
        "reads first.", (("loads", LOADING), ("reduction", REDUCTION), ("narrow", NARROW))),
    "race-of-devices": Case(
        Kind.RACE, "{here} of {kernel} on device {device} {verb} {where}, which {there} of {other} on device {other_device} {other_verb}, and nothing orders the two: ",
        "let the stream of one device wait for an event of the other, or raise a flag of system scope at both ends: st.release.sys (or __threadfence_system() and "
        "a volatile store), and ld.acquire.sys (or a volatile load and __threadfence_system()).", (("loads", LOADING), ("narrow", ABROAD))),
    "proxy-fence-of-grids": Case(
        Kind.MISSING_PROXY_FENCE, "{here} of {kernel} reads {where} through the async proxy, but {there} of {other} wrote it through the generic proxy, and no "
        "fence.proxy.async lies between them. ", "Once the flag has been seen, and before the copy starts, run fence.proxy.async; or let the writer run it after its "
        "writes, before it raises the flag."),
    "host-read-too-early": Case(
        Kind.READ_BEFORE_ARRIVAL, "the host reads {array}, which {here} of {kernel} writes on a stream that nobody has waited for: ",
        "call stream.synchronize(), event.synchronize() or hl.synchronize() first, or copy on that stream (with stream: array.get()).", seen=False),
    "host-write-too-early": Case(
        Kind.RACE, "the host writes {array}, which {here} of {kernel} {verb} on a stream that nobody has waited for: ",
        "call stream.synchronize(), event.synchronize() or hl.synchronize() before the array is written.", seen=False),
}
"""Accesses of two launches, or of a launch and the host."""

CASES: dict[str, Case] = {**ORDER, **BARRIERS, **MISUSED, **LIFETIMES, **REGISTERS, **COLLECTIVES, **ENDS, **GRIDS}
"""Every situation by name."""
