"""Words for hazards: from two instructions and an agent to a message that says what to write."""
from __future__ import annotations

from .ptx.ir import Site
from .session import Hazard

DEFAULT_FILE = "kernel.cu"


def short_file(path: str) -> str:
    """A path without the machine's part: what follows 'kernels/' or 'include/', or the file name."""
    for root in ("/hopperlab/kernels/include/", "/hopperlab/kernels/", "/include/"):
        if root in path:
            return path.rsplit(root, 1)[1]
    return path.rsplit("/", 1)[-1]


def user_site(instr):
    """The outermost frame of an instruction's position, with a short file name; None without line information."""
    site = instr.site
    if site is None or not site.line:
        return None
    outer = site.outermost
    return Site(short_file(outer.file), outer.line, outer.column, outer.function)


def place(instr) -> str:
    """file:line of an instruction: the kernel's own line first, then the wrapper it was inlined from."""
    site = instr.site
    if site is None or not site.line:
        return f"PTX line {instr.ptx_line}"
    outer = site.outermost
    text = f"{short_file(outer.file)}:{outer.line}"
    return text if outer is site else f"{text} (in {short_file(site.file)}:{site.line})"


def name(instr) -> str:
    """An instruction as a learner knows it: the opcode without its state spaces and completion mechanism."""
    drop = ("shared", "global", "mbarrier::", "bulk_group", "L1::", "L2::", "tile")
    return ".".join([instr.op, *(m for m in instr.mods if not m.startswith(drop))])


def _add(M, kind: str, message: str, index: int, other: int | None, gid: int, severity: str = "error") -> None:
    """Record a hazard (or a warning) once for each kind and pair of source positions."""
    instr = M.body[index]
    partner = M.body[other] if other is not None else None
    key = (kind, place(instr), instr.opcode, place(partner) if partner else None, partner.opcode if partner else None)
    if key in M.reported:
        return
    M.reported.add(key)
    block, thread = M.block_index(gid), gid % M.T
    text = f"{message} (first seen in block {block}, thread {thread})"
    hazard = Hazard(kind, text, user_site(instr), user_site(partner) if partner else None, block, thread, severity)
    (M.hazards if severity == "error" else M.session.warnings).append(hazard)


def _offset(M, flat: int) -> str:
    return f"shared address {flat % M.stride:#x}"


def agent_kind(M, column: int) -> str:
    """'plain', 'wgmma', 'bulk', 'cp.async' or 'copy' (a bulk or tensor copy that signals an mbarrier)."""
    clocks = M.clocks
    if column < clocks.wgmma0:
        return "plain"
    if column < clocks.bulk0:
        return "wgmma"
    if column < clocks.cp0 or clocks.written0 <= column < clocks.bar0:
        return "bulk"
    return "cp.async" if column < clocks.bar0 else "copy"


MISSING_WAIT = {
    "copy": "Nothing makes this wait for the copy: the thread (or one it has synchronised with since) must wait on the "
            "mbarrier {barrier} for the phase this copy completes, with that phase's parity, before it reads.",
    "cp.async": "The copy's thread must run cp.async.wait_group deep enough to include it, and then other threads need a "
                "__syncthreads() (or another barrier) before they read.",
}
RELEASE = {
    "copy": "A copy to another CTA has read its source when it completes, and only the destination's mbarrier tells: that CTA waits for it and then "
            "arrives on a barrier here (a remote mbarrier.arrive, or barrier.cluster) before the source is written again.",
    "wgmma": "Wait with wgmma.wait_group until the group that reads it is done, and only then arrive on the barrier that "
             "releases the buffer.",
    "bulk": "The thread that issued the store must run cp.async.bulk.wait_group.read (and tell the others by a barrier) "
            "before the buffer is written again.",
    "plain": "The readers must arrive on the barrier that releases the buffer (after their last read), and the writer must "
             "wait for it.",
}


