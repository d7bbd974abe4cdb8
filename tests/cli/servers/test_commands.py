"""The commands that manage servers, as they are typed: what they print, what they change, what they end with."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from gaia_bridge.text.json_types import JSON
from tests.cli.running import GLOBAL, Run, entries, running, write_agent
from tests.support.waiting import eventually

SERVER = Path(__file__).parents[2] / "servers" / "raw_server.py"
COMMAND = f"{sys.executable} -S {SERVER}"


def project(**servers: Any) -> Path:
    file = Path("mcp_servers.json")
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return file


@pytest.mark.requirement("S0-62", "S3-16", "S0-53")
def test_an_added_server_was_tried_and_is_kept_as_program_and_arguments(run: Run) -> None:
    code, out, _ = run("add", "raw", f"{COMMAND} '' ", "--env", "KEY=${env:HOME}")
    assert (code, out.splitlines()[0]) == (0, "raw 9.1, MCP 2025-11-25: 11 tools")
    assert entries() == {
        "raw": {"command": sys.executable, "args": ["-S", str(SERVER), ""], "env": {"KEY": "${env:HOME}"}}
    }


def test_a_relative_file_is_looked_for_where_the_entry_is_kept(run: Run) -> None:
    Path(".gaia").mkdir()
    Path(".gaia/key").write_text("k", encoding="utf-8")
    assert run("add", "raw", COMMAND, "--env", "KEY=${file:key}")[0] == 0
    code, _, err = run("add", "other", COMMAND, "--local", "--env", "KEY=${file:key}")
    assert (code, f"{Path.cwd()}/key: cannot be read" in err) == (78, True)


@pytest.mark.requirement("F-369")
def test_who_lacks_a_program_that_servers_need_is_told_where_it_comes_from(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("gaia_bridge.config.launching.search_path.usual_folders", lambda: ())
    assert "uvx is a part of uv: https://docs.astral.sh/uv/" in run("add", "x", "uvx server")[2]


@pytest.mark.requirement("F-369")
def test_what_was_added_in_one_folder_works_in_every_other(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    Path("server.py").write_text(SERVER.read_text(encoding="utf-8"), encoding="utf-8")
    file = Path("server.py").absolute()
    code, _, err = run("add", "raw", "--", sys.executable, "-S", "server.py")
    assert (code, f"note: server.py is kept as {file}, to be found from every folder" in err) == (0, True)
    assert run("add", "here", "--local", "--no-connect", "--", sys.executable, "server.py")[0] == 0
    assert entries("mcp_servers.json")["here"]["args"] == ["server.py"]
    monkeypatch.chdir(tmp_path)
    assert run("tools", "raw")[0] == 0


def test_a_server_with_blanks_and_slashes_in_its_name_is_called_by_it(run: Run) -> None:
    name = "@scope/my server"
    assert run("add", name, COMMAND)[0] == 0
    assert list(entries()) == [name]
    assert name in run("list")[1]
    assert run("tools", name)[1].splitlines()[0] == "pid()"
    assert run("call", name, "pid")[0] == 0
    assert run("logs", name)[::2] == (0, f"{name} has written nothing so far\n")
    assert run("disable", name)[1] == f"disabled {name} in {Path(GLOBAL).absolute()}\n"
    assert "to use it: gaia-bridge enable '@scope/my server'" in run("tools", name)[2]
    assert run("enable", name)[0] == 0
    assert run("remove", name)[1] == f"removed {name} from {Path(GLOBAL).absolute()}\n"
    assert entries() == {}


def test_a_name_that_cannot_be_seen_is_refused(run: Run) -> None:
    code, _, err = run("add", "a\tb", COMMAND)
    assert (code, "the name of a server has 1 to 128 characters that can be seen" in err) == (78, True)


def test_a_command_can_be_typed_as_words(run: Run) -> None:
    assert run("add", "raw", "--", *shlex.split(COMMAND))[0] == 0
    assert entries()["raw"]["args"] == ["-S", str(SERVER)]


@pytest.mark.parametrize(
    ("command", "code", "complaint"),
    [
        ("no-such-program", 69, "server 'bad': it cannot be started: 'no-such-program': No such file or directory"),
        (f"{sys.executable} -c 'raise SystemExit(3)'", 69, "server 'bad': it exited with code 3"),
        ("echo a | cat", 64, "the command needs a shell because of its '|'"),
        ("http://", 78, "server 'bad'"),
        ("http://127.0.0.1:9/mcp", 69, "server 'bad': it"),
    ],
)
@pytest.mark.requirement("S0-63")
def test_a_server_that_does_not_work_is_not_kept(run: Run, command: str, code: int, complaint: str) -> None:
    ended, out, err = run("add", "bad", command)
    assert (ended, out) == (code, "")
    assert complaint in err
    assert not Path(".gaia/servers").exists()
    assert not Path(GLOBAL).exists()


def test_what_cannot_be_tried_now_can_be_kept_all_the_same(run: Run) -> None:
    arguments = (
        "add",
        "net",
        "https://mcp.example.com/mcp",
        "--header",
        "Authorization: Bearer ${T:-x}",
        "--no-connect",
    )
    assert run(*arguments, "--timeout", "5")[0] == 0
    headers = {"Authorization": "Bearer ${T:-x}"}
    assert entries() == {"net": {"url": "https://mcp.example.com/mcp", "headers": headers, "timeout": 5.0}}
    assert run(*arguments)[0] == 78
    assert run(*arguments, "--force")[0] == 0
    assert "timeout" not in entries()["net"]


@pytest.mark.parametrize("reference", ["${env:NOT_YET}", "${NOT_YET}", "${file:not-yet}"])
def test_what_a_kept_server_refers_to_may_come_later(run: Run, reference: str) -> None:
    code, _, err = run("add", "raw", COMMAND, "--env", f"KEY={reference}", "--no-connect")
    assert (code, entries()["raw"]["env"]) == (0, {"KEY": reference})
    assert err.startswith("note: 'KEY' in 'env' needs ")
    assert "not-yet" in err or "NOT_YET" in err
    code, _, err = run("add", "other", COMMAND, "--env", "KEY=${NO WAY}", "--no-connect")
    assert (code, "is not understood" in err) == (78, True)
    code, _, err = run("add", "other", COMMAND, "--env", f"KEY={reference}")
    assert (code, "needs" in err, list(entries())) == (78, True, ["raw"])


def test_a_file_that_cannot_be_changed_is_told_before_anything_is_started(run: Run) -> None:
    Path("mcp_servers.json").write_text("{", encoding="utf-8")
    code, _, err = run("add", "raw", "touch started")
    assert (code, "mcp_servers.json:1:2" in err, Path("started").exists()) == (78, True, False)
    assert run("add", "raw", COMMAND, "--global")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["prog", "--header", "A: b"], "--header and --sse are for a URL"),
        (["http://x.example", "--env", "A=b"], "--env and --cwd are for a COMMAND"),
        (["prog", "--env", "1A"], "expected NAME=VALUE"),
    ],
)
def test_options_that_do_not_go_together_are_refused(run: Run, arguments: list[str], complaint: str) -> None:
    code, _, err = run("add", "x", *arguments)
    assert code == 64
    assert complaint in err


@pytest.mark.requirement("S3-6", "S3-7", "S3-8", "S3-16")
def test_an_entry_goes_where_it_belongs_and_is_removed_where_it_is(run: Run) -> None:
    assert run("add", "one", "prog", "--no-connect")[0] == 0
    project()
    assert run("add", "two", "prog", "--no-connect")[0] == 0
    assert run("add", "three", "prog", "--no-connect", "--global")[0] == 0
    assert run("add", "four", "prog", "--no-connect", "--config", "other.json")[0] == 0
    assert (list(entries()), list(entries("mcp_servers.json")), list(entries("other.json"))) == (
        ["one", "three"],
        ["two"],
        ["four"],
    )
    assert run("remove", "one")[1] == f"removed one from {Path(GLOBAL).absolute()}\n"
    assert (list(entries()), list(entries("mcp_servers.json"))) == (["three"], ["two"])


@pytest.mark.requirement("S0-63")
def test_the_list_says_where_each_server_comes_from_and_whether_it_is_used(run: Run) -> None:
    run("add", "good", "prog --token sk-abcdefghijklmnop1234", "--no-connect", "--secrets", "clear")
    run("add", "off", "prog", "--no-connect")
    run("disable", "off")
    project(strange={"command": "other"})
    code, out, _ = run("list", "--json")
    rows = {row["name"]: row for row in json.loads(out)["servers"]}
    assert code == 0
    assert {name: (row["from"], row["used"]) for name, row in rows.items()} == {
        "good": ("global", True),
        "off": ("global", False),
        "strange": ("local", False),
    }
    assert "sk-abc" not in out
    plain = run("list")[1]
    assert "run: gaia-bridge trust strange" in plain
    assert "sk-abc" not in plain


@pytest.mark.requirement("P-201")
@pytest.mark.parametrize(("era", "revision"), [("auto", "2026-07-28"), ("handshake", "2025-11-25")])
def test_the_era_of_an_entry_is_shown_and_counts_for_the_commands(run: Run, era: str, revision: str) -> None:
    project(both={"command": sys.executable, "args": ["-S", str(SERVER), "both"], "era": era})
    config = ("--config", "mcp_servers.json")
    [row] = json.loads(run("list", "--json", *config)[1])["servers"]
    assert row["era"] == era
    assert ("handshake only" in run("list", *config)[1]) is (era == "handshake")
    assert json.loads(run("test-client", "both", "--json", *config)[1])["protocolVersion"] == revision
    assert run("call", "both", "pid", *config)[1].strip().isdecimal()


@pytest.mark.requirement("S3-21")
def test_a_broken_file_is_told_and_the_other_one_is_listed(run: Run) -> None:
    run("add", "good", "prog", "--no-connect")
    Path("mcp_servers.json").write_text("{", encoding="utf-8")
    code, out, err = run("list")
    assert code == 78
    assert "good" in out
    assert "mcp_servers.json:1:2" in err
    Path(".gaia/mcp_servers.json").unlink()
    code, _, err = run("list")
    assert (code, "no servers are configured" in err, "mcp_servers.json:1:2" in err) == (78, False, True)
    code, _, err = run("tools", "time")
    assert (code, "expected a configured server" in err, "mcp_servers.json:1:2" in err) == (78, False, True)


@pytest.mark.requirement("S0-63")
@pytest.mark.parametrize("command", ["tools", "test-client", "remove", "enable", "disable", "logs", "call", "login"])
def test_a_server_that_is_not_there_is_an_error_that_helps(run: Run, command: str) -> None:
    assert "add one: gaia-bridge add NAME COMMAND" in run("tools", "wether")[2]
    run("add", "weather", "prog", "--no-connect")
    code, out, err = run(command, "wether", *(["x"] if command == "call" else []))
    assert (code, out) == (78, "")
    assert "did you mean 'weather'?" in err


def test_a_name_like_that_of_a_file_of_the_folder_is_led_to_the_file(run: Run) -> None:
    Path("hello_agent.py").touch()
    for name in ("hello", "hello_agent"):
        code, _, err = run("call", name, "greet")
        assert (code, "did you mean 'hello_agent.py'?" in err) == (78, True), err


def test_a_tool_that_calls_input_is_led_to_questions_and_not_to_a_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    file = tmp_path / "typed_name.py"
    file.write_text("from gaia_bridge import tool\n\n@tool\ndef name() -> str:\n    return input()\n", "utf-8")
    code, _, err = run("call", str(file), "name")
    assert (code, "ask the user by get_request_context().elicit(" in err) == (1, True)
    assert "run the command in a terminal" not in err


@pytest.mark.requirement("F-362")
@pytest.mark.parametrize("command", ["tools", "test-client", "call", "login"])
@pytest.mark.parametrize("named", [False, True])
def test_a_server_that_is_disabled_is_not_started(run: Run, command: str, named: bool) -> None:
    option = ["--config", "own file.json"] if named else []
    started = Path("started")
    code = f"open({str(started.absolute())!r}, 'w')"
    run("add", "off", *option, "--no-connect", "--", sys.executable, "-S", "-c", code)
    assert run("disable", "off", *option)[0] == 0
    result, out, err = run(command, "off", *(["x"] if command == "call" else []), *option)
    assert (result, out) == (78, "")
    assert "server 'off' is disabled (to use it: gaia-bridge enable off" in err
    assert (f" --config '{Path('own file.json').absolute()}'" in err) is named
    assert not started.exists()
    assert run("enable", "off", *option)[0] == 0
    assert "is disabled" not in run(command, "off", *(["x"] if command == "call" else []), *option)[2]


@pytest.mark.requirement("F-362", "S-25")
def test_a_server_that_is_disabled_is_not_started_in_place_of_one_that_was_not_approved(run: Run) -> None:
    run("add", "raw", COMMAND, "--no-connect")
    run("disable", "raw")
    project(raw={"command": "other"})
    code, _, err = run("tools", "raw")
    assert (code, "server 'raw' is disabled (change that there)" in err) == (78, True)


@pytest.mark.requirement("S0-63")
def test_the_tools_of_a_server_are_shown_with_their_parameters(run: Run) -> None:
    run("add", "raw", COMMAND, "--no-connect")
    assert [tool["name"] for tool in json.loads(run("tools", "raw", "--json")[1])["tools"]][:2] == ["pid", "env"]
    assert "pid()" in run("tools", "raw")[1].splitlines()


@pytest.mark.requirement("S0-63")
def test_tools_that_the_configuration_keeps_back_are_marked(run: Run) -> None:
    run("add", "raw", COMMAND, "--no-connect")
    file = Path(GLOBAL)
    document = json.loads(file.read_text(encoding="utf-8"))
    document["mcpServers"]["raw"]["disabled_tools"] = ["env"]
    file.write_text(json.dumps(document), encoding="utf-8")
    assert json.loads(run("tools", "raw", "--json")[1])["notPublished"] == ["env"]
    lines = run("tools", "raw")[1].splitlines()
    assert "pid()" in lines
    assert [line for line in lines if "not published" in line] == [
        "env() (not published: see allowed_tools and disabled_tools of the entry)"
    ]


def test_a_tool_is_called_and_what_it_says_is_printed(run: Run) -> None:
    run("add", "raw", COMMAND, "--no-connect")
    code, out, _ = run("call", "raw", "pid")
    assert (code, out.strip().isdecimal()) == (0, True)
    assert json.loads(run("call", "raw", "odd", "--json")[1])["structuredContent"]["nested"] == {
        "deep": [1, 2.5, True, None]
    }
    assert "[image: image/png, 2 bytes]" in run("call", "raw", "odd")[1]
    code, _, err = run("call", "raw", "pdi")
    assert code == 64
    assert "did you mean 'pid'?" in err
    assert run("call", "raw", "pid", "nonsense")[0] == 64
    code, _, err = run("call", "raw", "refuse")
    assert code == 69
    assert "not today (-31999)" in err


def test_tools_are_shown_and_called_as_the_configuration_wants_them(run: Run) -> None:
    argument = {"isError": {"name": "failed"}, "content": {"hidden": True, "default": [{"type": "text", "text": "so"}]}}
    tools = {
        "promised": {"name": "answer", "description": "Answers.", "arguments": argument},
        "pid": {"hidden": True},
        "gone": {},
    }
    declared = {"isError": {"type": "boolean"}, "content": {"type": "array"}}
    schema = {"type": "object", "properties": declared}
    program = f"import sys; sys.path.insert(0, {str(SERVER.parent)!r}); import raw_server as raw; " + (
        f"raw.tools[1:] = [dict(name='promised', inputSchema={schema})]; raw.main()"
    )
    file = project(raw={"command": sys.executable, "args": ["-S", "-c", program], "tools": tools})
    from_file = ("--config", str(file))
    _, out, err = run("tools", "raw", *from_file)
    assert out.splitlines() == ["answer(failed: bool = ...)", "  Answers."]
    assert "tool 'gone' is left out: it cannot be as the configuration wants it: the server has no such tool" in err
    assert run("call", "raw", "answer", "failed=false", *from_file)[:2] == (0, "so\n")
    assert run("call", "raw", "answer", "failed=true", *from_file)[0] == 1
    code, _, err = run("call", "raw", "answer", "content:=[]", *from_file)
    assert (code, "tool 'answer' has no argument 'content'" in err) == (64, True)
    for name in ("promised", "pid"):
        code, _, err = run("call", "raw", name, *from_file)
        assert (code, f"raw has no tool '{name}'" in err) == (64, True)


def test_arguments_that_nobody_could_mean_are_refused_before_the_server_is_started(run: Run) -> None:
    run("add", "dead", "no-such-program", "--no-connect")
    for words in (["{bad"], ["nonsense"], ["a:=x"], ["a=1", "a=2"]):
        code, _, err = run("call", "dead", "tool", *words)
        assert code == 64
        assert "cannot be started" not in err
    assert run("call", "dead", "tool", "a=1")[0] == 69


def test_what_a_tool_answers_is_printed_whatever_it_consists_of(run: Run) -> None:
    run("add", "raw", f"{COMMAND} promises", "--no-connect")

    def answer(**result: Any) -> tuple[int, str, str]:
        return run("call", "raw", "promised", json.dumps(result))

    resource = {"type": "resource", "resource": {"uri": "raw://r", "blob": "aGk="}}
    assert answer(content=[resource])[1] == "[resource: raw://r, 2 bytes]\n"
    assert answer(content=[{"type": "hologram"}])[1] == '{"type":"hologram"}\n'
    assert answer(content=[], structuredContent={"sum": 3}) == (0, '{\n  "sum": 3\n}\n', "")
    assert answer(content=[]) == (0, "", "promised answered with nothing\n")
    assert answer(isError=True) == (1, "", "promised failed:\nsee there\n")
    assert answer(isError=True, content=[]) == (1, "", "promised failed, and does not say why\n")


@pytest.mark.parametrize("command", ["list", "tools raw", "call raw pid", "test-client raw", "logs raw", "login raw"])
def test_a_file_that_was_named_and_is_not_there_is_an_error(run: Run, command: str) -> None:
    code, out, err = run(*command.split(), "--config", "no-such.json")
    assert (code, out) == (78, "")
    assert "no-such.json: there is no such file" in err


def test_of_many_tools_some_are_named_to_somebody_who_named_none_of_them(run: Run) -> None:
    code = f"import sys; sys.path.insert(0, {str(SERVER.parent)!r}); import raw_server as raw; " + (
        "raw.tools += [{'name': f'tool-{n}', 'inputSchema': {}} for n in range(90)]; raw.main()"
    )
    run("add", "many", "--no-connect", "--", sys.executable, "-S", "-c", code)
    err = run("call", "many", "zzz")[2]
    assert "env" in err
    assert "and 81 more" in err


def test_what_the_permissions_of_a_file_give_away_is_told(run: Run) -> None:
    run("add", "raw", "prog", "--env", "TOKEN=sk-abcdefghijklmnop1234", "--no-connect", "--secrets", "clear")
    Path(GLOBAL).chmod(0o644)
    code, out, err = run("list")
    assert code == 0
    assert "warning: " in err and "other users can read the secret" in err
    assert len(json.loads(run("list", "--json")[1])["warnings"]) == 1
    assert "sk-abc" not in out + err


def test_what_a_server_wrote_can_be_told_in_json(run: Run) -> None:
    run("add", "raw", "prog", "--no-connect")
    assert run("logs", "raw") == (0, "", "raw has written nothing so far\n")
    file = Path.home() / ".gaia" / "logs" / "raw.log"
    file.parent.mkdir()
    file.write_bytes(b"one\ntwo\x1b[2J\nhalf")
    assert run("logs", "raw", "-n", "2") == (0, "two\\x1b[2J\nhalf\n", "")
    assert json.loads(run("logs", "raw", "--json")[1]) == {"server": "raw", "lines": ["one", "two\x1b[2J", "half"]}
    assert run("logs", "raw", "--json", "--follow")[0] == 64


def test_who_reads_that_a_server_does_not_know_what_it_was_asked_first_is_told_that_this_is_no_fault(run: Run) -> None:
    code = "import sys; sys.stderr.write('no such method: server/discover\\n'); "
    code += f"sys.argv=['x']; exec(open({str(SERVER)!r}).read())"
    for name, said in (("odd", code), ("quiet", code.replace("server/discover", "other"))):
        run("add", name, "--no-connect", "--", sys.executable, "-S", "-c", said)
        told = run("test-client", name)
        assert told[0] == 0 and f"{name}: no such method: " in told[2]
        assert ("(server/discover), which it does not know" in told[2]) is (name == "odd")
    file = Path.home() / ".gaia" / "logs" / "odd.log"
    file.parent.mkdir()
    file.write_text("no such method: server/discover\n", "utf-8")
    assert "which it does not know; what it wrote of that is no fault" in run("logs", "odd")[2]


@pytest.mark.requirement("S0-63")
def test_a_server_is_really_tested(run: Run) -> None:
    run("add", "raw", COMMAND, "--no-connect")
    code, out, _ = run("test-client", "raw", "--json")
    found = json.loads(out)
    assert (code, found["era"], found["problems"]) == (0, "legacy", [])
    assert found["definitions"]["tool"] == 11
    assert found["pingSeconds"] < found["connectSeconds"]
    assert run("test-client", "raw")[1].endswith("raw works\n")
    run("add", "dead", "no-such-program", "--no-connect")
    assert run("test-client", "dead")[0] == 69


@pytest.mark.requirement("S-25", "C-18")
def test_a_server_of_the_project_is_used_once_its_launch_line_was_approved_and_as_long_as_it_stays(run: Run) -> None:
    project(raw={"command": sys.executable, "args": ["-S", str(SERVER)]})
    assert run("tools", "raw")[0] == 78
    assert run("trust")[0] == 64  # there is nobody to ask
    code, out, _ = run("trust", "--yes")
    assert code == 0
    assert f"-S {SERVER}" in out
    assert run("tools", "raw")[0] == 0
    assert run("trust", "--list")[1] == "raw: approved\n"
    assert run("trust")[1] == "nothing is waiting for approval\n"
    project(raw={"command": sys.executable, "args": ["-S", str(SERVER), "--more"]})
    assert run("tools", "raw")[0] == 78
    assert (
        run("trust", "--json")[1]
        == '{\n  "servers": [\n    {\n      "name": "raw",\n      "approved": false\n    }\n  ]\n}\n'
    )


def test_in_the_folder_of_the_users_own_file_there_is_nothing_to_approve(run: Run, monkeypatch: Any) -> None:
    Path(".gaia").mkdir()
    monkeypatch.chdir(".gaia")
    project(time={"command": "uvx"})
    code, _, err = run("trust", "--list")
    assert (code, "is your own file, which needs no approval" in err) == (78, True)


@pytest.mark.requirement("S-25")
def test_an_approval_can_be_taken_back_and_what_the_user_added_needs_none(run: Run) -> None:
    project()
    assert run("add", "raw", COMMAND, "--local")[0] == 0
    assert run("tools", "raw")[0] == 0
    assert run("disable", "raw")[0] == run("enable", "raw")[0] == 0
    assert run("tools", "raw")[0] == 0
    assert run("trust", "--revoke", "raw")[1] == "raw is no longer approved\n"
    assert run("tools", "raw")[0] == 78
    code, _, err = run("trust", "other")
    assert code == 78
    assert "lists no server 'other' (there are: raw)" in err


def test_an_argument_that_refers_to_a_variable_of_its_own_entry_is_shown_as_it_is_written(run: Run) -> None:
    entry = {"command": "x", "args": ["--header", "Authorization:${AUTH}"], "env": {"AUTH": "Bearer 0123456789abcdef"}}
    Path(GLOBAL).parent.mkdir(mode=0o700)
    Path(GLOBAL).write_text(json.dumps({"mcpServers": {"x": entry}}), encoding="utf-8")
    Path(GLOBAL).chmod(0o600)
    code, out, err = run("list")
    assert (code, "x --header Authorization:${AUTH}" in out, "0123456789" in out + err) == (0, True, False)


@pytest.mark.requirement("C-18", "S-25")
def test_who_approves_a_line_that_can_run_anything_is_warned(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    project(x={"command": "sh", "args": ["-c", 'exec "$PLACE/server"']})
    warned = f"sh fills in parts of its line, so that it can run anything in {Path.cwd()}: any change there will ask"
    code, out, _ = run("trust", "--yes")
    assert (code, warned in out, "a change of the others is not noticed" in out) == (0, True, False)
    run("trust", "--revoke", "x")
    monkeypatch.setattr("gaia_bridge.config.trust.WHOLE_FILES", 0)
    assert "a change of the others is not noticed" in run("trust", "--yes")[1]


@pytest.mark.requirement("S-25", "C-18")
def test_adding_a_server_approves_nothing_else_of_that_name(run: Run, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    project(time={"command": "strange"})
    assert run("add", "time", "uvx mcp-server-time", "--global", "--force", "--no-connect")[0] == 0
    assert run("trust", "--list")[1] == "time: not approved\n"
    assert run("disable", "time")[0] == run("enable", "time")[0] == 0
    assert run("trust", "--list")[1] == "time: not approved\n"


def test_there_is_nothing_to_log_in_to_at_a_program(run: Run) -> None:
    run("add", "raw", COMMAND, "--no-connect")
    code, _, err = run("login", "raw")
    assert code == 78
    assert "is a program" in err


def test_a_running_bridge_tells_how_it_is_and_keeps_what_its_servers_say(run: Run, tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('I am here\\n'); " + f"sys.argv=['x']; exec(open({str(SERVER)!r}).read())"
    file = tmp_path / "servers.json"
    entry = {"command": sys.executable, "args": ["-c", code], "lazy": False}
    file.write_text(json.dumps({"mcpServers": {"raw": entry, "bad": {"args": []}}}), encoding="utf-8")
    with running("serve", "--port", "0", "--config", str(file), cwd=Path.cwd()) as bridge:
        url = next(word for word in bridge.until_error("http://127.0.0.1:").split() if word.startswith("http://127"))
        base = "/".join(url.split("/")[:3])

        def is_ready() -> bool:
            code, out, _ = run("status", "--url", base)
            assert code == 0
            return any(line.split()[:4] == ["raw", "server", "ready", "11"] for line in out.splitlines())

        eventually(is_ready)
        told = json.loads(run("status", "--url", base, "--json")[1])
        assert "raw" in {source["name"] for source in told["sources"]}
        [left_out] = told["leftOut"]
        assert (left_out["kind"], left_out["name"]) == ("server", "bad")
        assert left_out["reason"] in run("status", "--url", base)[1].splitlines()[-1]
        for typed in (base.removeprefix("http://"), f"{base}/mcp", f"{base}/"):
            assert run("status", "--url", typed)[0] == 0
        assert run("logs", "raw", "--config", str(file))[1].endswith("I am here\n")
        bridge.process.terminate()
        assert "I am here" not in bridge.all_errors()  # it would move out of sight what is to be copied from there
    code_, _, err = run("status", "--url", base)
    assert code_ == 69
    assert "Connection refused; is `gaia-bridge serve` running? `gaia-bridge ps` shows the bridges of editors" in err
    assert "Errno" not in err


@pytest.mark.parametrize("url", ["", "ftp://localhost", "localhost:x", "http://", "http://[", "localhost:70000"])
def test_an_address_that_is_none_is_refused_with_what_was_expected(run: Run, url: str) -> None:
    code, _, err = run("status", "--url", url)
    assert code == 64
    assert "expected http://HOST:PORT" in err


def status_of(run: Run, answer: bytes) -> tuple[int, str, str]:
    """What `status` says of something that answers so."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = Thread(target=server.handle_request)
        thread.start()
        said = run("status", "--url", f"127.0.0.1:{server.server_port}")
        thread.join()
    return said


