# SPDX-License-Identifier: Apache-2.0
"""Judging an answer: values under every schedule, hazards, and the mechanism asked for; then, where there is one, on the GPU; and where it is asked for,
its speed by the estimate (speed.py).

`judge` gives the verdict as data, from the answer cell's text alone; a check cell calls it through lessons/catalogue.py (`hl.check`).
"""
from __future__ import annotations

import inspect
import linecache
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import hopperlab as hl

from ..emulator.hazards.causes import causes_first
from ..runtime import pending
from ..runtime.shapes import Shape
from ..runtime.explore import FIXED
from . import answers, cuda_text, outputs, python_answers
from .carried import Carried
from .exercise import CUDA, PUBLIC, Case, Exercise, Launch, random
from .speed import Speed, fast_enough
from .value_words import call as said

Call: TypeAlias = Callable[[str, str, Sequence[tuple[Any, ...]]], Sequence[Any]]
"""How a Python answer is run: call(text, function name, arguments of each case) -> values."""

HIDDEN_SHAPES = 5
GPU_SECONDS = 20.0
BUDGET = 20_000            # rounds that a polling loop may spin alone
LIMIT = 4_000_000          # work of one trial (emulator/observe/work.py); right answers do at most 500,000
STEPS = ("form", "compiles", "values", "hazards", "mechanism", "gpu", "speed")


