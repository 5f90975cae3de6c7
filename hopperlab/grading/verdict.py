# SPDX-License-Identifier: Apache-2.0
"""The grader's own verdict on one answer, reached outside the learner's notebook.

CUDA answers are judged in a fresh sandboxed process (verdict_child.py); of Python answers only the function runs in the sandbox, and
its values are compared here. The same answer gets the same findings everywhere: no paths, addresses or times stand in them.
"""
from __future__ import annotations

import json
import re
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from ..checking import answers, check, python_answers
from . import sandbox
from ..checking.check import Finding
from ..checking.exercise import CUDA, PUBLIC, Exercise
from ..lessons.catalogue import find
from .sandbox import Limits
from .supervise import Completed

MOST_MESSAGE = 6000        # characters of one message
GPU_MEMORY, GPU_PROCESSES = 64 << 30, 512
Judged: TypeAlias = tuple[Sequence[Finding], str, str, Sequence[str]]        # findings, limit, form, warnings
FORM = re.compile(r"[0-9a-f]{0,64}")
LIMIT = "limit"            # the step of a finding that no step of the check made, but a limit of the sandbox
ENDED = {"time": "did not finish within the time limit", "memory": "needed more memory than the limit",
         "processes": "started more processes than the limit", "output": "printed more than the limit"}
CHILD = (sys.executable, "-m", "hopperlab.grading.verdict_child")
FOLDERS = sorted({str(sandbox.PACKAGE.parent), sys.prefix, sys.base_prefix}, key=len, reverse=True)


@dataclass(frozen=True)
class VerdictResult:
    """What the grader found. `limit`: '' or the limit that ended it ('time', 'memory', 'processes', 'output', 'crash')."""

    right: bool
    findings: tuple[Finding, ...] = ()
    seconds: float = 0.0
    limit: str = ""
    warnings: tuple[str, ...] = ()         # that a right answer leaves (check.Verdict.warnings)
    form: str = ""                         # of the PTX that it compiles to (likeness.py); '' where that is not known

    def __str__(self) -> str:
        return "right" if self.right else "\n".join(finding.message for finding in self.findings)


def verdict(exercise_id: str, cell_text: str, constants: Mapping[str, Any] | None = None, key: str = PUBLIC, hidden: bool = False,
            limits: Limits = Limits(), unsafe: bool = False, gpu: bool = False, fast: bool = False) -> VerdictResult:
    """Judge the text of an answer cell on the visible shapes, or (`hidden`) on those that the key draws.

    gpu: a CUDA answer that the emulator has cleared then runs on this machine's GPU too, each launch in a worker process with a time limit.
    fast: an answer that is right must also be fast enough by the estimate.
    Raises ExerciseError for an exercise or constant that does not exist and for `fast` where no speed is asked for, SandboxError where nothing isolates and
    `unsafe` was not given.
    """
    exercise, start = find(exercise_id), time.monotonic()
    setting = exercise.setting(constants or {})
    if fast:
        exercise.speed_of(setting)
    sandbox.required(unsafe)
    try:
        answers.body(exercise, cell_text)
    except answers.Refused as refused:
        return VerdictResult(False, (Finding("form", clean(f"Not tried: {refused}.")),), time.monotonic() - start)
    judged = partial(_cuda, fast=fast) if exercise.kind == CUDA else _python
    findings, limit, form, doubts = judged(exercise, cell_text, dict(constants or {}), key, hidden, limits, unsafe)
    if gpu and not findings and exercise.kind == CUDA:
        findings, limit, _, _ = _cuda(exercise, cell_text, dict(constants or {}), key, hidden, limits, unsafe=True, gpu=True)
    tidy = tuple(Finding(finding.step, clean(finding.message)) for finding in findings)
    return VerdictResult(not tidy, tidy, time.monotonic() - start, limit, () if tidy else tuple(map(clean, doubts)), form)