@pytest.mark.parametrize("answer", [b"<html>", b"[]", b"\xff"])
def test_what_is_no_bridge_is_told_apart_from_one(run: Run, answer: bytes) -> None:
    code, _, err = status_of(run, answer)
    assert code == 69
    assert "no gaia-bridge answers there" in err


def test_the_clients_that_search_because_they_take_fewer_tools_are_told(run: Run) -> None:
    switched = {"path": "/mcp", "client": "visual studio code", "limit": 128, "tools": 2000}
    answer: JSON = {"sources": [], "leftOut": [], "toolSearch": {"policy": "auto", "clients": [switched]}}
    code, out, _ = status_of(run, json.dumps(answer).encode())
    assert code == 0
    assert re.search(r"^visual studio code +client +searches +2000 tools +it takes at most 128$", out, re.MULTILINE)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(run: Run, shell: str) -> None:
    code, out, _ = run("completion", shell)
    assert code == 0
    assert "_GAIA_BRIDGE_COMPLETE" in out


def test_what_cannot_be_reached_is_not_added_unless_that_is_wanted(run: Run) -> None:
    code, out, err = run("add", "gone", "http://127.0.0.1:1/mcp")
    assert (code, out) == (69, "")
    assert (
        "Connection refused; is the server running? if not, start it; it is not added; with --no-connect it is" in err
    )
    assert not Path(GLOBAL).exists()
    assert run("add", "gone", "http://127.0.0.1:1/mcp", "--no-connect")[0] == 0


