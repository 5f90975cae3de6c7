# SPDX-License-Identifier: Apache-2.0
"""The controls of the products, the recording `variants`: `hopperlab bench variants`.

The 2x2 of copies and tensor cores with joules, roles against none, depth and width of a stage,
C++ pipelines, and every operand of wgmma; each beside cuBLAS and interleaved. Needs a Hopper GPU. Every product is checked first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from ..machine import peers
from ..launches import variants
from .fields import beside, facts, load, tflops, times
from ..launches.launch import Launch, tma_wgmma, warp_specialized
from ..launches.operands import bf16_values, normal_bf16
from ..recordings import Record
from ..machine.timing import Sample, interleaved

Made = Mapping[str, tuple[str, tuple[str, ...], Launch]]  # name -> (kernel, options, launch)
SECONDS = 0.8  # of sustained running for joules


def _operands(shape: tuple[int, int, int]):
    import cupy

    m, n, k = shape
    return normal_bf16(cupy, (m, k), m + 1), normal_bf16(cupy, (n, k), n + 2), cupy.empty((m, n), cupy.uint16)


def _check(name: str, run: Callable[[], None], c, expected) -> None:
    c.fill(0x7FC0)
    run()
    ours, theirs = bf16_values(c), bf16_values(expected)
    error = float(abs(ours - theirs).max() / abs(theirs).max())
    if not error < 2e-2:
        raise AssertionError(f"{name}: largest error against cuBLAS is {error:.2e} of the largest result")


def _raced(suite: str, shape: tuple[int, int, int], operands, made: Made, rounds: int, joules: bool = False) -> list[Record]:
    """Check all of `made` against cuBLAS, then time them beside it, interleaved; with the energy of each where asked."""
    import cupy

    a, b, c = operands
    expected = cupy.empty_like(c)
    peers.cublas(a, b, expected)()
    runs = {name: launch.bound() for name, (_, _, launch) in made.items()} | {"cuBLAS": peers.cublas(a, b, c)}
    for name, run in runs.items():
        _check(name, run, c, expected)
    samples = interleaved(runs, rounds)
    peer = samples["cuBLAS"]
    entries = {**made, "cuBLAS": ("cuBLAS", (), None)}
    return [
        Record(
            suite,
            entries[name][0],
            entries[name][1],
            shape,
            "bfloat16",
            tflops=tflops(shape, sample),
            **times(sample),
            **beside(sample, "cuBLAS", peer, tflops(shape, peer)),
            **facts(entries[name][2]),
            **load(runs[name], SECONDS if joules else 0),
        )
        for name, sample in samples.items()
    ]


def two_by_two(rounds: int) -> list[Record]:
    """{cp.async, TMA} x {mma.sync, wgmma} on equal tiles and depth: two blocks per SM with 3 stages, one with 4 and 6; joules."""
    shape = (8192, 8192, 8192)
    a, b, c = operands = _operands(shape)
    made = {}
    for stages, blocks in ((3, 2), (4, 1), (6, 1)):
        for (copied, multiplied), make in variants.TWO_BY_TWO.items():
            fixed = (copied, multiplied) == ("TMA", "mma.sync")  # budgeted for two blocks in any case
            launch = make(a, b, c, stages=stages, blocks=2 if fixed else blocks)
            options = (f"copy={copied}", f"multiply={multiplied}", f"STAGES={stages}", f"blocks_per_sm={blocks}")
            made[f"{copied} {multiplied} {stages}"] = (_file(launch), options, launch)
    return _raced("two_by_two", shape, operands, made, rounds, joules=True)


def _file(launch: Launch) -> str:
    return Path(launch.kernel.module.name).stem


def roles(rounds: int) -> list[Record]:
    """One tile, the same stages: no roles, a producer warp, a producer warpgroup; and a producer that waits for its own loads."""
    records = []
    for size in (2048, 4096, 8192):
        shape = (size,) * 3
        a, b, c = operands = _operands(shape)
        made: dict[str, tuple[str, tuple[str, ...], Launch]] = {}
        for stages in (3, 4, 6):
            tag = (f"STAGES={stages}",)
            made |= {
                f"multistage {stages}": ("multistage", tag, variants.multistage(a, b, c, stages)),
                f"tma_wgmma {stages}": ("tma_wgmma", tag, tma_wgmma(a, b, c, stages)),
                f"warp_specialized {stages}": ("warp_specialized", tag, warp_specialized(a, b, c, stages)),
            }
            for warps in (1, 4):
                made[f"producer {warps} {stages}"] = (
                    "producer_warp",
                    (*tag, f"PRODUCER_WARPS={warps}"),
                    variants.producer_warp(a, b, c, stages, warps),
                )
            made[f"waits {stages}"] = (
                "producer_warp",
                (*tag, "PRODUCER_WARPS=1", "WAIT_FOR_OWN_LOAD=1"),
                variants.producer_warp(a, b, c, stages, 1, ("-DWAIT_FOR_OWN_LOAD=1",)),
            )
        records += _raced("roles", shape, operands, made, rounds)
    return records


def depth(rounds: int) -> list[Record]:
    """Stages and columns of k a stage of the multistage kernel: when a third buffer pays, and when wider ones do."""
    records = []
    for size in (1024, 4096):
        shape = (size,) * 3
        a, b, c = operands = _operands(shape)
        made = {}
        for bk, deepest in ((32, 8), (64, 7), (128, 3)):
            for stages in range(2, deepest + 1):
                made[f"{bk} {stages}"] = (
                    "multistage",
                    (f"STAGES={stages}", f"BK={bk}"),
                    variants.multistage(a, b, c, stages, bk),
                )
        records += _raced("depth", shape, operands, made, rounds)
    return records


def cuda_pipeline(rounds: int) -> list[Record]:
    """cp.async by hand, and by cuda::pipeline of a thread and of the block, on the same tiles."""
    shape = (4096,) * 3
    a, b, c = operands = _operands(shape)
    made = {}
    for stages in (3, 6):
        tag, wide = (f"STAGES={stages}",), stages == 3
        made[f"by hand {stages}"] = (
            "cp_async_mma",
            tag,
            variants.cp_async_mma(a, b, c, stages, () if wide else ("-DBLOCKS_PER_SM=1",)),
        )
        for scope in ("thread", "block"):
            made[f"{scope} {stages}"] = (
                "cuda_pipeline",
                (*tag, f"scope={scope}"),
                variants.cuda_pipeline(a, b, c, stages, scope),
            )
    return _raced("cuda_pipeline", shape, operands, made, rounds)


def _stored(kind: str, values, major: str):
    """float32 CuPy values as an operand of wgmma: fp8 and bf16 as bits, transposed for an MN-major one."""
    import cupy

    turned = cupy.ascontiguousarray(values.T if major == "MN" else values)
    if kind == "bf16":
        from ..launches.operands import bf16_bits

        return bf16_bits(turned)
    if kind == "e4m3":
        import ml_dtypes
        import numpy as np

        return cupy.asarray(turned.get().astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
    return turned.astype({"f16": cupy.float16, "tf32": cupy.float32, "s8": cupy.int8}[kind])


def _as_read(kind: str, stored, major: str):
    """What an operand's elements are worth to the tensor core, as float64 (tf32 as fp32: its loss is part of the error)."""
    import cupy

    if kind == "bf16":
        values = bf16_values(stored)
    elif kind == "e4m3":
        import ml_dtypes
        import numpy as np

        values = cupy.asarray(stored.get().view(ml_dtypes.float8_e4m3fn).astype(np.float32))
    else:
        values = stored
    return (values.T if major == "MN" else values).astype(cupy.float64)


