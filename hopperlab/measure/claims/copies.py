# SPDX-License-Identifier: Apache-2.0
"""Claims 1 to 18: TMA, who issues it, what it costs, what a tensor map can and cannot say. Each function settles one from Data."""
from __future__ import annotations

from ...runtime.compile.assembles import assembles
from ...runtime.errors import ToolchainError
from .claim import FALSE, HOLDS, OPEN, Claim, Data, Finding, when

BOX = "step=box of 64 x 64"
TILE = "step=k-tile of 128 x 128 x 64"
MAP = "cuTensorMapEncodeTiled"
ROWS = "{%0, %0, %0, %0, %0}"
GATHER4 = f"cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%0], [%1, {ROWS}], [%0];"
SCATTER4 = f"cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%1, {ROWS}], [%0];"


def _one_thread(data: Data) -> Finding:
    tma, cp = (data.value("micro", kernel, BOX, "class=all") for kernel in ("tma_load", "cp_async_load"))
    registers = [max(r.registers for r in data.all("tma_vs_cp_async", kernel)) for kernel in ("tma_load", "cp_async_load")]
    return Finding(f"a box of 64 x 64 bf16 takes {tma:.0f} warp instructions by TMA and {cp:.0f} by cp.async ({cp / tma:.0f} times); registers per "
                   f"thread {registers[0]} and {registers[1]}", HOLDS if cp > 2 * tma and registers[0] < registers[1] else FALSE)


def _same_bandwidth(data: Data) -> Finding:
    crowded = [r for r in data["tma_vs_cp_async"] if r.kernel == "tma_load" and "blocks_per_sm=1" not in r.options]
    ratios = {r.shape[0] * r.shape[1] * 2: r.ratio for r in sorted(crowded, key=lambda r: -r.shape[0] * r.shape[1])}
    enough = None
    for size, ratio in ratios.items():
        if abs(ratio - 1) > 0.05:
            break
        enough = size
    text = f"TMA over cp.async with as many blocks as fit: {min(ratios.values()):.2f} to {max(ratios.values()):.2f} by box"
    if enough is None:
        return Finding(text, FALSE)
    return Finding(text, HOLDS if enough == min(ratios) else when(f"boxes have {enough} bytes or more; smaller ones copy faster by TMA"))


def _address_count(data: Data, kernel: str, step: str = TILE) -> float:
    """Instructions for integers, conversions and moves that warps execute for one more box or k-tile."""
    return sum(data.value("micro", kernel, step, f"class={c}") for c in ("integer", "convert", "move"))


def _address_share(data: Data, kernel: str) -> float:
    return _address_count(data, kernel) / data.value("micro", kernel, TILE, "class=all")


def _address_work(data: Data) -> Finding:
    """TMA's own share: what a copy costs with it and without, and what goes from a product when its copies change, not what stays of the product."""
    alone = [_address_count(data, kernel, BOX) for kernel in ("cp_async_load", "tma_load")]
    mma = [_address_count(data, kernel) for kernel in ("cp_async_mma", "tma_mma")]
    wgmma = [_address_count(data, kernel) for kernel in ("cp_async_wgmma", "warp_specialized")]
    return Finding(f"instructions for integers, conversions and moves (PTX): a box of 64 x 64 takes {alone[0]:.0f} by cp.async and "
                   f"{alone[1]:.0f} by TMA; a k-tile of a product loses {mma[0] - mma[1]:.0f} of {mma[0]:.0f} beside mma.sync and "
                   f"{wgmma[0] - wgmma[1]:.0f} of {wgmma[0]:.0f} beside wgmma. What stays there makes addresses of fragments and descriptors",
                   FALSE if alone[1] > 0.5 * alone[0] else when("said of the copy itself; what multiplies computes addresses of its own")
                   if wgmma[1] > 0.05 * wgmma[0] else HOLDS)


