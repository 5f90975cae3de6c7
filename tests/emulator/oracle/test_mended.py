# SPDX-License-Identifier: Apache-2.0
"""The smallest programs of disagreements about barriers that there were: the model and the emulator agree on them now, under every schedule."""
import pytest

from emulator.oracle.compare import disagreements
from emulator.oracle.model import Oracle
from emulator.oracle.programs import (REST, TILE, Arrive, Barrier, BulkCommit, BulkLoad, BulkStore, BulkWait, ClusterArrive, ClusterWait, CpArrive, CpAsync,
                                      CpCommit, CpWait, Init, Load, Poll, Program, ProxyFence, Store, SyncWarp, Wait, lanes)

pytestmark = pytest.mark.emulator_only
CLUSTER = lanes(ClusterArrive(), ClusterWait())
WAITER = lanes(Barrier(0, 2), Wait(0, 0), Load(0))
SENT_ON = lanes(Init(0, 31), lane=0) + lanes(Barrier(0, 2)) + lanes(Wait(0, 0), lane=1) + lanes(SyncWarp()) + lanes(
    ProxyFence(), BulkStore(0), BulkCommit(), BulkWait(0), lane=0)
BROUGHT = lanes(Barrier(0, 2), CpAsync(0, 1), CpCommit(), CpWait(0))
ALL_BUT_LANE_0 = lanes(Arrive(0), lane=REST)
PROGRAMS = {
    "early cluster arrivals": Program(((CLUSTER + lanes(Load(0, 1)) + CLUSTER,), (CLUSTER + lanes(Store(0, cta=0)) + CLUSTER,))),
    "a second arrival at the cluster barrier": Program(((lanes(ClusterArrive(), ClusterArrive(), ClusterWait()),), (CLUSTER,))),
    "a wait at the cluster barrier without an arrival": Program(((lanes(ClusterWait()),), (CLUSTER,))),
    "a flag that nobody raises": Program(((lanes(Store(0)), lanes(Poll(0, 1), lane=0) + lanes(SyncWarp(), Load(0))),)),
    "bar.arrive behind a branch": Program(((lanes(Init(0, 1), lane=0) + lanes(Barrier(0, 2), Barrier(1, 2), Barrier(2, 2)), lanes(Barrier(0, 2), Barrier(1, 2)) + lanes(
        Arrive(0, TILE), BulkLoad(0, 0), lane=1) + lanes(Wait(0, 0), Barrier(2, 2, arrive=True))),), branches=True),
    "too few arrivals for cp.async": Program(((lanes(Init(0, 31), lane=0) + lanes(Barrier(0, 2), CpAsync(0), CpArrive(0)), WAITER),)),
    "too few bytes": Program(((lanes(Init(0, 1), lane=0) + lanes(Barrier(0, 2)) + lanes(Arrive(0, TILE), BulkLoad(0, 0), BulkLoad(1, 0), lane=0),
                               lanes(Barrier(0, 2), Wait(0, 0), Load(0), Load(1))),)),
    "cp.async of a lane that has ended": Program(((SENT_ON, BROUGHT + ALL_BUT_LANE_0),), branches=True),
    "cp.async of a lane that goes on": Program(((SENT_ON, BROUGHT + ALL_BUT_LANE_0 + lanes(SyncWarp())),), branches=True),
    "cp.async of a lane that has met the others": Program(((SENT_ON, BROUGHT + lanes(SyncWarp()) + ALL_BUT_LANE_0),), branches=True),
}
READ_TWICE = lanes(Init(0, 1), Init(1, 1), lane=0) + lanes(Barrier(0, 1)) + lanes(Arrive(0, TILE), BulkLoad(0, 0), lane=0) + lanes(Wait(0, 0))
SECOND = lanes(BulkStore(0), BulkCommit(), BulkWait(0), Arrive(1, TILE), BulkLoad(0, 1), lane=1) + lanes(Wait(1, 0))
PROGRAMS |= {
    "two lanes store a tile, one waits": Program(((READ_TWICE + lanes(BulkStore(0), BulkCommit(), lane=0) + SECOND,),), branches=True),
    "two lanes store a tile, one without a group": Program(((READ_TWICE + lanes(BulkStore(0), lane=0) + SECOND,),), branches=True),
    "two lanes store a tile, both wait and meet": Program(((READ_TWICE + lanes(BulkStore(0), BulkCommit(), BulkWait(0), lane=0)
                                                           + lanes(SyncWarp()) + SECOND,),), branches=True),
}
MEET = lanes(Barrier(0, 2), Barrier(1, 2))
EARLIER = lanes(Init(1, 1), Init(2, 32), lane=0) + MEET + lanes(Wait(1, -1), Arrive(2))
WHILE_THE_OTHERS_WAIT = MEET + lanes(Wait(2, 0), lane=REST)
PROGRAMS |= {
    "a lane that arrives before it waits as the others do": Program(((EARLIER, MEET + lanes(Arrive(1), lane=0) + lanes(Wait(2, 0))),), branches=True),
    "a lane that arrives while the others wait": Program(((EARLIER, WHILE_THE_OTHERS_WAIT + lanes(Arrive(1), lane=0)),), branches=True),
    "a lane that arrives when it has met those who waited": Program(((EARLIER, WHILE_THE_OTHERS_WAIT + lanes(SyncWarp())
                                                                      + lanes(Arrive(1), lane=0)),), branches=True),
    "a lane that arrives when it has waited with the others": Program(((EARLIER, MEET + lanes(Wait(2, 0)) + lanes(Arrive(1), lane=0)),), branches=True),
}
MEET = lanes(Barrier(0, 3), Barrier(1, 3))
EARLIER = lanes(Init(1, 1), Init(2, 32), lane=0) + MEET + lanes(Wait(1, -1), Arrive(2))
PROGRAMS |= {
    "a warp that learns at a barrier what another one waited for": Program(((EARLIER, MEET + lanes(Wait(2, 0), Barrier(2, 2, arrive=True)),
                                                                            MEET + lanes(Barrier(2, 2)) + lanes(Arrive(1), lane=0)),)),
    "a warp that tells a barrier alone": Program(((EARLIER, MEET + lanes(Wait(2, 0), Barrier(2, 2)),
                                                   MEET + lanes(Barrier(2, 2, arrive=True)) + lanes(Arrive(1), lane=0)),)),
}
CORRECT = {"a warp that learns at a barrier what another one waited for", "a lane that arrives when it has met those who waited",
           "a lane that arrives when it has waited with the others", "two lanes store a tile, both wait and meet", "bar.arrive behind a branch",
           "cp.async of a lane that has met the others"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_agree(name):
    program = PROGRAMS[name]
    verdict = Oracle(program).verdict()
    assert not disagreements(program, verdict)
    assert verdict.correct == (name in CORRECT)
