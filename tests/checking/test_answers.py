# SPDX-License-Identifier: Apache-2.0
"""What an answer cell may hold: harmless habits are taken, and what would run, or read files, is not."""
import pytest

import hopperlab as hl
from hopperlab.checking import answers, check
from hopperlab.lessons import catalogue

PHASES = """def phases(events, n=COUNT):
    phase, pending, outstanding, seen = 0, n, 0, []
    for kind, number in events:
        outstanding += number if kind == "arrive_expect_tx" else -number if kind == "complete_tx" else 0
        pending -= kind != "complete_tx"
        if pending == 0 and outstanding == 0:
            phase, pending = phase + 1, n
        seen.append(phase)
    return seen
"""
KERNEL = '''%%cuda ring
{head}
extern "C" __global__ void fold(const float* x, float* y, int tiles) {{ }}
'''


@pytest.mark.parametrize("before, after", [("COUNT = 2\n", ""), ("COUNT = 2\n", 'print(phases([["arrive", 1]]))\n'), ("PLACES = dict(a=1, b=(2, 3))\nCOUNT = 2\n", ""),
                                           ("COUNT = len(range(2))\nSEEN = set([1])\n", "assert phases([]) == []\n"),
                                           ("COUNT = 2\nNAMES = {1, 2}\n", "print(\n  phases([])\n)\n")])
def test_harmless_habits_are_taken(before, after):
    verdict = check.judge(catalogue.find("04.1"), before + PHASES + after)
    assert verdict.right, str(verdict)


def test_what_only_tries_an_answer_never_runs():
    text = answers.to_run(catalogue.find("04.1"), 'print(open("x", "w"))\nCOUNT = 2\n' + PHASES + "assert phases([open('y', 'w')])\n")
    assert "open" not in text and text.split("\n")[1] == "COUNT = 2"


@pytest.mark.parametrize("line, why", [("print(1); COUNT = 2", "lines of their own"), ("COUNT = int(open('x').read())", "nothing else"),
                                       ("COUNT = dict.fromkeys([1])", "nothing else"),
                                       ("COUNT = dict(a=print(1))", "nothing else"), ("phases([])", "print and assert are left out"),
                                       ("dict = print", "not the answer's to define"),
                                       ("COUNT = len([x() for x in [phases]])", "nothing else")])
def test_what_would_run_is_refused(line, why):
    with pytest.raises(answers.Refused, match=why):
        answers.body(catalogue.find("04.1"), line + "\n" + PHASES)


def test_a_default_may_name_a_constant_and_call_nothing():
    with pytest.raises(answers.Refused, match="nothing else"):
        answers.body(catalogue.find("04.1"), "COUNT = 2\n" + PHASES.replace("n=COUNT", "n=open('x')"))


@pytest.mark.parametrize("head", ["#include <cstdint>", "#include <cuda/ptx>", "#include <cuda_bf16.h>\n#include <stdint.h>"])
def test_headers_of_cuda_and_of_the_language_are_taken(head):
    exercise = catalogue.find("04.2")
    answers.body(exercise, KERNEL.format(head=head))
    verdict = check.judge(exercise, KERNEL.format(head=head))
    assert verdict.findings[0].step == "values", "it compiles and runs"


@pytest.mark.parametrize("head, why", [('#include "cstdint"', r'#include "cstdint": only the course\'s own headers, .* write it with angle brackets: <cstdint>'),
                                       ('#include "hopperlab/tma.cuh"', "<hopperlab/tma.cuh>"), ('#include "mine.h"', r'#include "mine\.h": only the course'),
                                       ("#include <vector>", "#include <vector>: only"), ("#include <cuda/ptx>\n_CCCL_PRAGMA(once)",
                                                                                          "_CCCL_PRAGMA belongs to the headers"),
                                       ("#define P(a, b) a##b\nP(_CC, CL_PRAGMA)(once)", "a macro makes _CCCL_PRAGMA")])
def test_other_headers_are_named_and_refused(head, why):
    with pytest.raises(answers.Refused, match=why):
        answers.body(catalogue.find("04.2"), KERNEL.format(head=head))


def test_a_note_is_not_called_a_failure_to_compile_and_its_cause_comes_first():
    """ptxas ignores setmaxnreg here, and the emulator says where it stands and what is wrong with it."""
    text = '%%cuda ring\nextern "C" __global__ void fold(const float* x, float* y, int tiles) { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }'
    said = str(check.judge(catalogue.find("04.2"), text))
    assert "divergent-collective: setmaxnreg" in said and "ring.cu:1" in said and "does not compile" not in said and "as written" not in said


def test_a_note_without_a_hazard_is_shown(monkeypatch):
    class Noted:
        def RawModule(self, strict=False, **more):
            if strict:
                raise hl.NoteError("ring.cu compiles, but does not run as written:", "C7514: serialized")
            return hl.RawModule(**more)

        def __getattr__(self, name):
            return getattr(hl, name)
    monkeypatch.setattr(check, "hl", Noted())
    said = str(check.judge(catalogue.find("04.2"), '%%cuda ring\nextern "C" __global__ void fold(const float* x, float* y, int tiles) {}'))
    assert said == "04.2 is not right yet. ring.cu compiles, but does not run as written:\n\nC7514: serialized"
