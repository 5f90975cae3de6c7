# SPDX-License-Identifier: Apache-2.0
"""Micro-experiments about rates and counts: tensor cores, shared-memory reads, instructions, and what the hardware accepts.

Each function takes the number of launches that count and returns records. `instructions` and `accepted` need no GPU.
"""

from __future__ import annotations

import numpy as np

from ...runtime.session import emulate
from ..launches import micro, variants
from ..launches.launch import SMS, box_load
from .micro_records import cycles, numbered, rated
from ..recordings import Record
from ..machine.timing import interleaved

WGMMA_N = (8, 16, 32, 64, 128, 192, 256)
TILES = 4  # instructions a round of wgmma_rate


def wgmma_rate(rounds: int) -> list[Record]:
    """Cycles of one wgmma by N and by where A comes from, for one and two warpgroups; bf16."""
    records = []
    for n in WGMMA_N:
        for source in ("SS", "RS"):
            for groups in (1, 2):
                probe = micro.wgmma(n, "bf16", source, warpgroups=groups, backend="gpu")
                # Two warpgroups share the tensor cores: per instruction of the multiprocessor.
                records.append(_rate("wgmma_rate", probe, n, "bf16", source, groups, rounds, 3))
    return records


def _rate(suite: str, probe: micro.Probe, n: int, kind: str, source: str, groups: int, rounds: int, in_flight: int) -> Record:
    record = cycles(
        suite,
        probe,
        (f"N={n}", f"A={source}", f"warpgroups={groups}", f"IN_FLIGHT={in_flight}"),
        rounds,
        lambda out: out[3::2] / (64 * TILES * groups),
    )
    k = micro.INPUTS[kind][1]
    return numbered(
        suite,
        record.kernel,
        record.options,
        (record.value, record.value_min, record.value_max),
        "cycles",
        probe.launch,
        shape=(64, n, k),
        dtype=kind,
        note=f"{64 * n * k / record.value:.0f} products per cycle and multiprocessor",
    )


def wgmma_inputs(rounds: int) -> list[Record]:
    """Cycles of one 64 x 256 wgmma for every input type and operand source."""
    return [
        _rate("wgmma_inputs", micro.wgmma(256, kind, source, warpgroups=2, backend="gpu"), 256, kind, source, 2, rounds, 3)
        for kind in micro.INPUTS
        for source in ("SS", "RS")
    ]


def wgmma_groups(rounds: int) -> list[Record]:
    """Cycles of one wgmma by the number of groups in flight, for one and two warpgroups."""
    return [
        _rate(
            "wgmma_groups",
            micro.wgmma(n, in_flight=flying, warpgroups=groups, backend="gpu"),
            n,
            "bf16",
            "SS",
            groups,
            rounds,
            flying,
        )
        for n in (64, 128, 256)
        for flying in (0, 1, 2, 3)
        for groups in (1, 2)
    ]


def mma_rate(rounds: int) -> list[Record]:
    """Cycles of one mma.sync m16n8k16 of a warp by independent accumulators, and of the multiprocessor by warps."""
    records = []
    for warps in (1, 4, 8, 16):
        for ilp in (1, 2, 4, 8, 16):
            probe = micro.mma(ilp, warps, backend="gpu")
            record = cycles(
                "mma_rate",
                probe,
                (f"ILP={ilp}", f"warps={warps}"),
                rounds,
                lambda out, ilp=ilp, warps=warps: out[3::2] / (64 * ilp * warps),
            )
            records.append(
                numbered(
                    "mma_rate",
                    record.kernel,
                    record.options,
                    (record.value, record.value_min, record.value_max),
                    "cycles",
                    probe.launch,
                    shape=(16, 8, 16),
                    dtype="bf16",
                    note=f"{16 * 8 * 16 / record.value:.0f} products per cycle and multiprocessor",
                )
            )
    return records


def tensor_issue(rounds: int) -> list[Record]:
    """How far issue runs ahead of results: eight mma.sync of a warp, four wgmma of a warpgroup, from an idle tensor core."""
    records = []
    probes = {
        "mma.sync m16n8k16, 8": micro.mma(8, 1, 1, 8, backend="gpu"),
        "wgmma m64n256k16, 4": micro.wgmma(256, warpgroups=1, rounds=1, samples=8, backend="gpu"),
        "wgmma m64n64k16, 4": micro.wgmma(64, warpgroups=1, rounds=1, samples=8, backend="gpu"),
    }
    for name, probe in probes.items():
        for what, start in (("issued", 2), ("done", 3)):
            records.append(
                cycles(
                    "tensor_issue",
                    probe,
                    (f"instructions={name}", f"until={what}"),
                    rounds,
                    lambda out, start=start: out[start::2],
                )
            )
    return records


