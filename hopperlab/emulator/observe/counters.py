# SPDX-License-Identifier: Apache-2.0
"""What a run counted: totals by name, and the same by source line, instruction and launch.

`Counters` is what `run.counters` gives. The table COUNTERS says what every name means; a new counter needs a row there.
"""
from __future__ import annotations

from dataclasses import dataclass

from ..ptx.instruction_operands import Imm
from ..ptx.places import place

COUNTERS = {
    "warp_instructions": "PTX instructions that warps executed (not machine instructions: ptxas deletes, merges and expands)",
    "shared_load_requests": "warp instructions that read shared memory (ld.shared)",
    "shared_load_bytes": "bytes that lanes read from shared memory (ld.shared, ldmatrix)",
    "shared_load_wavefronts": "wavefronts of ld.shared and ldmatrix, as Nsight Compute counts them",
    "shared_load_conflicts": "bank conflicts of ld.shared and ldmatrix: wavefronts beyond the fewest possible",
    "shared_store_requests": "warp instructions that write shared memory (st.shared)",
    "shared_store_bytes": "bytes that lanes write to shared memory (st.shared, stmatrix)",
    "shared_store_wavefronts": "wavefronts of st.shared and stmatrix",
    "shared_store_conflicts": "bank conflicts of st.shared and stmatrix",
    "matrix_load_requests": "warp instructions ldmatrix (their wavefronts are in shared_load_wavefronts)",
    "matrix_store_requests": "warp instructions stmatrix (their wavefronts are in shared_store_wavefronts)",
    "shared_atomic_requests": "warp instructions atom.shared and red.shared",
    "shared_atomic_wavefronts": "their wavefronts, where the machine has an instruction for it: 32-bit integers, and 64 bits exchanged",
    "shared_atomic_conflicts": "their bank conflicts: wavefronts beyond the fewest possible",
    "global_load_requests": "warp instructions ld.global",
    "global_load_bytes": "bytes that lanes read from global memory",
    "global_load_sectors": "32-byte sectors those requests touch, each counted once a request",
    "tensor_map_load_bytes": "bytes of tensor maps among a kernel's parameters that lanes read themselves (ld.param)",
    "global_store_requests": "warp instructions st.global",
    "global_store_bytes": "bytes that lanes write to global memory",
    "global_store_sectors": "32-byte sectors those requests touch",
    "global_atomic_requests": "warp instructions atom.global and red.global",
    "cp_async_requests": "warp instructions cp.async",
    "cp_async_bytes": "bytes that cp.async asks for (lanes that only zero-fill are left out)",
    "cp_async_sectors": "32-byte sectors of global memory that those requests touch",
    "tma_loads": "tensor copies from global to shared memory, as issued (a multicast is one)",
    "tma_load_bytes": "bytes of tensor copies that arrive in shared memory, out-of-bounds fill included, once a destination CTA",
    "tma_stores": "tensor copies from shared to global memory",
    "tma_store_bytes": "bytes those copies take from shared memory",
    "tma_reduces": "tensor reductions from shared to global memory",
    "tma_reduce_bytes": "bytes those reductions take from shared memory",
    "bulk_loads": "plain bulk copies to shared memory, once a destination CTA",
    "bulk_load_bytes": "their bytes",
    "bulk_stores": "plain bulk copies to global memory",
    "bulk_store_bytes": "their bytes",
    "bulk_reduces": "plain bulk reductions to global memory",
    "bulk_reduce_bytes": "their bytes",
    "dsmem_load_bytes": "bytes that ld reads from another CTA of the cluster",
    "dsmem_store_bytes": "bytes that st writes to another CTA of the cluster",
    "dsmem_load_sectors": "32-byte sectors that those loads touch, each counted once a request",
    "dsmem_store_sectors": "32-byte sectors that st and st.async touch in another CTA",
    "dsmem_copy_bytes": "bytes of bulk copies from one CTA's shared memory to another's",
    "dsmem_reduce_bytes": "bytes of bulk reductions into another CTA's shared memory",
    "dsmem_async_bytes": "bytes of st.async and red.async",
    "mbarrier_arrivals": "arrivals on mbarriers (a count operand counts that often)",
    "mbarrier_expected_bytes": "bytes announced by expect_tx",
    "mbarrier_completed_bytes": "bytes that asynchronous operations signalled",
    "mbarrier_phases": "phases that completed",
    "mbarrier_waits": "waits on mbarriers that warps passed",
    "mbarrier_blocked": "waits that found their phase incomplete and parked the warp",
    "mma_sync": "mma.sync by warps",
    "wmma": "wmma.mma by warps",
    "wgmma": "wgmma.mma_async by warpgroups",
    "wgmma_wavefronts": "wavefronts in which they read their operands from shared memory",
    "setmaxnreg_dec": "warps that gave registers back",
    "setmaxnreg_inc": "warps that took registers",
    "peak_registers": "most registers a thread held in any launch, as ptxas and setmaxnreg say",
}
"""Every counter and what it counts. Classes of instructions are counted as warp_instructions_<class>."""

