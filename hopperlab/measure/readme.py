# SPDX-License-Identifier: Apache-2.0
"""README's performance tables, and the list and the targets in recordings/README.md, made from the recordings and the table of suites:
`python -m hopperlab.measure.readme [--check]`.

The text between the marks of each file is replaced; --check writes nothing and says whether one is stale (exit code 1). Which function makes which
part of the performance section says `readme_table` in suites/table.py; each takes `Load`, a function from a recording's name to the recording.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from . import recordings, story, summaries, targets
from .recordings import Record, Recording
from .story import Story
from .suites import table

ROOT = Path(__file__).resolve().parents[2]
README, LIST = ROOT / "README.md", recordings.FOLDER / "README.md"
BEGIN, END = "<!-- performance: begin (python -m hopperlab.measure.readme) -->", "<!-- performance: end -->"
BEGIN_TARGETS, END_TARGETS = "<!-- targets: begin (python -m hopperlab.measure.readme) -->", "<!-- targets: end -->"
BEGIN_LIST, END_LIST = "<!-- recordings: begin (python -m hopperlab.measure.readme) -->", "<!-- recordings: end -->"
Load = Callable[[str], Recording]
STATIC: Mapping[str, int] = {"shared_tile": 8704, "register_double_buffer": 16896}     # bytes of shared memory that these steps' sources declare


def performance(given: Mapping[str, Recording] | None = None) -> str:
    """The section's text in Markdown: the parts that the table of suites names, in its order, for the lessons' board (what only another one has, of
    that), and the same for the others, folded. given: recordings in place of those stored."""
    replaced, lessons = given or {}, recordings.LESSONS_BOARD
    first = _parts(lambda name: replaced.get(name) or recordings.load(name, board=lessons), {*replaced, *recordings.names()})
    folded = [f"<details><summary>The same on an {word}</summary>\n\n{_parts(_of_board(board), _stored(board) & _stored(lessons))}\n\n</details>"
              for board, word in recordings.BOARDS.items() if board != recordings.LESSONS_BOARD]
    return "\n\n".join([first, *folded])


def _of_board(board: str) -> Load:
    return lambda name: recordings.load(name, recordings.FOLDER / board)


def _stored(board: str) -> set[str]:
    return set(recordings.names(recordings.FOLDER / board))


def _parts(load: Load, stored: set[str]) -> str:
    """Those parts of the section that there are recordings for."""
    parts = dict.fromkeys(suite.readme_table for suite in table.SUITES if suite.readme_table and suite.recording in stored)
    return "\n\n".join("\n".join(table.found(part)(load)) for part in parts)


def ladder(load: Load) -> list[str]:
    """The steps of the ladder, and its last step by shape."""
    told = story.tell(load("ladder"))
    roof = {record.kernel: record for record in load("ceilings") if record.dtype in ("bytes", "bfloat16")}
    copied, product = roof["device copy"], roof["cuBLAS product"]
    head = (f"bf16 products, each step beside cuBLAS in the same interleaved rounds with a cold L2 and random normal data; "
            f"{told.source}. In its own recording the GPU copied at {copied.gb_s / 1000:.2f} TB/s, and cuBLAS reached "
            f"{product.tflops:.0f} TFLOP/s.")
    return [head, "", *_steps(told), "", *_shapes(told)]


def _steps(told: Story) -> list[str]:
    lines = [f"| step, {told.size}³ | what is new | TFLOP/s | of cuBLAS | registers | dynamic shared memory |", "|---|---|---|---|---|---|"]
    for step in told.steps:
        shared = "" if step.shared_bytes is None else f"{step.shared_bytes / 1024:.0f} KiB"
        lines.append(f"| `{step.name}` | {step.idea} | {step.tflops:.0f} | {100 * step.share:.0f}% | {step.registers} | {shared} |")
    static = [f"`{step.name}` has {STATIC[step.name] / 1024:.1f} KiB" for step in told.steps if step.name in STATIC]
    return [*lines, "", f"Dynamic shared memory is what a launch asks for. Of static arrays {', '.join(static)}."] if static else lines


def _shapes(told: Story) -> list[str]:
    lines = ["| last step, m x n x k | TFLOP/s | cuBLAS | of cuBLAS |", "|---|---|---|---|"]
    for best in told.shapes:
        lines.append(f"| {_product(best.shape)} | {best.tflops:.0f} | {best.peer_tflops:.0f} | {100 * best.share:.1f}% |")
    return [*lines, f"| geometric mean | | | {100 * story.mean_share(told.shapes):.1f}% |"]


def _product(shape: tuple[int, ...]) -> str:
    m, n, k = shape
    return f"{m}³" if m == n == k else f"{m} x {n} x {k}"


def rivals(load: Load) -> list[str]:
    """One sentence: the last step beside each family of peers that raced it, cold, over all shapes."""
    raced = summaries.contestants(load("bench_gemm").where(kernel="final", mode="cold L2"))
    found = {rival: summaries.of_records(records) for (*_, rival), records in raced.items()}
    words = [f"{100 * one.mean:.1f}% of {name} ({100 * one.least:.0f} to {100 * one.most:.0f}%)" for name, one in found.items()]
    shapes = " and ".join(dict.fromkeys(str(one.count) for one in found.values()))
    return [f"In one process with every peer (`hopperlab bench gemm`; cuBLAS is the fastest of both layouts through cublasGemmEx and PyTorch, Triton the "
            f"best configuration of a persistent kernel with TMA), the last step reached {' and '.join(words)}, geometric means over {shapes} shapes, with "
            f"the configurations searched for them ({load('bench_gemm').header['date']})."]


def products(load: Load) -> list[str]:
    """The last step at random shapes: mean, quartiles, least, and where that was; and the mean where nothing in the L2 waits to be written back."""
    found, clean = (summaries.faster_of_notes(load("products").where(kernel="final", mode=mode)) for mode in ("cold L2", "clean L2"))
    return [f"At {len(found)} shapes that nobody chose (drawn from a seed of the recording's date; m from 16 to 16384, n and k from 256; "
            f"`hopperlab bench gemm --random`; the cost model was fitted on others), in the better order of B, beside the fastest of cuBLAS's layouts and entry "
            f"points: {_spread(found, clean, _product_of)}."]


def _product_of(record: Record) -> str:
    return _product(record.shape)


def _spread(found: list[Record], clean: list[Record], place: Callable[[Record], str]) -> str:
    """Mean, quartiles, least, and where that was; and the mean where nothing in the L2 waits to be written back."""
    one = summaries.spread(found)
    low, middle, high = one.quartiles
    return (f"geometric mean {100 * one.summary.mean:.1f}% (with a clean L2 {100 * summaries.of_records(clean).mean:.1f}%), quartiles {100 * low:.1f}, "
            f"{100 * middle:.1f} and {100 * high:.1f}%, least {100 * one.summary.least:.1f}% at {place(one.worst[0])}; {one.not_slower} of "
            f"{one.summary.count} not slower")


def _drawn(recording: Recording, what: str, peer: str, place: Callable[[Record], str]) -> list[str]:
    """A sentence on a recording of `hopperlab bench SUITE --random`."""
    found, clean = (recording.where(kernel="final", mode=mode) for mode in ("cold L2", "clean L2"))
    left = summaries.of_records(found).left_out
    not_taken = f" ({len(left)} that it does not take are left out)" if left else ""
    return [f"At {len(found)} {what} that nobody chose (`hopperlab bench {found[0].suite} --random`, a seed of the recording's date), as the course picks the "
            f"configuration, beside {peer}{not_taken}: {_spread(found, clean, place)} ({recording.source})."]


def fp8_random(load: Load) -> list[str]:
    """The fp8 product at random shapes."""
    return _drawn(load("fp8_random"), "shapes of fp8 products", "cuBLASLt's block-scaled product", _product_of)


def attention_random(load: Load) -> list[str]:
    """Attention forward at random cells."""
    return _drawn(load("attention_random"), "cells of attention (head sizes, heads, groups, lengths, masks)", "cuDNN", summaries.place)


def fp8(load: Load) -> list[str]:
    """The fp8 product with fine-grained scales, shape by shape, beside cuBLASLt's."""
    found = load("fp8")
    theirs = {record.shape: record for record in found.where(kernel="DeepGEMM")}        # where it was installed
    and_deepgemm = f", and DeepGEMM's (sgl-deep-gemm {found.header['libraries']['sgl-deep-gemm']})" if theirs else ""
    lines = [f"fp8 (e4m3) products with a scale for every 1 x 128 of A and 128 x 128 of B, beside cuBLASLt's block-scaled product{and_deepgemm}; {found.source}.", "",
             "| m x n x k | TFLOP/s | cuBLASLt | of cuBLASLt |" + " DeepGEMM of cuBLASLt |" * bool(theirs), "|---|---|---|---|" + "---|" * bool(theirs)]
    last = found.where(kernel="final")
    for record in last:
        lines.append(f"| {_product(record.shape)} | {record.tflops:.0f} | {record.peer_value:.0f} | {100 * record.ratio:.1f}% |"
                     + (f" {100 * theirs[record.shape].ratio:.1f}% |" if theirs else ""))
    return [*lines, f"| geometric mean | | | {100 * summaries.of_records(last).mean:.1f}% |" + " |" * bool(theirs)]


