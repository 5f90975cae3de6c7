# SPDX-License-Identifier: Apache-2.0
"""The `hopperlab` command. Each subcommand is a function that returns an exit code; add one by adding a row to COMMANDS.

Modules are imported by the command that needs them, so that --help answers at once.
"""
from __future__ import annotations

import argparse
import difflib
import json
import os
import select
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .. import __version__
from ..runtime.language import LANGUAGES
from . import estimate, exercises, grading, measure, queue


SCRIPT_USAGE = "%(prog)s [-m] SCRIPT.py [its arguments] [options]"
SANITIZED = "SCRIPT.py|FILE.cu|FILE.ptx"
INTERRUPTED, UNREAD = 130, 141          # 128 and the number of SIGINT, of SIGPIPE


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
    from . import lab
    from ..authoring.learner import workspace
    root, start = workspace.find_root(given.course), given.course or Path.cwd()
    work, to = workspace.for_language(workspace.find_work(root, given.course), root, start, given.lang)
    return lab.run(_edition(root, to), given.others, work, to)


def _start(given: argparse.Namespace) -> int:
    from ..authoring.learner import workspace
    to = given.lang or workspace.language_of(given.folder)
    made = workspace.lay_out(_edition(workspace.find_root(), to), given.folder, to)
    print(f"Your copies are in {given.folder.resolve()}" + (f" ({len(made)} new)" if made else " (all there; nothing overwritten)"))
    print(f'Open them with:\n    cd "{given.folder}"\n    hopperlab lab')
    return 0


def _edition(root: Path, to: str) -> Path:
    """The course's folder in a language."""
    from ..authoring.editions import language_edition
    return language_edition.of(root, to)


def _restore(given: argparse.Namespace) -> int:
    from ..authoring.learner import workspace
    root = workspace.find_root(given.course)
    work = workspace.find_work(root, given.course)
    if work is None:
        raise workspace.WorkspaceError("there is no working folder here; make one with: hopperlab start DIR")
    for copy, kept in workspace.restore(_edition(root, workspace.language_of(work)), given.lesson, work):
        what = "exercises" if copy.parent.name == "exercises" else "lesson"
        print(f"restored the {what} {copy}" + (f"\n    your old one, answers and all, is {kept}" if kept else ""))
    return 0


def _cache(given: argparse.Namespace) -> int:
    from ..runtime.compile import cache
    from ..runtime.tables import counted
    if given.clear:
        print(f"removed {counted(cache.clear(), 'kernel')} from {cache.folder()}")
    else:
        used, count = cache.size_and_count()
        print(f"{cache.folder()}: {counted(count, 'kernel')}, {used / 1e6:.1f} of {cache.limit_bytes() / 1e6:.0f} MB")
    return 0


def _sanitize(given: argparse.Namespace) -> int:
    from ..runtime import sanitize
    from ..runtime.errors import HopperlabError
    command, asked = _script(given, _sanitize_options())
    try:
        sanitize.plan(asked.schedules.split(","), asked.seeds)
        if asked.json:
            sanitize.writable(asked.json)
        report = sanitize.sanitize_any(command, asked.schedules.split(","), asked.seeds, given.module, ",".join(asked.level))
        report.frames, report.by_compiler = asked.frames, asked.by_compiler
        print(report)
        if asked.json:
            asked.json.write_text(json.dumps(report.as_dict(), indent=1) + "\n", encoding="utf-8")
    except BrokenPipeError:
        raise
    except (ValueError, OSError, HopperlabError) as problem:
        print(f"hopperlab sanitize: {problem}", file=sys.stderr)
        return 2
    return report.exit_code


def _profile(given: argparse.Namespace) -> int:
    command, asked = _script(given, _profile_options())
    if asked.metrics == "lessons":
        from ..measure.profile import lesson_metrics
        return lesson_metrics.run(command, given.module, asked.kernel, asked.json, asked.launches)
    from ..measure.profile import counters
    return counters.run(command, module=given.module, only_emulator=asked.emulator, out=asked.json)


def _script(given: argparse.Namespace, options: argparse.ArgumentParser) -> tuple[list[str], argparse.Namespace]:
    """The script with its own arguments, and our options, which may stand before or behind it (all behind `--` are its own)."""
    words, own = list(given.words), []
    if "--" in words:
        words, own = words[:words.index("--")], words[words.index("--") + 1:]
    asked, rest = options.parse_known_args(words, namespace=argparse.Namespace(**{k: v for k, v in vars(given).items() if k != "words"}))
    if rest[:1] and rest[0].startswith("-"):
        options.error(f"unrecognized arguments: {rest[0]}")
    _refuse_misspelt(rest[1:], options)
    command = [*rest, *own]
    if not command:
        options.error("which script?")
    if not given.module and not Path(command[0]).is_file():
        options.error(f"there is no script {command[0]}")
    return command, asked


