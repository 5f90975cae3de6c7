# SPDX-License-Identifier: Apache-2.0
"""Records what an H200 computes for every case of h200_cases.py into h200.npz, beside this file.

    python tests/emulator/isa/record_h200.py assemble     drops what ptxas rejects and writes h200.cubin and h200.json
    python tests/emulator/isa/record_h200.py run          (needs a Hopper GPU and CuPy) runs them and writes h200.npz

The record holds the cases (JSON), the bank of inputs, and the results of all cases one after another, by letter.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from h200_cases import GROUP, all_cases, letters, opcodes
from h200_inputs import LANES, input_names, make_bank

HERE = Path(__file__).parent
TYPES = {"h": "b16", "r": "b32", "d": "b64", "f": "f32", "F": "f64", "p": "pred"}
STORED = {"h": np.uint16, "r": np.uint32, "d": np.uint64, "f": np.uint32, "F": np.uint64, "p": np.bool_}
LOAD = {
    "h": "cvt.u16.u64 {0}, x;", "r": "cvt.u32.u64 {0}, x;", "d": "mov.b64 {0}, x;", "F": "mov.b64 {0}, x;",
    "f": "cvt.u32.u64 t, x; mov.b32 {0}, t;", "p": "and.b64 x, x, 1; setp.ne.s64 {0}, x, 0;",
}  # fmt: skip
STORE = {
    "h": "cvt.u64.u16 x, {0};", "r": "cvt.u64.u32 x, {0};", "d": "mov.b64 x, {0};", "F": "mov.b64 x, {0};",
    "f": "mov.b32 t, {0}; cvt.u64.u32 x, t;", "p": "selp.u64 x, 1, 0, {0};",
}  # fmt: skip


def written(spec: str, prefix: str) -> list[str]:
    """Operands as PTX: '(rr)#3-r.b0' becomes '{i0, i1}', '3', '-i2.b0'."""
    texts, count = [], 0
    for group in GROUP.findall(spec):
        if group[0] == "#":
            texts.append(group[1:])
            continue
        names = [f"{prefix}{count + i}" for i in range(len(letters(group)))]
        count += len(names)
        sign, part = "-" * (group[0] == "-"), "".join(re.findall(r"\.[bh]\d+", group))
        texts.append("{" + ", ".join(names) + "}" if group[0] == "(" else sign + names[0] + part)
    return texts


def statements(case) -> str:
    """The instructions of a case, one after another."""
    opcode, results, operands = case
    chain, outs, ins = opcodes(opcode), written(results, "o"), written(operands, "i")
    if len(chain) == 1:
        return f"{opcode} {' | '.join(outs)}, {', '.join(ins)};"
    each = len(ins) // len(chain)
    return " ".join(f"{op} {outs[k]}, {', '.join(ins[each * k:each * (k + 1)])};" for k, op in enumerate(chain))


def kernel(index: int, case) -> list[str]:
    """One entry: operand i of lane n lies at in[i * LANES + n], the results likewise at out."""
    outs, ins = letters(case[1]), letters(case[2])
    declare = [f".reg .{TYPES[k]} {p}{i};" for p, ks in (("o", outs), ("i", ins)) for i, k in enumerate(ks)]
    load = [f"ld.global.u64 x, [in+{8 * LANES * i}]; {LOAD[k].format(f'i{i}')}" for i, k in enumerate(ins)]
    store = [f"{STORE[k].format(f'o{i}')} st.global.u64 [out+{8 * LANES * i}], x;" for i, k in enumerate(outs)]
    return [
        f".visible .entry k{index}(.param .u64 p0, .param .u64 p1) {{",
        ".reg .b64 in, out, x, n; .reg .b32 t;",
        " ".join(declare),
        "ld.param.u64 in, [p0]; ld.param.u64 out, [p1]; mov.u32 t, %tid.x; mul.wide.u32 n, t, 8;",
        "add.u64 in, in, n; add.u64 out, out, n;",
        *load,
        statements(case),
        *store,
        "ret; }",
    ]


def assemble() -> None:
    """Assemble all cases, dropping those that ptxas rejects."""
    cases = all_cases()
    while True:
        lines, owner = [".version 9.0", ".target sm_90a", ".address_size 64"], {}
        for i, case in enumerate(cases):
            start = len(lines) + 1
            lines += kernel(i, case)
            owner.update(dict.fromkeys(range(start, len(lines) + 1), i))
        (HERE / "h200.ptx").write_text("\n".join(lines) + "\n")
        command = ["ptxas", "-arch=sm_90a", str(HERE / "h200.ptx"), "-o", str(HERE / "h200.cubin")]
        report = subprocess.run(command, capture_output=True, text=True)
        rejected = {owner[int(line)] for line in re.findall(r"line (\d+); error", report.stderr)}
        if not rejected:
            report.check_returncode()
            break
        cases = [case for i, case in enumerate(cases) if i not in rejected]
    (HERE / "h200.json").write_text(json.dumps([[*case, input_names(case)] for case in cases]))
    np.savez_compressed(HERE / "h200_bank.npz", **make_bank())
    print(f"{len(cases)} cases")


def run() -> None:
    """Run every kernel and save the record."""
    import cupy

    cases = json.loads((HERE / "h200.json").read_text())
    bank = dict(np.load(HERE / "h200_bank.npz"))
    module = cupy.RawModule(path=str(HERE / "h200.cubin"))
    results = {letter: [] for letter in TYPES}
    out = cupy.zeros((8, LANES), cupy.uint64)
    for i, (_, outs, _, names) in enumerate(cases):
        inputs = cupy.asarray(np.stack([bank[name] for name in names]))
        module.get_function(f"k{i}")((1,), (LANES,), (inputs, out))
        for letter, row in zip(letters(outs), out.get()):
            results[letter].append(row.astype(STORED[letter]))
    arrays = {f"result_{letter}": np.stack(rows) for letter, rows in results.items()}
    text = np.frombuffer(json.dumps(cases).encode(), np.uint8)
    np.savez_compressed(HERE / "h200.npz", cases=text, **arrays, **{f"input_{k}": v for k, v in bank.items()})


if __name__ == "__main__":
    {"assemble": assemble, "run": run}[sys.argv[1]]()
