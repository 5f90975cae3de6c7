# SPDX-License-Identifier: Apache-2.0
"""Launches of recorded measurements, made again so that they can be estimated: which kernel, with which options, on which shape."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..measure.launches import gemm, gemm_configurations, launch as steps, roles, variants
from ..measure.launches.launch import Launch
from . import boards, readings, recorded_others as others

if TYPE_CHECKING:
    from ..measure.recordings import Record

Arrays = tuple[Any, Any, Any]

FITTED = ("gemm", "stages", "tma_vs_cp_async")
"""Recordings on which constants were fitted, beside the ladder's steps at 4096 cubed, on either board. All others are held out, less the few records that a
constant is read from (readings.py)."""


@dataclass(frozen=True)
class Case:
    """A measurement that can be estimated. name: recording, kernel, options and shape; fitted: whether constants were fitted on it; ms: the median measured."""

    name: str
    recording: str
    record: Record
    fitted: bool
    make: Callable[[], Launch | None]

    @property
    def ms(self) -> float:
        """Median."""
        return float(self.record.ms or 0)


def _product(shape: tuple[int, ...], b_mn: bool = False) -> Arrays:
    """a, b, c of a product of (m, n, k); b_mn: b stored k x n, as its transpose."""
    m, n, k = shape
    b = np.zeros((k, n), np.uint16).T if b_mn else np.zeros((n, k), np.uint16)
    return np.zeros((m, k), np.uint16), b, np.zeros((m, n), np.uint16)


def _gemm(record: Record) -> Launch | None:
    """A step or a variant of the ladder."""
    words = others.words(record.options)
    arrays = _product(record.shape, words.get("B_MN") == "1")
    stages: dict[str, Any] = {"stages": int(words["STAGES"])} if "STAGES" in words else {}
    if record.kernel in gemm_configurations.KINDS and record.options:
        choice = gemm_configurations.parsed(record)
        if isinstance(choice, gemm_configurations.StreamK):
            return gemm.stream_k(*arrays, choice, backend="emulator")
        return gemm.split_k(*arrays, choice, backend="emulator") if isinstance(choice, gemm_configurations.SplitK) else gemm.final(*arrays, choice, backend="emulator")
    if record.kernel == "mma_multistage" and "BM" in words:
        return steps.mma_multistage(*arrays, bm=int(words["BM"]), bn=int(words["BN"]), **stages, backend="emulator")
    if record.suite == "ladder" and record.kernel in gemm.LADDER:
        return gemm.launch(record.kernel, *arrays, backend="emulator")
    return _variant(record, words, arrays, stages)


def _variant(record: Record, words: Mapping[str, str], arrays: Arrays, stages: Mapping[str, Any]) -> Launch | None:
    if record.kernel == "wgmma_operands":
        return _operands(record, words)
    if record.kernel == "register_roles":
        names = {"CONSUMERS": "consumers", "ROW_BLOCKS": "blocks", "BN": "bn", "STAGES": "stages", "PRODUCER_REGISTERS": "producer", "CONSUMER_REGISTERS": "consumer"}
        return roles.register_roles(*arrays, roles.Roles(**{names[word]: int(value) for word, value in words.items()}), backend="emulator", strict=False)
    if "copy" in words:
        make = variants.TWO_BY_TWO[(words["copy"], words["multiply"])]
        return make(*arrays, blocks=int(words["blocks_per_sm"]), **stages, backend="emulator")
    if record.kernel == "producer_warp":
        more = ("-DWAIT_FOR_OWN_LOAD=1",) if "WAIT_FOR_OWN_LOAD" in words else ()
        return variants.producer_warp(*arrays, **stages, warps=int(words["PRODUCER_WARPS"]), options=more, backend="emulator")
    if record.kernel == "multistage":
        return variants.multistage(*arrays, **stages, bk=int(words.get("BK", 64)), backend="emulator")
    if record.kernel == "cuda_pipeline":
        return variants.cuda_pipeline(*arrays, **stages, scope=words["scope"], backend="emulator")
    if record.suite == "cuda_pipeline":
        alone = () if stages["stages"] == 3 else ("-DBLOCKS_PER_SM=1",)
        return variants.cp_async_mma(*arrays, **stages, options=alone, backend="emulator")
    if record.kernel not in variants.VARIANTS:
        return None
    return variants.VARIANTS[record.kernel](*arrays, **stages, backend="emulator")


def _operands(record: Record, words: Mapping[str, str]) -> Launch:
    operand = variants.OPERANDS[record.dtype]
    m, n, k = record.shape
    kind: Any = {"f16": np.float16, "s8": np.int8}.get(record.dtype, {1: np.uint8, 2: np.uint16, 4: np.float32}[operand.bytes])
    shapes = [(b, a) if words[f"{name}_major"] == "MN" else (a, b) for name, (a, b) in (("A", (m, k)), ("B", (n, k)))]
    return variants.wgmma_operands(np.zeros(shapes[0], kind), np.zeros(shapes[1], kind), np.zeros((m, n), operand.result), record.dtype, words["A"],
                                   words["A_major"], words["B_major"], backend="emulator")


MAKERS: Mapping[str, Callable[[Record], Launch | None]] = {
    "ladder": _gemm, "gemm": _gemm, "products": _gemm, "stages": _gemm, "variants": _gemm, "roles": _gemm, "fp8": others.fp8_product,
    "attention": others.attention_forward,
    "attention_fp8": others.attention_forward_fp8, "copies": others.copy, "copy": others.copy, "micro": others.micro,
    "tma_vs_cp_async": others.boxes}


def cases(names: tuple[str, ...] = (), board: str = boards.FIRST) -> Iterator[Case]:
    """Every record of a board that can be made again, of these recordings or of all."""
    for name in names or MAKERS:
        for record in readings.stored(name, board):
            if record.ms is None or not record.grid or record.mode == "clean L2":
                continue
            fitted = name in FITTED or name == "ladder" and not record.options and record.shape == (4096, 4096, 4096) or readings.read(record, name, board)
            label = " ".join((name, record.kernel, *record.options, "x".join(map(str, record.shape)), record.dtype))
            yield Case(label, name, record, fitted, partial(MAKERS[name], record))
