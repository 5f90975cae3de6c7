# SPDX-License-Identifier: Apache-2.0
"""The site's first page: what the course is, the picture, the ladder's chart from its recording, lessons by chapter, and the paths."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path

from ...measure import story
from ...runtime.language import ENGLISH, say
from .. import course

PICTURE = Path("docs/images/pipeline.png")
WORDS_OF_PICTURE = ("A warp-specialised product in the emulator: copies of ten tiles under way in four buffers, and each buffer in use by the tensor cores, "
                    "cycle by cycle")
HOME = """# hopperlab

{picture}

hopperlab is a course in asynchronous programming on NVIDIA Hopper: from `cp.async` and `mma.sync` to TMA, mbarriers, `wgmma` and warp specialisation.
Every kernel has one CUDA C++ source and two places to run: a Hopper GPU, where it is timed, and an emulator, which needs no GPU and names the missing wait, fence or arrive at its line.
At every step you predict, run, measure, break and repair a kernel; these pages show each lesson with the outputs stored from an H200.

{buttons}

{ladder}

## Lessons

{chapters}

## Paths

{paths}

## Run it yourself

To move a panel, change a kernel or solve an exercise, run the notebooks: `make lab` in a clone, or

```text
pip install "hopperlab[lab]"
hopperlab start my-course
cd my-course
hopperlab lab
```

[Where to run the course](docs/running.md): containers, Binder, Colab, offline. [Teaching it](docs/teaching.md), and [grading](docs/grading.md).

{menus}
"""
MENU = """```{{toctree}}
:hidden:
:caption: {caption}

{pages}
```
"""
LOOK_UP = ("docs/cheat-sheet", "docs/glossary", "docs/troubleshooting", "docs/emulator", "docs/your-kernels", "docs/oracle", "docs/hazards/README",
           "docs/running", "docs/teaching")


def home(root: Path, every: list[course.Entry], exercises: Iterable[str], reference: Iterable[str], pdfs: Iterable[tuple[str, str]] = (), to: str = ENGLISH) -> str:
    """The page in Markdown. exercises, reference: their pages without endings; pdfs: (file beside the page, its words) of what is printed; to: the language.

    What a folder lacks (docs of a fixture, for example) is left out.
    """
    docs = [f"docs/{path.stem}" for path in sorted((root / "docs").glob("*.md"))]
    look_up = [page for page in LOOK_UP if (root / f"{page}.md").is_file()]
    menus = [("Look up", [*look_up, *(page for page in docs if page not in LOOK_UP)]), ("Reference", [f"reference/{name}" for name in reference])]
    lessons = [(chapter.name, [f"notebooks/{entry.notebook.stem}" for entry in course.in_chapter(chapter, every)]) for chapter in course.CHAPTERS]
    words = [MENU.format(caption=say(caption, to), pages="\n".join(pages)) for caption, pages in (*lessons, ("Exercises", list(exercises)), *menus) if pages]
    return say(HOME, to).format(picture=f"![{say(WORDS_OF_PICTURE, to)}]({PICTURE})" if (root / PICTURE).is_file() else "",
                                buttons=_buttons(root, every, pdfs, to), ladder=ladder(story.tell(story.read()), to),
                       chapters="\n\n".join(_chapter(chapter, every, to) for chapter in course.CHAPTERS if course.in_chapter(chapter, every)),
                       paths="\n".join(_path(way, every, to) for way in course.WAYS), menus="\n".join(words))


def _buttons(root: Path, every: list[course.Entry], pdfs: Iterable[tuple[str, str]], to: str) -> str:
    links = [("Start reading", f"notebooks/{every[0].notebook.stem}.html")] if every else []
    links += [("Cheat sheet", "docs/cheat-sheet.html")] if (root / "docs" / "cheat-sheet.md").is_file() else []
    links += [(words, file) for file, words in pdfs]
    return '<p class="buttons">' + " ".join(f'<a href="{target}">{say(words, to)}</a>' for words, target in links) + "</p>"


def _chapter(chapter: course.Chapter, every: list[course.Entry], to: str) -> str:
    rows = [f"- [{entry.number} · {entry.title}](notebooks/{entry.notebook.name}) {entry.minutes}\u00a0{say('min', to)}{say(', optional', to) if entry.optional else ''}"
            for entry in course.in_chapter(chapter, every)]
    return "\n".join([f"### {say(chapter.name, to)}", "", say(chapter.purpose, to), "", *rows])


def _path(way: course.Way, every: list[course.Entry], to: str) -> str:
    chosen, _ = course.on_way(way, every)
    named = ", ".join(f"[{entry.number}](notebooks/{entry.notebook.name})" for entry in chosen)
    return "- " + say(f"**{way.name}** ({course.minutes(chosen)} min of lessons), {way.purpose}", to) + f": {named}"


def ladder(told: story.Story, to: str = ENGLISH) -> str:
    """The product ladder as HTML bars, which take their colours from the theme: a row a step, its rate and share of cuBLAS, and cuBLAS's line."""
    top = max(told.peer_tflops, *(step.tflops for step in told.steps)) * 1.02
    first, last = told.steps[0], told.steps[-1]
    rows = [f'<tr><th scope="row"><code>{html.escape(step.name)}</code></th><td class="idea">{html.escape(say(step.idea, to))}</td>'
            f'<td class="bar"><span style="width: {100 * step.tflops / top:.1f}%"></span></td><td class="rate">{step.tflops:.0f}</td><td '
            f'class="rate">{100 * step.share:.0f}%</td></tr>'
            for step in told.steps]
    head = (f'<tr><th scope="col">{say("step", to)}</th><th scope="col" class="idea">{say("what is new", to)}</th><th scope="col" class="bar"></th><th '
            f'scope="col" class="rate">TFLOP/s</th><th scope="col" class="rate">{say("of cuBLAS", to)}</th></tr>')
    words = (f"The ladder that the lessons climb: one bf16 product, {told.size}³, from {100 * first.share:.0f}% "
             f"to {100 * last.share:.0f}% of cuBLAS (the line, {told.peer_tflops:.0f} TFLOP/s); {told.source}.")
    return (f'<figure class="ladder" style="--peer: {told.peer_tflops / top:.4f}"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table>'
            f"<figcaption>{html.escape(say(words, to))}</figcaption></figure>")
