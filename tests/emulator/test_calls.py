# SPDX-License-Identifier: Apache-2.0
"""Device functions that are not inlined: arguments, structs, recursion, pointers, printf, assert, malloc."""
import hopperlab as hl
import numpy as np
import pytest
from hopperlab import emulator


def run(source, kernel, args, block=64, **options):
    hl.RawModule(code=source, backend="emulator", **options).get_function(kernel)((1,), (block,), args)


def test_structs_and_several_arguments():
    source = r"""
    struct S { int a; float b; double c[3]; };
    __noinline__ __device__ S make(int a, float b, const S& other) {
        S s; s.a = a * other.a; s.b = b; s.c[0] = a; s.c[1] = b; s.c[2] = a * b; return s;
    }
    __noinline__ __device__ double total(S s, int i) { return s.c[i] + s.c[(i + 1) % 3] + s.a; }
    extern "C" __global__ void k(float* f, double* d) {
        int t = threadIdx.x;
        S base; base.a = 3; base.b = 0; base.c[0] = base.c[1] = base.c[2] = 0;
        S s = make(t, t * 0.5f, base);
        f[t] = s.b;
        d[t] = t % 2 ? total(s, t % 3) : -total(make(t + 1, 2.0f, s), 2);
    }"""
    f, d = np.zeros(64, np.float32), np.zeros(64)
    run(source, "k", (f, d))
    assert (f == np.arange(64) * 0.5).all()
    for t in range(64):
        s = (3 * t, [t, t / 2, t * t / 2])
        other = ((t + 1) * s[0], [t + 1, 2.0, 2.0 * (t + 1)])
        expected = s[1][t % 3] + s[1][(t % 3 + 1) % 3] + s[0] if t % 2 else -(other[1][2] + other[1][0] + other[0])
        assert d[t] == expected


def test_recursion_with_local_arrays_and_divergence():
    source = r"""
    __noinline__ __device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    __noinline__ __device__ int odd(int n);
    __noinline__ __device__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
    __noinline__ __device__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }
    __noinline__ __device__ void sort(int* a, int n) {
        if (n < 2) return;
        int left[16], right[16], l = 0, r = 0;
        for (int i = 1; i < n; i++) { if (a[i] < a[0]) left[l++] = a[i]; else right[r++] = a[i]; }
        int pivot = a[0];
        sort(left, l);
        sort(right, r);
        for (int i = 0; i < l; i++) a[i] = left[i];
        a[l] = pivot;
        for (int i = 0; i < r; i++) a[l + 1 + i] = right[i];
    }
    extern "C" __global__ void k(int* numbers, int* data) {
        int t = threadIdx.x;
        numbers[t] = fib(t % 11);
        numbers[32 + t] = even(t);
        int mine[12];
        for (int i = 0; i < 12; i++) mine[i] = data[12 * t + i];
        sort(mine, 12);
        for (int i = 0; i < 12; i++) data[12 * t + i] = mine[i];
    }"""
    numbers, data = np.zeros(64, np.int32), np.random.default_rng(31).integers(0, 50, (32, 12)).astype(np.int32)
    expected = np.sort(data, axis=1)
    run(source, "k", (numbers, data), 32)
    fib = [0, 1]
    while len(fib) < 11:
        fib.append(fib[-1] + fib[-2])
    assert numbers[:32].tolist() == [fib[t % 11] for t in range(32)]
    assert numbers[32:].tolist() == [1 - t % 2 for t in range(32)]
    assert (data == expected).all()


def test_endless_recursion_is_a_fault_that_says_so():
    source = r"""
    __noinline__ __device__ int down(volatile int* p, int n) { int a[8]; a[n & 7] = *p; return down(p, n + 1) + a[*p & 7]; }
    extern "C" __global__ void k(int* p) { p[0] = down(p, 0); }"""
    with pytest.raises(emulator.MemoryFault, match="stack"):
        run(source, "k", (np.ones(1, np.int32),), 1)