def unordered(M, verb: str, site: int, other_verb: str, other: int, column: int, gid: int, flat: int) -> None:
    """Two accesses to the same bytes with no order between them. verb: 'read', 'write', 'async read', 'async write'."""
    agent = agent_kind(M, column)
    now, then = M.body[site], M.body[other]
    if then.op == "mbarrier":
        if not verb.endswith("read"):
            barrier_overwritten(M, site, other, gid, flat)
        return
    what = f"{name(now)} at {place(now)}"
    before = f"{name(then)} at {place(then)}"
    where = _offset(M, flat)
    if verb.endswith("read") and agent in ("copy", "cp.async"):
        barrier = ""
        if agent == "copy":
            barrier = f"at shared address {M.barriers.offsets[M.clocks.barrier_number(column)]:#x}"
        _add(M, "read-before-arrival", f"{what} reads {where}, which {before} may still be writing. "
             + MISSING_WAIT[agent].format(barrier=barrier), site, other, gid)
    elif other_verb == "read" and (agent in ("wgmma", "bulk", "copy") or verb == "async write"):
        _add(M, "overwrite-in-flight", f"{what} overwrites {where}, which {before} may still be reading. " + RELEASE[agent],
             site, other, gid)
    elif other_verb == "write" and agent in ("copy", "cp.async") or verb == "async write":
        _add(M, "overwrite-in-flight", f"{what} overwrites {where} while {before} may still be writing it: two writes with no "
             "order between them. Wait for the first one (and release the buffer) before the second starts.", site, other, gid)
    else:
        verbs = ("reads", "wrote") if verb.endswith("read") else ("writes", "read" if other_verb == "read" else "wrote")
        if column == (gid >> 5) % M.clocks.warps:
            _add(M, "race", f"{what} {verbs[0]} {where}, which {before} {verbs[1]} in another lane of the same warp, with nothing between them: "
                 "lanes of a warp need not run in step (independent thread scheduling). Put a __syncwarp() there.", site, other, gid)
            return
        _add(M, "race", f"{what} {verbs[0]} {where}, which {before} {verbs[1]} in another thread, with no barrier between "
             f"them: put a __syncthreads(), __syncwarp() or an mbarrier arrive and wait there.{_reduction(then)}{_relaxed(M)}", site, other, gid)


def _relaxed(M) -> str:
    """A sentence about arrivals and waits that order no memory, where the kernel has any."""
    relaxed = [i for i in M.body if "relaxed" in i.mods and (i.op == "mbarrier" or "cluster" in i.mods[:1])]
    if not relaxed:
        return ""
    lines = ", ".join(dict.fromkeys(place(i).split(" (in ")[0] for i in relaxed[:4]))
    return f" What is .relaxed orders no ordinary reads and writes (here: {lines}): drop it or write .release and .acquire."


def _narrow(M) -> str:
    """A sentence about fences and releases of CTA scope, where the kernel has any."""
    narrow = [i for i in M.body if "cta" in i.mods and (i.op in ("fence", "membar") or i.op in ("st", "atom", "red"))]
    lines = ", ".join(dict.fromkeys(place(i).split(" (in ")[0] for i in narrow[:4]))
    return f" What is of CTA scope tells other blocks nothing (here: {lines}): __threadfence(), or .release.gpu." if narrow else ""


def _reduction(then) -> str:
    """A sentence about atomics, where the earlier access is one."""
    if then.op not in ("atom", "red"):
        return ""
    return " An atomic orders nothing but its own word, and that it came before another atomic there is chance: a plain access needs the barrier or the fence as well."


def read_too_early(M, site: int, other: int, gid: int, flat: int) -> None:
    """`other` read bytes that nothing had written; `site` is the copy that writes them only now."""
    copy, reader = M.body[site], M.body[other]
    _add(M, "read-before-arrival", f"{name(reader)} at {place(reader)} reads {_offset(M, flat)} before {name(copy)} at "
         f"{place(copy)} has written it: nothing was there yet. The reader must wait for the copy first (on its mbarrier, with the "
         "parity of the phase the copy completes, or with cp.async.wait_group and a barrier).", other, site, gid)


def element(allocation, offset: int) -> str:
    """A place in global memory."""
    return f"byte {offset} of {allocation.name}"