class CheckFailed(AssertionError):
    """An answer that is not right yet; the message says what is wrong first, and where."""

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: the message, without the check's own frames."""
        return [f"CheckFailed: {self}"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: which step noticed (STEPS), and the message for the learner."""

    step: str
    message: str


@dataclass(frozen=True)
class Verdict:
    """What was found about one answer. `tried` counts shapes, `schedules` those a shape was run under, `required` the requirements of all shapes.

    warnings: of an answer that is right, what its runs left of severity 'warning', each pair of lines once. They do not decide, and whoever shows the verdict shows them
    beside it (`beside`): a check cell's own line stays the same with them and without.
    speed, pace: where speed was asked for and is reached, what was asked, and the answer's own times, which are shown beside as well.
    """

    exercise: str
    findings: tuple[Finding, ...] = ()
    tried: int = 0
    schedules: int = 0
    required: int = 0
    warnings: tuple[str, ...] = ()
    speed: str = ""
    pace: str = ""

    @property
    def right(self) -> bool:
        """True when nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        if self.findings:
            opening = "is right" if self.findings[0].step == "speed" else "is not right yet"
            return f"{self.exercise} {opening}. " + "\n".join(finding.message for finding in self.findings)
        if self.speed:
            return f"{self.exercise} is fast enough: {self.speed}"
        if not self.schedules:
            return f"{self.exercise} is right: {_number(self.tried, 'case')}"
        asked = f", {_number(self.required, 'requirement')} met" if self.required else ""
        return f"{self.exercise} is right: {_number(self.tried, 'shape')} under {self.schedules} schedules, no hazard{asked}"

    @property
    def accepted(self) -> str:
        """The short paragraph about warnings that a right answer leaves; '' where it leaves none."""
        return "\n".join(accepted_with(self.warnings))

    @property
    def beside(self) -> str:
        """What is shown beside the verdict on a right answer: its times, where speed was asked for, and warnings; '' where there is nothing."""
        return "\n".join(filter(None, (self.pace, self.accepted)))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {**asdict(self), "right": self.right}


def accepted_with(warnings: Sequence[str]) -> list[str]:
    """What is said of the warnings that an accepted answer or repair leaves: the first one, and how many there are."""
    if not warnings:
        return []
    which = "one warning is left" if len(warnings) == 1 else f"{len(warnings)} warnings are left, first"
    return [f"It is accepted, and {which}:", warnings[0]]


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("s" if count != 1 else "")


def text_of(exercise: Exercise, answer: Any) -> str:
    """The cell text behind what an answer cell defined. Raises CheckFailed for anything else."""
    if isinstance(answer, str):
        return answer
    if exercise.kind == CUDA:
        if not isinstance(answer, hl.RawModule) or answer.source is None:
            raise CheckFailed(f"{exercise.id}: give the module that the cell `%%cuda {exercise.name}` made, not {type(answer).__name__}")
        options = "".join(f" {option}" for option in answer.options)
        return f"%%cuda {answer.name.removesuffix('.cu')}{options}\n{answer.source}"
    code = getattr(inspect.unwrap(answer) if callable(answer) else answer, "__code__", None)
    text = "".join(linecache.getlines(code.co_filename)) if code is not None else ""
    if not text:
        raise CheckFailed(f"{exercise.id}: give the function {exercise.name} itself, defined in a cell of this notebook")
    return text


def judge(exercise: Exercise, cell: str, constants: Mapping[str, Any] | None = None, *, key: str = PUBLIC, hidden: bool = False,
          gpu: bool = False, call: Call | None = None, fast: bool = False) -> Verdict:
    """The verdict on the text of an answer cell. Deterministic: text, constants, key, `hidden` and `fast` decide it.

    key:  draws inputs and hidden shapes; with another key than the public one the visible cases of a Python exercise are drawn too, so that
          an answer which only knows the cases of the notebook is not right
    call: how Python answers are run, call(text, function name, arguments of each case) -> values (python_answers.run); a grader gives one
    that runs them in its sandbox.
    fast: an answer that is right must also be as fast as the exercise asks (Exercise.speed). Raises ExerciseError where it asks for nothing.
    """
    setting = exercise.setting(constants or {})
    speed = exercise.speed_of(setting) if fast else None
    try:
        text = answers.body(exercise, cell)
    except answers.Refused as refused:
        return Verdict(exercise.id, (Finding("form", f"Not tried: {refused}."),))
    shapes = _shapes(exercise, key, hidden)
    if exercise.kind != CUDA:
        return _judge_python(exercise, text, shapes, setting, key, call or python_answers.run)
    return _Trials(exercise, text, shapes, setting, key, gpu, speed).verdict()


def _shapes(exercise: Exercise, key: str, hidden: bool) -> list[Any]:
    """The visible shapes, or those that the key draws (each once): five hidden ones, or as many as a Python exercise shows, none of which it shows."""
    if not hidden and (key == PUBLIC or exercise.kind == CUDA):
        return list(exercise.shapes)
    rng = random(key, exercise.id, "hidden shapes" if hidden else "visible shapes")
    drawn: list[Any] = []
    long = exercise.long if hidden else None
    most, shown = (HIDDEN_SHAPES - (long is not None), []) if hidden else (len(exercise.shapes), list(exercise.shapes))
    for _ in range(20 * most):
        shape = exercise.draw(rng)
        if shape not in drawn and shape not in shown and len(drawn) < most:
            drawn.append(shape)
    return [*drawn, long(rng)] if long else drawn or list(exercise.shapes)


def _judge_python(exercise: Exercise, text: str, shapes: Sequence[Any], setting: Mapping[str, Any], key: str, call: Call) -> Verdict:
    cases = [exercise.case(random(key, exercise.id, shape), shape, **setting) for shape in shapes]
    wrong = _wrong_values(exercise, text, cases, setting, call)
    if wrong is not None:
        return Verdict(exercise.id, (Finding("values", wrong),))
    return Verdict(exercise.id, (), len(cases))


def _wrong_values(exercise: Exercise, text: str, cases: Sequence[Case], setting: Mapping[str, Any], call: Call) -> str | None:
    """What the first wrong value of a run of these cases is, or why there is none (the answer may have said nothing: ''). None: all are right."""
    try:
        values = call(text, exercise.name, [case.arguments for case in cases])
    except python_answers.AnswerFailed as failed:
        return str(failed)
    for case, value in zip(cases, values, strict=True):
        problem = python_answers.difference(value, case.expected, case.tolerance, exercise.words, case.arguments, setting)
        if problem:
            return f"{said(exercise.name, case.arguments)} {problem}."
    return None


class _Trials:
    """One CUDA answer, compiled once and run on every shape under every schedule."""

    def __init__(self, exercise: Exercise, text: str, shapes: Sequence[Any], setting: Mapping[str, Any], key: str, gpu: bool,
                 speed: Speed | None = None):
        self.exercise, self.text, self.shapes, self.setting, self.key, self.gpu, self.speed = exercise, text, shapes, setting, key, gpu, speed
        self.plan = [(name, 0) for name in FIXED] + [("random", seed) for seed in range(exercise.seeds)]
        self.required = 0
        self.doubts: dict[tuple[Any, ...], str] = {}                # warnings of all runs, by kind and lines

    def verdict(self) -> Verdict:
        """Compile, run, compare; the first shape with findings ends it."""
        try:
            self.module, noted = self._compiled()
        except hl.CompileError as error:
            return Verdict(self.exercise.id, (Finding("compiles", f"It does not compile:\n{error}"),))
        except hl.ToolchainError as error:                      # a machine without a compiler
            return Verdict(self.exercise.id, (Finding("compiles", str(error)),))
        try:
            cuda_text.check_ptx(self.module.ptx)
        except cuda_text.NotTaken as problem:
            return Verdict(self.exercise.id, (Finding("form", f"Not tried: {problem}."),))
        if noted:
            return Verdict(self.exercise.id, (self._hazard() or Finding("compiles", noted),))
        for shape in self.shapes:
            findings = self._shape(shape)
            if not findings and self.gpu:
                findings = self._on_gpu(shape)
            if findings:
                return Verdict(self.exercise.id, tuple(findings))
        right = Verdict(self.exercise.id, (), len(self.shapes), len(self.plan), self.required, tuple(self.doubts.values()))
        return right if self.speed is None else self._fast(right, self.speed)

    def _compiled(self) -> tuple[hl.RawModule, str]:
        """The answer's module, and '' or the note with which ptxas says that it changed the kernel."""
        made = partial(hl.RawModule, code=self.text, name=f"{self.exercise.name}.cu", backend="emulator")
        try:
            return made(strict=True), ""
        except hl.NoteError as error:
            noted = str(error)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hl.PtxasWarning)
            return made(), noted

    def _hazard(self) -> Finding | None:
        """What the emulator names first of an answer that ptxas has changed: a hazard is the likely cause of that, and has a line."""
        for shape in self.shapes:
            for schedule, seed in self.plan:
                *_, findings = self._under(shape, schedule, seed)
                if findings and findings[0].step == "hazards":
                    return findings[0]
        return None

    def _fast(self, right: Verdict, speed: Speed) -> Verdict:
        """The verdict on an answer that is right: whether it is as fast as is asked."""
        complaint, times = fast_enough(speed, self.module, BUDGET, LIMIT)
        if complaint:
            return Verdict(right.exercise, (Finding("speed", complaint),))
        return replace(right, speed=str(speed), pace=f"{right.exercise}: {times}.")

    def _case(self, shape: Any) -> Case:
        return outputs.poisoned(self.exercise.case(random(self.key, self.exercise.id, shape), shape, **self.setting))

    def _shape(self, shape: Any) -> list[Finding]:
        for schedule, seed in self.plan:
            case, run, where, findings = self._under(shape, schedule, seed)
            if findings:
                return findings
            for doubt in run.warnings:
                self.doubts.setdefault((doubt.kind, doubt.where, doubt.other), str(doubt))
            if schedule == "lazy":
                findings = self._mechanism(case, run, where) or self._carried(shape, len(case.carried)) or self._also(case, run, where)
                if findings:
                    return findings
        return []

    def _under(self, shape: Any, schedule: str, seed: int) -> tuple[Case, Any, str, list[Finding]]:
        """One run under a schedule: the case, the Session, where that was in words, and its hazards, or else what is wrong with the values."""
        case = self._case(shape)
        name = f"random({seed})" if schedule == "random" else schedule
        where = f"({self.exercise.says(shape)}; schedule {name})"
        error = None
        with hl.emulate(schedule=schedule, seed=seed, hazards="collect", trace=schedule == "lazy" and _trace(case), budget=BUDGET, limit=LIMIT) as run:
            try:
                _run(case, self._launch)
            except (hl.EmulatorError, hl.HopperlabError) as fault:
                error = fault
        return case, run, where, _hazards(run, error, where) or _values(case, where)

    def _mechanism(self, case: Case, run: Any, where: str) -> list[Finding]:
        self.required += len(case.requires)
        return _missing([requirement.complaint(run) for requirement in case.requires], where)

    def _also(self, case: Case, run: Any, where: str) -> list[Finding]:
        """What is asked last: of the run, and of the program as it is written."""
        return _missing([*(requirement.complaint(run) for requirement in case.also), *(rule(self.text, self.module.ptx) for rule in case.written)], where)

    def _carried(self, shape: Any, count: int) -> list[Finding]:
        """A run for each mechanism that must have carried the data, with what it delivers altered."""
        for number in range(count):
            case = self._case(shape)
            carried = case.carried[number]
            wrong = self._altered(case, carried, shape)
            if wrong and carried.to and (nearer := self._altered(case := self._case(shape), replace(case.carried[number], to=""), shape)):
                carried, wrong = replace(carried, to=""), nearer             # the loads themselves went by other ways
            if wrong:
                given = "with inputs of its own" if carried.own else self.exercise.says(shape)
                return [Finding("mechanism", f"The values are right, but not by what was asked for. In a second run ({given}) "
                                             f"{carried.told}. There, {wrong.rstrip(' .')}.")]
        return []

    def _altered(self, case: Case, carried: Carried, shape: Any) -> str:
        """What is wrong with the result of an altered run, or ''."""
        how = carried.altered(int(random(self.key, self.exercise.id, shape, "altered").integers(1 << 62)))
        case, module = outputs.poisoned(carried.own) if carried.own else case, self._program(carried)

        def launch(name: str, grid: Shape, block: Shape, args: Sequence[Any] = (), shared_mem: int = 0, dependent: bool = False) -> None:
            with carried.around(how, case.outputs.values(), args, name):
                module.get_function(name)(grid, block, args, shared_mem=shared_mem, dependent=dependent)
                if carried.alone and pending.grids() is not None:
                    pending.synchronise()                   # one launch after the other, each in its own surroundings
        with hl.emulate(schedule="lazy", hazards="collect", trace="accesses" if carried.judged else False, budget=BUDGET, limit=LIMIT) as run:
            run.altered, run.check = how, carried.judged is not None        # hazards were looked for in the run before; here only `judged` asks for them
            try:
                _run(case, launch)
            except (hl.EmulatorError, hl.HopperlabError) as fault:
                return f"{type(fault).__name__}: {fault}"
        if stuck := next((hazard for hazard in run.hazards if hazard.kind == "deadlock"), None):
            return f"nobody goes on any more, and somebody still waits at {_place(stuck.where)}"
        if carried.judged:
            return carried.judged(run)
        return next((finding.message for finding in _values(replace(case, expected=carried.expects(case.expected, how)), "")), "")

    def _program(self, carried: Carried) -> hl.RawModule:
        """The answer's module, or one of the program that `carried` makes of it."""
        ptx = carried.program(self.module.ptx)
        return self.module if ptx == self.module.ptx else hl.RawModule(ptx=ptx, backend="emulator")

    def _launch(self, name: str, grid: Shape, block: Shape, args: Sequence[Any] = (), shared_mem: int = 0, dependent: bool = False) -> None:
        self.module.get_function(name)(grid, block, args, shared_mem=shared_mem, dependent=dependent)

    def _on_gpu(self, shape: Any) -> list[Finding]:
        def launch(name: str, grid: Shape, block: Shape, args: Sequence[Any] = (), shared_mem: int = 0, dependent: bool = False) -> None:
            hl.run_isolated(self.module.get_function(name), grid, block, args, shared_mem=shared_mem, timeout=GPU_SECONDS, backend="gpu")
        case, where = self._case(shape), f"({self.exercise.says(shape)}; on the GPU)"
        try:
            _run(case, launch)
        except hl.HopperlabError as error:
            return [Finding("gpu", f"The emulator found nothing wrong, but the GPU did not finish: {error} {where}")]
        return [Finding("gpu", found.message) for found in _values(case, where)]