def test_function_pointers_differ_by_lane():
    source = r"""
    __device__ int scale = 10;
    __noinline__ __device__ int add(int a, int b) { return a + b; }
    __noinline__ __device__ int mul(int a, int b) { return a * b * scale; }
    __noinline__ __device__ int twice(int a, int b) { return add(mul(a, b), 1); }
    typedef int (*Op)(int, int);
    __device__ Op table[3] = {add, mul, twice};
    struct Shape { __device__ virtual int area(int x) { return x; } };
    struct Square : Shape { __device__ int area(int x) override { return x * x; } };
    extern "C" __global__ void k(int* out) {
        int t = threadIdx.x;
        Op op = table[t % 3];
        out[t] = op(t, 7);
        Square square; Shape shape;
        Shape* any = t % 2 ? &square : &shape;
        out[64 + t] = any->area(t);
    }"""
    out = np.zeros(128, np.int32)
    run(source, "k", (out,))
    assert out[:64].tolist() == [[t + 7, t * 70, t * 70 + 1][t % 3] for t in range(64)]
    assert out[64:].tolist() == [t * t if t % 2 else t for t in range(64)]


def test_a_wild_function_pointer_is_a_fault():
    source = r"""
    __noinline__ __device__ int add(int a) { return a + 1; }
    typedef int (*Op)(int);
    __device__ Op table[2] = {add, nullptr};
    extern "C" __global__ void k(int* out, int i) { out[0] = table[i](3); }"""
    out = np.zeros(1, np.int32)
    run(source, "k", (out, np.int32(0)), 1)
    assert out[0] == 4
    with pytest.raises(emulator.MemoryFault, match="not the address of a device function"):
        run(source, "k", (out, np.int32(1)), 1)


def test_barrier_and_shared_memory_inside_a_function():
    source = r"""
    __noinline__ __device__ float block_sum(float x) {
        __shared__ float part[4];
        for (int d = 16; d; d /= 2) x += __shfl_xor_sync(~0u, x, d);
        __syncthreads();
        if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
        __syncthreads();
        return part[0] + part[1] + part[2] + part[3];
    }
    extern "C" __global__ void k(const float* in, float* out) {
        float a = block_sum(in[threadIdx.x]), b = block_sum(in[128 + threadIdx.x]);
        out[threadIdx.x] = a - b;
    }"""
    x, out = np.random.default_rng(37).integers(-50, 50, 256).astype(np.float32), np.zeros(128, np.float32)
    run(source, "k", (x, out), 128)
    assert (out == x[:128].sum() - x[128:].sum()).all()


@pytest.mark.emulator_only
def test_functions_with_register_parameters():
    ptx = """.version 8.0
.target sm_90a
.address_size 64
.func (.reg .u32 difference, .reg .pred less) minus(.reg .u32 a, .reg .u32 b) {
  setp.lt.u32 less, a, b;
  @less bra OTHER;
  sub.u32 difference, a, b;
  ret;
OTHER:
  sub.u32 difference, b, a;
  ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<3>;
  .reg .b32 %r<4>;
  .reg .pred %p<2>;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  call (%r1, %p0), minus, (%r0, 5);
  @%p0 add.u32 %r1, %r1, 100;
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
"""
    out = np.zeros(32, np.uint32)
    hl.RawModule(ptx=ptx, backend="emulator").get_function("k")((1,), (32,), (out,))
    assert out.tolist() == [105 - t if t < 5 else t - 5 for t in range(32)]


def test_printf_formats(capsys):
    source = r"""
    extern "C" __global__ void k(const char* unused) {
        if (threadIdx.x < 2) {
            char name[6] = {'w', 'a', 'r', 'p', 0};
            printf("%s %d|%5u|%-4d|%x %c %% %lld %s\n", name, -3 - (int)threadIdx.x, 7u, 42, 255, 'q', 1ll << 40, "fixed");
            printf("%f %.2e %8.3f %g\n", 1.5, 12345.678, 3.14159f, 0.5);
        }
    }"""
    run(source, "k", (np.zeros(1, np.uint8),), 32)
    out = capsys.readouterr().out
    for t in range(2):
        assert f"warp {-3 - t}|    7|42  |ff q % 1099511627776 fixed\n" in out
    assert out.count("1.500000 1.23e+04    3.142 0.5\n") == 2


def test_assert_names_condition_file_line_and_thread():
    source = r"""
    extern "C" __global__ void k(int* out) {
        out[threadIdx.x] = 1;
        assert(threadIdx.x < 40 && "too many");
    }"""
    with pytest.raises(emulator.EmulatorError) as caught:
        run(source, "k", (np.zeros(64, np.int32),), name="checks.cu")
    text = str(caught.value)
    assert "checks.cu:4" in text and "threadIdx.x < 40" in text and "thread 40" in text