def _refuse_misspelt(words: list[str], options: argparse.ArgumentParser) -> None:
    """An option of the script that is nearly one of ours is an error: passed on, it would be lost without a word."""
    for word in (word.partition("=")[0] for word in words if word.startswith("--")):
        near = _nearest(word, options)
        if near:
            options.error(f"unrecognized option {word}: did you mean {near}? (options of the script's own stand behind --)")


def _nearest(word: str, options: argparse.ArgumentParser) -> str | None:
    """The option that somebody who wrote `word` may have meant."""
    known = [name for action in options._actions for name in action.option_strings]
    return next(iter(difflib.get_close_matches(word, known, n=1, cutoff=0.75)), None)


def _sanitize_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="hopperlab sanitize", usage=SCRIPT_USAGE.replace("SCRIPT.py", SANITIZED), add_help=False, allow_abbrev=False)
    options.add_argument("--schedules", default="lazy,eager,random", metavar="LIST",
                         help="which to run, comma-separated: lazy (operations land as late as the program allows), eager (at once), "
                              "late-wgmma, late-copies (one kind late, the other at once), random (default: lazy,eager,random)")
    options.add_argument("--seeds", type=int, default=3, metavar="N", help="how many random schedules (default 3)")
    options.add_argument("--level", action="append", default=[], metavar="KIND=LEVEL",
                         help="a kind of hazard that can be switched as error, warning or off: --level unfenced-overwrite=error")
    options.add_argument("--json", type=Path, metavar="FILE", help="also write the findings to FILE")
    options.add_argument("--frames", action="store_true", help="with each finding, every frame of the inlined functions that it lies in")
    options.add_argument("--by-compiler", action="store_true", help="list what a compiler (Triton) made and the source cannot mend, instead of one line about it")
    return options


def _profile_options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="hopperlab profile", usage=SCRIPT_USAGE, add_help=False, allow_abbrev=False)
    options.add_argument("--emulator", action="store_true", help="only the emulator's counters, without a GPU")
    options.add_argument("--metrics", choices=("counters", "lessons"), default="counters",
                         help="counters: what the emulator counts too, compared (default); lessons: what Nsight Compute says of tensor "
                              "cores, issue slots, traffic, shared memory, occupancy and stalls, each line explained")
    options.add_argument("--kernel", metavar="REGEX", help="with --metrics lessons: only kernels of this name")
    options.add_argument("--launches", type=int, metavar="N", help="with --metrics lessons: only the first N launches of them")
    options.add_argument("--json", type=Path, metavar="FILE", help="also write what was measured to FILE")
    return options


def _script_arguments(options: Callable[[], argparse.ArgumentParser], what: str = "SCRIPT.py") -> Callable[[argparse.ArgumentParser], None]:
    def add(parser: argparse.ArgumentParser) -> None:
        for action in options()._actions:
            parser._add_action(action)
        parser.usage = SCRIPT_USAGE.replace("SCRIPT.py", what)
        parser.add_argument("-m", dest="module", action="store_true", help="SCRIPT is a module, as in python -m: -m pytest tests/")
        parser.add_argument("words", nargs=argparse.REMAINDER, metavar=f"{what} [arguments]",
                            help="the script (or file) and its arguments; ours may stand behind it too, those after -- are the script's")
    return add