def _ranks(data: Data) -> Finding:
    right = [r.options[0] for r in data["micro"].where(kernel="tensor_copy", suite="ranks") if r.outcome == "right"]
    wide = data.find("micro", "ptxas sm_90a", "cp.async of 32 bytes").outcome
    return Finding(f"TMA copied {len(right)} of 5 ranks right; a cp.async of 32 bytes is {wide}: it copies up to 16 bytes and knows no dimension",
                   when("said of TMA; cp.async has no dimensions at all, the loop around it has") if len(right) == 5 else FALSE)


def _reduces(data: Data) -> Finding:
    places: dict[str, int] = {}
    for record in data["micro"].where(suite="reductions"):
        if record.outcome == "right":
            place = next(o for o in record.options if o.startswith("into=")).removeprefix("into=").split(",")[0]
            places[place] = places.get(place, 0) + 1
    into_own = any("own" in place or "this CTA" in place for place in places)
    return Finding("right results: " + ", ".join(f"{count} operations and types into {place}" for place, count in places.items())
                   + "; the arithmetic is done where the data arrives, on the way out; no load reduces", HOLDS if into_own else FALSE)


def _layouts(data: Data) -> Finding:
    views = {r.options[0].removeprefix("view="): r.outcome for r in data.all("micro", "tensor_copy", suite="layouts") if r.options[0].startswith("view=")}
    said = ", ".join(f"{view}: {outcome}" for view, outcome in views.items())
    dense = views["innermost axis exchanged"] == "refused" and views["outer axes exchanged"] == "right"
    return Finding(f"one compiled kernel, several maps: {said}", when("the innermost axis stays dense: a map does not transpose it") if dense else HOLDS)


def _alignment(data: Data) -> Finding:
    outcome = {r.options[0]: r.outcome for r in data["micro"].where(kernel=MAP)}
    asked = ("address + 8 bytes", "address + 16 bytes", "stride 120 bytes", "stride 112 bytes", "box of 12 elements (24 bytes)",
             "box of 3 rows", "tensor of 63 columns", "box of 257 rows")
    free = [name for name in ("box of 3 rows", "tensor of 63 columns") if outcome[name] == "accepted"]
    return Finding("; ".join(f"{name}: {outcome[name]}" for name in asked) + "; shared memory 128 bytes; of the coordinates only the innermost",
                   when("said of the address, the strides, the box's innermost edge and its coordinate; other edges and coordinates are free")
                   if free else HOLDS)


def _address_formula(data: Data) -> Finding:
    outcomes = {r.options[0]: r.outcome for r in data.all("micro", "tma_landing", suite="layouts")}
    right, stepped = all(o == "right" for o in outcomes.values()), outcomes["load=element strides (3, 1)"] == "right"
    return Finding(f"boxes with corners inside and outside landed where base + coordinate x stride says: {'all' if right else 'not all'} of them. With "
                   f"element strides (3, 1) the box {'starts where it does without them and takes every third row' if stepped else 'landed elsewhere'}: "
                   "the corner is not multiplied by the element stride",
                   FALSE if not right else when("said of an element's address, in tile mode (im2col adds its offsets); the start of a box does not scale with "
                                                "the element stride"))


def _negative(data: Data) -> Finding:
    load = data.find("micro", "tma_landing", "load=corner (-3, 8)").outcome
    return Finding(f"a load at (-3, 8) is {load}, with fill; a store at a negative coordinate is an illegal instruction (lesson 07). A "
                   "store has no fill and no barrier with bytes, it may reduce, and at the innermost far edge it clips in pieces of 16 bytes",
                   when("said of the coordinates; a store is the mirror of a load but for its edges") if load == "right" else FALSE)


def _element_strides(data: Data) -> Finding:
    outcome = data.find("micro", "tma_landing", "load=element strides (3, 1)").outcome
    return Finding(f"element strides (3, 1): every third row is taken and the box lands smaller ({outcome}); boxes overlap by their coordinates, "
                   "with or without it", FALSE if outcome == "right" else OPEN)


