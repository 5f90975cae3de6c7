# SPDX-License-Identifier: Apache-2.0
"""Equal answers in other words: names, comments, empty statements, order and the spelling of numbers hide nothing; other programs are not flagged."""
import re

import pytest
from support.classroom import PHASES, RING, ROOT, hand_in, lesson, quick, right

from hopperlab.checking import exercise
from hopperlab.grading import assign, grader, likeness, reports, reports_html, sandbox, verdict
from hopperlab.grading.grader import Asked
from hopperlab.lessons import catalogue

LONG = [name for name in catalogue.every() if likeness.long(ROOT, name)]


def cuda(name):
    return catalogue.find(name).kind == exercise.CUDA


def published(name):
    return likeness.public(ROOT, name)[0]


def empty_statement(name):
    """One more statement, which does nothing."""
    text = published(name)
    if cuda(name):
        return re.sub(r"(__global__[^{]*\{)", r"\1\n    ;", text, count=1)
    return re.sub(r"(def \w+\([^\n]*:\n)", r"\1    pass\n", text, count=1)


def commented(name):
    text = published(name)
    return text + "\n/* mine */ // own work\n;" if cuda(name) else text.replace(":\n", ":  # own work\n") + "\n# mine\n"


def renamed(name):
    """Every name that the answer declares, another one."""
    text = published(name)
    kept = likeness._course_names() | likeness.KEPT | {catalogue.find(name).name, *catalogue.find(name).constants} if cuda(name) else set()
    if cuda(name):
        own = set(re.findall(r"(?:int|float|unsigned|auto|char\*?|float\*|half\*|bool)\s*\*?\s*([a-z_]\w*)\s*[=;,)]", text)) - kept
        return re.sub(r"(?<![\w.>])(" + "|".join(map(re.escape, sorted(own))) + r")\b(?!\s*\()", r"my_\1", text) if own else text
    own = set(re.findall(r"^[ \t]+(\w+) = ", text, re.MULTILINE)) | set(re.findall(r"\bfor (\w+) in", text))
    return re.sub(r"\b(" + "|".join(sorted(own)) + r")\b", r"my_\1", text) if own else text


