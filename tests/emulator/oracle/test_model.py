# SPDX-License-Identifier: Apache-2.0
"""The model by itself: what it says of programs whose verdict follows from a sentence of the PTX ISA (the sections are docs/oracle.md's)."""
import pytest

from emulator.oracle.model import Finding, Oracle
from emulator.oracle.programs import (REST, TILE, Arrive, Barrier, BulkCommit, BulkLoad, BulkStore, BulkWait, ClusterArrive, ClusterWait, CpAsync, CpCommit,
                                      CpWait, Init, Load, Poll, Program, ProxyFence, Raise, Store, SyncWarp, Wait, lanes)

SYNC = Barrier(0, 2)
STORE_OUT = lanes(BulkStore(0), BulkCommit(), BulkWait(), lane=0)
FETCH = lanes(Init(0, 1), lane=0) + lanes(SYNC) + lanes(Arrive(0, TILE), BulkLoad(0, 0), lane=0)
CLUSTER = lanes(ClusterArrive(), ClusterWait())


def says(*warps, **options):
    return sorted((f.kind, f.line, f.other) for f in Oracle(Program((tuple(warps),)), **options).verdict().may)


RULES = {
    "own accesses are ordered": ((lanes(Store(0), Load(0)),), []),
    "lanes are threads": ((lanes(Store(0), Load(0, 1)),), [("unordered", 1, 2)]),
    "bar.warp.sync orders lanes": ((lanes(Store(0), SyncWarp(), Load(0, 1)),), []),
    "warps race": ((lanes(Store(0)), lanes(Load(0))), [("unordered", 1, 2)]),
    "two reads do not": ((lanes(Load(0)), lanes(Load(0))), []),
    "bar.sync orders warps": ((lanes(Store(0), SYNC), lanes(SYNC, Load(0, 1))), []),
    "bar.arrive publishes": ((lanes(Store(0), Barrier(1, 2, arrive=True)), lanes(Barrier(1, 2), Load(0))), []),
    "bar.arrive learns nothing": ((lanes(Barrier(1, 2, arrive=True), Load(0)), lanes(Store(0), Barrier(1, 2))), [("unordered", 2, 3)]),
    "a named barrier for two pairs": ((lanes(Store(0), Barrier(1, 2)), lanes(Barrier(1, 2), Load(0)), lanes(Barrier(1, 2)), lanes(Barrier(1, 2))),
                                      [("unordered", 1, 4)]),
    "cp.async is over after its wait": ((lanes(CpAsync(0), CpCommit(), Load(0), CpWait(), Load(0)),), [("unordered", 1, 3)]),
    "wait_group leaves the newest": ((lanes(CpAsync(0), CpCommit(), CpAsync(1), CpCommit(), CpWait(1), Load(0), Load(1)),), [("unordered", 3, 7)]),
    "what is not committed is not waited for": ((lanes(CpAsync(0), CpWait(), Load(0)),), [("unordered", 1, 3)]),
    "a bulk load is over when its phase is": ((FETCH, lanes(SYNC, Wait(0, 0), Load(0))), []),
    "its issuer does not know by itself": ((FETCH + lanes(Load(0)) + lanes(Wait(0, 0)), lanes(SYNC)), [("unordered", 4, 5)]),
    "its landing publishes no store": ((lanes(Init(0, 1), lane=0) + lanes(SYNC, Arrive(0, TILE), lane=0) + lanes(Store(1), BulkLoad(0, 0), lane=0),
                                        lanes(SYNC, Wait(0, 0), Load(1))), [("unordered", 4, 8)]),
    "an arrival publishes": ((lanes(Init(0, 32), lane=0) + lanes(SYNC, Store(0), Arrive(0)), lanes(SYNC, Wait(0, 0), Load(0, 1))), []),
    "of its own lanes": ((lanes(Init(0, 31), lane=0) + lanes(SYNC, Store(0)) + lanes(Arrive(0), lane=REST), lanes(SYNC, Wait(0, 0), Load(0))),
                         [("unordered", 3, 7)]),
    "the parity of the phase before passes": ((lanes(Init(0, 32), lane=0) + lanes(SYNC, Wait(0, -1), Arrive(0)), lanes(SYNC)), []),
    "and may be missed": ((lanes(Init(0, 32), lane=0) + lanes(SYNC, Arrive(0)), lanes(SYNC, Wait(0, -1))), [("deadlock", 5, 0), ("overrun", 5, 0)]),
    "an arrival that never comes": ((lanes(Init(0, 32), lane=0) + lanes(SYNC), lanes(SYNC, Wait(0, 0))), [("deadlock", 4, 0)]),
    "more arrivals than pending": ((lanes(Init(0, 31), lane=0) + lanes(SYNC, Arrive(0)), lanes(SYNC)), [("arrivals", 3, 0)]),
    "initialised where others see it": ((lanes(Init(0, 32), lane=0) + lanes(Arrive(0)),), [("uninitialised", 2, 0)]),
    "the async proxy needs a fence": ((lanes(Store(0), SyncWarp()) + STORE_OUT,), [("unfenced", 1, 3)]),
    "by the writers": ((lanes(Store(0), ProxyFence(), SyncWarp()) + STORE_OUT,), []),
    "or by the issuer": ((lanes(Store(0), SyncWarp()) + lanes(ProxyFence(), lane=0) + STORE_OUT,), []),
    "not by another lane": ((lanes(Store(0), SyncWarp()) + lanes(ProxyFence(), lane=1) + STORE_OUT,), [("unfenced", 1, 4)]),
    "nor before the barrier by one lane": ((lanes(Store(0)) + lanes(ProxyFence(), lane=0) + lanes(SyncWarp()) + STORE_OUT,), [("unfenced", 1, 4)]),
    "cp.async is generic": ((lanes(CpAsync(0), CpCommit(), CpWait(), SyncWarp()) + STORE_OUT,), [("unfenced", 1, 5)]),
    "a bulk store is read after .read": ((STORE_OUT + lanes(SyncWarp(), Store(0)),), []),
    "by its own thread": ((lanes(BulkStore(0), BulkCommit(), lane=0) + lanes(BulkWait(), lane=1) + lanes(SyncWarp(), Store(0)) + lanes(BulkWait(), lane=0),),
                          [("unordered", 1, 5)]),
    "and before the CTA ends": ((lanes(BulkStore(0), BulkCommit(), lane=0),), [("exit", 1, 0)]),
    "release and acquire": ((lanes(Store(0), SyncWarp()) + lanes(Raise(0, 1), lane=0), lanes(Poll(0, 1), lane=0) + lanes(SyncWarp(), Load(0))), []),
    "relaxed publishes nothing": ((lanes(Store(0), lane=0) + lanes(Raise(0, 1, release=False), lane=0), lanes(Poll(0, 1), Load(0), lane=0)),
                                  [("unordered", 1, 4)]),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule):
    warps, wanted = RULES[rule]
    assert says(*warps) == wanted


