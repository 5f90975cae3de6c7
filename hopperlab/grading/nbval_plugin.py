# SPDX-License-Identifier: Apache-2.0
"""What nbval_run.py adds to pytest: notebooks whose kernel runs inside the sandbox, and a file that says which cells passed.

Runs outside the sandbox, in pytest's process. Of the kernel it takes messages of a limited size, and only so many of them.
"""
from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import pytest
import zmq
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import KernelManager
from nbval.kernel import RunningKernel
from nbval.plugin import IPyNbFile, NbCellError

from . import sandbox
from .pristine import UNCOMPARED

OPTION = "--sandboxed-kernel"
MOST_TEXT = 4000
LOOK_SECONDS = 1.0         # between two looks at whether the kernel still lives


class TooMuchOutput(Exception):
    """A notebook printed more than the limit; its kernel was ended."""


class KernelDied(Exception):
    """The kernel ended before its cells did."""


class _Specs(KernelSpecManager):
    """The one kernel there is."""

    def __init__(self, argv: list[str]):
        super().__init__()
        self.argv = argv

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The sandboxed kernel, whatever the notebook asks for."""
        return KernelSpec(argv=self.argv, display_name="sandbox", language="python", interrupt_mode="message")


class _Manager(KernelManager):
    """Its connection file can be read by the sandbox's user."""

    def write_connection_file(self, **kwargs: Any) -> None:
        """As always, then readable in a folder that nobody else reaches."""
        super().write_connection_file(**kwargs)
        os.chmod(self.connection_file, 0o644)


class Kernel(RunningKernel):
    """A kernel in the sandbox, spoken to over sockets in a folder that is bound into it."""

    def __init__(self, settings: dict, startup_timeout: float):
        folder, self.left = Path(settings["connections"]), settings["output_bytes"]
        if settings["isolated"]:
            sandbox.give(folder)
        context = zmq.Context()
        context.setsockopt(zmq.MAXMSGSIZE, self.left)
        self.km = _Manager(kernel_name="sandbox", transport="ipc", connection_file=str(folder / "k.json"),
                           kernel_spec_manager=_Specs(settings["kernel"]), context=context)
        self.km.start_kernel(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
        self.kc = self.km.client()
        self.kc.start_channels()
        self.kc.wait_for_ready(timeout=startup_timeout)
        self._ensure_iopub_up()

    def get_message(self, stream: str, timeout: float | None = None) -> dict:
        """The next message. Raises TooMuchOutput, with the kernel ended, when all of them were larger than the limit, KernelDied as soon
        as the kernel has ended, queue.Empty after `timeout` seconds."""
        message = self._wait(stream, time.monotonic() + timeout) if timeout else super().get_message(stream, timeout=timeout)
        self.left -= _size(message["content"])
        if self.left < 0:
            self.stop()
            raise TooMuchOutput("the notebook printed more than the limit")
        return message

    def _wait(self, stream: str, until: float) -> dict:
        while True:
            try:
                return super().get_message(stream, timeout=max(0.01, min(LOOK_SECONDS, until - time.monotonic())))
            except Empty:
                if not self.is_alive():
                    raise KernelDied("the notebook's kernel ended") from None
                if time.monotonic() >= until:
                    raise

    def is_alive(self) -> bool:
        """False also after it was stopped."""
        return hasattr(self, "km") and self.km.is_alive()


def _size(value: Any) -> int:
    """About how many bytes plain data holds."""
    if isinstance(value, dict):
        return sum(_size(k) + _size(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return sum(map(_size, value))
    return len(value) if isinstance(value, (str, bytes)) else 8


class Results:
    """Which cells passed, written after each test so that what is known survives the process."""

    def __init__(self, path: Path):
        self.path, self.known = path, {"passed": {}, "messages": {}, "finished": False}

    def write(self) -> None:
        """Replace the file."""
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.known), encoding="utf-8")
        os.replace(part, self.path)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Iterator:
        """A cell passed when its test ran, passed, and was not expected to fail (nbval's mark for all cells after a timeout)."""
        report = yield
        name, passed = item.cell.get("id", ""), report.passed and not hasattr(report, "wasxfail")
        if report.when == "call":
            self.known["passed"][name] = passed
        elif not passed:
            self.known["passed"][name] = False
        if call.excinfo is not None:
            self.known["messages"][name] = _message(call.excinfo.value)
        self.write()
        return report

    def pytest_sessionfinish(self) -> None:
        """All tests ran."""
        self.known["finished"] = True
        self.write()


def _message(problem: BaseException) -> str:
    text = f"{problem}\n{problem.inner_traceback or ''}" if isinstance(problem, NbCellError) else f"{type(problem).__name__}: {problem}"
    return text.encode("utf-8", "replace").decode()[:MOST_TEXT]


def pytest_addoption(parser: Any) -> None:
    """The file with the settings."""
    parser.addoption(OPTION, help="settings of the sandboxed kernel (JSON)")


def pytest_configure(config: Any) -> None:
    """Read the settings, and watch the tests."""
    config.sandboxed = json.loads(Path(config.getoption(OPTION)).read_text(encoding="utf-8"))
    config.pluginmanager.register(Results(Path(config.sandboxed["results"])))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path, parent: Any) -> Iterator:
    """nbval's notebooks get a sandboxed kernel."""
    found = yield

    class Sandboxed(IPyNbFile):
        def setup(self):
            self.skip_compare += UNCOMPARED
            self.kernel = Kernel(self.config.sandboxed, self.config.option.nbval_kernel_startup_timeout)
            self.setup_sanitize_files()

    return [Sandboxed.from_parent(parent, path=file_path) if isinstance(one, IPyNbFile) else one for one in found]
