"""`hopperlab sanitize SCRIPT.py`: any script's kernels under several schedules, each in a process of its own; findings once each.

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
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import session as sessions

SCHEDULES = ("lazy", "eager", "late-wgmma", "late-copies", "random")
DEFAULT = ("lazy", "eager", "random")
CLEAN, FINDINGS, FAILED = 0, 1, 2


@dataclass
class Finding:
    """One hazard (or warning), with every schedule that showed it. `where`, `other`: 'file:line' or None."""

    kind: str
    message: str
    where: str | None
    other: str | None
    schedules: list[str] = field(default_factory=list)
    severity: str = "error"

    def __str__(self) -> str:
        return f"{self.kind}{' (warning)' if self.severity == 'warning' else ''}: {self.message}\n    schedules: {', '.join(self.schedules)}"


@dataclass
class Run:
    """The script under one schedule. `error` is the traceback that ended it, or None; `launches` counts kernels."""

    schedule: str
    launches: int = 0
    error: str | None = None


@dataclass
class Report:
    """What `sanitize` found in one script."""

    script: str
    runs: list[Run] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1 with findings; 2 when the script itself failed or launched nothing; else 0. Warnings do not count."""
        if any(finding.severity == "error" for finding in self.findings):
            return FINDINGS
        return FAILED if any(run.error for run in self.runs) or not any(run.launches for run in self.runs) else CLEAN

    def __str__(self) -> str:
        launches = max((run.launches for run in self.runs), default=0)
        names = ", ".join(run.schedule for run in self.runs)
        lines = [str(finding) + "\n" for finding in self.findings]
        for error in dict.fromkeys(run.error for run in self.runs if run.error):
            under = ", ".join(run.schedule for run in self.runs if run.error == error)
            lines.append(f"{self.script} failed under {under}:\n{error.rstrip()}\n")
        if not launches:
            lines.append("no kernel was launched: sanitize watches kernels of hl.RawModule (and %%cuda, hl.load_kernel) in this script")
        count = sum(finding.severity == "error" for finding in self.findings)
        doubts = len(self.findings) - count
        found = f"{count} finding{'s' if count != 1 else ''}" if count else "clean" if self.exit_code == CLEAN else "not clean"
        found += f", {doubts} warning{'s' if doubts != 1 else ''}" if doubts else ""
        return "\n".join([*lines, f"hopperlab sanitize: {found} in {launches} {'launch' if launches == 1 else 'launches'} under {names}"])

    def as_dict(self) -> dict:
        """Plain data for --json."""
        return {"script": self.script, "exit_code": self.exit_code, "runs": [asdict(run) for run in self.runs], "findings": [asdict(f) for f in self.findings]}


def plan(schedules: Sequence[str], seeds: int) -> list[tuple[str, int]]:
    """(schedule, seed) of each run: 'random' stands for `seeds` runs. Raises ValueError for an unknown schedule."""
    listed = []
    for name in schedules:
        if name not in SCHEDULES:
            raise ValueError(f"schedule {name!r}: choose from {', '.join(SCHEDULES)}")
        listed += [(name, seed) for seed in range(seeds)] if name == "random" else [(name, 0)]
    return list(dict.fromkeys(listed))


def sanitize(command: Sequence[str], schedules: Sequence[str] = DEFAULT, seeds: int = 3, module: bool = False) -> Report:
    """Run a script (or, with module=True, `python -m` of its first word) under each schedule and collect the findings.

    command: the script and its arguments. Its output is shown for the first run only.
    """
    report, known = Report(" ".join(command)), {}
    for number, (schedule, seed) in enumerate(plan(schedules, seeds)):
        run, hazards = _child(command, schedule, seed, module, show=number == 0)
        report.runs.append(run)
        for hazard in hazards:
            key = (hazard["kind"], hazard["where"], hazard["other"], *hazard["key"])
            if key not in known:
                known[key] = Finding(hazard["kind"], hazard["message"], hazard["where"], hazard["other"], severity=hazard["severity"])
                report.findings.append(known[key])
            if run.schedule not in known[key].schedules:
                known[key].schedules.append(run.schedule)
    report.findings.sort(key=lambda f: (f.severity == "warning", _line(f.where), f.kind, _line(f.other)))
    return report


def _line(place: str | None) -> tuple[str, int]:
    file, _, line = (place or ":0").rpartition(":")
    return file, int(line)


def _child(command: Sequence[str], schedule: str, seed: int, module: bool, show: bool) -> tuple[Run, list[dict]]:
    name = f"random({seed})" if schedule == "random" else schedule
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "findings.json"
        request = json.dumps({"schedule": schedule, "seed": seed, "module": module, "answer": str(answer)})
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
    how = sessions.Forced(request["schedule"], request["seed"])
    faults: list[BaseException] = []
    with sessions.force(how, threads=True):
        error = run_script(command, request["module"], faults)
    hazards = [_plain(h.kind, h.message, h.where, h.other, h.severity) for h in (*how.hazards(), *how.warnings())]
    hazards += [_plain(f.kind, str(f), f.site, None) for f in faults]
    launches = sum(session.launches for session in how.sessions)
    Path(request["answer"]).write_text(json.dumps({"launches": launches, "error": error, "hazards": hazards}))
    return 0


def run_script(command: list[str], module: bool, faults: list) -> str | None:
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


def _plain(kind: str, message: str, where, other, severity: str = "error") -> dict:
    def place(site):
        return f"{site.file.rsplit('/', 1)[-1]}:{site.line}" if site is not None else None
    function = getattr(where, "function", None) or ""
    key = [message.split(" at ", 1)[0], function, *re.findall(r"PTX line \d+", message)]
    return {"kind": kind, "message": message, "where": place(where), "other": place(other), "key": key, "severity": severity}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