def test_a_generated_client_is_told_with_its_class(run: Run) -> None:
    write_agent(Path())
    code, _, err = run("generate", "client", "demo.py", "-o", "demo_client.py")
    assert (code, err) == (0, "wrote demo_client.py, with the class GAIADemoAgentClient\n"), err
    assert "class GAIADemoAgentClient:" in Path("demo_client.py").read_text("utf-8")


def test_a_file_that_is_long_in_being_imported_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: list[str] = []

    @contextmanager
    def watching() -> Generator[None]:
        watched.append("imports")
        yield

    monkeypatch.setattr("gaia_bridge_cli.serving.agent_choice.told_of_slow_imports", watching)
    write_agent(Path())
    assert run("tools", "demo.py")[0] == 0
    assert watched == ["imports"]


def test_a_file_that_starts_no_server_is_not_added_and_what_it_may_be_is_told(run: Run) -> None:
    Path("hello_agent.py").write_text("x = 1\n", encoding="utf-8")
    code, _, err = run("add", "hello", "python", "hello_agent.py")
    assert code == 69
    assert "so perhaps the program starts none (an agent in it is published by `gaia-bridge serve " in err
    assert "is kept as" not in err
    code, _, err = run("add", "hello", "hello_agent.py")
    assert (code, "added by `gaia-bridge add NAME python hello_agent.py`" in err) == (64, True), err
    assert not Path(GLOBAL).exists()


