# SPDX-License-Identifier: Apache-2.0
"""Whatever NVRTC makes parses: language features, asynchronous instructions, and every kernel of the package.

Nothing here depends on the exact PTX text, which changes with the compiler.
"""

from pathlib import Path

import pytest

import hopperlab
from hopperlab.emulator.ptx import cfg
from hopperlab.emulator.ptx.ir import Relocation, Sym
from hopperlab.emulator.ptx.parser import parse
from hopperlab.runtime.compile import shims

ROOT = Path(hopperlab.__file__).parent / "kernels"
KERNELS = sorted(ROOT.rglob("*.cu"))

LANGUAGE = r"""
#include <cooperative_groups.h>
#include <cuda_fp8.h>
#include <cuda_bf16.h>
namespace lab {
template <int N> __device__ __forceinline__ float inner(float x) {
  return x * x +
         N;
}
struct Box { float v;
  __device__ __forceinline__ float mid(float y) const {
    return inner<3>(y) + v;
  } };
}
__device__ __noinline__ float kept(float x, int n) { for (int i = 0; i < n; i++) x = x * x + 1; return x; }
__device__ int table[4] = {1, 2, 3, 4};
__device__ int *pointers[2] = {table, table + 2};
__constant__ float constants[3] = {1.f, 2.f, 3.f};
__device__ float f1(float x) { return x + 3; }
__device__ float f2(float x) { return x * 3; }
__device__ float (*functions[2])(float) = {f1, f2};
extern "C" __global__ void k(float *p, int n) {
  __shared__ float s[32]; __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  s[threadIdx.x % 32] = p[threadIdx.x];
  __syncthreads();
  lab::Box box{s[0]};
  float x = box.mid(s[31 - threadIdx.x % 32]);
  x = kept(x, n) + constants[n % 3] + *pointers[n & 1] + functions[n & 1](x);
  switch (n) {
    case 0: x += 1; break; case 1: x *= 7; p[3] = x; break; case 2: x /= 3; break; case 3: x = sinf(x); break;
    case 4: x = x - 2; p[7] = 1; break; case 5: x = expf(x); break; case 6: x = sqrtf(x); break; case 7: p[1] = 2; }
  char buffer[64];
  for (int i = 0; i < 64; i++) buffer[i] = p[i];
  x += buffer[n % 64];
  printf("%d %f\n", n, x);
  atomicAdd(&count, 1);
  p[n] = x;
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1) k2(double *p, unsigned long long n) {
  auto cluster = cooperative_groups::this_cluster(); cluster.sync();
  auto warp = cooperative_groups::tiled_partition<32>(cooperative_groups::this_thread_block());
  int v = warp.shfl_down(int(threadIdx.x), 1); v = __reduce_add_sync(~0u, v); v += __match_any_sync(~0u, v);
  p[n] = v / p[n + 1]; __nv_fp8_e4m3 q(p[3]); p[4] = float(q); p[6] = n % 7;
  __int128 wide = (__int128)n * n + v; p[5] = (double)(long long)(wide >> 64);
}
"""

ASM = r"""
__device__ __forceinline__ void wait(unsigned bar, unsigned parity) {
  asm volatile("{\n.reg .pred P;\nW:\nmbarrier.try_wait.parity.shared::cta.b64 P,[%0],%1;\n@P bra D;\nbra W;\nD:\n}\n"
               :: "r"(bar), "r"(parity) : "memory");
}
struct __align__(64) Map { unsigned long long v[16]; };
extern "C" __global__ void k(const __grid_constant__ Map map, float *out, int n) {
  extern __shared__ __align__(1024) unsigned char smem[];
  unsigned bar = (unsigned)__cvta_generic_to_shared(smem);
  unsigned leader = 0;
  asm volatile("{ .reg .pred %%px; .reg .b32 %%rx; elect.sync %%rx|%%px, %1; @%%px mov.s32 %0, 1; }" : "+r"(leader) : "r"(~0u));
  if (leader) asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1,{%2,%3}],[%4];"
      :: "r"(bar + 1024), "l"(&map), "r"(0), "r"(n), "r"(bar) : "memory");
  float d[4] = {};
  for (int i = 0; i < n; i++) {
    wait(bar, i & 1);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p,%6,0;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                 "{%0,%1,%2,%3},%4,%5,p,1,1,0,0;\n}" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(1ull), "l"(2ull), "r"(i));
    asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  for (int i = 0; i < 4; i++) out[threadIdx.x * 4 + i] = d[i];
}
"""