def swizzled_reads(rounds: int) -> list[Record]:
    """Cycles that shared memory is busy with a warp's read of a tile, along rows and down columns, swizzled and padded."""
    records = []
    layouts = [
        (swizzle, width, 0) for swizzle in micro.MASKS for width in ((128, 64, 32) if swizzle == "none" else (int(swizzle[:-1]),))
    ]
    for swizzle, width, pad in [*layouts, ("none", 128, 16), ("none", 128, 4)]:
        for access in micro.ACCESSES:
            if pad % 16 and access not in ("column, 4 bytes", "column, 2 bytes"):
                continue  # 16-byte reads need aligned rows
            probe = micro.reads(swizzle, access, width, pad, backend="gpu")
            records.append(
                cycles(
                    "swizzled_reads",
                    probe,
                    (f"swizzle={swizzle}", f"ROW_BYTES={width}", f"PAD={pad}", f"access={access}"),
                    rounds,
                    lambda out: out[1:] / (32 * 8 * 16),
                )
            )
    return records


def copy_bandwidth(rounds: int) -> list[Record]:
    """The same boxes by one thread's TMA and by 128 threads' cp.async, as many blocks as fit: bytes per second and registers."""
    import cupy

    matrix = cupy.random.default_rng(4).integers(0, 1 << 16, (16384, 16384), dtype=cupy.uint16)
    made = {
        how: box_load(how, matrix, cupy.zeros(6 * SMS, cupy.uint32), (64, 64), blocks=6 * SMS)
        for how in ("tma", "cp_async")
    }
    samples = interleaved({how: launch.bound() for how, launch in made.items()}, max(3, rounds))
    return [
        rated(
            "copy_bandwidth",
            launch,
            ("BOX_ROWS=64", "BOX_COLS=64", "STAGES=4"),
            samples[how],
            matrix.nbytes,
            shape=tuple(matrix.shape),
            dtype="bfloat16",
        )
        for how, launch in made.items()
    ]


def _counted(make, small, large, steps: int) -> dict[str, float]:
    """Warp instructions that one step more takes, in all and by class: the emulator's counts of a large and a small run."""
    runs = []
    for arguments in (small, large):
        with emulate(hazards="collect") as session:
            make(*arguments)()
        runs.append(session.counters)
    return {name: (runs[1][name] - runs[0][name]) / steps for name in runs[1] if name.startswith("warp_instructions")}


def _box_run(how: str, boxes: int):
    matrix = np.ones((64 * boxes, 64), np.uint16)
    return box_load(how, matrix, np.zeros(1, np.uint32), (64, 64), blocks=1, backend="emulator")


def _product_run(name: str, k: int):
    a = np.zeros((128, k), np.uint16)
    return variants.VARIANTS[name](a, a, np.zeros((128, 128), np.uint16), backend="emulator")


def instructions(_rounds: int) -> list[Record]:
    """PTX instructions that warps execute for one more box of 8 KiB, and for one more k-tile (the emulator counts)."""
    records = []
    for how in ("tma", "cp_async"):
        counts = _counted(_box_run, (how, 8), (how, 16), 8)
        records += _count_records(f"{how}_load", ("step=box of 64 x 64",), counts)
    for name in ("cp_async_mma", "tma_mma", "cp_async_wgmma", "multistage", "warp_specialized"):
        counts = _counted(_product_run, (name, 64 * 8), (name, 64 * 16), 8)
        records += _count_records(name, ("step=k-tile of 128 x 128 x 64",), counts)
    return records


def _count_records(kernel: str, options: tuple[str, ...], counts: dict[str, float]) -> list[Record]:
    return [
        numbered(
            "instructions",
            kernel,
            (*options, f"class={name.removeprefix('warp_instructions').lstrip('_') or 'all'}"),
            (count,),
            "warp instructions",
        )
        for name, count in sorted(counts.items())
        if count
    ]
