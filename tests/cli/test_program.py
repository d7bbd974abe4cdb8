"""The program as a whole: its options, its exit codes, and what it says when something is wrong."""

from __future__ import annotations

import importlib.util
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

import gaia_bridge_cli
from gaia_bridge import __version__
from gaia_bridge.errors import AgentLoadError, BridgeError, ConfigError, ListenError, PublishError
from gaia_bridge_cli import main
from gaia_bridge_cli.exit_codes import ExitCode
from gaia_bridge_cli.options import log_options, set_up_logging
from gaia_bridge_cli.origin import installed_from
from gaia_bridge_cli.program import program
from tests.cli.running import run
from tests.cli.terminals import terminal

CLONE = Path(__file__).parents[2]
HEAVY = {"anyio", "gaia", "gaia_agents", "jsonschema_rs", "mcp", "pydantic", "rich", "starlette", "uvicorn", "uvloop"}


def command(callback: Callable[[], object]) -> click.Command:
    """A command that runs `callback`, with the options that every command has."""

    @click.command()
    @log_options
    @click.pass_context
    def boom(ctx: click.Context, log_level: str | None, debug: bool) -> object:
        set_up_logging(ctx, log_level, debug, default="error")
        return callback()

    return boom


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setitem(program.commands, "boom", command(fail))


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gaia-bridge {__version__}\n"


def test_the_help_names_the_commands_and_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"], prog_name="gaia mcp") == 0
    text = capsys.readouterr().out
    assert "Usage: gaia mcp" in text
    assert "  agents " in text
    assert "  serve " in text


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["serve", "--help"], ["agents", "--help"], ["serve", "--no"]]
)
def test_help_is_not_kept_waiting_by_imports(arguments: list[str]) -> None:
    code = (
        "import sys; from gaia_bridge_cli import main; main(sys.argv[1:]);"
        "print('imported:', *sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=30
    )
    imported = set(result.stdout.rpartition("imported:")[2].split())
    assert "click" in imported
    assert imported & HEAVY == set()


@pytest.mark.parametrize("module", ["gaia_bridge.cli", "gaia_bridge_cli", "gaia.cli"])
def test_ctrl_c_ends_it_quietly_while_it_is_imported(tmp_path: Path, module: str) -> None:
    loading = "import sys, threading; print('loading', file=sys.stderr, flush=True); threading.Event().wait()"
    (tmp_path / "click.py").write_text(loading, encoding="utf-8")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from {module} import main; main(['mcp', 'list'])"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "loading\n"
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == ""
    assert process.returncode == -signal.SIGINT


@pytest.mark.parametrize(("arguments", "handler"), [("None", "SIG_DFL"), ("['-h']", "default_int_handler")])
def test_ctrl_c_ends_the_process_at_once_after_its_own_command_line_alone(arguments: str, handler: str) -> None:
    code = f"import signal; from gaia_bridge_cli import main; main({arguments}); print(repr(signal.getsignal(2)))"
    result = subprocess.run([sys.executable, "-c", code, "--version"], capture_output=True, text=True, timeout=30)
    assert handler in result.stdout


def test_a_command_whose_package_is_missing_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> None:
        assert name == "acp"

    monkeypatch.setattr(importlib.util, "find_spec", nothing)
    assert main(["acp", "agent.py"]) == 78
    assert "not installed (pip install 'gaia-mcp-bridge[acp]')" in capsys.readouterr().err


@pytest.mark.requirement("F-367")
def test_the_help_lists_every_command_once_in_groups_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    text = capsys.readouterr().out.partition("Example:")[0]
    text = text[text.index("Begin:\n") :]
    groups = ["Begin", "Run", "Editors", "One bridge for all editors", "Servers", "Try servers and agents", "Shell"]
    assert re.findall(r"^(\w[\w ]*):\n", text, re.MULTILINE) == groups
    listed = re.findall(r"^  ([a-z-]+) {2,}\w", text, re.MULTILINE)
    assert sorted(listed) == sorted(name for name, command in program.commands.items() if not command.hidden)
    assert "..." not in text


def test_a_command_that_cannot_debug_says_where_an_error_of_our_own_comes_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setitem(program.commands, "boom", click.Command("boom", callback=fail))
    assert main(["boom"]) == 70
    assert re.search(r"ZeroDivisionError: by zero; it comes from .*test_program\.py:\d+$", capsys.readouterr().err)


