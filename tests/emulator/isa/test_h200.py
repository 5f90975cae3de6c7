# SPDX-License-Identifier: Apache-2.0
"""Every instruction of h200_cases.py gives what an H200 gave (h200.npz, see record_h200.py): bit for bit, NaN patterns
of f32 and f64 aside, and approximations within the error that the PTX ISA allows."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from emulator.isa.h200_cases import GROUP, letters, opcodes
from hopperlab.emulator.isa import immediate, matrix, op, resolve
from hopperlab.emulator.ptx import ir

RECORD = dict(np.load(Path(__file__).parent / "h200.npz"))
REGISTER = {"h": "b16", "r": "b32", "d": "b64", "f": "f32", "F": "f64", "p": "pred"}
DTYPE = {"h": np.uint16, "r": np.uint32, "d": np.uint64, "f": np.float32, "F": np.float64, "p": np.bool_}

# Relative and absolute errors (PTX ISA 9.7.3, 9.7.4). sin and cos: absolute, for |x| up to 2 pi.
RELATIVE = {
    "ex2": 2.0**-21, "rcp": 2.0**-22, "sqrt": 2.0**-22, "rsqrt": 2.0**-22, "div": 2.0**-21, "tanh": 2.0**-10,
    "lg2": 2.0**-22,
}  # fmt: skip
ABSOLUTE = {"lg2": 2.0**-21, "sin": 2.0**-19, "cos": 2.0**-19}


def families():
    """Cases by the first component, with the row of each result in the record."""
    rows, groups = defaultdict(int), defaultdict(list)
    for opcode, results, operands, names in json.loads(RECORD["cases"].tobytes()):
        places = []
        for letter in letters(results):
            places.append((letter, rows[letter]))
            rows[letter] += 1
        groups[opcode.split(".")[0]].append((opcode, results, operands, names, places))
    return groups


FAMILIES = families()


def operands_of(spec, prefix):
    """'(rr)#3' as IR operands."""
    found, count = [], 0
    for group in GROUP.findall(spec):
        if group[0] == "#":
            found.append(ir.Imm(int(group[1:]), "int", int(group[1:])))
            continue
        names = letters(group)
        registers = [ir.Reg(f"{prefix}{count + i}", REGISTER[letter]) for i, letter in enumerate(names)]
        count += len(names)
        found.append(ir.Vec(tuple(registers)) if group[0] == "(" else registers[0])
    return found


def selectors(results, operands):
    """What the parser moves from operands into the modifiers: 'a.b0', 'c.negated'."""
    for place, group in zip("dabc", GROUP.findall(results)[:1] + GROUP.findall(operands)):
        if group[0] == "-":
            yield f"{place}.negated"
        if "." in group:
            yield place + group[group.index("."):]


def instruction(opcode, results, operands):
    outs, ins = operands_of(results, "o"), operands_of(operands, "i")
    if len(outs) == 2:
        outs = [ir.PredPair(*outs)]
    name, *mods = opcode.split(".")
    return ir.Instr(name, (*mods, *selectors(results, operands)), (*outs, *ins), None, None, 1, 0)


def chain(opcode, results, operands, registers):
    """The results of instructions that hand the carry flag on."""
    ops, ins, carry, out = opcodes(opcode), operands_of(operands, "i"), None, []
    each = len(ins) // len(ops)
    for k, one in enumerate(ops):
        name, *mods = one.split(".")
        alu = resolve(ir.Instr(name, tuple(mods), (ir.Reg("o", "b32"), *ins[each * k:each * (k + 1)]), None, None, 1, 0))
        args = [registers[s.name].view(op.NUMPY[d]) for s, d in zip(ins[each * k:each * (k + 1)], alu.ins)]
        value = alu.fn(*args, *([carry] if alu.reads_cc else []))
        if alu.writes_cc:
            value, carry = value
        out.append(value)
    return out


def inputs(operands, names):
    """Registers by name, as the kernel loaded them."""
    out = {}
    for i, (letter, name) in enumerate(zip(letters(operands), names, strict=True)):
        word, dtype = RECORD["input_" + name], np.dtype(DTYPE[letter])
        out[f"i{i}"] = word % 2 == 1 if letter == "p" else word.astype(f"u{dtype.itemsize}").view(dtype)
    return out


def compute(instr, registers):
    """The results of one instruction on arrays."""
    if instr.op == "movmatrix":
        return [matrix.movmatrix(registers["i0"].reshape(-1, 32)).reshape(-1)]
    if instr.op == "mma":
        mma = matrix.mma(instr)
        groups = [
            [registers[r.name].view(op.NUMPY[dtype]).reshape(-1, 32) for r in vector.items]
            for vector, dtype in zip(instr.operands[1:], mma.ins)
        ]
        return [d.reshape(-1) for d in mma.fn(*groups)]
    alu = resolve(instr)
    args = [
        immediate(s, d)
        if type(s) is ir.Imm
        else registers[s.name]
        if d == "pred"
        else registers[s.name].view(op.NUMPY[d])
        for s, d in zip(op.sources(instr), alu.ins, strict=True)
    ]
    result = alu.fn(*args)
    return list(result) if isinstance(result, tuple) else [result]


def in_register(value, letter):
    """A result as its register holds it: narrow ones extended by their own sign."""
    dtype = np.dtype(DTYPE[letter])
    value = np.ascontiguousarray(np.broadcast_to(value, (128,)))
    if value.dtype.itemsize != dtype.itemsize:
        value = value.astype(f"{value.dtype.kind}{dtype.itemsize}")
    return value.view(dtype)


def wrong(opcode, got, want, first):
    """Lanes that differ by more than they may."""
    exact = got == want
    if got.dtype.kind == "f":
        exact |= np.isnan(got) & np.isnan(want)
    if "approx" not in opcode and "full" not in opcode:
        return ~exact
    name = opcode.split(".")[0]
    if got.dtype.kind != "f":  # halves: one unit in the last place, in either lane
        lanes = np.abs(got.view(np.uint16).astype(int) - want.view(np.uint16).astype(int)).reshape(len(got), -1)
        return ~exact & (lanes > 1).any(axis=1)
    g, w = got.astype(np.float64), want.astype(np.float64)
    bound = RELATIVE.get(name, 0) * np.abs(w) + ABSOLUTE.get(name, 0)
    if opcode.endswith("f64"):
        bound = 2.0**-19 * np.abs(w)
    beyond = np.abs(first.astype(np.float64)) > 2 * np.pi if name in ("sin", "cos") else False
    subnormal = (np.abs(w) < 2.0**-125) & (np.abs(g) < 2.0**-125)
    return ~(exact | (np.abs(g - w) <= bound) | beyond | subnormal)


def undefined(opcode, registers):
    """Lanes whose result the ISA leaves open: the payload of a tf32 NaN, and fns from a base beyond bit 31. And scalar video
    instructions that ptxas spells out otherwise than the ISA has them, in ways that are not understood (isa/video.py)."""
    name, *mods = opcode.split(".")
    if name == "vshl" and "sat" in mods or name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax") and {"min", "max"} & set(mods) and "sat" not in mods:
        return np.ones(128, bool)
    if opcode == "cvt.rna.satfinite.tf32.f32":
        return np.isnan(registers["i0"])
    return registers["i1"] > 31 if opcode == "fns.b32" else np.zeros(128, bool)


@pytest.mark.parametrize("family", FAMILIES)
def test_same_as_an_h200(family):
    failures = []
    for opcode, results, operands, names, places in FAMILIES[family]:
        registers = inputs(operands, names)
        with np.errstate(all="ignore"):
            if "+" in opcode:
                computed = chain(opcode, results, operands, registers)
            else:
                computed = compute(instruction(opcode, results, operands), registers)
            for (letter, row), value in zip(places, computed, strict=True):
                got = in_register(value, letter)
                want = RECORD[f"result_{letter}"][row].view(DTYPE[letter])
                bad = wrong(opcode, got, want, registers.get("i0"))
                bad &= ~undefined(opcode, registers)
                for k in np.flatnonzero(bad)[:3]:
                    words = [hex(int(RECORD["input_" + name][k])) for name in names]
                    failures.append(f"{opcode} {results} {operands} {words}: {got[k]!r}, on the H200 {want[k]!r}")
    assert not failures, "\n".join(failures[:20])


def test_the_record_is_complete():
    assert sum(map(len, FAMILIES.values())) > 2500
    assert {"mma", "fma", "cvt", "lop3", "prmt", "setp"} <= set(FAMILIES)