@pytest.mark.parametrize("url", ["ftp://example.com/mcp", "ws://127.0.0.1:1"])
def test_a_url_that_is_none_of_http_is_no_program(run: Run, url: str) -> None:
    code, _, err = run("add", "odd", url, "--no-connect")
    assert code == 64
    assert "expected a URL of http or https, or a COMMAND" in err


def test_changes_are_told_to_programs(run: Run) -> None:
    for command, done in (
        (("add", "raw", COMMAND), "added"),
        (("disable", "raw"), "disabled"),
        (("enable", "raw"), "enabled"),
        (("remove", "raw"), "removed"),
    ):
        code, out, _ = run(*command, "--json")
        assert code == 0
        assert json.loads(out) == {"done": done, "name": "raw", "files": [str(Path.home() / GLOBAL)]}


@pytest.mark.parametrize("command", ["remove", "enable", "disable"])
def test_a_file_that_is_not_there_is_told_apart_from_one_without_the_server(run: Run, command: str) -> None:
    code, _, err = run(command, "raw", "--config", "missing.json")
    assert code == 78
    assert "there is no such file" in err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (
            ("docker", "run", "-i", "--rm", "-e", "HOME", "image"),
            {
                "command": "docker",
                "args": ["run", "-i", "--rm", "-e", "HOME", "image"],
                "env": {"HOME": "${env:HOME}"},
            },
        ),
        (
            ("docker", "run", "-e", "ZONE=UTC", "image"),
            {"command": "docker", "args": ["run", "-e", "ZONE=UTC", "image"]},
        ),
        (
            ("thing", "-m", "thing", "--config", "x.json"),
            {"command": "thing", "args": ["-m", "thing", "--config", "x.json"]},
        ),
        (
            ("thing", "--env", "A=1", "--zone", "UTC"),
            {"command": "thing", "args": ["--env", "A=1", "--zone", "UTC"]},
        ),
        (("thing", "--env", "A=1"), {"command": "thing", "args": [], "env": {"A": "1"}}),
        (("thing", "-e", "code"), {"command": "thing", "args": ["-e", "code"]}),
        (
            ("A=1", "B=x y", "thing", "--json", "-v"),
            {"command": "thing", "args": ["--json", "-v"], "env": {"A": "1", "B": "x y"}},
        ),
        (
            ("A=1 B='x y' thing C=2", "--env", "A=2"),
            {"command": "thing", "args": ["C=2"], "env": {"A": "2", "B": "x y"}},
        ),
        (
            ("thing", "run", "--startup-timeout", "5"),
            {"command": "thing", "args": ["run", "--startup-timeout", "5"]},
        ),
        (("thing run", "--startup-timeout", "5"), {"command": "thing", "args": ["run"], "startup_timeout": 5.0}),
        (
            ("--env", "HOME", "thing run", "--cwd", "/"),
            {"command": "thing", "args": ["run"], "env": {"HOME": "${env:HOME}"}, "cwd": "/"},
        ),
        (
            ("--env=A=1", "thing", "--", "--env", "B=2"),
            {"command": "thing", "args": ["--env", "B=2"], "env": {"A": "1"}},
        ),
        (("thing --zone UTC", "--timeout", "5"), {"command": "thing", "args": ["--zone", "UTC"], "timeout": 5.0}),
    ],
)
def test_options_of_the_program_stay_with_the_program(run: Run, words: tuple[str, ...], expected: Any) -> None:
    code, _, err = run("add", "--no-connect", "it", *words)
    assert (code, "is the program's where it stands" in err) == (0, "--startup-timeout" in expected.get("args", []))
    assert entries() == {"it": expected}


