# SPDX-License-Identifier: Apache-2.0
"""The fp8 ladder, the recording `fp8`: `hopperlab bench fp8`.

Needs a Hopper GPU, CuPy and PyTorch. Every step and configuration is first checked in a process of its own with a time limit; then
what passed is timed beside cuBLASLt's block-scaled product (through torch._scaled_mm), and DeepGEMM's where sgl-deep-gemm is installed,
interleaved, with a cold L2, and written as the recording `fp8`: configurations over the shapes (those with a note; launches/fp8.choose reads them),
the steps at two sizes, the last step over all shapes, what the tensor core's own sums lose over k (kernel `accuracy`), and wgmma while TMA writes into the
shared memory that it reads (`wgmma_beside_copies`).
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from .. import summaries
from ...runtime.tables import text_table
from . import fp8_grouped, prechecked
from ..launches import fp8
from ..launches import micro
from .fp8_operands import cublaslt, cublaslt_tensor, deepgemm, operands, wrong
from .fields import beside, facts, flop, tflops, times
from ..launches.launch import Launch
from ..launches.fp8 import DEEP, HIGH, NARROW, SHORT, TALL, BlockScaled
from .micro_records import numbered, sampled
from ..recordings import Record
from ..machine.timing import Sample, interleaved

SHAPES = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (16384,) * 3, (4096, 7168, 2048), (4096, 4096, 14336), (128, 7168, 18432))
STEP_SHAPES = ((4096,) * 3, (8192,) * 3)
CHECK_SHAPES = ((1, 8, 16), (130, 264, 144), (515, 776, 1040), (2176, 2312, 1104))
PEERS_MAY = 1e-3                        # share of a peer's elements that may be further off than ours may: its sums are kept otherwise
BESIDE_N, BESIDE_ROUNDS = (32, 64, 128, 256), 512
ACCURACY_K = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)

PAIR, ALONE = BlockScaled(), BlockScaled(cluster_n=1)
CONFIGURATIONS: Mapping[str, BlockScaled] = {
    "pair": PAIR, "pair, one part": replace(PAIR, parts=1), "alone": ALONE, "alone, one part": replace(ALONE, parts=1), "a CTA per tile": replace(ALONE, group=0),
    "tall": replace(TALL, cluster_n=1), "tall, group 16": replace(TALL, cluster_n=1, group=16), "tall a tile": replace(TALL, cluster_n=1, group=0),
    "tall, unrolled": replace(DEEP, cluster_n=1), "tall pair": TALL, "tall pair a tile": replace(TALL, group=0), "tall pair, group 4": replace(TALL, group=4),
    "tall pair, a slot": replace(TALL, stages=4, c_slots=1), "tall pair, 128B": replace(TALL, promotion=128), "tall pair, unrolled": DEEP,
    "tall pair, unrolled, group 4": replace(DEEP, group=4), "tall pair, unrolled, group 16": replace(DEEP, group=16),
    "tall pair, unrolled, 128B": replace(DEEP, promotion=128),
    "128 x 64": NARROW, "128 x 64, B once": replace(NARROW, stream_b=1), "128 x 64, B once, 128B": replace(NARROW, stream_b=1, promotion=128),
    "128 x 64, 128B": replace(NARROW, promotion=128), "64 x 128": SHORT, "64 x 128, B once": replace(SHORT, stream_b=1), "64 x 128, 256B": replace(SHORT, promotion=256),
    "192 x 128": replace(HIGH, cluster_n=1), "192 x 128 pairs": HIGH, "k by 2, 128 x 128": replace(ALONE, group=0, split=2), "k by 3, 64 x 128": replace(SHORT, split=3),
    "k by 8, 64 x 128": replace(SHORT, split=8), "k by 4, 128 x 64": replace(NARROW, split=4)}
FEW = tuple(name for name in CONFIGURATIONS if name.startswith(("128 x 64", "64 x 128")))
SOME = ("pair", "alone", "a CTA per tile", "tall", "tall a tile", "tall pair", "tall pair a tile", "tall pair, unrolled")
MANY = ("pair", "alone", *(name for name in CONFIGURATIONS if name.startswith("tall") and not name.endswith("a tile")))
TRIED = {SHAPES[0]: FEW, SHAPES[1]: SOME, SHAPES[7]: FEW}


def makers(names: Mapping[str, BlockScaled]) -> dict[str, Callable[[Mapping], Launch]]:
    """name -> a function of operands that gives the launch of that configuration."""
    def maker(choice):
        return lambda g: fp8.block_scaled(g["a"], g["b"], g["c"], g["a_scales"], g["b_scales"], choice)
    return {name: maker(choice) for name, choice in names.items()}


def _all_makers() -> dict[str, Callable[[Mapping], Launch]]:
    steps = {f"step {name}": (lambda g, make=make: make(g["a"], g["b"], g["c"], g["a_scales"], g["b_scales"])) for name, make in fp8.STEPS.items()}
    return {**steps, "step tensor_scale": lambda g: fp8.tensor_scale(g["a"], g["b"], g["c"]), **makers(CONFIGURATIONS)}


def check(name: str) -> int:
    """Check one step or configuration on this GPU; 0 when every element is right on CHECK_SHAPES."""
    make = _all_makers()[name]
    split = CONFIGURATIONS[name].split if name in CONFIGURATIONS else 1
    shapes = [shape for shape in CHECK_SHAPES if shape[2] > (split - 1) * fp8.BLOCK]            # a k-block at least for each part
    for shape in shapes:
        given = operands(shape, sum(shape))
        launch = make(given)
        # The tensor core's own sums keep fewer bits: the step without promotion is held to a coarser bound.
        share = max(wrong(given, launch, name != "step tensor_scale", 2.0 ** -6 if name == "step tensor_scale" else 2.0 ** -9) for _ in range(3))
        if share:
            print(f"{name}: {share:.2%} wrong at {shape}")
            return 1
    print(f"{name}: right at {len(shapes)} shapes")
    return 0


def _timed(shape, chosen: Mapping[str, Callable[[Mapping], Launch]], rounds: int, others: bool = False) -> tuple[dict[str, Launch], dict[str, Sample]]:
    given = operands(shape)
    made = {name: make(given) for name, make in chosen.items()}
    runs = {name: launch.bound() for name, launch in made.items()} | {"cuBLASLt block-scaled": cublaslt(given)}
    theirs = deepgemm(given) if others else None
    if theirs is not None:
        runs["DeepGEMM"] = theirs
    if "tensor_scale" in chosen:
        runs["cuBLASLt tensor-wise"] = cublaslt_tensor(given)
    for peer in {"cuBLASLt block-scaled", "DeepGEMM"} & set(runs):
        share = wrong(given, runs[peer])
        if share > PEERS_MAY:
            raise RuntimeError(f"{peer} is not given the same product: {share:.2%} differs at {shape}")
    return made, interleaved(runs, rounds, 2)


def _records(shape, timed, options: Mapping[str, BlockScaled] = {}, noted: bool = False) -> list[Record]:
    made, samples = timed
    peer = "cuBLASLt block-scaled"
    out = []
    for name, sample in samples.items():
        own = name in made
        rival = "cuBLASLt tensor-wise" if name == "tensor_scale" else peer
        out.append(Record("fp8", "block_scaled" if noted and own else name, named(options.get(name)), shape, "e4m3", **times(sample), tflops=tflops(shape, sample),
                          **beside(sample, rival, samples[rival], tflops(shape, samples[rival])), **facts(made.get(name)), note=name if noted and own else ""))
    return out


def named(choice: BlockScaled | None) -> tuple[str, ...]:
    """A configuration as options of a record; nothing for a peer."""
    return () if choice is None else (*(o[2:] for o in choice.options), f"BLOCKS={choice.blocks}", f"PROMOTION={choice.promotion}")


def accuracy() -> list[Record]:
    """Worst and typical error of 256 x 256 products over k, against float64: summed up by the tensor core alone, and promoted each 128."""
    import numpy as np
    import torch
    records = []
    for kind in ("normal", "positive", "outliers"):
        for k in ACCURACY_K:
            given = operands((256, 256, k), k)
            made = torch.Generator(device="cuda").manual_seed(k)
            for name in ("a", "b"):
                values = torch.randn(256, k, device="cuda", generator=made)
                values = values.abs() if kind == "positive" else values
                if kind == "outliers" and name == "a":
                    values[:, ::512] *= 64
                given["tensors"][name].copy_(values.clamp(-448, 448).to(torch.float8_e4m3fn))
            given["tensors"]["a_scales"].fill_(1)
            given["tensors"]["b_scales"].fill_(1)
            exact = given["tensors"]["a"].double() @ given["tensors"]["b"].double().T
            size = float(exact.square().mean().sqrt())
            runs = {"tensor core alone": fp8.tensor_scale(given["a"], given["b"], given["c"]),
                    "promoted": fp8.block_scaled(given["a"], given["b"], given["c"], given["a_scales"], given["b_scales"], ALONE)}
            for name, run in runs.items():
                run()
                torch.cuda.synchronize()
                error = (given["tensors"]["c"].double() - exact).abs() / size
                records.append(Record("fp8", "accuracy", (name, kind), (256, 256, k), "e4m3", value=float(error.mean()), value_max=float(error.max()),
                                      unit="of the products' root mean square", note="error against float64; the result is rounded to bf16"))
    assert all(np.isfinite(record.value) for record in records)
    return records


def beside_copies(rounds: int) -> list[Record]:
    """Cycles of one wgmma of 64 x N x 32 by two warpgroups of one SM, and bytes that TMA writes into its shared memory meanwhile, by N; without and with copies."""
    records = []
    for n in BESIDE_N:
        for copy_bytes in (0, 16384):
            probe = micro.wgmma_beside_copies(n, copy_bytes, rounds=BESIDE_ROUNDS, backend="gpu")
            options = (f"N={n}", f"COPY_BYTES={copy_bytes}")
            multiplied = sampled(probe, rounds, lambda out: [out[0] / (BESIDE_ROUNDS * 8)])
            records.append(numbered("fp8", "wgmma_beside_copies", (*options, "wgmma"), multiplied, "cycles", probe.launch, shape=(64, n, 32), dtype="e4m3"))
            if copy_bytes:
                copied = sampled(probe, rounds, lambda out, size=copy_bytes: [out[2] * size / out[1]])
                records.append(numbered("fp8", "wgmma_beside_copies", (*options, "copied"), copied, "bytes per cycle", probe.launch, shape=(64, n, 32), dtype="e4m3"))
    return records


def shown(records: Iterable[Record]) -> str:
    """One line a shape with the configurations, then the last step, wgmma beside copies, and accuracy; then the summaries over all shapes."""
    records, lines = list(records), []
    for shape in SHAPES:
        tried = sorted((r for r in records if r.note and r.shape == shape and r.kernel == "block_scaled"), key=lambda r: -r.tflops)
        lines.append("x".join(map(str, shape)) + ": " + "; ".join(f"{r.note} {r.tflops:.0f} ({r.ratio:.3f})" for r in tried))
    lines += text_table("{:22} {:18} {:7.1f} TFLOP/s {:.3f} [{:.3f} {:.3f}] of {}",
                        [(r.kernel, "x".join(map(str, r.shape)), r.tflops, r.ratio, r.ratio_min, r.ratio_max, r.peer) for r in records if not r.note and r.tflops])
    lines += [f"{r.kernel} {' '.join(r.options)}: {r.value} {r.unit}" for r in records if r.kernel == "wgmma_beside_copies"]
    lines += text_table("accuracy {:9} k={:6d} {:18} mean {:.2e} worst {:.2e}",
                        [(r.options[1], r.shape[2], r.options[0], r.value, r.value_max) for r in records if r.kernel == "accuracy"])
    for kernel in ("final", "DeepGEMM"):
        if mine := [r for r in records if r.kernel == kernel and not r.note]:
            lines.append(f"{kernel}, geometric mean: {summaries.of_records(mine)} of cuBLASLt block-scaled")
    return "\n".join(lines)


def measure(rounds: int, keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """All records, those found so far given to `keep` after each shape."""
    right = prechecked.right(__name__, _all_makers())
    records: list[Record] = []
    best: dict[tuple[int, ...], BlockScaled] = {}
    for shape in SHAPES:
        tried = {name: CONFIGURATIONS[name] for name in TRIED.get(shape, MANY) if name in right}
        found = _records(shape, _timed(shape, makers(tried), rounds if max(shape) > 2048 else 3 * rounds), tried, noted=True)
        records += [r for r in found if r.note]
        if tried:
            best[shape] = tried[max((r for r in found if r.note), key=lambda r: r.tflops).note]
        keep(records)
    for shape in SHAPES:
        last = {"final": lambda g, choice=best[shape]: makers({"": choice})[""](g)} if shape in best else {}
        steps = {n.removeprefix("step "): _all_makers()[n] for n in right if n.startswith("step ") and n != "step block_scaled"} if shape in STEP_SHAPES else {}
        records += _records(shape, _timed(shape, steps | last, rounds if flop(shape) > 1 << 39 else 4 * rounds, others=True), {"final": best.get(shape)})
        keep(records)
    records += accuracy() + beside_copies(rounds)
    keep(records)
    return records + fp8_grouped.records(rounds)
