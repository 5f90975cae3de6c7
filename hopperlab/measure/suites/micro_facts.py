# SPDX-License-Identifier: Apache-2.0
"""Micro-experiments whose answer is yes or no: what TMA copies, reduces and refuses, and which instructions there are on sm_90a.

Each function takes the number of launches that count and returns records with an outcome. `accepted` needs no GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...hopper.tensormap import TensorMapError
from ...runtime.errors import CompileError, GpuError
from ...runtime.module import RawModule
from ..launches import copies
from ..launches.launch import Launch, tma_landing
from .fields import facts
from .micro_records import rated
from ..recordings import Record
from ..machine.timing import interleaved

RANKS = {
    1: ((1 << 24,), (256,)),
    2: ((4096, 4096), (32, 128)),
    3: ((16, 1024, 1024), (4, 8, 128)),
    4: ((4, 8, 512, 1024), (2, 4, 4, 128)),
    5: ((2, 4, 4, 512, 1024), (2, 2, 2, 4, 128)),
}


REPEATED = 16  # how often the checked operands of a reduction are repeated to be timed


def _outcome(suite: str, kernel: str, options: tuple[str, ...], right: bool, launch=None, note: str = "") -> Record:
    return Record(suite, kernel, options, outcome="right" if right else "wrong", note=note, **facts(launch))


def ranks(rounds: int) -> list[Record]:
    """64 MiB of float32 in one to five dimensions, copied in boxes of 16 KiB (1 KiB in one dimension)."""
    import cupy

    made = {}
    for rank, (shape, box) in RANKS.items():
        x = cupy.random.default_rng(rank).standard_normal(shape, dtype=cupy.float32)
        y = cupy.full(shape, cupy.nan, cupy.float32)
        launch = copies.tensor_copy(x, y, box)
        launch()
        if not bool((x == y).all()):
            raise AssertionError(f"a tensor of {rank} dimensions was copied wrongly")
        made[rank] = launch
    samples = interleaved({str(rank): launch.bound() for rank, launch in made.items()}, max(3, rounds))
    return [
        rated(
            "ranks",
            launch,
            (f"RANK={rank}", f"box={'x'.join(map(str, RANKS[rank][1]))}"),
            samples[str(rank)],
            2 << 26,
            shape=RANKS[rank][0],
            dtype="float32",
            outcome="right",
        )
        for rank, launch in made.items()
    ]


def _combined(op: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """NumPy's idea of one reduction (inc and dec wrap at `new`)."""
    if op == "inc":
        return np.where(old >= new, 0, old + np.uint32(1)).astype(old.dtype)
    if op == "dec":
        return np.where((old == 0) | (old > new), new, old - np.uint32(1)).astype(old.dtype)
    return {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[op](old, new)


def _typed(kind: str, count: int, seed: int) -> np.ndarray:
    """Small integers in a PTX type (bf16 through ml_dtypes), so that every sum is exact."""
    import ml_dtypes

    types = {
        "u32": np.uint32,
        "s32": np.int32,
        "u64": np.uint64,
        "s64": np.int64,
        "f32": np.float32,
        "f64": np.float64,
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "b32": np.uint32,
        "b64": np.uint64,
    }
    least = 0 if kind[0] in "ub" and kind != "bf16" else -60
    return np.random.default_rng(seed).integers(least, 60, count).astype(types[kind])


def _by_tensor_map() -> Iterator[tuple[tuple[str, str], tuple[Launch, int]]]:
    """((into, operation), (launch, bytes read)) of every reduction by a tensor map, checked."""
    import cupy

    source, target = (cupy.random.default_rng(seed).integers(0, 60, (4096, 4096), dtype=cupy.uint32) for seed in (1, 2))
    for op in copies.REDUCTIONS:
        old, launch = target.get(), copies.tma_reduce(source, target, op)
        launch()
        _must_be(op, _combined(op, old, source.get()), target, 1)
        yield ("L2, tensor", f"{op}.u32"), (launch, source.nbytes)


def _by_bulk_copy() -> Iterator[tuple[tuple[str, str], tuple[Launch, int]]]:
    """The same by plain bulk copies."""
    import cupy

    for op_type in copies.GLOBAL_REDUCTIONS:
        op, kind = op_type.split(".")[0], op_type.split(".")[-1]
        new, old = _typed(kind, 1 << 20, 3), _typed(kind, 1 << 20, 4)
        source, target = (cupy.tile(cupy.asarray(array.view(np.uint8)), REPEATED) for array in (new, old))
        launch = copies.bulk_reduce(source, target, op_type)
        launch()
        _must_be(op_type, _combined(op, old, new), target, REPEATED)
        yield ("L2, bulk", op_type), (launch, source.nbytes)


def _into_another_cta() -> Iterator[tuple[tuple[str, str], tuple[Launch, int]]]:
    """The same into the shared memory of another CTA of the cluster."""
    import cupy

    for op_type in copies.SHARED_REDUCTIONS:
        op, kind = op_type.split(".")
        new = _typed(kind, 1 << 20, 5)
        new = new.reshape(-1, 4, 4096 // new.itemsize)
        if op in ("inc", "dec"):
            new[...], new[:, 0] = 1 << 30, 7  # so that no wrap depends on who comes first
        expected = new[:, 0]
        for part in (1, 2, 3):
            expected = _combined(op, expected, new[:, part])
        source = cupy.tile(cupy.asarray(new), (REPEATED, 1, 1))
        target = cupy.zeros((source.shape[0], source.shape[2]), new.dtype)
        launch = copies.dsmem_reduce(source, target, op_type)
        launch()
        _must_be(op_type, expected, target, REPEATED)
        yield ("shared memory of another CTA", op_type), (launch, source.nbytes)


def reductions(rounds: int) -> list[Record]:
    """Every operation and type, by tensor map, by plain bulk copy, and into another CTA's shared memory: right, and how fast."""
    made = dict((*_by_tensor_map(), *_by_bulk_copy(), *_into_another_cta()))
    samples = interleaved({str(key): launch.bound() for key, (launch, _) in made.items()}, max(3, rounds))
    return [
        rated(
            "reductions",
            launch,
            (f"into={key[0]}", f"op={key[1]}"),
            samples[str(key)],
            size,
            outcome="right",
            note="GB/s of source read",
        )
        for key, (launch, size) in made.items()
    ]


def _must_be(what: str, expected: np.ndarray, got, repeated: int) -> None:
    """Raise unless `got` (CuPy) holds the bytes of `expected`, `repeated` times."""
    import cupy

    bytes_expected = cupy.asarray(np.ascontiguousarray(expected).reshape(-1).view(np.uint8))
    wrong = int((got.reshape(-1).view(cupy.uint8).reshape(repeated, -1) != bytes_expected).sum())
    if wrong:
        raise AssertionError(f"reduction {what}: {wrong} of {got.nbytes} bytes are wrong")


def layouts(_rounds: int) -> list[Record]:
    """The same kernel over other layouts: axes, negative corners, strides, interleave; and what no map can say."""
    import cupy

    base = cupy.random.default_rng(6).standard_normal((24, 40, 64), dtype=cupy.float32)
    views = {
        "as it lies": base,
        "outer axes exchanged": base.transpose(1, 0, 2),
        "every other row": base[:, ::2],
        "columns 16 to 47": base[..., 16:48],
    }
    records = []
    for name, view in views.items():
        y = cupy.full(view.shape, cupy.nan, cupy.float32)
        launch = copies.tensor_copy(view, y, (2, 4, 32))
        launch()
        records.append(_outcome("layouts", "tensor_copy", (f"view={name}",), bool((view == y).all()), launch))
    try:
        copies.tensor_copy(base.transpose(0, 2, 1), cupy.empty((24, 64, 40), cupy.float32), (2, 4, 32))
        refused = ""
    except TensorMapError as error:
        refused = str(error).split("\n")[0]
    records.append(
        Record(
            "layouts",
            "tensor_copy",
            ("view=innermost axis exchanged",),
            outcome="refused" if refused else "accepted",
            note=refused,
        )
    )
    return records + _landings(cupy) + _interleaves(cupy) + [_convolution(cupy)]


def _landings(cupy) -> list[Record]:
    x = cupy.arange(50 * 64, dtype=cupy.float32).reshape(50, 64) + 1
    cases = {
        "corner (-3, 8)": ((8, 32), (-3, 8), {}),
        "corner (46, 48), past the end": ((8, 32), (46, 48), {}),
        "corner (2, -16)": ((8, 32), (2, -16), {}),
        "element strides (3, 1)": ((16, 32), (4, 0), {"element_strides": (3, 1)}),
    }
    records = []
    for name, (box, corner, choices) in cases.items():
        steps = choices.get("element_strides", (1, 1))
        rows, columns = (
            [start + i * step for i in range(-(-edge // step))] for start, edge, step in zip(corner, box, steps, strict=True)
        )
        expected = np.zeros((len(rows), len(columns)), np.float32)
        for i, row in enumerate(rows):
            for j, column in enumerate(columns):
                if 0 <= row < 50 and 0 <= column < 64:
                    expected[i, j] = float(row * 64 + column + 1)
        out = cupy.zeros(expected.nbytes, cupy.uint8)
        launch = tma_landing(x, out, box, corner, expected.nbytes, **choices)
        launch()
        records.append(
            _outcome(
                "layouts", "tma_landing", (f"load={name}",), bool((out.get().view(np.float32) == expected.ravel()).all()), launch
            )
        )
    return records


def _interleaves(cupy) -> list[Record]:
    records = []
    for interleave, swizzle in (("16B", "none"), ("16B", "128B"), ("32B", "32B")):
        x = cupy.random.default_rng(8).integers(0, 1 << 16, (3, 4, 5, 19, int(interleave[:-1]) // 2), dtype=cupy.uint16)
        y = cupy.zeros_like(x)
        launch = copies.interleaved_copy(x, y, (2, 1, 2, 8), interleave, swizzle)
        launch()
        records.append(
            _outcome("layouts", "tensor_copy", (f"interleave={interleave}", f"swizzle={swizzle}"), bool((x == y).all()), launch)
        )
    return records


def _convolution(cupy) -> Record:
    """The matrix of a 3 x 3 convolution with padding 1, by im2col loads, against slices of the padded image."""
    image = cupy.random.default_rng(9).standard_normal((2, 30, 31, 64), dtype=cupy.float32).astype(cupy.float16)
    padded = cupy.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    taps = [padded[:, y : y + 30, x : x + 31].reshape(-1, 64) for y in range(3) for x in range(3)]
    out = cupy.zeros((2 * 30 * 31, 9, 64), cupy.float16)
    launch = copies.im2col_load(image, out, (3, 3), padding=1)
    launch()
    return _outcome("layouts", "im2col_load", ("filter=3 x 3", "padding=1"), bool((out == cupy.stack(taps, 1)).all()), launch)


def alignment(_rounds: int) -> list[Record]:
    """What the driver says to tensor maps whose addresses, strides and boxes are aligned less and less."""
    import cupy

    from ...runtime import tensor_map

    x = cupy.zeros((64, 64), cupy.float16)
    plain = tensor_map.TensorMap.tiled(x, box=(8, 16)).fields
    cases = {
        "address + 16 bytes": {"global_address": plain.global_address + 16},
        "address + 8 bytes": {"global_address": plain.global_address + 8},
        "stride 112 bytes": {"global_strides": (112,)},
        "stride 120 bytes": {"global_strides": (120,)},
        "box of 8 elements (16 bytes)": {"box_dim": (8, 8)},
        "box of 12 elements (24 bytes)": {"box_dim": (12, 8)},
        "box of 3 rows": {"box_dim": (16, 3)},
        "tensor of 63 columns": {"global_dim": (63, 64)},
        "box of 256 rows": {"box_dim": (16, 256)},
        "box of 257 rows": {"box_dim": (16, 257)},
    }
    records = []
    for name, fields in cases.items():
        try:
            tensor_map._encode_on_gpu(replace(plain, **fields))
            outcome = "accepted"
        except GpuError:
            outcome = "refused"
        records.append(Record("alignment", "cuTensorMapEncodeTiled", (name,), dtype="float16", outcome=outcome))
    return records


_COPY = 'asm volatile("cp.async.bulk.tensor.{}" :: "r"((unsigned)x), "l"(x) : "memory");'
_PTX = {
    "cp.async.bulk.tensor … tile::gather4": _COPY.format(
        "2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%0], [%1, {0, 1, 2, 3, 4}], [%0];"
    ),
    "cp.async.bulk.tensor … tile::scatter4": _COPY.format(
        "2d.global.shared::cta.tile::scatter4.bulk_group [%1, {0, 1, 2, 3, 4}], [%0];"
    ),
    "cp.async.bulk.tensor.5d": _COPY.format("5d.global.shared::cta.tile.bulk_group [%1, {0, 1, 2, 3, 4}], [%0];"),
    "cp.async of 32 bytes": 'asm volatile("cp.async.cg.shared.global [%0], [%1], 32;" :: "r"((unsigned)x), "l"(x) : "memory");',
}


def _wgmma(shape: str, count: int) -> str:
    declared = ".reg .f32 d<" + str(count) + ">;"
    listed = ", ".join(f"d{i}" for i in range(count))
    product = f"wgmma.mma_async.sync.aligned.{shape}.f32.bf16.bf16 {{{listed}}}, %0, %0, 0, 1, 1, 0, 0;"
    return f'asm volatile("{{{declared} {product}}}" :: "l"(x));'


def accepted(_rounds: int) -> list[Record]:
    """Which instructions ptxas knows on sm_90a: shapes of wgmma, gather4 and scatter4."""
    cases = dict(_PTX)
    for shape, count in (
        ("m64n8k16", 4),
        ("m64n24k16", 12),
        ("m64n248k16", 124),
        ("m64n256k16", 128),
        ("m64n12k16", 6),
        ("m64n264k16", 132),
        ("m128n128k16", 128),
        ("m64n128k128", 64),
        ("m128n128k128", 128),
    ):
        cases[f"wgmma {shape}"] = _wgmma(shape, count)
    records = []
    for name, statement in cases.items():
        code = f'extern "C" __global__ void __launch_bounds__(128) k(unsigned long long x) {{ {statement} }}'
        try:
            RawModule(code=code, name="accepted.cu", backend="emulator", strict=False)
            outcome, note = "accepted", ""
        except CompileError as error:
            told = [line for line in str(error).split("\n") if "error" in line.lower() and "ptxas" in line.lower()]
            outcome, note = "refused", told[0].split("error   : ")[-1].strip() if told else ""
        records.append(Record("accepted", "ptxas sm_90a", (name,), outcome=outcome, note=note))
    return records
