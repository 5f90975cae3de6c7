# SPDX-License-Identifier: Apache-2.0
"""wgmma: asynchronous multiplication by a warpgroup (PTX ISA 9.7.15)."""
from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ...hopper import wgmma as layout
from ...hopper.wgmma import DescriptorError
from ..isa import operand_values
from ..machine.accumulator import AccRef, Accumulator, Held, Product
from ..ptx.ir import Imm, Vec
from ..compile.translated import MachineOp
from ..machine.waits import WgmmaWait
from . import mma_sparse
from .common import accumulators, unsupported, whole_warpgroups

if TYPE_CHECKING:
    from ..isa.value import Value
    from ..machine.cohort import Cohort
    from ..machine.machine import Machine
    from ..machine.waits import Wait

FEW = 4              # warpgroups whose operands are looked up in one go


@dataclass
class Info:
    """A decoded wgmma.mma_async: shape, operand types, majors, A in registers (`rs` register count), sign of the product,
    dtype of D, its registers per lane, whether it saturates, and of a sparse A the selector of its metadata (else None)."""

    index: int
    n: int
    k: int
    kinds: tuple[str, str]
    majors: tuple[str, str]
    rs: int
    sign: int
    dtype: object
    registers: int
    saturates: bool
    selector: int | None = None

    @property
    def types(self) -> tuple:
        """(D, A, B), as mma_sparse.positions wants them."""
        return (self.dtype, *self.kinds)


@dataclass
class Issue:
    """A wgmma.mma_async as it starts, for listeners. By warp of the cohort: gw (global id), groups (warpgroup), group_of (which operation is its), number
    (group that it joins), keep (scale-d); by operation: group_ids (warpgroup), first (its first warp), lanes (that warp's first lane).
    descriptors, granules: of A (None in registers) and B; granules (operations, rows, pieces) in units of 16 bytes of M.smem."""

    info: Info
    registers: tuple
    gw: np.ndarray
    groups: np.ndarray
    group_ids: np.ndarray
    group_of: np.ndarray
    first: np.ndarray
    lanes: np.ndarray
    number: np.ndarray
    keep: np.ndarray
    descriptors: tuple
    granules: tuple


def _wgmma(instr, function) -> MachineOp:
    what = instr.mods[0]
    if what in ("fence", "commit_group", "wait_group") and instr.mods[1:] != ("sync", "aligned"):
        raise unsupported(instr, f"the form is wgmma.{what}.sync.aligned")
    if what == "fence":
        return MachineOp(fence, None, collective=True)
    if what == "commit_group":
        return MachineOp(commit, None, collective=True)
    if what == "wait_group":
        return MachineOp(wait, instr.operands[0].value, gate=True, collective=True)
    if what != "mma_async":
        raise unsupported(instr, "there is no such wgmma")
    return _mma_async(instr)


