# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the barrier word: phases, transaction bytes, drops, and what is undefined."""

import numpy as np
import pytest

from hopperlab.hopper import mbarrier as mb


def test_a_fresh_barrier_waits_on_parity_0_and_passes_parity_1():
    word = mb.init(4)
    assert mb.unpack(word) == mb.MbarrierFields(phase=0, pending=4, expected=4, tx=0)
    assert not mb.try_wait_parity(word, 0) and mb.try_wait_parity(word, 1)


def test_arrivals_complete_the_phase_and_start_the_next():
    word = mb.init(3)
    word = mb.arrive(mb.arrive(word), 1)
    assert not mb.try_wait_parity(word, 0)
    word = mb.arrive(word)
    assert mb.try_wait_parity(word, 0) and not mb.try_wait_parity(word, 1)
    assert mb.unpack(word) == mb.MbarrierFields(1, 3, 3, 0)
    assert mb.try_wait_parity(mb.arrive(word, 3), 1)


def test_bytes_and_arrivals_are_both_needed_in_any_order():
    word = mb.arrive_expect_tx(mb.init(1), 4096)
    assert not mb.try_wait_parity(word, 0)
    word = mb.complete_tx(word, 4000)
    assert not mb.try_wait_parity(word, 0)
    assert mb.try_wait_parity(mb.complete_tx(word, 96), 0)
    early = mb.complete_tx(mb.init(1), 4096)
    assert mb.unpack(early).tx == -4096
    early = mb.expect_tx(early, 4096)
    assert not mb.try_wait_parity(early, 0), "expect_tx never completes a phase by itself"
    assert mb.try_wait_parity(mb.arrive(early), 0)


def test_expect_tx_back_to_zero_completes_only_at_the_next_arrival_or_completion():
    word = mb.complete_tx(mb.arrive(mb.expect_tx(mb.init(2), 32)), 64)
    word = mb.expect_tx(mb.arrive(word), 32)
    assert not mb.try_wait_parity(word, 0)
    assert mb.try_wait_parity(mb.complete_tx(word, 0), 0)


def test_drop_lowers_later_phases():
    word = mb.arrive_drop(mb.init(3))
    assert mb.unpack(word)[:3] == (0, 2, 2)
    word = mb.arrive(word, 2)
    assert mb.unpack(word)[:3] == (1, 2, 2)


def test_no_complete_and_its_pending_count():
    word = mb.arrive_no_complete(mb.init(5), 2)
    assert mb.pending_count(word) == 3
    with pytest.raises(mb.MbarrierError, match="noComplete"):
        mb.arrive_no_complete(word, 3)


def test_cp_async_arrive_without_noinc_is_neutral():
    word = mb.init(1)
    assert mb.arrive(mb.add_pending(word)) == word


def test_state_form_of_the_wait():
    before = mb.init(2)
    middle = mb.arrive(before)
    assert not mb.try_wait_state(middle, before)
    assert mb.try_wait_state(mb.arrive(middle), before) and mb.try_wait_state(mb.arrive(middle), middle)


def test_parity_follows_the_phase_for_many_phases():
    word = mb.init(1)
    for phase in range(11):
        assert not mb.try_wait_parity(word, phase & 1) and mb.try_wait_parity(word, phase & 1 ^ 1)
        word = mb.arrive(word)


def test_pack_and_unpack_are_inverse():
    rng = np.random.default_rng(3)
    for _ in range(500):
        fields = mb.MbarrierFields(
            int(rng.integers(0, 4)), *(int(x) for x in rng.integers(0, mb.MAX_COUNT + 1, 2)), int(rng.integers(-mb.MAX_COUNT, mb.MAX_COUNT + 1))
        )
        word = mb.pack(fields)
        assert 0 <= word < 1 << 64 and mb.unpack(word) == fields


def test_arrays_do_what_ints_do():
    rng = np.random.default_rng(8)
    words = [mb.init(int(n)) for n in rng.integers(40, 60, 200)]
    arrays = np.array(words, dtype=np.uint64)
    steps = [(mb.expect_tx, 1, 512), (mb.complete_tx, 1, 512), (mb.arrive, 1, 2), (mb.add_pending, 1, 3)]
    for _ in range(30):
        call, low, high = steps[int(rng.integers(0, len(steps)))]
        amount = rng.integers(low, high, len(words))
        words = [call(word, int(n)) for word, n in zip(words, amount)]
        arrays = call(arrays, amount)
        assert arrays.dtype == np.uint64 and arrays.tolist() == words
        assert mb.try_wait_parity(arrays, 0).tolist() == [mb.try_wait_parity(word, 0) for word in words]


@pytest.mark.parametrize("call, words", [
    (lambda: mb.init(0), "count = 0"),
    (lambda: mb.init(1 << 20), "count = 1048576"),
    (lambda: mb.arrive(mb.init(1), 2), "of 2 with 1 arrivals pending"),
    (lambda: mb.arrive(mb.init(1), 0), "count = 0"),
    (lambda: mb.arrive_drop(mb.init(2), 3), "arrive_drop of 3"),
    (lambda: mb.expect_tx(mb.init(1), 1 << 20), "tx-count = 1048576"),
    (lambda: mb.complete_tx(mb.init(1), 1 << 20), "tx-count = -1048576"),
    (lambda: mb.add_pending(mb.init(mb.MAX_COUNT)), "pending arrivals = 1048576"),
    (lambda: mb.arrive(0), "mbarrier.init has not run"),
    (lambda: mb.arrive(mb.inval(mb.init(1))), "mbarrier.inval has"),
    (lambda: mb.unpack(np.zeros(2, dtype=np.uint64)), "not an mbarrier"),
    (lambda: mb.arrive(np.full(2, mb.init(1), dtype=np.uint64), np.array([1, 2])), "more arrivals than this phase expects"),
])
def test_what_is_undefined_is_an_error(call, words):
    with pytest.raises(mb.MbarrierError, match=words):
        call()


def test_waiting_when_only_bytes_are_left():
    word = mb.arrive_expect_tx(mb.init(1), 128)
    with pytest.raises(mb.MbarrierError, match="of 1 with 0 arrivals pending"):
        mb.arrive(word)


def test_descriptions():
    assert mb.describe(mb.arrive_expect_tx(mb.init(3), 16384)) == "phase parity 0, 2 of 3 arrivals pending, 16384 bytes to come"
    assert mb.describe(mb.complete_tx(mb.init(1), 32)).endswith("32 bytes arrived that nobody expected yet")
    assert mb.describe(0) == "not initialised"
