# SPDX-License-Identifier: Apache-2.0
"""A simulation of SMs (sm.py) that writes down when each step of each warp, and each asynchronous operation, began and ended."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from . import trace as T
from .programs import COMPUTE
from .sm import Simulation

if TYPE_CHECKING:
    from .programs import Actor
    from .runner import Runner
    from .trace import Step

ENGINES = "load", "store", "wgmma", "cp.async", "to a neighbour"
"""Asynchronous operations: what goes on after the warp that began it has gone on."""
NAMES = {COMPUTE: "compute", T.WAIT: "mbarrier wait", T.ARRIVE: "mbarrier arrive", T.LOAD: "issue load", T.STORE: "issue store", T.COMMIT: "commit",
         T.GROUPS: "copies wait", T.CP_ASYNC: "issue cp.async", T.CP_ARRIVE: "mbarrier arrive", T.NAMED: "barrier arrive", T.NAMED_WAIT: "barrier wait",
         T.CLUSTER: "cluster arrive", T.CLUSTER_WAIT: "cluster wait", T.WGMMA: "issue wgmma", T.PRODUCTS: "wgmma wait", T.REMOTE: "issue to a neighbour"}
"""What a warp does, by kind of step."""


class Timed(NamedTuple):
    """What an actor did, or an engine for it (`engine`, else ''), from start to end, in cycles since the launch began. copy: which of the CTAs that follow each other;
    read: of a store, when its source had been read, else its end."""

    actor: Actor
    copy: int
    step: Step
    engine: str
    start: float
    end: float
    read: float


class TimedSimulation(Simulation):
    """The same simulation, which keeps what it knew. `found`: in the order in which it was asked for."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.found: list[Timed] = []
        self.landed = 0.0
        self.do = {kind: self._noted(kind, do) for kind, do in self.do.items()}

    def _noted(self, kind: int, do: Any) -> Any:
        def step_of(runner: Runner, step: Step) -> bool:
            at = runner.at
            if not do(runner, step):
                return False
            if kind in NAMES:
                self._note(runner, step, "", at, runner.at)
            return True
        return step_of

    def _note(self, runner: Runner, step: Step, engine: str, start: float, end: float, read: float | None = None) -> None:
        self.found.append(Timed(runner.actor, runner.copy, step, engine, start, end, end if read is None else read))

    def _compute(self, runner: Runner, cost: Any, warps: int) -> None:
        at = runner.at
        super()._compute(runner, cost, warps)
        if runner.actor.steps:
            self._note(runner, runner.actor.steps[runner.step], "", at, runner.at)

    def _contribute(self, key: tuple[Any, ...], arrivals: int, nbytes: int, at: float, wanted: int, asked: float = float("inf")) -> None:
        self.landed = max(self.landed, at)
        super()._contribute(key, arrivals, nbytes, at, wanted, asked)

    def turns(self, at_once: int) -> dict[int, int]:
        """Of each copy, how many came before it to its place on an SM that holds so many at once."""
        ends: dict[int, list[float]] = {}
        for key, end in self.cta_ends.items():
            ends.setdefault(id(self.sms[key]), []).append(end)
        found = {copy: sum(bool(end <= self.starts[copy]) for end in ends.get(id(sm), ())) for (copy, _), sm in self.sms.items()}
        return {copy: -(-before // at_once) for copy, before in found.items()}

    def load(self, runner: Runner, step: Step) -> bool:
        """A load is on its way until its last byte has landed."""
        at, self.landed = runner.at, 0.0
        super().load(runner, step)
        self._note(runner, step, "load", at, max(self.landed, self.load_ends[-1][0]))
        return True

    def store(self, runner: Runner, step: Step) -> bool:
        """A store is on its way until it is written."""
        at = runner.at
        super().store(runner, step)
        self._note(runner, step, "store", at, runner.open[True], runner.open["read"])
        return True

    def cp_async(self, runner: Runner, step: Step) -> bool:
        """The same of a copy by lanes."""
        at = runner.at
        super().cp_async(runner, step)
        self._note(runner, step, "cp.async", at, self.load_ends[-1][0])
        return True

    def remote(self, runner: Runner, step: Step) -> bool:
        """The same of bytes to another CTA."""
        at, self.landed = runner.at, 0.0
        super().remote(runner, step)
        self._note(runner, step, "to a neighbour", at, max(at, self.landed))
        return True

    def wgmma(self, runner: Runner, step: Step) -> bool:
        """A product has the tensor core from when it is free for it."""
        start = max(runner.at, runner.handed, runner.sm.tensor.free)
        if not super().wgmma(runner, step):
            return False
        self._note(runner, step, "wgmma", start, runner.sm.tensor.free)
        return True
