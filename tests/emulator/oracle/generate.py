# SPDX-License-Identifier: Apache-2.0
"""Programs drawn by Hypothesis: flows of data through tiles, rings, pipelines, epilogues and clusters and sources in global memory, correct as drawn.

Whether a program is correct is the model's business (it is asked anyway): a drawn program may hold more synchronisation than it needs.
"""
from __future__ import annotations

from hypothesis import strategies as st

from .programs import (REST, TILE, Arrive, Barrier, BulkCommit, BulkCopy, BulkLoad, BulkStore, BulkWait, ClusterArrive, ClusterWait, CpArrive, CpAsync, CpCommit,
                       CpWait, Init, Load, Poll, Program, ProxyFence, Raise, SourceStore, Store, SyncWarp, Wait, lanes)


class Builder:
    """Scripts of the warps of one CTA (or two), and the mbarriers, flags and named barriers given out so far."""

    def __init__(self, draw, warps: int, ctas: int = 1):
        self.draw, self.width = draw, warps
        self.scripts = [[[] for _ in range(warps)] for _ in range(ctas)]
        self.counts, self.flags, self.named = [], 0, 1

    def add(self, warp: int, *ops, lane=None, cta: int = 0) -> None:
        self.scripts[cta][warp] += lanes(*ops, lane=lane)

    def bar(self, count: int) -> int:
        self.counts.append(count)
        return len(self.counts) - 1

    def choose(self, *items):
        return self.draw(st.sampled_from(items))

    def program(self, name: str) -> Program:
        """Everything, behind the initialisation of the mbarriers."""
        whole = []
        for scripts in self.scripts:
            meet = (ClusterArrive(), ClusterWait()) if len(self.scripts) > 1 else (Barrier(0, self.width),)
            head = lanes(*(Init(b, n) for b, n in enumerate(self.counts)), lane=0)
            start = meet if self.counts or len(self.scripts) > 1 else ()
            whole.append(tuple((head if w == 0 else ()) + lanes(*start) + tuple(script) for w, script in enumerate(scripts)))
        return Program(tuple(whole), name, self.choose(True, True, False))


class Flow(Builder):
    """Actions on tiles one after the other; before each one, everybody whose access it must follow hands over to it."""

    READS: tuple[str, ...] = ("load", "lane load", "bulk store")

    def __init__(self, draw, warps: int, tiles: int):
        super().__init__(draw, warps)
        self.writer = [None] * tiles                    # (warp, lane, action, mbarrier) of the last write of each tile
        self.readers = [[] for _ in range(tiles)]

    def act(self, warp: int, tile: int, action: str) -> None:
        reads = action in self.READS
        before = [self.writer[tile], *([] if reads else self.readers[tile])]
        lane = self.choose(0, 0, 1) if action in ("lane load", "lane store", "bulk load", "bulk store") else None
        for past in filter(None, before):
            self.order(past, warp, lane, action)
        here = [warp, lane, action, None]
        self.emit(here, tile)
        if reads:
            self.readers[tile].append(here)
        else:
            self.writer[tile], self.readers[tile] = here, []

    def emit(self, here: list, tile: int) -> None:
        warp, lane, action, _ = here
        if action == "bulk load":
            here[3] = bar = self.bar(1)
            self.add(warp, Arrive(bar, TILE), BulkLoad(tile, bar), lane=lane)
            return
        shift = self.choose(0, 0, 1) if lane is None else 0
        op = {"load": Load(tile, shift), "lane load": Load(tile), "store": Store(tile, shift), "lane store": Store(tile), "cp.async": CpAsync(tile, shift),
              "bulk store": BulkStore(tile)}[action]
        self.add(warp, op, lane=lane)
        self.add(warp, *{"cp.async": [CpCommit()], "bulk store": [BulkCommit()]}.get(action, []), lane=lane)

    def finish(self, past, at: int | None = None) -> None:
        """The thread that issued an asynchronous operation waits for it (a bulk load: warp `at`, which need not be the issuer)."""
        warp, lane, action, bar = past
        if action == "bulk load":
            self.add(warp if at is None else at, Wait(bar, 0))
        elif action == "cp.async":
            self.add(warp, CpWait(0))
        elif action == "bulk store":
            self.add(warp, BulkWait(0), lane=lane)

    def order(self, past, warp: int, lane, action: str) -> None:
        """What `past` did comes before what `warp` does next."""
        direct = past[2] == "bulk load" and self.choose(True, False)
        self.finish(past, warp if direct else None)
        fence = past[2] in ("store", "lane store", "cp.async") and action in ("bulk load", "bulk store")
        early = fence and self.choose(True, False)
        if early:
            self.add(past[0], ProxyFence(), lane=past[1])
        if past[0] == warp:
            self.add(warp, SyncWarp())
        elif not direct:
            self.hand_over(past, warp)
        elif lane is None:
            pass
        if fence and not early:
            self.add(warp, ProxyFence(), lane=lane)

    def hand_over(self, past, to: int) -> None:
        kind = self.choose("bar.sync", "bar.arrive", "all arrive", "most arrive", "lane arrives", "flag")
        own = past[1] if past[1] is not None and past[2] != "bulk load" and self.choose(True, False) else None
        lane = own if own is not None else self.choose(0, 1)
        if kind in ("bar.sync", "bar.arrive") and self.named < 15:
            self.add(past[0], Barrier(self.named, 2, arrive=kind == "bar.arrive"))
            self.add(to, Barrier(self.named, 2))
            self.named += 1
            return
        if kind == "all arrive":
            bar = self.bar(32)
            self.add(past[0], Arrive(bar))
        elif kind == "most arrive":
            bar = self.bar(31)
            self.add(past[0], SyncWarp())
            self.add(past[0], Arrive(bar), lane=REST)
        else:
            self.add(past[0], *([] if own is not None else [SyncWarp()]))
        if kind == "flag" and self.flags < 8:
            self.add(past[0], Raise(self.flags, 1), lane=lane)
            self.add(to, Poll(self.flags, 1), lane=0)
            self.add(to, SyncWarp())
            self.flags += 1
            return
        if kind not in ("all arrive", "most arrive"):
            bar = self.bar(1)
            self.add(past[0], Arrive(bar), lane=lane)
        if self.choose(True, True, False):
            self.add(to, Wait(bar, 0))
        else:
            self.add(to, Wait(bar, 0), lane=1)
            self.add(to, SyncWarp())


