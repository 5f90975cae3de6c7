# SPDX-License-Identifier: Apache-2.0
"""Lesson 13x: the chain in the emulator: launch by launch, with dependent launches, on two streams, as one kernel; the panel, and the check of the exercise."""
from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...measure.launches import chain as chains
from ...runtime.tables import text_table
from ...show import style
from ..chosen import unreadable
from .chain_model import chain_picture
from .recorded import chain_time

M, N = 64, 128                          # of the chains that run here: two tiles a product
WAYS = {"ordinary launches": "graph", "dependent launches": "graph of dependent launches", "one persistent kernel": "persistent kernel"}
Places = str | Sequence[str]


def _fresh() -> Any:
    """The emulator's array module, when everything launched before is over, so that launches are counted from here."""
    import hopperlab as hl

    hl.synchronize("emulator")
    return hl.array_module("emulator")


def run_chain(products: int = 2, dependent: bool = True, launch_at: Places = "loaded", wait_at: Places = "x", landing: str = "lazy",
              options: Sequence[str] = ()) -> tuple[bool, Any]:
    """(right, session) of a chain of 64 x 128 in the emulator. launch_at, wait_at: as measure's chain takes them; options: for NVRTC, such as
    '-DBUG_X_BEFORE_GRID_WAIT=1'."""
    import hopperlab as hl

    given = chains.operands(_fresh(), M, N, products)
    given.clear()
    made = chains.chain(given, launch_at, wait_at, options=options, backend="emulator")
    with hl.emulate(schedule=landing, hazards="collect") as run, hl.Stream(backend="emulator") as stream:
        made(dependent)
        stream.synchronize()
    return made.right(), run


def run_persistent(products: int = 2, rows: int = 128, blocks: int = 4, landing: str = "lazy", options: Sequence[str] = ()) -> tuple[bool, Any]:
    """(right, session) of two launches of the persistent chain in the emulator, one after the other: the second finds the flags that the first has left."""
    import hopperlab as hl

    xp = _fresh()
    given = chains.operands(xp, rows, N, products)
    made = chains.persistent(given, chains.flags_for(xp, given), blocks=blocks, options=options, backend="emulator")
    right = True
    with hl.emulate(schedule=landing, hazards="collect") as run:
        for _ in range(2):
            given.clear()
            made()
            right = made.right() and right
    return right, run


def forked(event: bool = True, landing: str = "lazy") -> tuple[bool, Any]:
    """(right, session): a product on one stream, the norm of its result on another, which waits for an event of the first, or not."""
    import hopperlab as hl

    given = chains.operands(_fresh(), M, N, 1)
    given.clear()
    product, norm = chains.chain(given, backend="emulator").launches
    with hl.emulate(schedule=landing, hazards="collect") as run:
        first, second = hl.Stream(backend="emulator"), hl.Stream(backend="emulator")
        product.kernel(product.grid, product.block, product.args, shared_mem=product.shared_mem, stream=first)
        if event:
            second.wait_event(first.record())
        norm.kernel(norm.grid, norm.block, norm.args, stream=second)
        second.synchronize()
        first.synchronize()
    return chains.Chain((product, norm), given).right(), run


def placements_table(landings: Sequence[str] = ("lazy", "eager", "random")) -> str:
    """A line for each place of the two instructions: whether the chain is right, and what the emulator names, whatever lands when."""
    rows = []
    for launch_at, wait_at in (*((place, "x") for place in chains.LAUNCH_AT), ("loaded", "loads"), ("loaded", "start")):
        runs = [run_chain(2, True, launch_at, wait_at, landing) for landing in landings]
        rows.append((launch_at, wait_at, "yes" if all(right for right, _ in runs) else "no", sum(len(run.hazards) for _, run in runs)))
    return "\n".join(text_table("{:20} {:8} {:28} {:7}", rows, ("launch_dependents at", "wait at", f"right ({', '.join(landings)})", "hazards")))


def launch_chain(kernels: int, way: str, launch_at: str, wait_at: str, landing: str) -> style.Picture:
    """The panel: a chain of so many kernels in the emulator, and the model of its times. way: of WAYS."""
    if way == "one persistent kernel":
        right, run = run_persistent(kernels - 1, 64, 2, landing)
        picture = chain_picture(kernels, "persistent", heading=_heading("one kernel, flags between its steps", right, run))
    else:
        dependent = way == "dependent launches"
        right, run = run_chain(kernels - 1, dependent, launch_at, wait_at, landing)
        _first_alone(launch_at, wait_at)
        words = f"launch_dependents: {launch_at}, wait: {wait_at}" if dependent else "ordinary launches"
        picture = chain_picture(kernels, "dependent" if dependent else "ordinary", launch_at, wait_at, _heading(words, right, run))
    told = chain_time(WAYS[way], kernels - 1)
    lines = told.replace("; recorded on", "\nrecorded on")         # a line of both is wider than the picture
    picture.figure.axes[0].set_xlabel(f"time in the model (free units; what waits for what, not speed)\n{lines}", fontsize=9)
    return style.Picture(picture.figure, f"{picture.text}\n  {told}")


def _first_alone(launch_at: str, wait_at: str) -> None:
    """The chain's first product by itself: on a GPU a panel repeats and times what is launched without a stream."""
    import hopperlab as hl

    first = chains.chain(chains.operands(_fresh(), M, N, 1), launch_at, wait_at, backend="emulator").launches[0]
    with hl.emulate(hazards="collect"):
        first()


def _heading(words: str, right: bool, run: Any) -> str:
    found = run.hazards[0].kind if run.hazards else "no hazard"
    return f"{words}: result {'right' if right else 'WRONG'}, {found}"


ABOVE = {"a": ("mbarrier_init of the ring's barriers", True), "b": ("the load of a tile of w, the weights", True),
         "c": ("the load of a tile of x, which the kernel in front writes", False),
         "d": ("the store of a tile of y, which the kernel in front reads", False), "e": ("prefetch_tensormap of the map of x", True),
         "f": ("griddepcontrol.launch_dependents", True), "g": ("the arrival that hands the consumers a slot with x in it", False)}


def check_above(letters: Collection[str] | None) -> str:
    """The lesson's exercise: which of ABOVE may stand above griddepcontrol.wait."""
    said = unreadable(letters, ABOVE)
    if letters is None or said:
        return said
    for letter, (what, may) in ABOVE.items():
        if may and letter not in letters:
            return f"Not yet: {letter}, {what}, may stand above the wait: it touches nothing that the kernel in front writes or reads."
        if not may and letter in letters:
            return f"Not yet: {letter}, {what}, has to wait."
    return "Right: what reads or overwrites nothing of the kernel in front may stand above, and the hint to the kernel behind as well."

