# SPDX-License-Identifier: Apache-2.0
"""Which requests of SMs reach the L2 as one: chosen SMs load the same 16 KiB at chosen times, and Nsight Compute counts what the L2 is asked for. Needs a Hopper GPU
with CuPy and Nsight Compute, a minute.

    python -m benchmarks.merged_requests

Times that SMs ask for a sector for each time that the L2 is asked for it, on an H200 and an H100 (driver 580.159; 84 launches each of this kernel, by a program of
which this one keeps the telling plans):

    who asks for the same        at once        50 cycles apart   100           200           400           800 and more
    two SMs of a TPC             2.0, 1.9       1.7, 1.6          1.1, 1.1      1.02, 1.02    1.01, 1.02    1.00, 1.00
    two TPCs of a GPC, an SM each  1.35, 1.3    1.3, 1.2          1.1, 1.2      1.1, 1.1      1.05, 1.1     1.00, 1.01
    two GPCs, an SM each         1.03, 1.00     1.02, 1.00        1.00, 1.00
    four SMs, eight SMs of a GPC 2.5, 2.2; 2.9, 2.5
    a whole GPC                  3.1, 3.0       (each SM 6, 12, 25, 50, 100 cycles behind the next: 3.1, 2.9, 2.3, 1.7, 1.2 on the H200, 3.1, 3.1, 2.5, 1.9, 1.3)
    all 132                      3.2, 3.4

So SMs of a TPC share nearly every request that they make within some 50 cycles of each other, TPCs of a GPC a third of them, GPCs next to none, whatever the size of
a copy (2 to 32 KiB) and however often it comes: a whole GPC asks a third as often as its SMs.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

import hopperlab as hl
from benchmarks.counts import begin, counted

SMS, CHUNK, STAGES, PERIOD = 132, 16384, 8, 600
TOTAL, AROUND = 256, 8                          # copies of an SM, and after how many it begins anew: 4 MiB out of 128 KiB, which are in the L2
SOURCE = r"""
extern "C" __global__ void __launch_bounds__(32) gemm(const char* data, const int* whose, const int* behind, unsigned* here, int chunk, int around, int total, int period) {
    extern __shared__ __align__(1024) char shared[];            // STAGES chunks
    __shared__ __align__(8) unsigned long long landed[STAGES];
    if (threadIdx.x) return;
    unsigned me, first = static_cast<unsigned>(__cvta_generic_to_shared(landed)), slots = static_cast<unsigned>(__cvta_generic_to_shared(shared));
    asm volatile("mov.u32 %0, %%smid;" : "=r"(me));
    for (int i = 0; i < STAGES; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(first + 8 * i) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    atomicAdd(here, 1u);
    while (atomicAdd(here, 0u) < gridDim.x) {}                  // one CTA per SM, and all are there
    const char* mine = data + static_cast<long long>(whose[me]) * around * chunk;
    long long start = clock64() + 3000 + behind[me];
    while (clock64() < start) {}
    auto wait = [&](int j) {
        for (unsigned done = 0; !done;)
            asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                         : "=r"(done) : "r"(first + 8 * (j % STAGES)), "r"(j / STAGES & 1) : "memory");
    };
    for (int j = 0; j < total; j++) {
        if (j >= STAGES) wait(j - STAGES);
        while (clock64() < start + static_cast<long long>(j) * period) {}
        unsigned bar = first + 8 * (j % STAGES);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(chunk) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(slots + j % STAGES * chunk), "l"(mine + static_cast<long long>(j % around) * chunk), "r"(chunk), "r"(bar) : "memory");
    }
    for (int j = max(0, total - STAGES); j < total; j++) wait(j);
}
"""
WHERE = r"""
extern "C" __global__ void __cluster_dims__(SIZE, 1, 1) where(int* out) {
    unsigned me;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(me));
    out[blockIdx.x] = me;
    long long began = clock64();
    while (clock64() < began + 20000) {}                        // so that the others go elsewhere
}
"""
METRICS = ("lts__t_sectors_srcunit_tex.sum",)


@dataclass(frozen=True)
class Plan:
    """Groups of SMs that load the same, each SM of a group `behind` cycles behind the one before it."""

    name: str
    groups: Sequence[Sequence[int]]
    behind: int = 0

    @property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each SM: its group, and by how much it is behind."""
        whose, late = np.zeros(SMS, np.int32), np.zeros(SMS, np.int32)
        for group, members in enumerate(self.groups):
            for place, sm in enumerate(members):
                whose[sm], late[sm] = group, place * self.behind
        return whose, late

    @property
    def alone(self) -> int:
        """SMs that load what nobody else loads."""
        return sum(len(group) == 1 for group in self.groups)


