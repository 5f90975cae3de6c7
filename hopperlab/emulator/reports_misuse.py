"""Words for hazards of barriers, warpgroups and registers: what is wrong, at both lines, and what to write instead."""
from __future__ import annotations

from .reports import _add as add
from .reports import name, place


def _both(M, site: int, other: int | None) -> tuple[str, str]:
    now = M.body[site]
    then = M.body[other] if other is not None else None
    return f"{name(now)} at {place(now)}", f"{name(then)} at {place(then)}" if then is not None else "an instruction"


def _barrier(M, barrier: int) -> str:
    return f"the mbarrier at shared address {M.barriers.offsets[barrier % M.barriers.capacity]:#x}"


# --- mbarriers --------------------------------------------------------------------------------------------------------
def init_twice(M, site: int, other: int, gid: int, flat: int) -> None:
    """mbarrier.init of a live barrier."""
    what, before = _both(M, site, other)
    again = "more than one thread runs it" if site == other else f"{before} has initialised it already"
    add(M, "barrier-misuse", f"{what} initialises the mbarrier at shared address {flat % M.stride:#x}, but {again}. Let one thread "
        "initialise each barrier, once; to start it anew, run mbarrier.inval first, when nobody uses it any more.", site, other, gid)


def bad_count(M, site: int, gid: int, count: int) -> None:
    """mbarrier.init with an impossible count."""
    what, _ = _both(M, site, None)
    add(M, "barrier-misuse", f"{what} asks for {count} arrivals a phase: the count is 1 to 1048575. Give the number of "
        "arrivals that end a phase.", site, None, gid)


def init_unseen(M, site: int, other: int, gid: int) -> None:
    """A barrier is used by a thread that has not synchronised with the one that initialised it."""
    what, before = _both(M, site, other)
    add(M, "barrier-misuse", f"{what} uses an mbarrier that {before} initialised in another thread, with nothing between them that "
        "makes the initialisation visible: put a __syncthreads() after the init (in a cluster: fence.mbarrier_init and a cluster "
        "barrier), before any other thread touches the barrier.", site, other, gid)


def phase_overrun(M, site: int, other: int | None, gid: int, barrier: int) -> None:
    """A phase may complete before a waiter of the phase before it has looked. Silent when a copy of that phase was already
    reported for overwriting what is still read: one missing release, one report."""
    last = M.landing.last_copy.get(barrier)
    if last is not None and any(key[:2] == ("overwrite-in-flight", place(M.body[last[3]])) for key in M.reported):
        return
    what, ender = _both(M, site, other)
    add(M, "phase-overrun", f"{what} waits for a phase of {_barrier(M, barrier)}, but the next phase, which {ender} ends, does not wait "
        "for this waiter: both phases may be over before it looks, the parity is then the old one again, and it waits for "
        "a phase that is past. Something in each phase (an arrival, or the copy whose bytes it counts) must come after every "
        "wait for the phase before: let the waiters arrive on an 'empty' barrier, and wait for that one before the next phase starts.",
        site, other, gid)


# --- named barriers ---------------------------------------------------------------------------------------------------
def thread_counts(M, site: int, other: int, gid: int, key: int, now: int, before: int) -> None:
    """Threads name different counts for one generation of a named barrier."""
    what, first = _both(M, site, other)
    whole = "the whole block"
    add(M, "barrier-misuse", f"{what} meets at barrier {key % 16} with a count of {now or whole}, but {first}, waiting "
        f"there, said {before or whole}. All threads that meet at a named barrier name the same count: those that wait "
        "(bar.sync) and those that only arrive (bar.arrive) together.", site, other, gid)


def odd_count(M, site: int, gid: int, count: int) -> None:
    """A named barrier's thread count that is no multiple of 32."""
    what, _ = _both(M, site, None)
    add(M, "barrier-misuse", f"{what} names {count} threads: whole warps arrive, so the count is a multiple of 32.", site, None, gid)


def released_by_exit(M, site: int, gid: int, missing: int) -> None:
    """bar.sync of the whole CTA completed because threads had ended: legal since sm_70, which waits for threads that have not
    exited (CUDA: Volta tuning guide), and a warning because the program reads as if they came."""
    what, _ = _both(M, site, None)
    add(M, "barrier-misuse", f"{what} waits for all threads of the block, but {missing} of them have ended without coming here. The hardware "
        "lets the others go on: a barrier waits for threads that have not exited. If they had work behind it, that work is missing: keep every "
        "thread until the last barrier and guard only its work, or meet at a named barrier (bar.sync id, count) with the threads "
        "that do come.", site, None, gid, "warning")


def arrival_not_taken(M, site: int, gid: int, barrier: int, arrived: int, needed: int) -> None:
    """bar.arrive on a named barrier that does not complete before the block ends."""
    what, _ = _both(M, site, None)
    add(M, "barrier-misuse", f"{what} arrives at barrier {barrier}, and the block ends with {arrived} of {needed} arrivals there: nobody takes them, and the "
        "hardware's barrier is left with a pending count. Give every bar.arrive a bar.sync with the same id and count that takes it: leave out the arrival of the "
        f"last round, or let those who wait run bar.sync {barrier}, {needed} once more before they return.", site, None, gid, "warning")


