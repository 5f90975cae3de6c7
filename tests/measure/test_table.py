# SPDX-License-Identifier: Apache-2.0
"""The table of suites: every stored recording has its row, every function, command and README table that a row names is there."""
import importlib
import inspect
import re
import shlex

import pytest

from hopperlab import cli
from hopperlab.measure import readme, recordings
from hopperlab.measure.suites import bench, table
from hopperlab.measure.suites.race import Races
from hopperlab.measure.suites.table import OTHER, RACE, RECORDS, SUITES

BY_RECORDING = {suite.recording: suite for suite in SUITES}
ROOT = readme.ROOT
RANDOM = ("fp8_random", "attention_random")


def test_every_stored_recording_has_one_row():
    stored = {path.stem for path in recordings.FOLDER.rglob("*.json")}
    assert len(BY_RECORDING) == len(SUITES)
    assert "bench_copy" in set(BY_RECORDING) - stored <= {"bench_copy", *RANDOM} and stored <= set(BY_RECORDING)


def test_every_row_is_measured_by_bench_or_by_a_tool_of_its_own():
    benched = {suite.recording for name in table.BENCHES for suite in table.rows(name)}
    races = {"peers", "products", "products_best", "products_few", "products_quack", "products_sustained", *RANDOM}  # which bench gemm and --random make
    assert {suite.recording for suite in SUITES if suite.kind == OTHER} == set(BY_RECORDING) - benched - races
    assert {suite.name for suite in SUITES if suite.kind != OTHER} | {"all"} == set(table.BENCHES)
    assert {suite.recording for suite in table.rows("all")} == {suite.recording for suite in SUITES if suite.kind == RECORDS}
    with pytest.raises(KeyError):
        table.rows("memcheck")


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.recording)
def test_what_a_row_names_is_there(suite):
    if suite.kind == RACE:
        assert isinstance(suite.function, Races) and suite.function.name == suite.name
    elif suite.kind == RECORDS:
        takes = {"only": ()} if suite.choices else {}
        takes |= {"keep": print} if suite.keeps else {}
        bound = inspect.signature(suite.function).bind(suite.rounds, **takes)
        assert set(takes) <= set(bound.arguments)
    else:
        assert suite.kind == OTHER and callable(suite.function)
    assert bool(suite.known) == bool(suite.choices)
    assert not suite.shown or callable(table.found(suite.shown))
    assert not suite.method or len(table.found(suite.method)) > 40


@pytest.mark.parametrize("board, name", [(board, name) for board in recordings.BOARDS for name in recordings.names(recordings.FOLDER / board)])
def test_what_is_stored_is_what_the_row_measures(board, name):
    """The header tells the row's method (or the board's), and what the suite shows can be made of the stored records."""
    recording, suite = recordings.load(name, board=board), BY_RECORDING[name]
    if suite.method:
        assert recording.header["method"] == table.found(suite.method)
    assert bench.shown(suite, recording)


def parsed(command: str):
    """What the program of a command makes of its words; SystemExit where it does not understand them."""
    program, *words = shlex.split(command)
    if program == "hopperlab":
        given, others = cli.parser().parse_known_args(words)
        assert given.entry.passes_on or not others, others
        return given
    if program == "make":
        target, = words
        recipe = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
        module = re.search(r"-m (hopperlab\.[\w.]+)", recipe[1])[1]
        words = []
    else:
        (flag, module), words = words[:2], words[2:]
        assert (program, flag) == ("python", "-m")
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main([*words, "--help"])
    assert ended.value.code == 0
    return None


def written_commands() -> list[str]:
    """The commands that recordings/README.md shows."""
    text = readme.LIST.read_text(encoding="utf-8")
    return [line.split("#")[0].strip() for line in text.splitlines() if re.match(r"    (hopperlab|python -m|make) ", line)]


@pytest.mark.parametrize("command", sorted({*(suite.command for suite in SUITES), *written_commands()}))
def test_every_command_is_understood(command, capsys):
    given = parsed(command)
    assert given is None or given.entry.name in ("bench", "profile")
    if given is not None and given.entry.name == "bench":
        bench.check(bench.Request(given.suite, cli.measure._flat(given.shapes), cli.measure._flat(given.kernels), None, given.rounds,
                                  cli.measure._flat(given.modes), given.power, given.out))


def test_a_command_of_one_recording_measures_that_recording():
    for suite in SUITES:
        if suite.command.startswith("hopperlab bench") and suite.kind == RECORDS:
            given = parsed(suite.command)
            rows = bench.check(bench.Request(given.suite, kernels=cli.measure._flat(given.kernels))).rows
            assert suite in rows and (len(rows) == 1 or suite.recording == given.suite)


def test_readme_shows_the_tables_that_the_rows_name():
    section = readme.README.read_text(encoding="utf-8").split(readme.BEGIN)[1].split(readme.END)[0]
    def made(names, board):
        parts = dict.fromkeys(suite.readme_table for suite in SUITES if suite.readme_table and suite.recording in names)
        return "\n\n".join("\n".join(table.found(part)(lambda name: recordings.load(name, board=board))) for part in parts)
    stored = {board: set(recordings.names(recordings.FOLDER / board)) for board in recordings.BOARDS}
    places = [made(stored["h200"] | stored["h100"], "h200"), "<details><summary>The same on an H100</summary>", made(stored["h200"] & stored["h100"], "h100")]
    assert [section.count(text) for text in places] == [1, 1, 1] and sorted(places, key=section.index) == places


def test_a_part_of_readme_reads_the_recordings_whose_rows_name_it():
    for part in {suite.readme_table for suite in SUITES if suite.readme_table and suite.recording in recordings.names()}:
        read = {}
        table.found(part)(lambda name, read=read: read.setdefault(name, recordings.load(name)))
        assert set(read) == {suite.recording for suite in SUITES if suite.readme_table == part}


def test_help_tells_every_suite(capsys):
    with pytest.raises(SystemExit):
        cli.main(["bench", "--help"])
    told = capsys.readouterr().out
    assert all(f"  {name:13} {line}" in told for name, line in table.BENCHES.items())


def test_the_table_imports_nothing_of_ours():
    """So that --help answers at once."""
    source = inspect.getsource(table)
    assert not re.search(r"^\s*(from \.|import hopperlab|from hopperlab)", source, re.MULTILINE)
