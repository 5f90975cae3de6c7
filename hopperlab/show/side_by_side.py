# SPDX-License-Identifier: Apache-2.0
"""PTX and machine code side by side, grouped by the line of CUDA they come from, with Hopper's instructions highlighted.

What is not highlighted is folded into a count, so that a main loop fits a screen; `full=True` shows every instruction.
"""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..runtime import uses
from ..runtime.compile import toolchain
from . import style

# One colour a family; all carry black text at 4.5:1 or better.
COLOURS = {"tensor core": style.YELLOW, "wait for the tensor core": style.YELLOW, "copy by TMA": style.SKY, "wait for bulk stores": style.SKY,
           "copy by cp.async": style.SKY, "wait for cp.async": style.SKY, "fragments": style.ORANGE, "mbarrier": "#7FD1B9", "barrier": "#7FD1B9",
           "fence": "#E3B7D0", "register budget": "#E3B7D0", "spill": "#F2A27F"}
PTX_KINDS = (("wgmma.mma", "tensor core"), ("mma.", "tensor core"), ("wgmma.", "wait for the tensor core"), ("cp.async.bulk.wait", "wait for bulk stores"),
             ("cp.async.bulk.commit", "wait for bulk stores"), ("cp.async.bulk", "copy by TMA"), ("cp.reduce.async.bulk", "copy by TMA"),
             ("prefetch.tensormap", "copy by TMA"), ("cp.async.wait", "wait for cp.async"), ("cp.async.commit", "wait for cp.async"),
             ("cp.async.mbarrier", "wait for cp.async"), ("cp.async", "copy by cp.async"), ("ldmatrix", "fragments"), ("stmatrix", "fragments"),
             ("mbarrier.", "mbarrier"), ("bar.", "barrier"), ("barrier.", "barrier"), ("fence.", "fence"), ("membar", "fence"),
             ("setmaxnreg", "register budget"))


@dataclass(frozen=True)
class Row:
    """One line of CUDA: its number and text, and what came of it: (class or '', text) of each PTX and SASS instruction."""

    line: int
    text: str
    ptx: tuple[tuple[str, str], ...]
    sass: tuple[tuple[str, str], ...]


WAITING = frozenset({"mbarrier", "control"})       # kinds of instructions in a loop that only asks again