def global_race(M, verb: str, site: int, other_verb: str, other: int, column: int, gid: int, allocation, offset: int) -> None:
    """Two accesses to the same bytes of global memory with no order between them."""
    now, then = M.body[site], M.body[other]
    agent = agent_kind(M, column)
    here = f"{name(now)} at {place(now)}"
    before = f"{name(then)} at {place(then)}"
    if agent == "bulk" and verb.endswith("read"):
        _add(M, "read-before-arrival", f"{here} reads {element(allocation, offset)}, which {before} may still be writing: the thread "
             "that issued the store runs cp.async.bulk.wait_group 0 (not .read), and then a barrier or a fence and a flag tell the others.",
             site, other, gid)
    elif agent == "bulk" or verb == "async write":
        _add(M, "overwrite-in-flight", f"{here} writes {element(allocation, offset)}, which {before} still {other_verb}s with no order "
             "between them: wait for the first (cp.async.bulk.wait_group 0, then a barrier) before the second starts.", site, other, gid)
    else:
        verbs = {"read": "reads", "async read": "reads", "write": "writes"}[verb], {"read": "read", "write": "wrote"}[other_verb]
        _add(M, "race", f"{here} {verbs[0]} {element(allocation, offset)}, which {before} {verbs[1]} in another thread, with nothing that "
             "orders the two: inside a block use __syncthreads(); between blocks __threadfence() and an atomic or volatile flag "
             f"that the other side reads first; or split the kernel.{_reduction(then)}{_narrow(M)}", site, other, gid)


def global_fence(M, site: int, other: int, gid: int, allocation, offset: int) -> None:
    """A generic write of this kernel is read by the copy engine without a proxy fence."""
    now, then = M.body[site], M.body[other]
    _add(M, "missing-proxy-fence", f"{name(now)} at {place(now)} reads {element(allocation, offset)} through the async proxy, but "
         f"{name(then)} at {place(then)} wrote it in this kernel through the generic proxy and no fence.proxy.async lies between them. "
         "After the writes (or after the barrier that follows them) run fence.proxy.async, then start the copy.", site, other, gid)


def missing_fence(M, site: int, other: int, gid: int, flat: int) -> None:
    """A generic write is ordered before an async-proxy access, but was never made visible to that proxy."""
    now, then = M.body[site], M.body[other]
    verb = "overwrites" if now.op == "cp" and "mbarrier::complete_tx::bytes" in now.mods else "reads"
    _add(M, "missing-proxy-fence",
         f"{name(now)} at {place(now)} {verb} {_offset(M, flat)} through the async proxy, but "
         f"{name(then)} at {place(then)} wrote it through the generic proxy and no fence.proxy.async lies "
         "between them. A barrier alone does not order the two proxies: each writing thread runs "
         "fence.proxy.async.shared::cta after its writes and before the barrier.", site, other, gid)


def barrier_overwritten(M, site: int, other: int, gid: int, flat: int) -> None:
    """Bytes of a live mbarrier are written by something that is no mbarrier instruction."""
    now, then = M.body[site], M.body[other]
    _add(M, "barrier-misuse",
         f"{name(now)} at {place(now)} writes {_offset(M, flat)}, which belongs to the mbarrier initialised at {place(then)}: its "
         "phase and counts are lost. Give barriers memory of their own (check sizes and offsets of the buffers beside it), or end "
         "the barrier's life with mbarrier.inval first.", site, other, gid)


def no_barrier(M, index: int, gid: int, offset: int) -> None:
    """An mbarrier operation on a word that is no live mbarrier."""
    from .errors import MemoryFault
    instr = M.body[index]
    known = ", ".join(f"{o:#x}" for o in M.barriers.offsets) or "none"
    message = (f"{name(instr)} at {place(instr)}: no mbarrier was initialised at shared address {offset:#x} "
               f"(initialised: {known}). Run mbarrier.init in one thread, then __syncthreads(), before the first use.")
    _add(M, "barrier-misuse", message, index, None, gid)
    raise MemoryFault(f"barrier-misuse: {message}", "barrier-misuse", offset, instr.site, index, M.block_index(gid), gid % M.T)