@st.composite
def flows(draw) -> Program:
    """Any actions of 1 to 4 warps on 1 to 3 tiles, each after those that it depends on."""
    warps, tiles = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    flow = Flow(draw, warps, tiles)
    actions = st.tuples(st.integers(0, warps - 1), st.integers(0, tiles - 1),
                        st.sampled_from(["store", "load", "bulk load", "bulk store", "cp.async", "lane store", "lane load"]))
    done = set()
    for warp, tile, action in draw(st.lists(actions, min_size=2, max_size=6)):
        if tile not in done and action not in ("bulk load", "cp.async"):            # nothing there yet
            action = "store"
        done.add(tile)
        flow.act(warp, tile, action)
    for past in [p for p in flow.writer if p] + [p for readers in flow.readers for p in readers]:
        if past[2] in ("bulk load", "bulk store", "cp.async"):
            flow.finish(past)
    return flow.program("flow")


BULK = ("bulk", "two copies")


@st.composite
def rings(draw) -> Program:
    """A producer warp and 1 to 3 consumers over stages with full and empty mbarriers."""
    stages, consumers = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rounds = draw(st.integers(1, 2 * stages + 1 if consumers < 3 else stages + 1))
    kind = draw(st.sampled_from(["bulk", "bulk", "two copies", "store", "cp.async", "cp.async arrive"]))
    release = draw(st.sampled_from(["all", "lane"]))
    storing = draw(st.sampled_from([False, False, True]))           # consumers store the tile to global memory by bulk copies
    b = Builder(draw, consumers + 1)
    full = [b.bar(1 if kind in BULK or kind != "cp.async arrive" and release == "lane" else 32) for _ in range(stages)]
    empty = [b.bar(consumers * (32 if release == "all" and not storing else 1)) for _ in range(stages)]
    shift = draw(st.sampled_from([0, 1]))
    for k in range(rounds):
        s, turn = k % stages, k // stages
        first = k < stages and draw(st.booleans())      # the first waits pass at once and may be left out
        if not first:
            b.add(0, Wait(empty[s], turn - 1), lane=0 if kind in BULK else None)
        produce(b, kind, release, s, full[s], fence=storing, second=stages + s)
        for c in range(1, consumers + 1):
            b.add(c, Wait(full[s], turn))
            if storing:
                b.add(c, SyncWarp())
                b.add(c, BulkStore(s), BulkCommit(), BulkWait(0), Arrive(empty[s]), lane=0)
                continue
            b.add(c, Load(s, shift), *([Load(stages + s)] if kind == "two copies" else []))
            if release == "all":
                b.add(c, Arrive(empty[s]))
            else:
                b.add(c, SyncWarp())
                b.add(c, Arrive(empty[s]), lane=0)
    return b.program(f"ring of {stages}, {rounds} rounds, {kind}, {release}")


