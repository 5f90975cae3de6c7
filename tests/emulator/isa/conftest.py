# SPDX-License-Identifier: Apache-2.0
"""Shared by the ISA tests: run one instruction on arrays, the way the engine does."""

import numpy as np
import pytest

from hopperlab.emulator.isa import AluOp, immediate, op, resolve
from hopperlab.emulator.ptx import ir


def _register(name, value):
    if value.dtype == bool:
        return ir.Reg(name, "pred")
    width = 8 * value.dtype.itemsize
    return ir.Reg(name, f"f{width}" if value.dtype.kind == "f" and width > 16 else f"b{width}")


def _operand(index, value):
    """An int is a constant, a list a vector, an array or NumPy scalar a register."""
    if isinstance(value, list):
        return ir.Vec(tuple(_operand(10 * index + i, v) for i, v in enumerate(value)))
    if type(value) is int:
        return ir.Imm(value, "int", value & (1 << 64) - 1)
    if type(value) is float:
        return ir.Imm(value, "f32", int(np.float32(value).view(np.uint32)))
    return _register(f"%s{index}", value)


def _destination(kind):
    if isinstance(kind, tuple):
        return ir.PredPair(ir.Reg("%d0", kind[0]), ir.Reg("%d1", kind[1]))
    if isinstance(kind, list):
        return ir.Vec(tuple(ir.Reg(f"%d{i}", k) for i, k in enumerate(kind)))
    return ir.Reg("%d", kind)


def make(opcode, values, dst="b32") -> ir.Instr:
    name, *mods = opcode.split(".")
    operands = (_destination(dst), *(_operand(i, v) for i, v in enumerate(values)))
    return ir.Instr(name, tuple(mods), operands, None, None, 12, 0)


def _flat(values):
    return [v for value in values for v in (value if isinstance(value, list) else [value])]


def _as(value, dtype):
    if dtype == "pred":
        return value
    return value.view(op.NUMPY[dtype])


def _equal(x, y):
    return x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind == "f")


class Runner:
    """`run("add.s32", a, b)`: the result, after checking dtypes, scalars, the inline form and that inputs stay."""

    def resolve(self, opcode, *values, dst="b32") -> AluOp | None:
        return resolve(make(opcode, values, dst))

    def __call__(self, opcode, *values, dst="b32", carry=None):
        instr = make(opcode, values, dst)
        alu = resolve(instr)
        sources = op.sources(instr)
        args = [
            immediate(s, d) if type(s) is ir.Imm else _as(v, d)
            for s, v, d in zip(sources, _flat(values), alu.ins, strict=True)
        ]
        if alu.reads_cc:
            args.append(carry)
        before = [np.array(a) for a in args]
        with np.errstate(all="ignore"):
            result = alu.fn(*args)
            self._check(alu, args, result)
        assert all(_equal(np.asarray(a), b) for a, b in zip(args, before)), "an input was changed"
        return result

    @staticmethod
    def _check(alu, args, result):
        results = result if isinstance(result, tuple) else (result,)
        assert len(results) == len(alu.outs) + alu.writes_cc
        for value, dtype in zip(results, alu.outs):
            assert value.dtype == op.NUMPY[dtype], (value.dtype, dtype)
        if alu.inline is not None:
            inlined = eval(alu.inline.format(*(f"args[{i}]" for i in range(len(args)))), {"np": np, "args": args})
            assert _equal(np.asarray(inlined), np.asarray(results[0]))
        arrays = [i for i, a in enumerate(args) if a.ndim]
        for lane in range(3 if arrays else 0):
            Runner._same(alu.fn(*(a[lane] if a.ndim else a for a in args)), [np.asarray(r)[..., lane] for r in results])
        for i in arrays[:2]:  # one array, the rest uniform
            mixed = [a[0] if a.ndim and j != i else a for j, a in enumerate(args)]
            spread = [np.full(args[i].shape, a) if j in arrays else a for j, a in enumerate(mixed)]
            wide = alu.fn(*spread)
            Runner._same(alu.fn(*mixed), wide if isinstance(wide, tuple) else (wide,))

    @staticmethod
    def _same(result, expected):
        for x, y in zip(result if isinstance(result, tuple) else (result,), expected, strict=True):
            x = np.asarray(x)
            assert _equal(np.broadcast_to(x, np.shape(y)), np.asarray(y))


@pytest.fixture
def run():
    return Runner()
