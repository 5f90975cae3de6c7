# SPDX-License-Identifier: Apache-2.0
"""The rules, and every order in which a program's synchronising operations can happen under them. docs/oracle.md states them with their sections.

What a thread knows is a set of events that precede its next operation in base causality order; `fenced` is the part of it with a proxy fence on
the way. Operations that order nobody run at once; where the order of operations on one mbarrier or flag is open, all orders are tried, from equal
states once. Landings of copies are such operations.
"""
from __future__ import annotations

import functools
import operator
import sys

from .dependence import objects, remaining
from .events import SOURCE, Layout, bits
from .programs import (Arrive, Barrier, BulkCopy, BulkLoad, ClusterArrive, ClusterWait, CpArrive, Init, Load, Poll, Program, ProxyFence, Raise, Store, SyncWarp, Wait)
from .state import Finding, State, TooManyStates, Verdict

sys.setrecursionlimit(20_000)
VISIBLE = (Arrive, Wait, Raise, Poll)


class Oracle:
    """Explores one program. strict_reads: a generic read before an asynchronous write of the same bytes needs a proxy fence too."""

    def __init__(self, program: Program, strict_reads: bool = False, limit: int = 20_000):
        self.program, self.strict_reads, self.limit = program, strict_reads, limit
        self.L = Layout(program)
        self.agents = self.L.agents
        self.ctas = len(program.warps)
        self.warps = [[i for i, a in enumerate(self.agents) if a.warp == w] for w in range(self.ctas * len(program.warps[0]))]
        self.remaining = [remaining(a, self.ctas) for a in self.agents]
        self.waits = [[{line: s.op.phase for line, s in a.script[k:] if isinstance(s.op, Wait)} for k in range(len(a.script) + 1)] for a in self.agents]
        self.memo, self.found = {}, set()

    # --- what is explored ---------------------------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        """All executions of the program. Raises TooManyStates."""
        may, must, clean = self._explore(self._start())
        return Verdict(may, must, clean, len(self.memo))

    def _start(self) -> State:
        state = State()
        state.at = [0] * len(self.agents)
        state.knows, state.fenced, state.begun = [0] * self.L.threads, [0] * self.L.threads, 0
        state.mbar, state.named, state.flags = {}, {}, {}
        state.cluster, state.flying = (((), 0, 0),), ()  # of each phase of the cluster barrier: who arrived, known, fenced
        for agent in self.agents:
            for t in agent.threads:
                state.knows[t] = 1 << len(self.L.events) + agent.cta        # that this CTA has started
        return state

    def _explore(self, state: State):
        self.found = set()
        self._run(state)
        here = frozenset(self.found)
        key = state.key()
        if key not in self.memo:
            if len(self.memo) >= self.limit:
                raise TooManyStates(f"{self.program.name}: more than {self.limit} states")
            self.memo[key] = None                       # a place taken; executions are finite, so no state comes again below itself
            self.memo[key] = self._branch(state)
        may, must, clean = self.memo[key]
        return may | here, must | here, clean and not here

    def _branch(self, state: State):
        moves = self._moves(state)
        if not moves:
            ended = frozenset(self._end(state))
            return ended, ended, not ended
        may, must, clean = frozenset(), None, False
        for move in moves:
            nxt = state.copy()
            self.found = set()
            goes_on = move(nxt)
            here = frozenset(self.found)
            below = self._explore(nxt) if goes_on is not False else (frozenset(), frozenset(), True)
            may |= below[0] | here
            must = below[1] | here if must is None else must & (below[1] | here)
            clean |= below[2] and not here
        return may, must, clean

    # --- which moves have to be tried ---------------------------------------------------------------------------------

    def _moves(self, state: State) -> list:
        """Moves of a persistent set: those that others cannot disturb before one of them is made."""
        actors = []                                     # (next objects, all objects, move or None)
        for i, agent in enumerate(self.agents):
            if state.at[i] < len(agent.script):
                line, step = agent.script[state.at[i]]
                ready = isinstance(step.op, (*VISIBLE, Barrier)) and self._ready(state, i, step.op)
                move = (lambda s, i=i: self._move(s, i)) if ready else None
                actors.append((objects(agent, step), self.remaining[i][state.at[i]], move))
        for n, landing in enumerate(state.flying):
            where = frozenset([("m", landing[0], landing[1])])
            actors.append((where, where, lambda s, n=n: self._land(s, n)))
        best = None
        for seed in actors:
            if seed[2] is None:
                continue
            touched, chosen, grown = set(seed[0]), [], True
            while grown:
                more = [a for a in actors if a[1] & touched]
                grown = len(more) > len(chosen)
                chosen = more
                touched.update(*(a[0] for a in more))
            moves = [a[2] for a in chosen if a[2]]
            if best is None or len(moves) < len(best):
                best = moves
        return best or []

    def _ready(self, state: State, i: int, op) -> bool:
        agent = self.agents[i]
        if isinstance(op, Wait):
            held = state.mbar.get((agent.cta, op.bar))
            return held is None or held[0] & 1 != op.phase & 1
        if isinstance(op, Poll):
            return state.flags.get(op.flag, (0,))[0] >= op.value
        if isinstance(op, Barrier):
            return self._together(state, i) and i == self.warps[agent.warp][0] and not self._inside(state, agent)
        return True

    # --- operations that order nobody, and barriers whose outcome does not depend on who comes first ----------------------

    def _run(self, state: State) -> None:
        moved = True
        while moved:
            moved = False
            for i, agent in enumerate(self.agents):
                while state.at[i] < len(agent.script) and self._local(state, i, *agent.script[state.at[i]]):
                    moved = True
            moved |= self._cluster_complete(state)

    def _local(self, state: State, i: int, line: int, step) -> bool:
        """Run one operation if it is local and can go on; returns whether it did."""
        op, agent = step.op, self.agents[i]
        if isinstance(op, VISIBLE):
            return False
        if isinstance(op, (SyncWarp, ClusterArrive, ClusterWait, Barrier)):
            return self._together(state, i) and self._collective(state, agent, line, op)
        for t in agent.threads:
            self._thread(state, agent, t, line, op)
        if isinstance(op, CpArrive):                    # each lane's own arrival; they land together here
            events = [landing.events for t in agent.threads for landing in self.L.at[line, t].landings]
            self._fly(state, agent.cta, op.bar, 0, agent.weight, functools.reduce(operator.or_, events), 0, 0)
        state.at[i] += 1
        return True

    def _thread(self, state: State, agent, t: int, line: int, op) -> None:
        here = self.L.at[line, t]
        if isinstance(op, ProxyFence):
            state.fenced[t] |= state.knows[t]
        if isinstance(op, (Load, Store, BulkCopy, BulkLoad)):
            self._started(state, agent, t, line, op)
        for bit in here.begins:
            self._access(state, t, bit)
        state.knows[t] |= here.learns
        if isinstance(op, Init):
            state.mbar[agent.cta, op.bar] = (0, op.count, 0, 0, 0, 0, 0, op.count)
        for landing in here.landings:
            self._initialised(state, t, landing.cta, landing.bar, line)
            if landing.bytes:
                told = (state.knows[t], state.fenced[t]) if isinstance(op, BulkCopy) else (0, 0)      # it begins here, and its complete-tx is a release
                self._fly(state, landing.cta, landing.bar, landing.bytes, 0, landing.events, *told)

    @staticmethod
    def _fly(state: State, *landing) -> None:
        state.flying = tuple(sorted((*state.flying, landing)))

    def _access(self, state: State, t: int, bit: int) -> None:
        """An access begins: everything that conflicts with it and has begun must be known to be over, through a proxy fence where proxies differ."""
        L, event = self.L, self.L.of_bit[bit]
        before = L.conflicts[bit] & state.begun
        for line in L.lines(before & ~state.knows[t]):
            self.found.add(Finding("unordered", *sorted((event.line, line))))
        if event.proxy == "async":
            needs = L.generic_writes | (L.generic_reads if self.strict_reads and event.writes else 0)
            for line in L.lines(before & state.knows[t] & needs & ~state.fenced[t]):
                self.found.add(Finding("unfenced", *sorted((event.line, line))))
        state.begun |= bit
        if not event.late:
            state.knows[t] |= bit

    def _started(self, state: State, agent, t: int, line: int, op) -> None:
        for cta in {agent.cta if op.cta is None else op.cta} if hasattr(op, "cta") else set(op.ctas or ()):
            if not state.knows[t] >> len(self.L.events) + cta & 1:
                self.found.add(Finding("lifetime", line))

    def _initialised(self, state: State, t: int, cta: int, bar: int, line: int) -> bool:
        wanted = self.L.inits.get((cta, bar), 0)
        if (cta, bar) in state.mbar and state.knows[t] & wanted == wanted:
            return True
        self.found.add(Finding("uninitialised", line))
        return (cta, bar) in state.mbar

    # --- barriers of warps, CTAs and clusters ----------------------------------------------------------------------------

    def _together(self, state: State, i: int) -> bool:
        """Whether all lanes of the warp stand at the same operation, which agent i is at."""
        line = self.agents[i].script[state.at[i]][0]
        return all(state.at[k] < len(self.agents[k].script) and self.agents[k].script[state.at[k]][0] == line for k in self.warps[self.agents[i].warp])

    def _threads(self, members) -> list[int]:
        return [t for k in members for t in self.agents[k].threads]

    def _union(self, state: State, members) -> tuple[int, int]:
        knows = fenced = 0
        for t in self._threads(members):
            knows, fenced = knows | state.knows[t], fenced | state.fenced[t]
        return knows, fenced

    def _teach(self, state: State, members, knows: int, fenced: int) -> None:
        for t in self._threads(members):
            state.knows[t] |= knows
            state.fenced[t] |= fenced

    def _collective(self, state: State, agent, line: int, op) -> bool:
        warp = self.warps[agent.warp]
        if isinstance(op, SyncWarp):
            self._teach(state, warp, *self._union(state, warp))
        elif isinstance(op, Barrier):
            if not self._regular(agent.cta, op) or self._inside(state, agent):
                return False
            self._meet(state, agent, op)
            return True
        elif isinstance(op, ClusterArrive):
            self._arrive_at_cluster(state, agent, line)
        else:
            phase = sum(isinstance(s.op, ClusterWait) for _, s in self.agents[warp[0]].script[:state.at[warp[0]]])
            if phase >= len(state.cluster) - 1:
                return False
            self._teach(state, warp, *state.cluster[phase][1:])
        for k in warp:
            state.at[k] += 1
        return True

    def _arrive_at_cluster(self, state: State, agent, line: int) -> None:
        knows, fenced = self._union(state, self.warps[agent.warp])
        arrived, known, through = state.cluster[-1]
        script, at = self.agents[self.warps[agent.warp][0]].script, state.at[self.warps[agent.warp][0]]
        if sum(isinstance(s.op, ClusterArrive) for _, s in script[:at]) > sum(isinstance(s.op, ClusterWait) for _, s in script[:at]):
            self.found.add(Finding("arrivals", line))
            return
        state.cluster = (*state.cluster[:-1], ((*arrived, agent.warp), known | knows, through | fenced))

    def _cluster_complete(self, state: State) -> bool:
        """The next phase begins when every warp that has not ended has arrived (PTX ISA 9.7.13.4)."""
        arrived = state.cluster[-1][0]
        ended = [w for w, members in enumerate(self.warps) if all(state.at[k] == len(self.agents[k].script) for k in members)]
        if arrived and set(arrived) | set(ended) == set(range(len(self.warps))):
            state.cluster = (*state.cluster, ((), 0, 0))
            return True
        return False

    def _regular(self, cta: int, op: Barrier) -> bool:
        """Whether exactly the warps that a barrier counts ever use it: then it does not matter who comes first."""
        uses = [(a.warp, s.op) for a in self.agents if a.cta == cta for _, s in a.script if isinstance(s.op, Barrier) and s.op.id == op.id]
        return len({w for w, _ in uses}) == op.warps and all(o.warps == op.warps for _, o in uses)

    def _inside(self, state: State, agent) -> bool:
        return any(agent.warp in held[3] for held in state.named.values())

    def _meet(self, state: State, agent, op: Barrier) -> None:
        """A warp comes to a named barrier: with the last one, all who wait learn what all knew (PTX ISA 9.7.13.1)."""
        warp, key = self.warps[agent.warp], (agent.cta, op.id)
        knows, fenced = self._union(state, warp)
        count, known, through, waiting = state.named.get(key, (0, 0, 0, ()))
        count, known, through = count + 1, known | knows, through | fenced
        if op.arrive:
            for k in warp:
                state.at[k] += 1
        else:
            waiting = tuple(sorted((*waiting, agent.warp)))
        state.named[key] = (count, known, through, waiting)
        if count == op.warps:
            for w in waiting:
                self._teach(state, self.warps[w], known, through)
                for k in self.warps[w]:
                    state.at[k] += 1
            state.named[key] = (0, 0, 0, ())

    # --- mbarriers and flags -----------------------------------------------------------------------------------------

    def _move(self, state: State, i: int):
        agent = self.agents[i]
        line, step = agent.script[state.at[i]]
        op = step.op
        if isinstance(op, Barrier):
            return self._meet(state, agent, op)
        state.at[i] += 1
        if isinstance(op, Arrive):
            return self._arrive(state, agent, line, op)
        if isinstance(op, Wait):
            return self._wait(state, agent, line, op)
        return self._raise(state, agent, op) if isinstance(op, Raise) else self._poll(state, agent, op)

    def _arrive(self, state: State, agent, line: int, op: Arrive):
        cta = agent.cta if op.cta is None else op.cta
        if not all(self._initialised(state, t, cta, op.bar, line) for t in agent.threads):
            return False
        for t in agent.threads:
            self._started(state, agent, t, line, op)
            for bit in self.L.at[line, t].begins:
                self._access(state, t, bit)
        knows, fenced = self._published(state, agent)
        if agent.weight > state.mbar[cta, op.bar][1]:   # lanes arrive together; more than are pending fails a launch (measured on an H200)
            self.found.add(Finding("arrivals", line))
            return False
        for _ in range(agent.weight):
            if not self._count(state, (cta, op.bar), 1, op.expect, knows, fenced):
                self.found.add(Finding("arrivals", line))
                return False
        return True

    def _published(self, state: State, agent) -> tuple[int, int]:
        return self._union(state, [self.agents.index(agent)])

    def _wait(self, state: State, agent, line: int, op: Wait):
        if not all(self._initialised(state, t, agent.cta, op.bar, line) for t in agent.threads):
            return False
        phase, *_, known, through, _ = state.mbar[agent.cta, op.bar]
        if phase <= op.phase:
            self.found.add(Finding("early", line))
        self._teach(state, [self.agents.index(agent)], known, through)
        return True

    def _land(self, state: State, n: int):
        cta, bar, amount, arrivals, events, knows, fenced = state.flying[n]
        state.flying = state.flying[:n] + state.flying[n + 1:]
        if (cta, bar) not in state.mbar:
            return False
        pending = state.mbar[cta, bar][1]
        if 0 < pending < arrivals:                      # some lanes' arrivals end the phase, any of them
            self._count(state, (cta, bar), pending, 0, 0, 0)
            arrivals -= pending
        if not self._count(state, (cta, bar), arrivals, -amount, events | knows, fenced):
            self.found.add(Finding("arrivals", min(self.L.lines(events), default=0)))
            return False
        return True

    def _count(self, state: State, key, arrivals: int, expected: int, knows: int, fenced: int) -> bool:
        """Arrivals and bytes reach an mbarrier; the phase is complete when neither is pending (PTX ISA 9.7.13.15.5). False: more arrivals than pending."""
        phase, pending, tx, known, through, last_known, last_through, count = state.mbar[key]
        if arrivals > pending:
            return False
        pending, tx = pending - arrivals, tx + expected
        known, through = known | knows, through | fenced
        if pending == 0 and tx == 0:
            phase, pending, last_known, last_through, known, through = phase + 1, count, known, through, 0, 0
            self._passed_by(state, key, phase)
        state.mbar[key] = (phase, pending, tx, known, through, last_known, last_through, count)
        return True

    def _passed_by(self, state: State, key, phase: int) -> None:
        """Phase `phase` begins: whoever has not yet seen the one before the last complete sees the parity of another phase now."""
        for i, agent in enumerate(self.agents):
            for line, wanted in self.waits[i][state.at[i]].items():
                op = next(s.op for where, s in agent.script if where == line)
                if (agent.cta, op.bar) == key and wanted <= phase - 2:
                    self.found.add(Finding("overrun", line))

    def _raise(self, state: State, agent, op: Raise):
        knows, fenced = self._published(state, agent) if op.release else (0, 0)
        state.flags[op.flag] = (op.value, knows, fenced, op.scope, agent.cta)

    def _poll(self, state: State, agent, op: Poll):
        _, knows, fenced, scope, cta = state.flags.get(op.flag, (0, 0, 0, "gpu", agent.cta))
        if cta == agent.cta or "cta" not in (scope, op.scope):      # both scopes include the other thread (PTX ISA 8.7)
            self._teach(state, [self.agents.index(agent)], knows, fenced)

    # --- the end -------------------------------------------------------------------------------------------------------

    def _end(self, state: State):
        """Nothing can go on: everything is over, or somebody waits for ever."""
        if any(at < len(agent.script) for at, agent in zip(state.at, self.agents)):
            stuck = [agent.script[at][0] for at, agent in zip(state.at, self.agents) if at < len(agent.script)]
            yield Finding("deadlock", min(stuck))
            return
        for (cta, bar), held in state.mbar.items():
            if held[2]:
                yield Finding("bytes", min(line for line, c, *_, s in self.program.steps() if isinstance(s.op, Init) and (c, s.op.bar) == (cta, bar)))
        known = [0] * self.ctas
        for agent in self.agents:
            for t in agent.threads:
                known[agent.cta] |= state.knows[t]
        for bit in bits(state.begun):
            event = self.L.of_bit[bit]
            if event.cta != SOURCE and not known[event.cta] & bit and (event.proxy == "async" or not event.late):     # of cp.async at the end the ISA says nothing
                yield Finding("exit" if event.late else "lifetime", event.line)


__all__ = ["Finding", "Oracle", "State", "TooManyStates", "Verdict"]