def attention(load: Load) -> list[str]:
    """Attention forward: TFLOP/s and share of cuDNN by head size and mask (rows) and length (columns)."""
    found = load("attention")
    last: dict[tuple[int, str, int], Record] = {(record.shape[3], record.options[1], record.shape[1]): record for record in found.where(kernel="final")}
    lengths = sorted({length for _, _, length in last})
    lines = [f"Attention forward in bf16, 16k tokens, hidden size 2048: TFLOP/s, and share of cuDNN in the same rounds; {found.source}.", "",
             "| | " + " | ".join(f"{length}" for length in lengths) + " |", "|---|" + "---|" * len(lengths)]
    for d, mask in dict.fromkeys(key[:2] for key in last):
        cells = [last[d, mask, length] for length in lengths]
        lines.append(f"| heads of {d}, {mask} | " + " | ".join(f"{cell.tflops:.0f} ({100 * cell.ratio:.0f}%)" for cell in cells) + " |")
    one = summaries.of_records(found.where(kernel="final"))
    return [*lines, "", f"Geometric mean over {one.count} cells: {100 * one.mean:.1f}% of cuDNN, from {100 * one.least:.0f} to {100 * one.most:.0f}%."]


def two_gpus(load: Load) -> list[str]:
    """Products that copy while they multiply, beside the product alone and beside NCCL before or after cuBLAS; the all-reduce of a small vector."""
    found = load("two_gpus")
    lines = [f"Two GPUs, bf16, m x n x k on each: an all-gather under a product, and a product under a reduce-scatter, as shares of the product alone on "
             f"operands that are there already (the faster of cuBLAS and ours), and of NCCL before or after cuBLAS; {found.source}.", "",
             "| | m x n x k | us | of the product alone | of NCCL and cuBLAS |", "|---|---|---|---|---|"]
    for suite, kernel, way, word in (("gather", "gathered_product", "all CTAs copy", "all-gather"), ("scatter", "scattered_product", "in turns", "reduce-scatter")):
        ours = found.where(suite=suite, kernel=kernel, options=(way,))
        for shape in dict.fromkeys(record.shape for record in ours):
            alone, nccl = (next(r for r in ours if r.shape == shape and peer in (r.peer or "")) for peer in ("alone", "NCCL"))
            lines.append(f"| {word} | {_product(shape)} | {1e3 * alone.ms:.0f} | {100 * alone.ratio:.1f}% | {100 * nccl.ratio:.1f}% |")
    words = found.one(suite="all_reduce", options=("one-shot, words",), shape=(64 << 10,))
    return [*lines, "", f"An all-reduce of 64 KiB takes {1e3 * words.ms:.1f} us, {100 * words.ratio:.0f}% of NCCL's speed."]