def _course(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--course", type=Path, metavar="FOLDER", help="the course's folder (default: found from here upwards)")


def _lang(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lang", choices=tuple(LANGUAGES),
                        help=f"the language: {', '.join(f'{code} ({own})' for code, own in LANGUAGES.items())} (default: the folder's own, else en)")


def _lab_arguments(parser: argparse.ArgumentParser) -> None:
    _course(parser)
    _lang(parser)


def _start_arguments(parser: argparse.ArgumentParser) -> None:
    _lang(parser)
    parser.add_argument("folder", type=Path, metavar="DIR", help="a new or empty folder, or one that was started before")


def _restore_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("lesson", help="its number, such as 05 or 05x, or its file's name")
    _course(parser)


def _cache_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--clear", action="store_true", help="remove all compiled kernels")


COMMANDS = (
    Command("doctor", "check this machine: one screen, and the command that mends each problem",
            "Exit code 0 only when lessons can run.", lambda parser: None, _doctor),
    Command("start", "lay out a working folder: your copies of the lessons and exercises, and the pages they link to",
            "For an installation without a clone: a wheel carries the course. Overwrites nothing; in a folder that was started before it adds what is new.",
            _start_arguments, _start),
    Command("lab", "open JupyterLab on the landing page, on your copies",
            "In a clone the copies are in work/; elsewhere in the folder that `hopperlab start` made, at or above this one, and where there is none in "
            "hopperlab-course, here. Copies what is missing and overwrites nothing. Other arguments go to `jupyter lab`, such as "
            "--no-browser or --port=8899.", _lab_arguments, _lab, passes_on=True),
    Command("restore", "reset your copies of one lesson and of its exercises; the old ones are kept beside them",
            "Your answers to the lesson's exercises are reset with it. Each replaced notebook goes to .replaced/ beside it, from where it can be copied back. Exit "
            "code 0: reset; 2: no such lesson, or no working folder.", _restore_arguments, _restore),
    Command("check", "judge the answers saved in an exercise notebook, each with the first thing that is wrong",
            "The answers are taken out of work/exercises/ (else exercises/) and judged as hl.check does. Exit code 0: all right; 1: not yet; "
            "2: no such notebook.", exercises.check_arguments, exercises.check),
    Command("assign", "write a class's own edition of the exercises: constants, inputs and hidden checks drawn from a key",
            "DIR/learners is for learners; DIR/instructor holds solutions, hidden checks and edition.json for `hopperlab grade`. Every keyed "
            "solution is run first (about ten seconds a lesson). Exit code 0: written; 2: bad input.", exercises.assign_arguments, exercises.assign),
    Command("sanitize", "run the kernels of a script, or of a .cu or .ptx file, in the emulator under several schedules and name every hazard",
            "For any script that uses hopperlab.RawModule or hl.from_triton, and for one launch of a .cu or .ptx file: hopperlab sanitize FILE.cu --grid 4 "
            "--block 128 --args f32[512] i32=512 (hopperlab sanitize FILE.cu --help tells all; docs/your-kernels.md has an example of each). Needs no GPU. "
            "It runs once under each schedule, in a process of its own. A script that makes CuPy arrays itself needs a GPU and HOPPERLAB_BACKEND=gpu; its kernels run in "
            "the emulator nevertheless. Exit code 0: clean; 1: findings; 2: the script itself failed or launched nothing, or something is wrong with the "
            "command line or the file.",
            _script_arguments(_sanitize_options, SANITIZED), _sanitize),
    Command("profile", "what Nsight Compute says of a script's kernels, in the lessons' words or beside the emulator's counters",
            "Launch by launch: --metrics counters compares wavefronts, bank conflicts, sectors and bytes with the emulator's; --metrics lessons "
            "explains where the time goes. Needs a Hopper GPU and ncu, except with --emulator. One step of the ladder: hopperlab profile "
            "--metrics lessons --kernel gemm -m hopperlab.measure.profile.step final 4096. Exit code 0: measured (and equal); 1: different; "
            "2: not measured.", _script_arguments(_profile_options), _profile),
    Command("bench", "time the course's kernels beside cuBLAS, PyTorch, Triton and cudaMemcpy on this GPU", measure.BENCH_DETAILS,
            measure.bench_arguments, measure.bench),
    Command("estimate", "estimate a kernel's time on an H200 or H100, without a GPU, with its range and what bounds it", estimate.DETAILS, estimate.arguments,
            estimate.run, passes_on=True),
    Command("ladder", "tell the story of the product ladder: each step, its speed, its share of cuBLAS, what it gained",
            "From the recording `ladder`, measured on an H200, or from a file of your own.", measure.ladder_arguments, measure.ladder),
    Command("queue", "share one GPU among many learners: serve launches one at a time, fair by user", queue.DETAILS, queue.arguments, queue.run),
    Command("grade", "grade a folder or zip of submitted exercise notebooks", grading.DETAILS, grading.arguments, grading.run),
    Command("cache", "show or clear the disk cache of compiled kernels",
            "HOPPERLAB_CACHE_DIR moves it, HOPPERLAB_CACHE_MB sets its limit.", _cache_arguments, _cache),
)


def parser() -> argparse.ArgumentParser:
    """The command line's parser."""
    top = argparse.ArgumentParser(prog="hopperlab", description="A course in asynchronous programming on NVIDIA Hopper.",
                                  epilog="HOPPERLAB_BACKEND=gpu|emulator|auto says where kernels run, HOPPERLAB_COMPILER=nvrtc|clang|auto "
                                         "what compiles them for the emulator. `hopperlab COMMAND --help` tells more.")
    top.add_argument("--version", action="version", version=f"hopperlab {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=f"{command.help}. {command.details}")
        command.add_arguments(sub)
        sub.set_defaults(entry=command, own=sub)
    return top


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit code: 2 for a command line that is not understood, and as shells have it 130 after Ctrl-C and 141 where what reads
    the output has ended (`| head`)."""
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        print("\nhopperlab: stopped", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        if not _unread():
            raise                           # it was another pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())      # for what Python flushes at its end
        return UNREAD


def _unread() -> bool:
    """Whether what read our output has ended."""
    if not hasattr(select, "poll"):         # Windows
        return True
    asked = select.poll()
    asked.register(sys.stdout, 0)
    return any(event & select.POLLERR for _, event in asked.poll(0))


def _run(argv: list[str] | None) -> int:
    top = parser()
    given, others = top.parse_known_args(argv)
    if others and not given.entry.passes_on:
        near = _nearest(others[0], given.own)
        given.own.error(f"unrecognized arguments: {' '.join(others)}" + (f": did you mean {near}?" if near else ""))
    given.others = [a for a in others if a != "--"]
    from ..runtime.errors import HopperlabError
    from ..authoring.learner.workspace import WorkspaceError
    try:
        return given.entry.run(given)
    except (HopperlabError, WorkspaceError) as problem:
        print(f"hopperlab: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, WorkspaceError) else 1