Case = tuple[str, str, str, str]         # type, source of A, major of A, major of B


def _operand_case(case: Case, shape: tuple[int, int, int]) -> tuple[Launch, float, tuple]:
    """The launch of one case, launched once; its relative error against float64 in a corner; and the arrays it needs."""
    import cupy

    kind, source, a_major, b_major = case
    a, b = (cupy.random.default_rng(seed).standard_normal(shape[:2], dtype=cupy.float32) for seed in (1, 2))
    if kind == "s8":
        a, b = ((x * 40).clip(-127, 127).round() for x in (a, b))
    a, b = _stored(kind, a, a_major), _stored(kind, b, b_major)
    c = cupy.zeros(shape[:2], variants.OPERANDS[kind].result)
    launch = variants.wgmma_operands(a, b, c, kind, source, a_major, b_major)
    launch()
    exact = _as_read(kind, a, a_major)[:512] @ _as_read(kind, b, b_major).T[:, :512]
    return launch, float(cupy.linalg.norm(c[:512, :512] - exact) / cupy.linalg.norm(exact)), (a, b, c)


def operands(rounds: int) -> list[Record]:
    """Every input type, operand source and major of wgmma at 4096 cubed: speed, registers, and the error against float64."""
    shape = (4096, 4096, 4096)
    cases: list[Case] = [(kind, source, "K", "K") for kind in variants.OPERANDS for source in ("SS", "RS")]
    cases += [("bf16", source, *majors) for source in ("SS", "RS") for majors in (("MN", "K"), ("K", "MN"), ("MN", "MN"))]
    made = {case: _operand_case(case, shape) for case in cases}
    samples: Mapping[str, Sample] = interleaved({str(case): launch.bound() for case, (launch, _, _) in made.items()}, rounds)
    peer = samples[str(cases[0])]
    records = []
    for case, (launch, error, _) in made.items():
        kind, source, a_major, b_major = case
        if not error < 1e-2:
            raise AssertionError(f"wgmma_operands {case}: relative error {error:.2e}")
        sample = samples[str(case)]
        records.append(
            Record(
                "operands",
                "wgmma_operands",
                (f"A={source}", f"A_major={a_major}", f"B_major={b_major}"),
                shape,
                kind,
                tflops=tflops(shape, sample),
                **times(sample),
                value=float(f"{error:.3g}"),
                unit="relative error against float64",
                **beside(sample, "bf16 SS K-major", peer, tflops(shape, peer)),
                **facts(launch),
            )
        )
    return records


