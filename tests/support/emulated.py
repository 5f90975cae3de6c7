# SPDX-License-Identifier: Apache-2.0
"""Small kernels in the emulator: compile, launch, and look at what the session found."""
import hopperlab as hl

SCHEDULES = ("lazy", "eager", "random")
WRAPPERS = """
#include <hopperlab/cp_async.cuh>
#include <hopperlab/fence.cuh>
#include <hopperlab/mbarrier.cuh>
#include <hopperlab/tma.cuh>
#include <hopperlab/wgmma.cuh>
"""


def run(source, args, name="k", grid=(1,), block=(32,), schedule="lazy", seed=0, shared_mem=0, hazards="collect", options=(), trace=True, levels=None):
    """Compile `source` (the course's wrappers are included) and launch `name` in the emulator; returns the session."""
    kernel = hl.RawModule(code=WRAPPERS + source, options=options, backend="emulator").get_function(name)
    with hl.emulate(schedule=schedule, seed=seed, hazards=hazards, trace=trace, levels=levels) as session:
        kernel(grid, block, args, shared_mem=shared_mem)
    return session


def run_ptx(body, args, params="", block=(32,), schedule="lazy", registers="", shared_mem=0, hazards="collect", grid=(1,),
            version="8.6", outside=""):
    """Launch a kernel written in PTX: `params` and `body` go between the braces, `registers` is declared."""
    text = f""".version {version}
.target sm_90a
.address_size 64
{outside}
.visible .entry k({params})
{{
.reg .pred %p<32>;
.reg .b16 %h<32>;
.reg .b32 %r<64>;
.reg .b64 %rd<64>;
.reg .f32 %f<64>;
{registers}
{body}
ret;
}}
"""
    kernel = hl.RawModule(ptx=text).get_function("k")
    with hl.emulate(schedule=schedule, hazards=hazards) as session:
        kernel(grid, block, args, shared_mem=shared_mem)
    return session


def kinds(session):
    """The kinds of hazard a session found, sorted, each once."""
    return sorted({h.kind for h in session.hazards})


def told(session):
    """All hazards as text, for assertion messages."""
    return [f"{h} where={h.where} other={h.other}" for h in session.hazards]


def lines_with(text, path=None, source=None):
    """1-based lines of a kernel of the course (or of `source`) that contain `text`."""
    whole = hl.kernel_source(path) if path else WRAPPERS + source
    return {k + 1 for k, line in enumerate(whole.splitlines()) if text in line}
