# SPDX-License-Identifier: Apache-2.0
"""Does an architecture have an instruction? Its assembler is asked, which needs no GPU."""
from __future__ import annotations

KERNEL = """extern "C" __global__ void __launch_bounds__(384, 1) one(unsigned long long global) {{
    extern __shared__ int shared[];
    asm volatile("{ptx}" :: "r"((unsigned)__cvta_generic_to_shared(shared)), "l"(global) : "memory");
}}"""


def assembles(ptx: str, architecture: str) -> bool:
    """True when NVRTC assembles one PTX statement (%0: a 32-bit register, %1: a 64-bit one) for `architecture`. Raises ToolchainError where there is no NVRTC."""
    from ..errors import CompileError
    from .nvrtc import Source, compile_source

    braces = ptx.replace("{{", "{").replace("}}", "}")
    try:
        compile_source(Source(KERNEL.format(ptx=braces), "one.cu", arch=architecture), only_nvrtc=True)
    except CompileError:
        return False
    return True
