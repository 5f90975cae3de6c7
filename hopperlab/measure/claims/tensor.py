# SPDX-License-Identifier: Apache-2.0
"""Claims 25 to 32: wgmma, its shapes, operands and registers, beside mma.sync. Each function settles one from Data."""
from __future__ import annotations

from .claim import FALSE, HOLDS, Claim, Data, Finding, when

PRODUCTS = 16 * 8 * 16                  # multiply-adds of an mma.sync m16n8k16
ACCEPTED = "ptxas sm_90a"


def _issue(data: Data) -> Finding:
    times = {name: [data.value("micro", kernel, f"instructions={words}", f"until={until}") for until in ("issued", "done")]
             for name, kernel, words in (("mma", "mma_rate", "mma.sync m16n8k16, 8"), ("wgmma", "wgmma_rate", "wgmma m64n256k16, 4"))}
    waits = times["mma"][0] > 0.95 * times["mma"][1]
    return Finding(f"8 mma.sync: issued after {times['mma'][0]:.0f} cycles, done after {times['mma'][1]:.0f}; 4 wgmma of N 256: {times['wgmma'][0]:.0f} and "
                   f"{times['wgmma'][1]:.0f}. mma.sync too returns before its result is there, but it is issued no faster than it is executed, by every warp",
                   HOLDS if waits else when("said of wgmma; mma.sync does not wait for its result either, only for room in the pipe"))


def _rate(data: Data, n: int) -> float:
    return 64 * n * 16 / data.value("micro", "wgmma_rate", f"N={n}", "A=SS", "warpgroups=2", "IN_FLIGHT=3", suite="wgmma_rate")


def _density(data: Data) -> Finding:
    rates = {n: _rate(data, n) for n in (8, 32, 64, 128, 256)}
    best_mma = max(PRODUCTS / r.value for r in data.all("micro", "mma_rate", suite="mma_rate"))
    enough = min(n for n, rate in rates.items() if rate > 0.97 * max(rates.values()))
    by_n = ", ".join(f"{n}: {rate:.0f}" for n, rate in rates.items())
    figures = f"multiply-adds per cycle and SM by N: {by_n}; mma.sync at best {best_mma:.0f}"
    if enough == 256:
        return Finding(figures, HOLDS)
    return Finding(figures, when(f"N is below {enough}; from there on the rate is the same, "
                                 "and only shared memory is read less"))


def _ldmatrix(data: Data) -> Finding:
    ss, rs = (data.find("variants", "wgmma_operands", f"A={source}", "A_major=K", "B_major=K", dtype="bf16").ratio for source in ("SS", "RS"))
    loads = {kernel: sum(r.value or 0 for r in data.all("micro", kernel, "step=k-tile of 128 x 128 x 64", "class=memory")) for kernel in ("cp_async_mma",
            "warp_specialized")}
    return Finding(f"loads from shared memory into registers for a k-tile: {loads['cp_async_mma']:.0f} warp instructions with mma.sync, "
                   f"{loads['warp_specialized']:.0f} with wgmma, which reads B, "
                   f"and A where it is not in registers, through descriptors. With A brought to registers by ldmatrix the same product runs at {rs / ss:.2f} "
                   f"of the speed",
                   HOLDS if loads["warp_specialized"] else FALSE)


def _shapes(data: Data) -> Finding:
    shapes = {r.options[0].removeprefix("wgmma "): r.outcome for r in data["micro"].where(kernel=ACCEPTED) if r.options[0].startswith("wgmma")}
    taken = [name for name, outcome in shapes.items() if outcome == "accepted"]
    return Finding(f"accepted: {', '.join(taken)}; refused: {', '.join(name for name in shapes if name not in taken)}. M is 64, K is 32 bytes; a tile is "
                   "multiplied by several, and the box must match the descriptor's layout, not the shape", HOLDS if "m128n128k128" in taken else FALSE)


def _inputs(data: Data) -> Finding:
    registers = {source: data.find("variants", "wgmma_operands", f"A={source}", "A_major=K", "B_major=K", dtype="bf16").registers for source in ("SS", "RS")}
    more, sums = registers["RS"] - registers["SS"], 64 * 128 // 128              # accumulators of 64 x 128 in a thread
    return Finding("for its inputs an instruction needs none (two descriptors of 64 bits) or, with A in registers, "
                   f"4 a thread for 16-bit types. The kernels have {registers['SS']} and {registers['RS']} "
                   f"registers per thread: {more} for the fragments that are in flight, beside {sums} accumulators", HOLDS if more >= sums else FALSE)


def _sgemm(data: Data) -> Finding:
    half, single = (data.value("micro", "wgmma_rate", "N=256", "A=SS", "warpgroups=2", suite="wgmma_inputs", dtype=kind) for kind in ("bf16", "tf32"))
    products = 64 * 256 * 16 / half, 64 * 256 * 8 / single
    error = data.find("variants", "wgmma_operands", "A=SS", "A_major=K", "B_major=K", dtype="tf32").value
    return Finding(f"wgmma takes fp32 data as tf32: {products[1]:.0f} multiply-adds per cycle and SM ({products[1] / products[0]:.2f} of bf16), relative error "
                   f"{error:.1e} where fp32 would have some 1e-6: 13 bits of the mantissa are dropped", when("tf32's 10 bits of mantissa are enough")
                   if error > 1e-5 else HOLDS)


def _release(data: Data) -> Finding:
    record = data.find("bugs", "warp_specialized", "BUG_EARLY_RELEASE")
    return Finding(f"a stage released before wgmma.wait_group: wrong in {record.wrong} of {record.runs} launches on an H200, in up to "
                   f"{100 * (record.worst or 0):.2g} % of the elements",
                   FALSE if record.wrong else HOLDS)


def _occupancy(data: Data) -> Finding:
    record = next(r for r in data["roles"] if r.note == "128x256, as at entry")
    alone, two = (data.value("micro", "wgmma_rate", "N=256", "A=SS", f"warpgroups={w}", "IN_FLIGHT=0", suite="wgmma_groups") for w in (1, 2))
    share = 128 / record.registers
    return Finding(f"128 accumulators are {share:.0%} of the {record.registers} registers of a 128 x 256 tile, so one block fits on an SM: 12 warps. Two "
                   f"warpgroups that wait after each product reach {alone / two:.2f} times the rate of one; asynchrony hides the rest", HOLDS if share >= 0.5 else FALSE)


CLAIMS = (
    Claim(25, "mma.sync blocks its warp until it completes, wgmma returns at once.", "08", _issue),
    Claim(26, "A larger instruction has a higher density of arithmetic.", "08", _density),
    Claim(27, "wgmma reads its operands with ldmatrix.", "08", _ldmatrix),
    Claim(28, "wgmma multiplies 128 x 128 x 128 and must match the TMA box.", "08", _shapes),
    Claim(29, "wgmma needs many registers for its inputs.", "08x", _inputs),
    Claim(30, "fp32 products run on wgmma.", "08x", _sgemm),
    Claim(31, "A stage may be released as soon as its wgmma is issued; one wait after the loop is enough.", "09", _release),
    Claim(32, "Accumulators take half the registers or more, so occupancy alone cannot hide latency.", "11", _occupancy),
)