def produce(b: Builder, kind: str, release: str, tile: int, full: int, fence: bool, second: int) -> None:
    """One round of a ring's producer, warp 0."""
    if kind == "bulk":
        b.add(0, Arrive(full, TILE), BulkLoad(tile, full), lane=0)
        return
    if kind == "two copies":
        b.add(0, Arrive(full, 2 * TILE), BulkLoad(tile, full), BulkLoad(second, full), lane=0)
        return
    if kind == "cp.async arrive":
        b.add(0, CpAsync(tile), CpArrive(full))         # a consumer that uses the async proxy has to fence for itself
        return
    b.add(0, *([Store(tile)] if kind == "store" else [CpAsync(tile), CpCommit(), CpWait(0)]))
    b.add(0, *([ProxyFence()] if fence else []))
    if release == "all":
        b.add(0, Arrive(full))
    else:
        b.add(0, SyncWarp())
        b.add(0, Arrive(full), lane=0)


@st.composite
def pipelines(draw) -> Program:
    """All warps copy by cp.async, a number of stages ahead, and read what their neighbours brought."""
    warps, stages = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rounds = draw(st.integers(1, stages + 2))
    b = Builder(draw, warps)
    own = draw(st.booleans())
    for w in range(warps):
        for k in range(min(stages - 1, rounds)):
            b.add(w, CpAsync(k * warps + w), CpCommit())
        for k in range(rounds):
            ahead = k + stages - 1
            if stages == 1:
                b.add(w, CpAsync(w), CpCommit())
            b.add(w, CpWait(max(0, stages - 2)), Barrier(0, warps))
            b.add(w, Load((k % stages) * warps + (w if own else (w + 1) % warps), 1))
            if stages == 1:
                b.add(w, Barrier(0, warps))
            elif ahead < rounds:
                b.add(w, CpAsync(ahead % stages * warps + w))
            if stages > 1:
                b.add(w, CpCommit())
        b.add(w, CpWait(0))
    return b.program(f"pipeline of {stages}, {rounds} rounds")


@st.composite
def epilogues(draw) -> Program:
    """Warps write their tiles, one lane stores all of them by a bulk copy, and the tiles are refilled after wait_group.read."""
    warps, rounds, buffers = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    b = Builder(draw, warps)
    late, named = draw(st.booleans()), draw(st.integers(0, 3))
    for k in range(rounds):
        at = k % buffers * warps
        for w in range(warps):
            if k >= buffers:
                if w == 0:
                    b.add(0, BulkWait(buffers - 1), lane=0)
                b.add(w, Barrier(named, warps))
            b.add(w, Store(at + w, draw(st.sampled_from([0, 1]))))
            if not late:
                b.add(w, ProxyFence())
            b.add(w, Barrier(named, warps))
            if w == 0:
                b.add(0, *([ProxyFence()] if late else []), BulkStore(at, warps), BulkCommit(), lane=0)
    b.add(0, BulkWait(0), lane=0)
    return b.program("epilogue")


@st.composite
def clusters(draw) -> Program:
    """Two CTAs that reach into each other: remote stores and loads, copies from CTA to CTA, multicast loads, remote arrivals."""
    warps = draw(st.integers(1, 2))
    b = Builder(draw, warps, ctas=2)
    kind = draw(st.sampled_from(["remote store", "remote load", "copy", "multicast", "remote arrive"]))
    rounds = draw(st.integers(1, 2))
    full, empty, back = b.bar(1), b.bar(32 if kind == "remote arrive" else 2), b.bar(1)
    for k in range(rounds):
        for cta in (0, 1):
            {"remote store": _remote_store, "remote load": _remote_load, "copy": _copy, "multicast": _multicast, "remote arrive": _remote_arrive}[kind](
                b, cta, k, full, empty, back)
    for cta in (0, 1):
        for w in range(warps):
            b.add(w, ClusterArrive(), ClusterWait(), cta=cta)
    return b.program(f"cluster, {kind}")


