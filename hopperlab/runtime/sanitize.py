# SPDX-License-Identifier: Apache-2.0
"""`hopperlab sanitize SCRIPT.py|FILE.cu|FILE.ptx`: a script's or a file's kernels under several schedules, each in a process of its own; findings once each.

`python -m hopperlab.runtime.sanitize` is the child: it runs the script with every launch forced to one schedule and writes
what the launches showed as JSON.
"""
from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import session as sessions
from .tables import counted

if TYPE_CHECKING:
    from ..emulator import MemoryFault

SCHEDULES = ("lazy", "eager", "late-wgmma", "late-copies", "random")
SEVERITIES = {"error": "", "warning": " (warning)", "compiler": " (by the compiler)"}
DEFAULT = ("lazy", "eager", "random")
CLEAN, FINDINGS, FAILED = 0, 1, 2


@dataclass
class Finding:
    """One hazard (or warning, or what a compiler made), with every schedule that showed it. `where`, `other`: 'file:line' or None; `frames`: of both ends
    ('here', 'there'), every frame of inlined functions from the kernel inwards."""

    kind: str
    message: str
    where: str | None
    other: str | None
    schedules: list[str] = field(default_factory=list)
    severity: str = "error"
    frames: dict[str, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind}{SEVERITIES[self.severity]}: {self.message}\n    schedules: {', '.join(self.schedules)}"

    def at_length(self) -> str:
        """The same with all frames of both ends, one per line."""
        ends = [f"    {end}: " + "\n        ".join(frames) for end, frames in self.frames.items()]
        return "\n".join([str(self), *ends])


@dataclass
class Run:
    """The script under one schedule. `error` is the traceback that ended it, or None; `launches` counts kernels."""

    schedule: str
    launches: int = 0
    error: str | None = None


@dataclass
class Report:
    """What `sanitize` found in one script. frames: findings are printed with all frames; by_compiler: those that a compiler made are printed one by one."""

    script: str
    runs: list[Run] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    frames: bool = False
    by_compiler: bool = False

    @property
    def exit_code(self) -> int:
        """1 with findings; 2 when the script itself failed or launched nothing; else 0. Warnings do not count."""
        if any(finding.severity == "error" for finding in self.findings):
            return FINDINGS
        return FAILED if any(run.error for run in self.runs) or not any(run.launches for run in self.runs) else CLEAN

    def __str__(self) -> str:
        launches = max((run.launches for run in self.runs), default=0)
        names = ", ".join(run.schedule for run in self.runs)
        compilers = [finding for finding in self.findings if finding.severity == "compiler"]
        shown = [finding for finding in self.findings if self.by_compiler or finding not in compilers]
        lines = [(finding.at_length() if self.frames else str(finding)) + "\n" for finding in shown]
        for error in dict.fromkeys(run.error for run in self.runs if run.error):
            under = ", ".join(run.schedule for run in self.runs if run.error == error)
            lines.append(f"{self.script} failed under {under}:\n{error.rstrip()}\n")
        if not launches:
            lines.append("no kernel was launched: sanitize watches kernels of hl.RawModule (and %%cuda, hl.load_kernel) in this script")
        count = sum(finding.severity == "error" for finding in self.findings)
        doubts = sum(finding.severity == "warning" for finding in self.findings)
        found = f"{count} finding{'s' if count != 1 else ''}" if count else "clean" if self.exit_code == CLEAN else "not clean"
        found += f", {doubts} warning{'s' if doubts != 1 else ''}" if doubts else ""
        if compilers and not self.by_compiler:
            from ..emulator.hazards.compiler_made import note
            lines.append(f"{note(compilers)}; --by-compiler lists {'them' if len(compilers) > 1 else 'it'}")
        judged = f"{found} in {counted(launches, 'launch', 'launches')}" if launches or count else "nothing judged, no launch"
        return "\n".join([*lines, f"hopperlab sanitize: {judged} under {names}"])

    def as_dict(self) -> dict[str, Any]:
        """Plain data for --json."""
        return {"script": self.script, "exit_code": self.exit_code, "runs": [asdict(run) for run in self.runs], "findings": [asdict(f) for f in self.findings]}


def plan(schedules: Sequence[str], seeds: int) -> list[tuple[str, int]]:
    """(schedule, seed) of each run: 'random' stands for `seeds` runs. Raises ValueError for an unknown schedule."""
    listed: list[tuple[str, int]] = []
    if seeds < 1:
        raise ValueError(f"--seeds {seeds}: at least 1")
    for name in schedules:
        if name not in SCHEDULES:
            raise ValueError(f"schedule {name!r}: choose from {', '.join(SCHEDULES)}")
        listed += [(name, seed) for seed in range(seeds)] if name == "random" else [(name, 0)]
    return list(dict.fromkeys(listed))


def writable(path: Path) -> None:
    """Raises ValueError when no file can be written there. Nothing is changed."""
    folder = path.absolute().parent
    why = ("it is a folder" if path.is_dir() else f"there is no folder {folder}" if not folder.is_dir()
           else "permission is denied" if not os.access(path if path.exists() else folder, os.W_OK) else "")
    if why:
        raise ValueError(f"--json {path} cannot be written: {why}")