def test_removing_touches_the_file_whose_entry_counts_and_says_what_counts_now(run: Run) -> None:
    run("add", "raw", COMMAND, "--global", "--no-connect")
    run("add", "raw", COMMAND, "--local", "--no-connect", "--force")
    code, out, err = run("remove", "raw")
    assert (code, out) == (0, f"removed raw from {Path('mcp_servers.json').absolute()}\n")
    assert "lists raw too, and that entry counts from now on" in err
    assert list(entries()) == ["raw"]


def test_a_file_that_lists_no_servers_is_told(run: Run) -> None:
    Path("odd.json").write_text('{"mcpservers": {"raw": {"command": "x"}}}', encoding="utf-8")
    code, _, err = run("list", "--config", "odd.json")
    assert code == 0
    assert 'names no servers; expected {"mcpServers": {NAME: {"command": ...}}}' in err


TELLING = """
import base64, json, os, sys, urllib.parse
secret = os.environ["KEY"]
forms = secret, urllib.parse.quote(secret, safe=""), base64.b64encode(b"me:" + secret.encode()).decode()
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": asked.get("id")}
    if sys.argv[1] == asked.get("method") or asked.get("method") == "server/discover":
        print(json.dumps(answer | {"error": {"code": -32050, "message": f"no: {forms}"}}), flush=True)
    elif asked.get("method") == "initialize":
        info = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": {"tools": {}}}
        print(json.dumps(answer | {"result": info | {"protocolVersion": "2025-11-25"}}), flush=True)
    elif asked.get("method") == "tools/list":
        print(json.dumps(answer | {"result": {"tools": [{"name": "t", "inputSchema": {}}]}}), flush=True)
    elif asked.get("method") == "tools/call":
        content = [{"type": "text", "text": f"no: {forms}"}]
        print(json.dumps(answer | {"result": {"content": content, "isError": True}}), flush=True)
"""


