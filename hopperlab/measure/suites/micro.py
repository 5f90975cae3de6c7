# SPDX-License-Identifier: Apache-2.0
"""Micro-experiments: what the lessons claim about latency, rate and order, each with its question and the claims it settles.

`EXPERIMENTS` is the table, `measure(rounds, names)` measures; `hopperlab bench micro --kernels NAME …` writes the recording `micro`. Most need a
Hopper GPU. Claims are numbered as in lesson 17; `claims()` says which experiments settle each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import micro_facts, micro_latency, micro_rates, micro_traffic
from ..recordings import Record

METHOD = (
    "cycles of one multiprocessor's clock around the instructions named, inside the kernel: median, least and greatest over "
    "samples and launches, the first sample left out; times by events, interleaved; warp instructions as the emulator counts them"
)


@dataclass(frozen=True)
class Experiment:
    """One question put to the hardware.

    name: the records' `suite`; question: what is asked; claims: numbers of the claims it settles or helps to; kernel: the file
    below hopperlab/kernels; measure(rounds): the records, rounds being launches that count; gpu: False where none is needed.
    """

    name: str
    question: str
    claims: tuple[int, ...]
    kernel: str
    measure: Callable[[int], list[Record]]
    gpu: bool = True


_TABLE = (
    Experiment(
        "barriers",
        "What does a round trip cost on an mbarrier, a named barrier, another CTA's mbarrier, and what a meeting of all?",
        (22, 23, 24),
        "micro/barriers.cu",
        micro_latency.barriers,
    ),
    Experiment(
        "tma_latency",
        "How long does one copy take, by size, with and without a tensor map, from the memory and from the L2?",
        (2, 14, 35),
        "micro/tma_latency.cu",
        micro_latency.tma_latency,
    ),
    Experiment(
        "completion", "Does cp.async.bulk.wait_group wait for a load?", (17,), "micro/tma_latency.cu", micro_latency.completion
    ),
    Experiment(
        "issue",
        "How long are warps busy with asking for 8 KiB, by TMA and by cp.async?",
        (1, 3),
        "micro/tma_latency.cu",
        micro_latency.issue,
    ),
    Experiment(
        "instructions",
        "How many instructions does a box, and a k-tile of a product, cost the warps?",
        (1, 3, 18),
        "micro/tma_vs_cp_async.cu",
        micro_rates.instructions,
        gpu=False,
    ),
    Experiment(
        "copy_bandwidth",
        "Do TMA and cp.async reach the same bandwidth, and with how many registers?",
        (1, 2),
        "micro/tma_vs_cp_async.cu",
        micro_rates.copy_bandwidth,
    ),
    Experiment(
        "descriptors",
        "What does a cold tensor map cost in parameter, constant and global memory, and after a prefetch?",
        (13,),
        "micro/descriptor_fetch.cu",
        micro_latency.descriptors,
    ),
    Experiment("ranks", "Does TMA copy one to five dimensions, and as fast?", (4, 8), "copy/tensor_copy.cu", micro_facts.ranks),
    Experiment(
        "reductions",
        "Which operations reduce, in which types, into which memories, and how fast?",
        (5,),
        "copy/bulk_reduce.cu",
        micro_facts.reductions,
    ),
    Experiment(
        "layouts",
        "Which layouts, corners, strides and interleaves does a tensor map express, without another compilation?",
        (6, 8, 9, 10, 11, 16),
        "copy/tensor_copy.cu",
        micro_facts.layouts,
    ),
    Experiment("alignment", "Which addresses, strides and boxes does the driver refuse?", (7,), "", micro_facts.alignment),
    Experiment(
        "accepted", "Which shapes of wgmma, and which copies, exist on sm_90a?", (12, 28), "", micro_facts.accepted, gpu=False
    ),
    Experiment(
        "multicast",
        "What does multicast save when the CTAs of a cluster read the same boxes?",
        (15, 43),
        "micro/multicast_load.cu",
        micro_latency.multicast,
    ),
    Experiment(
        "multicast_traffic",
        "How much does the L2 deliver when the CTAs of a cluster read the same boxes, with and without multicast?",
        (15,),
        "micro/multicast_load.cu",
        micro_traffic.multicast,
    ),
    Experiment(
        "issue_slots",
        "How many instructions and issue slots do the four products of the 2x2 take?",
        (3, 18, 33),
        "gemm/cp_async_wgmma.cu",
        micro_traffic.issue_slots,
    ),
    Experiment(
        "swizzled_reads",
        "How long is shared memory busy with a row or column read, in each swizzle and with padding?",
        (19, 20, 43),
        "micro/swizzle_reads.cu",
        micro_rates.swizzled_reads,
    ),
    Experiment(
        "wgmma_rate",
        "How fast is wgmma by N, and with A from registers?",
        (26, 27, 28),
        "micro/wgmma_rate.cu",
        micro_rates.wgmma_rate,
    ),
    Experiment("wgmma_inputs", "How fast is each input type?", (26, 30), "micro/wgmma_rate.cu", micro_rates.wgmma_inputs),
    Experiment(
        "wgmma_groups",
        "How many groups must be in flight to keep the tensor cores busy?",
        (25, 31, 32),
        "micro/wgmma_rate.cu",
        micro_rates.wgmma_groups,
    ),
    Experiment(
        "mma_rate",
        "How fast is mma.sync, and how many warps and independent sums does it need?",
        (25, 26, 32),
        "micro/mma_rate.cu",
        micro_rates.mma_rate,
    ),
    Experiment(
        "tensor_issue",
        "Does mma.sync hold its warp until it completes? Does wgmma?",
        (25,),
        "micro/mma_rate.cu",
        micro_rates.tensor_issue,
    ),
    Experiment("setmaxnreg", "What does moving registers cost?", (40,), "micro/setmaxnreg_cost.cu", micro_latency.setmaxnreg),
    Experiment(
        "memory_latency",
        "How long does a dependent load take in shared memory, in another CTA's, and in the L2?",
        (41,),
        "micro/memory_latency.cu",
        micro_latency.memory_latency,
    ),
    Experiment(
        "memory_bandwidth",
        "How many bytes per cycle do they give and take?",
        (19, 41),
        "micro/memory_latency.cu",
        micro_latency.memory_bandwidth,
    ),
    Experiment(
        "exchange",
        "How long does a message to another CTA and back take, through global and through distributed shared memory?",
        (41,),
        "micro/exchange.cu",
        micro_latency.exchange,
    ),
    Experiment(
        "cluster_launch", "What does launching clusters cost?", (15,), "micro/cluster_launch.cu", micro_latency.cluster_launch
    ),
)

EXPERIMENTS: Mapping[str, Experiment] = {experiment.name: experiment for experiment in _TABLE}

# Claims that other recordings, or the specification, settle (also).
ELSEWHERE: Mapping[int, str] = {
    2: "recording tma_vs_cp_async: bandwidth by box",
    18: "no source names its survey: nothing to measure",
    3: "recording variants, two_by_two: the same products with both kinds of copy",
    21: "the specification (PTX ISA 9.7.13.15.5): expect_tx counts bytes; a barrier told too many never completes",
    29: "recording variants, operands: registers of SS and RS",
    30: "recording variants, operands: tf32's rate and error",
    31: "recording bugs: warp_specialized with BUG_EARLY_RELEASE",
    32: "recordings variants and ladder: registers",
    33: "recording variants, two_by_two",
    34: "recording variants, cuda_pipeline; its PTX has no cp.async.bulk",
    35: "recording variants, depth",
    36: "recording variants, depth: 32, 64 and 128 columns per stage",
    37: "recording variants, roles: multistage and warp specialisation on one tile",
    38: "the literature: CUDA-DMA (2011) and Singe (2014)",
    39: "recording variants, roles: WAIT_FOR_OWN_LOAD",
    40: "recording variants, roles; recording ladder: two_consumers_128x256",
    42: "recording ladder: Triton beside cuBLAS",
    43: "their sources; what multicast and swizzles do here",
}


def claims() -> dict[int, tuple[str, ...]]:
    """Number of a claim -> names of the experiments that settle it, in the table's order."""
    numbers = sorted({number for experiment in _TABLE for number in experiment.claims} | set(ELSEWHERE))
    return {number: tuple(e.name for e in _TABLE if number in e.claims) for number in numbers}