def listed() -> str:
    """The list of recordings in Markdown: what each holds, and what writes it."""
    rows = [f"| `{suite.recording}` | {suite.help} | `{suite.command.removesuffix(' --out hopperlab/recordings')}` |" for suite in table.SUITES]
    return "\n".join(["| file | what | written by |", "|---|---|---|", *rows])


def rendered(text: str, section: str | None = None, begin: str = BEGIN, end: str = END) -> str:
    """A text with the section between its marks replaced. Raises ValueError unless each mark is there once, in order."""
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"README.md needs the lines {begin} and {end}, once each and in this order")
    before, rest = text.split(begin)
    return f"{before}{begin}\n{section or performance()}\n{end}{rest.split(end)[1]}"


def main(arguments: list[str] | None = None, path: Path = README, list_path: Path = LIST) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.readme", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when the tables are stale")
    given = parser.parse_args(arguments)
    stale = False
    for file, section, begin, end in ((path, performance(), BEGIN, END), (list_path, listed(), BEGIN_LIST, END_LIST),
                                      (list_path, targets.table(), BEGIN_TARGETS, END_TARGETS)):
        text = file.read_text(encoding="utf-8")
        fresh = rendered(text, section, begin, end)
        stale |= fresh != text
        if given.check and fresh != text:
            print(f"{file.parent.name}/{file.name} is stale: run python -m hopperlab.measure.readme", file=sys.stderr)
        elif not given.check:
            file.write_text(fresh, encoding="utf-8")
            print(f"{file.parent.name}/{file.name}: {'written' if fresh != text else 'up to date'}")
    return int(given.check and stale)


if __name__ == "__main__":
    sys.exit(main())