@pytest.mark.requirement("F-266", "S-36", "F-112")
@pytest.mark.parametrize(
    ("fails_at", "command"),
    [
        ("initialize", ["tools", "up"]),
        ("tools/list", ["test-client", "up"]),
        ("tools/list", ["call", "up", "t"]),
        ("tools/call", ["call", "up", "t"]),
        ("", ["call", "up", "t"]),
        ("", ["call", "up", "t", "--json"]),
    ],
)
def test_what_goes_wrong_is_told_without_the_secrets_of_the_entry(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fails_at: str, command: list[str]
) -> None:
    secret = "s3/cr3t+va lue"
    monkeypatch.setenv("MY_KEY", secret)
    (tmp_path / "telling.py").write_text(TELLING, "utf-8")
    words = (sys.executable, str(tmp_path / "telling.py"), fails_at)
    assert run("add", "up", "--no-connect", "--env", "KEY=${env:MY_KEY}", "--", *words)[0] == 0
    code, out, err = run(*command)
    assert code != 0
    assert "no: (" in out + err and "***" in out + err
    for form in (secret, "s3%2Fcr3t", "bWU6czMvY3Iz"):
        assert form not in out + err


@pytest.mark.requirement("F-271")
def test_a_start_that_takes_too_long_names_the_limit_and_what_was_going_on(run: Run) -> None:
    code = "import sys, time; print('Downloading 300 MB', file=sys.stderr, flush=True); time.sleep(60)"
    entry = {"command": sys.executable, "args": ["-c", code], "startup_timeout": 1.5}
    Path("own.json").write_text(json.dumps({"mcpServers": {"a": entry}}), encoding="utf-8")
    code_, _, err = run("tools", "a", "--config", "own.json")
    assert code_ == 69
    assert "within 1.5 s (startup_timeout); it was still saying: Downloading 300 MB" in err


