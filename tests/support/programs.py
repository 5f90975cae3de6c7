# SPDX-License-Identifier: Apache-2.0
"""Random small CUDA programs, and a plain interpreter that runs them thread by thread, for test_divergence_fuzz.py.

A program is a list of statements over four unsigned variables. `Writer` prints it as CUDA; `interpret` runs every thread as
a Python generator that stops at collectives, which complete when all their lanes stand at the same statement.
"""
from dataclasses import dataclass, field

import numpy as np

MASK = 0xFFFFFFFF
THREADS = 64
OPS = {
    "+": lambda a, b: a + b & MASK, "-": lambda a, b: a - b & MASK, "*": lambda a, b: a * b & MASK, "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, ">>": lambda a, b: a >> (b & 7), "%": lambda a, b: a % (b | 1),
    "<": lambda a, b: int(a < b), "==": lambda a, b: int(a == b), "min": min, "max": max,
}


@dataclass
class Node:
    """One statement: `kind` with operands; `body` and `other` are nested statements."""

    kind: str
    id: int
    target: int = 0
    value: tuple = ()
    body: list = field(default_factory=list)
    other: list = field(default_factory=list)
    amount: int = 0


class Maker:
    """Draws programs from a seed."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.count = 0

    def pick(self, *choices):
        """One of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def node(self, kind: str, **more) -> Node:
        """A statement with a fresh id."""
        self.count += 1
        return Node(kind, self.count, **more)

    def expression(self, depth: int = 2) -> tuple:
        """('var', i) | ('t',) | ('const', c) | (op, a, b)."""
        if depth == 0 or self.rng.random() < 0.3:
            return self.pick(("var", int(self.rng.integers(4))), ("t",), ("const", int(self.rng.integers(0, 40))), ("var", int(self.rng.integers(4))))
        return (self.pick(*OPS), self.expression(depth - 1), self.expression(depth - 1))

    def block(self, depth: int, uniform: bool, loop: bool) -> list:
        """Some statements; collectives of all threads only where control flow is uniform."""
        return [self.statement(depth, uniform, loop) for _ in range(int(self.rng.integers(1, 5)))]

    def statement(self, depth: int, uniform: bool, loop: bool) -> Node:
        """One statement."""
        kinds = ["assign"] * 3
        if depth:
            kinds += ["if", "if", "loop", "while"]
        if loop:
            kinds += ["break", "continue"]
        if uniform:
            kinds += ["shuffle", "exchange", "masked", "ballot", "uniform"]
        kind = self.pick(*kinds)
        target, value = int(self.rng.integers(4)), self.expression()
        if kind == "if":
            return self.node("if", value=value, body=self.block(depth - 1, False, loop), other=self.pick([], self.block(depth - 1, False, loop)))
        if kind == "uniform":                      # the same number of rounds for everyone: collectives may stand inside
            return self.node("uniform", amount=int(self.rng.integers(1, 4)), body=self.block(max(0, depth - 1), True, False))
        if kind in ("loop", "while"):
            return self.node(kind, value=value, body=self.block(depth - 1, False, True), amount=int(self.rng.integers(2, 7)))
        if kind in ("break", "continue"):
            return self.node(kind, value=value)
        return self.node(kind, target=target, value=value, amount=int(self.rng.integers(1, 32)))


def source(program: list) -> str:
    """The program as a CUDA kernel k(const unsigned* in, unsigned* out): 4 words a thread in and out."""
    lines: list[str] = []
    for n in program:
        _write(n, 1, lines)
    body = "\n".join(lines)
    return f"""
extern "C" __global__ void __launch_bounds__({THREADS}) k(const unsigned* in, unsigned* out) {{
    __shared__ unsigned s[{THREADS}];
    unsigned t = threadIdx.x, v0 = in[4 * t], v1 = in[4 * t + 1], v2 = in[4 * t + 2], v3 = in[4 * t + 3];
{body}
    out[4 * t] = v0; out[4 * t + 1] = v1; out[4 * t + 2] = v2; out[4 * t + 3] = v3;
}}"""


def text(e: tuple) -> str:
    """An expression in CUDA."""
    if e[0] == "var":
        return f"v{e[1]}"
    if e[0] == "t":
        return "t"
    if e[0] == "const":
        return f"{e[1]}u"
    a, b = text(e[1]), text(e[2])
    if e[0] in ("min", "max"):
        return f"{e[0]}({a}, {b})"
    special = {">>": f"({a} >> ({b} & 7u))", "%": f"({a} % ({b} | 1u))", "<": f"(unsigned)({a} < {b})", "==": f"(unsigned)({a} == {b})"}
    return special.get(e[0], f"({a} {e[0]} {b})")


