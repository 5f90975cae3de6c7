"""The command line: build the notebooks from their sources, execute them in the present place, check what is stored."""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path

from . import build, check


def main(arguments: list[str] | None = None) -> int:
    """Parse and run; returns the exit status: 0 when all went well, 1 with findings or a cell that raised."""
    parser = argparse.ArgumentParser(prog="python -m hopperlab.notebooks", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb, help_ in (("build", "text sources to notebooks, keeping outputs that are still fresh"),
                        ("execute", "build, then run each notebook here and store its outputs"),
                        ("check", "say what is stale, missing, out of order or wrong"),
                        ("precompile", "collect the PTX that ships for machines without NVRTC; the name `exercises` is that of all exercises"),
                        ("site", "render lessons, docs and API reference as HTML in build/site/html"),
                        ("bundle", "write a folder that installs and runs offline; names are further extras, such as cuda13"),
                        ("mutations", "apply the mutations of these lessons' kernels and show what nbval says"),
                        ("readme", "write the README's table of lessons"),
                        ("pictures", "draw the README's picture from a run"),
                        ("draft", "new solution notebooks from drafts in Markdown (names are files)"),
                        ("solutions", "run the solution notebooks and store their outputs, then write exercises/"),
                        ("exercises", "write exercises/ from solutions/")):
        sub = verbs.add_parser(verb, help=help_)
        sub.add_argument("lessons", nargs="*", help="lesson numbers or names; all when none is given")
        if verb in ("execute", "solutions"):
            sub.add_argument("--backend", choices=("gpu", "emulator"), help="where to run (default: HOPPERLAB_BACKEND, else automatic)")
    options = parser.parse_args(arguments)
    if options.verb == "pictures":
        return _pictures()
    if options.verb == "readme":
        from . import readme
        print("README.md changed" if readme.write() else "README.md is as it should be")
        return 0
    if options.verb == "mutations":
        return _mutations(options.lessons)
    if options.verb == "site":
        return _site()
    if options.verb == "bundle":
        from . import bundle
        print(f"read {bundle.build(extras=options.lessons) / 'START.md'}")
        return 0
    if options.verb in ("draft", "solutions", "exercises"):
        return _exercises(options)
    exercises = options.verb == "precompile" and (not options.lessons or "exercises" in options.lessons)
    lessons = [name for name in options.lessons if not (exercises and name == "exercises")]
    sources = build.sources(lessons) if lessons or not options.lessons else []
    if options.verb == "check":
        return _check(sources)
    if options.verb == "precompile":
        return _precompile([path for path in sources if path in build.lesson_sources()], bool(options.lessons), exercises)
    for path in sources:
        print(f"built {build.build(path).name}", flush=True)
    return _execute(sources, options.backend) if options.verb == "execute" else 0


def _execute(sources, backend: str | None) -> int:
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    from .execute import execute

    failed = 0
    for path in sources:
        name = build.notebook_path(path).name
        print(f"executing {name} …", flush=True)
        began = time.perf_counter()
        try:
            _, seconds, place = execute(build.notebook_path(path), backend)
            print(f"  {seconds:.1f} s on {place.get('gpu', place['backend'])}", flush=True)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            failed += 1
            print(f"  failed after {time.perf_counter() - began:.1f} s; the stored file is as it was\n{error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _exercises(options) -> int:
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    from ..grading import generate
    from . import hashes, solutions

    if options.verb == "draft":
        for name in options.lessons:
            print(f"wrote {solutions.from_draft(Path(name)).name}")
        return 0
    failed = 0
    for path in generate.solutions(hashes.ROOT) if options.verb == "solutions" else ():
        if options.lessons and not path.stem.startswith(tuple(options.lessons)):
            continue
        try:
            print(f"executing {path.name} …", flush=True)
            print(f"  {solutions.run(path, options.backend):.1f} s", flush=True)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            failed += 1
            print(f"  failed; the stored file is as it was\n{error}", file=sys.stderr, flush=True)
    for path in generate.write(hashes.ROOT):
        print(f"wrote {path.relative_to(hashes.ROOT)}")
    return 1 if failed else 0


def _precompile(sources, chosen: bool, exercises: bool) -> int:
    from nbclient.exceptions import CellExecutionError, DeadKernelError

    from . import precompile

    failed = 0
    if not chosen:
        kept = {precompile.archive(path) for path in sources} | {precompile.exercises_archive()} | {precompile.archive(build.SOURCES / f"{precompile.PROBE}.md")}
        for path in set(precompile.precompiled_ptx.FOLDER.glob(f"*{precompile.precompiled_ptx.SUFFIX}")) - kept:
            path.unlink()
        precompile.collect_probe()
    jobs = {path.stem: partial(precompile.bring_up_to_date, path) for path in sources}
    if exercises:
        jobs[precompile.EXERCISES] = precompile.collect_exercises
    for name, job in jobs.items():
        began = time.perf_counter()
        try:
            kernels, size = job()
            print(f"{name}: {kernels} compilations, {size / 1e3:.0f} kB, {time.perf_counter() - began:.0f} s", flush=True)
        except (CellExecutionError, DeadKernelError) as error:
            failed += 1
            print(f"{name}: failed; the stored PTX is as it was\n{error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _mutations(lessons) -> int:
    from . import hashes, mutations

    unnoticed = 0
    for mutation in mutations.read(hashes.ROOT / "tests" / "notebooks" / "mutations.toml"):
        if not lessons or mutation.lesson in lessons:
            verdict = mutations.outcome(mutation, mutation.lesson, mutation.cell, mutation.needs)
            unnoticed += not verdict
            print(f"{mutation.name}\n    {verdict or 'NOT NOTICED'}", flush=True)
    return 1 if unnoticed else 0


def _site() -> int:
    from . import site

    try:
        print(f"open {site.build() / 'index.html'}")
    except RuntimeError as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _pictures() -> int:
    from . import pictures

    for path in pictures.draw():
        print(f"drew {path.name}")
    return 0


def _check(sources) -> int:
    findings = [finding for path in sources for finding in check.check(path)]
    for finding in findings:
        print(finding)
    for path in sources:
        print(f"{path.stem}: outputs from {check.places(path)}")
    print(f"{len(sources)} notebooks checked, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