@pytest.mark.requirement("F-271", "F-270")
def test_a_timeout_that_is_longer_than_a_start_may_take_is_that_of_the_start_too(run: Run) -> None:
    run("add", "a", "x", "--no-connect", "--timeout", "120", "--inherit-env")
    run("add", "b", "x", "--no-connect", "--timeout", "5")
    assert entries() == {
        "a": {"command": "x", "args": [], "inherit_env": True, "timeout": 120, "startup_timeout": 120},
        "b": {"command": "x", "args": [], "timeout": 5},
    }
    assert run("add", "c", "https://example.com", "--inherit-env")[0] == 64


@pytest.mark.requirement("F-270")
def test_a_variable_that_a_server_asks_for_and_that_was_withheld_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "k")
    code = "import os, sys; sys.exit('BRAVE_API_KEY is required' if 'BRAVE_API_KEY' not in os.environ else 'found')"
    _, _, err = run("add", "a", "--", sys.executable, "-c", code)
    assert "you have BRAVE_API_KEY set" in err
    assert "--env BRAVE_API_KEY with `gaia-bridge add`" in err
    _, _, err = run("add", "a", "--env", "BRAVE_API_KEY", "--", sys.executable, "-c", code)
    assert "you have" not in err


@pytest.mark.requirement("F-365")
def test_what_is_pasted_is_shown_tried_and_kept_and_what_does_not_work_is_not(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = {"command": sys.executable, "args": ["-S", str(SERVER)], "env": {"API_KEY": "s3cr3t"}}
    text = json.dumps({"mcpServers": {"raw": raw, "bad": {"command": "no-such-program"}, "late": raw}})
    code, out, err = run("add", text, "--timeout", "50", "--secrets", "clear")
    assert (code, "added raw to" in out, "added late to" in out) == (69, True, True)
    assert f"raw: {sys.executable} -S {SERVER}\nvariable: API_KEY=***\n" in err
    assert "error: server 'bad': it cannot be started" in err
    assert entries() == {name: {**raw, "timeout": 50, "startup_timeout": 50} for name in ("raw", "late")}
    assert run("add", text, "--secrets", "clear")[0] == 78  # they are there already
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"servers": {"in": {"type": "stdio", **raw}}})))
    assert run("add", "-", "--no-connect", "--secrets", "clear")[0] == 0
    assert run("add", "one", json.dumps(raw), "--no-connect", "--local", "--secrets", "clear")[0] == 0
    assert (entries()["in"], entries("mcp_servers.json")) == (raw, {"one": raw})
    assert run("trust", "--list")[1] == "one: approved\n"