CONTROLS: Mapping[str, Callable[[int], list[Record]]] = {
    "two_by_two": two_by_two,
    "roles": roles,
    "depth": depth,
    "cuda_pipeline": cuda_pipeline,
    "operands": operands,
}


def interaction(records: Iterable[Record], stages: int = 3) -> dict[str, float]:
    """What each half of the 2x2 gains over cp.async with mma.sync, as ratios of speed, and what both gain together.

    records: of suite `two_by_two` (others are passed over). Keys: 'TMA' and 'wgmma' (one half changed), 'both', and 'together':
    both over the product of the halves, above 1 when the halves help each other. Raises LookupError where one of the four is
    missing.
    """
    speed = {}
    for item in records:
        words = dict(option.split("=", 1) for option in item.options)
        if item.suite == "two_by_two" and words.get("STAGES") == str(stages):
            speed[words["copy"], words["multiply"]] = item.tflops
    missing = [pair for pair in variants.TWO_BY_TWO if pair not in speed]
    if missing:
        raise LookupError(f"no record of the 2x2 with {stages} stages for {missing}")
    base = speed["cp.async", "mma.sync"]
    gains = {"TMA": speed["TMA", "mma.sync"], "wgmma": speed["cp.async", "wgmma"], "both": speed["TMA", "wgmma"]}
    found = {name: value / base for name, value in gains.items()}
    return found | {"together": found["both"] / (found["TMA"] * found["wgmma"])}


def measure(rounds: int = 7, only: Sequence[str] = ()) -> list[Record]:
    """The records of these CONTROLS, or of all."""
    return [record for name in only or CONTROLS for record in CONTROLS[name](rounds)]