@pytest.mark.parametrize("hidden", [empty_statement, commented, renamed], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", LONG)
def test_the_published_solution_is_recognised_in_other_words(name, hidden):
    text = hidden(name)
    assert text != published(name) or hidden is renamed
    assert assign.matches_public(ROOT, name, text)


def test_most_exercises_are_long_enough_to_be_compared():
    assert len(LONG) >= 30


@pytest.mark.parametrize("name", LONG)
@pytest.mark.sampled(every=4)
def test_what_a_learner_starts_from_and_other_exercises_are_not_flagged(name):
    assert not assign.matches_public(ROOT, name, likeness.public(ROOT, name)[1])
    assert not any(assign.matches_public(ROOT, name, published(other)) for other in LONG if other != name and cuda(other) == cuda(name))


@pytest.mark.parametrize("one, other", [
    ("%%cuda ring\nvoid f() { int a = 1; float b = 2; g(a, b); }", "%%cuda ring\nvoid f() { float zwei = 2.0f; ; int eins = 0x1u; {{ g(eins, zwei); }} }"),
    ("%%cuda ring\n__device__ int f() { return 1; }\nvoid g() { f(); }", "%%cuda ring\nvoid h() { q(); ; }\n__device__ int q() { return 01; }"),
    ('%%cuda ring\nvoid f() { asm("a" "b"); }', '%%cuda ring\nvoid f() { asm("ab" /* x */); }')])
def test_statements_are_compared_whatever_their_order_and_spelling(one, other):
    asked = catalogue.find("04.2")
    assert likeness.form(asked, one) == likeness.form(asked, other) != ""
    assert likeness.form(asked, one) != likeness.form(asked, one.replace("(", "(3 * ", 1))


def test_python_statements_are_compared_without_annotations_docstrings_and_order():
    asked = catalogue.find("04.1")
    one = "COUNT = 2\ndef helper(x):\n    return x + 1\n\ndef phases(events):\n    a = 0\n    b = []\n    a += 1\n    return helper(b)\n"
    other = ("def phases(evts: list) -> list:\n    '''Mine.'''\n    out: list = []\n    n = 0\n    n = n + 1\n    pass\n    return step(out)\n\nimport math\n"
             "def step(y):\n    return y + 1\nCOUNT = 5\n")
    assert likeness.form(asked, one) == likeness.form(asked, other) != ""
    assert likeness.form(asked, one) != likeness.form(asked, one.replace("x + 1", "x + 2"))
    assert likeness.form(asked, "def (") == "" == likeness.form(asked, "[" * 10_000)


# --- compiled ---------------------------------------------------------------------------------------------------------
KERNEL = """%%cuda ring
extern "C" __global__ void fold(const float* x, float* y, int tiles)
{
    __shared__ float kept[128];
    int first = blockIdx.x;
    int lane = threadIdx.x;
    float sum = 0;
    for (int i = first; i < tiles; i += gridDim.x) { sum += x[i * 128 + lane]; }
    kept[lane] = sum;
    __syncthreads();
    y[lane] = kept[127 - lane];
}
"""
DISGUISED = """%%cuda ring
#define STEP(v) v += gridDim.x
typedef float real;
__device__ __forceinline__ real add(real p, real q) { return p + q; }
extern "C" __global__ void fold(const float* in, float* out, int n)
{
    ;
    const int t = threadIdx.x, dead = 17;
    __shared__ real other[64 * 2];
    real total = 0.f;
    int k = blockIdx.x;
    while (k < n) { total = add(total, in[k * (1 << 7) + t]); STEP(k); if (false) { out[0] = dead; } }
    other[t] = total;
    __syncthreads();
    out[t] = other[127 - t];
}
"""


def test_what_compiles_to_the_same_instructions_has_one_form():
    asked = catalogue.find("04.2")
    assert likeness.form(asked, KERNEL) != likeness.form(asked, DISGUISED), "the text alone does not tell"
    assert likeness.compiled_form(asked, KERNEL) == likeness.compiled_form(asked, DISGUISED) != ""
    for old, new in (("127 - lane", "126 - lane"), ("sum += x", "sum -= x"), ("__syncthreads();", "")):
        assert likeness.compiled_form(asked, KERNEL.replace(old, new)) != likeness.compiled_form(asked, KERNEL)
    assert likeness.compiled_form(asked, "%%cuda ring\nno C") == ""


@pytest.mark.thorough
@pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")
def test_the_verdict_brings_the_form_from_the_sandbox():
    found = verdict.verdict("04.2", KERNEL)
    assert found.form == likeness.compiled_form(catalogue.find("04.2"), KERNEL) and not found.right
    assert verdict._reply(b'{"nonce": "n", "findings": [], "form": "not hexadecimal"}', "n") is None


def test_the_published_solution_has_the_forms_of_both_editions():
    asked = catalogue.find("04.2")
    both = likeness.public_forms(ROOT, "04.2", {"STAGES": 6})
    assert len(both) == 2 and likeness.compiled_form(asked, published("04.2").replace("STAGES = 4", "STAGES = 6")) in both


def formed(task):
    """Grade by words, with the form that the answer names in a line `// FORM x`."""
    outcome = quick(task)
    said = re.search("FORM (\\w+)", task["answer"])
    outcome["visible"]["form"] = said[1] if said else ""
    return outcome


def graded(folder, **changes):
    return grader.grade(Asked(folder / "class", lesson(), folder / "out", workers=0, unsafe=True, work=formed,
                              **({"matches": lambda exercise, answer: False} | changes)))[0]


def test_learners_with_equal_answers_are_grouped_once(tmp_path, monkeypatch):
    monkeypatch.setattr(likeness, "public_forms", lambda root, exercise, constants: frozenset())
    ring = right()[RING]
    texts = {"ada": ring, "bob": ring, "cai": ring.replace("sum", "total") + "// mine", "dan": ring.replace("{", "{ int unused = 3; g(unused);", 1) + "// FORM f00d",
             "eve": "%%cuda ring\nint another = program(1, 2);" + "// FORM f00d\n" + "int x = f(1, 2, 3, 4, 5, 6, 7, 8, 9);" * 40, "fay": "%%cuda ring\nvoid f() {}"}
    for name, text in texts.items():
        hand_in(tmp_path / "class" / name, {RING: text})
    report = graded(tmp_path)
    assert [(g.exercise, g.what, g.learners) for g in report.groups] == [("04.2", "program", ("ada", "bob", "cai")), ("04.2", "program", ("dan", "eve"))]
    flags = {row.learner.key: row.exercises[1].flags for row in report.rows}
    assert flags["ada"] == ("same text as bob", "same program as cai") and flags["cai"] == ("same program as ada, bob",) and flags["fay"] == ()
    page = reports_html.pages(report)["index.html"]
    assert page.count("ada, bob, cai") == 1 and "04.2,program,3,\"ada; bob; cai\"" in reports.groups(report)


def test_many_equal_answers_make_one_line_and_short_flags(tmp_path):
    for number in range(30):
        hand_in(tmp_path / "class" / f"learner{number:02d}", right())
    report = graded(tmp_path)
    assert [len(group.learners) for group in report.groups] == [30, 30]
    assert all("and 24 more" in row.exercises[0].flags[0] for row in report.rows)


def test_a_form_of_the_published_solution_is_flagged(tmp_path, monkeypatch):
    hand_in(tmp_path / "class" / "ada", right() | {PHASES: "", RING: "%%cuda ring\nint x;// FORM abc"})
    monkeypatch.setattr(likeness, "public_forms", lambda root, exercise, constants: {"abc"} if exercise == "04.2" else set())
    assert "matches the public solution" in graded(tmp_path).rows[0].exercises[1].flags


@pytest.mark.parametrize("disguise", [
    "def f(events):\n    zz = 5\n    word = start(COUNT)\n    return [word + one for one in events]",
    "def f(events):\n    if True:\n        word = start(COUNT)\n        return [word + one for one in events]",
    "def f(events):\n    word = start(COUNT)\n    found = [word + one for one in events]\n    return found",
    "def f(events):\n    word = start(COUNT)\n    return [one + word for one in events]"])
def test_python_that_does_nothing_more_is_the_same_program(disguise):
    asked = catalogue.find("04.1")
    plain = "def f(events):\n    word = start(COUNT)\n    return [word + one for one in events]"
    assert likeness.form(asked, disguise) == likeness.form(asked, plain)
    assert likeness.form(asked, plain.replace("word + one", "word - one")) != likeness.form(asked, plain)
    assert likeness.form(asked, disguise.replace("start(COUNT)", "start(COUNT + 1)")) != likeness.form(asked, plain)
