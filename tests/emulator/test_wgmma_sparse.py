# SPDX-License-Identifier: Apache-2.0
"""wgmma.mma_async.sp against dense products in NumPy, A from shared memory and from registers, in every type."""
import numpy as np
import pytest
from emulator.test_mma_sparse import TYPES, compressed, fragment, words
from support.emulated import SCHEDULES, run, told

CASES = [("f16", "f32", 32), ("f16", "f16", 32), ("bf16", "f32", 32), ("tf32", "f32", 16), ("e4m3", "f32", 64), ("s8", "s32", 64), ("u8", "s32", 64)]
TAILS = {"f16": ", 1, 1, 0, 0", "bf16": ", 1, 1, 0, 0", "s8": "", "u8": ""}


def tiles(values, dtype):
    """(rows, k) as the bytes of a K-major operand without swizzle: 16-byte pieces of 8 rows, 128 bytes apart along k."""
    raw = np.ascontiguousarray(values.astype(dtype)).view(np.uint8)
    rows, width = raw.shape
    return np.ascontiguousarray(raw.reshape(rows // 8, 8, width // 16, 16).transpose(0, 2, 1, 3)).reshape(-1)


def source(kind, d_kind, k, selector, registers):
    """One product m64n8kK: D = A B, A with its metadata."""
    count = 2 if d_kind == "f16" else 4
    group = lambda first, n: "{" + ", ".join(f"%{first + i}" for i in range(n)) + "}"
    tail = TAILS.get(kind, ", 1, 1")
    a = group(count, 4) if registers else f"%{count}"
    at = count + (4 if registers else 1)
    if registers and kind in ("f16", "bf16"):
        tail = tail[:-3]
    constraint, c_type = {"f32": ("+f", "float"), "f16": ("+r", "unsigned"), "s32": ("+r", "unsigned")}[d_kind]
    a_in = ", ".join(f'"r"(v[{i}])' for i in range(4)) if registers else '"l"(da)'
    return f"""
extern "C" __global__ void __launch_bounds__(128) k(const unsigned* ar, const uint4* as, const uint4* bs, const unsigned* meta, {c_type}* out) {{
    __shared__ __align__(1024) uint4 a[128];
    __shared__ __align__(1024) uint4 b[32];
    int t = threadIdx.x;
    a[t] = as[t];
    if (t < 32) b[t] = bs[t];
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    auto descriptor = [](const void* p, unsigned long long stride) {{
        unsigned long long at = (unsigned)__cvta_generic_to_shared(p);
        return (at & 0x3FFFF) >> 4 | 128ull >> 4 << 16 | stride >> 4 << 32;
    }};
    unsigned long long da = descriptor(a, 256), db = descriptor(b, 512);
    (void)da;
    {c_type} d[{count}] = {{}};
    unsigned e = meta[t], v[4];
    for (int i = 0; i < 4; i++) v[i] = ar[128 * i + t];
    asm volatile("wgmma.fence.sync.aligned;" : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3]) :: "memory");
    asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, 0, 1;\\n"
                 "wgmma.mma_async.sp.sync.aligned.m64n8k{k}.{d_kind}.{kind}.{kind} {group(0, count)}, {a}, %{at}, %{at + 1}, {selector}, p{tail};\\n}}"
                 : {", ".join(f'"{constraint}"(d[{i}])' for i in range(count))} : {a_in}, "l"(db), "r"(e));
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {count}; i++) out[128 * i + t] = d[i];
}}"""


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("kind, d_kind, k", CASES)
@pytest.mark.parametrize("selector", [0, 1])
@pytest.mark.sampled(every=3)
def test_products(kind, d_kind, k, selector, registers):
    if selector and k == 64:
        return
    rng = np.random.default_rng(100 + k + selector)
    parts = [compressed(rng, kind, k) for _ in range(4)]                # 16 rows per warp
    dense, stored = (np.concatenate([p[i] for p in parts]) for i in range(2))
    meta = np.concatenate([words(kind, k, p[2], selector) for p in parts])
    b = rng.integers(0, 4, (8, k))
    held = np.concatenate([fragment(p[1].astype(TYPES[kind]), TYPES[kind], 2) for p in parts], axis=1)
    for schedule in SCHEDULES:
        out = np.zeros((2 if d_kind == "f16" else 4, 128), {"f32": np.float32}.get(d_kind, np.uint32))
        session = run(source(kind, d_kind, k, selector, registers), (held, tiles(stored, TYPES[kind]), tiles(b, TYPES[kind]), meta, out), block=(128,), schedule=schedule)
        assert not session.hazards, told(session)
        expected, t = dense @ b.T, np.arange(128)
        row, column = 16 * (t // 32) + t % 32 // 4, 2 * (t % 4)
        if d_kind == "f16":
            got = out.view(np.float16).reshape(2, 128, 2)
            assert all((got[j, :, e] == expected[row + 8 * j, column + e]).all() for j in range(2) for e in range(2))
            continue
        got = out if d_kind == "f32" else out.view(np.int32)
        assert all((got[i] == expected[row + 8 * (i >> 1), column + (i & 1)]).all() for i in range(4))
