# SPDX-License-Identifier: Apache-2.0
"""Products with smaller weights, the recording `mixed`: `hopperlab bench mixed`.

Needs a Hopper GPU. bf16 activations times weights of 4 and 8 bits in groups, and times 2:4 sparse weights (lesson 15x), beside cuBLAS's bf16 product of the
same shape and PyTorch's own 4-bit and sparse products, interleaved, with a cold L2: few rows, many rows, group sizes, configurations, joules. Every result
is checked at the shape that is timed.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..launches import mixed as launches
from ..launches import mixed_weights as prepare
from ..launches.launch import Launch
from ..launches.mixed import Choice
from ..launches.operands import bf16_bits, bf16_values, normal_bf16
from ..machine import peers
from ..machine.timing import Sample, interleaved
from ..recordings import Record
from . import mixed_peers
from .compile_ahead import compile_ahead
from .fields import beside, facts, gb_s, load, tflops, times, wait

METHOD = ("medians of single launches timed with events, variants interleaved in one process; cold L2: after a write of 512 MiB before each; clean L2: after that "
          "memory has been read, too, so that nothing in the L2 waits to be written back; random normal activations and weights (quantised, or pruned by size); a "
          "result is checked at the timed shape before it counts; the ratio is that of speeds, round by round, to the faster of cuBLAS's two entries in bf16; "
          "joules by the board's counter while one variant runs alone, back to back")
Shape = tuple[int, int, int]                                # m, n, k
WEIGHTS = ((8192, 8192), (28672, 8192), (8192, 28672))      # n, k: of a large language model's layers
FEW: tuple[Shape, ...] = tuple((m, n, k) for n, k in WEIGHTS for m in (16, 32, 64))
MANY: tuple[Shape, ...] = tuple((m, n, k) for n, k in WEIGHTS[:2] for m in (1024, 4096))
TRIED: tuple[Shape, ...] = ((16, 8192, 8192), (64, 8192, 8192), (1024, 8192, 8192), (16, 4096, 4096))
LOADED: tuple[Shape, ...] = ((16, 28672, 8192), (64, 28672, 8192), (4096, 8192, 8192))
GROUPS, SECONDS, CUBLAS = (64, 128, 256, 8192), 0.5, "cuBLAS"
COLD, CLEAN = "cold L2", "clean L2"
KINDS = ("int4", "int8", "sparse")


class WrongProduct(AssertionError):
    """A product left wrong numbers, so that nothing of it is timed."""


@dataclass(frozen=True)
class Variant:
    """Something that multiplies: its launch (None for a peer), how it runs, the bytes that it reads and writes, and its kind of weights."""

    name: str
    run: Callable[[], object]
    nbytes: int
    kind: str = "bfloat16"
    launch: Launch | None = None
    options: tuple[str, ...] = ()


class Operands:
    """x, the weights in every kind, and y, of a shape, made when they are asked for; CuPy arrays."""

    def __init__(self, shape: Shape, group: int = 128, seed: int = 15) -> None:
        import cupy
        self.xp, self.shape, self.group = cupy, shape, group
        m, n, k = shape
        self.x, self.dense = normal_bf16(cupy, (m, k), seed), normal_bf16(cupy, (n, k), seed + 1)
        self.y = cupy.zeros((m, n), cupy.uint16)

    def wanted(self, weights: Any) -> Any:
        """x * w^T in fp32, from bf16 numbers given as float32."""
        return bf16_values(self.x) @ weights.T

    def right(self, wanted: Any) -> bool:
        """Whether y is `wanted` to a rounding to bf16, and to what sums in another order differ by."""
        got = bf16_values(self.y)
        return bool((self.xp.abs(got - wanted) <= 2.0 ** -7 * self.xp.abs(wanted) + 2.0 ** -8 * self.xp.abs(wanted).mean()).all())

    def moved(self, weight_bytes: int) -> int:
        """Bytes that a product has to read and write."""
        return int(self.x.nbytes + self.y.nbytes + weight_bytes)


def _checked(given: Operands, name: str, launch: Launch, wanted: Any) -> Callable[[], object]:
    run = launch.bound()
    for _ in range(2):
        given.y[...] = 0x7FC0
        run()
        wait()
        if not given.right(wanted):
            raise WrongProduct(f"{name} at {given.shape}: wrong results")
    return run


def _told(launch: Launch, kind: str, group: int) -> tuple[str, ...]:
    macros = [option[2:] for option in launch.kernel.module.options if option.startswith("-D") and not option.startswith(("-DBITS", "-DGROUP"))]
    return (f"weights={kind}", *((f"GROUP={group}",) if kind != "sparse" else ()), *macros)


def ours(given: Operands, kind: str, choices: Sequence[Choice | None] = (None,), others: bool = False) -> list[Variant]:
    """The kernel for a kind of weights in these configurations (None: the one that `choose` picks), checked; others: PyTorch's too. Raises WrongProduct."""
    m, n, k = given.shape
    if kind == "sparse":
        values = prepare.pruned(bf16_values(given.dense), given.xp)
        made = prepare.prepared_sparse(values, given.xp)
        launched = [launches.sparse(given.x, made, given.y, choice) for choice in choices]
    else:
        bits = int(kind[3:])
        q, scales = prepare.quantised(bf16_values(given.dense), bits, given.group, given.xp)
        made, values = prepare.prepared(q, scales, bits, given.group, given.xp), prepare.dequantised(q, scales, given.group)
        launched = [launches.int_weights(given.x, made, given.y, choice) for choice in choices]
    wanted, moved = given.wanted(values), given.moved(made.nbytes)
    found = [Variant(f"{kind} {number}", _checked(given, kind, launch, wanted), moved, kind, launch, _told(launch, kind, given.group)) for number,
             launch in enumerate(launched)]
    peer = None
    if others and kind == "int4":
        peer = mixed_peers.torch_int4(given.x, q, scales, given.group, wanted)
    elif others and kind == "sparse":
        peer = mixed_peers.torch_sparse(given.x, bf16_bits(values), wanted)
    return [*found, *([Variant(f"torch {kind}", peer, moved, kind)] if peer else [])]


