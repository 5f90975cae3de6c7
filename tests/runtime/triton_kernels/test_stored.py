# SPDX-License-Identifier: Apache-2.0
"""PTX that Triton 3.6 made of the cases (record.py), launched through TritonKernel as from_triton would: right values, hazards at their lines of Python."""
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.patience import PATIENCE

import hopperlab as hl
from hopperlab.runtime.errors import LaunchError, TritonError
from hopperlab.runtime.triton_kernels import argument_types, to_ptx
from hopperlab.runtime.triton_kernels.kernel import TritonKernel, from_triton
from runtime.triton_kernels.cases import CASES, STORED, stored_ptx

ROOM = Path(__file__).parent
TOLD = json.loads((STORED / "stored.json").read_text())["cases"]
LINES = (ROOM / "triton_examples.py").read_text().splitlines()


def parameter(name, constexpr):
    return SimpleNamespace(name=name, is_constexpr=constexpr, is_const=False, has_default=False, default=None, annotation_type="", do_not_specialize=False,
                           do_not_specialize_on_alignment=False)


@pytest.fixture
def stored(monkeypatch):
    """from_triton of a case, with Triton's part taken from stored/."""
    def of(name, **more) -> TritonKernel:
        case, told = CASES[name], TOLD[name]
        fixed = {**case.constexprs, **case.gluon}
        built = to_ptx.Built(ptx=stored_ptx(name).read_text(), **{key: tuple(value) if isinstance(value, list) else value for key, value in told["built"].items()})
        monkeypatch.setattr(to_ptx, "parameters", lambda kernel: [parameter(n, n in fixed) for n in told["parameters"]])
        monkeypatch.setattr(to_ptx, "build", lambda *given: built)
        return from_triton(SimpleNamespace(__name__=case.kernel), case.signature, fixed, backend="emulator", **{**case.options, **more})
    return of


def line(words_of_it: str, kernel: str) -> int:
    """Number of the line of triton_examples.py that has these words, inside the kernel."""
    start = next(n for n, text in enumerate(LINES) if text.startswith(f"def {kernel}("))
    return next(n for n, text in enumerate(LINES[start:], start + 1) if words_of_it in text)


def found(run) -> set:
    return {(h.kind, h.where.line, h.other.line if h.other else 0) for h in run.hazards}


def expected(case) -> set:
    return {(kind, line(where, case.kernel), line(other, case.kernel) if other else 0) for kind, where, other in case.hazards}


@pytest.mark.parametrize("name", CASES)
def test_right_values_and_hazards_at_their_lines_of_python(stored, name):
    case, kernel = CASES[name], stored(name)
    arguments = case.arguments()
    with hl.emulate(hazards="collect") as run:
        kernel[case.grid](*arguments)
    assert case.right(arguments)
    assert found(run) == expected(case), [str(h) for h in run.hazards]
    assert all(h.where.file == "triton_examples.py" for h in run.hazards)


@pytest.mark.parametrize("name", ["softmax", "tma_copy", "odd_order"])
@pytest.mark.usefixtures("own_memory")
def test_clean_ones_are_so_under_every_schedule(stored, name):
    case, kernel = CASES[name], stored(name)
    arguments = case.arguments()
    assert hl.explore(lambda: kernel(case.grid, arguments), seeds=2).clean and case.right(arguments)


def test_no_folder_is_stored():
    for path in map(stored_ptx, CASES):
        assert ".debug_info" not in path.read_text() and all("/" not in text for text in path.read_text().splitlines() if ".file" in text)


def test_what_the_compiler_relies_on_is_checked(stored):
    kernel = stored("product_by_pointers")
    arguments = list(CASES["product_by_pointers"].arguments())
    for place, value, message in ((5, 47, "k is 47, but the kernel was compiled for a number divisible by 16"),
                                  (7, 2, "stride_ak is 2, but the kernel was compiled for 1"),
                                  (3, 2**31, "m is 2147483648, which does not fit i32"), (3, 7.5, "m is 7.5, but the kernel was compiled for a whole number"),
                                  (3, "7", "m is a str"), (0, 7.0, "a is a float, but the kernel was compiled for"),
                                  (0, np.zeros((70, 48), np.float32), "a is an array of float32"),
                                  (0, np.zeros(9000, np.float16)[1:], "a lies at 0x")):
        changed = [*arguments]
        changed[place] = value
        with pytest.raises(LaunchError, match=message):
            kernel[(2, 1)](*changed)


