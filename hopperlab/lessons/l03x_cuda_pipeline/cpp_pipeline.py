# SPDX-License-Identifier: Apache-2.0
"""Lesson 03x: what the C++ names of asynchronous copies become: six ways to fill a tile, their PTX, their runs, the panel over
cuda::pipeline, its recorded speed, and the check of the exercise.
"""
from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.patches import Rectangle

from ...measure.launches.variants import cuda_pipeline
from ...measure.suites.pipeline_causes import Choice
from ...runtime.tables import text_table
from ...show import charts, style
from ...show.stages import stage_diagram

THREADS = 128
_FRAME = r'''HEADERS
extern "C" __global__ void fill(const uint4* in, uint4* out) {
    __shared__ alignas(128) uint4 tile[128];
BODY
    out[threadIdx.x] = tile[threadIdx.x ^ 33];        // what another warp's thread brought
}'''
_BARRIER = '''    __shared__ cuda::barrier<cuda::thread_scope_block> full;
    if (threadIdx.x == 0) init(&full, blockDim.x);
    __syncthreads();
'''
_MINE = "&tile[threadIdx.x], &in[threadIdx.x], cuda::aligned_size_t<16>(16)"
_WAYS = {
    "__pipeline_memcpy_async": ("cuda_pipeline.h", """    __pipeline_memcpy_async(&tile[threadIdx.x], &in[threadIdx.x], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();"""),
    "memcpy_async, a thread's pipeline": ("cuda/pipeline", f"""    auto pipeline = cuda::make_pipeline();
    pipeline.producer_acquire();
    cuda::memcpy_async({_MINE}, pipeline);
    pipeline.producer_commit();
    pipeline.consumer_wait();
    __syncthreads();
    pipeline.consumer_release();"""),
    "memcpy_async, the block's pipeline": ("cooperative_groups.h cuda/pipeline", f"""    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
    auto pipeline = cuda::make_pipeline(cooperative_groups::this_thread_block(), &state);
    pipeline.producer_acquire();
    cuda::memcpy_async({_MINE}, pipeline);
    pipeline.producer_commit();
    pipeline.consumer_wait();"""),
    "memcpy_async, a barrier, 4 bytes each": ("cuda/barrier", _BARRIER + """    for (int i = threadIdx.x; i < 512; i += 128)
        cuda::memcpy_async((int*)tile + i, (const int*)in + i, sizeof(int), full);
    full.arrive_and_wait();"""),
    "memcpy_async, a barrier, 16 aligned": ("cuda/barrier", _BARRIER + f"""    cuda::memcpy_async({_MINE}, full);
    full.arrive_and_wait();"""),
    "memcpy_async_tx, one thread": ("cuda/barrier", _BARRIER + """    if (threadIdx.x == 0) {
        cuda::device::memcpy_async_tx(tile, in, cuda::aligned_size_t<16>(sizeof tile), full);
        full.wait(cuda::device::barrier_arrive_tx(full, 1, sizeof tile));
    } else full.arrive_and_wait();"""),
}
WAYS = tuple(_WAYS)
FAMILIES = {"cp.async": r"cp\.async\.c[ag]\.", "cp.async.commit_group": r"cp\.async\.commit_group", "cp.async.wait_group": r"cp\.async\.wait_(?:group|all)",
            "cp.async.mbarrier.arrive": r"cp\.async\.mbarrier\.arrive", "mbarrier.arrive": r"(?<!async\.)mbarrier\.arrive",
            "mbarrier…expect_tx": r"mbarrier\.[a-z_.]*expect_tx", "mbarrier.try_wait": r"mbarrier\.t[a-z]+_wait",
            "cp.async.bulk": r"cp\.async\.bulk\.(?!tensor)[a-z:_]+\.global",
            "cp.async.bulk.tensor": r"cp\.async\.bulk\.tensor"}


def way_source(way: str) -> str:
    """The kernel of one of WAYS: 128 threads fill a tile of 2 KiB and each reads what a thread of another warp brought."""
    headers, body = _WAYS[way]
    return _FRAME.replace("HEADERS", "\n".join(f"#include <{name}>" for name in headers.split())).replace("BODY", body)


def issued_families(ptx: str) -> dict[str, int]:
    """Family of instructions -> how many times it stands in the PTX."""
    return {name: len(re.findall(pattern, ptx)) for name, pattern in FAMILIES.items()}


def way_families(way: str) -> dict[str, int]:
    """`issued_families` of one of WAYS, as compiled here."""
    import hopperlab as hl

    return issued_families(hl.RawModule(code=way_source(way), backend="emulator").ptx)


