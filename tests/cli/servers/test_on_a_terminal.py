"""The commands on a real terminal: what they ask, what they show while they wait, and what never reaches it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gaia_bridge.config import ServersConfig, TrustStore, local_servers_path
from tests.cli.running import run
from tests.cli.terminals import COLUMNS, CTRL_C, CTRL_D, terminal

SERVER = Path(__file__).parents[2] / "servers" / "raw_server.py"
RAW = {"command": sys.executable, "args": ["-S", str(SERVER)]}
QUESTION = "[y/N]: "

ESCAPES = "\x1b[2K\x1b[1A\x9b31m\u202e\x07"
"""Moves the cursor, changes colours, turns the direction of writing, and rings the bell."""

HOSTILE = f"{ESCAPES}\r\nok: approved"
"""Begins a line as well."""

SHOWN = "\\x1b[2K\\x1b[1A\\x9b31m\\u202e\\x07\\r\\nok: approved"
"""The same as it may be shown."""

STYLES = re.compile(r"\x1b\[(?:0|1|31|33)?m")
"""What our own texts are styled with."""


def configure(file: str, **servers: Any) -> None:
    path = Path(file).expanduser()
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")


def project(**servers: Any) -> None:
    configure("mcp_servers.json", **servers)


def mine(**servers: Any) -> None:
    configure("~/.gaia/mcp_servers.json", **servers)


def approved() -> dict[str, bool]:
    store, file = TrustStore(), local_servers_path()
    return {name: store.is_approved(file, name, entry) for name, entry in ServersConfig(file).entries.items()}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.requirement("S-25")
def test_a_launch_line_is_shown_whole_and_a_yes_approves_it() -> None:
    long = "--" + "x" * (COLUMNS * 50)
    project(long={"command": "prog", "args": ["-c", "print('a b')", long], "cwd": "/tmp"}, other={"command": "p"})
    with terminal("trust", "long") as screen:
        screen.until(QUESTION)
        assert f"prog -c 'print('\"'\"'a b'\"'\"')' {long}\r\nin folder: /tmp\r\n" in screen.shown
        screen.type("y\n")
        screen.until("long is approved")
        assert screen.ended() == 0
    assert approved() == {"long": True, "other": False}


@pytest.mark.requirement("S-25")
@pytest.mark.parametrize(("answer", "code"), [("n\n", 78), ("\n", 78), (CTRL_C, 130), (CTRL_D, 130)])
def test_nothing_but_a_yes_approves(answer: str, code: int) -> None:
    project(one={"command": "prog"})
    with terminal("trust") as screen:
        screen.until(QUESTION)
        screen.type(answer)
        assert screen.ended() == code
        assert screen.shown.endswith("\n")
        assert "Traceback" not in screen.shown
        said = "one is not approved, and not started; to be asked again: gaia-bridge trust one"
        assert (said in screen.shown) is (code == 78)
    assert approved() == {"one": False}


@pytest.mark.requirement("S-25")
def test_each_server_is_asked_about_and_an_answer_that_is_none_asks_again() -> None:
    project(one={"command": "first"}, two={"command": "second"})
    with terminal("trust") as screen:
        screen.until(QUESTION)
        assert "second" not in screen.shown
        screen.type("perhaps\n")
        screen.until("invalid input")
        screen.type("n\n")
        screen.until("second")
        screen.type("y\n")
        assert screen.ended() == 78
    assert approved() == {"one": False, "two": True}


@pytest.mark.requirement("S-25")
def test_a_question_is_seen_although_the_output_goes_elsewhere_and_not_asked_where_it_would_not_be() -> None:
    project(one={"command": "prog"})
    with terminal("trust", errors=subprocess.DEVNULL) as screen:
        assert screen.ended() == 64
    with terminal("trust", output=subprocess.PIPE) as screen:
        screen.until(QUESTION)
        assert "one, from " in STYLES.sub("", screen.shown)
        screen.type("y\n")
        assert (screen.output(), screen.ended()) == ("one is approved\n", 0)


@pytest.mark.requirement("S-25", "F-113")
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("trust", 4),
        ("trust --list", 1),
        ("trust --revoke", 1),
        ("trust --yes", 5),
        ("list", 0),
        ("list --json", 0),
        ("trust --json", 0),
        ("trust nobody", 0),
        ("tools nobody", 0),
    ],
)
def test_what_a_project_says_moves_no_cursor(command: str, shown: int) -> None:
    project(**{HOSTILE: {"command": HOSTILE, "args": [HOSTILE], "cwd": HOSTILE}})
    with terminal(*command.split()) as screen:
        if command == "trust":
            screen.until(QUESTION)
            screen.type("n\n")
        screen.ended()
        said = STYLES.sub("", screen.shown)
    assert [c for c in said if not c.isprintable() and c not in "\r\n"] == []
    assert "ok: approved" not in said.splitlines()
    assert said.replace("\r\n", "").count(SHOWN) >= shown


@pytest.mark.requirement("S-25")
def test_what_contradicts_itself_changes_nothing() -> None:
    project(one={"command": "prog"})
    for options in (["--yes", "--revoke"], ["--yes", "--list"], ["--list", "--revoke"]):
        result = run("trust", *options)
        assert (result.returncode, result.stdout) == (64, "")
    assert approved() == {"one": False}


def test_approving_and_taking_back_can_be_told_in_json() -> None:
    project(one={"command": "prog"})
    for option, state in (("--yes", True), ("--revoke", False)):
        result = run("trust", option, "--json")
        assert json.loads(result.stdout) == {"servers": [{"name": "one", "approved": state}]}
        assert approved() == {"one": state}


def test_an_approval_can_be_taken_back_when_the_file_does_not_list_the_server_any_more() -> None:
    project(one=RAW)
    assert run("trust", "--yes").returncode == 0
    project()
    assert run("trust", "--revoke", "one").stdout == "one is no longer approved\n"
    assert run("trust", "--revoke", "one").stdout == "one was not approved\n"


def test_a_terminal_shows_what_is_waited_for_and_then_only_the_result() -> None:
    mine(raw=RAW)
    with terminal("tools", "raw") as screen:
        screen.until("connecting to raw")
        assert screen.ended() == 0
    names = ("pid", "env", "odd", "meta", "crash", "hang", "grow", "refuse", "invalid", "progress", "reverse")
    assert STYLES.sub("", screen.left).split() == [f"{name}()" for name in names]
    assert screen.shown.rindex("\x1b[?25h") > screen.shown.rindex("\x1b[?25l"), "the cursor is visible again"


def test_what_is_waited_for_is_never_in_the_output() -> None:
    mine(raw=RAW)
    with terminal("call", "raw", "progress", output=subprocess.PIPE) as screen:
        screen.until("connecting to raw")
        assert (screen.output(), screen.ended()) == ("done\n", 0)
    assert screen.left.strip() == ""
    result = run("call", "raw", "progress")
    assert (result.stdout, result.stderr) == ("done\n", "1/3 step 1\n2/3 step 2\n3/3 step 3\n")
    assert run("tools", "raw", "--json").stderr == ""


def test_what_a_server_says_stays_on_the_terminal_and_ctrl_c_ends_the_waiting_and_the_server() -> None:
    code = "import os, sys, time; print('process', os.getpid(), 'x' * 200, file=sys.stderr, flush=True); time.sleep(99)"
    mine(hangs={"command": sys.executable, "args": ["-S", "-c", code]})
    with terminal("test-client", "hangs") as screen:
        screen.until("x" * 200)  # not cut at the edge of the terminal
        screen.type(CTRL_C)
        assert screen.ended() == 130
    [pid] = re.findall(r"hangs: process (\d+)", screen.shown)
    assert not alive(int(pid))
    assert screen.left.strip() == ""
    assert screen.shown.rindex("\x1b[?25h") > screen.shown.rindex("\x1b[?25l"), "the cursor is visible again"


TALKATIVE = (
    "import sys; sys.stderr.write('starting\\n'); "
    f"sys.path.insert(0, {str(SERVER.parent)!r}); import raw_server as raw; "
    "raw.CALLS['pid'] = lambda number, params: (sys.stderr.write('working\\n'), raw.text(number, 'done')); raw.main()"
)


def test_what_a_server_says_before_it_is_connected_is_no_answer() -> None:
    mine(talks={"command": sys.executable, "args": ["-S", "-c", TALKATIVE]})
    called = run("call", "talks", "pid")
    assert (called.stdout, called.stderr) == ("done\n", "talks: working\n")
    assert run("tools", "talks").stderr == ""
    assert "talks: starting" in run("test-client", "talks").stderr


def test_what_a_server_said_is_shown_once_when_it_fails() -> None:
    code = "import os; raise SystemExit(f'{os.getpid()}: no licence')"
    mine(dies={"command": sys.executable, "args": ["-S", "-c", code]})
    result = run("tools", "dies")
    assert result.returncode == 69
    assert result.stderr.count(": no licence") == 1, "of two processes"


def test_what_a_server_said_is_shown_when_nobody_waits_for_it_any_more() -> None:
    code = "import sys, time; print('looking for', 'my other half', file=sys.stderr, flush=True); time.sleep(99)"
    mine(hangs={"command": sys.executable, "args": ["-S", "-c", code]})
    with terminal("tools", "hangs") as screen:
        screen.until("my other half")
        screen.type(CTRL_C)
        assert screen.ended() == 130
    assert "hangs: looking for my other half\r\n" in STYLES.sub("", screen.shown)  # a line that stays


def test_an_error_is_left_on_the_terminal() -> None:
    mine(dead={"command": "no-such-program"})
    with terminal("test-client", "dead") as screen:
        assert screen.ended() == 69
    assert "error: server 'dead': it cannot be started: 'no-such-program'" in screen.left


@pytest.fixture
def hostile_server(tmp_path: Path) -> None:
    """A server `hostile` whose tool `pid` answers with control characters, and whose other texts have some too."""
    text = f"{ESCAPES}approved\n\tsecond \ud800 line"
    code = f"""
        import sys
        sys.path.insert(0, {str(SERVER.parent)!r})
        import raw_server as raw
        raw.CALLS["pid"] = lambda number, params: raw.text(number, {text!r})
        raw.CALLS["refuse"] = lambda number, params: raw.send(
            {{"id": number, "error": {{"code": 1, "message": {HOSTILE!r}}}}}
        )
        raw.tools.append({{"name": {HOSTILE!r}, "description": {HOSTILE!r}, "inputSchema": {{"type": "object"}}}})
        raw.INFO["name"] = {HOSTILE!r}
        raw.main()
    """
    file = tmp_path / "hostile.py"
    file.write_text("\n".join(line[8:] for line in code.splitlines()), encoding="utf-8")
    mine(hostile={"command": sys.executable, "args": ["-S", str(file)]})


@pytest.mark.requirement("F-113")
@pytest.mark.usefixtures("hostile_server")
@pytest.mark.parametrize(
    "command",
    [
        "call hostile pid",
        "tools hostile",
        *(
            pytest.param(command, marks=pytest.mark.thorough)
            for command in (
                "call hostile pid --json",
                "call hostile refuse",
                "call hostile nothing-like-this",
                "tools hostile --json",
                "test-client hostile",
                "test-client hostile --json",
            )
        ),
    ],
)
def test_what_a_server_says_moves_no_cursor(command: str) -> None:
    with terminal(*command.split()) as screen:
        code = screen.ended()
    said = STYLES.sub("", screen.left)
    assert code in (0, 64, 69)
    assert "Traceback" not in said
    assert "approved" in said
    assert [c for c in said if not c.isprintable() and c not in "\r\n"] == []
    assert "ok: approved" not in said.splitlines()


@pytest.mark.usefixtures("hostile_server")
def test_a_program_gets_the_text_of_a_tool_as_it_is() -> None:
    command = [sys.executable, "-m", "gaia_bridge", "call", "hostile", "pid"]
    result = subprocess.run(command, stdout=subprocess.PIPE, timeout=30, check=True)
    assert result.stdout == f"{ESCAPES}approved\n\tsecond ? line\n".encode()


def test_the_log_of_a_server_is_followed_until_ctrl_c() -> None:
    mine(time={"command": "prog"})
    folder = Path.home() / ".gaia" / "logs"
    folder.mkdir(parents=True)
    file = folder / "time.log"
    file.write_text("first\nsecond\nsecond\nhalf", encoding="utf-8")
    with terminal("logs", "time", "--follow", "-n", "2") as screen:
        screen.until("second\r\nsecond\r\n")
        with file.open("a", encoding="utf-8") as more:
            more.write(" a line\nsecond\n\x1b[31m")
        screen.until("half a line\r\nsecond\r\n")
        file.rename(folder / "time.log.1")
        file.write_text("after\n", encoding="utf-8")
        screen.until("after")
        screen.type(CTRL_C)
        assert screen.ended() == 130
    assert "first" not in screen.shown
    assert screen.shown.startswith("second\r\nsecond\r\nhalf a line\r\nsecond\r\nafter\r\n")


def test_the_end_of_whoever_reads_ends_a_command_quietly() -> None:
    mine(raw=RAW)
    reading, writing = os.pipe()
    os.close(reading)
    with terminal("tools", "raw", output=writing) as screen:
        os.close(writing)
        assert screen.ended() != 0
    assert "Traceback" not in screen.shown
    assert "internal error" not in screen.shown