def _place(site: Any) -> str:
    """'ring.cu:24', or what is known instead of a hazard's place."""
    return f"{site.file}:{site.line}" if site is not None else "a line that is not known"


def _missing(complaints: Sequence[str], where: str) -> list[Finding]:
    found = [text for text in complaints if text]
    return [Finding("mechanism", "The values are right, but not by what was asked for: " + "; ".join(found) + f" {where}.")] if found else []


def _trace(case: Case) -> bool | str:
    """How a run is traced whose timeline the requirements read."""
    return "accesses" if any(requirement.accesses for requirement in (*case.requires, *case.also)) else True


def _run(case: Case, launch: Launch) -> None:
    assert case.run is not None, "each case of a CUDA exercise has its launches"
    case.run(launch)


def _hazards(run: Any, error: Exception | None, where: str) -> list[Finding]:
    found = causes_first(run.hazards)
    if found:
        more = f"\n({len(found) - 1} more after this one)" if len(found) > 1 else ""
        return [Finding("hazards", f"The emulator names a hazard {where}:\n{found[0]}{more}")]
    return [Finding("hazards", f"The emulator stopped it {where}:\n{type(error).__name__}: {error}")] if error is not None else []


def _values(case: Case, where: str) -> list[Finding]:
    wrong = outputs.complaint(case, where)
    return [Finding("values", wrong)] if wrong else []
