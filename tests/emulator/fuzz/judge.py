# SPDX-License-Identifier: Apache-2.0
"""Runs mutants: every one ends well, or in an error of our own, and soon."""
from __future__ import annotations

import random
import time
import traceback
import warnings
from dataclasses import dataclass

from hopperlab import emulator
from hopperlab.runtime.errors import HopperlabError

from . import corpus

MOST_SECONDS = 10.0        # of CPU, for one mutant


@dataclass
class Verdict:
    """What became of one mutant: '' (it ran), the name of our error, or 'FOREIGN …' with the traceback."""

    case: str
    text: str
    outcome: str
    seconds: float
    detail: str = ""

    @property
    def bad(self) -> bool:
        """True for an error that is not ours, and for one that took too long."""
        return self.outcome.startswith("FOREIGN") or self.seconds > MOST_SECONDS


def judge(case: corpus.Case, text: str) -> Verdict:
    """Parse, translate and launch a mutant."""
    start, outcome, detail = time.process_time(), "", ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.run(text)
    except (emulator.EmulatorError, HopperlabError) as error:
        outcome, detail = type(error).__name__, str(error)
    except Exception as error:
        outcome = f"FOREIGN {type(error).__name__} at {'; '.join(f'{f.name}:{f.lineno}' for f in traceback.extract_tb(error.__traceback__)[-2:])}"
        detail = traceback.format_exc()
    return Verdict(case.name, text, outcome, time.process_time() - start, detail)


def draw(seed: int, number: int) -> tuple[corpus.Case, str]:
    """Mutant `number` of a seed, and its case: half of them kernels, half of them forms."""
    rng = random.Random(f"{seed} {number}")
    case = rng.choice(corpus.kernels()) if rng.random() < 0.5 else corpus.some_forms(rng)
    return case, case.mutant(rng)
