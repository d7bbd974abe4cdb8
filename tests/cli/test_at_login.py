"""The bridge is started at login by a file that the system reads: shown first, written when that is agreed to."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from gaia_bridge.errors import ConfigError
from gaia_bridge_cli import at_login as module
from gaia_bridge_cli import background, main
from gaia_bridge_cli.at_login import AtLogin, at_login, changes, install, remove
from gaia_bridge_daemon.front.place import Scope

ODD = Scope("/a b/50%.json", ['/x/"q"$HOME\\.py:Agent'], "/folder with 100%")


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[Scope]:
    """What would be started now: no test here starts it, or asks systemd for anything."""
    scopes: list[Scope] = []

    class Connection:
        def close(self) -> None:
            pass

    def start(place: object, scope: Scope, keep: float, until: float) -> Connection:
        scopes.append(scope)
        return Connection()

    monkeypatch.setattr(background, "start", start)
    monkeypatch.setattr(module, "_reload", nothing)
    return scopes


def nothing(wanted: AtLogin) -> None:
    """Do not tell systemd."""


def on_terminal(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)

    def answered(text: str) -> str:
        return answer

    monkeypatch.setattr("click.termui.visible_prompt_func", answered)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not there to say what it reads")
@pytest.mark.parametrize("scope", [Scope(), ODD], ids=["default", "odd"])
def test_systemd_reads_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: Scope) -> None:
    monkeypatch.setenv("PATH", f'{os.environ["PATH"]}:/100% "odd" $path')
    wanted = at_login(scope, "linux")
    unit = tmp_path / wanted.path.name
    unit.write_text(wanted.text, encoding="utf-8")
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        check=False,
    )
    assert unit.name not in done.stderr, done.stderr


def test_the_unit_says_what_is_published_and_where() -> None:
    text = at_login(ODD, "linux").text
    python = sys.executable
    assert f'ExecStart="{python}" "-P" "-m" "gaia_bridge" "up" "--config" "/a b/50%%.json"' in text
    assert '"/x/\\"q\\"$$HOME\\\\.py:Agent"' in text
    assert "WorkingDirectory=/folder with 100%%\n" in text
    assert f'Environment="PATH={os.environ["PATH"].replace("%", "%%")}"' in text


def test_launchd_is_told_the_same() -> None:
    wanted = at_login(ODD, "darwin")
    assert wanted.path == Path.home() / "Library" / "LaunchAgents" / f"gaia-bridge-{ODD.name}.plist"
    found = plistlib.loads(wanted.text.encode())
    assert found["Label"] == wanted.path.stem
    assert found["ProgramArguments"][4:] == ["up", "--config", ODD.config, ODD.agents[0]]
    assert found["WorkingDirectory"] == ODD.folder
    assert found["EnvironmentVariables"]["PATH"] == os.environ["PATH"]
    assert found["RunAtLoad"]
    assert found["AbandonProcessGroup"]


LAUNCHD: Final = {
    "Label": str,
    "ProgramArguments": list,
    "RunAtLoad": bool,
    "WorkingDirectory": str,
    "EnvironmentVariables": dict,
    "AbandonProcessGroup": bool,
}
"""Keys of launchd.plist(5) and what each has to be: launchd leaves out what is otherwise without a word."""


@pytest.mark.parametrize("scope", [Scope(), ODD], ids=["default", "odd"])
def test_launchd_is_told_nothing_that_it_would_leave_out(scope: Scope) -> None:
    wanted = at_login(scope, "darwin")
    found = plistlib.loads(wanted.text.encode(), fmt=plistlib.FMT_XML)
    assert {key: type(value) for key, value in found.items()} == LAUNCHD
    texts = [*found["ProgramArguments"], *found["EnvironmentVariables"], *found["EnvironmentVariables"].values()]
    assert all(isinstance(text, str) for text in texts)
    assert os.path.isabs(found["ProgramArguments"][0]) and os.path.isabs(found["WorkingDirectory"])
    assert wanted.path.name == f"{found['Label']}.plist"
    assert wanted.link is None


def test_no_secret_of_the_shell_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "hush-hush")
    monkeypatch.setenv("all_proxy", "http://me:hush-hush@proxy.example:3128")
    for system in ("linux", "darwin"):
        text = at_login(Scope(), system).text
        assert "hush-hush" not in text and "http://proxy.example:3128" in text


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ConfigError, match="no way known to start programs at login on plan9"):
        at_login(Scope(), "plan9")
    with pytest.raises(ConfigError, match="cannot be written in such a file"):
        at_login(Scope("/a\nExecStart=/bin/evil"), "linux")


def test_it_is_installed_once_and_removed_without_a_trace() -> None:
    wanted = at_login(Scope(), "linux")
    assert wanted.link is not None
    assert changes(wanted) == f"{wanted.path}:\n\n{wanted.text}"
    install(wanted)
    assert wanted.path.read_text(encoding="utf-8") == wanted.text
    assert wanted.link.resolve() == wanted.path.resolve()
    assert changes(wanted) == ""
    install(wanted)
    wanted.link.unlink()
    assert changes(wanted) == f"{wanted.link}: a link to {wanted.path}\n"
    wanted.path.write_text(wanted.text.replace("oneshot", "simple"), encoding="utf-8")
    assert "-Type=simple\n+Type=oneshot\n" in changes(wanted)
    install(wanted)
    assert remove(wanted)
    assert not remove(wanted)
    assert [path for path in wanted.path.parent.rglob("*") if not path.is_dir()] == []


def test_without_a_terminal_nothing_is_written_unasked(
    started: list[Scope], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--at-login"]) == 64
    told = capsys.readouterr().err
    assert "[Unit]" in told or "<plist" in told
    assert "--yes" in told
    assert not at_login(Scope()).path.exists()
    assert started == []


@pytest.mark.parametrize("answer", ["y", "n"])
def test_on_a_terminal_it_is_asked_for(
    started: list[Scope], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str
) -> None:
    on_terminal(monkeypatch, answer)
    assert main(["up", "--at-login"]) == 0
    assert at_login(Scope()).path.exists() is (answer == "y")
    assert started == ([Scope()] if answer == "y" else [])


def test_yes_writes_it_and_starts_it_and_remove_undoes_it(
    started: list[Scope], capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main(["up", "--at-login", "--yes"]) == 0
    assert len(started) == 2
    assert "it is started at login already" in capsys.readouterr().err
    for told in ("removed", "there is no"):
        assert main(["up", "--at-login", "--remove"]) == 0
        assert told in capsys.readouterr().err
    assert not at_login(Scope()).path.exists()
    assert len(started) == 2


@pytest.mark.parametrize("option", ["--yes", "--remove"])
def test_its_options_mean_nothing_alone(option: str) -> None:
    assert main(["up", option]) == 64
