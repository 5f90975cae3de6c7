# SPDX-License-Identifier: Apache-2.0
"""`hopperlab lab` answers on the URL it prints, on copies in work/, and ends when it is told to."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from support.patience import PATIENCE

pytest.importorskip("jupyterlab", reason="JupyterLab comes with the lab extra")
from hopperlab.cli import lab
from hopperlab.show import style

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def course(tmp_path):
    (tmp_path / "hopperlab").mkdir()
    (tmp_path / "notebooks").mkdir()
    for name in ("index.ipynb", "00_start_here.ipynb"):
        shutil.copy(ROOT / "notebooks" / name, tmp_path / "notebooks")
    return tmp_path


@pytest.fixture
def server(course, tmp_path):
    home = {name: str(tmp_path / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    process = subprocess.Popen([sys.executable, "-u", "-m", "hopperlab", "lab", "--course", str(course), "--no-browser"],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **home})
    yield process
    if process.poll() is None:
        process.kill()
    process.wait()


def url_of(process: subprocess.Popen) -> str:
    for line in process.stdout:
        if match := re.search(r"hopperlab: open\s+(\S+)", line):
            return match[1]
    raise AssertionError("no URL was printed")


@pytest.mark.thorough           # the tests in a browser start it the same way
@pytest.mark.skipif(os.name == "nt", reason="ends the server by SIGTERM")
def test_it_prints_a_url_that_answers_and_ends_when_told(server, course):
    url = url_of(server)
    assert "/lab/tree/index.ipynb?token=" in url
    with urllib.request.urlopen(url, timeout=30 * PATIENCE) as answer:
        assert answer.status == 200 and b"JupyterLab" in answer.read()
    api = url.replace("/lab/tree/", "/api/contents/").split("?")[0] + "?content=0&token=" + url.split("token=")[1]
    with urllib.request.urlopen(api, timeout=30 * PATIENCE) as answer:
        assert answer.status == 200
    assert (course / "work" / "00_start_here.ipynb").exists()
    opened = (course / "work" / "index.ipynb").read_text()
    assert re.search(r"0 of \d+ solved", opened) and "not your copy" not in opened, "the landing notebook was not run in work/"
    server.send_signal(signal.SIGTERM)
    server.wait(timeout=30 * PATIENCE)
    time.sleep(0.5)
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=5 * PATIENCE)


def command_for(*args: str, tmp_path: Path) -> tuple[list[str], str | None]:
    return lab._command(tmp_path, list(args))


def test_arguments_are_passed_on(tmp_path):
    command, url = command_for("--no-browser", "--port=9321", "--ip=0.0.0.0", tmp_path=tmp_path)
    assert {"--no-browser", "--port=9321", "--ip=0.0.0.0"} <= set(command)
    assert url.startswith("http://127.0.0.1:9321/lab?token=")
    assert sum(a.startswith("--port") for a in command) == 1


@pytest.mark.parametrize("names, first", [(("index.ipynb", "00_start_here.ipynb"), "/tree/index.ipynb"), (("00_start_here.ipynb",), "/tree/00_start_here.ipynb")])
def test_it_opens_the_landing_notebook_or_else_the_first_lesson(tmp_path, names, first):
    for name in names:
        (tmp_path / name).write_text("{}")
    command, url = command_for("--port=9321", tmp_path=tmp_path)
    assert url.startswith(f"http://127.0.0.1:9321/lab{first}?token=") and f"--LabApp.default_url=/lab{first}" in command


def test_a_landing_notebook_that_does_not_run_is_left_alone_and_said(tmp_path, capsys):
    lab.refresh_index(tmp_path)
    (tmp_path / "index.ipynb").write_text("my notes")
    lab.refresh_index(tmp_path)
    assert (tmp_path / "index.ipynb").read_text() == "my notes" and "run its cells to see why" in capsys.readouterr().err


@pytest.mark.parametrize("argument", ["--IdentityProvider.token=abc", "--ServerApp.password=abc"])
def test_an_own_token_or_password_is_left_alone(tmp_path, argument):
    command, url = command_for(argument, tmp_path=tmp_path)
    assert url is None and sum(a.startswith("--IdentityProvider.token") for a in command) == ("token" in argument)


@pytest.mark.parametrize("args, opens_itself", [((), False), (("--no-browser",), False), (("--browser=firefox",), True), (("--IdentityProvider.token=abc",), True)])
def test_jupyterlab_opens_no_browser_before_the_landing_page_is_ready(tmp_path, args, opens_itself):
    command, url = command_for(*args, tmp_path=tmp_path)
    assert ("--no-browser" not in command) == opens_itself == (url is None)


def test_jupyterlab_gets_quiet_settings_under_the_users_own_and_tabs_of_this_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    monkeypatch.delenv("JUPYTERLAB_WORKSPACES_DIR", raising=False)
    env = lab._environment(tmp_path)
    first, ours = env["JUPYTER_CONFIG_PATH"].split(os.pathsep)
    assert first == "/mine" and env["JUPYTERLAB_WORKSPACES_DIR"] == str(tmp_path / ".jupyterlab")
    settings = json.loads((Path(ours) / "labconfig" / "default_setting_overrides.json").read_text())
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"
    monkeypatch.setenv("JUPYTERLAB_WORKSPACES_DIR", "/tabs")
    assert lab._environment(tmp_path)["JUPYTERLAB_WORKSPACES_DIR"] == "/tabs"


def test_jupyterlab_loads_the_courses_style_sheet_unless_told_otherwise(tmp_path):
    assert "--LabApp.custom_css=True" in command_for(tmp_path=tmp_path)[0]
    assert "--LabApp.custom_css=True" not in command_for("--LabApp.custom_css=False", tmp_path=tmp_path)[0]


def test_the_style_sheet_comes_after_the_users_own(tmp_path, monkeypatch):
    """As the server finds it: from the folders of its settings, through an extension that the course's own configuration names."""
    from types import SimpleNamespace

    from hopperlab.cli import lab_style
    server = SimpleNamespace(web_app=SimpleNamespace(settings={"static_custom_path": ["/mine/custom", "/server/custom"]}))
    for _ in range(2):
        lab_style._load_jupyter_server_extension(server)
    assert server.web_app.settings["static_custom_path"] == ["/mine/custom", str(lab_style.STYLES), "/server/custom"]
    named = json.loads((lab.SETTINGS / "jupyter_server_config.d" / "hopperlab.json").read_text())["ServerApp"]["jpserver_extensions"]
    assert named == {lab_style.__name__: True} and lab_style._jupyter_server_extension_points() == [{"module": lab_style.__name__}]
    sheet = (lab_style.STYLES / "custom.css").read_text()
    assert style.CARD.removeprefix("#") in sheet and "invert(0.91) hue-rotate(180deg)" in sheet and "/* " in sheet
    printed = sheet[sheet.index('stdout"] pre'):]
    assert "white-space: pre;" in printed and "word-break: normal;" in printed, "rows of printed tables stay whole in a narrow window"


@pytest.mark.parametrize("user, expected", [(0, True), (1000, False)])
def test_root_is_allowed(tmp_path, monkeypatch, user, expected):
    monkeypatch.setattr(lab.os, "geteuid", lambda: user, raising=False)
    assert ("--allow-root" in command_for(tmp_path=tmp_path)[0]) == expected
