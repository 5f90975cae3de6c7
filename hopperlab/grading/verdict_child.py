# SPDX-License-Identifier: Apache-2.0
"""The process in which the grader judges one CUDA answer: a request as JSON on standard input, one line of JSON as the reply.

Run as `python -m hopperlab.grading.verdict_child` inside the sandbox (outside of it where the answer also runs on the GPU). What kernels print goes
nowhere; the reply goes to the real standard output and brings back the request's nonce, which no kernel can read.
"""
from __future__ import annotations

import json
import os
import sys

from ..checking import check
from ..lessons.catalogue import find


def main() -> None:
    """One request, one reply."""
    request = json.load(sys.stdin)
    reply_to = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    findings, warnings = judged(request)
    json.dump({"nonce": request["nonce"], "findings": findings, "warnings": warnings, "form": _form(request)}, reply_to)
    reply_to.write("\n")
    reply_to.close()


def judged(request: dict) -> tuple[list[tuple[str, str]], list[str]]:
    """(step, message) of each finding, and the warnings that are left. An answer on which the check itself fails is not right, and the message says so."""
    try:
        found = check.judge(find(request["exercise"]), request["text"], request["constants"], key=request["key"], hidden=request["hidden"],
                            gpu=bool(request.get("gpu")), fast=bool(request.get("fast")))
    except MemoryError:
        return [("limit", "The answer needed more memory than the limit.")], []
    except Exception as problem:                # whatever an answer brought about is the grader's to read
        return [("values", f"The check could not finish with this answer: {type(problem).__name__}: {problem}")], []
    return [(finding.step, finding.message) for finding in found.findings], list(found.warnings)


def _form(request: dict) -> str:
    """What the answer compiles to, as far as it is compared with other answers (likeness.py)."""
    if request["hidden"] or request.get("gpu") or request.get("fast"):
        return ""
    from . import compiled
    try:
        return compiled.compiled_form(find(request["exercise"]), request["text"])
    except Exception:                           # it says nothing then; the verdict stands
        return ""


if __name__ == "__main__":
    main()