@dataclass(frozen=True)
class SideBySide:
    """A listing of rows, a table of counts in the main loop, and `note`, which says why there is no SASS where there is none."""

    name: str
    rows: tuple[Row, ...]
    counts: dict[str, int]
    note: str = ""

    def __str__(self) -> str:
        lines = [self.name]
        for row in self.rows:
            lines.append(f"{row.line:4d}  {row.text.strip()}")
            lines += [f"      {'PTX ' if side == 0 else 'SASS'}  {text}" for side, part in enumerate((row.ptx, row.sass)) for _, text in part]
        if self.counts:
            lines.append("main loop, SASS: " + ", ".join(f"{count} {kind}" for kind, count in self.counts.items()))
        return "\n".join([*lines, self.note] if self.note else lines)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": str(self)}

    def html(self) -> str:
        """The listing as HTML on the house's card, readable in light and dark themes."""
        cell = f"vertical-align: top; text-align: left; padding: 2px 8px; border-top: 1px solid {style.FAINT}; white-space: pre-wrap; overflow-wrap: anywhere"
        rows = []
        for row in self.rows:
            source = f'<td style="{cell}"><b>{row.line}</b> {html.escape(row.text.strip())}</td>'
            rows.append(f"<tr style='background: none'>{source}" + "".join(f'<td style="{cell}">{_marked(part)}</td>' for part in (row.ptx, row.sass)) + "</tr>")
        counts = ", ".join(f'<span style="{_back(kind)}">{count} {html.escape(kind)}</span>' for kind, count in self.counts.items())
        below = (f"<p>Inside the main loop, SASS: {counts}</p>" if counts else "") + (f"<p>{html.escape(self.note)}</p>" if self.note else "")
        frame = f"background-color: {style.CARD}; color: {style.INK}; padding: 8px; font-family: monospace; font-size: 12px; line-height: 1.35"
        head = "".join(f'<th style="{cell}">{words}</th>' for words in ("CUDA C++", "PTX", "SASS"))
        return (f'<div style="{frame}"><strong>{html.escape(self.name)}</strong><table style="width: 100%; table-layout: fixed; color: {style.INK}; font-size: 12px">'
                f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{below}</div>")


def sass(kernel: Any, lines: tuple[int, int] | None = None, full: bool = False) -> SideBySide:
    """A kernel's CUDA, PTX and SASS side by side.

    kernel: a RawKernel (`hl.load_kernel(...)`). lines: only these lines of its source (1-based, inclusive). full: fold nothing.
    Where the disassembler or machine code is missing the SASS column is empty and the listing says why.
    """
    import hopperlab as hl

    module = kernel.module
    file = os.path.basename(module.name)
    if (toolchain.KERNELS / module.name).is_file():
        uses.tell(uses.SHOWN, module.name)
    texts = dict(enumerate((module.source or "").split("\n"), 1))
    first, last = lines or (1, max(texts, default=1))
    ptx = _by_line(((i.site.outermost.line, _ptx_kind(i.opcode), text) for i, text in _ptx(module, kernel.mangled) if i.site is not None
                    and os.path.basename(i.site.outermost.file) == file), full)
    machine, counts, note = {}, {}, ""
    try:
        code = hl.sass(kernel)
        machine = _by_line(((i.line, i.kind if i.highlighted else "", str(i).lstrip()) for i in code.instructions if i.file == file), full)
        counts = code.counts() if code.loops else {}
        if counts and WAITING.issuperset(counts):
            counts, note = {}, "The machine code has no loop but those that wait for an mbarrier: where the source has others, the compiler has unrolled them."
    except hl.ToolchainError as problem:
        note = str(problem)
    numbers = sorted(n for n in {*ptx, *machine} if first <= n <= last)
    rows = tuple(Row(n, texts.get(n, ""), ptx.get(n, ()), machine.get(n, ())) for n in numbers)
    if not full:
        rows = tuple(row for row in rows if any(kind for kind, _ in (*row.ptx, *row.sass)))
    return SideBySide(f"{module.name}: {kernel.name}", rows, counts, note)


def _ptx(module: Any, mangled: str) -> Iterable[tuple[Any, str]]:
    """Each PTX instruction of the kernel with its text as written, on one line."""
    from ..emulator.ptx.parser import parse

    written = module.ptx.split("\n")
    for instruction in parse(module.ptx).functions[mangled].body:
        text = written[instruction.ptx_line - 1].strip()
        at = instruction.ptx_line
        while ";" not in text and at < len(written):
            text = f"{text} {written[at].strip()}"
            at += 1
        yield instruction, text.split(";")[0] if len(text) < 90 else text[:87] + "…"


def _ptx_kind(opcode: str) -> str:
    return next((kind for start, kind in PTX_KINDS if opcode.startswith(start)), "")


def _by_line(found: Iterable[tuple[int, str, str]], full: bool) -> dict[int, tuple[tuple[str, str], ...]]:
    """(class, text) by line of CUDA; instructions without a class are counted in one entry unless `full`, repeated ones written once."""
    lines: dict[int, list[tuple[str, str]]] = {}
    others: Counter[int] = Counter()
    for line, kind, text in found:
        if kind or full:
            lines.setdefault(line, []).append((kind, text))
        else:
            others[line] += 1
            lines.setdefault(line, [])
    for line, count in others.items():
        lines[line].append(("", f"… {count} other{'s' if count > 1 else ''}"))
    return {line: tuple(part) for line, part in lines.items()}


def _back(kind: str) -> str:
    return f"background-color: {COLOURS[kind]}; color: {style.INK}" if kind in COLOURS else ""


def _marked(part: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f'<span title="{html.escape(kind)}" style="{_back(kind)}">{html.escape(text)}</span>' if kind else html.escape(text) for kind, text in part)
