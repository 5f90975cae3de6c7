# SPDX-License-Identifier: Apache-2.0
"""LLVM IR between clang's two steps: what CUDA says and clang leaves as an annotation, and what the text knows of names."""
from __future__ import annotations

import re
from collections.abc import Sequence

CLUSTER, REGISTERS = "hopperlab.cluster", "hopperlab.maxnreg"       # as prelude.h annotates kernels
_ASKED = "__hl_asked_"
_ANNOTATIONS = re.compile(r"^@llvm\.global\.annotations = .*$", re.MULTILINE)
_ANNOTATION = re.compile(r"\{ ptr @(?P<kernel>[^,\s]+), ptr @(?P<what>[\w.$]+), ptr @[\w.$]+, i32 \d+, ptr (?:@(?P<values>[\w.$]+)|null) \}")
_POINTER = r"ptr(?: addrspace\(\d+\))?"
_PLACE = r"(?P<{0}>" + _POINTER + r") (?:[^,]*\balign (?P<{0}_align>\d+)\b[^,]* )?(?P<{0}_name>[%@][\w.$]+)"
_COPY = re.compile(rf"^( *)call void @llvm\.memcpy\.p\d\.p\d\.i64\({_PLACE.format('to')}, {_PLACE.format('source')}, "
                   r"i64 (?P<bytes>\d+), i1 false\)(?: #\d+)?(?P<where>, !dbg !\d+)?[^\n]*$", re.MULTILINE)
_WORDS = {2: "i16", 4: "i32", 8: "<2 x i32>", 16: "<4 x i32>"}
_ACCESS = re.compile(r"^( *(?:%[\w.$]+ = load|store) (?:volatile )?(?P<type>i16|i32|i64|float|double|half|ptr)\b[^\n]*?, align )(?P<align>[124])\b", re.MULTILINE)
_NATURAL = {"i16": 2, "half": 2, "i32": 4, "float": 4, "i64": 8, "double": 8, "ptr": 8}
_FUNCTION = re.compile(r"^(?P<number>!\d+) = distinct !DISubprogram\(name: \"(?P<name>[^\"]+)\",(?P<rest>.*)\)$", re.MULTILINE)
_FILE = re.compile(r"^(!\d+) = !DIFile\(filename: \"([^\"]*)\"", re.MULTILINE)


def asking(expressions: Sequence[str]) -> str:
    """Lines behind the source that make the compiler instantiate each name expression and keep its address."""
    return "".join(f"\n__device__ const void* const volatile {_ASKED}{number} = (const void*)({expression});" for number, expression in enumerate(expressions))


def finished(text: str, expressions: Sequence[str]) -> tuple[str, dict[str, str]]:
    """(IR with cluster shapes and register limits as attributes, mangled name of each expression)."""
    lowered = {}
    for number, expression in enumerate(expressions):
        found = re.search(rf'^@{_ASKED}{number} = [^\n]*?@"?(?!{_ASKED})([\w.$]+)"?[^\n]*$', text, re.MULTILINE)
        if found:
            lowered[expression] = found[1]
            text = text.replace(found[0], "", 1)
    text = re.sub(rf"^@llvm\.(?:compiler\.)?used = .*{_ASKED}.*$", "", text, flags=re.MULTILINE)
    listed = _ANNOTATIONS.search(text)
    for each in _ANNOTATION.finditer(listed[0]) if listed else ():
        what = re.search(rf'^@{re.escape(each["what"])} = .* c"([^"\\]*)', text, re.MULTILINE)
        values = _values(text, each["values"]) if each["values"] else []
        if what and (attribute := _attribute(what[1], values)):
            text = re.sub(rf"^(define .*@{re.escape(each['kernel'])}\(.*?\)(?: [a-z_]+)*? #\d+)", rf"\1 {attribute}", text, count=1, flags=re.MULTILINE)
    return _ACCESS.sub(_aligned, _COPY.sub(_in_one, text)), lowered


def _in_one(found: re.Match[str]) -> str:
    """A copy of 2 to 16 aligned bytes, such as of a float4, as one load and one store: otherwise LLVM makes more of them, or keeps the value in memory."""
    size = int(found["bytes"])
    if size not in _WORDS or max(int(found["to_align"] or 1), int(found["source_align"] or 1)) < size:
        return found[0]
    value, word, where = f"%hl.copy.{found.start()}", _WORDS[size], found["where"] or ""
    return (f"{found[1]}{value} = load {word}, {found['source']} {found['source_name']}, align {size}{where}\n"
            f"{found[1]}store {word} {value}, {found['to']} {found['to_name']}, align {size}{where}")


def _aligned(found: re.Match[str]) -> str:
    """An access at the alignment of its type, which CUDA takes for granted: clang takes that of the bytes that a pointer was cast from."""
    return f"{found[1]}{max(int(found['align']), _NATURAL[found['type']])}"


def _attribute(what: str, values: Sequence[int]) -> str:
    if what == CLUSTER and values:
        shape = [*values, 1, 1][:3]
        return f'"nvvm.cluster_dim"="{shape[0]},{shape[1]},{shape[2]}"'
    return f'"nvvm.maxnreg"="{values[0]}"' if what == REGISTERS and values else ""


def _values(text: str, name: str) -> list[int]:
    """The integers of an annotation's constant."""
    found = re.search(rf"^@{re.escape(name)} = .* constant \{{[^}}]*\}} (?:\{{ (.*?) \}}|zeroinitializer)", text, re.MULTILINE)
    return [int(number) for number in re.findall(r"i\d+ (-?\d+)", found[1] or "")] if found else []


def functions(text: str) -> dict[str, list[tuple[int, str]]]:
    """(line of its declaration, mangled or plain name) of every function that has line information, by file and sorted."""
    files = dict(_FILE.findall(text))
    found: dict[str, set[tuple[int, str]]] = {}
    for each in _FUNCTION.finditer(text):
        file, line = re.search(r"file: (!\d+)", each["rest"]), re.search(r"\bline: (\d+)", each["rest"])
        if file and line:
            found.setdefault(files.get(file[1], ""), set()).add((int(line[1]), each["name"].partition("<")[0]))
    return {file: sorted(names) for file, names in found.items()}