@pytest.mark.requirement("F-367")
@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        *[(word, "serve") for word in ("run", "start")],
        *[
            ("create", "init"),
            ("add-json", "add"),
            ("ls", "list"),
            ("rm", "remove"),
            ("stop", "disable"),
            ("inspect", "test-client"),
            ("statsu", "status"),
        ],
        *[
            ("agent.py", "serve agent.py"),
            ("./agents", "serve ./agents"),
            ("check", "doctor"),
            ("help", "--help"),
        ],
    ],
)
def test_a_command_of_another_program_is_told_what_it_is_here(
    capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    assert main([typed]) == 64
    assert f"No such command {typed!r}. Did you mean {meant!r}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "Usage:"),
        (["--unknown"], "No such option"),
        (["unknown"], "No such command"),
        (["serve", "--unknown"], "No such option"),
        (["serve", "--port", "x"], "'x' is not a valid number"),
        (["serve", "--port", "70000"], "0<=x<=65535"),
        (["serve", "--names", "x"], "is not one of"),
        (["serve", "--tool-search", "agent.py"], "'agent.py' is not one of 'auto', 'always', 'never'"),
        (["agents", "--log-level", "x"], "is not one of"),
    ],
)
def test_a_wrong_command_line_is_explained(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 64
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""


@pytest.mark.requirement("F-120")
@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (AgentLoadError("x:Y", "it is\nnot there"), 66, "agent 'x:Y': it is not there"),
        (PublishError("x", "taken"), 66, "cannot publish 'x': taken"),
        (ListenError("127.0.0.1:80", "not permitted"), 69, "cannot listen on 127.0.0.1:80: not permitted"),
        (ConfigError("file.json", "not JSON"), 78, "file.json: not JSON"),
        (BridgeError("something else"), 70, "something else"),
        (
            ExceptionGroup("tasks", [ExceptionGroup("tasks", [ListenError("[::1]:1", "the port is in use")])]),
            69,
            "cannot listen on [::1]:1: the port is in use",
        ),
        (
            ZeroDivisionError("division\nby zero"),
            70,
            "internal error: ZeroDivisionError: division by zero; run with --debug for the traceback",
        ),
        (
            ExceptionGroup("tasks", [OSError("one"), OSError("two")]),
            70,
            "internal error: ExceptionGroup: tasks (2 sub-exceptions); run with --debug for the traceback",
        ),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int, line: str
) -> None:
    failing(monkeypatch, error)
    assert main(["boom"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == f"gaia-bridge: error: {line}\n"


def test_debug_shows_where_an_error_comes_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing(monkeypatch, ZeroDivisionError("by zero"))
    assert main(["boom", "--debug"]) == 70
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.endswith("gaia-bridge: error: internal error: ZeroDivisionError: by zero\n")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), click.Abort()])
def test_an_interrupt_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], interrupt: BaseException
) -> None:
    failing(monkeypatch, interrupt)
    assert main(["boom"]) == ExitCode.INTERRUPTED
    assert "Traceback" not in capsys.readouterr().err


def test_a_command_that_returns_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(program.commands, "boom", command(lambda: None))
    assert main(["boom"]) == 0


def test_the_help_says_of_each_command_what_the_command_says_of_itself(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for name, told in program.commands.items():
        assert told.hidden or f"{name} {told.get_short_help_str(limit=100)}" in lines


def test_every_exit_code_is_documented() -> None:
    documented = set(map(int, re.findall(r"^    (\d+)", gaia_bridge_cli.__doc__ or "", re.MULTILINE)))
    assert documented == {int(code) for code in ExitCode}
    page = (CLONE / "docs" / "reference" / "commands.md").read_text("utf-8").partition("## Exit codes")[2]
    assert documented <= set(map(int, re.findall(r"^\| (\d+)", page, re.MULTILINE)))


def test_the_help_ends_with_an_example_and_the_pages_of_the_documentation(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--help"])
    told = capsys.readouterr().out
    assert "Example:\n  gaia-bridge serve hello_agent.py\n\nDocumentation:\n" in told
    assert "docs/five-minutes.md" in told.replace("\n", "").replace(" ", "")
    monkeypatch.setattr("gaia_bridge_cli.program.installed_from", lambda: CLONE)
    main(["--help"])
    told = capsys.readouterr().out.replace("\n", "").replace(" ", "")
    assert f"commands,exitcodes{CLONE}/docs/reference/commands.md".replace(" ", "") in told


@pytest.mark.parametrize(("installed", "found"), [('{"dir_info": {}, "url": "%s"}', True), ('{"url": "%s"}', False)])
def test_a_program_knows_the_folder_that_it_was_installed_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, installed: str, found: bool
) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    about = tmp_path / "gaia_mcp_bridge-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Name: gaia-mcp-bridge\nVersion: 1\n", "utf-8")
    (about / "direct_url.json").write_text(installed % folder.as_uri(), "utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert installed_from() == (folder if found else None)
    (folder / "pyproject.toml").unlink()
    assert installed_from() is None


@pytest.mark.parametrize(("no_color", "name"), [("", "\x1b[1mcode\x1b[0m"), ("1", "code")])
def test_a_terminal_has_colours_unless_its_user_wants_none(
    monkeypatch: pytest.MonkeyPatch, no_color: str, name: str
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    with terminal("agents", "code", cwd=CLONE / "docs") as screen:
        assert screen.ended() == 0
    assert f"{name}  " in screen.left.splitlines()[0]


def test_the_module_is_the_program() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout) == (0, f"gaia-bridge {__version__}\n")
    wrong = run("--unknown")
    assert wrong.returncode == 64
    assert "python -m gaia_bridge" in wrong.stderr


def test_a_mistake_in_the_program_is_no_success_whoever_ends_the_process() -> None:
    code = "import gaia_bridge_cli.program as p; p.run = 'no function'; from gaia_bridge_cli import main; main()"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert ended.returncode == 1
    assert "TypeError" in ended.stderr