def gpcs(backend: str = "gpu") -> list[tuple[int, ...]]:
    """SMs that lie in one GPC, as far as clusters of two to eight CTAs, each of which lies in one, show it."""
    xp = _arrays(backend)
    of = {sm: {sm} for sm in range(SMS)}
    for size in range(2, 9):
        where = hl.RawModule(code=WHERE, options=(f"-DSIZE={size}",), backend=backend).get_function("where")
        for _ in range(4):
            out = xp.zeros(SMS // size * size, xp.int32)
            where((out.size,), (32,), (out,), shared_mem=40000)
            placed = out.tolist()
            for first in range(0, len(placed), size):
                together = set().union(*(of[sm] for sm in placed[first:first + size]))
                of |= dict.fromkeys(together, together)
    return sorted({tuple(sorted(together)) for together in of.values()})


def _arrays(backend: str):
    if backend != "gpu":
        return np
    import cupy
    return cupy


def _rest(groups: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The groups, and each of the other SMs by itself."""
    known = {sm for group in groups for sm in group}
    return [*groups, *([sm] for sm in range(SMS) if sm not in known)]


def plans(known: Sequence[Sequence[int]]) -> Iterator[Plan]:
    """Who loads the same, and when. known: SMs that lie in one GPC (`gpcs`)."""
    large = [group for group in known if len(group) >= 8]
    tpcs = [[2 * t, 2 * t + 1] for t in range(SMS // 2)]
    other_tpcs = _rest([[gpc[i + j], gpc[i + 2 + j]] for gpc in large for i in range(0, len(gpc) - 3, 4) for j in (0, 1)])
    other_gpcs = _rest([list(pair) for one, two in zip(large[::2], large[1::2]) for pair in zip(one, two)])
    yield Plan("each its own", [[sm] for sm in range(SMS)])
    for behind in (0, 50, 100, 200, 400, 800):
        yield Plan("two SMs of a TPC", tpcs, behind)
        yield Plan("two TPCs of a GPC", other_tpcs, behind)
        yield Plan("two GPCs", other_gpcs, behind)
    for behind in (0, 6, 12, 25, 50, 100):
        yield Plan("all of a GPC", _rest(large), behind)
    yield Plan("all", [range(SMS)])


def launches(backend: str = "gpu", total: int = TOTAL) -> Iterator[tuple[str, Callable[[], object]]]:
    """Each plan by name, ready to launch."""
    xp = _arrays(backend)
    kernel = hl.RawModule(code=SOURCE, options=(f"-DSTAGES={STAGES}",), backend=backend).get_function("gemm")
    data = xp.zeros(SMS * AROUND * CHUNK, xp.uint8)
    for plan in plans(gpcs(backend)):
        whose, behind = map(xp.asarray, plan.tables)
        here = xp.zeros(1, xp.uint32)
        args = (data, whose, behind, here, *(np.int32(number) for number in (CHUNK, AROUND, total, PERIOD)))
        yield f"{plan.name}, {plan.behind} cycles apart", lambda args=args: kernel((SMS,), (32,), args, shared_mem=STAGES * CHUNK)


def main() -> None:
    """Count and print."""
    begin(__doc__, "benchmarks.merged_requests")
    each = TOTAL * CHUNK / 32                                   # sectors that an SM asks for; of those alone the L2 is asked for all
    for plan, (name, (sectors,)) in zip(plans(gpcs()), counted("benchmarks.merged_requests", launches, METRICS)):
        alone = plan.alone % SMS                                # all alone: then all of them are told
        print(f"{name}: {(SMS - alone) * each / max(1.0, sectors - alone * each):.2f} requests of SMs for one of the L2")


if __name__ == "__main__":
    main()
