# SPDX-License-Identifier: Apache-2.0
"""What a compiler of another language made, which its users cannot mend: told apart, kept out of the hazards, one line for all of it.

Triton writes the barriers, fences and copies of a kernel itself. By the rules of the ISA some of what it writes is a hazard (no proxy fence between
cp.async and wgmma), and some is void (setmaxnreg that repeats the count, barriers initialised anew in memory that was freed). Gluon's users write
copies and fences themselves, so there only what the compiler adds is its own. docs/hazards/README.md.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..ptx.places import Place

VOID = ("setmaxnreg-too-soon", "setmaxnreg-apart", "setmaxnreg-wrong-way", "setmaxnreg-ignored")


def is_compilers(M: Any, case: str, here: int | None, there: int | None) -> bool:
    """True when a situation between two instructions is the compiler's work in a kernel that Triton compiled."""
    if M.layout.compiler != "triton" or here is None:
        return False
    now, then = M.body[here], M.body[there] if there is not None else None
    if case in VOID:
        return True
    if case == "init-again":
        return then is not None and Place.of(now).key != Place.of(then).key        # two barriers to their writer, one place to the allocator
    if case == "shared-proxy-fence" and _language(now) != "gluon":
        return then is not None and then.op == "cp" and now.op == "wgmma"
    return False


def _language(instr: Any) -> str:
    """'gluon' when the Python file that an instruction comes from says so, 'triton' when it does not, '' when it cannot be read."""
    return "" if instr.site is None else _of_file(instr.site.outermost.file)


@lru_cache(maxsize=64)
def _of_file(path: str) -> str:
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return ""
    return "gluon" if "gluon" in text else "triton"


def note(found: Sequence[Any]) -> str:
    """One line about what the compiler made, '' where there is nothing."""
    if not found:
        return ""
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(Counter(str(h.kind) for h in found).items()))
    return f"by the compiler: {len(found)} finding{'s' if len(found) != 1 else ''} that the source cannot mend ({kinds})"