def test_reads_before_a_refill_when_read_strictly():
    reader = lanes(Init(0, 1), lane=0) + lanes(Load(0), SyncWarp()) + lanes(Arrive(0, TILE), BulkLoad(0, 0), lane=0) + lanes(Wait(0, 0))
    assert says(reader) == []
    assert says(reader, strict_reads=True) == [("unfenced", 2, 5)]


def test_clusters():
    def both(first, second):
        return sorted(Oracle(Program(((first,), (second,)))).verdict().may)
    assert both(CLUSTER + lanes(Store(0, cta=1)) + CLUSTER, CLUSTER + CLUSTER + lanes(Load(0, 1))) == []
    assert both(CLUSTER + lanes(Store(0, cta=1)) + CLUSTER, CLUSTER + lanes(Load(0, 1)) + CLUSTER) == [Finding("unordered", 3, 8)]
    assert both(CLUSTER + lanes(Store(0, cta=1)), CLUSTER) == [Finding("lifetime", 3)]
    assert both(lanes(Store(0, cta=1)) + CLUSTER, CLUSTER) == [Finding("lifetime", 1)]


@pytest.mark.parametrize("scope, wanted", [("gpu", []), ("cta", [Finding("unordered", 3, 10)])])
def test_scopes(scope, wanted):
    """A flag of CTA scope tells another CTA nothing."""
    writer = CLUSTER + lanes(Store(0, cta=1), lane=0) + lanes(Raise(0, 1, scope=scope), lane=0) + CLUSTER
    reader = CLUSTER + lanes(Poll(0, 1, scope=scope), Load(0), lane=0) + CLUSTER
    program = Program(((writer,), (reader,)))
    assert sorted(Oracle(program).verdict().may) == wanted