def clean(message: str) -> str:
    """A message as a report may show it: no folders of this machine, no addresses of objects, no control characters, not too long."""
    for folder in FOLDERS:
        message = message.replace(folder + "/", "")
    message = re.sub(r"\bat 0x[0-9a-fA-F]{9,}", "at 0x…", message)
    shown = "".join(c if c in "\n\t" or c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in message.encode("utf-8", "replace").decode())
    return shown if len(shown) <= MOST_MESSAGE else shown[:MOST_MESSAGE - 1] + "…"


def _cuda(exercise: Exercise, text: str, constants: dict, key: str, hidden: bool, limits: Limits, unsafe: bool,
          gpu: bool = False, fast: bool = False) -> Judged:
    """Findings, limit, form and warnings of check.judge in a process of its own. Its reply must bring the nonce of this request back."""
    nonce = secrets.token_hex(16)
    request = {"nonce": nonce, "exercise": exercise.id, "text": text, "constants": constants, "key": key, "hidden": hidden, "gpu": gpu, "fast": fast}
    if gpu:                                     # a GPU cannot be reached from the sandbox, and CUDA reserves far more memory than it uses
        limits = replace(limits, memory_bytes=max(limits.memory_bytes, GPU_MEMORY), processes=max(limits.processes, GPU_PROCESSES))
    done = sandbox.run(CHILD, json.dumps(request).encode(), read_only=[sandbox.PACKAGE], limits=limits, unsafe=unsafe)
    if done.killed:
        return *ended(done), "", ()
    reply = _reply(done.stdout, nonce)
    if reply is None:
        return [Finding(LIMIT, f"The answer's check ended without a verdict (exit status {done.returncode}): it crashed, or needed more memory than the "
                               f"limit.")], "crash", "", ()
    return [Finding(step, message) for step, message in reply["findings"]], "", reply.get("form", ""), reply.get("warnings", ())


def ended(done: Completed) -> tuple[list[Finding], str]:
    """The finding for a process that a limit ended."""
    return [Finding(LIMIT, f"The answer {ENDED[done.killed]}.")], done.killed


def _reply(printed: bytes, nonce: str) -> dict | None:
    """The one line that carries the nonce, checked for its form; None when there is none."""
    for line in printed.splitlines():
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(reply, dict) or reply.get("nonce") != nonce:
            continue
        if _well_formed(reply.get("findings")) and _words(reply.get("warnings", [])) and FORM.fullmatch(str(reply.get("form", ""))):
            return reply
    return None


def _well_formed(findings: Any) -> bool:
    """True for a list of [step, message]."""
    return isinstance(findings, list) and all(isinstance(pair, list) and len(pair) == 2 and all(isinstance(word, str) for word in pair) for pair in findings)


def _words(warnings: Any) -> bool:
    """True for a list of texts."""
    return isinstance(warnings, list) and all(isinstance(text, str) for text in warnings)


class _Ended(python_answers.AnswerFailed):
    """A limit ended the child that ran a Python answer."""

    def __init__(self, done: Completed):
        self.findings, self.limit = ended(done)
        super().__init__(self.findings[0].message)


def _python(exercise: Exercise, text: str, constants: dict, key: str, hidden: bool, limits: Limits, unsafe: bool) -> Judged:
    """Findings, limit, no form and no warnings: cases are made and values compared here, only the function runs in the sandbox, which does not see hopperlab."""
    stopped: list[_Ended] = []

    def call(answer: str, name: str, arguments: Sequence[tuple]) -> list:
        source = python_answers.CHILD.read_text(encoding="utf-8")
        done = sandbox.run([sys.executable, "-I", "-B", "-c", source], python_answers.request(answer, name, arguments).encode(), limits=limits, unsafe=unsafe)
        if done.killed:
            stopped.append(_Ended(done))
            raise stopped[0]
        return python_answers.values(name, done.stdout.decode("utf-8", "replace"), len(arguments))
    found = check.judge(exercise, text, constants, key=key, hidden=hidden, call=call)
    return (stopped[0].findings, stopped[0].limit, "", ()) if stopped else (found.findings, "", "", ())
