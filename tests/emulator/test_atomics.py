# SPDX-License-Identifier: Apache-2.0
"""Atomics of every type, vector and space, against NumPy applied lane by lane."""
import hopperlab as hl
import ml_dtypes
import numpy as np
import pytest

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"


def atomic(instruction, kind, registers, values, memory, old_words, space="global", policy=False):
    """Run one PTX atomic by 32 lanes, all on element 0 of `memory`; returns the old values as bytes of the register type."""
    names = [f"%v{k}" for k in range(registers)]
    olds = [f"%o{k}" for k in range(registers)]
    width = {"b16": 2, "b32": 4, "b64": 8}[kind]
    group = lambda n: n[0] if registers == 1 else "{" + ", ".join(n) + "}"
    loads = "\n".join(f"  ld.global.{kind} {n}, [%src+{width * k}];" for k, n in enumerate(names))
    stores = "\n".join(f"  st.global.{kind} [%dst+{width * k}], {n};" for k, n in enumerate(olds)) if old_words else ""
    operands = (group(olds) + ", " if old_words else "") + f"[%mem], {group(names)}" + (", %policy" if policy else "")
    ptx = HEAD + f""".visible .entry k(.param .u64 src, .param .u64 mem, .param .u64 old) {{
  .reg .b64 %src, %mem, %dst, %off, %policy;
  .reg .b32 %t;
  .reg .{kind} %v<8>, %o<8>;
  ld.param.u64 %src, [src]; ld.param.u64 %mem, [mem]; ld.param.u64 %dst, [old];
  mov.u32 %t, %tid.x;
  mul.wide.u32 %off, %t, {width * registers};
  add.u64 %src, %src, %off; add.u64 %dst, %dst, %off;
  createpolicy.fractional.L2::evict_last.b64 %policy, 0f3F800000;
{loads}
  {instruction} {operands};
{stores}
  ret;
}}
"""
    old = np.zeros_like(values)
    hl.RawModule(ptx=ptx, backend="emulator").get_function("k")((1,), (32,), (values, memory, old))
    return old


HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("kind", HALVES)
@pytest.mark.parametrize("op, vector, packed", [("add", 1, False), ("add", 1, True), ("add", 8, False), ("min", 4, False), ("max", 2, True)])
def test_half_precision(kind, op, vector, packed):
    dtype = HALVES[kind]
    count = vector * (2 if packed else 1)
    values = np.random.default_rng(43).normal(size=(32, count)).astype(dtype)
    memory = np.random.default_rng(47).normal(size=max(count, 2)).astype(dtype)
    expected, olds = memory[:count].copy(), []
    combine = {"add": lambda a, b: (a.astype(np.float32) + b.astype(np.float32)).astype(dtype),
               "min": np.minimum, "max": np.maximum}[op]
    for lane in range(32):
        olds.append(expected.copy())
        expected = combine(expected, values[lane]).astype(dtype)
    name = f"atom.global.{op}.noftz." + (f"v{vector}." if vector > 1 else "") + kind + ("x2" if packed else "")
    old = atomic(name, "b32" if packed else "b16", vector, values, memory, True)
    assert (memory[:count].view(np.uint16) == expected.view(np.uint16)).all()
    assert (old.view(np.uint16) == np.array(olds).view(np.uint16)).all()


@pytest.mark.parametrize("vector, policy", [(2, False), (4, True)])
def test_vectors_of_floats(vector, policy):
    values = np.random.default_rng(53).integers(-9, 9, (32, vector)).astype(np.float32)
    memory = np.full(vector, 0.5, np.float32)
    hint = ".L2::cache_hint" if policy else ""
    atomic(f"red.relaxed.gpu.global.add{hint}.v{vector}.f32", "b32", vector, values, memory, False, policy=policy)
    assert (memory == 0.5 + values.sum(axis=0)).all()


def test_subnormals_are_flushed_in_global_and_kept_in_shared_memory():
    source = r"""
    extern "C" __global__ void k(float* g, float* out, float tiny) {
        __shared__ float s;
        s = tiny;
        __syncthreads();
        atomicAdd(&s, tiny);
        __syncthreads();
        out[0] = s;
        out[1] = atomicAdd(&g[0], tiny);
        atomicAdd(&g[1], tiny);
    }"""
    tiny = np.float32(1e-40)
    g, out = np.array([tiny, -1.0], np.float32), np.zeros(2, np.float32)
    hl.RawModule(code=source, backend="emulator").get_function("k")((1,), (1,), (g, out, tiny))
    assert out[0] == 2 * tiny and out[1] == tiny and g[0] == 0 and g[1] == -1


