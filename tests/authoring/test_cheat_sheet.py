# SPDX-License-Identifier: Apache-2.0
"""The cheat sheet against the code: its wrappers are those of include/hopperlab and emit its instructions, and its hazards are shown on its mechanisms."""

import re
from fnmatch import fnmatch
from functools import cache

import pytest

from hopperlab.authoring import course, hashes
from hopperlab.authoring.docs import cheat_sheet
from hopperlab.emulator.hazards.kinds import Kind

ROOT = hashes.ROOT
HEADERS = ROOT / "hopperlab" / "kernels" / "include" / "hopperlab"
ROWS = list(cheat_sheet.rows())
ASYNCHRONOUS = ("cp.async", "cp.reduce", "mbarrier", "fence", "bar.", "barrier", "wgmma", "setmaxnreg", "prefetch.tensormap", "tensormap", "stmatrix", "elect", "mapa",
                "st.async", "ld.shared::cluster", "st.shared::cluster", "griddepcontrol")
"""How the instructions begin of which the sheet speaks; the rest of the headers loads fragments, multiplies in step or reads clocks."""


def emitted(text):
    """{wrapper: its instructions} of a header: the PTX words in the asm statements of each __device__ function, and of each macro that writes functions."""
    found = {}
    pieces = re.split(r"^(?=__device__|template|#define )", text.replace("\\\n", " "), flags=re.MULTILINE)
    for piece in pieces:
        head = re.match(r"#define (CP_\w+)|(?:template <[^>]*>\s*)?__device__ __forceinline__ (?:[\w ]+?)[ *&](\w+)\(", piece)
        body = " ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', piece)).replace("\\n", " ")
        words = [match for match in re.findall(r"(?<![\w.%])[a-z_]+(?:(?:\.|::)\w+)+", body) if not match.startswith(("setp", "selp"))]
        if head and words and head[2] != "NAME":        # the function that a macro writes
            found[head[1] or head[2]] = words
    return found


WRAPPERS = {name: words for path in sorted(HEADERS.glob("*.cuh")) for name, words in emitted(path.read_text(encoding="utf-8")).items()}


def of(row):
    """The row's wrappers that there are."""
    return [name for name in WRAPPERS if any(fnmatch(name, pattern) for pattern in row.wrappers)]


def test_the_headers_are_read():
    assert len(WRAPPERS) > 70 and WRAPPERS["mbarrier_init"] == ["mbarrier.init.shared::cta.b64"] and "CP_REDUCE_ASYNC_BULK_CLUSTER" in WRAPPERS
    assert WRAPPERS["wgmma_wait_group"] == ["wgmma.wait_group.sync.aligned"]
    assert "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64" in WRAPPERS["mbarrier_try_wait_parity"]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.does.replace(" ", "-"))
def test_each_row_names_wrappers_that_emit_its_instructions(row):
    text = "".join(path.read_text(encoding="utf-8") for path in HEADERS.glob("*.cuh"))
    for pattern in row.wrappers:
        assert any(fnmatch(name, pattern) for name in WRAPPERS) or f" {pattern}(" in text, f"there is no wrapper {pattern}"
    words = [word for name in of(row) for word in WRAPPERS[name]]
    for instruction in row.instruction:
        assert any(word.startswith(instruction) for word in words), f"none of {row.wrappers} emits {instruction}"
    for name in of(row):
        assert any(word.startswith(row.instruction) for word in WRAPPERS[name]), f"{name} emits {WRAPPERS[name]}, which the row does not name"


def test_no_wrapper_is_missing():
    named = {name for row in ROWS for name in of(row)}
    lacking = [name for name, words in WRAPPERS.items() if words[0].startswith(ASYNCHRONOUS) and name not in named]
    assert not lacking, "the cheat sheet (hopperlab/authoring/docs/cheat_sheet.py) says nothing of these"


def with_kernels(text):
    """A text, and the kernel files that it names."""
    lines = "\n".join(line for line in text.split("\n") if ".cu" in line)             # a stored picture is one long line, in which the pattern would look long
    named = [ROOT / "hopperlab" / "kernels" / name for name in sorted(set(re.findall(r"[\w/]+\.cu\b", lines)))]
    return text + "".join(path.read_text(encoding="utf-8") for path in named if path.is_file())


@cache
def evidence(kind):
    """The texts that show a kind: its page, the kernels that commit it, and the emulator's tests and lessons that name it."""
    paths = [ROOT / "docs" / "hazards" / f"{kind}.md", ROOT / "tests" / "emulator" / "hazards" / "kernels" / f"{kind.replace('-', '_')}.cu"]
    rest = [*(ROOT / "tests" / "emulator").rglob("*.py"), *(ROOT / "tests" / "support").glob("*.py"), *(ROOT / "notebooks").glob("[0-9]*.ipynb")]
    named = [text for path in rest if kind in (text := path.read_text(encoding="utf-8"))]
    return [*(path.read_text(encoding="utf-8") for path in paths if path.is_file()), *map(with_kernels, named)]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.does.replace(" ", "-"))
def test_each_hazard_is_shown_on_that_mechanism(row):
    """By a page, a kernel, a test or a lesson that names the kind and uses the row's wrapper or instruction."""
    for kind, words in row.forgotten:
        if kind is not None:
            assert kind in Kind and words
            assert any(word in text for text in evidence(kind) for word in (*of(row), *row.instruction)), f"{kind} is shown on nothing of {row.wrappers}"


def test_every_kind_is_there_and_those_that_no_row_names_stand_behind_the_rows():
    """Such as wrong numbers: addresses and descriptors."""
    above, _, behind = "\n".join(cheat_sheet.lines(ROOT)).partition("## Other hazards")
    for kind in Kind:
        assert (f"[{kind}](hazards/{kind}.md): " in above) != (f"| [{kind}](hazards/{kind}.md) | " in behind), kind
    assert Kind.OUT_OF_BOUNDS in cheat_sheet.others() and Kind.DEADLOCK not in cheat_sheet.others()


@cache
def entries():
    return tuple(course.entries(ROOT))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.does.replace(" ", "-"))
def test_the_lesson_it_names_speaks_of_it(row):
    """Its notebook, its exercises, or a kernel that these name."""
    if row.lesson:
        entry = next(entry for entry in entries() if entry.number == row.lesson)
        spoken = "".join(path.read_text(encoding="utf-8") for path in (entry.notebook, entry.exercise) if path)
        spoken = with_kernels(spoken)
        assert any(word in spoken for word in (*of(row), *row.instruction)), f"lesson {row.lesson} uses none of {row.wrappers}"


def test_links_lead_to_the_hazards_there_are_and_no_row_is_lost():
    lines = cheat_sheet.lines(ROOT)
    targets = set(re.findall(r"\]\(([^)]+)\)", "\n".join(lines)))
    assert len(targets) > 12 and all((ROOT / "docs" / target).is_file() for target in targets)
    rows = lines[:lines.index("## Other hazards")]
    assert sum(line.startswith("| ") and not line.startswith("| to |") for line in rows) == len(ROWS)