# --- collectives ------------------------------------------------------------------------------------------------------
def divergent(M, site: int, other: int | None, gid: int, missing: str) -> None:
    """A collective instruction without all the threads it needs."""
    what, elsewhere = _both(M, site, other)
    where = f"; they are at {elsewhere.split(' at ', 1)[-1]} ({elsewhere.split(' at ', 1)[0]})" if other is not None else ""
    instr = M.body[site]
    rule = ("all 128 threads of the warpgroup run it together" if instr.op in ("wgmma", "setmaxnreg")
            else "every thread its mask names runs it" if instr.op in ("shfl", "vote", "match", "redux", "elect") or "warp" in instr.mods
            else "all threads of the warp run it together")
    add(M, "divergent-collective", f"{what} is collective: {rule}, but {missing}{where}. Move it out of the branch (or narrow the mask "
        "to the threads that do come), so that the same instruction is reached by all.", site, other, gid)


# --- wgmma ------------------------------------------------------------------------------------------------------------
def missing_wgmma_fence(M, site: int, other: int, gid: int, what: str) -> None:
    """A register of a wgmma was computed after the last wgmma.fence of its warp."""
    product, writer = _both(M, site, other)
    add(M, "register-in-flight", f"{product} takes {what} that {writer} wrote, with no wgmma.fence between them: "
        "the tensor core may read the register before that write. Run wgmma.fence.sync.aligned after the last write and before the "
        "first wgmma that uses it. If the source has one, the compiler has moved the write past it: pin each register "
        'before the fence with asm volatile("" : "+f"(d[i]) :: "memory").', site, other, gid)


def no_first_fence(M, site: int, gid: int) -> None:
    """A warp's first wgmma with no wgmma.fence before it: constants count as written when the kernel starts."""
    what, _ = _both(M, site, None)
    add(M, "register-in-flight", f"{what} is the first of its warp, and no wgmma.fence came before it: the tensor core may read the "
        "accumulator before the zeros (or whatever it was set to) are there. Every warp runs wgmma.fence.sync.aligned once its registers "
        "are set and before its first wgmma, also where they hold constants only.", site, None, gid)


def result_overwritten(M, site: int, other: int, gid: int) -> None:
    """A register of D is computed while its wgmma is in flight."""
    writer, product = _both(M, site, other)
    add(M, "register-in-flight", f"{writer} writes a register of the accumulator of {product}, which is still in flight: either may win, and "
        "later products may add to the wrong one. Run wgmma.wait_group first, with a count that includes its group.", site, other, gid)


def exit_under_wgmma(M, site: int, gid: int) -> None:
    """A CTA ends with wgmma operations under way."""
    what, _ = _both(M, site, None)
    add(M, "exit-in-flight", f"the CTA ends while {what} may still read its shared memory: run wgmma.commit_group and wgmma.wait_group 0 "
        "before the last thread returns.", site, None, gid)


def fragment_overwritten(M, site: int, other: int, gid: int) -> None:
    """Registers that hold A of a wgmma in flight are written."""
    writer, product = _both(M, site, other)
    add(M, "register-in-flight", f"{writer} writes a register that holds A of {product}, which is still in flight and may not have "
        "read it yet: run wgmma.wait_group before the fragment changes, or use a second set of registers.", site, other, gid)


def layouts_differ(M, site: int, other: int, gid: int, operand: str, reader: str, writer: str, flat: int) -> None:
    """A tile is read in another layout than the one TMA wrote."""
    what, copy = _both(M, site, other)
    add(M, "layout-mismatch", f"{what} reads {operand} at shared address {flat % M.stride:#x} as {reader}, but {copy} wrote it as "
        f"{writer}: the rows it sees are made of pieces of other columns. Use one swizzle in both places (tensor map: "
        "CU_TENSOR_MAP_SWIZZLE_128B, 64B, 32B; descriptor bits 63:62: 1, 2, 3) and rows as wide as its span.", site, other, gid)


def descriptor(M, site: int, gid: int, value: int, why: str) -> None:
    """A matrix descriptor that breaks a rule."""
    what, _ = _both(M, site, None)
    add(M, "illegal-descriptor", f"{what}: descriptor {value:#018x} {why}", site, None, gid)


# --- registers of a block ---------------------------------------------------------------------------------------------
def registers(M, site: int, gid: int, why: str, other: int | None = None) -> None:
    """setmaxnreg that is ignored, illegal or can never be satisfied."""
    what, _ = _both(M, site, other)
    add(M, "register-budget", f"{what} {why}", site, other, gid)


def never_written(M, site: int, gid: int, flat: int) -> None:
    """An instruction only ever read shared memory that nothing had written."""
    what, _ = _both(M, site, None)
    add(M, "uninitialised-read", f"{what} reads shared address {flat % M.stride:#x}, and in the whole launch it never read a byte that "
        "anyone had written: shared memory holds leftovers of earlier kernels, not zeros. Check the address (which buffer, which "
        "stage, which offset), or write before reading.", site, None, gid)


def unwritten_accumulator(M, site: int, gid: int, operand: str) -> None:
    """A product adds to registers that nothing has written."""
    what, _ = _both(M, site, None)
    first = ("zero them (float d[...] = {}) before wgmma.fence, or give the first product scale-d = 0, which replaces instead of adding" if operand == "D"
             else "zero them (float c[...] = {}) before the first product")
    add(M, "uninitialised-read", f"{what} adds its product to accumulator registers ({operand}) that nothing in the kernel has set before: registers hold leftovers "
        f"of earlier work, not zeros. Set all of them first: {first}.", site, None, gid)
