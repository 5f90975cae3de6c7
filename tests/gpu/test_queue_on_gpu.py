# SPDX-License-Identifier: Apache-2.0
"""Thirty clients of the queue on one GPU: one killed while it runs, one that hangs, one that floods; the others get what they asked for."""
import numpy as np
from support.crowd import LEARNERS, ROUNDS, crowd
from support.patience import PATIENCE
from support.queue_server import CODE, request, serving

import hopperlab as hl


def test_thirty_clients_on_the_gpu(cupy, tmp_path, monkeypatch):
    module = hl.RawModule(code=CODE, name="queue.cu")
    work = request(module, "scale", (cupy.arange(4, dtype=cupy.float32), np.float32(3)), monkeypatch)
    hang = request(module, "hang", (cupy.zeros(4, cupy.int32),), monkeypatch)
    with serving(tmp_path, "gpu") as start:
        made, path = start(limit=5 * PATIENCE, names=True)
        answers = crowd(made, path, tmp_path, work, hang, 5 * PATIENCE)
    assert len(answers) == LEARNERS and all(one["arrays"][0].tolist() == [0, 3, 6, 9] for mine in answers.values() for one in mine)
    assert all(len(mine) == ROUNDS for mine in answers.values())
