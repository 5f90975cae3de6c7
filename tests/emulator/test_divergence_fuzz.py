# SPDX-License-Identifier: Apache-2.0
"""Random programs with nested branches, loops, shuffles and barriers give what a thread-by-thread interpreter gives."""
import numpy as np
import pytest
from support.emulated import run, told
from support.programs import THREADS, Maker, interpret, source


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.sampled(every=4)
def test_a_random_program(seed):
    maker = Maker(seed)
    program = [s for _ in range(3) for s in maker.block(3, True, False)]
    start = np.random.default_rng(seed + 1000).integers(0, 1 << 32, (THREADS, 4)).astype(np.uint32)
    out = np.zeros((THREADS, 4), np.uint32)
    session = run(source(program), (start, out), block=(THREADS,), schedule=("lazy", "eager", "random")[seed % 3])
    assert (out == interpret(program, start)).all(), source(program)
    assert not session.hazards, told(session)


def test_the_programs_are_not_trivial():
    """Most of them branch, loop and use collectives."""
    texts = []
    for seed in range(24):
        maker = Maker(seed)
        texts.append(source([s for _ in range(3) for s in maker.block(3, True, False)]))
    assert sum("if (" in t and "for (" in t for t in texts) > 12 and sum("__shfl_sync" in t or "__syncthreads" in t for t in texts) > 12
