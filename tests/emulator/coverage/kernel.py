# SPDX-License-Identifier: Apache-2.0
"""The kernel around the forms of forms.py: a thread's places in memory, a barrier, tensor maps and inputs for every register kind."""
import re

TEXT = """.version 9.0
.target {target}
.address_size 64
.global .align 16 .b32 variable[64] = {{1, 2, 3, 4}};
.const .align 16 .b32 constants[64] = {{5, 6, 7, 8}};
"""

ENTRY = """.visible .entry {name}(.param .u64 out, .param .align 64 .b8 m1[128], .param .align 64 .b8 m2[128], .param .align 64 .b8 m3[128],
  .param .align 64 .b8 m4[128], .param .align 64 .b8 m5[128], .param .align 64 .b8 n3[128], .param .align 64 .b8 n4[128],
  .param .align 64 .b8 n5[128])
{{
.reg .b8 %b<16>; .reg .b16 %h<32>, %one; .reg .b32 %r<180>, %sa, %ma, %mb, %full, %meta, %half, %c0; .reg .b64 %d<40>, %desc;
.reg .b64 %ga, %gm, %wm, %sd, %sg, %mg, %mag, %la, %ca, %tm, %t<6>, %i<6>; .reg .b128 %q<6>; .reg .pred %p<32>;
.shared .align 1024 .b8 room[32768]; .shared .align 16 .b8 variable_in_shared[256]; .shared .align 64 .b8 barrier[128]; .local .align 16 .b8 own[64];
{setup}
{body}
ret;
}}
"""

SETUP = """mov.b32 %r0, %tid.x; mov.b64 %sd, room; cvt.u32.u64 %ma, %sd; shl.b32 %r1, %r0, 6; add.u32 %sa, %ma, %r1; cvt.u64.u32 %sd, %sa; cvta.shared.u64 %sg, %sd;
mov.u32 %mb, barrier; cvt.u64.u32 %mg, %mb; cvta.shared.u64 %mg, %mg; cvt.u64.u32 %mag, %ma; cvta.shared.u64 %mag, %mag; mov.u64 %la, own; mov.u64 %ca, constants;
ld.param.u64 %gm, [out]; mul.wide.u32 %ga, %r0, 256; add.u64 %ga, %gm, %ga; add.u64 %gm, %gm, 32768; add.u64 %wm, %gm, 16384;
mov.b64 %t1, m1; mov.b64 %t2, m2; mov.b64 %t3, m3; mov.b64 %t4, m4; mov.b64 %t5, m5; mov.b64 %i3, n3; mov.b64 %i4, n4; mov.b64 %i5, n5;
cvta.param.u64 %t1, %t1; cvta.param.u64 %t2, %t2; cvta.param.u64 %t3, %t3; cvta.param.u64 %t4, %t4; cvta.param.u64 %t5, %t5;
cvta.param.u64 %i3, %i3; cvta.param.u64 %i4, %i4; cvta.param.u64 %i5, %i5; mov.b64 %tm, %t2;
mov.b32 %full, 0xffffffff; mov.b32 %meta, 0x44444444; mov.b32 %half, 0x3f000000; mov.b32 %c0, 0; mov.b16 %one, 1; shr.u32 %r1, %ma, 4; and.b32 %r1, %r1, 0x3fff; cvt.u64.u32 %desc, %r1;
setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared.b64 [%mb], 500000; bar.sync 0;
"""


def inputs() -> str:
    """Registers from 8 on, in numbers that every use allows: %r11 is a barrier, %r15 a size, %r13 a stride."""
    small = {8: 3, 9: 5, 10: 4, 11: 0, 12: 16, 13: 64, 14: 1, 15: 64}
    lines = [f"mov.b32 %r{k}, {small.get(k, 3 * k)};" for k in (*range(8, 40), *range(140, 144))]
    lines += [f"mov.b64 %d{k}, {small[k]};" if k < 16 else f"mov.b64 %d{k}, 0d40{k}000000000000;" for k in range(8, 40)] + ["mov.b64 %d11, 64;",
            "mov.b64 %d12, 0;", "mov.b64 %d13, %gm;"]
    lines += [f"mov.b16 %h{k}, {k - 8};" for k in range(8, 32)] + [f"setp.ne.u32 %p{k}, %r0, 999;" for k in range(8, 32)]
    lines += ["cvt.u8.u32 %b8, %r8;", "mov.b128 %q2, {%d8, %d9};", "mov.b128 %q3, {%d10, %d11};"]
    return "\n".join(lines)


def expanded(form: str) -> str:
    """A form with the registers of '{%r0..%r7}' written out."""
    def names(match: re.Match) -> str:
        return "{" + ", ".join(f"%{match[1]}{k}" for k in range(int(match[2]), int(match[3]) + 1)) + "}"
    return re.sub(r"\{%([a-z])(\d+)\.\.%[a-z](\d+)\}", names, form)


def text(groups: dict[str, list[str]], target: str = "sm_90a", bare: bool = False) -> tuple[str, list[int]]:
    """PTX with a kernel for every list of forms, and the line at which each form stands. bare: registers have no values."""
    whole, lines = TEXT.format(target=target), []
    setup = "" if bare else SETUP + inputs()
    for name, forms in groups.items():
        before, after = ENTRY.format(name=name, setup=setup, body="\0").split("\0")
        whole += before
        for form in forms:
            lines.append(whole.count("\n") + 1)
            whole += "{ " + expanded(form) + " }\n"
        whole += after
    return whole, lines
