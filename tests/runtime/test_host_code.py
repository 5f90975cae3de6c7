# SPDX-License-Identifier: Apache-2.0
"""Host code of a .cu file is left out, device code and the numbers of lines stay."""
import re

import numpy as np
import pytest

import hopperlab as hl
from hopperlab.runtime.compile import toolchain
from hopperlab.runtime.compile.host_code import without_host_code

PROGRAM = r'''// A program as others write it.
#include <cstdio>
#include <vector>
#include <string>
#include <array>
#include <cublas_v2.h>
#define CHECK(x) do { cudaError_t e = (x); if (e) { fprintf(stderr, "%s {\n", cudaGetErrorString(e)); exit(1); } } while (0)
#define FN __device__ __forceinline__
#define BOTH __host__ FN
using namespace std;
constexpr int N = 1 << 10;
static std::vector<float> host_data;
struct Timer {
    cudaEvent_t a, b;
    Timer() noexcept : a(nullptr), b{nullptr} { cudaEventCreate(&a); }
    ~Timer() { cudaEventDestroy(a); }
    float ms() const { float t; cudaEventElapsedTime(&t, a, b); return t; }
    std::string name;
};
struct __align__(16) Pair {
    float a, b;
    __device__ Pair(float x) : a(x), b(x + 1) {}
    BOTH float sum() const { return a + b; }
    FN Pair& operator=(const Pair& o) { a = o.a; return *this; }
    FN float operator()(int i) const { return i ? a : b; }
};
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
template <typename T, int K = (4 > 2 ? 3 : 1)>
__global__ void scale(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    std::array<T, 2> v{};
    if (i < n) { Pair p(x[i]); v[0] = p.sum() + p(0); y[i] = std::max(v[0], T(0)) + K; }
}
namespace other { inline namespace v1 {
void helper(std::vector<float>& v) { for (auto& x : v) x = 1; }
template <class F> void timed(F f) { f(); }
} }
template void other::timed<void(*)()>(void(*)());
static void usage(const char* name) {
#ifdef VERBOSE
    printf("usage: %s {\n", name);
#else
    printf("}\n");
#endif
}
extern "C" {
int from_c(int x) { return x; }
__global__ void __launch_bounds__(128) plain(float* y) { y[threadIdx.x] = ceil_div(7, 2); }
}
int main(int argc, char** argv) {
    float *x, *y;
    CHECK(cudaMalloc(&x, N * sizeof(float)));
    scale<float><<<ceil_div(N, 128), 128>>>(x, y, N);
    auto s = R"(raw } " text)";
    char c = '}';
    return 0;
}
'''


def test_a_program_compiles_and_its_lines_stay(tmp_path):
    kept = without_host_code(PROGRAM)
    assert kept.count("\n") == PROGRAM.count("\n")
    for line, (before, after) in enumerate(zip(PROGRAM.splitlines(), kept.splitlines()), 1):
        assert after.strip() in before or after.strip().rstrip(";").strip() in before, line
    for gone in ("main", "helper", "usage:", "timed", "from_c", "host_data", "cublas", "cudaEventCreate", "cudaEventDestroy(a)"):
        assert gone not in kept, gone
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    module = hl.RawModule(path=path, backend="emulator", name_expressions=("scale<float>",))
    assert {"plain", "scale<float>"} <= set(module.kernel_names) and module.name == "program.cu"
    line = PROGRAM[:PROGRAM.index("y[i] = std::max")].count("\n") + 1
    assert re.search(rf"\.loc\s+1 {line} ", module.ptx)


def test_host_code_of_ones_own_headers_goes_too(tmp_path):
    (tmp_path / "steps").mkdir()
    (tmp_path / "steps" / "one.cuh").write_text('#pragma once\n#include "two.cuh"\nnamespace one {\nvoid run(float* x) { kernel<<<1, 1>>>(x); }\n__global__ '
                                                'void kernel(float* x) { x[0] = two(); }\n}\nusing one::run;\n')
    (tmp_path / "steps" / "two.cuh").write_text("#pragma once\ncublasHandle_t handle;\n__device__ float two() { return 2.0f; }\nstatic void host() { "
                                                "std::vector<int> v; }\n")
    (tmp_path / "mine.cu").write_text('#include <cublas_v2.h>\n#include "steps/one.cuh"\nint main() { one::run(nullptr); }\n')
    module, x = hl.RawModule(path=tmp_path / "mine.cu", backend="emulator"), np.zeros(1, np.float32)
    module.get_function(module.kernel_names[0])((1,), (1,), (x,))
    assert x[0] == 2 and re.search(r'\.file\s+\d+ "[^"/]*steps/one.cuh"', module.ptx), "files are named as they are included"
    (tmp_path / "steps" / "two.cuh").write_text("#pragma once\n__device__ float two() { return 3.0f; }\nvoid host() { }\n")
    again = hl.RawModule(path=tmp_path / "mine.cu", backend="emulator")
    again.get_function(again.kernel_names[0])((1,), (1,), (x,))
    assert x[0] == 3, "the cache sees a changed header"


