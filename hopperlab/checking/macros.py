# SPDX-License-Identifier: Apache-2.0
"""Macros of an answer, expanded as a preprocessor does ([cpp.replace]), so that what # and ## build is seen: names, strings, the operands of asm.

Which branch of an #if is taken depends on the compiler; here all of them are, and where they define a macro twice each definition is tried.
"""
from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

MOST_TOKENS = 300_000      # that are looked at while an answer is expanded, in all ways together
MOST_WAYS = 64             # combinations of macros that are defined more than once
PIECE = re.compile(r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<name>[^\W\d]\w*)|(?P<number>\.?\d(?:'?[\w.]|(?<=[eEpP])[+-])*)|(?P<paste>\#\#)
                       |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|(?P<other>.)""", re.DOTALL | re.VERBOSE)


class TooMuch(ValueError):
    """The macros expand to more than is read, or are defined in too many ways; the message says so."""


@dataclass(frozen=True)
class Macro:
    """One definition. parameters: None for one without parentheses; body: its tokens, ' ' for space between them."""

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


Token = tuple[str, frozenset[str]]
"""A token, and the macros it came from, which are not expanded in it again."""


def pieces(text: str) -> list[str]:
    """The tokens of one stretch of text, with ' ' for any space and comment."""
    return [" " if found.lastgroup == "space" else found[0] for found in PIECE.finditer(text)]


def expanded(text: str) -> Iterator[list[str]]:
    """The tokens of `text` after expansion, once for each way its macros may be defined. text: lines spliced. Raises TooMuch."""
    defined: dict[str, list[Macro]] = {}
    lines: list[str] = []
    for line in re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).split("\n"):
        directive = re.match(r"\s*#\s*(\w*)", line)
        if directive and directive[1] == "define":
            _define(line[directive.end():], defined)
        elif not directive or directive[1] in ("if", "elif"):
            lines.append(line[directive.end():] if directive else line)
    several = {name: many for name, many in defined.items() if len(many) > 1}
    ways = 1
    for many in several.values():
        ways *= len(many)
    if ways > MOST_WAYS:
        raise TooMuch(f"its macros are defined more than once, in {ways} combinations; give each one definition")
    source: list[Token] = [(piece, frozenset()) for piece in pieces("\n".join(lines))]
    expansion = _Expansion({name: many[0] for name, many in defined.items()})
    for chosen in itertools.product(*several.values()):
        expansion.macros |= dict(zip(several, chosen))
        try:
            yield [word for word, _ in expansion.of(source) if word != " "]
        except RecursionError:
            raise TooMuch("its macros are nested too deeply") from None


def _define(rest: str, defined: dict[str, list[Macro]]) -> None:
    found = re.match(r"\s*(\w+)(\(([^)]*)\))?", rest)
    if not found:
        return
    parameters = None if found[2] is None else tuple("__VA_ARGS__" if p.strip() == "..." else p.strip().removesuffix("...").strip() for p in found[3].split(","))
    body = tuple(pieces(rest[found.end():].strip()))
    macro = Macro(parameters, body)
    if macro not in defined.setdefault(found[1], []):
        defined[found[1]].append(macro)


class _Expansion:
    """Expansions of one text. Counts what it looks at, so that macros which double themselves end."""

    def __init__(self, macros: dict[str, Macro]):
        self.macros, self.left = macros, MOST_TOKENS

    def of(self, tokens: Sequence[Token]) -> list[Token]:
        """The tokens with every macro in them replaced."""
        todo, made = list(reversed(tokens)), []
        while todo:
            self._count(1)
            word, hidden = todo.pop()
            macro = self.macros.get(word) if word not in hidden else None
            if macro is None:
                made.append((word, hidden))
            elif macro.parameters is None:
                todo += reversed(self._replaced(macro, {}, hidden | {word}))
            elif (given := self._given(todo, macro.parameters)) is None:
                made.append((word, hidden))
            else:
                todo += reversed(self._replaced(macro, given, hidden | {word}))
        return made

    def _given(self, todo: list[Token], parameters: Sequence[str]) -> dict[str, list[Token]] | None:
        given, seen = _arguments(todo, parameters)
        self._count(seen)
        return given

    def _count(self, tokens: int) -> None:
        self.left -= tokens
        if self.left < 0:
            raise TooMuch(f"its macros expand to more than {MOST_TOKENS:,} tokens")

    def _replaced(self, macro: Macro, given: Mapping[str, list[Token]], hidden: frozenset[str]) -> list[Token]:
        """The body with arguments in it: as strings behind #, as they stand beside ##, expanded elsewhere."""
        made: list[Token] = []
        body, at, paste = macro.body, 0, False
        while at < len(body):
            word = body[at]
            follows = next((i for i in range(at + 1, len(body)) if body[i] != " "), len(body))
            if word == "##":
                while made and made[-1][0] == " ":
                    made.pop()
                paste, at = True, at + 1
                continue
            if word == " " and paste:
                at += 1
                continue
            if word == "#" and macro.parameters is not None and follows < len(body) and body[follows] in given:
                new, at = [(_string(given[body[follows]]), hidden)], follows
            elif word in given:
                beside = paste or follows < len(body) and body[follows] == "##"
                new = [(w, h | hidden) for w, h in (given[word] if beside else self.of(given[word]))]
            else:
                new = [(word, hidden)]
            if paste and made and new:
                new = [(made.pop()[0] + new[0][0], hidden), *new[1:]]
            made += new
            self._count(len(new))
            paste, at = False, at + 1
        return made


def _arguments(todo: list[Token], parameters: Sequence[str]) -> tuple[dict[str, list[Token]] | None, int]:
    """The arguments that follow, taken off `todo` (whose end is next), and how many tokens were looked at; None, and nothing taken, where no
    parenthesis follows or ends."""
    start = len(todo)
    place = len(todo) - 1
    while place >= 0 and todo[place][0] == " ":
        place -= 1
    if place < 0 or todo[place][0] != "(":
        return None, start - place
    depth, place = 1, place - 1
    given: list[list[Token]] = [[]]
    while place >= 0:
        word = todo[place][0]
        depth += (word == "(") - (word == ")")
        if not depth:
            break
        if word == "," and depth == 1 and not (len(given) == len(parameters) and parameters[-1] == "__VA_ARGS__"):
            given.append([])
        else:
            given[-1].append(todo[place])
        place -= 1
    else:
        return None, start
    del todo[place:]
    given = [_stripped(tokens) for tokens in given] + [[]] * len(parameters)
    return dict(zip(parameters, given)), start - place


def _stripped(tokens: list[Token]) -> list[Token]:
    first = next((i for i, (word, _) in enumerate(tokens) if word != " "), len(tokens))
    last = next((i for i in range(len(tokens), first, -1) if tokens[i - 1][0] != " "), first)
    return tokens[first:last]


def _string(tokens: Sequence[Token]) -> str:
    """What # makes of an argument."""
    return '"' + "".join(re.sub(r'(["\\])', r"\\\1", word) if word[:1] in "\"'" else word for word, _ in tokens) + '"'