def test_generic_addresses_of_two_spaces():
    source = r"""
    extern "C" __global__ void k(int* g, int* out) {
        __shared__ int s[4];
        if (threadIdx.x < 4) s[threadIdx.x] = 100;
        __syncthreads();
        int* where = threadIdx.x % 2 ? &s[threadIdx.x % 4] : &g[threadIdx.x % 4];
        out[threadIdx.x] = atomicAdd(where, (int)threadIdx.x);
        __syncthreads();
        if (threadIdx.x < 4) out[32 + threadIdx.x] = s[threadIdx.x];
    }"""
    g, out = np.zeros(4, np.int32), np.zeros(36, np.int32)
    hl.RawModule(code=source, backend="emulator").get_function("k")((1,), (32,), (g, out))
    lanes = np.arange(32)
    total = [int(lanes[lanes % 4 == k].sum()) for k in range(4)]
    assert g.tolist() == [total[0], 0, total[2], 0] and out[32:].tolist() == [100, 100 + total[1], 100, 100 + total[3]]
    assert out[:32].tolist() == [100 * (t % 2) + int(lanes[(lanes % 4 == t % 4) & (lanes < t)].sum()) for t in range(32)]


def test_compare_and_swap_of_16_and_128_bits():
    source = r"""
    struct __align__(16) Wide { unsigned long long a, b; };
    extern "C" __global__ void k(unsigned short* h, Wide* w, Wide* old, unsigned short* out) {
        int t = threadIdx.x;
        out[t] = atomicCAS(&h[0], (unsigned short)t, (unsigned short)(t + 1));
        unsigned long long lo, hi;
        asm volatile("{ .reg .b128 c, n, d;\n mov.b128 c, {%2, %3};\n mov.b128 n, {%4, %5};\n"
                     "atom.global.cas.b128 d, [%6], c, n;\n mov.b128 {%0, %1}, d; }"
                     : "=l"(lo), "=l"(hi) : "l"((unsigned long long)t), "l"(t * 10ull), "l"(t + 1ull), "l"(t * 10ull + 10), "l"(&w[0]) : "memory");
        old[t].a = lo; old[t].b = hi;
        asm volatile("{ .reg .b128 v, d;\n mov.b128 v, {%2, %3};\n atom.global.exch.b128 d, [%4], v;\n mov.b128 {%0, %1}, d; }"
                     : "=l"(lo), "=l"(hi) : "l"(t + 7ull), "l"(t + 8ull), "l"(&w[1 + t]) : "memory");
        old[32 + t].a = lo; old[32 + t].b = hi;
    }"""
    h, out = np.zeros(1, np.uint16), np.zeros(32, np.uint16)
    w, old = np.arange(2 * 33, dtype=np.uint64).reshape(33, 2), np.zeros((64, 2), np.uint64)
    w[0] = 0
    before = w[1:].copy()
    hl.RawModule(code=source, backend="emulator").get_function("k")((1,), (32,), (h, w, old, out))
    assert h[0] == 32 and out.tolist() == list(range(32))
    assert w[0].tolist() == [32, 320] and old[:32].tolist() == [[t, 10 * t] for t in range(32)]
    assert (old[32:] == before).all() and w[1:].tolist() == [[t + 7, t + 8] for t in range(32)]


def test_loads_and_stores_of_128_bits_in_every_space():
    source = r"""
    extern "C" __global__ void k(const uint4* in, uint4* out) {
        __shared__ uint4 s[32];
        uint4 mine[2];
        unsigned sp = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
        asm volatile("{ .reg .b128 v;\n ld.global.b128 v, [%0];\n st.shared.b128 [%1], v;\n ld.shared.b128 v, [%1];\n st.b128 [%2], v;\n"
                     "ld.b128 v, [%2];\n st.global.b128 [%3], v; }"
                     :: "l"(in + threadIdx.x), "r"(sp), "l"(&mine[1]), "l"(out + threadIdx.x) : "memory");
    }"""
    data, out = np.random.default_rng(59).integers(0, 1 << 32, (32, 4)).astype(np.uint32), np.zeros((32, 4), np.uint32)
    hl.RawModule(code=source, backend="emulator").get_function("k")((1,), (32,), (data, out))
    assert (out == data).all()


@pytest.mark.parametrize("instruction, kind", [("atom.global.add.b32", "b32"), ("atom.global.min.f32", "b32"), ("atom.global.inc.u64", "b64"),
                                               ("atom.global.and.f32", "b32"), ("atom.global.exch.b16", "b16")])
def test_what_does_not_exist_is_refused(instruction, kind):
    from hopperlab import emulator
    with pytest.raises(emulator.UnsupportedInstruction):
        atomic(instruction, kind, 1, np.zeros(32, np.uint64), np.zeros(4, np.uint64), True)
