# SPDX-License-Identifier: Apache-2.0
"""The board's readings, from a pretended NVML: power, energy of a launch, what limits the clocks, who else is there."""
import os
import threading
import time
import types

import pytest

from hopperlab.measure.machine import board


class Nvml(types.SimpleNamespace):
    """What pynvml says; `events`: the bits of the clock event reasons, one reading after another."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        """As pynvml raises it."""

    def __init__(self, events=(0,), others=(), busy=0):
        self.events, self.mj = list(events), 0
        processes = [types.SimpleNamespace(pid=pid, usedGpuMemory=2_500_000_000) for pid in (os.getpid(), *others)]
        super().__init__(
            nvmlInit=lambda: None, nvmlDeviceGetHandleByIndex=lambda i: i,
            nvmlDeviceGetClockInfo=lambda d, kind: 1500, nvmlDeviceGetTemperature=lambda d, kind: 61,
            nvmlDeviceGetPowerUsage=lambda d: 690_000, nvmlDeviceGetUtilizationRates=lambda d: types.SimpleNamespace(gpu=busy),
            nvmlDeviceGetComputeRunningProcesses=lambda d: processes, events=self.events, mj=0)

    def nvmlDeviceGetTotalEnergyConsumption(self, device):
        """Higher at each reading of the main thread; who follows the counter meanwhile sees it stand still."""
        if threading.current_thread() is threading.main_thread():
            self.mj += 8000
        return self.mj

    def nvmlDeviceGetCurrentClocksEventReasons(self, device):
        return self.events.pop(0) if len(self.events) > 1 else self.events[0]


@pytest.fixture
def nvml(monkeypatch):
    def make(**said):
        monkeypatch.setattr(board, "_METERS", [])
        fake = Nvml(**said)
        monkeypatch.setitem(__import__("sys").modules, "pynvml", fake)
        return fake
    return make


def test_an_idle_board_has_nothing_to_warn_of(nvml):
    nvml(events=(0x01,))                                    # idle is no limit
    found = board.state()
    assert found.warnings == () and str(found.now) == "1500 MHz, 690 W, 61 °C"


@pytest.mark.parametrize(("bits", "word"), [(0x04, "power"), (0x80, "power"), (0x20, "heat"), (0x40, "heat"), (0x08, "hardware slowdown")])
def test_held_clocks_are_said_in_words(nvml, bits, word):
    nvml(events=(bits | 0x01,))
    assert board.state().warnings == (f"the clocks are held down by {word} before anything runs",)
    assert board.state(idle=False).warnings == ()           # after our own work that is no news: records say it


def test_others_on_the_gpu_are_named(nvml):
    nvml(others=(4242,), busy=90)
    warning, = board.state().warnings
    assert "shared with process 4242 (2.5 GB)" in warning


def test_a_busy_gpu_is_named_unless_it_is_busy_with_us(nvml):
    nvml(busy=90)
    assert "busy 90 % of the time" in board.state().warnings[0]
    assert board.state(idle=False).warnings == ()


def test_under_load_counts_joules_a_launch(nvml):
    """The counter stands 8 J higher at its second reading; the first launch only warms up."""
    nvml()
    launches = []
    load = board.under_load(lambda: launches.append(1), lambda: None, seconds=0.02)
    assert load.joules == round(8 / (len(launches) - 1), 6)
    assert load.watts <= 8 / 0.02


def test_power_is_read_from_step_to_step_of_the_counter(nvml):
    """A counter that stands still for 20 ms and then moves by 2 J, whenever the load began and ended: 100 W."""
    fake, began = nvml(), time.perf_counter()
    fake.nvmlDeviceGetTotalEnergyConsumption = lambda device: 2000 * int((time.perf_counter() - began) / 0.02)
    launches = []

    def run():
        launches.append(1)
        time.sleep(0.001)
    load = board.under_load(run, lambda: None, seconds=0.3)
    assert load.watts == pytest.approx(100, rel=0.1) and load.joules == pytest.approx(load.watts * 0.3 / (len(launches) - 1), rel=0.3)
    assert board.power([(0.0, 5.0), (0.1, 75.0), (0.2, 145.0)]) == pytest.approx(700) and board.power([(0.0, 5.0), (0.1, 75.0)]) is None


def test_a_machine_that_pauses_for_longer_than_the_time_still_launches(nvml):
    nvml()
    assert board.under_load(lambda: None, lambda: None, seconds=0.0).joules == 1.0, "8 J in eight launches"


def test_under_load_says_what_limited(nvml, monkeypatch):
    nvml(events=(0x04, 0x04, 0x00, 0x00, 0x20))
    samples = [board._meter().now() for _ in range(5)]
    assert board._limits(samples) == "power"                # two of five; heat stands in one of five, less than a quarter
    assert board._limits([]) == ""


def test_a_reading_that_is_not_supported_is_none_and_costs_nothing_else(nvml):
    fake = nvml()

    def refuse(device):
        raise fake.NVMLError("not supported")
    fake.nvmlDeviceGetPowerUsage = refuse
    assert str(board.state().now) == "1500 MHz, 61 °C"


def test_no_driver_means_nothing_can_be_read(nvml):
    fake = nvml()

    def refuse():
        raise fake.NVMLError("no driver")
    fake.nvmlInit = refuse
    found = board.state()
    assert found.now is None and "cannot be read here" in found.warnings[0]
