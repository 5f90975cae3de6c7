# SPDX-License-Identifier: Apache-2.0
"""Answers of mbarrier.try_wait and test_wait: whoever goes on after a no is named at the wait and at what it touches, under every schedule; whoever asks again is not."""
import hopperlab as hl
import numpy as np
import pytest
from hopperlab.emulator.compile import wait_answers
from support.emulated import SCHEDULES, WRAPPERS, told

pytestmark = pytest.mark.emulator_only

KERNEL = r"""
extern "C" __global__ void NAME(float* x, float* y) {
    int t = threadIdx.x;
    __shared__ mbarrier_t full[2];
    __shared__ __align__(128) float tile[64];
    if (t == 0) { mbarrier_init(full, 1); mbarrier_init(full + 1, 1); }
    __syncthreads();
    if (t == 0) {
        mbarrier_arrive_expect_tx(full, 256);
        cp_async_bulk_load(tile, x, 256, full);                    // COPY
        mbarrier_arrive(full + 1);
    }
    unsigned a = (unsigned)__cvta_generic_to_shared(full), b = (unsigned)__cvta_generic_to_shared(full + 1), r;
    WAIT; // WAIT
    y[t] = tile[t] + 0 * (a + b + (r = 0)); // READ
}
"""
UNREAD = {
    "dropped": "mbarrier_try_wait_parity(full, 0)",
    "in_a_loop": "for (int i = 0; i < 3; i++) mbarrier_try_wait_parity(full, 0)",
    "written_over": "bool ok = mbarrier_try_wait_parity(full, 0); ok = mbarrier_try_wait_parity(full + 1, 0); if (!ok) mbarrier_wait_parity(full + 1, 0)",
    "moved": 'asm volatile("{.reg .pred p, q; .reg .b32 z; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; mov.pred q, p; selp.b32 z, 1, 0, q; mov.b32 %0, z;}" '
             ': "=r"(r) : "r"(a) : "memory")',
    "one_register": 'asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%0], 0; L%=: mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; '
                    '@!p bra L%=;}" :: "r"(a), "r"(b) : "memory")',
}
PASSED_OVER = {
    "stored": "y[64 + t] = mbarrier_try_wait_parity(full, 0)",
    "counted": "if (!mbarrier_try_wait_parity(full, 0)) y[64 + t] += 1",
    "pauses": "if (!mbarrier_test_wait_parity(full, 0)) __nanosleep(100)",
    "gives_up": "for (int i = 0; i < 3; i++) if (mbarrier_try_wait_parity(full, 0)) break",
    "gives_up_later": "for (int i = 0; i < (int)x[7]; i++) if (mbarrier_test_wait_parity(full, 0)) break",
    "gives_up_after_many": "for (int i = 0; i < 1000; i++) if (mbarrier_try_wait_parity(full, 0)) break",
    "gives_up_unrolled": "for (int i = 0; i < 20; i++) if (mbarrier_try_wait_parity(full, 0)) break",
    "gives_up_while_it_sleeps": "unsigned n = 0; while (!mbarrier_try_wait_parity(full, 0)) { if (++n > 64) break; __nanosleep(20); }",
    "gives_up_as_told": "int n = (int)x[63] * 10; for (int i = 0; i < n; i++) if (mbarrier_test_wait_parity(full, 0)) break",
    "gives_up_twice": "for (int j = 0; j < 2; j++) for (int i = 0; i < 100; i++) if (mbarrier_try_wait_parity(full, 0)) break",
    "waits_elsewhere": "bool ok = mbarrier_try_wait_parity(full, 0); if (!ok) mbarrier_wait_parity(full + 1, 0)",
}
CLEAN = {
    "spins": "while (!mbarrier_try_wait_parity(full, 0)) {}",
    "sleeps": "while (!mbarrier_test_wait_parity(full, 0)) __nanosleep(20)",
    "token": "int token = mbarrier_try_wait_parity(full, 0); y[64 + t] = 3; if (!token) mbarrier_wait_parity(full, 0)",
    "at_once": "bool done = mbarrier_try_wait_parity(full, 0); if (!done) mbarrier_wait_parity(full, 0)",
    "both": "while (!(mbarrier_try_wait_parity(full, 0) && mbarrier_try_wait_parity(full + 1, 0))) {}",
    "hint": "mbarrier_try_wait_parity(full, 0); mbarrier_wait_parity(full, 0)",
    "chosen": "int ok; do { ok = mbarrier_try_wait_parity(full, 0) ? 7 : 5; } while (ok != 7)",
    "traps": "int n = 0; while (!mbarrier_try_wait_parity(full, 0)) if (++n > 3) __trap()",
    "leaves_a_word": "int n = 0; while (!mbarrier_try_wait_parity(full, 0)) if (++n > 20) { y[64 + t] = -1; __trap(); }",
    "many_and_waits": "for (int i = 0; i < 1000; i++) if (mbarrier_try_wait_parity(full, 0)) break; mbarrier_wait_parity(full, 0)",
    "many_and_meets": "if (t < 32) "
                      "for (int i = 0; i < 1000; i++) if (mbarrier_try_wait_parity(full, 0)) break; if (t >= 32) mbarrier_wait_parity(full, 0); __syncthreads()",
    "many_and_looks": "int i = 0; while (i < 1000 && !mbarrier_try_wait_parity(full, 0)) i++; if (i == 1000) mbarrier_wait_parity(full, 0)",
    "many_known": "mbarrier_wait_parity(full, 0); for (int i = 0; i < 1000; i++) if (mbarrier_try_wait_parity(full, 0)) break",
    "prints": 'int n = 0; while (!mbarrier_try_wait_parity(full, 0)) if (++n > 3) { printf("late"); __trap(); }',
    "asserts": "int n = 0; while (!mbarrier_try_wait_parity(full, 0)) if (++n > 3) assert(n == -1)",
    "traps_unrolled": "bool ok = false; for (int i = 0; i < 20 && !ok; i++) ok = mbarrier_try_wait_parity(full, 0); if (!ok) { y[64 + t] = -1; __trap(); }",
    "voted": "while (!__all_sync(~0u, mbarrier_try_wait_parity(full, 0))) {}",
    "other_work": "if (mbarrier_test_wait_parity(full, 0)) y[64 + t] = tile[t]; mbarrier_wait_parity(full, 0)",
    "known_by_a_barrier": "if (t == 0) mbarrier_wait_parity(full, 0); __syncthreads(); if (!mbarrier_test_wait_parity(full, 0)) __trap()",
    "known_by_its_arrivals": "mbarrier_wait_parity(full, 0); __syncthreads(); if (!mbarrier_test_wait_parity(full + 1, 0)) __trap()",
}
EVERY = {**UNREAD, **PASSED_OVER, **CLEAN}
SOURCE = WRAPPERS + "\n".join(KERNEL.replace("NAME", name).replace("WAIT;", f"{wait};") for name, wait in EVERY.items())
FIRST = {name: SOURCE[:SOURCE.index(f" void {name}(")].count("\n") for name in EVERY}


