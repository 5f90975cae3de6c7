"""Words for hazards and warnings of plain accesses: threads that store to one place together, scopes, tensor maps in memory."""
from __future__ import annotations

from .reports import _add as add
from .reports import name, place


def lanes_collide(M, site: int, gid: int, where: str) -> None:
    """Lanes of one warp store different values to one address in one instruction."""
    instr = M.body[site]
    add(M, "race", f"{name(instr)} at {place(instr)} stores different values of several lanes of a warp to {where}: one of them is kept, and "
        "which one is not defined. Let one lane store (if (lane == 0)), give each lane a place of its own, or use an atomic.",
        site, None, gid, "warning")


def warps_collide(M, site: int, gid: int, where: str) -> None:
    """Threads of different warps store different values to one address, with no order between them."""
    instr = M.body[site]
    add(M, "race", f"{name(instr)} at {place(instr)} stores different values of several warps to {where}, with no order between them: let one "
        "thread of the block store (if (threadIdx.x == 0)), give each warp a place of its own, or use an atomic.", site, site, gid)


def _map(M, site: int, other: int, offset: int, allocation) -> str:
    now, then = M.body[site], M.body[other]
    return (f"{name(now)} at {place(now)} uses the tensor map at byte {offset} of {allocation.name}, which {name(then)} at {place(then)} "
            "changed in this kernel")


def map_not_released(M, site: int, other: int, gid: int, allocation, offset: int) -> None:
    """A tensor map was changed in global memory and not published to the tensormap proxy."""
    add(M, "missing-proxy-fence", f"{_map(M, site, other, offset, allocation)} and nobody published: the copy engine reads maps through a proxy of its "
        "own. After the change its writer runs fence.proxy.tensormap::generic.release.gpu (or edits a copy in shared memory and publishes it with "
        "tensormap.cp_fenceproxy); then the thread that issues the copy runs fence.proxy.tensormap::generic.acquire.gpu [map], 128.", site, other, gid)


def map_not_acquired(M, site: int, other: int, gid: int, allocation, offset: int) -> None:
    """A tensor map was changed and published, but the user of it has not acquired it."""
    add(M, "missing-proxy-fence", f"{_map(M, site, other, offset, allocation)}, without fence.proxy.tensormap::generic.acquire.gpu [map], 128 between "
        "the change and the copy: the copy engine may still hold the old map. The thread that issues the copy runs that fence on the map "
        "after it has learned of the change, and before the copy.", site, other, gid)


def scope(M, site: int, other: int, gid: int, where: str) -> None:
    """What another CTA wrote is known only through arrivals or waits of CTA scope."""
    now, then = M.body[site], M.body[other]
    lines = list(dict.fromkeys(place(i).split(" (in ")[0] for i in M.body if i.op == "mbarrier" and "relaxed" not in i.mods
                               and any(m in i.mods for m in ("arrive", "arrive_drop", "try_wait", "test_wait")) and "cluster" not in i.mods))
    add(M, "race", f"{name(now)} at {place(now)} reads {where}, which {name(then)} at {place(then)} wrote in another CTA of the cluster. What orders "
        "them is an mbarrier arrival or wait of CTA scope, the default, which promises nothing between CTAs: write mbarrier.arrive.release.cluster "
        f"on one side and mbarrier.try_wait.parity.acquire.cluster on the other (of CTA scope in this kernel: {', '.join(lines[:5])}).",
        site, other, gid, "warning")
