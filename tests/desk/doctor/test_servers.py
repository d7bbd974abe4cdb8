"""Servers that start, fail, hang, ask for a login, promise too much, or have more than an editor takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

from gaia_bridge.config import TrustStore
from gaia_bridge.server.known_clients import known_client
from gaia_bridge.settings import DoctorLimits
from gaia_bridge_desk.doctor.checks import Finding, Level
from gaia_bridge_desk.doctor.programs import PROGRAMS
from gaia_bridge_desk.doctor.servers import FEATURES, SERVERS, crossing, features_of
from gaia_bridge_desk.doctor.surroundings import Surroundings, look_around
from gaia_bridge_desk.editors.table import EDITORS
from tests.desk.doctor.looking import bad, by_id, has_servers, look
from tests.servers.auth_server import auth_server
from tests.support.forking import forked
from tests.support.processes import command_of
from tests.support.waiting import eventually

FOLDER = Path(__file__).parents[2] / "servers"
VSCODE, ZED = (next(editor for editor in EDITORS if editor.name == name) for name in ("vscode", "zed"))
SECRET = "sk-0123456789abcdefghij"

OFFERING = """
import json, sys
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in json.loads(sys.argv[1])]
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"error": {"code": -32601, "message": "not found"}}
    if asked.get("method") == "initialize":
        capabilities = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}}
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": capabilities,
                             "serverInfo": {"name": "offering", "version": "1"}}}
    elif asked.get("method") == "tools/list":
        answer = {"result": {"tools": tools}}
    elif asked.get("method") == "resources/list":
        answer = {"result": {"resources": []}}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
"""A server with the tools that it is told; it promises prompts, and does not list them."""