def measure(rounds: int = 5, only: Sequence[str] = ()) -> list[Record]:
    """The records of the named experiments (of all, where none is named); tells of each on standard error.

    Raises KeyError that lists the experiments for an unknown name, RuntimeError for one that needs a Hopper GPU where none is.
    """
    chosen = list(only) or list(EXPERIMENTS)
    unknown = [name for name in chosen if name not in EXPERIMENTS]
    if unknown:
        raise KeyError(f"no micro-experiment {', '.join(unknown)}; there are: {', '.join(EXPERIMENTS)}")
    _require_gpu([name for name in chosen if EXPERIMENTS[name].gpu])
    records: list[Record] = []
    for name in chosen:
        start = time.perf_counter()
        found = EXPERIMENTS[name].measure(rounds)
        records += found
        print(f"{name}: {len(found)} records in {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)
    return records


def _require_gpu(names: list[str]) -> None:
    """Raise RuntimeError when there is no Hopper GPU for the experiments that need one."""
    from ...runtime.gpu import driver

    found = driver.find_gpu() if names else None
    if names and (found is None or found.capability != (9, 0)):
        without = ", ".join(name for name, experiment in EXPERIMENTS.items() if not experiment.gpu)
        told = f"measured on a Hopper GPU, and there is none here. Without one there are: {without}"
        raise RuntimeError(f"{', '.join(names)}: {told}")
