# SPDX-License-Identifier: Apache-2.0
"""fp8 products at shapes that nobody chose, `hopperlab bench fp8 --random N`: `final` as `fp8.choose` picks it, beside cuBLASLt's block-scaled product."""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..launches import fp8, fp8_choice
from ..launches.fp8_choice import BlockScaled
from ..launches.random_shapes import fp8_shapes
from ..machine.peers import Peer
from .compile_ahead import compile_ahead
from .fields import flop
from .fp8 import PEERS_MAY, named
from .fp8_operands import cublaslt_orders, deepgemm, exact_product, operands, wrong
from .race import Contestant, Race, Races, only_random, taken

METHOD = ("`final` as the course picks it for the shape; contestants interleaved round by round in one process, random normal operands quantised by blocks, every "
          "result compared with the fp32 product at its shape before anything is timed; cold L2: single launches between two events, each after a 512 MiB write; "
          "clean L2: each after that memory has been read, too; medians, with the least and greatest ratio of a round; shapes that cuBLASLt does not take have no ratio")
TRIED = 6                               # configurations of a shape in a search
Launches = Sequence[Callable[[], None]]


def _deepgemm(given: Mapping) -> Launches:
    run = deepgemm(given)
    return [] if run is None else [run]


PEERS: Mapping[str, Peer] = {"cublaslt": Peer("cuBLASLt block-scaled", "torch", {"cuBLASLt block-scaled": cublaslt_orders}),
                             "deepgemm": Peer("DeepGEMM", "deep_gemm", {"DeepGEMM": _deepgemm})}
"""Each entry takes operands and gives launches, of which the first that is right is taken."""


def race(shape: tuple[int, ...], kernels: tuple[str, ...], chosen: tuple[str, ...]) -> Race:
    """`final` and the chosen peers on one shape's operands."""
    import torch
    torch.cuda.empty_cache()                                # what other shapes' operands took
    m, n, k = shape
    given = operands((m, n, k))
    share = partial(wrong, given, exact=exact_product(given))
    field: dict[str, Contestant] = {}
    for kernel in kernels:
        for name, choice in KERNELS[kernel](m, n, k).items():
            launch = fp8.block_scaled(given["a"], given["b"], given["c"], given["a_scales"], given["b_scales"], choice)
            field[name] = Contestant(kernel, launch.bound(), named(choice), launch)
    where = "x".join(map(str, shape))
    for peer in (PEERS[name] for name in chosen):
        for entry, make in peer.entries.items():
            run = next((run for run in make(given) if taken(entry, where, partial(share, run), PEERS_MAY)), None)
            if run is not None:
                field[entry] = Contestant(entry, run, family=peer.family)

    def off(contestant: Contestant) -> float:
        found = share(contestant.run)
        return 0.0 if contestant.family and found <= PEERS_MAY else found
    return Race("fp8", (m, n, k), "e4m3", flop(shape), "tflops", field, off)


def compile_choices(shapes: Sequence[tuple[int, ...]], kernels: Sequence[str]) -> None:
    """Compile what is picked for each shape, all at once."""
    compile_ahead(("fp8/block_scaled.cu", "gemm", choice.options) for m, n, k in shapes for kernel in kernels for choice in KERNELS[kernel](m, n, k).values())


def first(m: int, n: int, k: int) -> dict[str, BlockScaled]:
    """The TRIED configurations that the model ranks first, and the first of each kind, by name."""
    found, ranked = fp8_choice.possible(m, n, k), fp8_choice.ranked(m, n, k)
    best = {kind: name for name in reversed(ranked) for kind in (found[name][0],)}
    return {name: found[name][1] for name in ranked if name in ranked[:TRIED] or name in best.values()}


KERNELS: Mapping[str, Callable[[int, int, int], Mapping[str, BlockScaled]]] = {"tried": first, "final": lambda m, n, k: {"final": fp8.choose(m, n, k)}}
"""Each takes a shape and gives configurations by name."""
RACES = Races("fp8", (), only_random, KERNELS, ("final",), PEERS, race, fp8_shapes, compile_choices)
