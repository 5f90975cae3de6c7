"""Measure the fp8 ladder on this machine: `python -m hopperlab.measure.fp8 [--out DIR] [--rounds N]`, or `hopperlab bench fp8`.

Needs a Hopper GPU, CuPy and PyTorch. Every step and configuration is first checked in a process of its own with a time limit; then
what passed is timed beside cuBLASLt's block-scaled product (through torch._scaled_mm), and DeepGEMM's where sgl-deep-gemm is installed,
interleaved, with a cold L2, and written as the recording `fp8`: configurations over the shapes (those with a note; launches_fp8.choose reads them), the steps at two sizes, the last step
over all shapes, what the tensor core's own sums lose over k (kernel `accuracy`), and wgmma while TMA writes into the shared memory that it reads
(`wgmma_beside_copies`).
"""
from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from . import checked
from . import launches_fp8 as fp8
from . import micro_launches as micro
from .bench_facts import beside, facts, flop, tflops, times
from .launches import Launch
from .launches_fp8 import DEEP, NARROW, SHORT, TALL, BlockScaled
from .micro_records import numbered, sampled
from .recordings import Record
from .timing import Sample, interleaved

SHAPES = ((1024,) * 3, (2048,) * 3, (4096,) * 3, (8192,) * 3, (16384,) * 3, (4096, 7168, 2048), (4096, 4096, 14336), (128, 7168, 18432))
STEP_SHAPES = ((4096,) * 3, (8192,) * 3)
CHECK_SHAPES = ((1, 8, 16), (130, 264, 144), (515, 776, 1040), (2176, 2312, 1104))
BESIDE_N, BESIDE_ROUNDS = (32, 64, 128, 256), 512
ACCURACY_K = (128, 256, 512, 1024, 2048, 4096, 8192, 16384)

PAIR, ALONE = BlockScaled(), BlockScaled(cluster_n=1)
CONFIGURATIONS: Mapping[str, BlockScaled] = {
    "pair": PAIR, "pair, one part": replace(PAIR, parts=1), "alone": ALONE, "alone, one part": replace(ALONE, parts=1), "a CTA a tile": replace(ALONE, group=0),
    "tall": replace(TALL, cluster_n=1), "tall, group 16": replace(TALL, cluster_n=1, group=16), "tall a tile": replace(TALL, cluster_n=1, group=0),
    "tall, unrolled": replace(DEEP, cluster_n=1), "tall pair": TALL, "tall pair a tile": replace(TALL, group=0), "tall pair, group 4": replace(TALL, group=4),
    "tall pair, a slot": replace(TALL, stages=4, c_slots=1), "tall pair, 128B": replace(TALL, promotion=128), "tall pair, unrolled": DEEP,
    "tall pair, unrolled, group 4": replace(DEEP, group=4), "tall pair, unrolled, group 16": replace(DEEP, group=16), "tall pair, unrolled, 128B": replace(DEEP, promotion=128),
    "128 x 64": NARROW, "128 x 64, B once": replace(NARROW, stream_b=1), "128 x 64, B once, 128B": replace(NARROW, stream_b=1, promotion=128),
    "128 x 64, 128B": replace(NARROW, promotion=128), "64 x 128": SHORT, "64 x 128, B once": replace(SHORT, stream_b=1), "64 x 128, 256B": replace(SHORT, promotion=256)}
FEW = tuple(name for name in CONFIGURATIONS if name.startswith(("128 x 64", "64 x 128")))
SOME = ("pair", "alone", "a CTA a tile", "tall", "tall a tile", "tall pair", "tall pair a tile", "tall pair, unrolled")
MANY = ("pair", "alone", *(name for name in CONFIGURATIONS if name.startswith("tall") and not name.endswith("a tile")))
TRIED = {SHAPES[0]: FEW, SHAPES[1]: SOME, SHAPES[7]: FEW}


