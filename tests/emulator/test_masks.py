# SPDX-License-Identifier: Apache-2.0
"""Member masks: exactly the named lanes meet, each mask's lanes among themselves, and memory is ordered among them."""
import numpy as np
import pytest
from support.emulated import SCHEDULES, kinds, lines_with, run, told


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_tiles_of_a_warp_run_one_instruction_with_different_masks(size):
    source = r"""
    extern "C" __global__ void k(const int* in, int* out) {
        int t = threadIdx.x, x = in[t];
        unsigned mask = ((1u << SIZE) - 1) << (t / SIZE * SIZE);
        out[t] = __any_sync(mask, x == 3);
        out[32 + t] = __all_sync(mask, x < 6);
        out[64 + t] = __reduce_add_sync(mask, x);
        out[96 + t] = __reduce_max_sync(mask, x);
        out[128 + t] = __ballot_sync(mask, x & 1);
        out[160 + t] = __match_any_sync(mask, x & 1);
        out[192 + t] = __shfl_down_sync(mask, x, 1, SIZE);
        int leader;
        asm volatile("{ .reg .pred p; elect.sync %0|p, %1; }" : "=r"(leader) : "r"(mask));
        out[224 + t] = leader;
    }"""
    x = np.random.default_rng(size).integers(0, 8, 32).astype(np.int32)
    out = np.zeros((8, 32), np.int32)
    session = run(source, (x, out), options=(f"-DSIZE={size}",))
    assert not session.hazards, told(session)
    tiles = x.reshape(-1, size)
    spread = lambda values: np.repeat(values, size)
    assert (out[0] == spread((tiles == 3).any(1))).all() and (out[1] == spread((tiles < 6).all(1))).all()
    assert (out[2] == spread(tiles.sum(1))).all() and (out[3] == spread(tiles.max(1))).all()
    first = np.arange(0, 32, size)
    odd = np.array([sum(1 << int(f + i) for i in range(size) if x[f + i] & 1) for f in first])
    every = np.array([sum(1 << int(f + i) for i in range(size)) for f in first])
    assert (out[4].view(np.uint32) == spread(odd)).all()
    assert (out[5].view(np.uint32) == np.where(x & 1, spread(odd), spread(every ^ odd))).all()
    assert (out[6] == np.concatenate([np.append(tile[1:], tile[-1]) for tile in tiles])).all()
    assert (out[7] == spread(first)).all()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lanes_outside_the_mask_go_on_to_the_next_round(schedule):
    """Half the lanes stand at a shuffle inside the loop, the others at the ballot of the next round: each waits for its own."""
    source = r"""
    extern "C" __global__ void k(int* out) {
        int t = threadIdx.x, sum = 0;
        for (int i = 0; i < 5; i++) {
            unsigned m = __ballot_sync(~0u, (t + i) % 3 == 0);
            if ((t + i) % 3 == 0) sum += __shfl_sync(m, t * 10 + i, __ffs(m) - 1) + __popc(m);
            sum ^= __shfl_xor_sync(~0u, sum, 1);
        }
        out[t] = sum;
    }"""
    out = np.zeros(32, np.int32)
    session = run(source, (out,), schedule=schedule)
    sums = np.zeros(32, np.int64)
    for i in range(5):
        inside = (np.arange(32) + i) % 3 == 0
        sums[inside] += int(np.flatnonzero(inside)[0]) * 10 + i + inside.sum()
        sums = sums ^ sums[np.arange(32) ^ 1]
    assert out.tolist() == sums.tolist() and not session.hazards, told(session)


def test_masked_lanes_do_not_wait_for_a_spinning_lane():
    """Lanes 1 to 31 meet by themselves and then release lane 0, which spins until they do."""
    source = r"""
    extern "C" __global__ void k(volatile int* flag, int* out) {
        int t = threadIdx.x;
        if (t == 0) { while (*flag == 0) {} out[0] = 7; }
        else {
            int sum = __reduce_add_sync(0xfffffffe, t);
            out[t] = sum;
            __threadfence();
            if (t == 5) *flag = 1;
        }
    }"""
    flag, out = np.zeros(1, np.int32), np.zeros(32, np.int32)
    run(source, (flag, out))
    assert out[0] == 7 and (out[1:] == 496).all()


def test_a_mask_may_name_lanes_that_have_ended():
    source = r"""
    extern "C" __global__ void k(int* out) {
        int t = threadIdx.x;
        if (t >= 20) return;
        if (t % 2) out[t] = __reduce_add_sync(0xaaaaaaaa, t);       // names 21, 23 …, which are gone
    }"""
    out = np.zeros(32, np.int32)
    run(source, (out,))
    assert (out[1:20:2] == 100).all() and out[::2].sum() == 0


