# SPDX-License-Identifier: Apache-2.0
"""Writes table.txt: which forms of forms.py ptxas accepts for sm_90a, and for what it refuses there, who has it.

    PYTHONPATH=tests python -m emulator.coverage.record        (needs ptxas of CUDA 13.0)

A line is 'sm_90a', or the first newer architecture that takes the form, or 'none', then a tab and the form.
"""

import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emulator.coverage.forms import forms
from emulator.coverage.kernel import text

TABLE = Path(__file__).parent / "table.txt"
NEWER = ("sm_100", "sm_100a", "sm_103a", "sm_110a", "sm_120", "sm_120a", "sm_121a")
CHUNK = 60


def rejected(chunk: list[str], target: str) -> set[str]:
    """The forms of a list that ptxas does not take, found by taking them out until nothing is left to complain about."""
    out: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.ptx"
        while left := [form for form in chunk if form not in out]:
            source, lines = text({f"k{i}": [form] for i, form in enumerate(left)}, target)
            path.write_text(source)
            report = subprocess.run(["ptxas", "-O0", "-w", f"-arch={target}", str(path), "-o", f"{folder}/k.cubin"], capture_output=True, text=True)
            bad = {form for form, line in zip(left, lines) if re.search(rf"line {line}; (error|fatal)", report.stderr)}
            bad |= {left[int(i)] for i in re.findall(r"error.*function 'k(\d+)'", report.stderr)}
            if not bad:
                if report.returncode:
                    bad = set(left) if len(left) == 1 else set().union(*(rejected(left[i::2], target) for i in range(2)))
                    return out | bad
                break
            out |= bad
    return out


def refused(everything: list[str], target: str) -> set[str]:
    """The forms that a target does not have."""
    chunks = [everything[i:i + CHUNK] for i in range(0, len(everything), CHUNK)]
    with ThreadPoolExecutor(2) as pool:
        return set().union(*pool.map(lambda chunk: rejected(chunk, target), chunks))


def main() -> None:
    everything = forms()
    left = refused(everything, "sm_90a")
    owner = {form: "sm_90a" for form in everything if form not in left}
    for target in NEWER:
        still = refused(sorted(left), target)
        owner.update((form, target) for form in left - still)
        left = still
    TABLE.write_text("".join(f"{owner.get(form, 'none')}\t{form}\n" for form in everything))
    print(f"{sum(o == 'sm_90a' for o in owner.values())} on sm_90a, {sum(o != 'sm_90a' for o in owner.values())} elsewhere, {len(left)} nowhere")


if __name__ == "__main__":
    main()