@pytest.fixture(scope="module")
def language(compile_ptx):
    return parse(compile_ptx(LANGUAGE, "--device-int128"))


@pytest.fixture(scope="module")
def asm(compile_ptx):
    return parse(compile_ptx(ASM))


def line_of(source, text):
    return source.splitlines().index(next(s for s in source.splitlines() if text in s)) + 1


def test_language_features(language):
    assert set(language.kernels) == {"k", "k2"} and language.target == "sm_90a"
    assert {"_Z4keptfi", "_Z2f1f", "vprintf"} <= language.functions.keys()
    assert language.functions["k2"].directives["reqnctapercluster"] == (2, 1, 1)
    assert language.functions["k2"].directives["maxntid"] == (384, 1, 1)
    assert {v.size for v in language.functions["k"].variables if v.space == "shared"} == {128, 4}


def test_initialised_variables(language):
    variables = language.variables
    assert variables["table"].init == bytes([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0])
    assert variables["constants"].space == "const" and variables["constants"].init.endswith(bytes([0, 0, 64, 64]))
    assert [(p.symbol, p.addend) for p in variables["pointers"].init] == [("table", 0), ("table", 8)]
    assert all(isinstance(p, Relocation) and p.symbol in language.functions for p in variables["functions"].init)


def test_source_lines_of_inlined_code(language):
    chains = {
        tuple((s.line, s.function) for s in i.site.chain) for i in language.functions["k"].body if i.site is not None
    }
    expected = (
        (line_of(LANGUAGE, "box.mid("), "k"),
        (line_of(LANGUAGE, "return inner<3>"), "lab::Box::mid"),
    )
    assert any(chain[:2] == expected and chain[2:] and chain[2][1] == "lab::inner" for chain in chains)


def test_asynchronous_instructions(asm):
    body = asm.functions["k"].body
    waits = [i for i in body if i.op == "mbarrier"]
    assert waits and len({i.dsts()[0].name for i in waits}) == len(waits)
    assert {i.site.outermost.line for i in waits} == {line_of(ASM, "wait(bar, i & 1)")}
    assert {i.site.function for i in waits} == {"wait"}
    product = next(i for i in body if i.opcode.startswith("wgmma.mma_async"))
    assert set(product.dsts()) < set(product.srcs()) and len(product.dsts()) == 4
    assert any(i.op == "mov" and i.operands[1] == Sym("k_param_0") for i in body)
    assert asm.variables["smem"].count is None and asm.variables["smem"].align == 1024
    assert asm.functions["k"].params[0].size == 128


def test_same_instructions_without_line_information(compile_ptx, asm):
    bare = parse(compile_ptx(ASM, lineinfo=False))
    assert [i.opcode for i in bare.functions["k"].body] == [i.opcode for i in asm.functions["k"].body]
    assert all(i.site is None for i in bare.functions["k"].body)


@pytest.mark.parametrize("name", ["language", "asm"])
def test_nothing_is_read_before_it_is_written(request, name):
    for function in request.getfixturevalue(name).functions.values():
        if function.defined:
            assert cfg.build(function).blocks[0].live_in == frozenset()


@pytest.mark.parametrize("path", KERNELS, ids=[str(p.relative_to(ROOT)) for p in KERNELS])
@pytest.mark.sampled(every=16)
def test_kernels_of_the_package(compile_ptx, path):
    text = path.read_text()
    headers = shims.HEADERS if shims.wanted([text]) else None           # of the host, in the one file that is a whole program
    parsed = parse(compile_ptx(text, f"-I{ROOT / 'include'}", f"-I{path.parent}", headers=headers))
    assert parsed.kernels
    for function in parsed.kernels.values():
        graph = cfg.build(function)
        assert graph.blocks[0].start == 0 and all(i.site is not None for i in function.body)
        assert {i.site.outermost.function for i in function.body} == {function.name}