SYNC = r"""
extern "C" __global__ void k(const int* in, int* out) {
    __shared__ int s[32];
    int t = threadIdx.x;
    if (t < 16) {
        s[t] = in[t];
        if (SYNCS) __syncwarp(0xffff);
        out[t] = s[15 - t];
    } else {
        s[t] = in[t] + 1;
        if (SYNCS) __syncwarp(0xffff0000);
        out[t] = s[47 - t];
    }
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("syncs", [0, 1])
def test_syncwarp_of_half_a_warp_orders_memory(syncs, schedule):
    x, out = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    session = run(SYNC, (x, out), schedule=schedule, options=(f"-DSYNCS={syncs}",))
    assert kinds(session) == ([] if syncs else ["race"]), told(session)
    if syncs:
        assert out.tolist() == [15 - t for t in range(16)] + [48 - t for t in range(16, 32)]


def test_a_mask_that_misses_its_caller_or_names_who_never_comes():
    source = r"""
    extern "C" __global__ void k(int* out) {
        int t = threadIdx.x;
        if (CASE == 0 && t < 16) out[t] = __shfl_sync(0xff, t, 0);          // lanes 8 to 15 are not in it
        if (CASE == 1) { if (t < 16) out[t] = __shfl_sync(~0u, t, 0); else out[t] = __ballot_sync(~0u, t & 1); }
    }"""
    for case in (0, 1):
        session = run(source, (np.zeros(32, np.int32),), options=(f"-DCASE={case}",))
        assert kinds(session) == ["divergent-collective"], told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_cooperative_groups(schedule):
    source = r"""
    #include <cooperative_groups.h>
    namespace cg = cooperative_groups;
    extern "C" __global__ void k(const int* in, int* out) {
        __shared__ int s[64];
        cg::thread_block block = cg::this_thread_block();
        auto tile = cg::tiled_partition<8>(block);
        int t = block.thread_rank(), x = in[t];
        for (int d = 4; d; d /= 2) x += tile.shfl_xor(x, d);
        s[t] = x + tile.any(in[t] == 9);
        block.sync();
        int y = s[63 - t];
        if (in[t] % 2) {
            auto active = cg::coalesced_threads();
            y += 1000 * active.size() + 100000 * (active.thread_rank() == 0);
        }
        tile.sync();
        out[t] = y;
    }"""
    x = np.random.default_rng(4).integers(0, 10, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    session = run(source, (x, out), block=(64,), schedule=schedule)
    assert not session.hazards, told(session)
    tiles = x.reshape(8, 8)
    s = np.repeat(tiles.sum(1) + (tiles == 9).any(1), 8)
    y = s[::-1].copy()
    odd = x % 2 == 1
    for w in (slice(0, 32), slice(32, 64)):
        first = int(np.flatnonzero(odd[w])[0])
        y[w][odd[w]] += 1000 * odd[w].sum()
        y[w][first] += 100000
    assert out.tolist() == y.tolist()


# --- bar.warp.sync meets others of its mask at other instructions ------------------------------------------------------------
ARMS = r"""
extern "C" __global__ void k(const int* in, int* out) {
    __shared__ int s[256], flag;
    int t = threadIdx.x, lane = t % 32;
    if (t == 0) *(volatile int*)&flag = 0;
    __syncthreads();
    BODY
}"""
MEET = {
    "after_an_early_return": "if (lane >= 20) return; if (lane < 10) { s[t] = in[t]; __syncwarp(); out[t] = 1; } else { __syncwarp(); out[t] = s[t - 10]; }",
    "mask_names_lanes_that_ended": "if (lane >= 20) return; if (lane < 10) { s[t] = in[t]; __syncwarp(0xffffff); out[t] = 1; } else { __syncwarp(0xffffff); "
                                   "out[t] = s[t - 10]; }",
    "in_registers": "unsigned m = lane < 24 ? 0xffffff : 0xff000000; if (in[0] == 777) m = 0;"
                    "if (lane < 8) { s[t] = in[t]; __syncwarp(m); out[t] = s[t + 8]; } else if (lane < 16) { s[t] = in[t]; __syncwarp(m); out[t] = s[t - 8]; }"
                    "else if (lane < 24) { __syncwarp(m); out[t] = s[t - 16]; } else { s[t] = 2; __syncwarp(m); out[t] = s[t ^ 1]; }",
    "one_side_waits_for_a_flag": "if (t >= 32) { if (t == 40) { __threadfence_block(); *(volatile int*)&flag = 1; } return; }"
                                 "if (lane < 16) { s[t] = in[t]; __syncwarp(); out[t] = 1; } else { if (lane == 16) while (!*(volatile int*)&flag); "
                                 "__syncwarp(); out[t] = s[t - 16]; }",
    "one_side_ends_after_two_rounds": "for (int i = 0; i < 3; i++) if (lane < 16) { s[t] = in[t] + i; __syncwarp(); __syncwarp(); }"
                                      "else { if (i == 2) return; __syncwarp(); out[t] = s[t - 16]; __syncwarp(); }",
    "a_ring_in_both": "for (int i = 0; i < 3; i++) if (lane < 16) { s[t] = in[t] + i; __syncwarp(); __syncwarp(); } else { __syncwarp(); out[t] = s[t - 16]; "
                      "__syncwarp(); }",
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", MEET)
def test_syncwarp_meets_at_two_instructions(name, schedule):
    x, out = np.arange(256, dtype=np.int32), np.zeros(256, np.int32)
    session = run(ARMS.replace("BODY", MEET[name]), (x, out), block=(256,) if name == "a_ring_in_both" else (64,), schedule=schedule)
    assert not session.hazards and not session.warnings, told(session)
    want = {"in_registers": [*range(8, 16), *range(8), *range(8), *[2] * 8], "one_side_ends_after_two_rounds": [0] * 16 + [i + 1 for i in range(16)],
            "a_ring_in_both": [0] * 16 + [i + 2 for i in range(16)], "one_side_waits_for_a_flag": [1] * 16 + [*range(16)]}
    assert out[:32].tolist() == want.get(name, [1] * 10 + [*range(10)] + [0] * 12)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_syncwarp_at_two_instructions_orders_what_lies_before_and_behind_and_no_more(schedule):
    """The consumer reads before the meeting; the producer writes again behind it; the consumer has a sync less than the producer."""
    for body in ("if (lane < 16) { s[t] = in[t]; __syncwarp(); } else { out[t] = s[t - 16]; __syncwarp(); }",
                 "if (lane < 16) { s[t] = in[t]; __syncwarp(); s[t] = 5; } else { __syncwarp(); out[t] = s[t - 16]; }",
                 "for (int i = 0; i < 2; i++) if (lane < 16) { s[t] = in[t] + i; __syncwarp(); out[t] = i; __syncwarp(); } else { __syncwarp(); out[t] = s[t - 16]; }"):
        session = run(ARMS.replace("BODY", body), (np.arange(64, dtype=np.int32), np.zeros(64, np.int32)), block=(64,), schedule=schedule)
        assert kinds(session) == ["race"], told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lanes_that_are_named_and_go_by_or_sync_with_another_mask(schedule):
    """Others wait for them at two instructions."""
    by = ("if (lane < 16) { s[t] = in[t]; if (t == 0) *(volatile int*)&flag = 1; __syncwarp(); out[t] = 1; } else if (lane < 24) { __syncwarp(); out[t] = s[t "
          "- 16]; } else { while (!*(volatile int*)&flag); out[t] = 2; }")
    for body in ("if (t < 32) {" + by + "}",
                 "if (lane < 16) { s[t] = in[t]; __syncwarp(); out[t] = 1; } else { __syncwarp(0xffffff00); out[t] = s[t - 8]; }"):
        session = run(ARMS.replace("BODY", body), (np.arange(64, dtype=np.int32), np.zeros(64, np.int32)), block=(64,), schedule=schedule)
        assert "divergent-collective" in kinds(session), told(session)


# --- shuffles, votes, matches and reductions meet others of their mask and qualifiers at other instructions --------------------
VALUES = {
    "shfl_xor": ("v * 2", "v + 100", "__shfl_xor_sync(M, {}, 16)"), "shfl_idx": ("v", "v ^ 1", "__shfl_sync(M, {}, lane ^ 24)"),
    "shfl_down": ("v", "v * v", "__shfl_down_sync(M, {}, 5)"), "ballot": ("v & 1", "v & 2", "(int)__ballot_sync(M, {})"),
    "any": ("v == 5", "v == 99", "__any_sync(M, {})"), "all": ("v < 16", "v >= 16", "__all_sync(M, {})"), "uni": ("v < 16", "v >= 16", "__uni_sync(M, {})"),
    "match_any": ("v & 3", "v >> 2 & 3", "(int)__match_any_sync(M, {})"), "match_any_64": ("(long long)(v & 3) << 33", "(long long)(v >> 2 & 3) << 33",
            "(int)__match_any_sync(M, {})"),
    "reduce_add": ("v", "-v * 3", "__reduce_add_sync(M, {})"), "reduce_min": ("v - 40", "-v", "__reduce_min_sync(M, {})"),
    "constant": ("-1", "v", "__reduce_min_sync(M, {})"),
}
TOGETHER = "int r = lane < FIRST ? {0} : {1}; r = {2}; out[t] = lane < FIRST ? r * 3 : r - 1;"
APART = "int r; if (lane < FIRST) {{ r = {0} * 3; in2[0] = 1; }} else {{ r = {1} - 1; in2[1] = 2; }} out[t] = r;"
SHELL = r"""
extern "C" __global__ void k(const int* in, int* out, volatile int* in2) {
    int t = threadIdx.x, lane = t % 32, v = in[lane];
    BODY
}"""


def of_values(name, apart, mask, first, schedule):
    one, other, form = VALUES[name]
    wide = "long long" if "64" in name else "int"
    body = (APART.format(form.format(one), form.format(other)) if apart
            else TOGETHER.format(one, other, form.format("w")).replace("int r =", f"{wide} w =").replace("; r =", "; int r ="))
    out = np.zeros(96, np.int32)
    session = run(SHELL.replace("BODY", body.replace("FIRST", str(first)).replace("M,", f"{mask:#x},")),
                  (np.arange(32, dtype=np.int32), out, np.zeros(2, np.int32)), block=(96,), schedule=schedule)
    assert not session.hazards, told(session)
    return out.tolist()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("first", [1, 8, 16])
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.sampled(every=7)
def test_values_cross_between_both_branches(name, first, schedule):
    """As if all of the warp ran one instruction, each lane with its own operands."""
    assert of_values(name, True, 0xFFFFFFFF, first, schedule) == of_values(name, False, 0xFFFFFFFF, first, schedule)


CROSSING = {
    "mask in a register": ("unsigned m = lane < 24 ? 0xffffff : 0xff000000; if (in[0] == 777) m = 0;"
                           "int r; if (lane < 8) { r = __shfl_xor_sync(m, v, 8) + 1; in2[0] = 1; } else if (lane < 24) { r = __shfl_xor_sync(m, v * 10, 8); in2[1] = 1; }"
                           "else { r = __shfl_xor_sync(m, v, 4) * 2; in2[0] = 3; } if (lane < 24 || lane >= 24) out[t] = r;",
                           [*(10 * v + 1 for v in range(8, 16)), *range(8), *(10 * v for v in range(24, 32))][:16]),
    "three rounds": ("int r = v; for (int i = 0; i < 3; i++) if (lane < 16) { r = __shfl_xor_sync(~0u, r + 1, 16); in2[0] = i; } else { r = "
                     "__shfl_xor_sync(~0u, r * 2, 16); in2[1] = i; } out[t] = r;",
                     None),
    "the others have ended": ("if (lane >= 20) return; if (lane < 10) { out[t] = __shfl_sync(~0u, v, lane + 10); in2[0] = 1; } else { out[t] = "
                              "__shfl_sync(~0u, v, lane - 10) + 5; in2[1] = 1; }",
                              [*range(10, 20), *range(5, 15)]),
    "a predicate on one side": ("int r; if (lane < 16) { asm volatile(\"{ .reg .pred p; .reg .b32 s; shfl.sync.down.b32 s|p, %1, 16, 31, -1; "
                                "selp.b32 %0, s, 1000, p; }\" : \"=r\"(r) : \"r\"(v)); in2[0] = 1; }"
                                "else { asm volatile(\"shfl.sync.down.b32 %0, %1, 16, 31, -1;\" : \"=r\"(r) : \"r\"(v)); in2[1] = 1; } out[t] = r;",
                                [*range(16, 32), *range(16, 32)]),
    "a float": ("float f = v * 0.5f, g; if (lane < 16) { g = __shfl_xor_sync(~0u, f, 16); in2[0] = 1; } else { g = __shfl_xor_sync(~0u, f + 1, 16); in2[1] = "
                "1; } out[t] = (int)(g * 2);",
                [*(v + 2 for v in range(16, 32)), *range(16)]),
}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CROSSING)
def test_shuffles_that_meet_at_two_instructions(name, schedule):
    body, want = CROSSING[name]
    if want is None:
        r = list(range(32))
        for _ in range(3):
            r = [2 * r[lane + 16] for lane in range(16)] + [r[lane - 16] + 1 for lane in range(16, 32)]
        want = r
    out = np.zeros(32, np.int32)
    session = run(SHELL.replace("BODY", body), (np.arange(32, dtype=np.int32), out, np.zeros(2, np.int32)), schedule=schedule)
    assert not session.hazards, told(session)
    assert out[:len(want)].tolist() == want


def test_a_shuffle_in_both_branches_orders_memory():
    body = ("__shared__ int s[32]; int r; if (lane < 16) { s[t] = v; r = __shfl_xor_sync(~0u, v, 16); SYNC } else { r = __shfl_xor_sync(~0u, v + 1, 16); r += "
            "s[t - 16]; } out[t] = r;")
    for after, found in (("", []), ("s[t] = r;", ["race"])):
        session = run(SHELL.replace("BODY", body.replace("SYNC", after)), (np.arange(32, dtype=np.int32), np.zeros(32, np.int32), np.zeros(2, np.int32)))
        assert kinds(session) == found, told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("other", ["__shfl_up_sync(~0u, v, 1)", "__shfl_xor_sync(0xffff0001, v, 16)", "__shfl_xor_sync(0xffff0000, v, 16)",
                                   "(int)__ballot_sync(~0u, v)", "v"])
def test_another_mask_or_other_qualifiers_do_not_meet(other, schedule):
    body = f"int r; if (lane < 16) {{ r = __shfl_xor_sync(~0u, v, 16); in2[0] = 1; }} else {{ r = {other}; in2[1] = 1; }} __syncthreads(); out[t] = r;"
    session = run(SHELL.replace("BODY", body), (np.arange(32, dtype=np.int32), np.zeros(32, np.int32), np.zeros(2, np.int32)), schedule=schedule)
    assert "divergent-collective" in kinds(session), told(session)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.thorough
def test_a_flag_that_one_lane_polls_and_hands_on_in_each_branch(schedule):
    """The loop looks at memory again and again, by a shuffle in either branch; without the flag it is named."""
    body = ("if (t < 32) { int seen; do { if (lane < 16) seen = __shfl_sync(~0u, lane == 0 ? in2[0] : 0, 0); "
            "else { seen = __shfl_sync(~0u, 0, 0); asm volatile(\"\"); } } while (!seen); out[t] = seen; }"
            "else if (t == 40 && in[0] == SET) in2[0] = 7;")
    for value, found in ((0, []), (1, ["deadlock"])):
        out = np.zeros(64, np.int32)
        session = run(SHELL.replace("BODY", body.replace("SET", str(value))), (np.arange(32, dtype=np.int32), out, np.zeros(2, np.int32)), block=(64,), schedule=schedule)
        assert kinds(session) == found, told(session)
        assert found or out[:32].tolist() == [7] * 32


@pytest.mark.thorough
def test_a_polling_loop_whose_shuffles_do_not_meet_is_named_and_ends():
    body = ("int seen; do { if (lane < 16) seen = __shfl_sync(~0u, lane == 0 ? in2[0] : 0, 0); else { seen = __shfl_up_sync(~0u, 0, 0); asm volatile(\"\"); } "
            "} while (!seen); out[t] = seen;")
    session = run(SHELL.replace("BODY", body), (np.arange(32, dtype=np.int32), np.zeros(32, np.int32), np.zeros(2, np.int32)))
    assert {"deadlock", "divergent-collective"} <= set(kinds(session)), told(session)


BEHIND = """extern "C" __global__ void k(const int* in, int* out) {
    unsigned l = threadIdx.x, s = in[l];
    if (l < unsigned(in[40])) {
        s += in[l];
        s = OP(0xffffffffu, s);         // in the branch
    }
    s = OP(0xffffffffu, s);             // behind it
    out[l] = s;
}"""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("op", ["__reduce_add_sync", "__any_sync", "__match_any_sync", "SHUFFLE"])
def test_one_in_a_branch_does_not_meet_one_behind_the_branch(op, schedule):
    """Who runs it comes to the one behind later, and would be alone there."""
    values = np.arange(64, dtype=np.int32)
    source = "#define SHUFFLE(m, s) __shfl_xor_sync(m, s, 1)\n" + BEHIND
    for lanes in (0, 16, 31, 32):
        values[40] = lanes
        session = run(source, (values, np.zeros(32, np.int32)), options=(f"-DOP={op}",), schedule=schedule)
        cases = [h.case for h in session.hazards]
        assert (not cases) == (lanes in (0, 32)) and all(h.kind == "divergent-collective" for h in session.hazards), told(session)
        assert all({h.where.line, h.other.line if h.other else 0} & (lines_with("in the branch", source=source) | lines_with("behind it", source=source))
                   for h in session.hazards), told(session)
