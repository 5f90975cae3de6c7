"""The `hopperlab` command. Each subcommand is a function that returns an exit code; add one by adding a row to COMMANDS.

Modules are imported by the command that needs them, so that --help answers at once.
"""
from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import __version__, cli_exercises, cli_grading, cli_measure, cli_queue


@dataclass(frozen=True)
class Command:
    """One subcommand: its name, one line of help, what it adds to the parser, and what it does.

    `passes_on`: arguments it does not know are kept in `others` instead of being errors.
    """

    name: str
    help: str
    details: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    passes_on: bool = False


def _doctor(_given: argparse.Namespace) -> int:
    from . import doctor
    return doctor.report()


def _lab(given: argparse.Namespace) -> int:
    from . import lab, workspace
    return lab.run(workspace.find_root(given.course), given.others)


def _restore(given: argparse.Namespace) -> int:
    from . import workspace
    for copy, kept in workspace.restore(workspace.find_root(given.course), given.lesson):
        print(f"restored {copy}" + (f"\n    the old one is {kept}" if kept else ""))
    return 0


def _cache(given: argparse.Namespace) -> int:
    from .runtime import cache
    if given.clear:
        print(f"removed {cache.clear()} kernels from {cache.folder()}")
    else:
        used, count = cache.size_and_count()
        print(f"{cache.folder()}: {count} kernels, {used / 1e6:.1f} of {cache.limit_bytes() / 1e6:.0f} MB")
    return 0


def _sanitize(given: argparse.Namespace) -> int:
    from .runtime import sanitize
    command, asked = _script(given, _sanitize_options())
    try:
        report = sanitize.sanitize(command, asked.schedules.split(","), asked.seeds, module=given.module)
    except ValueError as problem:
        print(f"hopperlab sanitize: {problem}", file=sys.stderr)
        return 2
    print(report)
    if asked.json:
        asked.json.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    return report.exit_code


def _profile(given: argparse.Namespace) -> int:
    command, asked = _script(given, _profile_options())
    if asked.metrics == "lessons":
        from .measure import profile_lessons
        return profile_lessons.run(command, given.module, asked.kernel, asked.json, asked.launches)
    from .measure import profile
    return profile.run(command, module=given.module, only_emulator=asked.emulator, out=asked.json)


def _script(given: argparse.Namespace, options: argparse.ArgumentParser) -> tuple[list[str], argparse.Namespace]:
    """The script with its own arguments, and our options, which may stand before or behind it (all behind `--` are its own)."""
    words, own = list(given.words), []
    if "--" in words:
        words, own = words[:words.index("--")], words[words.index("--") + 1:]
    asked, rest = options.parse_known_args(words, namespace=argparse.Namespace(**{k: v for k, v in vars(given).items() if k != "words"}))
    if rest[:1] and rest[0].startswith("-"):
        options.error(f"unrecognized arguments: {rest[0]}")
    command = [*rest, *own]
    if not command:
        options.error("which script?")
    if not given.module and not Path(command[0]).is_file():
        options.error(f"there is no script {command[0]}")
    return command, asked


def _sanitize_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="hopperlab sanitize", add_help=False, allow_abbrev=False)
    options.add_argument("--schedules", default="lazy,eager,random", metavar="LIST",
                         help="which to run, comma-separated: lazy (operations land as late as the program allows), eager (at once), "
                              "late-wgmma, late-copies (one kind late, the other at once), random (default: lazy,eager,random)")
    options.add_argument("--seeds", type=int, default=3, metavar="N", help="how many random schedules (default 3)")
    options.add_argument("--json", type=Path, metavar="FILE", help="also write the findings to FILE")
    return options


def _profile_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="hopperlab profile", add_help=False, allow_abbrev=False)
    options.add_argument("--emulator", action="store_true", help="only the emulator's counters, without a GPU")
    options.add_argument("--metrics", choices=("counters", "lessons"), default="counters",
                         help="counters: what the emulator counts too, compared (default); lessons: what Nsight Compute says of tensor "
                              "cores, issue slots, traffic, shared memory, occupancy and stalls, each line explained")
    options.add_argument("--kernel", metavar="REGEX", help="with --metrics lessons: only kernels of this name")
    options.add_argument("--launches", type=int, metavar="N", help="with --metrics lessons: only the first N launches of them")
    options.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured to FILE")
    return options


def _script_arguments(options: Callable[[], argparse.ArgumentParser]) -> Callable[[argparse.ArgumentParser], None]:
    def add(parser: argparse.ArgumentParser) -> None:
        for action in options()._actions:
            parser._add_action(action)
        parser.usage = f"{parser.prog} [-m] SCRIPT.py [arguments of the script] [options]"
        parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as in python -m: -m pytest tests/")
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar="SCRIPT.py [arguments]",
                            help="the script and its arguments; ours may stand behind it too, those after -- are the script's")
    return add


