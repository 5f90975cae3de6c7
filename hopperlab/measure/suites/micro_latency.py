# SPDX-License-Identifier: Apache-2.0
"""Micro-experiments about time: barriers, copies, descriptors, memories, exchange, register moves, clusters.

Each function takes the number of launches that count and returns records; all need a Hopper GPU.
"""

from __future__ import annotations

import numpy as np

from ..launches import micro
from ..launches.launch import SMS
from .micro_records import after_first, cycles, numbered, rated, sampled
from ..recordings import Record
from ..machine.timing import interleaved

BOXES = ((1, 64), (8, 64), (64, 64), (64, 128), (128, 128), (64, 256), (128, 256))


def barriers(rounds: int) -> list[Record]:
    """Round trips between two warps or two CTAs, and meetings of a block or a cluster."""
    trips = {"mbarrier_round_trip": {}, "named_round_trip": {}, "remote_round_trip": {}, "remote_round_trip cta": {"order": 1}}
    records = []
    for name, choices in trips.items():
        probe = micro.barrier(name.split()[0], 64, backend="gpu", **choices)
        order = {"remote_round_trip": ("ORDER=cluster",), "remote_round_trip cta": ("ORDER=cta",)}.get(name, ())
        records.append(cycles("barriers", probe, ("threads=64", *order), rounds, after_first(64)))
    meetings = {
        "syncthreads": {},
        "mbarrier_meeting": {"elected": 0},
        "mbarrier_meeting elected": {"elected": 1},
        "cluster_meeting": {"relaxed": 0},
        "cluster_meeting relaxed": {"relaxed": 1},
    }
    for threads in (128, 256, 384, 1024):
        for name, choices in meetings.items():
            probe = micro.barrier(name.split()[0], threads, backend="gpu", **choices)
            options = (f"threads={threads}", *(f"{key.upper()}={value}" for key, value in choices.items()))
            records.append(cycles("barriers", probe, options, rounds, after_first(64)))
    return records


def tma_latency(rounds: int) -> list[Record]:
    """One copy alone, by its size: with a tensor map, without, and a plain load beside them; from the memory and from the L2."""
    records = []
    for rows, columns in BOXES:
        for how in ("tensor", "bulk", "ld.global"):
            if how == "ld.global" and (rows, columns) != BOXES[0]:
                continue
            probe = micro.copy("tma_latency", how, rows, columns, backend="gpu")
            options = (f"HOW={how}", f"BOX_ROWS={rows}", f"BOX_COLS={columns}")
            shape = (rows, columns)
            cold = sampled(probe, rounds, lambda out: out[1:64], cold=True)  # the first one fetches descriptor and code
            warm = sampled(probe, rounds, lambda out: out[64:])
            for words, values in (("from=memory", cold), ("from=L2", warm)):
                records.append(
                    numbered(
                        "tma_latency",
                        "tma_latency",
                        (*options, words),
                        values,
                        "cycles",
                        probe.launch,
                        shape=shape,
                        dtype="bfloat16",
                    )
                )
    return records


def completion(rounds: int) -> list[Record]:
    """A load waited for on its mbarrier, and with cp.async.bulk.wait_group, which waits for stores only."""
    records = []
    for how, waits in (("tensor", "mbarrier"), ("wait_group", "cp.async.bulk.wait_group")):
        probe = micro.copy("tma_latency", how, 64, 64, backend="gpu")
        records.append(
            cycles("completion", probe, (f"wait={waits}",), rounds, lambda out: out[64:], note="one 8 KiB box from the L2")
        )
    return records


def issue(rounds: int) -> list[Record]:
    """What it takes to ask for 8 KiB: one thread with TMA, 128 threads with cp.async."""
    records = []
    for how in ("tensor", "bulk", "cp.async"):
        probe = micro.copy("tma_issue", how, 64, 64, backend="gpu")
        records.append(
            cycles(
                "issue",
                probe,
                (f"HOW={how}", "BOX_ROWS=64", "BOX_COLS=64"),
                rounds,
                after_first(4),
                note="cycles of the issuing warps for a box, four issued one after the other",
            )
        )
    return records


def descriptors(rounds: int) -> list[Record]:
    """The first use of a tensor map against the second, by where the map lies, with and without a prefetch."""
    records = []
    for place in micro.PLACES:
        for prefetch in (False, True):
            probe = micro.descriptor(place, prefetch, backend="gpu")
            options = (f"place={place}", f"prefetch={int(prefetch)}")
            first = sampled(probe, rounds, lambda out: out[2::2], cold=True)  # map 0 also fetches the code
            again = sampled(probe, rounds, lambda out: out[3::2], cold=True)
            for words, values in (("use=first", first), ("use=second", again)):
                records.append(
                    numbered(
                        "descriptors",
                        "descriptor_fetch",
                        (*options, words),
                        values,
                        "cycles",
                        probe.launch,
                        note="an 8 KiB box whose data is in the L2, from issue until it has landed",
                    )
                )
    return records


