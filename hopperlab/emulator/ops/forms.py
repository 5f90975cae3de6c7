# SPDX-License-Identifier: Apache-2.0
"""Words of an opcode that do not go together on sm_90a, as ptxas of CUDA 13.0 has it: each is an error that says what does.

Families whose resolvers read every word do their own checks; here is what several of them share, looked up by the first word.
"""
from __future__ import annotations

from typing import TYPE_CHECKING

from ..ptx.ir import Sink
from .common import no_sm_90a, unsupported

if TYPE_CHECKING:
    from ..ptx.ir import Instr

ORDERS = {"relaxed", "acquire", "release", "acq_rel", "volatile", "mmio"}
LOCAL_BARRIERS = ("init", "inval", "test_wait", "try_wait")
EVICTIONS = ("L2::evict_first", "L2::evict_last", "L2::evict_normal")
PREFETCHES = ("L2::64B", "L2::128B", "L2::256B")
REDUX = {"add": ("u32", "s32"), "min": ("u32", "s32"), "max": ("u32", "s32"), "and": ("b32",), "or": ("b32",), "xor": ("b32",)}
CACHES = {"ca", "cg", "cs", "lu", "cv", "wb", "wt"}
HALVES = ("f16", "bf16", "f16x2", "bf16x2")


def check(instr: Instr) -> None:
    """Raise UnsupportedInstruction for a form that sm_90a does not have."""
    found = CHECKS.get(instr.op)
    if found is not None:
        found(instr)


def _space(mods) -> str:
    """The state space of an access: 'shared', 'global', 'local', '' when none is written."""
    return next((m.split("::")[0] for m in mods if m.split("::")[0] in ("shared", "global", "local", "const", "param")), "")


def _access(instr) -> None:
    """ld and st."""
    mods = instr.mods
    if "async" in mods:
        return _remote(instr)
    wide = "v8" in mods or "v4" in mods and mods[-1][1:] == "64"
    if not wide and any(m in EVICTIONS for m in mods):
        raise no_sm_90a(instr, "an eviction priority in L2, which 256-bit accesses alone take,", "sm_100")
    if CACHES & set(mods) and any(m.startswith("L1::") for m in mods):
        raise unsupported(instr, "a cache operator does not go with an eviction priority")
    space = _space(mods)
    if space == "local" and ORDERS & set(mods):
        raise unsupported(instr, "local memory is a thread's own: its accesses have no order and no scope")
    if "mmio" in mods and space in ("shared", "local"):
        raise unsupported(instr, ".mmio is for global memory")
    if "L2::cache_hint" in mods and space not in ("global", ""):
        raise unsupported(instr, ".L2::cache_hint is for global memory")
    if instr.op == "st" and any(m in PREFETCHES for m in mods):
        raise unsupported(instr, "a store has no prefetch size")


def _remote(instr) -> None:
    """st.async and red.async."""
    mods = instr.mods
    if "mmio" in mods or "global" in mods:
        raise no_sm_90a(instr, f"{instr.op}.async on global memory", "sm_100")
    if mods[-1] == "b128" or "v4" in mods and mods[-1][1:] == "64":
        raise unsupported(instr, "at most 16 bytes, in elements of 4 or 8")


def _atomic(instr) -> None:
    mods = instr.mods
    if "async" in mods:
        return _remote(instr)
    vector, kind = next((m for m in mods if m in ("v2", "v4", "v8")), None), mods[-1]
    if "add" in mods and kind == "s64":
        raise unsupported(instr, "an addition of 64 bits is .u64, which gives the same bits")
    if kind in HALVES and "noftz" not in mods:
        raise unsupported(instr, f".{kind} needs .noftz")
    if vector and kind == "f32" and "add" not in mods:
        raise unsupported(instr, "vectors of .f32 are only added")
    if "L2::cache_hint" in mods and "cas" in mods:
        raise unsupported(instr, "a compare-and-swap takes no .L2::cache_hint")
    if instr.op == "red" and {"acquire", "acq_rel"} & set(mods):
        raise unsupported(instr, "red returns nothing to acquire with: .relaxed or .release")


def _mbarrier(instr) -> None:
    mods, what = instr.mods, instr.mods[0]
    remote = "shared::cluster" in mods
    if remote and (what in LOCAL_BARRIERS or "noComplete" in mods):
        raise unsupported(instr, f"mbarrier.{what}{'.noComplete' if 'noComplete' in mods else ''} is for barriers of the own CTA (.shared::cta), not of another")
    if what in ("arrive", "arrive_drop"):
        if remote and type(instr.operands[0]) is not Sink:
            raise unsupported(instr, "an arrival at another CTA's barrier returns no state: write _")
        if "noComplete" in mods and {"relaxed", "cluster"} & set(mods):
            raise unsupported(instr, ".noComplete is .release.cta")
    if what in ("expect_tx", "complete_tx") and {"release", "acquire"} & set(mods):
        raise unsupported(instr, f"mbarrier.{what} is .relaxed: it orders nothing")


def _copy(instr) -> None:
    mods = instr.mods
    if mods[0] == "reduce" and "tensor" not in mods and {"and", "or", "xor"} & set(mods) and mods[-1] not in ("b32", "b64"):
        raise unsupported(instr, "bitwise reductions are of .b32 or .b64")
    if "L2::cache_hint" in mods and "bulk" in mods and "global" not in mods:
        raise unsupported(instr, ".L2::cache_hint is for global memory")
    if "multicast::cluster" in mods and "shared::cluster" not in mods:
        raise unsupported(instr, "a multicast writes to .shared::cluster")
    if mods[:3] == ("async", "mbarrier", "arrive") and "shared::cluster" in mods:
        raise unsupported(instr, "cp.async arrives at barriers of the own CTA (.shared::cta)")


def _redux(instr) -> None:
    op, kind = next((m for m in instr.mods if m in REDUX), None), instr.mods[-1]
    if kind == "f32" and op in ("min", "max"):
        raise no_sm_90a(instr, "redux.f32", "sm_100a")
    if op is None or kind not in REDUX[op]:
        raise unsupported(instr, f"there is no redux.{op or '?'} of .{kind}" + (f": it takes .{' or .'.join(REDUX[op])}" if op else ""))


def _warp(instr) -> None:
    if "sync" not in instr.mods:
        raise unsupported(instr, f"{instr.op} without .sync ended with sm_70: {instr.op}.sync takes a member mask")


def _wmma(instr) -> None:
    mods = instr.mods
    if mods[0] == "mma" and "satfinite" in mods and mods[-1] == "satfinite" and mods[-3] in ("f16", "f32"):
        raise unsupported(instr, ".satfinite is for integers")
    shape = next((m for m in mods if m[:1] == "m" and "k" in m), "")
    if shape in ("m8n8k32", "m8n8k128") and (
            mods[0] == "mma" and [m for m in mods if m in ("row", "col")] != ["row", "col"]
            or mods[0] == "load" and {"a": "col", "b": "row"}.get(mods[1]) in mods):
        raise unsupported(instr, "elements of less than 8 bits are .row for A and .col for B")


def _cvta(instr) -> None:
    if instr.mods[-1] != "u64":
        raise unsupported(instr, "addresses have 64 bits (.address_size 64)")


CHECKS = {"ld": _access, "st": _access, "atom": _atomic, "red": _atomic, "mbarrier": _mbarrier, "cp": _copy, "redux": _redux,
          "shfl": _warp, "vote": _warp, "wmma": _wmma, "cvta": _cvta}
