# SPDX-License-Identifier: Apache-2.0
"""Attention at cells that nobody chose, `hopperlab bench attention --random N`: `final` as `attention.choose` picks it, beside cuDNN."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..launches import attention as ours
from ..launches.attention import Forward
from ..launches.operands import bf16_values
from ..launches.random_cells import Cell, random_cells
from ..machine.peers import Peer
from .attention import cudnn, make, operands
from .compile_ahead import compile_ahead
from .race import Contestant, Race, Races, only_random, taken

if TYPE_CHECKING:
    from ...runtime.arrays import Array

METHOD = ("`final` as the course picks it for head size, mask and longest sequence; contestants interleaved round by round in one process, random normal operands, every "
          "result compared with attention in fp32 at its cell before anything is timed; cold L2: single launches between two events, each after a 512 MiB write; "
          "clean L2: each after that memory has been read, too; medians, with the least and greatest ratio of a round; cells that cuDNN does not take have no ratio")
Output = Callable[[], Any]              # launches, and returns torch's tensor of the result: tokens x heads x D, or sequences x heads x length x D


def reference(xp: Any, q: Array, k: Array, v: Array, lengths: Sequence[int], causal: bool, rows: int = 1024) -> tuple[Array, Array]:
    """(o, lse) in fp32 by the array module xp, `rows` queries at a time. q: tokens x heads x D, k, v: tokens x kv_heads x D, fp32."""
    tokens, heads, d = q.shape
    group = heads // k.shape[1]
    o, lse = xp.empty((tokens, heads, d), xp.float32), xp.empty((heads, tokens), xp.float32)
    first = 0
    for length in lengths:
        for kv in range(k.shape[1]):
            keys, values = k[first:first + length, kv], v[first:first + length, kv]
            mine = slice(kv * group, (kv + 1) * group)
            for at in range(0, length, rows):
                some = slice(first + at, first + min(at + rows, length))
                scores = q[some, mine].reshape(-1, d) @ keys.T * xp.float32(d ** -0.5)
                if causal:                                  # rows of scores: a query after the other, its heads together
                    query = at + xp.arange(scores.shape[0]) // group
                    scores = xp.where(xp.arange(length)[None] <= query[:, None], scores, xp.float32(-xp.inf))
                most = scores.max(axis=1, keepdims=True)
                scores = xp.exp(scores - most)
                total = scores.sum(axis=1, keepdims=True)
                o[some, mine] = (scores @ values / total).reshape(-1, group, d)
                lse[mine, some] = (most + xp.log(total)).reshape(-1, group).T
        first += length
    return o, lse


def off(xp: Any, found: Array, expected: Array, largest: float) -> float:
    """Share of elements of o (fp32) further from fp32 attention than bf16 terms explain, as suites/attention.wrong has it. largest: magnitude of v."""
    return float((~(xp.abs(found - expected) <= 2.0 ** -7 * xp.maximum(xp.abs(expected), largest))).mean())


def lse_off(xp: Any, found: Array, expected: Array) -> float:
    """Share of rows whose logarithm of the sum is further off than 1e-4 of it."""
    return float((~(xp.abs(found - expected) <= 1e-4 * xp.maximum(1, xp.abs(expected)))).mean())


def torch_cudnn(given: Mapping, cell: Cell) -> Output:
    """cuDNN's kernel through PyTorch on the same memory. What it does not take raises RuntimeError when it is launched."""
    def prepares_anew() -> Any:                             # which takes more than a hundred times as long as the kernel (measured on an H100)
        raise RuntimeError("sequences of several lengths: PyTorch keeps no plan of cuDNN's for them, and a launch would be timed with its preparation")
    if not cell.even:
        return prepares_anew
    return cudnn(given, cell.lengths[0], cell.causal, cell.heads != cell.kv_heads)


def packed(out: Any) -> Array:
    """A peer's result as tokens x heads x D, a CuPy array of fp32."""
    import cupy
    import torch
    torch.cuda.synchronize()
    tokens_first = out.transpose(1, 2).flatten(0, 1) if out.dim() == 4 else out
    return bf16_values(cupy.asarray(tokens_first.contiguous().view(torch.int16)).view("uint16"))


PEERS: Mapping[str, Peer] = {"cudnn": Peer("cuDNN", "torch", {"cuDNN": torch_cudnn})}
"""Each entry takes (operands, cell); what it does not take raises RuntimeError when it is launched."""


def race(numbers: tuple[int, ...], kernels: tuple[str, ...], chosen: tuple[str, ...]) -> Race:
    """`final` and the chosen peers at one cell."""
    import cupy
    import torch
    torch.cuda.empty_cache()                                # what other cells' operands took
    cell = Cell.of(numbers)
    given = operands(cell.lengths, cell.lengths, cell.heads, cell.kv_heads, cell.d)
    values = {name: bf16_values(given[name]) for name in ("q", "k", "v")}
    o, lse = reference(cupy, **values, lengths=cell.lengths, causal=cell.causal)
    largest = float(cupy.abs(values["v"]).max())
    field: dict[str, Contestant] = {}
    for kernel in kernels:
        for name, choice in KERNELS[kernel](cell).items():
            launch = make(given, cell.causal, choice)
            field[name] = Contestant(kernel, launch.bound(), (*cell.options, *choice.named), launch)
    theirs: dict[str, Output] = {entry: make_(given, cell) for name in chosen for entry, make_ in PEERS[name].entries.items()}
    for name in chosen:
        for entry in PEERS[name].entries:
            if taken(entry, str(cell), lambda run=theirs[entry]: off(cupy, packed(run()), o, largest)):
                field[entry] = Contestant(entry, theirs[entry], cell.options, family=PEERS[name].family)

    def wrong(contestant: Contestant) -> float:
        if contestant.family:
            return off(cupy, packed(theirs[contestant.kernel]()), o, largest)
        given["o"].fill(0x7FC0)                             # NaN: what is not written is wrong
        given["lse"].fill(cupy.nan)
        contestant.run()
        return max(off(cupy, bf16_values(given["o"]), o, largest), lse_off(cupy, given["lse"], lse))
    return Race("attention", cell.shape, "bfloat16", cell.flop, "tflops", field, wrong)


def compile_choices(cells: Sequence[tuple[int, ...]], kernels: Sequence[str]) -> None:
    """Compile what is picked for each cell, all at once."""
    chosen = ((choice, cell) for cell in map(Cell.of, cells) for kernel in kernels for choice in KERNELS[kernel](cell).values())
    compile_ahead((choice.SOURCE, "attention", choice.options(cell.d, cell.causal)) for choice, cell in chosen)


def picked(cell: Cell) -> Forward:
    """The course's choice."""
    longest = max(cell.lengths)
    return ours.choose(cell.d, cell.causal, longest, *(heads * sum(cell.lengths) // longest for heads in (cell.heads, cell.kv_heads)))


KERNELS: Mapping[str, Callable[[Cell], Mapping[str, Forward]]] = {
    "tried": lambda cell: {name: short.choice for name, short in ours.SHORT[cell.d].items() if short.suits(cell.causal)},
    "final": lambda cell: {"final": picked(cell)}}
"""Each takes a cell and gives configurations by name. `tried`: those that short sequences may get."""
RACES = Races("attention", (), only_random, KERNELS, ("final",), PEERS, race, random_cells, compile_choices, lambda numbers: str(Cell.of(numbers)))