def bf16(given: Operands) -> list[Variant]:
    """cuBLAS's product of the same shape in bf16, by every entry that is installed."""
    made = peers.products(("cublas", "torch") if "torch" in peers.installed(peers.PRODUCT_PEERS) else ("cublas",), given.x, given.dense, given.y)
    return [Variant(entry, run, given.moved(given.dense.nbytes)) for entry, (family, run) in made.items() if family == CUBLAS and not entry.endswith("NN")]


def _beside(given: Operands, race: str) -> list[Variant]:
    """cuBLAS's first entry, with an option that tells in which of several races at this shape it ran."""
    return [replace(v, options=(race,)) for v in bf16(given)[:1]]


def records(suite: str, shape: Shape, variants: Sequence[Variant], samples: Mapping[str, Sample], more: Mapping[str, Mapping[str, object]] | None = None,
            mode: str = COLD) -> list[Record]:
    """A record a variant, each beside the fastest of those in bf16. more: further fields by name; mode: COLD or CLEAN."""
    best = min((v.name for v in variants if v.kind == "bfloat16"), key=lambda name: samples[name].ms)
    found = []
    for v in variants:
        sample = samples[v.name]
        kernel = v.launch.kernel.name if v.launch else v.name
        found.append(Record(suite, kernel, v.options, shape, v.kind, **times(sample), tflops=tflops(shape, sample), gb_s=gb_s(v.nbytes, sample),
                            **beside(sample, CUBLAS, samples[best], tflops(shape, samples[best])), mode=mode, **facts(v.launch), **((more or {}).get(v.name, {}))))
    return found


def _timed(suite: str, shape: Shape, variants: Sequence[Variant], rounds: int, modes: Sequence[str] = (COLD,)) -> list[Record]:
    runs = {v.name: v.run for v in variants}
    return [record for mode in modes for record in records(suite, shape, variants, interleaved(runs, rounds, clean=mode == CLEAN), mode=mode)]


def _free() -> None:
    import cupy
    cupy.get_default_memory_pool().free_all_blocks()


def _shapes(suite: str, shapes: Iterable[Shape], rounds: int, modes: Sequence[str]) -> list[Record]:
    found: list[Record] = []
    for shape in shapes:
        given = Operands(shape)
        found += _timed(suite, shape, [*bf16(given), *(v for kind in KINDS for v in ours(given, kind, others=True))], rounds, modes)
        del given
        _free()
    return found


def few(rounds: int) -> list[Record]:
    """16 to 64 rows: weights of every kind beside bf16, where memory is the limit: what waits in the L2 counts, so after a write and after a read."""
    return _shapes("few", FEW, rounds, (CLEAN, COLD))


def many(rounds: int) -> list[Record]:
    """1024 rows and more: the same where the tensor core is the limit."""
    return _shapes("many", MANY, rounds, (COLD,))


