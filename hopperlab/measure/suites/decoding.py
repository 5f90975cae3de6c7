# SPDX-License-Identifier: Apache-2.0
"""Attention of one query over a long cache, the recording `decoding`: `hopperlab bench decoding`.

Needs a Hopper GPU and CuPy; PyTorch and FlashInfer are measured where they are installed. Every step is checked against the definition at the shape that is timed;
then it is timed beside a kernel that reads the same bytes and does nothing with them, which is the roof, and beside the peers, interleaved.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ..launches import decoding as steps
from ..launches.copies import bulk_read
from ..launches.decoding import Choice, Decoding, Given
from ..launches.launch import SMS, Launch
from ..machine import peers_decoding
from ..machine.timing import Sample, interleaved
from ..recordings import Record
from .fields import beside, facts, gb_s, times, wait

if TYPE_CHECKING:
    from ...runtime.arrays import Array

METHOD = ("medians of whole steps (both kernels, the second a dependent launch) timed with events around them on one stream, variants interleaved in one "
          "process, after a write of "
          "512 MiB so that the L2 is cold; random normal inputs, pages in random order; rates are of the bytes of the cache alone, the ratio is that of "
          "speeds, round by round, "
          "beside the faster of two kernels that only read the same bytes")
ROOFS: Mapping[str, tuple[int, int, int]] = {"read, 6 slots of 32 KiB": (6, 32768, 1), "read, 4 slots of 16 KiB, 2 blocks per SM": (4, 16384, 2)}
HEADS, KV_HEADS, D, PAGE, TOKENS = 64, 8, 128, 64, 262144                 # TOKENS: a cache of 1 GiB
CELLS = ((32, 8192), (8, 32768), (2, 131072), (128, 4096), (1, 65536), (32, 1024))   # sequences, keys of each
MIXED = tuple(64 * n for n in (16, 512, 33, 80, 1024, 7, 240, 128, 64, 300, 500, 192, 3, 90, 900, 7))
LATENT_CELLS = ((32, 16384, 16), (128, 4096, 16), (16, 8192, 128))         # sequences, keys, heads


class WrongStep(AssertionError):
    """A step left wrong numbers, so that nothing of it is timed."""


def checked(name: str, step: Decoding, wanted: Array) -> Callable[[], None]:
    """What launches the step, after it has been tried three times on a cleared result. wanted: what it has to leave. Raises WrongStep."""
    import cupy
    run = step.bound(dependent=True)
    for _ in range(3):
        step.given.o.fill(steps.NAN)
        run()
        wait()
        share = steps.wrong(step.given, cupy, wanted)
        if share:
            raise WrongStep(f"{name}: {share:.2%} of the result is wrong")
    return run


def roofs(given: Given) -> dict[str, Launch]:
    """Kernels that read the bytes of the cache and use none."""
    import cupy
    found = {}
    for name, (stages, chunk, blocks) in ROOFS.items():
        found[name] = bulk_read(given.memory.reshape(-1), cupy.zeros(blocks * SMS, np.uint32), stages, chunk, blocks * SMS)
    return found


def timed(suite: str, made: Mapping[str, Decoding], rounds: int, peers: bool = False) -> list[Record]:
    """Records of steps over one cache, of what reads it, and of the peers. made: note -> step."""
    import cupy
    given = next(iter(made.values())).given
    wanted = steps.reference(given, cupy)
    runs = {name: checked(f"{suite}, {name}", step, wanted) for name, step in made.items()}
    read = roofs(given)
    others = peers_decoding.made(given, wanted) if peers else {}
    samples = interleaved({**runs, **{name: launch.bound() for name, launch in read.items()}, **others}, rounds, 2)
    return records(suite, given, made, read, samples)


def records(suite: str, given: Given, made: Mapping[str, Decoding], read: Mapping[str, Launch], samples: Mapping[str, Sample]) -> list[Record]:
    """A record a sample, beside the faster of those that only read."""
    roof = min(read, key=lambda name: samples[name].ms)
    shape = (len(given.lengths), max(given.lengths), given.q.shape[1], given.kv_heads, given.q.shape[2])
    found = []
    for name, sample in samples.items():
        launch = made[name].launches[-1 - bool(made[name].plan.slots)] if name in made else read.get(name)
        options = (f"page={given.page}", *((f"slots={made[name].plan.slots}", f"balance={made[name].plan.balance:.3f}") if name in made else ()))
        found.append(Record(suite, launch.kernel.name if launch else name, options, shape, "bfloat16", gb_s=gb_s(given.cache_bytes, sample), **times(sample),
                            **beside(sample, roof, samples[roof], gb_s(given.cache_bytes, samples[roof])), mode="cold L2", **facts(launch), note=name))
    return found


def _operands(lengths: Sequence[int], page: int = PAGE, **more: object) -> Given:
    import cupy
    return steps.operands(cupy, lengths, **{"heads": HEADS, "kv_heads": KV_HEADS, "d": D, "page": page, **more})


def _steps(given: Given, choices: Mapping[str, Choice | None]) -> dict[str, Decoding]:
    return {name: steps.decode(given, choice) for name, choice in choices.items()}


def cells(rounds: int) -> list[Record]:
    """The step at every batch and length, beside the roof and the peers."""
    found = []
    for batch, length in CELLS:
        found += timed("cells", _steps(_operands([length] * batch), {"decode": None}), rounds, peers=True)
    return found


def pages(rounds: int) -> list[Record]:
    """Pages of 16 to 128 keys as boxes of a tensor map, and gathered row by row; and pages of one key, which only a gather takes."""
    found = []
    for page in (16, 32, 64, 128, 1):
        ways = {"gathered by cp.async": Choice(gather=1)} | ({"boxes of a tensor map": Choice()} if page > 1 else {})
        found += timed("pages", _steps(_operands([8192] * (TOKENS // 8192), page), ways), rounds)
    return found


def splits(rounds: int) -> list[Record]:
    """Rows cut into a number of pieces, and all tiles in a line, for few and for many sequences, and for lengths that differ."""
    found = []
    for lengths in ([65536], [16384] * 4, [8192] * 17, MIXED):
        choices = {f"{count} pieces a row": Choice(splits=count) for count in (1, 2, 4, 8, 16, 32)}
        found += timed("mixed" if lengths is MIXED else "splits", _steps(_operands(lengths), {"chosen": None, "in a line": Choice(), **choices}), rounds)
    return found


def depth(rounds: int) -> list[Record]:
    """Tiles in the ring, warpgroups that take them by turns, and bytes that the L2 fetches at a time."""
    choices = {f"{stages} tiles, {groups} warpgroup{'s' * (groups > 1)}": Choice(stages=stages, groups=groups) for groups in (1, 2) for stages in (2, 4, 6)}
    choices["2 tiles, 1 warpgroup, 2 CTAs per SM"] = Choice(stages=2, groups=1, blocks=2 * SMS)
    choices |= {f"6 tiles, 2 warpgroups, promotion {promotion}": Choice(promotion=promotion) for promotion in (128, 256)}
    return timed("depth", _steps(_operands([8192] * (TOKENS // 8192)), choices), rounds)


def latent(rounds: int) -> list[Record]:
    """Latent attention, 576 and 512 columns: 16 heads, as one of eight GPUs has them, and 128."""
    found = []
    for batch, length, heads in LATENT_CELLS:
        found += timed("latent", _steps(_operands([length] * batch, heads=heads, kv_heads=1, latent=True), {"latent": None, "latent, in a line": Choice()}), rounds)
    return found


def bugs(rounds: int) -> list[Record]:
    """How often a step is wrong without the maximum, at small scores and at large ones."""
    import cupy
    found = []
    for size in (1.0, 60.0):
        given = _operands([8192] * 4, size=size)
        wanted = steps.reference(given, cupy)
        for option in ("", "BUG_NO_MAXIMUM=1"):
            step = steps.decode(given, options=(f"-D{option}",) if option else ())
            run, wrong = step.bound(dependent=True), 0
            for _ in range(3 * rounds):
                given.o.fill(steps.NAN)
                run()
                wait()
                wrong += steps.wrong(given, cupy, wanted) > 0
            found.append(Record("bugs", "combine", (f"size={size:g}", *([option] if option else [])), (4, 8192, HEADS, KV_HEADS, D), "bfloat16", runs=3 * rounds,
                                wrong=wrong,
                                outcome="right" if not wrong else "wrong" if wrong == 3 * rounds else "sometimes wrong"))
    return found


EXPERIMENTS: Mapping[str, Callable[[int], list[Record]]] = {"cells": cells, "pages": pages, "splits": splits, "depth": depth, "latent": latent, "bugs": bugs}


def shown(recording: Sequence[Record]) -> str:
    """A line a record: what, rate, share of the roof."""
    lines = []
    for r in recording:
        what = f"{r.suite:7} {'x'.join(map(str, r.shape)):24} {(r.note or r.kernel):42} {' '.join(r.options):34}"
        if r.ms is not None:
            lines.append(f"{what} {1e3 * r.ms:9.2f} us {r.gb_s:7.1f} GB/s  {r.ratio:.3f} ({r.ratio_min:.3f} to {r.ratio_max:.3f}) of a read")
        else:
            lines.append(f"{what} {r.wrong} of {r.runs} wrong")
    return "\n".join(lines)


@contextmanager
def one_stream() -> Iterator[None]:
    """CuPy and, where it is installed, PyTorch launch on one stream that does not wait for the default one."""
    import cupy
    with ExitStack() as stack:
        stream = stack.enter_context(cupy.cuda.Stream(non_blocking=True))
        try:
            import torch
        except ImportError:
            yield
            return
        stack.enter_context(torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)))
        yield


def measure(rounds: int = 21, only: Sequence[str] = (), keep: Callable[[list[Record]], object] = lambda records: None) -> list[Record]:
    """The records of these EXPERIMENTS, or of all."""
    found: list[Record] = []
    for run in (EXPERIMENTS[name] for name in only or EXPERIMENTS):
        with one_stream():
            found += run(rounds)
        keep(found)
    return found