def _interleave(data: Data) -> Finding:
    names = [" ".join(r.options) for r in data.all("micro", "tensor_copy", suite="layouts") if r.options[0].startswith("interleave=") and r.outcome == "right"]
    return Finding(f"there are two, of 16 and 32 bytes; tried and right: {', '.join(names)}; the tensor must lie interleaved in memory already",
                   when("the words 16 and 32 bytes replace 8 and 16: TMA indeed converts nothing") if names else OPEN)


def _on_blackwell(ptx: str) -> bool:
    """Whether the assembler takes a statement for sm_100a; where there is none to ask, it did when this was written (CUDA 13.0)."""
    try:
        return assembles(ptx, "sm_100a")
    except ToolchainError:
        return True


def _gather(data: Data) -> Finding:
    told = [r.outcome for r in data["micro"].where(kernel="ptxas sm_90a") if "gather4" in r.options[0] or "scatter4" in r.options[0]]
    later = ["accepted" if _on_blackwell(ptx) else "refused" for ptx in (GATHER4, SCATTER4)]
    return Finding(f"gather4 and scatter4 for sm_90a: {', '.join(told)}; for sm_100a: {', '.join(later)} (lesson 18)",
                   HOLDS if set(told) != {"refused"} else when("said of Blackwell (sm_100); Hopper's TMA has neither") if set(later) == {"accepted"} else FALSE)


def _descriptor(data: Data) -> Finding:
    cold = {place: data.value("micro", "descriptor_fetch", f"place={place}", "prefetch=0", "use=first") for place in ("parameter", "constant", "global")}
    warm = data.value("micro", "descriptor_fetch", "place=global", "prefetch=0", "use=second")
    fetched = data.value("micro", "descriptor_fetch", "place=global", "prefetch=1", "use=first")
    return Finding("first use: " + ", ".join(f"{place} {cycles:.0f}" for place, cycles in cold.items()) + f" cycles; afterwards {warm:.0f}; "
                   f"prefetched {fetched:.0f}", when("it is in global memory; as a kernel parameter a cold one costs little")
                   if cold["global"] > warm * 1.5 > cold["parameter"] else HOLDS if cold["global"] > warm * 1.2 else FALSE)


def _splits(data: Data) -> Finding:
    pairs = []
    for record in data.all("micro", "tma_latency", "HOW=tensor", "from=L2"):
        bulk = data.value("micro", "tma_latency", "HOW=bulk", "from=L2", shape=record.shape)
        pairs.append((record.value, bulk))
    worst = max(abs(tensor / bulk - 1) for tensor, bulk in pairs)
    far = {2 * r.shape[0] * r.shape[1]: r.value for r in data.all("micro", "tma_latency", "HOW=tensor", "from=memory")}
    lines = max(far) // 128
    at_once = lines * far[min(far)] / far[max(far)]
    figures = (f"128 bytes from memory take {far[min(far)]:.0f} cycles, the {lines} lines of 64 KiB together {far[max(far)]:.0f}: some {at_once:.0f} "
               f"are under way at a time. Tensor copy against plain bulk copy, 128 bytes to 64 KiB from the L2: within {worst:.0%} of each other")
    if at_once < 2:
        return Finding(figures, FALSE)
    return Finding(figures, HOLDS if worst >= 0.1 else when("said of the splitting; that the plain copy skips something does not show in its time"))


def _multicast(data: Data) -> Finding:
    sectors = {c: data.value("micro", "multicast_load", f"CLUSTER={c}", "MULTICAST=1", "metric=lts__t_sectors_srcunit_tex_op_read.sum") for c in (2, 4, 8)}
    gain = {c: data.value("micro", "multicast_load", f"CLUSTER={c}", "MULTICAST=1", suite="multicast")
            / data.value("micro", "multicast_load", f"CLUSTER={c}", "MULTICAST=0", suite="multicast") for c in (2, 4, 8)}
    arrived = {c: data.value("micro", "multicast_load", f"CLUSTER={c}", "MULTICAST=1", "metric=l1tex__m_xbar2l1tex_read_bytes.sum") for c in sectors}
    shares = {c: sectors[c] * 32 / arrived[c] for c in sectors}
    exact = all(abs(share * c - 1) < 0.02 for c, share in shares.items())
    text = ("the L2 delivers " + ", ".join(f"1/{1 / share:.0f}" for share in shares.values()) + " of what arrives in clusters of 2, 4, 8; speed "
            + ", ".join(f"{g:.2f}" for g in gain.values()) + " times that without multicast")
    return Finding(text, FALSE if not exact else HOLDS if max(gain.values()) > 1.5 else
                   when(f"said of traffic; time gains less: {max(gain.values()):.2f} times the speed at best"))