def _course(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--course", type=Path, metavar="FOLDER", help="the course's folder (default: found from here upwards)")


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lesson", help="its number, such as 05 or 05x, or its file's name")
    _course(parser)


def _cache_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="remove all compiled kernels")


COMMANDS = (
    Command("doctor", "check this machine: one screen, and the command that mends each problem",
            "Exit code 0 only when lessons can run.", lambda parser: None, _doctor),
    Command("lab", "open JupyterLab on the landing page, on copies in work/",
            "Copies what is missing in work/ and overwrites nothing. Other arguments go to `jupyter lab`, such as "
            "--no-browser or --port=8899.", _course, _lab, passes_on=True),
    Command("restore", "reset your copy of one lesson; the old one is kept beside it",
            "The replaced notebook goes to work/.replaced/.", _restore_arguments, _restore),
    Command("check", "judge the answers saved in an exercise notebook, each with the first thing that is wrong",
            "The answers are taken out of work/exercises/ (else exercises/) and judged as hl.check does. Exit code 0: all right; 1: not yet; "
            "2: no such notebook.", cli_exercises.check_arguments, cli_exercises.check),
    Command("assign", "write a class's own edition of the exercises: constants, inputs and hidden checks drawn from a key",
            "DIR/learners is for learners; DIR/instructor holds solutions, hidden checks and edition.json for `hopperlab grade`. Every keyed "
            "solution is run first (about ten seconds a lesson). Exit code 0: written; 2: bad input.", cli_exercises.assign_arguments, cli_exercises.assign),
    Command("sanitize", "run a script's kernels in the emulator under several schedules and name every hazard",
            "For any script that uses hopperlab.RawModule, also with foreign PTX (ptx=...); needs no GPU. The script runs once under each "
            "schedule, in a process of its own. A script that makes CuPy arrays itself needs a GPU and HOPPERLAB_BACKEND=gpu; its kernels run in "
            "the emulator nevertheless. Exit code 0: clean; 1: findings; 2: the script itself failed or launched nothing.",
            _script_arguments(_sanitize_options), _sanitize),
    Command("profile", "what Nsight Compute says of a script's kernels, in the lessons' words or beside the emulator's counters",
            "Launch by launch: --metrics counters compares wavefronts, bank conflicts, sectors and bytes with the emulator's; --metrics lessons "
            "explains where the time goes. Needs a Hopper GPU and ncu, except with --emulator. One step of the ladder: hopperlab profile "
            "--metrics lessons --kernel gemm -m hopperlab.measure.profile_step final 4096. Exit code 0: measured (and equal); 1: different; "
            "2: not measured.", _script_arguments(_profile_options), _profile),
    Command("bench", "time the course's kernels beside cuBLAS, PyTorch, Triton and cudaMemcpy on this GPU", cli_measure.BENCH_DETAILS,
            cli_measure.bench_arguments, cli_measure.bench),
    Command("ladder", "tell the story of the product ladder: each step, its speed, its share of cuBLAS, what it gained",
            "From the recording `ladder`, measured on an H200, or from a file of your own.", cli_measure.ladder_arguments, cli_measure.ladder),
    Command("queue", "share one GPU among many learners: serve launches one at a time, fair by user", cli_queue.DETAILS, cli_queue.arguments, cli_queue.run),
    Command("grade", "grade a folder or zip of submitted exercise notebooks", cli_grading.DETAILS, cli_grading.arguments, cli_grading.run),
    Command("cache", "show or clear the disk cache of compiled kernels",
            "HOPPERLAB_CACHE_DIR moves it, HOPPERLAB_CACHE_MB sets its limit.", _cache_arguments, _cache),
)


def parser() -> argparse.ArgumentParser:
    """The command line's parser."""
    top = argparse.ArgumentParser(prog="hopperlab", description="A course in asynchronous programming on NVIDIA Hopper.",
                                  epilog="HOPPERLAB_BACKEND=gpu|emulator|auto says where kernels run. "
                                         "`hopperlab COMMAND --help` tells more.")
    top.add_argument("--version", action="version", version=f"hopperlab {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=f"{command.help}. {command.details}")
        command.add_arguments(sub)
        sub.set_defaults(entry=command)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code (2 for a command line that is not understood)."""
    top = parser()
    given, others = top.parse_known_args(argv)
    if others and not given.entry.passes_on:
        top.error(f"unrecognized arguments: {' '.join(others)}")
    given.others = [a for a in others if a != "--"]
    from .runtime.errors import HopperlabError
    from .workspace import WorkspaceError
    try:
        return given.entry.run(given)
    except (HopperlabError, WorkspaceError) as problem:
        print(f"hopperlab: {problem}", file=sys.stderr)
        return 1