def _cluster_barrier(b: Builder, cta: int) -> None:
    for w in range(b.width):
        b.add(w, ClusterArrive(), ClusterWait(), cta=cta)


def _remote_store(b, cta, k, *_):
    b.add(0, Store(0, cta=1 - cta), cta=cta)
    _cluster_barrier(b, cta)
    b.add(b.width - 1, Load(0, 1), cta=cta)
    _cluster_barrier(b, cta)


def _remote_load(b, cta, k, *_):
    b.add(0, Store(0), cta=cta)
    _cluster_barrier(b, cta)
    b.add(b.width - 1, Load(0, 1, cta=1 - cta), cta=cta)
    _cluster_barrier(b, cta)


def _copy(b, cta, k, full, empty, back):
    """CTA 0 fills a tile and copies it to CTA 1, which says by a remote arrival that it has been read."""
    if cta == 0:
        if k:
            b.add(0, Wait(back, k - 1))
        b.add(0, Store(0), ProxyFence(), SyncWarp())
        b.add(0, BulkCopy(0, 1, full, 1), lane=0)
    else:
        b.add(0, Arrive(full, TILE), lane=0, cta=1)
        b.add(0, Wait(full, k), Load(1, 1), SyncWarp(), cta=1)
        b.add(0, Arrive(back, cta=0), lane=0, cta=1)


def _multicast(b, cta, k, full, empty, back):
    """CTA 0 loads for both; both say to CTA 0 that they have read."""
    if k:
        b.add(0, Wait(empty if cta == 0 else full, k - 1), lane=0, cta=cta)
    b.add(0, Arrive(full, TILE), lane=0, cta=cta)
    if cta == 0:
        b.add(0, BulkLoad(0, full, ctas=(0, 1)), lane=0)
    b.add(b.width - 1, Wait(full, k), Load(0, 1), SyncWarp(), cta=cta)
    b.add(b.width - 1, Arrive(empty, cta=None if cta == 0 else 0), lane=0, cta=cta)


def _remote_arrive(b, cta, k, full, empty, back):
    """CTA 1 writes into CTA 0's memory and arrives there; CTA 0 answers."""
    if cta == 1:
        if k:
            b.add(0, Wait(back, k - 1), cta=1)
        b.add(0, Store(0, cta=0), Arrive(empty, cta=0), cta=1)
    else:
        b.add(0, Wait(empty, k), Load(0, 1), SyncWarp())
        b.add(0, Arrive(back, cta=1), lane=0)


class Sources(Flow):
    """Actions on tiles in global memory: loads, each into a tile of its own, and stores."""

    READS = ("bulk load", "cp.async")

    def __init__(self, draw, warps: int, sources: int):
        super().__init__(draw, warps, sources)
        self.taken = 0

    def emit(self, here: list, tile: int) -> None:
        warp, lane, action, _ = here
        if action in self.READS:
            to, self.taken = self.taken, self.taken + 1
            if action == "bulk load":
                here[3] = bar = self.bar(1)
                self.add(warp, Arrive(bar, TILE), BulkLoad(to, bar, source=tile), lane=lane)
            else:
                self.add(warp, CpAsync(to, self.choose(0, 1), tile), CpCommit())
        else:
            self.add(warp, SourceStore(tile, self.choose(0, 0, 1) if lane is None else 0), lane=lane)


@st.composite
def sources(draw) -> Program:
    """1 to 4 warps load from 1 or 2 tiles in global memory, and store into them."""
    warps, count = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    flow = Sources(draw, warps, count)
    actions = st.tuples(st.integers(0, warps - 1), st.integers(0, count - 1), st.sampled_from(["bulk load", "bulk load", "cp.async", "store", "lane store"]))
    for warp, tile, action in draw(st.lists(actions, min_size=2, max_size=5)):
        flow.act(warp, tile, action)
    for past in [past for readers in flow.readers for past in readers]:
        flow.finish(past)
    return flow.program("sources")


FAMILIES = {"flow": flows, "ring": rings, "pipeline": pipelines, "epilogue": epilogues, "cluster": clusters, "source": sources}


def programs(families=tuple(FAMILIES)):
    """A program of one of the families."""
    return st.one_of(*(FAMILIES[f]() for f in families))
