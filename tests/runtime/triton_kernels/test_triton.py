# SPDX-License-Identifier: Apache-2.0
"""from_triton with Triton itself: every case compiled here and now, specialised as the JIT would, and through `hopperlab sanitize`.

Skipped where Triton is not installed (700 MB; the extra `triton`); test_stored.py then runs what Triton made of the same cases.
"""
import json
from pathlib import Path

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime import sanitize
from hopperlab.runtime.errors import TritonError
from runtime.triton_kernels import record
from runtime.triton_kernels.cases import CASES

triton = pytest.importorskip("triton", reason="Triton is not installed: pip install -e .[triton]")
from runtime.triton_kernels import triton_examples as examples  # noqa: E402 - Triton has to be there
from runtime.triton_kernels.test_stored import expected, found  # noqa: E402

pytestmark = pytest.mark.thorough
STORED = json.loads((record.STORED / "stored.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_compiled_here_it_is_right_and_named_at_its_lines(name):
    case, arguments = CASES[name], CASES[name].arguments()
    kernel = record.compiled(case)
    with hl.emulate(hazards="collect") as run:
        kernel(case.grid, arguments)
    assert case.right(arguments) and found(run) == expected(case), [str(h) for h in run.hazards]
    if triton.__version__ == STORED["triton"]:
        assert record.without_debug(kernel.ptx) == (record.STORED / f"{name}.ptx").read_text(), "stale: run record.py"


def test_specialised_at_each_launch_as_the_jit_does():
    kernel = hl.from_triton(examples.odd_order, constexprs={"BLOCK": 64}, backend="emulator", num_warps=1)
    x, out = np.arange(256, dtype=np.float32), np.zeros(128, np.float32)
    kernel[(2,)](2.0, out, 100, True, x)                    # shift and stride have defaults; a stride of 1 is compiled in
    assert (out[:100] == x[:100] * 4).all() and len(kernel.raw.signature.parameters) == 5 + 2
    kernel[(2,)](2.0, out, 128, TWICE=False, x=x, stride=2)
    assert (out == x[::2] * 2).all() and len(kernel.raw.signature.parameters) == 6 + 2
    assert len(kernel._built) == 2 and "specialised at each launch" in repr(kernel)
    kernel[(2,)](3.0, out, 128, False, x, 0.0, 2)
    assert len(kernel._built) == 2 and (out == x[::2] * 3).all()


def test_descriptors_of_triton_over_arrays_of_the_emulator():
    from triton.tools.tensor_descriptor import TensorDescriptor
    xp = hl.array_module("emulator")
    kernel = hl.from_triton(examples.product, constexprs={"BM": 64, "BN": 64, "BK": 64}, backend="emulator")
    a, b, c, k = (xp.asarray(v).view(type(xp.zeros(1))) if isinstance(v, np.ndarray) else v for v in CASES["product"].arguments())
    kernel[(2, 2)](*(TensorDescriptor(v, list(v.shape), [s // 2 for s in v.strides], [64, 64]) for v in (a, b, c)), k)
    assert CASES["product"].right((a, b, c))


@triton.jit
def uses_missing(x):
    return undefined_name(x)        # noqa: F821


def test_what_triton_does_not_take():
    with pytest.raises(TritonError, match="(?s)Triton does not compile uses_missing: CompilationError: at .*undefined_name"):
        hl.from_triton(uses_missing, "*fp32", backend="emulator")
    with pytest.raises(TritonError, match="nonsense: neither a parameter of the kernel nor an option of Triton"):
        hl.from_triton(examples.softmax, "*fp32, *fp32, i32", {"BLOCK": 64}, nonsense=1, backend="emulator")
    with pytest.raises(TritonError, match="takes a function with @triton.jit or @gluon.jit .*, not a function"):
        hl.from_triton(lambda x: x, "*fp32")
    with pytest.raises(TritonError, match=r"chooses a configuration by running on a GPU: pass the kernel under it \(kernel.fn\)"):
        hl.from_triton(SimpleWrapper(examples.softmax), "*fp32, *fp32, i32")


class SimpleWrapper:
    """As triton.autotune's and heuristics' objects."""

    def __init__(self, fn):
        self.fn = fn


SCRIPT = '''
import numpy as np
import triton
import triton.language as tl
import hopperlab as hl


@triton.jit
def shifted(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i + 1), i < n)


kernel = hl.from_triton(shifted, "*fp32:16, *fp32:16, i32", {"BLOCK": 64})
kernel[(2,)](np.arange(128, dtype=np.float32), np.zeros(128, np.float32), 128)
'''


def test_sanitize_takes_a_script_that_builds_kernels_so(tmp_path: Path):
    script = tmp_path / "mine.py"
    script.write_text(SCRIPT)
    report = sanitize.sanitize([str(script)], ["lazy", "eager"])
    assert report.exit_code == 1 and [f.kind for f in report.findings] == ["out-of-bounds"] and report.findings[0].where == "mine.py:11", str(report)
    script.write_text(SCRIPT.replace("x + i + 1", "x + i"))
    assert sanitize.sanitize([str(script)], ["lazy"]).exit_code == 0
