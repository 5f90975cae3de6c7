# SPDX-License-Identifier: Apache-2.0
"""A Hazard is data, and one renderer makes words, HTML and JSON of it."""
import ast
import json
import pickle
from pathlib import Path

import hopperlab as hl
import numpy as np
import pytest
from hopperlab.emulator.hazards import kinds, render
from hopperlab.emulator.hazards.kinds import Kind
from support import hazard_cases

pytestmark = pytest.mark.emulator_only
ROOM = Path(kinds.__file__).parent


def one_of(kind: str):
    """A hazard of this kind, of the first case that commits it."""
    case = min((c for c in hazard_cases.all_cases() if c.kind == kind and not c.clean), key=lambda c: c.warning)
    session, _ = hazard_cases.run(case, 1, "lazy")
    return next(h for h in (*session.hazards, *session.warnings) if h.kind == kind)


def test_a_hazard_says_where_in_memory_who_and_what_is_missing():
    found = one_of("read-before-arrival")
    assert found.kind is Kind.READ_BEFORE_ARRIVAL and found.kind == "read-before-arrival"
    assert found.space == "shared" and f"shared address {found.address:#x}" in str(found)
    assert found.agent in ("copy", "cp.async") and found.lane == found.thread % 32 and found.warp == found.thread // 32
    assert found.step and found.step in found.message and found.step != found.message
    assert found.here.place.site == found.where and found.there.place.site == found.other


def test_folders_of_the_kernel_are_left_out_and_those_of_wrappers_stay():
    source = """#line 3 "/somewhere/hopperlab/kernels/lesson/mine.cu"
extern "C" __global__ void k(int* out) { __shared__ int x[64]; x[threadIdx.x] = 1; out[threadIdx.x] = x[63 - threadIdx.x]; }"""
    kernel = hl.RawModule(code=source, backend="emulator").get_function("k")
    with hl.emulate(hazards="collect") as run:
        kernel((1,), (64,), (np.zeros(64, np.int32),))
    site = run.hazards[0].where
    assert site.file == "lesson/mine.cu" and "lesson/mine.cu:" in str(run.hazards[0])
    assert render.words(run.hazards[0], folders=False) == str(run.hazards[0]).replace(site.file, site.file.rsplit("/", 1)[-1])


@pytest.mark.parametrize("kind", [str(kind) for kind in Kind])
def test_json_and_html_hold_the_same(kind):
    found = one_of(kind)
    told = json.loads(json.dumps(render.as_dict(found)))
    assert told["kind"] == kind and told["message"] == found.message and told["thread"] == found.thread
    assert (told["here"] or {}).get("line") == (found.where.line if found.where else None)
    page = render.html(found)
    assert page.startswith(f'<p class="hazard {found.severity}"><b>{kind}</b>: ') and "\n" not in page.split("</p>")[0]
    assert pickle.loads(pickle.dumps(found)) == found


def test_html_is_escaped():
    found = one_of("race")
    strange = type(found)(**{**vars(found), "array": "<b>", "space": "global"})
    assert "byte" in render.html(strange) and "&lt;b&gt;" in render.html(strange) and "<b>race</b>" in render.html(strange)


def test_every_situation_that_is_found_has_words_and_every_words_a_finding():
    """Names of situations in the code of the room, literal or put together, against the table."""
    named = set()
    for path in ROOM.glob("*.py"):
        if path.name == "kinds.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in kinds.CASES:
                named.add(node.value)
            elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                named.update(case for case in kinds.CASES if case.startswith(node.values[0].value) and len(node.values[0].value) > 5)
    left = set(kinds.CASES) - named - {"deadlock", "endless-loops"} - {c for c in kinds.CASES if c.startswith(("fault-", "refused-"))}
    assert not left, left