def groups(rounds: int) -> list[Record]:
    """4-bit weights with a scale for 64, 128, 256 or all columns of a row."""
    found: list[Record] = []
    for shape in (TRIED[0], TRIED[2]):
        for group in GROUPS:
            given = Operands(shape, group)
            found += _timed("groups", shape, [*_beside(given, f"GROUP={group}"), *ours(given, "int4")], rounds, (COLD if shape[0] > 64 else CLEAN,))
            del given
            _free()
    return found


def wanted_kernels() -> list[tuple[str, str, tuple[str, ...]]]:
    """(path, kernel, options) of everything that the suite launches, for compiling ahead: shapes alone decide."""
    found = []

    def add(kind: str, shape: Shape, choice: Choice | None, group: int = 128) -> None:
        bits = {"int4": 4, "int8": 8}.get(kind, 0)
        chosen = choice or (launches.choose(*shape, group) if bits else launches.choose(*shape))
        slot = chosen.bn * chosen.bk * bits // 8 + chosen.bn * 2 if bits else chosen.bn * chosen.bk + chosen.bn * chosen.bk // 8
        made = chosen.with_stages(slot)
        path = "int_weights" if bits else "sparse"
        found.append((f"mixed/{path}.cu", path, (*made.macros, *((f"-DBITS={bits}", f"-DGROUP={group}") if bits else ()))))

    for shape in (*FEW, *MANY, *LOADED):
        for kind in KINDS:
            add(kind, shape, None)
    for shape in (TRIED[0], TRIED[2]):
        for group in GROUPS:
            add("int4", shape, None, group)
    for shape in TRIED:
        for kind in ("int4", "sparse"):
            for choice in tried(shape):
                add(kind, shape, choice)
    return found


def tried(shape: Shape) -> list[Choice]:
    """Configurations that are measured at a shape: of `choices`, those with tiles as high as the one that `choose` picks or half as high, that give most SMs work."""
    first = launches.choose(*shape, 128)
    return [one for one in launches.choices(*shape) if one.bm in (first.bm, first.bm // 2) and one.tiles(*shape[:2]) * one.split >= 32]


def configurations(rounds: int) -> list[Record]:
    """4-bit and sparse weights in every configuration that is worth a try: what `choose` should pick."""
    found: list[Record] = []
    for shape in TRIED:
        given = Operands(shape)
        for kind in ("int4", "sparse"):
            found += _timed("configurations", shape, [*_beside(given, f"beside={kind}"), *ours(given, kind, tried(shape))], rounds, (COLD if shape[0] > 64 else CLEAN,))
        del given
        _free()
    return found


def energy(rounds: int) -> list[Record]:
    """Joules of a launch, and time beside it: each kind of weights alone, back to back."""
    found: list[Record] = []
    for shape in LOADED:
        given = Operands(shape)
        variants = [*bf16(given)[:1], *(v for kind in KINDS for v in ours(given, kind))]
        samples = interleaved({v.name: v.run for v in variants}, rounds)
        found += records("energy", shape, variants, samples, {v.name: load(v.run, SECONDS) for v in variants})
        del given, variants
        _free()
    return found


EXPERIMENTS: Mapping[str, Callable[[int], list[Record]]] = {"few": few, "many": many, "groups": groups, "configurations": configurations, "energy": energy}


def shown(recording: Sequence[Record]) -> str:
    """The records as lines: microseconds, speed, and speed beside cuBLAS's bf16 product."""
    lines = []
    for r in recording:
        what = f"{r.suite:14} {r.mode:9} {'x'.join(map(str, r.shape)):16} {r.kernel:16} {' '.join(r.options):64}"
        energy_told = f"  {r.joules:.4f} J, {r.watts:.0f} W" if r.joules and r.watts else ""
        lines.append(f"{what} {1e3 * (r.ms or 0):9.2f} us ({1e3 * (r.ms_min or 0):.2f} to {1e3 * (r.ms_max or 0):.2f}) {r.tflops:7.1f} TFLOP/s {r.gb_s:7.1f} "
                     f"GB/s  {r.ratio:.3f} of {r.peer}{energy_told}")
    return "\n".join(lines)


def measure(rounds: int = 11, only: Sequence[str] = (), keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """The records of these EXPERIMENTS, or of all. Raises WrongProduct."""
    problems = compile_ahead(wanted_kernels())
    if problems:
        raise WrongProduct("; ".join(problems))
    found: list[Record] = []
    for name in only or EXPERIMENTS:
        found += EXPERIMENTS[name](rounds)
        keep(found)
    return found