@pytest.fixture(scope="module")
def module():
    return hl.RawModule(code=SOURCE, backend="emulator")


def found(module, name, schedule):
    x, y = np.arange(64, dtype=np.float32), np.zeros(128, np.float32)
    with hl.emulate(schedule=schedule, seed=3, hazards="collect") as session:
        module.get_function(name)((1,), (64,), (x, y))
    start = FIRST[name]
    tags = {k: tag for k, line in enumerate(SOURCE.splitlines()[start:start + 18], start + 1) for tag in ("COPY", "WAIT", "READ") if line.endswith(f"// {tag}")}
    return session, y, {(h.case, *(tags.get(end.line) if end else None for end in (h.where, h.other))) for h in [*session.hazards, *session.warnings]}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", UNREAD)
def test_an_answer_at_which_nobody_looks(module, name, schedule):
    session, _, cases = found(module, name, schedule)
    assert {("wait-unread", "WAIT", None), ("read-before-copy", "READ", "COPY")} <= cases, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", PASSED_OVER)
def test_an_answer_that_does_not_keep_the_thread_from_going_on(module, name, schedule):
    session, _, cases = found(module, name, schedule)
    assert {("answer-passed-over", "WAIT", "READ"), ("read-before-copy", "READ", "COPY")} <= cases, told(session)
    assert "(full[0])" in str(next(h for h in session.hazards if h.case == "answer-passed-over"))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CLEAN)
def test_waits_that_ask_again(module, name, schedule):
    session, y, cases = found(module, name, schedule)
    assert not cases, told(session)
    assert (y[:64] == np.arange(64)).all()


ANEW = """
extern "C" __global__ void kernel(float* x) {
    __shared__ unsigned long long full;
    unsigned s = (unsigned)__cvta_generic_to_shared(&full);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(s) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(s) : "memory");
    asm volatile("{ .reg .pred p; .reg .b64 g; .reg .b32 w; cvt.u64.u32 g, %0;\\n"
                 "L: cvta.shared.u64 g, g; cvta.to.shared.u64 g, g; cvt.u32.u64 w, g;\\n"
                 "mbarrier.try_wait.parity.shared.b64 p, [w], 0; @!p bra L; }" :: "r"(s) : "memory");
    x[threadIdx.x] = 1;
}"""


def test_a_loop_that_makes_its_address_anew_asks_again_and_nothing_else(monkeypatch):
    """clang leaves cvta in the loop: it touches nothing, so the wait is answered no for no other reason than that the phase is not over."""
    asked = []
    turns = wait_answers.turns
    monkeypatch.setattr(wait_answers, "turns", lambda function, ops: asked.append(turns(function, ops)) or asked[-1])
    x = np.zeros(64, np.float32)
    with hl.emulate(hazards="raise"):
        hl.RawModule(code=ANEW, backend="emulator").get_function("kernel")((1,), (64,), (x,))
    assert asked == [{}] and (x == 1).all()