@pytest.mark.requirement("F-365")
@pytest.mark.parametrize(
    "arguments",
    [["{}"], ['{"command": "x"}'], ["x", "{"], ['{"a": {"command": "x"}}', "uvx"], ["x", "{}", "--env", "A=b"], ["x"]],
)
def test_what_is_pasted_and_lists_nothing_is_a_wrong_command_line(run: Run, arguments: list[str]) -> None:
    assert run("add", *arguments)[0] == 64
    assert not Path(GLOBAL).exists()


@pytest.mark.requirement("F-366")
def test_what_a_running_bridge_publishes_is_asked_there(run: Run, tmp_path: Path) -> None:
    write_agent(tmp_path)
    with running("serve", "demo.py", "--port", "0", cwd=tmp_path) as bridge:
        port = re.findall(r":(\d+)/mcp", bridge.until_error("/mcp"))[0]
        code, out, err = run("tools", "demo", "--port", port)
        assert (code, out.splitlines()[0]) == (0, "hello()")
        assert err == f"note: demo is published by the bridge at http://127.0.0.1:{port}, which is asked\n"
        assert run("call", "demo", "hello", "--url", f"http://127.0.0.1:{port}/mcp")[1] == '{"text":"hello"}\n'
        assert run("test-client", "demo", "--host", "127.0.0.1", "--port", port)[1].endswith("demo works\n")
        assert "demo  agent  ready" in run("status", "--port", port)[1]
        code, _, err = run("tools", "dem", "--port", port)
        assert code == 78
        assert f"no bridge at http://127.0.0.1:{port} publishes it either" in err


@pytest.mark.requirement("F-366")
@pytest.mark.parametrize("arguments", [["--url", "x:1", "--port", "1"], ["--port", "abc"], ["--port", "0"]])
def test_an_address_of_a_bridge_that_is_none_is_refused(run: Run, arguments: list[str]) -> None:
    for command in (["status"], ["tools", "x"]):
        assert run(*command, *arguments)[0] == 64


@pytest.mark.requirement("F-366")
def test_a_bridge_that_wants_a_token_says_how_it_is_used(run: Run, tmp_path: Path) -> None:
    write_agent(tmp_path)
    with running("serve", "demo.py", "--port", "0", "--auth", cwd=tmp_path) as bridge:
        port = re.findall(r":(\d+)/mcp", bridge.until_error("/mcp"))[0]
        code, _, err = run("tools", "demo", "--port", port)
    assert code == 69
    assert f"gaia-bridge add NAME http://127.0.0.1:{port}/agents/demo/mcp --header 'Authorization:Bearer" in err


@pytest.mark.requirement("F-276")
@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["x", "mcp.example.invalid/mcp"], "did you mean https://mcp.example.invalid/mcp?"),
        (["x", "localhost:8000/mcp"], "did you mean http://localhost:8000/mcp?"),
        (["--scope", "user", "x", "https://x.org"], "no such option: --scope; a URL is recognised by itself"),
        (["x", "FOO=bar"], "the command is missing after FOO"),
        (["--env", "A b", "x", "y"], "expected NAME=VALUE, or NAME for a variable that you have"),
        (["https://x.org/mcp"], "NAME is missing: gaia-bridge add NAME https://x.org/mcp"),
        (["uvx server"], "NAME is missing: gaia-bridge add NAME 'uvx server'"),
    ],
)
def test_what_people_type_elsewhere_is_told_what_it_is_here(run: Run, arguments: list[str], hint: str) -> None:
    code, _, err = run("add", *arguments)
    assert (code, hint in err) == (64, True), err
    assert not Path(GLOBAL).exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["--header", "A: b", "--header", "Bearer {}", "x", "https://x.org"],
            "--header (number 2 of 2): expected NAME:",
        ),
        (["--env", "sk {}", "x", "prog"], "--env: expected NAME=VALUE"),
        (["--set", "{}", "registry:a/b"], "--set: expected NAME=VALUE"),
        (["--hedaer={}", "x", "https://x.org"], "no such option: --hedaer;"),
    ],
)
def test_what_may_be_a_secret_is_not_repeated_where_it_is_typed_wrongly(
    run: Run, arguments: list[str], told: str
) -> None:
    secret = "s3cr3t-that-nobody-is-shown"
    code, _, err = run("add", *(word.format(secret) for word in arguments))
    assert (code, secret in err) == (64, False)
    assert told in err