def sanitize_any(command: Sequence[str], schedules: Sequence[str] = DEFAULT, seeds: int = 3, module: bool = False, levels: str = "") -> Report:
    """`sanitize` of a script, or of a .cu or .ptx file with its launch. Raises HopperlabError for what is wrong with the file or the launch."""
    from . import launch_file
    if module or not launch_file.is_kernel_file(command[0]):
        return sanitize(command, schedules, seeds, module, levels)
    launch_file.prepare(command)
    report = sanitize([launch_file.__name__, *command], schedules, seeds, True, levels)
    report.script = " ".join(command)
    return report


def sanitize(command: Sequence[str], schedules: Sequence[str] = DEFAULT, seeds: int = 3, module: bool = False, levels: str = "") -> Report:
    """Run a script (or, with module=True, `python -m` of its first word) under each schedule and collect the findings.

    command: the script and its arguments. Its output is shown for the first run only.
    levels: how loud kinds of hazard are that can be switched: "KIND=LEVEL,…". Raises ValueError for others.
    """
    from ..emulator.hazards.levels import parse
    report, known, loud = Report(" ".join(command)), {}, parse(levels)
    for number, (schedule, seed) in enumerate(plan(schedules, seeds)):
        run, hazards = _child(command, schedule, seed, module, loud, show=number == 0)
        report.runs.append(run)
        for hazard in hazards:
            key = (hazard["kind"], hazard["where"], hazard["other"], *hazard["key"])
            if key not in known:
                known[key] = Finding(hazard["kind"], hazard["message"], hazard["where"], hazard["other"], severity=hazard["severity"], frames=hazard["frames"])
                report.findings.append(known[key])
            if run.schedule not in known[key].schedules:
                known[key].schedules.append(run.schedule)
    report.findings.sort(key=lambda f: (list(SEVERITIES).index(f.severity), _line(f.where), f.kind, _line(f.other)))
    return report


def _line(place: str | None) -> tuple[str, int]:
    file, _, line = (place or ":0").rpartition(":")
    return file, int(line)


def _child(command: Sequence[str], schedule: str, seed: int, module: bool, levels: Mapping[str, str], show: bool) -> tuple[Run, list[dict[str, Any]]]:
    name = f"random({seed})" if schedule == "random" else schedule
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "findings.json"
        request = json.dumps({"schedule": schedule, "seed": seed, "module": module, "levels": levels, "answer": str(answer)})
        done = subprocess.run([sys.executable, "-m", "hopperlab.runtime.sanitize", request, *command],
                              stdout=None if show else subprocess.DEVNULL, stderr=None if show else subprocess.PIPE, text=True,
                              env={"HOPPERLAB_BACKEND": "emulator", **os.environ})
        if not answer.exists():
            return Run(name, error=f"the process ended with code {done.returncode} before it could report\n{done.stderr or ''}"), []
        told = json.loads(answer.read_text())
    return Run(name, told["launches"], told["error"]), told["hazards"]


# --- the child ----------------------------------------------------------------------------------------------------------
def main(arguments: list[str]) -> int:
    """Run the script of `arguments[1:]` as the request in `arguments[0]` says, and write the answer."""
    request, command = json.loads(arguments[0]), arguments[1:]
    how = sessions.Forced(request["schedule"], request["seed"], levels=request["levels"])
    faults: list[MemoryFault] = []
    with sessions.force(how, threads=True):
        error = run_script(command, request["module"], faults)
    hazards = [_plain(h.kind, h.message, h.where, h.other, h.severity, h.frames) for h in (*how.hazards(), *how.warnings(), *how.by_compiler())]
    hazards += [_plain(f.kind, str(f), f.site, None) for f in faults]
    launches = sum(session.launches for session in how.sessions)
    Path(request["answer"]).write_text(json.dumps({"launches": launches, "error": error, "hazards": hazards}))
    return 0


def run_script(command: list[str], module: bool, faults: list[MemoryFault]) -> str | None:
    """Run it as __main__; the traceback that ended it, or None. A MemoryFault that came through is a finding."""
    from ..emulator import HazardError, MemoryFault
    sys.argv = list(command)
    try:
        if module:
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(command[0]).resolve().parent)
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            return f"SystemExit: {end.code}"
    except MemoryFault as fault:
        faults.append(fault)
    except HazardError:
        pass                                    # its hazards are in the session
    except BaseException:
        return _own_frames(traceback.format_exc())
    return None


def _own_frames(text: str) -> str:
    """A traceback without the frames of this module and runpy."""
    lines, kept, skip = text.splitlines(), [], False
    for line in lines:
        if line.startswith("  File "):
            skip = "runpy" in line or "hopperlab/runtime/sanitize.py" in line
        elif not line.startswith("  "):
            skip = False
        if not skip:
            kept.append(line)
    return "\n".join(kept)


def _plain(kind: str, message: str, where: Any, other: Any, severity: str = "error", frames: dict[str, list[str]] | None = None) -> dict[str, Any]:
    def place(site: Any) -> str | None:
        return f"{site.file.rsplit('/', 1)[-1]}:{site.line}" if site is not None else None
    function = getattr(where, "function", None) or ""
    key = [message.split(" at ", 1)[0], function, *re.findall(r"PTX line \d+", message), *("<".join(v) for v in (frames or {}).values())]
    return {"kind": kind, "message": message, "where": place(where), "other": place(other), "key": key, "severity": severity, "frames": frames or {}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
