# SPDX-License-Identifier: Apache-2.0
"""Decoding, ready to call: one query a sequence over a paged cache, by kernels/decoding, in either place. Like launch.py: arrays in, launches out.

The cache: k_pages and v_pages, pages x kv_heads x page size x D (latent attention: one array, pages x page size x 576), and a table, sequences x pages of the
longest, int32, that names the page of each run of keys. bf16 arrays are ml_dtypes.bfloat16, or uint16 with the same bits.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.arrays import asnumpy
from ...runtime.library import load_kernel
from ...runtime.tensor_map import TensorMap
from . import operand_checks as checks
from .chain import Chain
from .decoding_plan import Plan, plan
from .launch import SMS, Launch
from .operands import bf16_bits, bf16_values

if TYPE_CHECKING:
    from ...runtime.arrays import Array

HEAD_SIZES, LATENT, LATENT_VALUE, LATENT_HEADS = (64, 128), 576, 512, 16
NAN = np.uint16(0x7FC0)


@dataclass(frozen=True)
class Given:
    """What a decoding step works on. q: sequences x heads x D (or 576); pages: (k_pages, v_pages), or one array in latent attention; table: int32, sequences x most
    pages; lengths: keys of each sequence, on the host; o: like q (or 512 wide); memory: the array that pages are views of, where there is one."""

    q: Array
    pages: tuple[Array, ...]
    table: Array
    lengths: tuple[int, ...]
    o: Array
    memory: Array | None = None

    @property
    def page(self) -> int:
        """Keys of a page."""
        return int(self.pages[0].shape[-2])

    @property
    def latent(self) -> bool:
        """Whether k and v are the same rows."""
        return len(self.pages) == 1

    @property
    def kv_heads(self) -> int:
        """Heads of k and v."""
        return 1 if self.latent else int(self.pages[0].shape[1])

    @property
    def scale(self) -> float:
        """Of the scores."""
        return float(self.q.shape[2] ** -0.5)

    @property
    def cache_bytes(self) -> int:
        """Bytes of k and v that a step has to read."""
        return sum(self.lengths) * self.kv_heads * sum(int(pages.shape[-1]) * 2 for pages in self.pages)


@dataclass(frozen=True)
class Choice:
    """How a step is launched. stages: tiles in the ring (0: as many as fit); groups: warpgroups that take tiles by turns; gather: cp.async instead
    of TMA; promotion: bytes that a tensor map asks the L2 to fetch at a time (0: none); splits and blocks: see `plan`."""

    stages: int = 0
    groups: int = 2
    gather: int = 0
    promotion: int = 0
    splits: int = 0
    blocks: int = SMS

    @property
    def named(self) -> tuple[str, ...]:
        """Every choice as NAME=value: what a record's options hold."""
        return tuple(f"{name}={getattr(self, name)}" for name in ("stages", "groups", "gather", "promotion", "splits", "blocks"))


@dataclass(frozen=True)
class Decoding(Chain):
    """The launches of a step, in order: [append,] decode or latent[, combine]. Call it to launch; `plan`: who reads what."""

    plan: Plan | None = None

    def right(self, xp: Any = np) -> bool:
        """Whether o is right to the rounding of bf16. Waits for the current stream."""
        return wrong(self.given, xp) == 0.0


