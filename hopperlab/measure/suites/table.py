# SPDX-License-Identifier: Apache-2.0
"""The one table of what is measured: a row a recording says which suite it belongs to, what measures it, which command writes it, and what README shows.

`hopperlab bench` and its --help, README's performance section, the list in recordings/README.md, `recordings.names` and the tests read it.
Add a recording by adding a row. Functions are named, not imported, so that --help answers at once: this file imports nothing of ours, and what it
names is looked up by whoever asks for it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

RACE, RECORDS, OTHER = "race", "records", "other"
"""What `run` names: a race.Races; a function of the number of rounds that returns records; something of a tool with a form of its own."""


@dataclass(frozen=True)
class Suite:
    """One recording and all that is said of it.

    name: of its suite, the word after `hopperlab bench` where that is in BENCHES; several recordings may belong to one suite. recording: its file
    in hopperlab/recordings, without .json. run: 'module:name' below hopperlab.measure, see `kind`. command: what writes the stored file.
    help: what it holds, in Markdown, for the list in recordings/README.md. readme_table: 'module:name' of what makes a part of README's performance
    section of it. rounds: launches of each variant that count. choices: 'module:name' of a mapping whose keys `--kernels` may pick.
    keeps: its function hands what it has so far to `keep`. shown: 'module:name' of a function that makes a text of the records.
    method: 'module:name' of how it was measured, where board.METHOD does not say it. own_form: the file is no list of records (not for `load`).
    gpus: how many of one host it needs; where there are fewer, a run of several suites leaves it out and says so.
    """

    name: str
    recording: str
    run: str
    command: str
    help: str
    readme_table: str = ""
    kind: str = RECORDS
    rounds: int = 9
    choices: str = ""
    keeps: bool = False
    shown: str = ""
    method: str = ""
    own_form: bool = False
    gpus: int = 1

    @property
    def function(self) -> Callable:
        """What `run` names."""
        return found(self.run)

    @property
    def known(self) -> Mapping[str, object]:
        """What `--kernels` may pick of it; empty where it is measured as a whole."""
        return found(self.choices) if self.choices else {}

    def measure(self, rounds: int, only: Sequence[str] = (), keep: Callable[[list], object] = lambda records: None) -> list:
        """Its records, of what `only` picks (all, where it is empty). Needs a Hopper GPU, with few exceptions.

        keep: called with the records so far, so that a run that is cut short leaves something. Raises race.WrongResult or AssertionError when a
        result is wrong.
        """
        more: dict[str, object] = {"only": tuple(only)} if self.choices else {}
        return self.function(rounds, **more, **({"keep": keep} if self.keeps else {}))


def found(name: str) -> Any:
    """What 'module:name' below hopperlab.measure names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(f"{__package__.rpartition('.')[0]}.{module}"), attribute)


BENCHES: Mapping[str, str] = {
    "gemm": "bf16 products of the course beside cuBLAS, PyTorch and Triton",
    "copy": "every way to copy a matrix, beside cudaMemcpy",
    "micro": "latency and throughput of single mechanisms",
    "variants": "products that differ in one thing: copies, tensor cores, roles, depth, operands",
    "copies": "copies and reads of 4 GiB, by way of a neighbour CTA, and multicast; reads as large as the weights of products of few rows",
    "launches": "what starts of kernels cost: a chain launch by launch, as a graph, with dependent launches, as one kernel",
    "two_gpus": "two GPUs of one host: copies over the link, products under an all-gather and a reduce-scatter, all-reduces",
    "pitches": "what rows that begin inside a 128-byte line cost a product",
    "fp8": "fp8 products with fine-grained scales beside cuBLASLt's, and what their sums lose",
    "mixed": "bf16 activations times weights of 4 and 8 bits and 2:4 sparse weights, beside cuBLAS's bf16",
    "attention": "attention forward beside cuDNN's, over head sizes, lengths and masks",
    "attention_fp8": "the same in fp8, beside our bf16 forward and cuDNN's",
    "backward": "attention backward beside cuDNN's, over the same, in order or not",
    "decoding": "attention of one query over a long cache, beside a read of it, PyTorch, cuDNN and FlashInfer",
    "search": "configurations of the last kernel at random shapes: what the cost model is fitted on",
    "ladder": "what the story of the ladder reads: its steps, ceilings, depths of the ring",
    "lessons": "single lessons: copies of 1 GiB, boxes, ways to time, registers by role, tiles in clusters, planted bugs",
    "all": "every recording of these, the two races gemm and copy aside",
}
"""Word after `hopperlab bench` -> its line of help."""