def _made_in_kernel(data: Data) -> Finding:
    """No measurement: what the driver API and the PTX ISA say."""
    cold = data.value("micro", "descriptor_fetch", "place=parameter", "prefetch=0", "use=first")
    return Finding(f"by the documents: the host encodes a map (cuTensorMapEncodeTiled) and passes it by value (first use {cold:.0f} cycles); no instruction "
                   "encodes one, but tensormap.replace writes single fields (lesson 07), and Triton's kernels make whole maps that way from 128 zero bytes",
                   when("each field of 128 zero bytes is written by tensormap.replace, and the map is published with its fences"))


def _wait_group(data: Data) -> Finding:
    landed, group = (data.value("micro", "tma_latency", f"wait={how}") for how in ("mbarrier", "cp.async.bulk.wait_group"))
    return Finding(f"a load had landed after {landed:.0f} cycles; cp.async.bulk.wait_group returned after {group:.0f}: loads belong to no bulk group",
                   FALSE if group < 0.6 * landed else HOLDS)


def _provenance(data: Data) -> Finding:
    share = _address_share(data, "cp_async_mma")
    return Finding(f"no survey of developers' time is named anywhere we looked; what can be counted: {share:.0%} of the PTX instructions of our "
                   "cp.async and mma.sync product are integers, conversions and moves", OPEN)


CLAIMS = (
    Claim(1, "One thread issues TMA, a whole warp cp.async: that saves instructions and registers.", "05", _one_thread),
    Claim(2, "TMA has the bandwidth of cp.async: only who computes addresses changes.", "05", _same_bandwidth),
    Claim(3, "With TMA, address work vanishes.", "09", _address_work),
    Claim(4, "cp.async copies one or two dimensions, TMA up to five.", "05", _ranks),
    Claim(5, "TMA can reduce before the data enters shared memory.", "07", _reduces),
    Claim(6, "A tensor map makes layout changes easy, even transposes, without compiling again.", "05", _layouts),
    Claim(7, "Box edges, strides and coordinates must be 16-byte aligned, shared memory 128-byte aligned.", "05", _alignment),
    Claim(8, "An element's address is base + sum of coordinate x stride; a box starts at coordinate x element stride.", "05", _address_formula),
    Claim(9, "Load coordinates may be negative, store coordinates not; otherwise a store mirrors a load.", "07", _negative),
    Claim(10, "elementStrides lets boxes overlap.", "05", _element_strides),
    Claim(11, "Interleave layouts of 8 and 16 bytes suit channel-sliced tensors; TMA does not convert.", "06x", _interleave),
    Claim(12, "gather4 and scatter4 are modes of TMA.", "18", _gather),
    Claim(13, "The descriptor lies in global memory and is cached; a cold one costs.", "05x", _descriptor),
    Claim(14, "TMA splits large requests and tracks them; a plain bulk copy skips descriptor and set-up.", "05x", _splits),
    Claim(15, "Multicast reduces L2 traffic in proportion to the cluster, and time with it.", "12", _multicast),
    Claim(16, "Thread 0 of the kernel initialises the tensor map.", "05", _made_in_kernel),
    Claim(17, "cp.async.bulk.wait_group completes TMA loads.", "07", _wait_group),
    Claim(18, "90 % of developers' time and over 10 % of performance go into data access.", "09", _provenance),
)
