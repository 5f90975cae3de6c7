# SPDX-License-Identifier: Apache-2.0
"""Launches of recorded measurements that are no bf16 products: copies, fp8 products, attention."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..measure.launches import attention, attention_fp8, copies, fp8, launch as steps, micro as probes
from ..measure.launches.launch import Launch

if TYPE_CHECKING:
    from ..measure.recordings import Record


def words(options: Sequence[str]) -> dict[str, str]:
    """NAME=value options as a dictionary."""
    return dict(option.removeprefix("-D").split("=", 1) for option in options if "=" in option)


def fp8_product(record: Record) -> Launch | None:
    """A step or a configuration of the fp8 ladder."""
    if record.kernel not in ("block_scaled", "final", "tensor_scale", *fp8.STEPS):
        return None
    m, n, k = record.shape
    a, b, c = np.zeros((m, k), np.uint8), np.zeros((n, k), np.uint8), np.zeros((m, n), np.uint16)
    if record.kernel == "tensor_scale":
        return fp8.tensor_scale(a, b, c, backend="emulator")
    blocks = -(-k // fp8.BLOCK)
    scales = np.zeros((blocks, -(-m // 4) * 4), np.float32), np.zeros((-(-n // fp8.BLOCK), blocks), np.float32)
    if record.options:
        return fp8.block_scaled(a, b, c, *scales, fp8.parsed(record.options), backend="emulator")
    return fp8.STEPS[record.kernel](a, b, c, *scales, backend="emulator")


def _sequences(record: Record) -> tuple[int, np.ndarray]:
    count, length = record.shape[:2]
    return count * length, np.arange(count + 1, dtype=np.int32) * length


def attention_forward(record: Record) -> Launch | None:
    """Attention in bf16: a step, or a configuration that its options name."""
    heads, d = record.shape[2:]
    tokens, starts = _sequences(record)
    if len(record.options) > 2:
        choice: attention.Forward = attention.parsed(record.options[2:])
    elif record.kernel in attention.STEPS:
        choice = attention.STEPS[record.kernel]
    else:
        return None
    q, k, v, o = (np.zeros((tokens, heads, d), np.uint16) for _ in range(4))
    return attention.forward(q, k, v, o, np.zeros((heads, tokens), np.float32), starts, starts, record.options[1] == "causal", choice=choice, backend="emulator")


def attention_forward_fp8(record: Record) -> Launch | None:
    """Attention in fp8, in a configuration that its options name."""
    if len(record.options) < 3:
        return None
    heads, d = record.shape[2:]
    tokens, starts = _sequences(record)
    q, k, v = (np.zeros((tokens, heads, d), np.uint8) for _ in range(3))
    ones = np.ones(heads, np.float32)
    choice = attention.parsed(record.options[2:], attention_fp8.ForwardFp8)
    return attention_fp8.forward_fp8(q, k, v, np.zeros((tokens, heads, d), np.uint16), np.zeros((heads, tokens), np.float32), ones, ones, ones, starts, starts,
                                     record.options[1] == "causal", choice=choice, backend="emulator")


def copy(record: Record) -> Launch | None:
    """A copy kernel of `copies` or `copy`."""
    given = words(record.options)
    source, target = np.zeros(record.shape, np.uint16), np.zeros(record.shape, np.uint16)
    box = (int(given.get("BOX_ROWS", 0)), int(given.get("BOX_COLS", 0)))
    stages, chunk, blocks = int(given.get("STAGES", 4)), int(given.get("CHUNK_BYTES", 4096)), record.grid[0] if record.grid else 1
    if record.kernel == "vector_copy":
        return steps.vector_copy(source, target, int(given["UNROLL"]), backend="emulator")
    if record.kernel == "stream_copy":
        return copies.stream_copy(source, target, int(given["THREADS"]), int(given["VECTORS"]), int(given["HINTS"]), backend="emulator")
    if record.kernel == "bulk_copy":
        return steps.bulk_copy(source, target, stages, chunk, blocks, backend="emulator")
    if record.kernel == "tma_copy":
        return steps.tma_copy(source, target, box, given["swizzle"], backend="emulator")
    if record.kernel == "tma_copy_ring":
        return steps.tma_copy_ring(source, target, box, stages=stages, blocks=blocks, backend="emulator")
    if record.kernel == "bulk_read":
        return copies.bulk_read(source, np.zeros(blocks, np.uint32), stages, chunk, blocks, backend="emulator")
    return None


def micro(record: Record) -> Launch | None:
    """What of the micro-experiments is timed as a whole: boxes by TMA and by cp.async, and boxes that all CTAs of a cluster read, multicast or not."""
    given = words(record.options)
    if record.suite == "multicast":                      # as suites/micro_latency.py launches it: 128 boxes of 64 x 256, over and over
        return probes.multicast(np.zeros((64 * 128, 256), np.uint16), int(given["CLUSTER"]), given["MULTICAST"] == "1", record.grid[0], passes=512, backend="emulator")
    return boxes(record) if record.suite == "copy_bandwidth" else None


def boxes(record: Record) -> Launch | None:
    """Boxes loaded and not used, by TMA or cp.async."""
    given = words(record.options)
    box, blocks = (int(given["BOX_ROWS"]), int(given["BOX_COLS"])), record.grid[0]
    return steps.box_load(record.kernel.removesuffix("_load"), np.zeros((16384, 16384), np.uint16), np.zeros(blocks, np.uint32), box, int(given["STAGES"]), blocks,
                          backend="emulator")
