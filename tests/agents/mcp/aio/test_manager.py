"""The asynchronous `MCPClientManager` with real servers on stdio."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
import weakref
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia.background_loop import BACKGROUND
from gaia.mcp.aio import ManagerLimits, MCPClientManager
from gaia_bridge.errors import ToolError
from gaia_bridge.settings import UpstreamLimits
from tests.support.bridges import running_bridge
from tests.support.gaia_clients import EchoAgent
from tests.support.gated_servers import Gate
from tests.support.processes import background_threads
from tests.support.waiting import after_collection, eventually

pytestmark = pytest.mark.anyio

QUICK = UpstreamLimits(backoff_start=0.01, backoff_cap=0.05, refresh_interval=0.01, announce_interval=0.01)
HURRIED = ManagerLimits(connect_wait=0.05, upstream=QUICK)
CALM = ManagerLimits(upstream=QUICK)


def made(servers: Mapping[str, Any], limits: ManagerLimits = CALM) -> MCPClientManager:
    """A manager of these entries."""
    return MCPClientManager(config={"mcpServers": dict(servers)}, limits=limits)


def state(manager: MCPClientManager) -> list[int]:
    """How much there is in each of the four documented dictionaries."""
    return [
        len(manager.sessions),
        len(manager.server_tools_map),
        len(manager.server_tasks),
        len(manager.server_stop_events),
    ]


async def until(holds: Any) -> None:
    """Wait until something holds that happens on another loop, and has no event here."""
    await anyio.to_thread.run_sync(eventually, holds)


@pytest.mark.requirement("S2-1", "S2-2")
async def test_a_new_manager_has_its_arguments_and_nothing_else() -> None:
    manager = MCPClientManager()
    assert (manager.config_path, manager.config, state(manager)) == ("mcp.json", {}, [0, 0, 0, 0])
    given = {"mcpServers": {"x": {"command": "y"}}}
    assert MCPClientManager(config=given).config == given
    assert background_threads() == []


@pytest.mark.requirement("S2-1")
async def test_the_servers_of_a_file_are_connected(servers: Gate, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"a": servers.server("a")}}), "utf-8")
    manager = MCPClientManager(config_path=str(path))
    assert (manager.config_path, manager.config) == (str(path), {})
    await manager.connect_to_servers()
    assert list(manager.sessions) == ["a"]
    assert manager.config == json.loads(path.read_text("utf-8")) == await manager.load_config()
    await manager.cleanup()


@pytest.mark.requirement("S2-1")
async def test_a_dictionary_wins_over_the_file(servers: Gate, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"from_file": servers.server("from_file")}}), "utf-8")
    config = {"mcpServers": {"given": servers.server("given")}}
    async with MCPClientManager(str(path), config) as manager:
        assert (list(manager.sessions), await manager.load_config()) == (["given"], config)
    async with MCPClientManager(str(path), {}) as manager:
        assert state(manager) == [0, 0, 0, 0]
    assert servers.count("from_file", "born") == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "there is no"),
        ("{", "is not valid JSON"),
        ("[]", "holds a list"),
        ('{"mcpServers": []}', "'mcpServers' is"),
        ('{"mcpServers": {"x": {}, "y": 5, "": {"command": "z"}}}', "'x' is skipped"),
    ],
)
async def test_a_configuration_that_cannot_be_used_is_logged_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "mcp.json").write_text(text, "utf-8")
    manager = MCPClientManager(str(tmp_path / "mcp.json"))
    await manager.connect_to_servers()
    assert said in caplog.text
    assert (state(manager), await manager.get_tools(), background_threads()) == ([0, 0, 0, 0], [], [])
    await manager.cleanup()


@pytest.mark.requirement("S2-3")
async def test_servers_of_its_own_kind_are_left_alone_which_is_said(
    servers: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    entries = {name: servers.server(name) for name in ("logicore", "logicore-x", "a", "my-logicore")}
    async with made(entries) as manager:
        assert sorted(manager.sessions) == ["a", "my-logicore"]
    assert [servers.count(name, "born") for name in entries] == [0, 0, 1, 1]
    assert "'logicore-x' is skipped" in caplog.text


@pytest.mark.requirement("S2-3")
async def test_connecting_again_leaves_those_alone_that_are_connected(servers: Gate) -> None:
    config: dict[str, Any] = {"mcpServers": {"a": servers.server("a")}}
    async with MCPClientManager(config=config) as manager:
        before = await manager.execute_tool("pid")
        manager.config["mcpServers"]["b"] = servers.server("b")
        await asyncio.gather(manager.connect_to_servers(), manager.connect_to_servers())
        assert sorted(manager.sessions) == ["a", "b"]
        assert await manager.execute_tool("pid") == before
    assert (servers.count("a", "born"), servers.count("b", "born")) == (1, 1)


async def test_a_disabled_server_is_not_started(servers: Gate) -> None:
    async with made({"a": {**servers.server("a"), "disabled": True}}) as manager:
        assert state(manager) == [0, 0, 0, 0]


@pytest.mark.requirement("S2-4")
async def test_a_server_has_our_environment_and_over_it_its_own(servers: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OURS", "inherited")
    monkeypatch.setenv("BOTH", "ours")
    async with made({"a": servers.server("a", BOTH="its own")}) as manager:
        environment = json.loads((await manager.execute_tool("env"))["content"])
    assert (environment["OURS"], environment["BOTH"]) == ("inherited", "its own")


@pytest.mark.requirement("S2-4")
@pytest.mark.parametrize("env", [{"env": None}, {"env": {"X": None, "N": 1}}, {}])
async def test_an_environment_that_is_null_or_absent_is_ours(env: dict[str, Any], servers: Gate) -> None:
    entry = servers.server("a")
    del entry["env"]
    async with made({"a": {**entry, **env}}) as manager:
        environment = json.loads((await manager.execute_tool("env"))["content"])
    assert environment["PATH"].startswith(os.environ["PATH"])


@pytest.mark.requirement("S2-5")
async def test_a_command_is_looked_up_on_our_path_else_taken_as_it_is(
    servers: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "my-python").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    assert shutil.which("my-python") is not None
    found = {**servers.server("found", "of_found", PATH="/nowhere"), "command": "my-python"}  # our own PATH counts
    raw = {**servers.server("raw"), "command": sys.executable}
    async with made({"found": found, "raw": raw}) as manager:
        assert sorted(manager.sessions) == ["found", "raw"]
        assert await manager.execute_tool("of_found") == {"success": True, "content": "found"}


@pytest.mark.requirement("S2-2", "S2-6")
async def test_a_session_stays_open_between_calls_kept_by_one_task(servers: Gate) -> None:
    async with made({"a": servers.server("a")}) as manager:
        [task], [stop] = manager.server_tasks.values(), manager.server_stop_events.values()
        assert isinstance(task, asyncio.Task)
        assert isinstance(stop, asyncio.Event)
        pids = {(await manager.execute_tool("pid"))["content"] for _ in range(3)}
        assert (len(pids), task.done(), stop.is_set()) == (1, False, False)
        session = manager.sessions["a"]
        assert (await session.call_tool("pid"))["content"] == [{"type": "text", "text": pids.pop()}]
        assert [tool["name"] for tool in await session.list_tools()][:2] == ["answer", "pid"]


@pytest.mark.requirement("S2-2", "S2-6")
async def test_a_stop_event_ends_its_server_and_no_other(servers: Gate) -> None:
    async with made({"a": servers.server("a"), "b": servers.server("b")}) as manager:
        task = manager.server_tasks["a"]
        manager.server_stop_events["a"].set()
        with anyio.fail_after(10):
            await task
        assert (task.done(), list(manager.sessions), list(manager.server_tasks)) == (True, ["b"], ["b"])
        servers.wait("a", "dead")
        assert set(manager.server_tools_map.values()) == {"b"}
        await manager.connect_to_servers()
        assert sorted(manager.sessions) == ["a", "b"]


@pytest.mark.requirement("S2-6")
async def test_a_cancelled_task_ends_its_server_and_no_other(servers: Gate) -> None:
    async with made({"a": servers.server("a"), "b": servers.server("b")}) as manager:
        task = manager.server_tasks["a"]
        assert task.cancel()
        with anyio.fail_after(10):
            await asyncio.wait({task})
        assert (task.cancelled(), list(manager.sessions)) == (True, ["b"])
        servers.wait("a", "dead")


@pytest.mark.requirement("S2-7")
async def test_a_slow_server_is_not_waited_for_longer_and_its_tools_appear_when_it_is_ready(
    servers: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    entries = {"slow": servers.server("slow", "of_slow", hold=True), "b": servers.server("b")}
    manager = made(entries, HURRIED)
    told: list[bool] = []
    await manager.connect_to_servers()
    assert "'slow' has not answered within 0.05 s" in caplog.text
    await until(lambda: bool(manager.server_tools_map))
    assert (list(manager.sessions), list(manager.server_tasks)) == (["b"], ["slow", "b"])
    before = manager.server_tools_map
    manager.on_tools_changed(lambda: told.append(True))
    servers.wait("slow", "born")
    servers.release("slow")
    await until(lambda: "of_slow" in manager.server_tools_map)
    assert (told, sorted(manager.sessions)) == ([True], ["b", "slow"])
    assert "slow__pid" in manager.server_tools_map
    assert await manager.execute_tool("of_slow") == {"success": True, "content": "slow"}
    assert {name: manager.server_tools_map[name] for name in before} == before  # nobody loses a name to a late-comer
    await manager.cleanup()


@pytest.mark.requirement("S2-7")
def test_ten_seconds_are_waited() -> None:
    assert ManagerLimits().connect_wait == 10


@pytest.mark.requirement("S2-7")
async def test_who_connects_meanwhile_waits_for_the_same_start(servers: Gate) -> None:
    manager = made({"slow": servers.server("slow", hold=True)})
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(manager.connect_to_servers()) for _ in range(2)]
        await servers.told("slow", "born")
        assert [task.done() for task in waiting] == [False, False]
        servers.release("slow")
    assert (list(manager.sessions), servers.count("slow", "born")) == (["slow"], 1)
    await manager.cleanup()


@pytest.mark.requirement("S2-8")
async def test_a_server_that_fails_is_logged_and_the_others_connect(
    servers: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    entries = {"bad": {"command": "no-such-program-anywhere"}, "a": servers.server("a")}
    async with made(entries) as manager:
        assert (list(manager.sessions), list(manager.server_tasks)) == (["a"], ["a"])
        assert "'bad' failed: it cannot be started: 'no-such-program-anywhere'" in caplog.text
        caplog.clear()
        await manager.connect_to_servers()
        assert "'bad' failed" in caplog.text  # it is tried again when that is asked for


@pytest.mark.requirement("S2-9")
async def test_every_tool_leads_to_its_server(servers: Gate) -> None:
    async with made({"a": servers.server("a", "of_a")}) as manager:
        tools = ["answer", "pid", "env", "crash", "hang", "change", "of_a"]
        assert manager.server_tools_map == dict.fromkeys(tools, "a")


@pytest.mark.requirement("S2-9")
async def test_of_tools_of_the_same_name_the_first_keeps_it_and_no_name_is_there_twice(
    servers: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    entries = {name: servers.server(name, "same", f"of_{name}") for name in ("a", "b")}
    async with made(entries) as manager:
        owners = manager.server_tools_map
        assert (owners["same"], owners["b__same"], owners["of_b"]) == ("a", "b", "b")
        assert await manager.execute_tool("same") == {"success": True, "content": "a"}
        assert await manager.execute_tool("b__same") == {"success": True, "content": "b"}
        names = [tool["function"]["name"] for tool in await manager.get_tools()]
        assert names == list(owners)
        assert len(names) == len(set(names)) == 16
        [warning] = [record.getMessage() for record in caplog.records if "are called" in record.getMessage()]
        assert "tools of MCP server 'b' are called b__answer, b__pid" in warning


@pytest.mark.requirement("S2-9")
async def test_a_name_that_no_model_would_accept_is_another_one_here(servers: Gate) -> None:
    async with made({"a": servers.server("a", "files/read", "x" * 65)}) as manager:
        others = [name for name, tool in manager.tools.items() if name != tool.name]
        assert [manager.tools[name].name for name in others] == ["files/read", "x" * 65]
        assert all(len(name) <= 64 and name.startswith("a__") for name in others)
        assert await manager.execute_tool(others[0]) == {"success": True, "content": "a"}


@pytest.mark.requirement("S2-10")
async def test_tools_are_described_for_openai_with_their_schema_as_it_is(servers: Gate) -> None:
    async with made({"a": servers.server("a")}) as manager:
        tools = await manager.get_tools()
        schema = {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/x"}},
            "$defs": {"x": {"type": "integer"}},
        }
        assert tools[0] == {
            "type": "function",
            "function": {"name": "answer", "description": "answer of a", "parameters": schema},
        }
        tools[0]["function"]["parameters"].clear()
        assert (await manager.get_tools())[0]["function"]["parameters"] == schema


async def test_tools_that_are_for_views_only_are_not_told_to_a_model(servers: Gate) -> None:
    async with made({"a": servers.server("a", "view_b", "of_a")}) as manager:
        told = [tool["function"]["name"] for tool in await manager.get_tools()]
        assert (told[-1], "view_b" in told) == ("of_a", False)
        assert await manager.execute_tool("view_b") == {"success": True, "content": "a"}


@pytest.mark.requirement("S2-10")
async def test_tools_that_change_are_followed_without_asking(servers: Gate) -> None:
    async with made({"a": servers.server("a")}) as manager:
        told: list[bool] = []
        manager.on_tools_changed(lambda: told.append(True))
        await manager.execute_tool("change", {"tools": ["pid", "new", "change"]})
        await until(lambda: bool(told))
        assert list(manager.server_tools_map) == ["pid", "change", "new"]  # what was there stays where it was
        assert [tool["function"]["name"] for tool in await manager.get_tools()] == ["pid", "change", "new"]


@pytest.mark.requirement("S2-11")
async def test_an_unknown_tool_is_a_value_error_with_what_is_similar(servers: Gate) -> None:
    async with made({"a": servers.server("a", "read_file")}) as manager:
        with pytest.raises(ValueError, match="Tool read_files not found in external servers; there is read_file$"):
            await manager.execute_tool("read_files", {})
    with pytest.raises(ValueError, match="Tool pid not found in external servers$"):
        await manager.execute_tool("pid", {})


@pytest.mark.requirement("S2-12", "S2-13")
async def test_what_a_tool_answers_is_text(servers: Gate) -> None:
    async with made({"a": servers.server("a")}) as manager:
        content = [{"type": "text", "text": "one"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]
        done = await manager.execute_tool("answer", {"result": {"content": content}})
        assert done == {"success": True, "content": "one\n[Image: image/png]"}
        failed = await manager.execute_tool("answer", {"result": {"content": content, "isError": True}})
        assert failed == {"success": False, "error": "one\n[Image: image/png]"}
        refused = await manager.execute_tool("answer", {"error": {"code": -32602, "message": "not so"}})
        assert refused == {"success": False, "error": "not so"}


async def test_the_whole_result_of_a_tool_can_be_had(servers: Gate) -> None:
    async with made({"a": servers.server("a")}) as manager:
        image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
        result = {"content": [image], "isError": True, "_meta": {"example.org/x": 1}}
        answered = await manager.call_tool("answer", {"result": result})
        assert {key: answered[key] for key in result} == result
        with pytest.raises(ToolError, match="^not so$"):
            await manager.call_tool("answer", {"error": {"code": -32602, "message": "not so"}})
        with pytest.raises(ValueError, match="Tool nothing not found"):
            await manager.call_tool("nothing")


@pytest.mark.requirement("S2-13")
async def test_what_cannot_be_sent_is_a_failure_and_the_server_goes_on(servers: Gate) -> None:
    async with made({"a": servers.server("a")}) as manager:
        failed = await manager.execute_tool("pid", {"x": object()})
        assert failed["success"] is False
        assert "JSON" in failed["error"]
        assert (await manager.execute_tool("pid"))["success"]
    assert servers.count("a", "born") == 1


@pytest.mark.requirement("S2-13")
async def test_a_tool_that_does_not_answer_in_time_is_a_failure(servers: Gate) -> None:
    entry = {**servers.server("a"), "timeout": 0.2}
    async with made({"a": entry}) as manager:
        failed = await manager.execute_tool("hang")
        assert failed["success"] is False
        assert "0.2 s" in failed["error"]


@pytest.mark.requirement("S2-6", "S2-13")
async def test_a_server_that_dies_fails_its_calls_and_is_there_again(servers: Gate) -> None:
    async with made({"a": servers.server("a")}) as manager:
        first = await manager.execute_tool("pid")
        failed = await manager.execute_tool("crash")
        assert failed["success"] is False
        assert "exited with code 3" in failed["error"]
        assert "pid" in manager.server_tools_map
        again = await manager.execute_tool("pid")
        assert again["success"] is True
        assert again != first
        assert list(manager.sessions) == ["a"]


async def test_a_server_that_keeps_dying_loses_its_tools(servers: Gate) -> None:
    limits = ManagerLimits(upstream=UpstreamLimits(crashes=2, backoff_start=0.01, backoff_cap=0.01))
    async with made({"a": servers.server("a")}, limits) as manager:
        told: list[bool] = []
        manager.on_tools_changed(lambda: told.append(True))
        await manager.execute_tool("crash")
        failed = await manager.execute_tool("crash")
        assert failed["success"] is False
        await until(lambda: bool(told))
        assert (manager.server_tools_map, manager.sessions, list(manager.server_tasks)) == ({}, {}, ["a"])
        await manager.connect_to_servers()
        assert (await manager.execute_tool("pid"))["success"] is True


async def test_cancelling_a_call_cancels_the_servers_work(servers: Gate) -> None:
    async with made({"a": servers.server("a")}) as manager:
        call = asyncio.create_task(manager.execute_tool("hang"))
        await servers.told("a", "hanging")
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await servers.told("a", "cancelled")


@pytest.mark.requirement("S2-14")
async def test_cleaning_up_ends_everything_and_empties_the_dictionaries(servers: Gate) -> None:
    manager = made({"a": servers.server("a"), "b": servers.server("b")})
    await manager.connect_to_servers()
    tasks, stops = list(manager.server_tasks.values()), list(manager.server_stop_events.values())
    await manager.cleanup()
    assert (state(manager), manager.tools) == ([0, 0, 0, 0], {})
    assert [task.done() for task in tasks] == [True, True]
    assert [stop.is_set() for stop in stops] == [True, True]
    servers.wait("a", "dead")
    servers.wait("b", "dead")
    await manager.cleanup()
    await manager.connect_to_servers()
    assert sorted(manager.sessions) == ["a", "b"]
    await asyncio.gather(manager.cleanup(), manager.cleanup())
    assert state(manager) == [0, 0, 0, 0]


@pytest.mark.requirement("S2-14")
async def test_a_call_in_flight_is_a_failure_when_everything_is_cleaned_up(servers: Gate) -> None:
    manager = made({"a": servers.server("a")})
    await manager.connect_to_servers()
    call = asyncio.create_task(manager.execute_tool("hang"))
    await servers.told("a", "hanging")
    await manager.cleanup()
    assert (await call)["success"] is False


@pytest.mark.requirement("S2-14")
async def test_who_waits_for_a_slow_server_is_not_hit_by_a_cleanup(servers: Gate) -> None:
    manager = made({"slow": servers.server("slow", hold=True)})
    connecting = asyncio.create_task(manager.connect_to_servers())
    await servers.told("slow", "born")
    await manager.cleanup()
    await connecting
    assert state(manager) == [0, 0, 0, 0]


@pytest.mark.requirement("S2-14")
@pytest.mark.parametrize("others", [True, False])
async def test_a_cleanup_that_overtakes_a_connect_leaves_nothing(servers: Gate, others: bool) -> None:
    loop = asyncio.get_running_loop()

    class Overtaken(MCPClientManager):
        def _opened(self) -> Any:
            opened = super()._opened()
            asyncio.run_coroutine_threadsafe(self.cleanup(), loop).result()
            return opened

    manager = Overtaken(config={"mcpServers": {"a": servers.server("a")}}, limits=CALM)
    with BACKGROUND.acquire() if others else nullcontext():
        await manager.connect_to_servers()
        assert state(manager) == [0, 0, 0, 0]
        assert servers.count("a", "born") == 0


@pytest.mark.requirement("S2-14")
async def test_cleaning_up_after_a_cancelled_connect_leaves_nothing(servers: Gate) -> None:
    manager = made({"slow": servers.server("slow", hold=True), "a": servers.server("a")})
    connecting = asyncio.create_task(manager.connect_to_servers())
    await servers.told("slow", "born")
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await manager.cleanup()
    assert state(manager) == [0, 0, 0, 0]
    servers.wait("slow", "dead")


@pytest.mark.requirement("S2-14")
async def test_a_cancelled_context_leaves_nothing(servers: Gate) -> None:
    async def use() -> None:
        async with made({"slow": servers.server("slow", hold=True)}):
            raise AssertionError("it never answers")

    using = asyncio.create_task(use())
    await servers.told("slow", "born")
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    servers.wait("slow", "dead")


@pytest.mark.requirement("S2-14")
async def test_a_cleanup_that_is_cancelled_is_done_all_the_same(servers: Gate) -> None:
    manager = made({"a": servers.server("a")})
    await manager.connect_to_servers()
    cleaning = asyncio.create_task(manager.cleanup())
    await asyncio.sleep(0)
    cleaning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cleaning
    await manager.cleanup()
    assert state(manager) == [0, 0, 0, 0]
    servers.wait("a", "dead")


async def test_a_manager_that_is_forgotten_lets_its_servers_go(servers: Gate) -> None:
    manager: MCPClientManager | None = made({"a": servers.server("a")})
    assert manager is not None
    await manager.connect_to_servers()
    gone = weakref.ref(manager)
    del manager
    await until(after_collection(lambda: gone() is None))
    await servers.told("a", "dead")


def test_loops_may_follow_each_other(servers: Gate) -> None:
    manager = made({"a": servers.server("a")})
    asyncio.run(manager.connect_to_servers())
    pids = {asyncio.run(manager.execute_tool("pid"))["content"] for _ in range(3)}
    assert (len(pids), len(asyncio.run(manager.get_tools()))) == (1, 6)
    asyncio.run(manager.cleanup())
    assert state(manager) == [0, 0, 0, 0]


async def test_loops_may_work_at_the_same_time(servers: Gate) -> None:
    def use() -> list[Any]:
        return asyncio.run(both())

    async def both() -> list[Any]:
        return list(await asyncio.gather(*(manager.execute_tool("pid") for _ in range(3))))

    async with made({"a": servers.server("a")}) as manager:
        here, there, elsewhere = await asyncio.gather(both(), asyncio.to_thread(use), asyncio.to_thread(use))
    assert here == there == elsewhere


async def test_an_agent_of_this_process_can_be_a_server() -> None:
    async with running_bridge(named={"echoing": EchoAgent()}), made({"e": {"agent": "echoing"}}) as manager:
        assert manager.server_tools_map == {"echo": "e"}
        assert await manager.execute_tool("echo", {"text": "hi"}) == {"success": True, "content": '{"said":"hi"}'}


async def test_nothing_is_printed(servers: Gate, capfd: pytest.CaptureFixture[str]) -> None:
    async with made({"a": servers.server("a"), "bad": {"command": "no-such-program"}}) as manager:
        await manager.execute_tool("pid")
        repr(manager)
    assert capfd.readouterr().out == ""