def memory_latency(rounds: int) -> list[Record]:
    """Dependent loads from a CTA's own shared memory, another CTA's, and the L2."""
    return [
        cycles("memory_latency", micro.chase(space, backend="gpu"), (f"space={space}",), rounds, lambda out: out[1:-1] / 256)
        for space in micro.SPACES
    ]


def memory_bandwidth(rounds: int) -> list[Record]:
    """Bytes a cycle and multiprocessor: own shared memory, another CTA's, the L2; and cp.async.bulk between CTAs."""
    records = []
    for space in micro.SPACES:
        for write in (False, True):
            probe = micro.stream(space, write, 1024, blocks=SMS, backend="gpu")
            values = sampled(probe, rounds, lambda out: 256 * 1024 * 16 / out)
            records.append(
                numbered(
                    "memory_bandwidth",
                    "stream",
                    (f"space={space}", f"WRITE={int(write)}"),
                    values,
                    "bytes/cycle/SM",
                    probe.launch,
                )
            )
    for chunk in (1024, 8192, 32768):
        probe = micro.bulk_stream(chunk, blocks=SMS, backend="gpu")
        values = sampled(probe, rounds, lambda out, chunk=chunk: 64 * chunk / out)
        records.append(
            numbered(
                "memory_bandwidth",
                "bulk_stream",
                ("space=dsmem", f"CHUNK={chunk}", "DEPTH=4"),
                values,
                "bytes/cycle/SM",
                probe.launch,
            )
        )
    return records


def exchange(rounds: int) -> list[Record]:
    """2 KiB to another CTA and back: through global memory, and three ways through distributed shared memory."""
    records = []
    for how in micro.EXCHANGES:
        values = []
        for _ in range(rounds + 1):
            probe = micro.exchange(how, backend="gpu")  # a fresh one: the flags are zero
            out = probe.cycles()
            if out[-1] != 8 * 32:
                raise AssertionError(f"exchange by {how}: {out[-1]} of {8 * 32} messages were answered")
            values.extend(out[1:-1] / 32)
        records.append(
            numbered("exchange", "exchange", (f"how={how}",), values[len(values) // (rounds + 1) :], "cycles", probe.launch)
        )
    return records


def setmaxnreg(rounds: int) -> list[Record]:
    """Giving registers back and taking them, and the same without."""
    records = []
    for without in (False, True):
        probe = micro.setmaxnreg(without, backend="gpu")
        for role, at in (("dec 168 to 40", 0), ("inc 168 to 232", slice(1, 3))):
            records.append(
                cycles(
                    "setmaxnreg",
                    probe,
                    (f"WITHOUT={int(without)}", f"role={role}"),
                    rounds,
                    lambda out, at=at: np.atleast_1d(out[at]),
                )
            )
    return records


def cluster_launch(rounds: int) -> list[Record]:
    """An almost empty kernel of 1056 CTAs, by cluster size."""
    probes = {size: micro.cluster_launch(size, 8 * SMS, backend="gpu") for size in (1, 2, 4, 8)}
    samples = interleaved({str(size): probe.launch.bound() for size, probe in probes.items()}, max(3, rounds), warmups=2)
    return [
        numbered(
            "cluster_launch", "cluster_launch", (f"CLUSTER={size}",), np.array(samples[str(size)].times) * 1e3, "us", probe.launch
        )
        for size, probe in probes.items()
    ]


def multicast(rounds: int) -> list[Record]:
    """The CTAs of a cluster read the same boxes from the L2, each for itself or each a part for all; bytes that arrive."""
    import cupy

    boxes, passes, blocks = 128, 512, 128
    matrix = cupy.random.default_rng(1).integers(0, 1 << 16, (64 * boxes, 256), dtype=cupy.uint16)
    made = {
        (size, shared): micro.multicast(matrix, size, shared, blocks, passes=passes, backend="gpu")
        for size in (1, 2, 4, 8)
        for shared in (False, True)
        if size > 1 or not shared
    }
    samples = interleaved({str(key): launch.bound() for key, launch in made.items()}, max(3, rounds))
    records = []
    for (size, shared), launch in made.items():
        arrived = boxes * size * passes * 64 * 256 * 2  # every cluster's part, in each of its CTAs
        asked = arrived // size if shared else arrived
        records.append(
            rated(
                "multicast",
                launch,
                (f"CLUSTER={size}", f"MULTICAST={int(shared)}"),
                samples[str((size, shared))],
                arrived,
                note=f"GB/s arriving in shared memory; {asked} of {arrived} bytes asked of the L2",
            )
        )
    return records