def raw(mode: str = "", **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-S", str(FOLDER / "raw_server.py"), mode], **more}


def offering(*names: str) -> dict[str, Any]:
    file = Path("offering.py").absolute()
    file.write_text(OFFERING, encoding="utf-8")
    return {"command": sys.executable, "args": ["-S", str(file), str(list(names)).replace("'", '"')]}


def seen(**options: Any) -> tuple[list[Finding], Surroundings]:
    at = look_around(**options)
    return look(SERVERS, at), at


def test_servers_of_both_eras_are_started_side_by_side_and_told_of_in_order() -> None:
    sdk = {"command": sys.executable, "args": [*forked("stdio_upstream.py")]}
    has_servers({"sdk": sdk, "raw": raw(), "off": raw(disabled=True), "old": raw("old")})
    found, at = seen()
    assert [finding.about for finding in found if finding.kind.id == "server.works"] == ["sdk", "raw", "old"]
    [first, second, third] = at.reports
    assert third["revision"] == "2024-11-05"
    assert (first["revision"], first["era"], first["server"]["name"]) == ("2026-07-28", "modern", "sdk-upstream")
    assert (second["revision"], second["era"], second["server"]["version"]) == ("2025-11-25", "legacy", "9.1")
    assert second["offers"]["tools"] == 11 and "resource updates" in second["features"]
    assert "MCP 2025-11-25 over stdio; 11 tools, 1 prompt, 1 resource" in found[1].message


def test_failures_are_told_with_their_cause_and_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_TOKEN", SECRET)
    wants = "import sys; sys.exit('SOME_TOKEN is not set')"
    has_servers(
        {
            "dies": raw("dies", env={"KEY": SECRET}),
            "absent": {"command": "no-such-program", "env": {"PATH": "/nowhere"}},
            "lacks": {"command": sys.executable, "args": ["-S", "-c", wants]},
            "nobody": {"url": "http://127.0.0.1:9/mcp"},
            "works": raw(),
        }
    )
    found, at = seen()
    failed = {finding.about: finding for finding in found if finding.kind.id == "server.fails"}
    assert set(failed) == {"dies", "absent", "lacks", "nobody"}
    assert failed["dies"].remedy == "gaia-bridge test-client dies" and "code 3" in failed["dies"].message
    assert "install the program" in failed["absent"].remedy
    assert "--env SOME_TOKEN" in failed["lacks"].remedy
    assert "127.0.0.1:9" in failed["nobody"].message
    start = "start the server at http://127.0.0.1:9/mcp, or correct its address; then gaia-bridge test-client nobody"
    assert failed["nobody"].remedy == start
    assert [report["state"] for report in at.reports] == ["fails"] * 4 + ["works"]
    assert SECRET not in repr(found) + repr(at.reports)


def test_a_missing_program_is_one_finding_for_all_servers_that_need_it() -> None:
    has_servers({"a": {"command": "no-such-program"}, "b": {"command": "no-such-program"}})
    at = look_around()
    found = [*look(PROGRAMS, at), *look(SERVERS, at)]
    [finding] = (each for each in found if each.level is Level.ERROR)
    assert finding.kind.id == "program.missing" and "needed by a, b" in finding.message
    assert [(report["state"], "no-such-program" in report["problem"]) for report in at.reports] == [("fails", True)] * 2


def test_one_that_hangs_is_given_up_leaves_no_process_and_keeps_nobody_else() -> None:
    hangs = {"command": sys.executable, "args": ["-S", "-c", "import sys; sys.stdin.read()  # for ever"]}
    has_servers({"hangs": {**hangs, "startup_timeout": 0.3}, "works": raw()})
    found, _ = seen()
    assert {finding.about: finding.kind.id for finding in found[:2]} == {
        "hangs": "server.fails",
        "works": "server.works",
    }
    has_servers({"hangs": hangs})
    found, _ = seen(limits=DoctorLimits(server_timeout=0.3))
    assert "within 0.3 s" in found[0].message or "longer than 0.3 s" in found[0].message

    def is_gone() -> bool:
        return not any("# for ever" in command_of(child) for child in psutil.Process().children())

    eventually(is_gone)


def test_nothing_is_started_that_was_not_approved_or_when_that_is_not_wanted() -> None:
    entry = {"command": sys.executable, "args": ["-S", "-c", "open('ran', 'w')"], "cwd": str(Path.cwd())}
    has_servers({"mine": entry}, "mcp_servers.json")
    found, at = seen()
    assert (found, at.reports, Path("ran").exists()) == ([], [], False)
    TrustStore().approve(Path("mcp_servers.json").absolute(), "mine", entry)
    found, _ = seen(offline=True)
    assert set(by_id(found)) == {"server.not-started"} and not Path("ran").exists()
    assert bad(seen()[0]) == {"server.fails"} and Path("ran").exists()


def test_one_server_can_be_looked_at_alone() -> None:
    has_servers({"a": raw(), "b": raw()})
    _, at = seen(server="b")
    assert [report["name"] for report in at.reports] == ["b"]


def test_a_server_that_wants_a_login_is_told_with_the_command_for_it() -> None:
    async def main() -> tuple[list[Finding], Surroundings]:
        async with auth_server() as server:
            has_servers({"my server": {"url": server.url}})
            at = look_around()
            found: Any = SERVERS.check(at)
            return await found, at

    found, at = anyio.run(main)
    assert by_id(found)["server.login"].remedy == "gaia-bridge login 'my server'"
    assert at.reports[0]["state"] == "wants a login"


def test_a_server_that_may_want_a_token_is_reported_with_the_way_to_give_it_one() -> None:
    async def main() -> list[Finding]:
        async with auth_server() as server:
            server.challenge = "Bearer"
            has_servers({"notes": {"url": server.url}})
            found: Any = SERVERS.check(look_around())
            findings: list[Finding] = await found
            return findings

    remedy = by_id(anyio.run(main))["server.login"].remedy
    assert remedy.startswith("gaia-bridge login notes; or add it with a token, by gaia-bridge add notes http://")


def test_an_agent_of_the_bridge_is_not_started() -> None:
    has_servers({"code": {"agent": "code"}})
    assert set(by_id(seen()[0])) == {"server.agent"}


def test_an_agent_that_nothing_publishes_is_a_warning_with_the_command_that_takes_it_out() -> None:
    has_servers({"helper": {"agent": "back"}})
    [found] = seen()[0]
    assert (found.kind.id, found.remedy) == ("server.no-agent", "gaia-bridge remove helper")
    assert found.message == (
        "helper is agent 'back', which is neither installed nor published by a bridge in the background"
    )


def test_lists_that_a_server_promised_and_does_not_give_are_found() -> None:
    has_servers({"a": offering("x")})
    assert "its prompts cannot be listed: not found (-32601)" in by_id(seen()[0])["server.incomplete"].message


def test_what_an_editor_has_no_room_for_or_does_not_use_is_told_for_the_editors_that_are_here() -> None:
    Path(".claude.json").write_text("{}", encoding="utf-8")
    Path(".cursor").mkdir()
    Path(".config/zed").mkdir(parents=True)
    has_servers({"a": offering(*(f"tool{number}" for number in range(41)))})
    found = seen()[0]
    told = {finding.kind.id: finding.message for finding in found}
    assert told["server.many-tools"] == "Cursor takes 40 tools, and the servers have 41"
    lost = [finding.message for finding in found if finding.kind.id == "server.lost"]
    assert "Zed is not known to use resources (of a), resource updates (of a)" in lost


def test_the_table_says_what_reaches_whom() -> None:
    rows = {
        row["feature"]: row
        for row in crossing({"a": ["tools", "prompts"], "b": ["tools", "list changes"]}, [VSCODE, ZED])
    }
    assert list(rows) == ["tools", "prompts", "list changes", "elicitation", "sampling", "roots"]
    assert rows["prompts"] == {
        "feature": "prompts",
        "asked": False,
        "servers": ["a"],
        "clients": {"vscode": "yes", "zed": "yes"},
    }
    assert rows["list changes"]["clients"] == {"vscode": "yes", "zed": "bridged"}
    assert rows["sampling"]["clients"] == {"vscode": "yes", "zed": "unknown"}
    assert rows["sampling"]["servers"] == ["a", "b"]


def test_each_editor_has_features_that_there_are() -> None:
    names = {feature.name for feature in FEATURES}
    for editor in EDITORS:
        if editor.name != "mcp-json":  # read by several programs
            assert set(editor.features.split(", ")) <= names, f"features of {editor.name}: some of {sorted(names)}"


def test_the_limits_of_an_editor_are_those_of_the_name_with_which_it_introduces_itself() -> None:
    for editor in EDITORS:
        if editor.client:
            assert known_client(editor.client) is not known_client(""), f"{editor.name}: a row in known_clients"
    assert (VSCODE.most_tools, ZED.most_tools) == (128, None)


def test_what_a_server_offers_is_read_from_what_it_declares() -> None:
    assert features_of({}) == []
    declared = {"tools": {"listChanged": True}, "resources": {"subscribe": True}, "tasks": {}, "logging": {}}
    assert features_of(declared) == ["tools", "resources", "resource updates", "list changes", "tasks"]
