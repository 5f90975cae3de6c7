# SPDX-License-Identifier: Apache-2.0
"""Programs as data: a few operations for each warp, over tiles of 512 bytes in shared memory, mbarriers, barriers and flags.

A tile is 32 chunks of 16 bytes. What a warp does together touches chunk (lane + shift) % 32 in each lane; what one lane does touches its own.
Neither the model nor the emulator is known here.
"""
from __future__ import annotations

from dataclasses import dataclass, fields, replace

TILE = 512
ELECTED = (0, 1)                                        # lanes that may do something alone
REST = -1                                               # all lanes but lane 0


@dataclass(frozen=True)
class Op:
    """One operation. `sync`: it orders others and may be dropped by a mutation."""

    sync = False
    collective = False                                  # .aligned: all lanes of the warp come together first


@dataclass(frozen=True)
class Store(Op):
    """st.shared (cta: rank of the CTA whose memory it is, None for the own one)."""

    tile: int
    shift: int = 0
    cta: int | None = None


@dataclass(frozen=True)
class Load(Op):
    """ld.shared."""

    tile: int
    shift: int = 0
    cta: int | None = None


@dataclass(frozen=True)
class SourceStore(Op):
    """st.global into tile `source` of what copies load."""

    source: int
    shift: int = 0


@dataclass(frozen=True)
class CpAsync(Op):
    """cp.async of 16 bytes per lane, from the same chunk of tile `source` in global memory."""

    tile: int
    shift: int = 0
    source: int = 0


@dataclass(frozen=True)
class CpCommit(Op):
    """cp.async.commit_group."""

    sync = True


@dataclass(frozen=True)
class CpWait(Op):
    """cp.async.wait_group: at most `pending` groups of the thread are still in flight."""

    pending: int = 0
    sync = True


@dataclass(frozen=True)
class CpArrive(Op):
    """cp.async.mbarrier.arrive.noinc: an arrival when all cp.async before it are complete."""

    bar: int
    sync = True


@dataclass(frozen=True)
class BulkLoad(Op):
    """cp.async.bulk from global memory, from tile `source` on, into `tiles` tiles, reported to mbarrier `bar`; ctas: ranks of a multicast."""

    tile: int
    bar: int
    tiles: int = 1
    ctas: tuple[int, ...] | None = None
    source: int = 0


@dataclass(frozen=True)
class BulkStore(Op):
    """cp.async.bulk from shared to global memory (each one to bytes of its own)."""

    tile: int
    tiles: int = 1


@dataclass(frozen=True)
class BulkCommit(Op):
    """cp.async.bulk.commit_group."""

    sync = True


@dataclass(frozen=True)
class BulkWait(Op):
    """cp.async.bulk.wait_group, or .read: only the sources are known to be read."""

    pending: int = 0
    read: bool = True
    sync = True


@dataclass(frozen=True)
class BulkCopy(Op):
    """cp.async.bulk from the own tile to tile `to` of CTA `cta`, reported to mbarrier `bar` there."""

    tile: int
    to: int
    bar: int
    cta: int


@dataclass(frozen=True)
class ProxyFence(Op):
    """fence.proxy.async."""

    sync = True


@dataclass(frozen=True)
class Init(Op):
    """mbarrier.init."""

    bar: int
    count: int


@dataclass(frozen=True)
class Arrive(Op):
    """mbarrier.arrive, with expect_tx where bytes are expected; cta: rank of the CTA that owns the mbarrier."""

    bar: int
    expect: int = 0
    cta: int | None = None
    sync = True


@dataclass(frozen=True)
class Wait(Op):
    """mbarrier.try_wait.parity until phase `phase` is complete (its parity is all that the hardware sees; -1: of a fresh mbarrier)."""

    bar: int
    phase: int
    sync = True


@dataclass(frozen=True)
class SyncWarp(Op):
    """bar.warp.sync of the whole warp."""

    sync = True
    collective = True


@dataclass(frozen=True)
class Barrier(Op):
    """bar.sync (or bar.arrive) id, 32 * warps."""

    id: int
    warps: int
    arrive: bool = False
    sync = True
    collective = True


@dataclass(frozen=True)
class ClusterArrive(Op):
    """barrier.cluster.arrive.release."""

    sync = True
    collective = True


@dataclass(frozen=True)
class ClusterWait(Op):
    """barrier.cluster.wait.acquire."""

    sync = True
    collective = True


@dataclass(frozen=True)
class Raise(Op):
    """st.release (or st.relaxed) of `value` to a flag in global memory."""

    flag: int
    value: int
    release: bool = True
    scope: str = "gpu"
    sync = True


@dataclass(frozen=True)
class Poll(Op):
    """ld.acquire of a flag until it is at least `value`."""

    flag: int
    value: int
    scope: str = "gpu"
    sync = True


@dataclass(frozen=True)
class Step:
    """An operation, and who runs it: None for all lanes of the warp, one lane of ELECTED, or REST."""

    op: Op
    lane: int | None = None

    def __str__(self) -> str:
        given = ", ".join(f"{f.name}={getattr(self.op, f.name)!r}" for f in fields(self.op) if getattr(self.op, f.name) != f.default)
        return f"{type(self.op).__name__}({given})" + ("" if self.lane is None else " @lanes 1 to 31" if self.lane == REST else f" @lane {self.lane}")


@dataclass(frozen=True)
class Program:
    """warps[cta][warp] is a tuple of steps. Line numbers count steps from 1, CTA by CTA and warp by warp."""

    warps: tuple[tuple[tuple[Step, ...], ...], ...]
    name: str = ""
    branches: bool = False                              # single lanes by branches, not by predicates

    def steps(self):
        """(line, cta, warp, place, step) of every step."""
        line = 0
        for cta, warps in enumerate(self.warps):
            for warp, script in enumerate(warps):
                for place, step in enumerate(script):
                    line += 1
                    yield line, cta, warp, place, step

    def number(self, kind: type, name: str) -> int:
        """How many mbarriers, tiles, flags … its operations name."""
        return 1 + max((getattr(s.op, name) for *_, s in self.steps() if isinstance(s.op, kind)), default=-1)

    @property
    def tiles(self) -> int:
        spans = [s.op.tile + getattr(s.op, "tiles", 1) for *_, s in self.steps() if hasattr(s.op, "tile")]
        return max([*spans, self.number(BulkCopy, "to"), 1])

    def without(self, line: int) -> Program:
        """The program with one step dropped."""
        return self.with_step(line, None)

    def with_step(self, line: int, new: Step | None) -> Program:
        """The program with another step at `line`, or none."""
        at, warps = 0, []
        for scripts in self.warps:
            row = []
            for script in scripts:
                kept = []
                for step in script:
                    at += 1
                    kept += [step] if at != line else [new] if new else []
                row.append(tuple(kept))
            warps.append(tuple(row))
        return replace(self, warps=tuple(warps))

    def __str__(self) -> str:
        rows, before = [f"{self.name or 'program'}{' (branches)' if self.branches else ''}:"], None
        for line, cta, warp, _, step in self.steps():
            if (cta, warp) != before:
                rows.append(f"  CTA {cta}, warp {warp}:")
                before = cta, warp
            rows.append(f"    {line:3d}  {step}")
        return "\n".join(rows)


def lanes(*steps: Op | Step, lane: int | None = None) -> tuple[Step, ...]:
    """Operations as steps of one lane, or of the whole warp."""
    return tuple(s if isinstance(s, Step) else Step(s, None if s.collective else lane) for s in steps)
