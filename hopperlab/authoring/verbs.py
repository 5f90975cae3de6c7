# SPDX-License-Identifier: Apache-2.0
"""What `python -m hopperlab.authoring VERB` does: one function a verb, which takes the parsed command line and returns the exit code, and the table of them."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..grading import generate
from ..runtime.language import ENGLISH, LANGUAGES
from ..runtime.progress import Bar
from . import hashes
from .notebooks import build, solutions, stored


@dataclass(frozen=True)
class Verb:
    """One verb: its name, one line of help, what it does, and the options it takes besides names, each with what argparse is told."""

    name: str
    help: str
    run: Callable[[argparse.Namespace], int]
    options: Mapping[str, dict] = field(default_factory=dict)


def above_zero(kind: Callable[[str], float]) -> Callable[[str], float]:
    """A type of argparse: a number of this kind, larger than zero."""
    def parse(text: str) -> float:
        if not kind(text) > 0:
            raise argparse.ArgumentTypeError(f"{text} is not above zero")
        return kind(text)
    parse.__name__ = kind.__name__
    return parse


WHERE = {"--backend": {"choices": ("gpu", "emulator"), "help": "where to run (default: HOPPERLAB_BACKEND, else automatic)"}}
VOUCH = {"--backend": {"choices": ("gpu", "emulator"), "default": "emulator", "help": "where to run (default: emulator); on a GPU everything stale is stored"},
         "--vouch": {"action": "store_true", "help": "you say that ignored outputs from a GPU are still right where no kernel changed"},
         "--all": {"action": "store_true", "help": "run and compare every compared cell, stale or not: after a change in words that lessons show, such as "
                                                   "those of hazards"},
         "--take": {"action": "store_true", "help": "you say that compared texts which differ are right as they are now: store them"}}

LAUNCHES = {"--seconds": {"type": above_zero(float), "metavar": "S", "help": "stop after so many seconds, small panels first; the next call goes on (default: no limit)"},
            "--jobs": {"type": above_zero(int), "metavar": "N", "help": "so many panels at once (default: one a processor)"}}


EDITION = {"--lang": {"choices": tuple(LANGUAGES), "default": ENGLISH,
                      "help": "write the edition in this language, all of it, below build/editions (default: en, the notebooks of the repository)"}}
TRANSLATED = {"--lang": {"choices": tuple(code for code in LANGUAGES if code != ENGLISH), "default": "zh", "help": "the language (default: %(default)s)"},
              "--stub": {"action": "store_true", "help": "write a block for every cell of these lessons into their translations, the English of what is to do "
                                                         "in a comment"},
              "--strings": {"action": "store_true", "help": "run these lessons in the emulator and print the strings they show that no table has, as lines of TOML"},
              "--exercises": {"action": "store_true", "help": "the exercises of these lessons instead (solutions/sources)"}}


def _build(given: argparse.Namespace) -> int:
    if getattr(given, "lang", ENGLISH) != ENGLISH:
        from .editions import language_edition

        print(f"the edition is in {language_edition.of(hashes.ROOT, given.lang).relative_to(hashes.ROOT)}")
        return 0
    for path in build.sources(given.lessons):
        print(f"built {build.build(path).name}", flush=True)
    return _exercises(given)


def _execute(given: argparse.Namespace) -> int:
    from .notebooks.execute import execute

    _build(given)
    return _each(map(build.notebook_path, build.sources(given.lessons)), lambda path: execute(path, given.backend)[2])


def _each(notebooks: Iterable[Path], run: Callable[[Path], dict]) -> int:
    """Run the notebooks, saying so; 1 when one failed."""
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    failed = 0
    for path in notebooks:
        print(f"executing {path.name} …", flush=True)
        began = time.perf_counter()
        try:
            place = run(path)
            print(f"  {time.perf_counter() - began:.1f} s on {place.get('gpu', place['backend'])}", flush=True)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            failed += 1
            print(f"  failed after {time.perf_counter() - began:.1f} s; the stored file is as it was\n{error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def _check(given: argparse.Namespace) -> int:
    sources, exercises = build.sources(given.lessons), solutions.sources(given.lessons)
    findings = [finding for path in sources for finding in stored.check(path)] + [finding for path in exercises for finding in stored.check_solution(path)]
    findings += generate.drift(hashes.ROOT)
    for finding in findings:
        print(finding)
    notebooks = [*map(build.notebook_path, [*sources, *exercises])]
    for path in notebooks:
        print(f"{path.parent.name}/{path.stem}: outputs from {stored.places(path)}")
    for words in filter(None, map(stored.not_compared, notebooks)):
        print(words)
    print(f"{len(notebooks)} notebooks checked, {len(findings)} findings")
    return 1 if findings else 0


def _restamp(given: argparse.Namespace) -> int:
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    from .stamps import made_of
    from .notebooks.restamp import restamp

    if not made_of.comparable():
        print(f"Stamps are made of {made_of.toolchain_name()}'s PTX, and that compiler is not installed here.", file=sys.stderr)
        return 1
    _build(given)
    open_ = 0
    for path in map(build.notebook_path, [*build.sources(given.lessons), *solutions.sources(given.lessons)]):
        progress = _Progress(f"{path.parent.name}/{path.stem}")
        try:
            outcome = restamp(path, given.backend, given.vouch, progress, given.all, given.take)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            open_ += 1
            print(f"{path.stem}: a cell failed; the stored file is as it was\n{error}", file=sys.stderr, flush=True)
            continue
        finally:
            progress.close()
        if outcome is not None:
            open_ += len(outcome.gpu) + len(outcome.different)
            print(outcome, flush=True)
    _exercises(given)
    print(f"{open_} outputs are left" if open_ else "no output is stale")
    return 1 if open_ else 0


class _Progress:
    """How many cells of a notebook have run: a bar that a terminal sees grow, one line elsewhere. The bar comes with the first cell."""

    def __init__(self, name: str):
        self._name, self._bar = name, None

    def __call__(self, done: int, cells: int) -> None:
        self._bar = self._bar or Bar("{desc} |{bar}| {n_fmt} of {total_fmt} cells", cells)
        if self._bar.terminal or done == 0:
            self._bar.tell(done, self._name)

    def close(self) -> None:
        """Nothing more runs."""
        if self._bar is not None:
            self._bar.close()


def _bundle(given: argparse.Namespace) -> int:
    from .shipping import bundle

    print(f"read {bundle.build(extras=given.lessons) / 'START.md'}")
    return 0


def _mutations(given: argparse.Namespace) -> int:
    from .notebooks import mutations

    unnoticed = 0
    for mutation in mutations.read(hashes.ROOT / "tests" / "notebooks" / "mutations.toml"):
        if not given.lessons or mutation.lesson in given.lessons:
            verdict = mutations.outcome(mutation, mutation.lesson, mutation.cell, mutation.needs)
            unnoticed += not verdict
            print(f"{mutation.name}\n    {verdict or 'NOT NOTICED'}", flush=True)
    return 1 if unnoticed else 0


def _readme(given: argparse.Namespace) -> int:
    from .docs import readme

    print("\n".join(f"{page} changed" for page in readme.write()) or "the tables are as they should be")
    return 0


def _rooms(given: argparse.Namespace) -> int:
    from .docs import room_plan

    print("\n".join(f"wrote {path.name}" for path in room_plan.write()) or "the plan of the rooms is as it should be")
    return 0


def _pictures(given: argparse.Namespace) -> int:
    from .docs import panel_film, pictures

    for path in pictures.draw():
        print(f"drew {path.name}")
    try:
        print(f"filmed {panel_film.film(pictures.IMAGES / 'panel.webp').name}")
    except panel_film.PanelError as problem:
        print(f"panel.webp stays as it was: {problem}", file=sys.stderr)
        return 1
    return 0


def _panels(given: argparse.Namespace) -> int:
    from .panels import panel_run

    return panel_run.run(given.lessons, given.seconds, given.jobs)


def _slides(given: argparse.Namespace) -> int:
    from .site import slides

    try:
        print("\n".join(f"open {page}" for page in slides.build()))
    except (slides.DeckError, RuntimeError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _translation(given: argparse.Namespace) -> int:
    from .editions import doc_pages, missing_strings, translation

    paths = solutions.sources(given.lessons) if given.exercises else build.sources(given.lessons)
    if given.strings:
        print("\n".join(missing_strings.lines(paths, given.lang)) or "# every string has a translation")
        return 0
    if given.stub:
        for path in paths:
            file = translation.file_of(path, given.lang)
            file.parent.mkdir(exist_ok=True)
            file.write_text(translation.stub(path, given.lang), encoding="utf-8")
            print(f"wrote {file.relative_to(hashes.ROOT)}")
    found = [translation.status(path, given.lang) for path in paths]
    print("\n".join(translation.report(found)))
    print(f"{sum(one.done for one in found)} of {sum(one.cells for one in found)} cells, {sum(one.whole for one in found)} of {len(found)} files whole, "
          f"{sum(len(one.stale) for one in found)} stale")
    pages = [] if given.lessons or given.exercises else doc_pages.pages(hashes.ROOT, given.lang)
    faults = [fault for page in pages for fault in doc_pages.faults(hashes.ROOT, page, given.lang)]
    for line in (*faults, *([f"docs/: {len(pages)} pages translated ({', '.join(pages)})"] if pages else [])):
        print(line)
    return 1 if faults or any(one.stale or one.faults for one in found) else 0


def _solutions(given: argparse.Namespace) -> int:
    from .notebooks.execute import execute

    return _each(map(solutions.write, solutions.sources(given.lessons)), lambda path: execute(path, given.backend)[2]) or _exercises(given)


def _own_times(_given: argparse.Namespace) -> int:
    from .shipping import own_answers

    own_answers.write()
    print(f"wrote {own_answers.FILE.relative_to(hashes.ROOT)}")
    return 0


def _exercises(given: argparse.Namespace) -> int:
    for source in solutions.sources(given.lessons):
        solutions.write(source)
    for path in generate.write(hashes.ROOT):
        print(f"wrote {path.relative_to(hashes.ROOT)}")
    return 0


VERBS = (
    Verb("build", "text sources to lessons, solutions and exercises, keeping their outputs", _build, EDITION),
    Verb("execute", "build, then run each notebook here and store its outputs", _execute, WHERE),
    Verb("translation", "how far the translations are, cell by cell: what is missing, stale, or lost a link or a number", _translation, TRANSLATED),
    Verb("check", "say what is stale, missing, out of order or wrong", _check),
    Verb("restamp", "run the notebooks with stale outputs here, keep what is proved to be the same, and list what a GPU has to make", _restamp, VOUCH),
    Verb("bundle", "write a folder that installs and runs offline; names are further extras, such as cuda13", _bundle),
    Verb("mutations", "apply the mutations of these lessons' kernels and show what nbval says", _mutations),
    Verb("readme", "write the tables of lessons (README.md) and of hazards (docs/hazards/README.md)", _readme),
    Verb("rooms", "write the plan of the rooms into CONTRIBUTING.md and draw it", _rooms),
    Verb("pictures", "draw the README's pictures from runs; the one that moves is a panel in a browser", _pictures),
    Verb("panels", "launch every setting of the panels that the site shows, and keep what comes of them in build/panels", _panels, LAUNCHES),
    Verb("slides", "render the workshop's slides, made of the lessons' stored outputs, in build/slides/html", _slides),
    Verb("solutions", "run the solution notebooks and store their outputs, then write exercises/", _solutions, WHERE),
    Verb("own-times", "estimate the solutions of exercises that ask for speed, and keep their times in lessons/own_times.json", _own_times),
    Verb("exercises", "text sources in solutions/sources to solutions/, and exercises/ from these", _exercises),
)