def test_how_arguments_are_bound(stored):
    kernel = stored("odd_order")
    scale, out, n, x, shift, stride = CASES["odd_order"].arguments()
    kernel[lambda given: (-(-given["n"] // given["BLOCK"]),)](scale, out, x=x, n=n, shift=shift, stride=stride)
    assert out[3] == (6 * 2 + 0.5) * 2
    for args, keywords, message in (((scale, out, n, x, shift, stride, 1), {}, "takes 6 arguments, 7 given"), ((scale,), {}, "out is missing"),
                                    ((scale, out, n, x, shift, stride), {"n": 3}, "n is given twice"),
                                    ((scale, out, n, x, shift, stride), {"BLOCK": 3}, "BLOCK is given twice"),
                                    ((scale, out, n, x, shift, stride), {"num_warps": 3}, "is compiled already")):
        with pytest.raises(LaunchError, match=message):
            kernel[2](*args, **keywords)
    with pytest.raises(LaunchError, match="must be a tuple"):
        kernel(2, out)


def test_descriptors_are_arrays_or_maps_of_the_right_box(stored):
    kernel = stored("tma_copy")
    x, y = CASES["tma_copy"].arguments()
    kernel[1](hl.TensorMap.tiled(x, box=(64, 64), swizzle="128B"), y)
    assert (x == y).all()
    described = SimpleNamespace(base=np.ascontiguousarray(np.pad(x, ((0, 0), (0, 64)))), shape=[64, 64], strides=[128, 1], block_shape=[64, 64], padding="zero")
    y[:] = 0
    kernel[1](described, y)
    assert (x == y).all()
    for value, message in ((hl.TensorMap.tiled(x, box=(32, 64), swizzle="128B"), r"box \(32, 64\) with swizzle 128B, but the kernel was compiled for box \(64, 64\)"),
                           (x.astype(np.float32), "array of float32"),
                           (np.zeros(64, np.float16), "has 1 axes"), (3, "is a int, but the kernel was compiled for a tensor descriptor")):
        with pytest.raises(LaunchError, match=message):
            kernel[1](value, y)


@pytest.mark.parametrize("signature, message", [
    ("*fp32, i32", "the signature has 2 types"), ({"out": "*fp32"}, r"it has to name out, x, columns"),
    ({"out": "*fp32", "x": "*fp32", "columns": "i32", "BLOCK": "i32"}, "belong into constexprs: BLOCK"),
    ("*fp32, *fp32, i33", "there is no type 'i33'"), ("*fp32:8, *fp32, i32", "what the compiler may rely on is"),
    ("*fp32:1, *fp32, i32", "a pointer is never equal to 1"),
    ("*fp32, *fp32, fp32:16", "specialises on whole numbers only"), (["*fp32", "*fp32", 4], "the type of softmax, columns is 4"),
    ("*fp32, tensordesc<fp16[]>, i32", "there is no type"),
    (["*fp32", ("nothing", (4,)), "i32"], "a tensor descriptor is written")])
def test_signatures_that_do_not_fit(stored, monkeypatch, signature, message):
    stored("softmax")
    with pytest.raises(TritonError, match=message):
        from_triton(SimpleNamespace(__name__="softmax"), signature, {"BLOCK": 128}, backend="emulator")
    with pytest.raises(TritonError, match="constexprs lacks BLOCK"):
        from_triton(SimpleNamespace(__name__="softmax"), "*fp32, *fp32, i32", backend="emulator")
    with pytest.raises(TritonError, match="has no parameter TILE"):
        from_triton(SimpleNamespace(__name__="softmax"), None, {"TILE": 1}, backend="emulator")


def test_words():
    assert argument_types.split("*fp32:16, tensordesc<fp16[64, 64],L(a=[1, 2])>, i32") == ["*fp32:16", "tensordesc<fp16[64, 64],L(a=[1, 2])>", "i32"]
    assert argument_types.read("x", "*k float16 : 16").word == "*kfp16" and argument_types.read("x", "int32").word == "i32" and argument_types.read("x",
            "bool").word == "i1"
    assert argument_types.read("x", ("bf16", (64, 32))).word == "tensordesc<bf16[64, 32]>" and argument_types.read("x",
            ("fp16", [8], "L()")).word == "tensordesc<fp16[8],L()>"


@pytest.mark.parametrize("value, word", [(1, None), (None, None), (16, "i32:16"), (17, "i32"), (2**31, "i64:16"), (2**63, "u64:16"), (-3, "i32"), (2.5, "fp32"),
                                         (True, "u1"), (np.int64(48), "i32:16"),
                                         (np.zeros(4, np.float16), "*fp16:16"), (np.zeros(5, np.int32)[1:], "*i32"), (np.zeros(2, bool), "*i1:16")])
def test_the_jits_own_choice(value, word):
    assert (lambda type_: None if type_ is None else str(type_))(argument_types.chosen(value, False, True, True, "")) == word


def test_the_jits_choice_follows_the_parameter():
    assert str(argument_types.chosen(1, False, False, True, "")) == "i32" and str(argument_types.chosen(16, False, True, False,
            "")) == "i32" and str(argument_types.chosen(16, False, True, True, "i64")) == "i64:16"
    assert str(argument_types.chosen(np.zeros(4, np.float32), True, True, True, "")) == "*kfp32:16"
    with pytest.raises(TritonError, match="a str is no argument of a Triton kernel"):
        argument_types.chosen("x", False, True, True, "")


def test_calls_that_led_to_an_inlined_line_are_stated_as_ptx_has_them():
    text = ('\t.file\t1 "/a/b/mine.py"\n\t.file\t2 "/c/helper.py"\n\t.loc\t2 5 9                           // helper.py:5:9 @[ helper.py:7:1 @[ mine.py:30:2 ] '
            ']\n\t.loc\t1 3 4                           // mine.py:3:4\n')
    made = to_ptx.with_lines(text)
    assert '"mine.py"' in made and "/a/b" not in made
    assert ".loc 1 30 2 .loc 2 7 1, function_name $L__inlined_function, inlined_at 1 30 2 .loc 2 5 9, function_name $L__inlined_function, inlined_at 2 7 1\n" in made
    assert made.count("\n", 0, made.index("3 4")) == 3, "lines keep their numbers"
    assert to_ptx.with_lines(text.split("\t.loc\t2")[0]).endswith('"helper.py"\n')


def test_without_triton_the_error_says_how_to_get_it():
    code = "import sys; sys.modules['triton'] = None; import hopperlab as hl; hl.from_triton(print, '*fp32')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "HOPPERLAB_BACKEND": "emulator"}, timeout=100 * PATIENCE)
    assert "TritonError: Triton is not installed" in done.stderr and "pip install" in done.stderr