_OUT = "--out hopperlab/recordings"

SUITES: tuple[Suite, ...] = (
    Suite("ladder", "ladder", "suites.ladder:measure", f"hopperlab bench ladder {_OUT}",
          "every step of the product ladder at 4096³ and 8192³; `final` and its configurations over eight shapes, at edges and without a pause",
          "readme:ladder", rounds=11, keeps=True, shown="suites.ladder:shown"),
    Suite("ladder", "ceilings", "suites.ceilings:ceilings", f"hopperlab bench ladder --kernels ceilings {_OUT}",
          "the best copy, and the best cuBLAS product of each data type: the roof", "readme:ladder"),
    Suite("ladder", "gemm", "suites.products:gemm", f"hopperlab bench ladder --kernels gemm {_OUT}",
          "the course's products beside cuBLAS over six shapes"),
    Suite("ladder", "stages", "suites.products:stages", f"hopperlab bench ladder --kernels stages {_OUT}",
          "the depth of the ring against speed"),
    Suite("gemm", "bench_gemm", "suites.race_gemm:RACES", f"hopperlab bench gemm --kernels final --modes cold --power 0 --rounds 41 {_OUT}",
          "`final` in one process with every peer; `mode` tells cold L2 from sustained, a kernel has a record beside each family of peers",
          "readme:rivals", kind=RACE, method="suites.race:METHOD"),
    Suite("gemm", "products", "suites.race_gemm:RACES", "hopperlab bench gemm --random 60 --seed 202611243 --rounds 15 --out hopperlab/recordings/products.json",
          "`final` as the cost model picks it, beside cuBLAS at 60 random shapes that it was not fitted on", "readme:products", kind=RACE, method="suites.race:METHOD"),
    Suite("gemm", "products_best", "suites.race_gemm:RACES",
          "hopperlab bench gemm --random 60 --seed 202611261 --rounds 15 --out hopperlab/recordings",
          "the same at 60 others, beside the fastest of cuBLASLt's eight best candidates, too, each timed at its shape (ours is picked, not timed); on the H100 "
          "with the seed 202611262", kind=RACE, method="suites.race:METHOD"),
    Suite("gemm", "products_quack", "suites.race_gemm:RACES",
          "hopperlab bench gemm --shapes 3072x3072x3072 19x1792x960 2048x5120x5120 256x1152x1536 5120x5120x5120 813x14848x4800 "
          "8192x8192x8192 1577x2592x1696 3000x3000x3000 16x2176x640 256x14336x4096 702x512x4048 1536x1536x1536 --kernels final --peers cublas quack "
          "--modes cold clean --power 0 --rounds 15 --out hopperlab/recordings/products_quack.json",
          "`final` as the cost model picks it, beside quack's product, which tries its configurations at each shape, and cuBLAS: seven shapes that quack was "
          "known to be fast at, and six drawn at random (seed 20261126)", kind=RACE, method="suites.race:METHOD"),
    Suite("gemm", "products_sustained", "suites.race_gemm:RACES",
          "hopperlab bench gemm --kernels final final_dependent --peers cublas cublaslt --modes sustained --rounds 9 --power 0.6 "
          "--out hopperlab/recordings/products_sustained.json",
          "`final` over the eight shapes in bursts back to back, in ordinary and in dependent launches, beside cuBLAS, with watts and joules", kind=RACE,
          method="suites.race:METHOD"),
    Suite("gemm", "products_few", "suites.race_gemm:RACES",
          "hopperlab bench gemm --shapes 7x2240x13184 1x4608x12032 14x4608x6336 3x18240x9024 53x21824x6080 5x5760x8064 1x15360x14720 27x5440x10880 "
          "5x8768x4224 2x3008x27584 13x5248x10944 62x17920x6784 32x14592x2048 2x12288x2304 2x23232x2560 14x4416x10560 31x2816x12800 11x6144x9792 "
          "2x18112x4096 11x14656x3264 --kernels final --peers cublas cublaslt --modes cold clean --power 0 --rounds 15 --out hopperlab/recordings/products_few.json",
          "`final` as the cost model picks it, beside cuBLAS, for 1 to 64 rows and weights of 32 MB and more, 20 shapes drawn at random (seed 20261126)",
          kind=RACE, method="suites.race:METHOD"),
    Suite("gemm", "peers", "suites.race_gemm:RACES", f"hopperlab bench gemm --shapes 1024 4096 --kernels none {_OUT}/peers.json",
          "the peers of a product beside each other", kind=RACE, method="suites.race:METHOD"),
    Suite("search", "search", "suites.search:measure", f"hopperlab bench search {_OUT}",
          "configurations of `final` at random shapes beside cuBLAS, `note` is the place in the cost model's ranking: what the model is fitted on",
          rounds=9, keeps=True, shown="suites.search:shown", method="suites.search:METHOD"),
    Suite("search", "search_few", "suites.search:measure_few", f"hopperlab bench search --kernels search_few {_OUT}",
          "the same at random shapes of few tiles and a deep k, the deepest rings among the configurations, beside cuBLASLt's eight best candidates, too: what the "
          "choice's second trees are fitted on", keeps=True, shown="suites.search:shown", method="suites.search:FEW_METHOD"),
    Suite("search", "search_fp8", "suites.search_random:fp8", f"hopperlab bench search --kernels search_fp8 {_OUT}",
          "configurations of the fp8 product that its model ranks first (`tried`, `note` names them) and the one that is picked (`final`) beside cuBLASLt, "
          "at random shapes: what that model is fitted on", keeps=True, shown="suites.search_random:shown", method="suites.search_random:METHOD"),
    Suite("search", "search_attention", "suites.search_random:attention", f"hopperlab bench search --kernels search_attention {_OUT}",
          "the same for attention over short sequences, beside cuDNN", keeps=True, shown="suites.search_random:shown", method="suites.search_random:METHOD"),
    Suite("copy", "bench_copy", "suites.race_copy:RACES", f"hopperlab bench copy {_OUT}",
          "the same for copies (not stored here)", kind=RACE, method="suites.race:METHOD"),
    Suite("fp8", "fp8", "suites.fp8:measure", f"hopperlab bench fp8 {_OUT}",
          "products of e4m3 with fine-grained scales beside cuBLASLt's: steps, configurations over eight shapes (`note`), `final`; errors of sums over k "
          "(`accuracy`); wgmma while TMA writes beside it (`wgmma_beside_copies`)",
          "readme:fp8", keeps=True, shown="suites.fp8:shown"),
    Suite("fp8", "fp8_random", "suites.race_fp8:RACES", f"hopperlab bench fp8 --random 60 --rounds 15 {_OUT}",
          "`final` as the course picks it, beside cuBLASLt's block-scaled product at 60 random shapes, where that takes them", "readme:fp8_random", kind=RACE,
          method="suites.race_fp8:METHOD"),
    Suite("mixed", "mixed", "suites.mixed:measure", f"hopperlab bench mixed {_OUT}",
          "bf16 activations times weights of 4 and 8 bits and times 2:4 sparse weights, beside cuBLAS's bf16 "
          "product and PyTorch's 4-bit and sparse ones: few rows, many rows, group sizes, configurations, joules",
          rounds=11, choices="suites.mixed:EXPERIMENTS", keeps=True, shown="suites.mixed:shown", method="suites.mixed:METHOD"),
    Suite("attention", "attention", "suites.attention:measure", f"hopperlab bench attention {_OUT}",
          "attention forward beside cuDNN's over head sizes, masks and lengths: configurations (`note`), steps, `final`",
          "readme:attention", keeps=True, shown="suites.attention:shown"),
    Suite("attention", "attention_random", "suites.race_attention:RACES", f"hopperlab bench attention --random 60 --rounds 15 {_OUT}",
          "`final` as the course picks it, beside cuDNN's at 60 random cells: head sizes, heads, groups, lengths, masks, sequences of several lengths, where that takes "
          "them", "readme:attention_random", kind=RACE, method="suites.race_attention:METHOD"),
    Suite("backward", "backward", "suites.backward:measure", f"hopperlab bench backward {_OUT}",
          "attention backward beside cuDNN's over head sizes, masks and lengths: configurations (`note`), steps, `final`, `ordered` "
          "(the same bits in every run), each kernel (`part`), errors against float64 (`accuracy`), runs that differ (`bits`)",
          keeps=True, shown="suites.backward:shown", method="suites.backward:METHOD"),
    Suite("attention_fp8", "attention_fp8", "suites.attention_fp8:measure", f"hopperlab bench attention_fp8 {_OUT}",
          "the same on e4m3, beside our bf16 forward and cuDNN's bf16: configurations (`note`), `final`, errors of sums over keys (`accuracy`)",
          keeps=True, shown="suites.attention_fp8:shown"),
    Suite("decoding", "decoding", "suites.decoding:measure", f"hopperlab bench decoding {_OUT}",
          "attention of one query a sequence over a paged cache beside a kernel that only reads it, PyTorch, cuDNN and FlashInfer where they run: batches and lengths "
          "(`cells`), page sizes by tensor map and by gather, splits, depth of the ring, latent attention; what leaving the maximum out of the combination gives",
          rounds=21, choices="suites.decoding:EXPERIMENTS", keeps=True, shown="suites.decoding:shown", method="suites.decoding:METHOD"),
    Suite("micro", "micro", "suites.micro:measure", f"hopperlab bench micro {_OUT}",
          "latency, rate, counts and yes-or-no facts behind the lessons' claims; `suite` names the experiment",
          rounds=5, choices="suites.micro:EXPERIMENTS", method="suites.micro:METHOD"),
    Suite("variants", "variants", "suites.variants:measure", f"hopperlab bench variants {_OUT}",
          "the 2x2 of {`cp.async`, TMA} x {`mma.sync`, wgmma} with joules, roles, depth, `cuda::pipeline`, wgmma's operands",
          rounds=7, choices="suites.variants:CONTROLS"),
    Suite("launches", "launches", "suites.launches:measure", f"hopperlab bench launches {_OUT}",
          "a chain of small products and a norm: launch by launch, as a CUDA graph, with programmatic dependent launches (and where `launch_dependents` "
          "and `wait` stand), as one persistent kernel; kernels that do nothing; how many clusters fit; what reading before the wait gives",
          rounds=41, choices="suites.launches:EXPERIMENTS", keeps=True, shown="suites.launches:shown", method="suites.launches:METHOD"),
    Suite("two_gpus", "two_gpus", "suites.two_gpus:measure", f"hopperlab bench two_gpus {_OUT}",
          "two GPUs of one host (needs both): copies over the link by CTAs, a flag's round trip, all-gather under a product and product under "
          "a reduce-scatter beside the product alone and beside NCCL with cuBLAS, who copies and in which order, all-reduces of small vectors",
          "readme:two_gpus", rounds=9, choices="suites.two_gpus:EXPERIMENTS", keeps=True, shown="suites.two_gpus:shown", method="suites.two_gpus:METHOD", gpus=2),
    Suite("copies", "copies", "suites.copies:measure", f"hopperlab bench copies {_OUT}",
          "4 GiB: copies beside cudaMemcpy, by way of a neighbour CTA, reads alone; multicast", rounds=5),
    Suite("copies", "reads_few", "suites.reads:measure", f"hopperlab bench copies --kernels reads_few {_OUT}",
          "`final` at the shapes of `products_few`, with its weights stored either way, beside a kernel that reads as many bytes as these weights have and uses none, "
          "in the same rounds", rounds=15, keeps=True, method="suites.reads:METHOD"),
    Suite("pitches", "pitches", "suites.pitches:pitches", f"hopperlab bench pitches {_OUT}",
          "what it costs a product when the rows of its operands begin inside a 128-byte line: `final` and cublasGemmEx, k and row pitches told apart",
          rounds=21),
    Suite("lessons", "copy", "suites.copies:plain", f"hopperlab bench lessons --kernels copy {_OUT}", "every way to copy 1 GiB, beside cudaMemcpy"),
    Suite("lessons", "tma_vs_cp_async", "suites.copies:boxes", f"hopperlab bench lessons --kernels tma_vs_cp_async {_OUT}",
          "one thread issuing TMA against 128 issuing cp.async, by box"),
    Suite("lessons", "timing", "suites.habits:habits", f"hopperlab bench lessons --kernels timing {_OUT}",
          "one copy timed in four ways, the first of them wrong"),
    Suite("lessons", "roles", "suites.roles:roles", f"hopperlab bench lessons --kernels roles {_OUT}", "tiles with and without setmaxnreg (lesson 11)"),
    Suite("lessons", "schedules", "suites.equal_tiles:measure", f"hopperlab bench lessons --kernels schedules {_OUT}",
          "cooperative beside ping-pong consumers on equal tiles with equal epilogues, k from 256 to 8192; a product that adds to C, its old tile loaded under the "
          "products (lesson 13)", rounds=15, method="suites.equal_tiles:METHOD"),
    Suite("lessons", "pipelines", "suites.pipeline_causes:measure", f"hopperlab bench lessons --kernels pipelines {_OUT}",
          "why `cuda::pipeline` is slower: groups, mbarriers and both pipelines on one tile, the next copy before or after the product, registers, edges (lesson 03x)",
          rounds=15, method="suites.pipeline_causes:METHOD"),
    Suite("lessons", "engine", "suites.engine:measure", f"hopperlab bench lessons --kernels engine {_OUT}",
          "how many tensor maps the copy engine keeps, in which pieces a box counts on a barrier that was told too few bytes (lesson 05x), im2col loads "
          "whose corners differ (lesson 06x)",
          rounds=5, keeps=True, method="suites.engine:METHOD"),
    Suite("lessons", "fp8_grouped", "suites.fp8_grouped:measure", f"hopperlab bench lessons --kernels fp8_grouped {_OUT}",
          "fp8 products of groups, as in a mixture-of-experts layer, at drawn numbers of groups and rows, in both layouts: `grouped_tall` beside DeepGEMM, where it is "
          "installed, and cuBLASLt launched once per group (lesson 15)",
          rounds=15, keeps=True, method="suites.fp8_grouped:METHOD"),
    Suite("lessons", "triton_roles", "suites.triton_roles:measure", f"hopperlab bench lessons --kernels triton_roles {_OUT}",
          "a product in Triton with and without `warp_specialize`, beside cuBLAS: right or not, registers, speed (lesson 18)",
          rounds=9, keeps=True, method="suites.triton_roles:METHOD"),
    Suite("lessons", "clusters", "suites.clusters:clusters", f"hopperlab bench lessons --kernels clusters {_OUT}",
          "a tile that two CTAs need: loaded by each, multicast, or handed on by an exchange warp through DSMEM (lesson 12)"),
    Suite("lessons", "bugs", "suites.bugs:measure", f"hopperlab bench lessons --kernels bugs {_OUT}",
          "what the GPU does with planted bugs, and with the four kernels of lesson 00 (`python -m hopperlab.measure.suites.bugs --missing` adds those "
          "that are not recorded)"),
    Suite("memcheck", "memcheck", "profile.memcheck:measure", "make gpu-memcheck",
          "compute-sanitizer's memcheck over every step of the ladder, the fp8 product, attention, and files of tests "
          "(`python -m hopperlab.measure.profile.memcheck`): `outcome` of each process, the kernels it launched in `note`; `overrun` shows what the tool "
          "sees of copies that write past their target's end", kind=OTHER),
    Suite("profiles", "profiles", "profile.profiles:measure", "python -m hopperlab.measure.profile.profiles",
          "what Nsight Compute's metrics say of single launches of `final`, the fp8 products and attention: `note` is the metric (titles of "
          "`hopperlab profile --metrics lessons`), `value` in `unit`", kind=OTHER),
    Suite("profiles", "profiles_products", "profile.profiles:measure", "python -m hopperlab.measure.profile.profiles profiles_products",
          "the same of lesson 09's four products at 4096³ (`two_by_two`, lesson 09x)", kind=OTHER),
    Suite("timelines", "timeline", "suites.timelines:measure", "python -m hopperlab.measure.suites.timelines",
          "where each warp of two blocks of a warp-specialised product was, by `hl.timeline` (`hopperlab.measure.timelines.load()` reads it); not for `load`",
          kind=OTHER, own_form=True),
    *(Suite("timelines", f"timeline_{step}", "suites.timelines:measure", "python -m hopperlab.measure.suites.timelines",
            "scores, values and softmax of both consumers in one block of attention, in that step (written and read as `timeline`)",
            kind=OTHER, own_form=True) for step in ("two_consumers", "pingpong", "overlapped")),
    Suite("counters", "counters", "profile.counters:run",
          "hopperlab profile -m hopperlab.measure.launches.counter_kernels --json hopperlab/recordings/counters.json",
          "wavefronts, conflicts, requests and sectors of 19 kernels, emulator beside Nsight Compute; not for `load`", kind=OTHER, own_form=True),
    Suite("counters", "counters_engines", "profile.counters:run",
          "hopperlab profile -m hopperlab.measure.launches.counter_kernels_engines --json hopperlab/recordings/counters_engines.json",
          "the same for bytes by engine, atomics and wgmma, 35 kernels", kind=OTHER, own_form=True),
)

OWN_FORM = frozenset(suite.recording for suite in SUITES if suite.own_form)


def rows(name: str, table: Iterable[Suite] | None = None) -> tuple[Suite, ...]:
    """What `hopperlab bench name` measures: the rows of a suite, or of `all`. Raises KeyError for a word that is not in BENCHES.

    A race is one row, whichever recordings are made by it; of a suite that measures fixed shapes by itself it is what --random asks for (`drawn`).
    """
    if name not in BENCHES:
        raise KeyError(name)
    chosen = [suite for suite in table or SUITES if suite.kind != OTHER and (suite.name == name or name == "all" and suite.kind == RECORDS)]
    return tuple(chosen[:1] if chosen[0].kind == RACE else [suite for suite in chosen if suite.kind == RECORDS])


def drawn(name: str) -> tuple[Suite, ...]:
    """What `hopperlab bench name --random` measures, and the recording that --out DIR replaces: the latest of the suite's drawn races; nothing where it has none."""
    return tuple(suite for suite in SUITES if suite.name == name and suite.kind == RACE and "--random" in suite.command)[-1:]
