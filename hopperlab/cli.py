"""The `hopperlab` command. Each subcommand is a function that returns an exit code; add one by adding a row to COMMANDS.

Modules are imported by the command that needs them, so that --help answers at once.
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import __version__


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
    Command("lab", "open JupyterLab on lesson 00, on copies in work/",
            "Copies what is missing in work/ and overwrites nothing. Other arguments go to `jupyter lab`, such as "
            "--no-browser or --port=8899.", _course, _lab, passes_on=True),
    Command("restore", "reset your copy of one lesson; the old one is kept beside it",
            "The replaced notebook goes to work/.replaced/.", _restore_arguments, _restore),
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