def _mma_async(instr) -> MachineOp:
    mods, is_sparse = [m for m in instr.mods[1:] if m not in ("sp", "sync", "aligned", "satfinite", "and", "popc")], "sp" in instr.mods
    if len(mods) != 4:
        raise unsupported(instr)
    shape, d_type, a_type, b_type = mods
    _check(instr, shape, d_type, a_type, b_type, is_sparse)
    n, k = (int(x) for x in shape[1:].split("n")[1].split("k"))
    d, a, b, *metadata, scale = instr.operands[:6 if is_sparse else 4]
    immediates = instr.operands[6 if is_sparse else 4:]
    values = [i.value for i in immediates if type(i) is Imm]
    _check_constants(instr, values, a_type, type(a) is Vec)
    signs, majors = values[:2] or [1, 1], ["K", "K"]
    trans = values[2:]
    rs = len(a.items) if type(a) is Vec else 0
    if trans:
        majors = ["MN" if t else "K" for t in (trans if not rs else [0, *trans])]
    sign = int(np.prod(signs)) if signs else 1
    home, dtype, registers = {"s32": ("u32", np.int32, n // 2), "f32": ("f32", np.float32, n // 2), "f16": ("u32", np.float16, n // 4)}[d_type]
    if len(d.items) != registers or rs not in (0, 4):
        raise unsupported(instr, f"{len(d.items)} registers for D, {registers} are needed" if not rs else f"{rs} registers for A, 4 are needed")
    accumulators(instr, d, d_type)
    info = Info(instr.index, n, k, (a_type, b_type), tuple(majors), rs, sign, dtype, registers, "satfinite" in instr.mods, _selector(instr, metadata, a_type))
    sources = [(r, None) for r in d.items] + ([(r, "u32") for r in a.items] if rs else [(a, "u64")]) + [(m, "u32") for m in metadata[:1]]
    sources += [(b, "u64"), (scale, "pred")]
    return MachineOp(issue, info, tuple(sources), tuple((r, home) for r in d.items), collective=True, raw=True,
                     meets=MachineOp(meet, instr.index, gate=True, collective=True))


def _check_constants(instr, values: list, a_type: str, in_registers: bool) -> None:
    """Signs of A and B (floats), then whether A (in shared memory) and B are transposed (16 bits): PTX ISA 9.7.15.5.2."""
    signs = 0 if a_type in ("s8", "u8", "b1") else 2
    count = signs + (0 if a_type not in ("f16", "bf16") else 1 if in_registers else 2)
    if len(values) not in ({count, 0} if signs else {0}):
        raise unsupported(instr, f"{len(values)} constants at the end, it takes {count}")
    if any(v not in (1, -1) for v in values[:signs]) or any(v not in (0, 1) for v in values[signs:]):
        raise unsupported(instr, "signs are 1 or -1, and what says whether a matrix is transposed is 0 or 1")


def _selector(instr, metadata: list, a_type: str) -> int | None:
    """The sparsity selector: which two lanes of a quad hold the metadata (of bytes all four do: 0)."""
    if not metadata:
        return None
    choice = metadata[1].value if type(metadata[1]) is Imm else -1
    if not 0 <= choice <= (a_type in ("f16", "bf16", "tf32")):
        raise unsupported(instr, "the sparsity selector is 0 or 1, and 0 for bytes")
    return choice


def _check(instr, shape: str, d_type: str, a_type: str, b_type: str, is_sparse: bool) -> None:
    """Shapes and types that wgmma has (PTX ISA 9.7.15.2, 9.7.15.3)."""
    if a_type not in layout.K_BY_DTYPE:
        raise unsupported(instr, f"wgmma has no operands of .{a_type}")
    mixed = any({a_type, b_type} <= pair for pair in ({"e4m3", "e5m2"}, {"s8", "u8"}))
    if a_type != b_type and not mixed or d_type not in layout.ACCUMULATORS[a_type]:
        raise unsupported(instr, f"wgmma does not multiply .{a_type} by .{b_type} into .{d_type}")
    if shape not in {f"m64n{n}k{layout.K_BY_DTYPE[a_type] * (2 if is_sparse else 1)}" for n in layout.legal_n(a_type)} or is_sparse and a_type == "b1":
        raise unsupported(instr, f"wgmma has no shape {shape} for .{a_type}")
    if a_type == "b1" and not {"and", "popc"} <= set(instr.mods) or "satfinite" in instr.mods and a_type not in ("s8", "u8"):
        raise unsupported(instr, "single bits need .and.popc" if a_type == "b1" else ".satfinite is for s8 and u8")


def meet(M: Machine, C: Cohort, site: int) -> Wait | None:
    """The first wgmma of a run holds a warp until all four warps of its warpgroup have come to it."""
    whole_warpgroups(M, C, site)
    return M.meetings.arrive(C)


def issue(M: Machine, C: Cohort, info: Info, *values: Value) -> tuple[Value, ...]:
    """wgmma.mma_async: the operation belongs to the current group and lands by its wait_group at the latest."""
    registers, rest = values[:info.registers], values[info.registers:]
    whole_warpgroups(M, C, info.index)
    units = M.units(C)
    gw = units.gw
    slot, warp = gw // M.warps, gw % M.warps
    groups = slot * M.wgmma_groups + warp // 4
    M.wgmma_issued[gw] += 1                # warps of a warpgroup may stand here in different rounds: each is its own operation
    group_ids, first, group_of = _operations(groups, M.wgmma_issued[gw])
    lanes = units.starts[first]
    bases = slot[first] * (M.stride // 16)
    desc_a, desc_b = None if info.rs else rest[0], rest[-2]
    places = None if info.selector is None else mma_sparse.positions(M.lanes(C, rest[-3]).reshape(-1, 32), info)
    b_index = _granules(M, C, info, M.lanes(C, desc_b)[lanes], bases, info.n, info.majors[1], lanes, 32 if info.selector is None else 64)
    a_values = a_index = None
    if info.rs:
        a_values = _fragment(rest[:info.rs], info, len(gw))
    else:
        a_index = _granules(M, C, info, M.lanes(C, desc_a)[lanes], bases, 64, info.majors[0], lanes)
    keep = M.lanes(C, rest[-1])[units.starts]
    number = M.wgmma_commits[gw] + 1
    M.tell.wgmma_issued(C, Issue(info, registers, gw, groups, group_ids, group_of, first, lanes, number, keep, (desc_a, desc_b), (a_index, b_index)))
    if not M.landing.multiplies:
        return registers
    old = _accumulator(M, C, info, registers, gw)
    form = (info.k, info.kinds, info.majors, info.sign, info.saturates)
    product = Product(a_values, a_index, b_index, group_of, number, keep, warp % 4, form, info.index, places)
    acc = Accumulator(M, gw, info.n, old.tile, info.dtype, [*old.pending, product])
    M.landing.start_accumulator(acc, info.index)
    return tuple([AccRef(acc, i) for i in range(info.registers)])


def _operations(groups: np.ndarray, rounds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of warps by warpgroup and round: (warpgroups of the operations, first warp of each, operation of each warp)."""
    keys = groups << 32 | rounds
    whole = keys.reshape(-1, 4) if len(keys) % 4 == 0 else keys[:0].reshape(-1, 4)
    if len(whole) and (whole == whole[:, :1]).all() and (groups[4::4] > groups[:-4:4]).all():          # the usual case: four warps each, one after the other
        first = np.arange(0, len(keys), 4)
        return groups[::4], first, np.arange(len(keys)) >> 2
    keys, first, group_of = np.unique(keys, return_index=True, return_inverse=True)
    return keys >> 32, first, group_of


def _granules(M, C, info, descriptors, bases, rows: int, major: str, lanes, k_bytes: int = 32) -> np.ndarray:
    """Granule ids in M.smem16 of one operand of every warpgroup."""
    if len(descriptors) <= FEW and (found := _few(tuple(descriptors.tolist()), tuple(bases.tolist()), rows, k_bytes, major, M.shared_limit)) is not None:
        return found
    same = bool((descriptors == descriptors[0]).all())
    distinct, which = (descriptors[:1], np.zeros(len(descriptors), np.int64)) if same else np.unique(descriptors, return_inverse=True)
    tables = []
    for k, value in enumerate(distinct.tolist()):
        try:
            table, last = _tile(value, rows, k_bytes, major)
        except DescriptorError as error:
            lane = int(lanes[np.flatnonzero(which == k)[0]])
            raise M.fault(C, info.index, lane, f"descriptor {value:#018x}: {error}", "illegal-descriptor", value) from None
        if last + 16 > M.shared_limit:
            lane = int(lanes[np.flatnonzero(which == k)[0]])
            raise M.fault(C, info.index, lane, f"descriptor {value:#018x} reads shared address {last:#x}, past the end "
                          f"of shared memory at {M.shared_limit:#x}", "out-of-bounds", last)
        tables.append(table)
    return (tables[0] if same else np.stack(tables)[which]) + bases[:, None, None]


@lru_cache(maxsize=512)
def _few(descriptors: tuple[int, ...], bases: tuple[int, ...], rows: int, k_bytes: int, major: str, limit: int) -> np.ndarray | None:
    """The same of a few, which are asked for again and again, not to be changed; None where that is a fault."""
    try:
        tiles = [_tile(value, rows, k_bytes, major) for value in descriptors]
    except DescriptorError:
        return None
    found = np.stack([table for table, _ in tiles]) + np.array(bases)[:, None, None]
    found.setflags(write=False)
    return found if max(last for _, last in tiles) + 16 <= limit else None


@lru_cache(maxsize=512)
def _tile(value: int, rows: int, k_bytes: int, major: str) -> tuple[np.ndarray, int]:
    """(granule ids of a tile in its CTA's shared memory, address of the last one)."""
    table = layout.operand_granules(value, rows, k_bytes, major)
    return table >> 4, int(table.max())


def _fragment(registers, info: Info, warps: int) -> np.ndarray:
    """A from registers: (warps, 16, K) values. PTX ISA 9.7.15.5.1.1; K is 32 bytes of every row."""
    raw = np.empty((warps, 2, 8, 2, 4, 4), np.uint8)          # warp, row half, g, k half, q, bytes of one register
    for r, value in enumerate(registers):
        lanes = np.broadcast_to(value, 32 * warps)
        raw[:, r & 1, :, r >> 1] = np.ascontiguousarray(lanes).view(np.uint8).reshape(warps, 8, 4, 4)
    return operand_values.to_float(raw.reshape(warps, 16, 32), info.kinds[0])


def _accumulator(M, C, info, registers, gw) -> Accumulator:
    """The accumulator that registers hold: the one in flight when they are its references in order, else a new one."""
    first = registers[0]
    if isinstance(first, AccRef) and first.acc.n == info.n and first.acc.dtype == info.dtype and len(first.acc.warps) == len(gw):
        acc = first.acc
        if all(type(r) is AccRef and r.acc is acc and r.i == i for i, r in enumerate(registers)):
            return acc
    # Register i of accumulators of this form goes on in place, in flight or not: cohorts that met and parted hold it in several.
    values = [r.value() if isinstance(r, Held) or (isinstance(r, AccRef) and r.i == i and r.acc.n == info.n and r.acc.dtype == info.dtype)
              else r.settle(M, C, info.index) if isinstance(r, AccRef) else r for i, r in enumerate(registers)]
    return Accumulator.from_registers(M, gw, values, info.dtype)


def fence(M: Machine, C: Cohort, info: Any) -> None:
    """wgmma.fence orders register accesses; values need nothing here."""
    M.fences.run(M.units(C).gw)
    M.tell.warp_synced(C)


def commit(M: Machine, C: Cohort, info: Any) -> None:
    """wgmma.commit_group."""
    M.wgmma_commits[M.units(C).gw] += 1
    M.progress += 1


def wait(M: Machine, C: Cohort, pending: int) -> WgmmaWait:
    """wgmma.wait_group N: blocks until all but the N latest groups of the warpgroup are complete."""
    warps = C.gids >> 5
    return WgmmaWait(warps, np.maximum(M.wgmma_commits[warps] - pending, 0))


RESOLVERS = {"wgmma": _wgmma}