def test_a_macro_of_an_included_header_marks_device_code(tmp_path):
    """Also one that a header of that header defines."""
    (tmp_path / "deep.cuh").write_text("#define DI static __device__ \\\n    __forceinline__\n")
    (tmp_path / "words.cuh").write_text('#include "deep.cuh"\n#define INNER DI\nDI int two() { return 2; }\nint host() { return rand(); }\n')
    (tmp_path / "a.cu").write_text('#include "words.cuh"\nINNER int one() { return 1; }\nextern "C" __global__ void k(int* y) { y[0] = one() + two(); }\n')
    y = np.zeros(1, np.int32)
    hl.RawModule(path=tmp_path / "a.cu", backend="emulator").get_function("k")((1,), (1,), (y,))
    assert y[0] == 3


@pytest.mark.parametrize("text", [
    "__global__ void k(int* a) { a[0] = 1; }", "#define HOST_DEVICE\n__device__ int f() { return 1; }", "CUTE_HOST_DEVICE int f() { return 1; }",
    "struct A { int x; };", "int a = 3;", "enum { A, B };",
    "template <class T> struct S;", "__device__ auto f = [](int x) { return x; };", "using T = int;", "template <> __device__ int g<1>() { return 2; }",
    "// int main() {\n", 'const char* s = "int main() {";',
    "template <class T> struct A : decltype(f((T*)0)) {};", "template <class T> struct B : C<decltype(f(T{}))>, D<(2 > 1)> { int x; __device__ int g() { return x; } };",
    "template <class R, class... T> struct Call<R(T...)> { using type = R; };", "template <class T> struct E<T, enable_if_t<(sizeof(T) > 4)>> : F { };",
    "typedef struct __align__(16) { half2 x, y; } half8;", "typedef struct { int x; } S, *P;", "struct alignas(16) G { int x; };", "struct ALIGN(8) H { int x; };",
    "struct __align__(16) { int x; } i;", "enum class J : int { K, L };", "alignas(16) __device__ int m[2]{1, 2};", "using namespace cooperative_groups;",
    "template <class T> trait has(T*, decltype(sizeof(T)) = 0);", "struct M { template <class T> __device__ M(T x) : a{x}, b(x) { g(); } int a : 3; int b; };",
    "typedef at::BFloat16 bf16;", "#define CHECK(x) do { if (x) { abort(); } } while (0)\n#define FILL(T) template __global__ void fill<T>(T*);\nFILL(int)",
    "namespace n = m;", "extern __shared__ int tile[];", "__constant__ int c[] = {1, 2};", "#if 0\nint main() {\n#endif\n__global__ void k() {}", "int main() { {", ""])
def test_what_has_no_host_function_stays_as_it_is(text):
    assert without_host_code(text) == text