def operands(xp: Any, lengths: Sequence[int], heads: int = 8, kv_heads: int = 1, d: int = 128, page: int = 64, seed: int = 16, size: float = 1.0,
             latent: bool = False) -> Given:
    """Normal numbers as bits of bf16; q of `size`. Pages lie in random order, and what no key occupies is NaN; o is NaN."""
    random = np.random.default_rng(seed)
    counts = [-(-int(length) // page) for length in lengths]
    order, most = random.permutation(sum(counts)).astype(np.int32), max(counts)
    table = np.full((len(counts), most), -1, np.int32)
    table[np.arange(most)[None] < np.array(counts)[:, None]] = order
    d_value = LATENT_VALUE if latent else d
    shape = (sum(counts), page, LATENT) if latent else (sum(counts), kv_heads, page, d)
    draw = xp.random.default_rng(seed).standard_normal if xp.__name__ == "cupy" else random.standard_normal
    memory = xp.empty((1 if latent else 2, *shape), np.uint16)
    pages = tuple(memory)
    for array in pages:
        array[...] = xp.asarray(bf16_bits(draw(shape, dtype=xp.float32)))
    for row, length, count in zip(table, lengths, counts, strict=True):
        for array in pages:
            array[int(row[count - 1]), ..., int(length) - (count - 1) * page:, :] = NAN
    q = xp.asarray(bf16_bits(np.float32(size) * random.standard_normal((len(counts), heads, LATENT if latent else d), np.float32)))
    return Given(q, pages, xp.asarray(table), tuple(map(int, lengths)), xp.full((len(counts), heads, d_value), NAN, np.uint16), memory)


def reference(given: Given, xp: Any = np) -> Array:
    """o in float64 (on a GPU in float32: sums of a million numbers, checked to 2^-8), sequences x heads x D of v. Arrays of xp."""
    number = xp.float64 if xp is np else xp.float32
    q, table, page = bf16_values(_bits(given.q)).astype(number), asnumpy(given.table), given.page
    share, made = q.shape[1] // given.kv_heads, []
    for sequence, length in enumerate(given.lengths):
        rows = [bf16_values(_bits(pages[xp.asarray(table[sequence, :-(-length // page)])])).astype(number) for pages in given.pages]
        if given.latent:
            k = rows[0].reshape(1, -1, LATENT)[:, :length]
            v = k[..., :LATENT_VALUE]
        else:
            k, v = (array.transpose(1, 0, 2, 3).reshape(given.kv_heads, -1, array.shape[-1])[:, :length] for array in rows)
        scores = given.scale * (q[sequence].reshape(given.kv_heads, share, -1) @ k.transpose(0, 2, 1))
        terms = xp.exp(scores - scores.max(axis=-1, keepdims=True))
        made.append(((terms / terms.sum(axis=-1, keepdims=True)) @ v).reshape(q.shape[1], -1))
    return xp.stack(made)


def wrong(given: Given, xp: Any = np, wanted: Array | None = None) -> float:
    """Share of the elements of o further from the reference than the rounding of p and o to bf16 explains; NaN counts. wanted: the reference, where
    it is known already."""
    wanted, got = reference(given, xp) if wanted is None else wanted, bf16_values(_bits(given.o))
    bound = 2.0 ** -7 * xp.maximum(xp.abs(wanted), xp.abs(wanted).max(axis=-1, keepdims=True))
    return float((~(xp.abs(got - wanted) <= bound)).mean())


def choose(given: Given) -> Choice:
    """The configuration for a step; from the recording's `cells`, `splits` and `depth`.

    About 100 KiB in flight an SM are enough for memory, in one CTA or two, and it reads best where each CTA has one stretch of keys: a row, or an equal part of one. So
    that is it where such pieces are as many as CTAs, nearly; also where whole rows share the CTAs evenly. Else all tiles stand in a line.
    """
    heads, tile = _rows(given), 32 if given.latent else 64
    if given.latent and heads > 1:
        return Choice(4, 1)             # several blocks of heads for what is read once: the product is the limit, and all SMs have equally much
    deeper = 1 if given.latent else 128 // int(given.q.shape[2])        # tiles of smaller heads are smaller
    ways = [(SMS, 3 * deeper)] if given.latent else [(SMS, 3 * deeper), (2 * SMS, 2 * deeper)]
    for splits in range(1, 1 + max(1, 2 * SMS // (len(given.lengths) * heads))):
        for blocks, stages in ways:
            made = plan(given.lengths, heads, blocks, splits, tile)
            dealt = len(made.pieces) == made.blocks or len(made.pieces) > 2 * SMS
            if dealt and made.blocks >= 0.95 * blocks and made.balance >= 0.95:
                return Choice(stages, 1, splits=splits, blocks=blocks)
    blocks, stages = ways[-1]
    return Choice(stages, 1, blocks=blocks)


def decode(given: Given, choice: Choice | None = None, options: Sequence[str] = (), backend: str | None = None) -> Decoding:
    """decoding/decode.cu, or latent.cu where k and v are one array, and combine.cu where the plan cuts a row.

    choice: that of `choose` unless given; options: for NVRTC, to all kernels. Raises OperandError.
    """
    group = _checked(given, choice or Choice())
    choice, rows = choice or choose(given), _rows(given)
    dealt = plan(given.lengths, rows, choice.blocks, choice.splits, 32 if given.latent else 64)
    xp = _module(given.q)
    width = int(given.o.shape[2])
    parts = xp.zeros((max(1, dealt.slots), group, width), np.float32), xp.zeros((max(1, dealt.slots), group), np.float32)
    behind = (given.table, xp.asarray(dealt.pieces), xp.asarray(dealt.starts), np.float32(given.scale), np.int32(rows), np.int32(given.table.shape[1]))
    front = _latent(given, choice, options, backend) if given.latent else _paged(given, choice, group, options, backend)
    launches = [replace(front, grid=(dealt.blocks,), args=(*front.args, given.q, given.o, *parts, *behind))]
    if dealt.slots:
        columns = 4 if width == LATENT_VALUE else 1
        kernel = load_kernel("decoding/combine.cu", "combine", (f"-DDV={width}", f"-DCOLUMNS={columns}", f"-DGROUP={group}", *options), backend=backend)
        launches.append(Launch(kernel, (len(dealt.cut), group), (width // columns,), (*parts, given.o, xp.asarray(dealt.cut), np.int32(rows))))
    return Decoding(tuple(launches), given, plan=dealt)


def appended(step: Decoding, k: Array, v: Array, fresh: Array, backend: str | None = None) -> Decoding:
    """The same step with append.cu in front, which puts the newest token's k and v (sequences x kv_heads x D) into the cache, and the pages of `fresh` (int32, one a
    sequence) into the table where a token begins one. Raises OperandError."""
    given: Given = step.given
    sequences, kv_heads, page, d = given.q.shape[0], given.kv_heads, given.page, given.q.shape[2]
    for name, value in (("k", k), ("v", v)):
        checks.array(name, value, checks.BF16, 3)
        if tuple(value.shape) != (sequences, kv_heads, d):
            raise checks.OperandError("shape", f"{name} has shape {tuple(value.shape)}, expected {(sequences, kv_heads, d)} (sequences x kv_heads x D)")
    checks.array("fresh", fresh, ("int32",), 1, aligned=4)
    kernel = load_kernel("decoding/append.cu", "append", (f"-DD={d}", f"-DPAGE={page}"), backend=backend)
    lengths = _module(given.q).asarray(np.array(given.lengths, np.int32))
    launch = Launch(kernel, (sequences,), (128,), (k, v, *given.pages, given.table, lengths, fresh, np.int32(kv_heads), np.int32(given.table.shape[1])))
    return replace(step, launches=(launch, *step.launches))


def _paged(given: Given, choice: Choice, group: int, options: Sequence[str], backend: str | None) -> Launch:
    d, page = int(given.q.shape[2]), given.page
    rest = 16 * choice.groups * group * (d + 4) + 512 * choice.groups
    stages = choice.stages or min(12, (232448 - rest) // (256 * d + 16)) // choice.groups * choice.groups
    named = (f"-DD={d}", f"-DGROUP={group}", f"-DPAGE={page}", f"-DSTAGES={stages}", f"-DGROUPS={choice.groups}", f"-DGATHER={choice.gather}")
    kernel = load_kernel("decoding/decode.cu", "decode", (*named, *options), backend=backend)
    box = page if choice.gather else min(page, 64)
    maps = tuple(_map(pages.reshape(*pages.shape[:2], page, d // 64, 64).transpose(0, 1, 3, 2, 4), (1, 1, d // 64, min(box, 64), 64), choice) for pages in given.pages)
    return Launch(kernel, (1,), (128 * choice.groups + (128 if choice.gather else 32),), (*maps, *given.pages), stages * (256 * d + 16) + rest)


def _latent(given: Given, choice: Choice, options: Sequence[str], backend: str | None) -> Launch:
    (cache,), stages = given.pages, choice.stages or 4
    kernel = load_kernel("decoding/latent.cu", "latent", (f"-DPAGE={given.page}", f"-DSTAGES={stages}", *options), backend=backend)
    panels = _map(cache.reshape(*cache.shape[:2], LATENT // 64, 64).transpose(0, 2, 1, 3), (1, LATENT // 64, 32, 64), choice)
    return Launch(kernel, (1,), (288,), (panels,), stages * (36864 + 16) + 20480)


def _map(view: Array, box: Sequence[int], choice: Choice) -> TensorMap:
    promotion = f"{choice.promotion}B" if choice.promotion else "none"
    return TensorMap.tiled(view, box=box, swizzle="128B", l2_promotion=promotion, dtype="bfloat16" if view.dtype == np.uint16 else None)


def _checked(given: Given, choice: Choice) -> int:
    """Query heads of a piece. Raises OperandError."""
    for name, value, dimensions in (("q", given.q, 3), ("o", given.o, 3), *((f"pages {i}", pages, 3 if given.latent else 4) for i, pages in enumerate(given.pages))):
        checks.array(name, value, checks.BF16, dimensions)
    if choice.promotion not in (0, 64, 128, 256):
        raise checks.OperandError("size", f"promotion is {choice.promotion}: 0, 64, 128 or 256 bytes")
    checks.array("table", given.table, ("int32",), 2, aligned=4)
    sequences, heads, d = given.q.shape
    if len(given.lengths) != sequences or given.table.shape[0] != sequences or given.table.shape[1] * given.page < max(given.lengths):
        raise checks.OperandError("shape", f"{sequences} queries, {len(given.lengths)} lengths, a table of {tuple(given.table.shape)} with pages of "
                                           f"{given.page}: one row a sequence, with "
                                           "places for the pages of the longest")
    if given.latent:
        if d != LATENT or heads % LATENT_HEADS or given.page % 32 or given.pages[0].shape[2] != LATENT or tuple(given.o.shape) != (sequences, heads, LATENT_VALUE):
            raise checks.OperandError("shape", f"q is {tuple(given.q.shape)}, the cache {tuple(given.pages[0].shape)}, o {tuple(given.o.shape)}: latent "
                                               f"attention takes {LATENT} columns, "
                                               f"{LATENT_VALUE} in o, a multiple of {LATENT_HEADS} heads and pages of a multiple of 32 keys")
        return LATENT_HEADS
    if d not in HEAD_SIZES or given.pages[0].shape != given.pages[1].shape or given.pages[0].shape[3] != d or given.o.shape != given.q.shape:
        raise checks.OperandError("shape", f"q is {tuple(given.q.shape)}, k {tuple(given.pages[0].shape)}, v {tuple(given.pages[1].shape)}, o "
                                           f"{tuple(given.o.shape)}: one head size of "
                                           f"{' or '.join(map(str, HEAD_SIZES))}, k like v and o like q")
    if heads % given.kv_heads or heads // given.kv_heads > 16:
        raise checks.OperandError("shape", f"{heads} query heads over {given.kv_heads} of k and v: a multiple, at most 16 times as many")
    if not choice.gather and given.page not in (16, 32) and given.page % 64:
        raise checks.OperandError("size", f"pages of {given.page} keys: TMA takes 16, 32 or a multiple of 64 (gather=1 takes any)")
    checks.number("groups", choice.groups, 1, 2)
    if choice.stages % choice.groups:
        raise checks.OperandError("size", f"stages is {choice.stages}, and {choice.groups} groups take tiles by turns: a multiple of that")
    return heads // given.kv_heads


def _rows(given: Given) -> int:
    """Rows of a sequence: heads of k and v, or blocks of query heads in latent attention."""
    return int(given.q.shape[1]) // LATENT_HEADS if given.latent else given.kv_heads


def _bits(array: Array) -> Array:
    return array.view(np.uint16)


def _module(array: Array) -> Any:
    from ...runtime.arrays import is_cuda_array
    if is_cuda_array(array):
        import cupy
        return cupy
    return np
