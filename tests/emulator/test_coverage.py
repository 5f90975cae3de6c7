# SPDX-License-Identifier: Apache-2.0
"""Every instruction form of coverage/table.txt: what ptxas takes for sm_90a runs here, what it refuses is an error that names the
architecture that has it. coverage/forms.py lists the forms, coverage/record.py asks ptxas."""
import pytest
from emulator.coverage import run
from emulator.coverage.forms import forms
from emulator.coverage.kernel import text
from hopperlab import emulator
from hopperlab.emulator.ptx.instructions import INSTRUCTIONS, row

ROWS = run.table()
ACCEPTED = [form for where, form in ROWS if where == "sm_90a"]
REFUSED = [(where, form) for where, form in ROWS if where != "sm_90a"]
# What sm_90a has and the emulator refuses, by first word: each error says why.
OUTSIDE = {"tex": "texture", "tld4": "texture", "txq": "texture", "suld": "surface", "sust": "surface", "sured": "surface", "suq": "surface", "istypep": "opaque types",
           "multimem": "several GPUs"}
COUNTERS = "%pm"
ENDING = {"trap;": "trap at", "brkpt;": "trap at"}
LEAVING = ("exit;", "ret;", "ret.uni;", "@%p8 exit;")
GROUP = 120


def runs(form: str) -> bool:
    """True for a form after which the kernel goes on."""
    return form.split(".")[0] not in OUTSIDE and COUNTERS not in form and form not in ENDING and form not in LEAVING


def groups() -> dict[str, list[str]]:
    """Forms that run, some at a time, by what the first of them is called."""
    wanted = [form for form in ACCEPTED if runs(form)]
    return {f"{k}: {wanted[k].split('.')[0]}": wanted[k:k + GROUP] for k in range(0, len(wanted), GROUP)}


GROUPS = groups()


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.sampled(every=3)
def test_accepted_forms_run(name):
    try:
        run.run(GROUPS[name])
    except Exception:
        for form in GROUPS[name]:                # which one is it?
            try:
                run.run([form])
            except Exception as error:
                raise AssertionError(f"{form}: {error!r}") from error
        raise


@pytest.mark.parametrize("form", LEAVING)
def test_threads_leave(form):
    run.run([form, "trap;"])


@pytest.mark.parametrize("form, words", ENDING.items())
def test_kernels_end(form, words):
    with pytest.raises(emulator.EmulatorError, match=words):
        run.run([form])


def test_what_is_outside_says_why():
    for form in ACCEPTED:
        words = OUTSIDE.get(form.split(".")[0], "this special register counts" if COUNTERS in form else None)
        if words:
            with pytest.raises(emulator.UnsupportedInstruction, match=words):
                run.run([form])


def refusal(form: str) -> str:
    """What the emulator says about a form; '' when it takes it."""
    try:
        emulator.Program(text({"k": [form]}, bare=True)[0]).translation("k")
    except emulator.EmulatorError as error:
        return str(error)
    return ""


def architecture(form: str) -> str | None:
    """Which architecture a form that the emulator runs beyond Hopper needs, as its row says."""
    op, *mods = form.rstrip(";").split(" ")[0].split(".")
    return INSTRUCTIONS[op].since(mods) if op in INSTRUCTIONS else None


def test_newer_forms_name_their_architecture(monkeypatch):
    """In the error, or in the row of what the emulator runs all the same."""
    monkeypatch.setitem(INSTRUCTIONS, "later", row("memory", "a", newer={"v8": "sm_100"}))
    assert architecture("later.global.v8.b32 [%ga];") == "sm_100" and architecture("later.global.v4.b32 [%ga];") is None
    newer = [(where, form) for where, form in REFUSED if where != "none"]
    assert len(newer) > 150
    assert [(where, form) for where, form in newer if where not in refusal(form) and where != architecture(form)] == []


@pytest.mark.thorough
def test_forms_that_nobody_has_are_refused():
    nowhere = [form for where, form in REFUSED if where == "none"]
    assert len(nowhere) > 1500
    assert [form for form in nowhere if not refusal(form)] == []


def test_the_table_is_of_these_forms():
    assert [form for _, form in ROWS] == forms()
    assert len(ACCEPTED) > 7000