CLASSES = ("integer", "float", "convert", "move", "memory", "async_copy", "tensor", "mbarrier", "barrier", "warp", "control", "other")
COUNTERS |= {f"warp_instructions_{name}": f"warp_instructions of the class {name}" for name in CLASSES}


@dataclass(frozen=True)
class Counted:
    """What one instruction counted: kernel, `place` (file:line, and the wrapper it was inlined from), PTX line, opcode, the integer constants among its
    operands, and amounts by counter name."""

    kernel: str
    place: str
    ptx_line: int
    opcode: str
    constants: tuple[int, ...]
    counts: dict[str, int]

    def __getitem__(self, name: str) -> int:
        return self.counts.get(name, 0)


class Counters(dict):
    """Totals by counter name; a counter that nothing added to is 0, an unknown name is a KeyError that lists the known ones.

    by_line(), by_instruction() and by_launch() give the parts that belong to one place.
    """

    def __init__(self) -> None:
        super().__init__()
        self._instructions: dict[tuple, Counted] = {}
        self._launches: list[tuple[str, dict[str, int]]] = []
        self._pending: list[tuple] = []

    def __missing__(self, name: str) -> int:
        if name in COUNTERS:
            return 0
        raise KeyError(f"no counter {name!r}; there are: {', '.join(COUNTERS)}")

    def add(self, name: str, amount: int) -> None:
        """Add to a total. Raises KeyError for a name without a row in COUNTERS."""
        if name not in COUNTERS:
            raise KeyError(f"counter {name!r} has no row in COUNTERS")
        self[name] = dict.get(self, name, 0) + int(amount)

    def raise_to(self, name: str, amount: int) -> None:
        """Keep the largest amount seen."""
        self[name] = max(dict.get(self, name, 0), int(amount))

    def add_instructions(self, kernel: str, body: list, detail: dict[int, dict[str, int]], spans: list, runs: list[int]) -> None:
        """Keep what the instructions of a launch counted; it is sorted out when somebody asks.

        body: the kernel's instructions; detail: amounts by index in it; spans, runs: blocks, and how many warps ran each.
        """
        self._pending.append((kernel, body, detail, spans, runs))

    def _sorted_out(self) -> dict[tuple, Counted]:
        pending, self._pending = self._pending, []
        for kernel, body, detail, spans, runs in pending:
            for (start, end), count in zip(spans, runs):
                for index in range(start, end if count else start):
                    detail.setdefault(index, {})["warp_instructions"] = count
            for index, counts in detail.items():
                if index is None:
                    continue
                instr = body[index]
                constants = tuple(operand.value for operand in instr.operands if isinstance(operand, Imm) and isinstance(operand.value, int))
                key = (kernel, place(instr), instr.ptx_line, instr.opcode, constants)
                known = self._instructions.setdefault(key, Counted(*key, {})).counts
                for name, amount in counts.items():
                    known[name] = known.get(name, 0) + int(amount)
        return self._instructions

    def add_launch(self, kernel: str, counts: dict[str, int]) -> None:
        """Keep the totals of one launch."""
        self._launches.append((kernel, counts))

    def by_instruction(self, name: str | None = None) -> list[Counted]:
        """Every instruction that counted something (that counted `name`), in the order of the PTX."""
        found = [c for c in self._sorted_out().values() if name is None or c.counts.get(name)]
        return sorted(found, key=lambda c: (c.kernel, c.ptx_line))

    def by_line(self, name: str | None = None) -> dict:
        """{file:line: {counter: amount}}, or {file:line: amount} of one counter, in the order of the PTX."""
        lines: dict[str, dict[str, int]] = {}
        for counted in self.by_instruction(name):
            into = lines.setdefault(counted.place.split(" (in ")[0], {})
            for key, amount in counted.counts.items():
                into[key] = into.get(key, 0) + amount
        return lines if name is None else {place: counts[name] for place, counts in lines.items()}

    def by_launch(self) -> list[tuple[str, dict[str, int]]]:
        """(kernel, totals) of every launch, in order."""
        return list(self._launches)

    def table(self) -> str:
        """All totals as text, one per line."""
        return "\n".join(f"{name:28} {amount:>14,}" for name, amount in sorted(self.items()))