def test_malloc_and_free():
    source = r"""
    extern "C" __global__ void k(int* out) {
        int n = threadIdx.x % 7 + 1;
        int* a = (int*)malloc(n * sizeof(int));
        for (int i = 0; i < n; i++) a[i] = i * threadIdx.x;
        int sum = 0;
        for (int i = 0; i < n; i++) sum += a[i];
        out[threadIdx.x] = sum;
        free(a);
    }"""
    out = np.zeros(32, np.int32)
    run(source, "k", (out,), 32)
    assert out.tolist() == [t * sum(range(t % 7 + 1)) for t in range(32)]
    with pytest.raises(emulator.MemoryFault, match="free of"):
        run('extern "C" __global__ void k(int* p) { free(p + 1); }', "k", (out,), 1)


def test_guarded_calls_and_jump_tables_inside_functions():
    ptx = """.version 8.0
.target sm_90a
.address_size 64
.func (.reg .u32 result) pick(.reg .u32 which, .reg .u32 value) {
  .reg .pred p;
  mov.u32 result, 1000;
  setp.gt.u32 p, which, 2;
  @p ret;
TABLE: .branchtargets A, B, C;
  brx.idx which, TABLE;
A: add.u32 result, value, 1; ret;
B: mul.lo.u32 result, value, 2; ret;
C: mul.lo.u32 result, value, value; ret;
}
.visible .entry k(.param .u64 out) {
  .reg .b64 %rd<3>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.u64 %rd0, [out];
  mov.u32 %r0, %tid.x;
  and.b32 %r2, %r0, 3;
  mov.u32 %r1, 7;
  setp.ge.u32 %p0, %r0, 4;
  @%p0 call (%r1), pick, (%r2, %r0);
  mul.wide.u32 %rd1, %r0, 4;
  add.u64 %rd2, %rd0, %rd1;
  st.global.u32 [%rd2], %r1;
  ret;
}
"""
    out = np.zeros(32, np.uint32)
    hl.RawModule(ptx=ptx, backend="emulator").get_function("k")((1,), (32,), (out,))
    assert out.tolist() == [7 if t < 4 else [t + 1, 2 * t, t * t, 1000][t % 4] for t in range(32)]


SWITCH = r"""
extern "C" __global__ void k(const int* in, int* out) {
    int x = in[threadIdx.x], y = threadIdx.x;
    for (int i = 0; i < 3; i++) {
        switch ((x + i) % 12) {
            case 0: y = y * 3 + 1; break;
            case 1: y ^= 0x55; break;
            case 2: case 5: y -= x; break;
            case 3: y = -y; if (y & 1) break;
            case 4: y += 100; break;
            case 6: y = __popc(y); break;
            case 7: y <<= 2; break;
            case 8: y = y / 3; continue;
            case 9: y = y % 7; break;
            case 10: y = x; break;
            default: y = 9;
        }
        y += i;
    }
    out[threadIdx.x] = y;
}"""


def test_switch_with_fall_through_and_continue():
    module = hl.RawModule(code=SWITCH, backend="emulator")
    x, out = np.random.default_rng(101).integers(0, 40, 64).astype(np.int32), np.zeros(64, np.int32)
    module.get_function("k")((1,), (64,), (x, out))

    def c_div(a, b):
        return int(a / b)

    def one(x, y):
        for i in range(3):
            case = (x + i) % 12
            if case == 3:
                y = -y
                y += 0 if y & 1 else 100
            elif case == 8:
                y = c_div(y, 3)
                continue
            else:
                y = {0: y * 3 + 1, 1: y ^ 0x55, 2: y - x, 5: y - x, 4: y + 100, 6: bin(y & 0xFFFFFFFF).count("1"), 7: y << 2, 9: y - 7 * c_div(y, 7), 10: x}.get(case, 9)
            y += i
        return y
    assert out.tolist() == [one(int(v), t) for t, v in enumerate(x)]


def test_a_jump_past_the_table_is_a_fault():
    ptx = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u32 i) {
  .reg .b32 %r<2>;
  ld.param.u32 %r0, [i];
TABLE: .branchtargets A, B;
  brx.idx %r0, TABLE;
A: ret;
B: ret;
}
"""
    kernel = hl.RawModule(ptx=ptx, backend="emulator").get_function("k")
    kernel((1,), (32,), (np.uint32(1),))
    with pytest.raises(emulator.MemoryFault, match="entry 2 of a table of 2"):
        kernel((1,), (32,), (np.uint32(2),))