def past_the_phase(M, index: int, gid: int, barrier: int, together: int) -> None:
    """A warp's instruction arrives more often than the phase has pending."""
    instr = M.body[index]
    expected, pending = int(M.barriers.expected[barrier]), int(M.barriers.pending[barrier])
    _add(M, "barrier-misuse", f"{name(instr)} at {place(instr)} arrives {together} times at once, but {pending} of {expected} arrivals are "
         f"pending in this phase: an H200 fails the launch. The lanes of a warp arrive together, so either one elected thread "
         "arrives, or mbarrier.init counts every lane.", index, None, gid)


def completes(M, index: int, gid: int, barrier: int) -> None:
    """An arrive.noComplete that ends its phase."""
    instr = M.body[index]
    _add(M, "barrier-misuse", f"{name(instr)} at {place(instr)} says noComplete, but leaves none of the {int(M.barriers.pending[barrier])} "
         "pending arrivals: it completes the phase, which is undefined. Use mbarrier.arrive without .noComplete.", index, None, gid)


def unannounced(M, barrier: int, nbytes: int) -> None:
    """A phase can end before all bytes of its copies are there, because expect_tx announced fewer."""
    last = M.landing.last_copy.get(barrier)
    if last is None:
        return
    _, _, gid, index, _ = last
    instr = M.body[index]
    _add(M, "barrier-misuse", f"{nbytes} bytes that {name(instr)} at {place(instr)} brings were never announced to its mbarrier (at shared "
         f"address {M.barriers.offsets[barrier % M.barriers.capacity]:#x}), so the phase may end before they have arrived, or never: "
         "the expect_tx of a phase must add up to the bytes of all its copies, parts out of bounds included.", index,
         int(M.barriers.checks.expect_site[barrier]) or None, gid)


def exit_in_flight(M, index: int, gid: int, what: str) -> None:
    """A CTA ended while an operation was under way in its shared memory."""
    instr = M.body[index]
    advice = ("wait on the copy's mbarrier" if "writes" in what else "let the destination wait for the copy and then meet it in a cluster barrier"
              if "another" in what else "run cp.async.bulk.wait_group.read 0 in the issuing thread")
    _add(M, "exit-in-flight", f"the CTA ends while {name(instr)} at {place(instr)} {what}: {advice} "
         "before the last thread returns.", index, None, gid)


def register_in_flight(M, index: int, gid: int, other: int) -> None:
    """An accumulator register is used while a wgmma still owns it."""
    instr, product = M.body[index], M.body[other]
    _add(M, "register-in-flight", f"{name(instr)} at {place(instr)} uses an accumulator while {name(product)} at {place(product)} is still in flight "
         "and may not have written it: run wgmma.wait_group first, with a count that includes its group.", index, other, gid)


def exited_peer(M, index: int, gid: int, rank: int) -> None:
    """Shared memory or a barrier of a CTA that is no longer (or not yet) there."""
    instr = M.body[index]
    _add(M, "cluster-lifetime", f"{name(instr)} at {place(instr)} reaches into the CTA of rank {rank}, which may have ended by then: "
         "its shared memory would be gone. End every CTA of the cluster with a cluster barrier (barrier.cluster.arrive, then wait) after "
         "the last remote access.", index, None, gid)


def unbegun_peer(M, index: int, gid: int, rank: int) -> None:
    """Shared memory or a barrier of a CTA that may not have begun."""
    instr = M.body[index]
    _add(M, "cluster-lifetime", f"{name(instr)} at {place(instr)} reaches into the CTA of rank {rank}, which may not have begun: its shared "
         "memory and its barriers are not there yet. Let all threads of the cluster pass a cluster barrier (barrier.cluster.arrive, then "
         "wait) after the barriers are initialised and before the first remote access or multicast.", index, None, gid)


def stale_constant(M, site: int, other: int, gid: int, allocation, offset: int) -> None:
    """ld.global.nc of data that this kernel wrote."""
    now, then = M.body[site], M.body[other]
    _add(M, "race", f"{name(now)} at {place(now)} reads {element(allocation, offset)} through the read-only cache, but {name(then)} at "
         f"{place(then)} writes it in the same kernel: the cache may hold the old value. Drop const __restrict__ or __ldg() there.",
         site, other, gid)
