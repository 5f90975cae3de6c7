"""Loops that look at memory or a clock again and again: those that move on end by themselves, those that repeat are deadlocks."""
import hopperlab as hl
import numpy as np
import pytest

READS = {
    "volatile": "((volatile int*)a)[i]",
    "atomic add of nothing": "atomicAdd(a + i, 0)",
    "compare and swap that never swaps": "atomicCAS(a + i, -1, 0)",
}


def launch(source, args, block=64):
    hl.RawModule(code=source, backend="emulator").get_function("f")((2,), (block,), args)


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_loop_that_reads_on_is_no_deadlock(read):
    source = f"""extern "C" __global__ void f(int* a, int* out, int n) {{
        int sum = 0;
        for (int i = 0; i < n; i++) sum += {read};
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }}"""
    out = np.zeros(128, np.int32)
    launch(source, (np.arange(50, dtype=np.int32), out, np.int32(50)))
    assert out.tolist() == [49 * 25] * 128


def test_spinning_a_bounded_number_of_times_is_no_deadlock():
    source = """extern "C" __global__ void f(volatile int* flag, int* out) {
        int i = 0;
        while (i < 500 && !*flag) i++;
        out[blockIdx.x * blockDim.x + threadIdx.x] = i;
    }"""
    out = np.zeros(128, np.int32)
    launch(source, (np.zeros(1, np.int32), out))
    assert out.tolist() == [500] * 128


@pytest.mark.parametrize("clock", ["clock64()", "globaltimer()"])
def test_waiting_for_a_clock_is_no_deadlock(clock):
    source = f"""
    __device__ long long globaltimer() {{ long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }}
    extern "C" __global__ void f(int* out) {{
        long long start = {clock};
        while ({clock} - start < 100000) {{ }}
        out[blockIdx.x * blockDim.x + threadIdx.x] = 1;
    }}"""
    out = np.zeros(128, np.int32)
    launch(source, (out,))
    assert out.all()


def test_a_long_loop_that_only_computes_is_no_deadlock():
    source = """extern "C" __global__ void f(unsigned* out, int n) {
        unsigned x = threadIdx.x;
        #pragma unroll 1
        for (int i = 0; i < n; i++) x = x * 1664525u + 1013904223u;
        out[blockIdx.x * blockDim.x + threadIdx.x] = x;
    }"""
    steps, out = 90_000, np.zeros(2, np.uint32)
    launch(source, (out, np.int32(steps)), block=1)
    x = 0
    for _ in range(steps):
        x = (x * 1664525 + 1013904223) % 2**32
    assert out.tolist() == [x, x]


@pytest.mark.parametrize("body", [
    "while (!*flag) { }",
    "while (!*flag) __nanosleep(100);",
    "int i = threadIdx.x; while (!*flag) i = (i + 1) % 7; *out = i;",
], ids=["bare", "with pauses", "in a circle of seven states"])
def test_a_loop_that_comes_back_to_where_it_was_is_a_deadlock(body):
    source = f'extern "C" __global__ void f(volatile int* flag, int* out) {{\n{body}\n}}'
    with pytest.raises(hl.DeadlockError, match="at kernel.cu:2"):
        launch(source, (np.zeros(1, np.int32), np.zeros(1, np.int32)))


def test_a_loop_that_counts_for_ever_is_a_deadlock_in_the_end(monkeypatch):
    from hopperlab.emulator import recurrence
    monkeypatch.setattr(recurrence, "MOST_WORK", 1_000_000)
    source = 'extern "C" __global__ void f(volatile int* flag, int* out) { int i = 0; while (!*flag) i++; *out = i; }'
    with pytest.raises(hl.DeadlockError):
        launch(source, (np.zeros(1, np.int32), np.zeros(1, np.int32)))


MEETING = """extern "C" __global__ void __launch_bounds__(1024) f(int* count) {
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (atomicAdd(count, 0) < (int)gridDim.x) { }
    }
    __syncthreads();
}"""


def test_as_many_blocks_as_an_h200_holds_may_wait_for_each_other():
    launch_meeting = hl.RawModule(code=MEETING, backend="emulator").get_function("f")
    count = np.zeros(1, np.int32)
    launch_meeting((264,), (1024,), (count,))
    assert count[0] == 264


def test_waiting_for_blocks_that_have_no_room_names_them():
    launch_meeting = hl.RawModule(code=MEETING, backend="emulator").get_function("f")
    with pytest.raises(hl.DeadlockError, match=r"\n1 of 265 blocks have not started"):
        launch_meeting((265,), (1024,), (np.zeros(1, np.int32),))