def _write(n: Node, depth: int, lines: list[str]) -> None:
    pad, v, e = "    " * depth, f"v{n.target}", text(n.value) if n.value else ""
    add = lambda line: lines.append(pad + line)

    def nested(body):
        for inner in body:
            _write(inner, depth + 1, lines)
    if n.kind == "assign":
        add(f"{v} = {e};")
    elif n.kind == "if":
        add(f"if ({e} & 1u) {{")
        nested(n.body)
        if n.other:
            add("} else {")
            nested(n.other)
        add("}")
    elif n.kind in ("loop", "uniform"):
        limit = f"{e} % {n.amount}u" if n.kind == "loop" else f"{n.amount}u"
        add(f"for (unsigned i{n.id} = 0, n{n.id} = {limit}; i{n.id} < n{n.id}; i{n.id}++) {{")
        nested(n.body)
        add("}")
    elif n.kind == "while":
        add(f"for (unsigned i{n.id} = 0; i{n.id} < {n.amount}u && ({e} & 3u); i{n.id}++) {{")
        nested(n.body)
        add("}")
    elif n.kind in ("break", "continue"):
        add(f"if ({e} % 3u == 0u) {n.kind};")
    elif n.kind == "shuffle":
        add(f"{v} ^= __shfl_sync(0xffffffffu, {e}, (t + {n.amount}u) & 31u);")
    elif n.kind == "ballot":
        add(f"{v} += __popc(__ballot_sync(0xffffffffu, {e} & 1u)); __syncwarp();")
    elif n.kind == "exchange":
        add(f"s[t] = {e}; __syncthreads(); {v} += s[(t + {n.amount}u) % {THREADS}u]; __syncthreads();")
    else:
        add(f"{{ unsigned m = __ballot_sync(0xffffffffu, {e} & 1u); if ({e} & 1u) {v} = __shfl_sync(m, {v}, __ffs(m) - 1) + __popc(m); }}")


class _Leave(Exception):
    """break or continue."""


def _value(e: tuple, v: list[int], t: int) -> int:
    if e[0] == "var":
        return v[e[1]]
    if e[0] == "t":
        return t
    return e[1] if e[0] == "const" else OPS[e[0]](_value(e[1], v, t), _value(e[2], v, t))


def _thread(program: list, v: list[int], t: int):
    for n in program:
        yield from _run(n, v, t)


def _run(n: Node, v: list[int], t: int):
    x = _value(n.value, v, t) if n.value else 0
    if n.kind == "assign":
        v[n.target] = x
    elif n.kind == "if":
        yield from _thread(n.body if x & 1 else n.other, v, t)
    elif n.kind in ("loop", "uniform", "while"):
        yield from _rounds(n, x, v, t)
    elif n.kind in ("break", "continue"):
        if x % 3 == 0:
            raise _Leave(n.kind)
    elif n.kind == "shuffle":
        values = yield ("warp", n.id, x)
        v[n.target] ^= values[(t + n.amount) & 31]
    elif n.kind == "ballot":
        values = yield ("warp", n.id, x & 1)
        v[n.target] = v[n.target] + sum(values) & MASK
    elif n.kind == "exchange":
        values = yield ("block", n.id, x)
        v[n.target] = v[n.target] + values[(t + n.amount) % THREADS] & MASK
    else:
        values = yield ("warp", n.id, (x & 1, v[n.target]))
        if x & 1:
            inside = [value for bit, value in values if bit]
            v[n.target] = inside[0] + len(inside) & MASK


def _rounds(n: Node, x: int, v: list[int], t: int):
    limit = x % n.amount if n.kind == "loop" else n.amount
    for _ in range(limit):
        if n.kind == "while" and not _value(n.value, v, t) & 3:
            return
        try:
            yield from _thread(n.body, v, t)
        except _Leave as leave:
            if str(leave) == "break":
                return


def interpret(program: list, start: np.ndarray) -> np.ndarray:
    """Final variables (THREADS, 4) of every thread."""
    values = [[int(x) for x in row] for row in start]
    threads = [_thread(program, values[t], t) for t in range(THREADS)]
    at: list = [None] * THREADS
    answers: list = [None] * THREADS
    going = list(range(THREADS))
    while going:
        for t in going:
            try:
                at[t] = threads[t].send(answers[t])
            except StopIteration:
                at[t] = None
        going = []
        if all(stop is not None and stop[0] == "block" for stop in at):
            groups = [range(THREADS)]
        else:
            groups = [g for g in (range(32), range(32, 64)) if all(at[t] is not None and at[t][0] == "warp" for t in g)]
        for group in groups:
            assert len({at[t][1] for t in group}) == 1, "a generated collective is not uniform"
            results = [at[t][2] for t in group]
            for t in group:
                answers[t] = results
                going.append(t)
    assert all(stop is None for stop in at)
    return np.array(values, np.uint32)
