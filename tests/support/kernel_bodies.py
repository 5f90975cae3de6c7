# SPDX-License-Identifier: Apache-2.0
"""Launches of a kernel of which a test writes the body only, and the hazards by the body's lines."""
import numpy as np
from support.emulated import WRAPPERS, run

MORE = "#include <hopperlab/cluster.cuh>\n#include <hopperlab/dsmem.cuh>\n#include <hopperlab/mbarrier_hint.cuh>\n#include <hopperlab/cp_async_ignore.cuh>\n"
HEAD = MORE + 'extern "C" __global__ void k(const float* x, float* y) {\n    int t = threadIdx.x, w = t / 32;\n'
BASE = (WRAPPERS + HEAD).count("\n")


def launch(body, block=64, grid=1, schedule="lazy", **how):
    """Runs a kernel body; returns its session, and its hazards as (case, line of the body, other line of the body), lines from 1."""
    session = run(HEAD + body + "\n}", (np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)), block=(block,), grid=(grid,), schedule=schedule, **how)
    return session, [(h.case, *(site.line - BASE if site else 0 for site in (h.where, h.other))) for h in session.hazards]