def run_way(way: str, schedule: str = "lazy") -> tuple[bool, Any]:
    """(right, session) of one of WAYS in the emulator."""
    import hopperlab as hl

    source = np.arange(THREADS * 4, dtype=np.uint32)
    out = np.zeros_like(source)
    kernel = hl.RawModule(code=way_source(way), backend="emulator").get_function("fill")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        kernel((1,), (THREADS,), (source, out))
    return bool((out.reshape(-1, 4) == source.reshape(-1, 4)[np.arange(THREADS) ^ 33]).all()), run


def ways_table() -> str:
    """A line a way: the copies and the waits that stand in its PTX, by name."""
    lines = []
    for way in WAYS:
        found = [name for name, count in way_families(way).items() if count]
        lines.append(f"{way}:\n    {', '.join(found)}")
    return "\n".join(lines)


def ways_chart() -> style.Picture:
    """Which instructions each way compiles to: a filled cell where the family stands in the PTX."""
    figure, (axis,) = style.new_figure(4.0)
    words = ["What each way compiles to"]
    for row, way in enumerate(WAYS):
        found = way_families(way)
        for column, (name, count) in enumerate(found.items()):
            colour = style.EMPTY if not count else style.ORANGE if "bulk" in name else style.SKY
            axis.add_patch(Rectangle((column, row), 1, 1, facecolor=colour, edgecolor=style.CARD, linewidth=2))
            if count:
                axis.text(column + 0.5, row + 0.5, "yes", ha="center", va="center", fontsize=9, color=style.INK)
        words.append(f"  {way}: {', '.join(name for name, count in found.items() if count)}")
    axis.set(xlim=(0, len(FAMILIES)), ylim=(len(WAYS), 0))
    axis.set_xticks([i + 0.5 for i in range(len(FAMILIES))], list(FAMILIES), rotation=25, ha="right", rotation_mode="anchor")
    axis.set_yticks([i + 0.5 for i in range(len(WAYS))], WAYS)
    axis.tick_params(length=0)
    for side in ("left", "bottom"):
        axis.spines[side].set_visible(False)
    style.title(axis, "What each way compiles to (PTX); orange: the copy engine")
    return style.Picture(figure, "\n".join(words))


def run_pipeline(scope: str, stages: int, k: int = 384, schedule: str = "lazy", bugs: tuple[str, ...] = ()) -> tuple[bool, Any]:
    """(right, session) of gemm/cuda_pipeline.cu on one tile of 128 x 128 and k columns. scope: 'thread' or 'block'; bugs: macros."""
    from ml_dtypes import bfloat16

    import hopperlab as hl

    random = np.random.default_rng(stages + k)
    a, b = (random.integers(-2, 3, (128, k)).astype(bfloat16) for _ in range(2))
    c = np.zeros((128, 128), bfloat16)
    launch = cuda_pipeline(a, b, c, stages, scope, tuple(f"-D{bug}=1" for bug in bugs), backend="emulator")
    with hl.emulate(schedule=schedule, hazards="collect") as run:
        launch()
    return bool((c == (a.astype(np.float32) @ b.astype(np.float32).T).astype(bfloat16)).all()), run


def launch_cpp_pipeline(scope: str, stages: int, acquire: str, schedule: str) -> style.Picture:
    """The panel: one tile with a pipeline of each thread or of the block. acquire: 'yes' or 'no'. Raises ValueError past 7 stages."""
    bugs = () if acquire == "yes" else ("BUG_NO_ACQUIRE",)
    right, run = run_pipeline(scope, stages, schedule=schedule, bugs=bugs)
    said = run.hazards[0].kind if run.hazards else "no hazard"
    counts = f"{run.counters['cp_async_requests']} cp.async requests, {run.counters.get('mbarrier_arrivals', 0)} arrivals on mbarriers"
    heading = f"a {scope}'s pipeline, {stages} stages: result {'right' if right else 'WRONG'}, {said}"
    picture = stage_diagram(stages, 6, f"{heading}\n{counts}; {stages * 32} KiB of shared memory per block")
    return style.Picture(picture.figure, f"{heading}\n  {counts}\n{picture.text}")


FORMS = (("groups", "before", "cp.async and its groups"), ("thread's pipeline", "before", "cuda::pipeline of the thread"),
         ("block's pipeline", "after", "cuda::pipeline of the block"))
"""What waits, when the next tile is asked for, and what a figure calls it: the three kernels as the lesson runs them."""
FASTER = {"groups": "before", "barriers": "after", "thread's pipeline": "before", "block's pipeline": "after"}
"""What waits -> when it asks for the next tile: groups as lesson 03 has them, the others where it costs less."""
WORDS = {"groups": "groups, by hand", "barriers": "mbarriers, by hand", "thread's pipeline": "a thread's pipeline", "block's pipeline": "the block's pipeline"}