@pytest.mark.parametrize("text, kept", [
    ("int main() { return 0; }\n__global__ void k() {}", "\n__global__ void k() {}"), ("static inline void f(int x) { }", ""),
    ("struct A { void f() { } __device__ void g() {} };", "struct A { void f() ; __device__ void g() {} };"),
    ("namespace py = pybind11;\nint x;", "\nint x;"), ("volatile std::sig_atomic_t stop = 0;\nint x;", "\nint x;"),
    ("#ifdef __CUDACC__\n#define DI __device__\n#else\n#define DI\n#endif\nDI int f() { return 1; } int g() { return 2; }",
     "#ifdef __CUDACC__\n#define DI __device__\n#else\n#define DI\n#endif\nDI int f() { return 1; } "),
    ("std::string s;\nint x;", "\nint x;"), ("__host__ void f() { }", ""), ("__host__ __device__ void f() { }", "__host__ __device__ void f() { }"),
    ("A::A() : x(1), y{2} { z(); }", ""),
    ("template <typename T, typename U = X<T>> void f(T t) { }", ""), ("auto f() -> int { return 1; }", ""), ('#include "helper_cuda.h"\nint x;', "\nint x;"),
    ("bool operator==(A a, A b) { return true; }", ""), ("struct point f(int x) { return {}; }", ""), ("static struct node *f(void) { }", ""),
    ("void f(torch::Tensor x);\nint x;", "\nint x;"), ("torch::Tensor f(torch::Tensor);", ""), ("extern void f(std::vector<int>& v, at::Tensor);", ""),
    ("using torch::Tensor;\nvoid f(Tensor t);\nint x;", "\n\nint x;"), ("using O = torch::TensorOptions;\nO o;\nint x;", "\n\nint x;"), ("using namespace torch;", ""),
    ("using namespace std;\nvoid f(vector<int>& v, string s);", "using namespace std;\n"), ("int format::at(int);", "int format::at(int);"),
    ("#define BINDING(n) void n##_host(torch::Tensor x) { k<<<1, 1>>>(x); }\nBINDING(a)\nBINDING(b);\n__global__ void k() {}",
     "#define BINDING(n) void n##_host(torch::Tensor x) { k<<<1, 1>>>(x); }\n\n\n__global__ void k() {}"),
    ("class Error : public std::exception { std::string m; };\nvoid raise(const Error& e);\nint x;", "\n\nint x;"),
    ("struct A { A(const std::string& s) : m(s) { } std::string m; int x; };", "struct A {   int x; };"),
    ("struct A { friend std::ostream& operator<<(std::ostream& o, A a) { return o; } int x; };", "struct A {  int x; };"),
    ("struct A { __host__ A(int x); __host__ A() noexcept requires(true) { f(); } __host__ __device__ int g() { return 1; } };",
     "struct A {  A(int x);  A() noexcept requires(true) ; __host__ __device__ int g() { return 1; } };"),
    ("template <> struct Name<std::string> { using type = int; }; template <> __device__ int of(const at::Half* x) { return 1; } int x;", "  int x;"),
    ("template <class T, cublasStatus_t (*end)(T*)> struct Deleter { void operator()(T* x) { end(x); } };\nDeleter<int, f> d;\nint x;", "\n\nint x;"),
    ("template <class T> void f(T* x) { g<<<1, 1>>>(x); }\n#define MAKE(T) template void f<T>(T*);\nMAKE(int) MAKE(float)\nint x;",
     "\n#define MAKE(T) template void f<T>(T*);\n \nint x;"),
    ("namespace F = torch::nn;\ntypedef at::Tensor T, *U;\ntemplate <class F, typename T> struct G { F f; T t; };\nvoid f(U t);\nF::Module m;\nint x;",
     "\n\ntemplate <class F, typename T> struct G { F f; T t; };\n\n\nint x;"),
    ("#if A\nusing H = cublasHandle_t;\n#else\nusing H = int;\n#endif\nH h;", "#if A\n\n#else\nusing H = int;\n#endif\nH h;"),
    ("using std::cout; using std::endl;", " "), ("#include <cublas_v2.h>\n__half h;", "#include <cuda_bf16.h>\n__half h;"),
    ("#define HOST __host__ inline\nstruct A { HOST A(int x); };", "#define HOST __host__ inline\nstruct A {  A(int x); };"),
    ("__host__ constexpr int f() { return 1; }", " constexpr int f() { return 1; }"),
    ("int f() {\n// }\n#if A // {\nchar c = '}', d = '\\'', *s = R\"x(})\" })x\"; int e = 1'000;\n#endif\n}\nint x;", "\n\n#if A // {\n\n#endif\n\nint x;")])
def test_host_functions_go(text, kept):
    assert without_host_code(text) == kept


def test_the_courses_own_kernels_and_headers_stay_as_they_are():
    """But for the one that is a whole program (tests/kernels/test_program.py)."""
    for path in sorted(toolchain.KERNELS.rglob("*.cu*")):
        text = toolchain.read_source(path)
        assert (without_host_code(text) == text) == (path.parent.name != "program"), path
