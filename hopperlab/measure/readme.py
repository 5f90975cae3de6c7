"""README's performance tables, made from the recordings `ladder`, `ceilings`, `bench_gemm`, `fp8` and `attention`: `python -m hopperlab.measure.readme [--check]`.

The text between the two marks in README.md is replaced; --check writes nothing and says whether it is stale (exit code 1).
"""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import bench_race, recordings, story
from .bench_facts import mean_ratio
from .recordings import Recording
from .story import Story

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- performance: begin (python -m hopperlab.measure.readme) -->", "<!-- performance: end -->"


def performance(ladder: Recording | None = None, ceilings: Recording | None = None, bench: Recording | None = None) -> str:
    """The section's text in Markdown, from the recordings `ladder`, `ceilings` and `bench_gemm`."""
    told = story.tell(ladder or recordings.load("ladder"))
    roof = {record.kernel: record for record in ceilings or recordings.load("ceilings") if record.dtype in ("bytes", "bfloat16")}
    copied, product = roof["device copy"], roof["cuBLAS product"]
    head = (f"bf16 products, each step beside cuBLAS in the same interleaved rounds with a cold L2 and random normal data; "
            f"{told.source}. In its own recording the GPU copied at {copied.gb_s / 1000:.2f} TB/s, and cuBLAS reached "
            f"{product.tflops:.0f} TFLOP/s.")
    return "\n".join([head, "", *_steps(told), "", *_shapes(told), "", _rivals(bench or recordings.load("bench_gemm")), "",
                      *_fp8(recordings.load("fp8")), "", *_attention(recordings.load("attention"))])


def _steps(told: Story) -> list[str]:
    lines = [f"| step, {told.size}³ | what is new | TFLOP/s | of cuBLAS | registers | shared memory |", "|---|---|---|---|---|---|"]
    for step in told.steps:
        shared = "" if step.shared_bytes is None else f"{step.shared_bytes / 1024:.0f} KiB"
        lines.append(f"| `{step.name}` | {step.idea} | {step.tflops:.0f} | {100 * step.share:.0f}% | {step.registers} | {shared} |")
    return lines


def _shapes(told: Story) -> list[str]:
    lines = ["| last step, m x n x k | TFLOP/s | cuBLAS | of cuBLAS |", "|---|---|---|---|"]
    for best in told.shapes:
        m, n, k = best.shape
        name = f"{m}³" if m == n == k else f"{m} x {n} x {k}"
        lines.append(f"| {name} | {best.tflops:.0f} | {best.peer_tflops:.0f} | {100 * best.share:.1f}% |")
    return [*lines, f"| geometric mean | | | {100 * story.mean_share(told.shapes):.1f}% |"]


def _rivals(bench: Recording) -> str:
    """One sentence: the last step beside each family of peers that raced it, cold, over all shapes."""
    ratios: dict[str, list[float]] = {}
    for record in bench.where(kernel="final", mode="cold L2"):
        ratios.setdefault(bench_race.family(record), []).append(record.ratio)
    words = [f"{100 * mean_ratio(found):.1f}% of {name} ({100 * min(found):.0f} to {100 * max(found):.0f}%)" for name, found in ratios.items()]
    shapes = max(len(found) for found in ratios.values())
    return (f"In one process with every peer (`hopperlab bench gemm`; cuBLAS is the fastest of both layouts through cublasGemmEx and PyTorch, Triton the "
            f"best configuration of a persistent kernel with TMA), the last step reached {' and '.join(words)}, geometric means over {shapes} shapes.")


def _fp8(found: Recording) -> list[str]:
    """The fp8 product with fine-grained scales, shape by shape, beside cuBLASLt's."""
    theirs = {record.shape: record for record in found.where(kernel="DeepGEMM")}        # where it was installed
    and_deepgemm = f", and DeepGEMM's (sgl-deep-gemm {found.header['libraries']['sgl-deep-gemm']})" if theirs else ""
    lines = [f"fp8 (e4m3) products with a scale for every 1 x 128 of A and 128 x 128 of B, beside cuBLASLt's block-scaled product{and_deepgemm}; {found.source}.", "",
             "| m x n x k | TFLOP/s | cuBLASLt | of cuBLASLt |" + " DeepGEMM of cuBLASLt |" * bool(theirs), "|---|---|---|---|" + "---|" * bool(theirs)]
    last = list(found.where(kernel="final"))
    for record in last:
        m, n, k = record.shape
        name = f"{m}³" if m == n == k else f"{m} x {n} x {k}"
        lines.append(f"| {name} | {record.tflops:.0f} | {record.peer_value:.0f} | {100 * record.ratio:.1f}% |" + (f" {100 * theirs[record.shape].ratio:.1f}% |" if theirs else ""))
    return [*lines, f"| geometric mean | | | {100 * mean_ratio([record.ratio for record in last]):.1f}% |" + " |" * bool(theirs)]


def _attention(found: Recording) -> list[str]:
    """Attention forward: TFLOP/s and share of cuDNN by head size and mask (rows) and length (columns)."""
    last = {(record.shape[3], record.options[1], record.shape[1]): record for record in found.where(kernel="final")}
    lengths = sorted({length for _, _, length in last})
    lines = [f"Attention forward in bf16, 16k tokens, hidden size 2048: TFLOP/s, and share of cuDNN in the same rounds; {found.source}.", "",
             "| | " + " | ".join(f"{length}" for length in lengths) + " |", "|---|" + "---|" * len(lengths)]
    for d, mask in dict.fromkeys(key[:2] for key in last):
        cells = [last[d, mask, length] for length in lengths]
        lines.append(f"| heads of {d}, {mask} | " + " | ".join(f"{cell.tflops:.0f} ({100 * cell.ratio:.0f}%)" for cell in cells) + " |")
    ratios = [record.ratio for record in last.values()]
    return [*lines, "", f"Geometric mean over {len(ratios)} cells: {100 * mean_ratio(ratios):.1f}% of cuDNN, from {100 * min(ratios):.0f} to {100 * max(ratios):.0f}%."]


def rendered(text: str, section: str | None = None) -> str:
    """README's text with the section between the marks replaced. Raises ValueError unless each mark is there once, in order."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(END) < text.index(BEGIN):
        raise ValueError(f"README.md needs the lines {BEGIN} and {END}, once each and in this order")
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{section or performance()}\n{END}{rest.split(END)[1]}"


def main(arguments: list[str] | None = None, path: Path = README) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.measure.readme", description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 when the tables are stale")
    given = parser.parse_args(arguments)
    text = path.read_text(encoding="utf-8")
    fresh = rendered(text)
    if given.check:
        if fresh != text:
            print("README.md's performance tables are stale: run python -m hopperlab.measure.readme", file=sys.stderr)
        return int(fresh != text)
    path.write_text(fresh, encoding="utf-8")
    print(f"{path.name}: {'written' if fresh != text else 'up to date'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