def operands(shape: tuple[int, int, int], seed: int = 11) -> dict:
    """Random normal operands, quantised by PyTorch on the GPU: CuPy arrays a, b (uint8 bits), a_scales, b_scales, c, and the tensors they share memory with."""
    import cupy
    import torch
    m, n, k = shape
    blocks, rows, columns = -(-k // fp8.BLOCK), -(-m // 4) * 4, -(-n // fp8.BLOCK)
    made = torch.Generator(device="cuda").manual_seed(seed)
    a = torch.randn(m, k, device="cuda", generator=made)
    b = torch.randn(n, k, device="cuda", generator=made)
    wide = torch.nn.functional.pad(a, (0, blocks * fp8.BLOCK - k)).view(m, blocks, fp8.BLOCK)
    of_a = (wide.abs().amax(2) / fp8.LARGEST).clamp_min(1e-30)
    tall = torch.nn.functional.pad(b, (0, blocks * fp8.BLOCK - k, 0, columns * fp8.BLOCK - n)).view(columns, fp8.BLOCK, blocks, fp8.BLOCK)
    of_b = (tall.abs().amax((1, 3)) / fp8.LARGEST).clamp_min(1e-30)
    a8 = (wide / of_a[:, :, None]).view(m, -1)[:, :k].contiguous().to(torch.float8_e4m3fn)
    b8 = (tall / of_b[:, None, :, None]).view(columns * fp8.BLOCK, -1)[:n, :k].contiguous().to(torch.float8_e4m3fn)
    del a, b, wide, tall
    a_scales = torch.zeros(blocks, rows, device="cuda")
    a_scales[:, :m] = of_a.T
    c = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    torch.cuda.synchronize()
    tensors = {"a": a8, "b": b8, "a_scales": a_scales, "b_scales": of_b.contiguous(), "c": c}
    return {"tensors": tensors, **{name: cupy.asarray(t.view(torch.uint8) if t.dtype == torch.float8_e4m3fn else t.view(torch.int16) if name == "c" else t)
                                   for name, t in tensors.items()}} | {"c": cupy.asarray(c.view(torch.int16)).view("uint16")}


def cublaslt(given: Mapping) -> Callable[[], None]:
    """torch._scaled_mm with the same scales, which calls cuBLASLt's block-scaled product, into the same c."""
    import torch
    t = given["tensors"]
    m = t["a"].shape[0]
    a_scales = t["a_scales"][:, :m].contiguous().t()        # m x k-blocks, one column after the other, as it wants them
    return lambda: torch._scaled_mm(t["a"], t["b"].t(), scale_a=a_scales, scale_b=t["b_scales"].t(), out_dtype=torch.bfloat16, out=t["c"])


def cublaslt_tensor(given: Mapping) -> Callable[[], None]:
    """torch._scaled_mm with one scale and fast accumulation: what tensor_scale.cu computes."""
    import torch
    t, one = given["tensors"], torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(t["a"], t["b"].t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True, out=t["c"])


def deepgemm(given: Mapping) -> Callable[[], None] | None:
    """DeepGEMM's product with the same scales (package sgl-deep-gemm), into the same c; None where it is not installed."""
    try:
        import deep_gemm
    except (ImportError, OSError):                          # OSError: built for another PyTorch
        return None
    t = given["tensors"]
    a_scales = t["a_scales"].t()[:t["a"].shape[0]]          # m x k-blocks, one column after the other, as it wants them
    return lambda: deep_gemm.fp8_gemm_nt((t["a"], a_scales), (t["b"], t["b_scales"]), t["c"], None, disable_ue8m0_cast=True)


def _exact(given: Mapping, scaled: bool = True):
    """The product in fp32 by PyTorch (TF32 off), from the quantised operands."""
    import torch
    torch.backends.cuda.matmul.allow_tf32 = False
    t = given["tensors"]
    (m, k), n = t["a"].shape, t["b"].shape[0]
    left, right = t["a"].float(), t["b"].float()
    if scaled:
        left *= t["a_scales"][:, :m].T.repeat_interleave(fp8.BLOCK, 1)[:, :k]
        right *= t["b_scales"].repeat_interleave(fp8.BLOCK, 0)[:n].repeat_interleave(fp8.BLOCK, 1)[:, :k]
    return left @ right.T


def wrong(given: Mapping, run: Callable[[], None], scaled: bool = True, loose: float = 2.0 ** -9) -> float:
    """Share of elements further from the fp32 product than one rounding to bf16 (2^-9, doubled) and `loose` of the products' root mean square."""
    import torch
    given["tensors"]["c"].fill_(float("nan"))
    torch.cuda.synchronize()
    run()
    torch.cuda.synchronize()
    exact = _exact(given, scaled)
    scale = float(exact.square().mean().sqrt())
    return float((~((given["tensors"]["c"].float() - exact).abs() <= 2.0 ** -8 * exact.abs() + loose * scale)).float().mean())


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
    for shape in CHECK_SHAPES:
        given = operands(shape, sum(shape))
        launch = make(given)
        # The tensor core's own sums keep fewer bits: the step without promotion is held to a coarser bound.
        share = max(wrong(given, launch, name != "step tensor_scale", 2.0 ** -6 if name == "step tensor_scale" else 2.0 ** -9) for _ in range(3))
        if share:
            print(f"{name}: {share:.2%} wrong at {shape}")
            return 1
    print(f"{name}: right at {len(CHECK_SHAPES)} shapes")
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
        if share > 1e-3:
            raise RuntimeError(f"{peer} is not given the same product: {share:.2%} differs at {shape}")
    return made, interleaved(runs, rounds, 2)


def _records(shape, timed, options: Mapping[str, BlockScaled] = {}, noted: bool = False) -> list[Record]:
    made, samples = timed
    peer = "cuBLASLt block-scaled"
    out = []
    for name, sample in samples.items():
        own = name in made
        rival = "cuBLASLt tensor-wise" if name == "tensor_scale" else peer
        out.append(Record("fp8", "block_scaled" if noted and own else name, _named(options.get(name)), shape, "e4m3", **times(sample), tflops=tflops(shape, sample),
                          **beside(sample, rival, samples[rival], tflops(shape, samples[rival])), **facts(made.get(name)), note=name if noted and own else ""))
    return out


def _named(choice: BlockScaled | None) -> tuple[str, ...]:
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
                records.append(numbered("fp8", "wgmma_beside_copies", (*options, "copied"), copied, "bytes a cycle", probe.launch, shape=(64, n, 32), dtype="e4m3"))
    return records


def table(records: list[Record]) -> str:
    """One line a shape with the configurations, then the last step, wgmma beside copies, and accuracy."""
    lines = []
    for shape in SHAPES:
        tried = sorted((r for r in records if r.note and r.shape == shape and r.kernel == "block_scaled"), key=lambda r: -r.tflops)
        lines.append("x".join(map(str, shape)) + ": " + "; ".join(f"{r.note} {r.tflops:.0f} ({r.ratio:.3f})" for r in tried))
    lines += [f"{r.kernel:22s} {'x'.join(map(str, r.shape)):18s} {r.tflops:7.1f} TFLOP/s {r.ratio:.3f} [{r.ratio_min:.3f} {r.ratio_max:.3f}] of {r.peer}"
              for r in records if not r.note and r.tflops]
    lines += [f"{r.kernel} {' '.join(r.options)}: {r.value} {r.unit}" for r in records if r.kernel == "wgmma_beside_copies"]
    lines += [f"accuracy {r.options[1]:9s} k={r.shape[2]:6d} {r.options[0]:18s} mean {r.value:.2e} worst {r.value_max:.2e}" for r in records if r.kernel == "accuracy"]
    last = {r.shape: r.ratio for r in records if r.kernel == "final" and not r.note}
    if last:
        lines.append(f"final over {len(last)} shapes, geometric mean {prod(last.values()) ** (1 / len(last)):.4f} of cuBLASLt block-scaled")
    theirs = [r.ratio for r in records if r.kernel == "DeepGEMM"]
    if theirs:
        lines.append(f"DeepGEMM over {len(theirs)} shapes, geometric mean {prod(theirs) ** (1 / len(theirs)):.4f}")
    return "\n".join(lines)


def measure(rounds: int, right: set[str], keep: Callable[[list[Record]], None] = lambda records: None) -> list[Record]:
    """All records, those found so far given to `keep` after each shape."""
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
        last = {"final": lambda g, choice=best.get(shape): makers({"": choice})[""](g)} if shape in best else {}
        steps = {n.removeprefix("step "): _all_makers()[n] for n in right if n.startswith("step ") and n != "step block_scaled"} if shape in STEP_SHAPES else {}
        records += _records(shape, _timed(shape, steps | last, rounds if flop(shape) > 1 << 39 else 4 * rounds, others=True), {"final": best.get(shape)})
        keep(records)
    records += accuracy() + beside_copies(rounds)
    keep(records)
    from . import fp8_grouped                               # which is made of what stands above
    records += fp8_grouped.records(rounds)
    keep(records)
    return records


def main(arguments: list[str] | None = None) -> int:
    """Command line."""
    return checked.command("fp8", __doc__, check, _all_makers, measure, table, arguments)


if __name__ == "__main__":
    sys.exit(main())
