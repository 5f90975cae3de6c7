# SPDX-License-Identifier: Apache-2.0
"""The grader's own verdict: what it says, that it says it again, and that nothing a learner's process sends back can break it."""
import json

import pytest
from support.classroom import PHASES, RING, right
from support.patience import PATIENCE

from hopperlab.checking import exercise
from hopperlab.grading import sandbox, verdict
from hopperlab.grading.sandbox import Limits, SandboxError

needs_sandbox = pytest.mark.skipif(sandbox.kind() is None, reason="no sandbox (bubblewrap, podman or docker) works on this machine")
WRONG = {"04.1": right()[PHASES].replace("outstanding == 0", "outstanding <= 16"), "04.2": right()[RING].replace("STAGES = 4", "STAGES = 2")}


@needs_sandbox
@pytest.mark.parametrize("name", WRONG)
def test_the_same_answer_gets_the_same_words(name):
    first, second = (verdict.verdict(name, WRONG[name], {}, "a key", True) for _ in range(2))
    assert not first.right and not first.limit and first.findings == second.findings
    for folder in verdict.FOLDERS:
        assert folder not in str(first)


@needs_sandbox
def test_constants_of_an_edition_are_asked_for():
    assert not verdict.verdict("04.1", right()[PHASES], {"COUNT": 3}).right
    assert verdict.verdict("04.1", right()[PHASES].replace("COUNT = 2", "COUNT = 3"), {"COUNT": 3}).right
    with pytest.raises(exercise.ExerciseError, match="no constant"):
        verdict.verdict("04.1", right()[PHASES], {"DEPTH": 3})


@needs_sandbox
@pytest.mark.parametrize("name, text, limit", [
    ("04.1", "def phases(events):\n    while True: pass\n", "time"),
    ("04.1", "def phases(events):\n    import os\n    while True: os.write(1, b'x' * 10000)\n", "output"),
    ("04.2", "%%cuda ring\ntemplate <int N, int M> struct F { static constexpr long long v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };\n"
             "template <int M> struct F<0, M> { static constexpr long long v = M; };\nextern \"C\" __global__ void fold(float* y) { y[0] = F<28, 1>::v; }\n", "time")])
@pytest.mark.sampled(every=3)
def test_a_limit_is_named(name, text, limit):
    found = verdict.verdict(name, text, limits=Limits(seconds=3.0 * PATIENCE, output_bytes=1 << 20))
    assert not found.right and found.limit == limit and [finding.step for finding in found.findings] == [verdict.LIMIT]
    assert str(found) == f"The answer {verdict.ENDED[limit]}."


def test_nothing_is_judged_without_isolation(monkeypatch):
    monkeypatch.setattr(sandbox, "kind", lambda: None)
    with pytest.raises(SandboxError):
        verdict.verdict("04.1", right()[PHASES])
    assert verdict.verdict("04.1", right()[PHASES], unsafe=True).right


@pytest.mark.parametrize("printed", [b"", b"\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"nonce": "n"}', b'{"nonce": "other", "findings": []}',
                                     b'{"nonce": "n", "findings": {}}',
                                     b'{"nonce": "n", "findings": [1]}', b'{"nonce": "n", "findings": [["a"]]}', b'{"nonce": "n", "findings": [["a", 1]]}'])
def test_only_a_well_formed_reply_with_the_nonce_counts(printed):
    assert verdict._reply(printed, "n") is None
    good = b'{"nonce": "n", "findings": [["values", "x"]]}'
    assert verdict._reply(printed + b"\n" + good + b"\nmore", "n")["findings"] == [["values", "x"]]


def test_messages_are_fit_to_be_shown():
    root = verdict.FOLDERS[0]
    assert verdict.clean(f"in {root}/a.py: <f at 0x7f0123456789>") == "in a.py: <f at 0x…>"
    assert verdict.clean("a\x1b[2Jb\u202ec\ud800d\te\n") == "a\ufffd[2Jb\ufffdc?d\te\n"
    assert len(verdict.clean("x" * 10**6)) == verdict.MOST_MESSAGE


def test_an_answer_that_is_wrong_in_the_emulator_never_reaches_the_gpu(monkeypatch):
    asked = []
    monkeypatch.setattr(verdict.sandbox, "run", lambda argv, request, **how: asked.append(json.loads(request)) or verdict.Completed(
        0, json.dumps({"nonce": json.loads(request)["nonce"], "findings": [["hazards", "a hazard"]]}).encode(), b"", 0.1, ""))
    assert not verdict.verdict("04.2", "%%cuda ring\n", gpu=True, unsafe=True).right
    assert [request["gpu"] for request in asked] == [False]


def test_an_answer_that_the_emulator_clears_goes_to_the_gpu_next(monkeypatch):
    asked = []
    monkeypatch.setattr(verdict.sandbox, "run", lambda argv, request, **how: asked.append(json.loads(request)) or verdict.Completed(
        0, json.dumps({"nonce": json.loads(request)["nonce"], "findings": [["gpu", "it hung"]] if asked[-1]["gpu"] else []}).encode(), b"", 0.1, ""))
    found = verdict.verdict("04.2", "%%cuda ring\n", gpu=True, unsafe=True)
    assert not found.right and found.findings[0].message == "it hung"
    assert [request["gpu"] for request in asked] == [False, True]


@pytest.mark.thorough
@needs_sandbox
def test_an_accepted_answer_brings_its_warnings():
    unfenced = right()[RING].replace("fence_proxy_async_shared_cta();", "")
    found = verdict.verdict("04.2", unfenced)
    assert found.right and found.warnings[0].startswith("unfenced-overwrite (warning): ") and "ring.cu:" in found.warnings[0]
    assert not verdict.verdict("04.2", right()[RING]).warnings
