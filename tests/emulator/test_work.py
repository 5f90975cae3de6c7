# SPDX-License-Identifier: Apache-2.0
"""A bound on the work of a launch (hl.emulate(limit=…)), and on what a kernel prints and the memory that its module takes."""
import hopperlab as hl
import numpy as np
import pytest

SUM = """extern "C" __global__ void f(unsigned* y, int n) {
    unsigned x = threadIdx.x;
    #pragma unroll 1
    for (int i = 0; i < n; i++) x = x * 1664525u + 1013904223u;
    y[threadIdx.x] = x;
}"""
ENDLESS = {
    "computes": "unsigned x = 1; while (x) x = x * 4u + 1013904223u; y[1] = x;",
    "computes in one thread": "if (threadIdx.x == 0) { unsigned x = 1; while (x) x = x * 4u + 1013904223u; y[1] = x; }",
    "takes ever other branches": "unsigned x = threadIdx.x; while (x != 7) { x = x * 1664525u + 1013904223u; if (x & 0x10000) x ^= y[0]; else x += y[1]; }",
    "stores": "while (true) ((volatile unsigned*)y)[threadIdx.x] += 1;",
    "synchronises": "while (true) __syncthreads();",
    "prints": "while (true) printf(\"%d\\n\", threadIdx.x);",
    "allocates": "while (true) { int* p = (int*)malloc(8); if (p) *p = 1; }",
}


REPEATS = ("computes", "computes in one thread", "stores")         # states that come again are seen to: a deadlock is named before the limit is reached
BOUNDED = [name for name in ENDLESS if name not in REPEATS]


def module(source):
    return hl.RawModule(code=source, backend="emulator").get_function("f")


@pytest.mark.parametrize("body", [ENDLESS[name] for name in BOUNDED], ids=BOUNDED)
def test_a_kernel_that_never_ends_is_ended_and_the_message_names_the_line(body, capsys):
    kernel = module(f'extern "C" __global__ void f(unsigned* y) {{\n\n    {body}\n}}')
    with pytest.raises(hl.BudgetExceeded, match=r"f was ended: it did more work than its limit of 100,000 .* around kernel\.cu:3"):
        with hl.emulate(limit=100_000, hazards="collect"):
            kernel((2,), (64,), (np.zeros(64, np.uint32),))


@pytest.mark.parametrize("name", REPEATS)
def test_a_loop_whose_states_repeat_is_a_deadlock_at_its_line(name):
    kernel = module(f'extern "C" __global__ void f(unsigned* y) {{\n\n    {ENDLESS[name]}\n}}')
    with hl.emulate(limit=100_000, hazards="collect") as run:
        kernel((2,), (64,), (np.zeros(64, np.uint32),))
    assert run.hazards and {hazard.kind for hazard in run.hazards} <= {"deadlock", "race"} and any(
        hazard.kind == "deadlock" and hazard.where.line == 3 for hazard in run.hazards)


def test_the_same_launch_is_ended_at_the_same_place():
    kernel, said = module(f'extern "C" __global__ void f(unsigned* y) {{ {ENDLESS["takes ever other branches"]} }}'), []
    for _ in range(2):
        with pytest.raises(hl.BudgetExceeded) as stopped:
            with hl.emulate(schedule="random", seed=3, limit=50_000, hazards="collect"):
                kernel((2,), (64,), (np.zeros(64, np.uint32),))
        said.append(str(stopped.value))
    assert said[0] == said[1]


def test_launches_of_a_session_add_up():
    kernel, y = module(SUM), np.zeros(32, np.uint32)
    with hl.emulate(limit=10**9) as run:
        kernel((1,), (32,), (y, np.int32(1000)))
    once = run.work
    assert once > 1000
    with pytest.raises(hl.BudgetExceeded):
        with hl.emulate(limit=2 * once + once // 2) as run:
            for _ in range(3):
                kernel((1,), (32,), (y, np.int32(1000)))
    assert run.launches == 3


def test_within_the_limit_nothing_changes():
    kernel, free, bound = module(SUM), np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    with hl.emulate() as without:
        kernel((1,), (32,), (free, np.int32(50)))
    with hl.emulate(limit=10**6) as within:
        kernel((1,), (32,), (bound, np.int32(50)))
    assert (free == bound).all() and without.counters == within.counters and without.work == 0


def test_a_limit_must_be_positive():
    with pytest.raises(ValueError, match="at least 1"):
        with hl.emulate(limit=0):
            pass


def test_printf_stops_where_the_buffer_is_full(capsys):
    kernel = module('extern "C" __global__ void f(int n) { for (int i = 0; i < n; i++) printf("%100d\\n", i); }')
    kernel((1,), (32,), (np.int32(1000),))
    printed = capsys.readouterr().out
    assert abs(len(printed) - (1 << 20)) < 300
    assert printed.endswith("(printf: this launch filled the buffer of 1 MiB; what it prints from here on is lost)\n")


@pytest.mark.parametrize("given", ['"%1000000000d"', '"%.99999999999f", 1.0, 2', '"%*d", 100000000'])
def test_printf_does_not_pad_to_a_gigabyte(given):
    kernel = module(f'extern "C" __global__ void f(int n) {{ printf({given}, n); }}')
    with pytest.raises(hl.EmulatorError, match="width or precision above 4096"):
        kernel((1,), (1,), (np.int32(1),))


def test_a_module_cannot_take_all_memory():
    kernel = module('__device__ char much[1ull << 33]; extern "C" __global__ void f(int n) { much[n] = 1; }')
    with pytest.raises(hl.EmulatorError, match="variables of this module take 8,589,934,592 bytes"):
        kernel((1,), (1,), (np.int32(1),))