def _one(recording: Any, waits: str, copy: str, stages: int, blocks: int, edges: int = 1) -> Any:
    words = (f"waits={waits}", f"copy={copy}", f"STAGES={stages}", f"blocks_per_sm={blocks}", f"edges={edges}")
    return recording.one(options=words)


def pipeline_chart(recording: Any, stages: int) -> style.Picture:
    """From the recording `pipelines`: the same product with the instructions, with either pipeline, and cuBLAS in the same rounds."""
    values = {words: _one(recording, waits, copy, stages, 2).tflops for waits, copy, words in FORMS}
    theirs = recording.one(kernel="cuBLAS")
    values["cuBLAS"] = theirs.tflops
    return charts.bars(values, "rate (TFLOP/s)", f"bf16 product of {theirs.shape[0]}³, {stages} stages", recording.source, best="cuBLAS")


def causes_table(recording: Any) -> str:
    """From the recording `pipelines`: the speed of each way to wait, with the next tile asked for before and after the product, as a share of that of the instructions
    with groups that ask before; and what looking after the edges costs."""
    lines = [recording.source, "speed, as a share of groups by hand that ask for the next tile before the product:"]
    for stages, blocks, words in ((3, 2, "3 stages, two CTAs per SM, at most 128 registers"), (6, 2, "6 stages, one CTA per SM, at most 128 registers"),
                                  (6, 1, "6 stages, one CTA per SM, as many registers as the compiler wants")):
        rows = []
        for waits, who in WORDS.items():
            found = [_one(recording, waits, copy, stages, blocks) for copy in ("before", "after")]
            rows.append((who, *(r.ratio for r in found), " ".join(str(r.registers) for r in found)))
        lines += ["", words, *text_table("  {:22} {:>8.2f} {:>8.2f}   {}", rows, ("next tile asked for", "before", "after", "registers"))]
    lines += ["", "3 stages, whole tiles only: no code for the edges (by hand not measured without)"]
    rows = [(who, *(_one(recording, waits, copy, 3, 2, 0).ratio for copy in ("before", "after"))) for waits, who in WORDS.items() if "pipeline" in waits]
    return "\n".join([*lines, *text_table("  {:22} {:>8.2f} {:>8.2f}", rows)])


COUNTED = {"instructions": "warp_instructions", "integers": "warp_instructions_integer",
           "branches": "warp_instructions_control", "on barriers": "warp_instructions_mbarrier"}


def instructions_table() -> str:
    """What a warp executes for one more k-tile of 128 x 128 x 64 (PTX, counted by the emulator), for each way to wait with three stages, the pipelines also without the
    code for edges."""
    chosen = [*(Choice(waits, copy, 3, 2) for waits, copy in FASTER.items()),
              *(Choice(waits, copy, 3, 2, False) for waits, copy in FASTER.items() if "pipeline" in waits)]
    rows = []
    for choice in chosen:
        few, more = (_executed(choice, k) for k in (256, 448))
        rows.append((WORDS[choice.waits] + ("" if choice.edges else ", no edges"), *((more[name] - few[name]) / 3 / 8 for name in COUNTED.values())))
    return "\n".join(text_table("{:<*}  {:12.0f}  {:8.0f}  {:8.0f}  {:11.0f}", rows, ("per k-tile and warp", *COUNTED)))


def _executed(choice: Choice, k: int) -> dict[str, int]:
    """The counters of one tile of 128 x 128 and k columns in the emulator."""
    import hopperlab as hl

    a, b, c = np.zeros((128, k), np.uint16), np.zeros((128, k), np.uint16), np.zeros((128, 128), np.uint16)
    launch = choice.launch(a, b, c, "emulator")
    with hl.emulate() as run:
        launch()
    return {name: run.counters.get(name, 0) for name in COUNTED.values()}


def check_engines(answers: Mapping[str, str | None]) -> str:
    """Lesson 03x's exercise: for each of WAYS, the family that moves the bytes: 'cp.async', 'cp.async.bulk' or 'cp.async.bulk.tensor'."""
    if not answers or all(value is None for value in answers.values()):
        return "Not answered yet: write a copy instruction for each way, then run the cell again."
    copies = ("cp.async", "cp.async.bulk", "cp.async.bulk.tensor")
    for way in WAYS:
        given = answers.get(way)
        if given not in copies:
            return f"{way}: {given!r} is none of {', '.join(copies)}."
        found = way_families(way)
        moved = [name for name in copies if found[name]]
        if [given] != moved:
            return (f"{way}: not {given}; print(hl.RawModule(code=lesson.way_source({way!r})).ptx) shows its PTX: look for the word `shared` and at what "
                    "stands before it.")
    return "Right for all six: the pipelines issue cp.async, a barrier with 16 aligned bytes issues plain bulk copies, and none uses a tensor map."
