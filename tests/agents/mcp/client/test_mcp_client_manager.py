"""`MCPClientManager`: several servers and the file that remembers them."""

from __future__ import annotations

import json
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gaia.mcp import MCPClientManager
from gaia.mcp.client import MCPClient, MCPConfig, mcp_client
from gaia.mcp.client.server_config import ConfiguredServer, check_server_config
from gaia_bridge.config.process_rules import ONLY_SHOWN
from gaia_bridge.errors import ConfigError
from gaia_bridge.sources.agent.registry import LOCAL_AGENTS
from tests.support.gaia_clients import EchoAgent, FakeTransport, GreetedInSteps, all_tools
from tests.support.waiting import PATIENCE


@pytest.fixture(autouse=True)
def transports(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeTransport]:
    """Every command is a server that exists only here; by their commands."""
    made: dict[str, FakeTransport] = {}

    def make(
        name: str, config: dict[str, Any], timeout: float, debug: bool, folder: Path | None = None
    ) -> ConfiguredServer:
        check_server_config(config)
        command = config.get("command", "agent")
        transport = made.setdefault(command, FakeTransport({"name": "t"}))
        transport.connects = command != "missing"
        return ConfiguredServer(transport, all_tools)

    monkeypatch.setattr(mcp_client, "configured_server", make)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "servers.json"


@pytest.fixture
def manager(file: Path) -> MCPClientManager:
    return MCPClientManager(config=MCPConfig(str(file)))


def remembered(file: Path) -> dict[str, Any]:
    """What the file says."""
    servers: dict[str, Any] = json.loads(file.read_text("utf-8"))["mcpServers"] if file.exists() else {}
    return servers


def write(file: Path, **servers: Any) -> None:
    file.write_text(json.dumps({"mcpServers": servers}), "utf-8")


@pytest.mark.requirement("F-371")
def test_what_takes_the_place_of_from_config_takes_what_amds_takes(
    manager: MCPClientManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[MCPClient] = []

    def from_config(name: str, config: dict[str, Any], timeout: int = 30, debug: bool = False) -> MCPClient:
        made.append(MCPClient(name, FakeTransport({"name": "t"}), debug))
        return made[-1]

    monkeypatch.setattr(MCPClient, "from_config", from_config)

    assert manager.add_server("test", {"command": "npx", "args": ["-y", "server"]}) is made[0]


@pytest.mark.requirement("S0-38")
def test_a_new_manager_has_its_arguments_and_no_clients() -> None:
    config = MCPConfig()
    manager = MCPClientManager(config, debug=True)
    assert (manager.config, manager.debug) == (config, True)
    assert manager._clients == {}  # pyright: ignore[reportPrivateUsage]  # specified
    assert isinstance(MCPClientManager().config, MCPConfig)
    assert MCPClientManager().debug is False


@pytest.mark.requirement("S0-39")
def test_an_added_server_is_connected_kept_and_remembered(manager: MCPClientManager, file: Path) -> None:
    config = {"command": "fs", "args": ["-y"], "env": {"TOKEN": "x"}}
    client = manager.add_server("fs", config)
    assert isinstance(client, MCPClient)
    assert client.is_connected()
    assert manager.get_client("fs") is client
    assert manager._clients == {"fs": client}  # pyright: ignore[reportPrivateUsage]  # specified
    assert remembered(file) == {"fs": config}


@pytest.mark.requirement("S0-40")
def test_a_second_server_of_one_name_is_refused(manager: MCPClientManager, file: Path) -> None:
    first = manager.add_server("fs", {"command": "one"})
    with pytest.raises(ValueError, match="MCP server 'fs' already exists"):
        manager.add_server("fs", {"command": "two"})
    assert manager.get_client("fs") is first
    assert remembered(file) == {"fs": {"command": "one"}}


def test_a_server_that_is_just_connected_again_is_left_alone(
    manager: MCPClientManager, file: Path, transports: dict[str, FakeTransport]
) -> None:
    transport = transports["one"] = GreetedInSteps()
    transport.goes_on.set()
    client = manager.add_server("fs", {"command": "one"})
    transport.disconnect()
    transport.opened.clear()
    transport.goes_on.clear()
    with ThreadPoolExecutor(1) as pool:
        connecting = pool.submit(client.connect)
        assert transport.opened.wait(PATIENCE)
        try:
            with pytest.raises(ValueError, match="already exists"):
                manager.add_server("fs", {"command": "two"})
            manager.load_from_config()
        finally:
            transport.goes_on.set()
        assert connecting.result(PATIENCE)
    assert manager.get_client("fs") is client
    assert client.is_connected()


@pytest.mark.requirement("S0-40")
def test_a_server_that_is_not_described_is_refused(manager: MCPClientManager, file: Path) -> None:
    with pytest.raises(ValueError, match="'command'"):
        manager.add_server("fs", {"args": ["x"]})
    assert (manager.get_client("fs"), remembered(file)) == (None, {})


@pytest.mark.requirement("S0-40")
def test_a_server_that_cannot_be_connected_is_neither_kept_nor_remembered(
    manager: MCPClientManager, file: Path
) -> None:
    with pytest.raises(RuntimeError, match="Failed to connect to MCP server 'bad': the transport could not connect"):
        manager.add_server("bad", {"command": "missing"})
    assert (manager.get_client("bad"), remembered(file)) == (None, {})
    assert manager.add_server("bad", {"command": "fine"}).is_connected()


def test_ctrl_c_while_connecting_leaves_the_name_free(
    manager: MCPClientManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: MCPClient) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(MCPClient, "connect", interrupted)
        with pytest.raises(KeyboardInterrupt):
            manager.add_server("fs", {"command": "fs"})
    assert manager.add_server("fs", {"command": "fs"}).is_connected()


def test_a_server_that_ended_gives_its_name_free(
    manager: MCPClientManager, transports: dict[str, FakeTransport]
) -> None:
    manager.add_server("fs", {"command": "one"})
    transports["one"].connected = False
    assert manager.add_server("fs", {"command": "two"}).is_connected()


def test_a_server_that_cannot_be_remembered_is_connected_all_the_same(
    manager: MCPClientManager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(name: str, config: dict[str, Any]) -> None:
        raise ConfigError("servers.json", "cannot be written")

    monkeypatch.setattr(manager.config, "add_server", refuse)
    assert manager.add_server("fs", {"command": "fs"}).is_connected()
    assert "'fs' is connected, but will not be remembered: servers.json: cannot be written" in caplog.text


def test_an_agent_of_this_process_is_not_remembered(manager: MCPClientManager, file: Path) -> None:
    assert manager.add_server("echo", {"agent": EchoAgent()}).is_connected()
    remove = LOCAL_AGENTS.add("back", EchoAgent())
    try:
        assert manager.add_server("helper", {"agent": "back"}).is_connected()
    finally:
        remove()
    assert remembered(file) == {}


def test_what_is_written_into_the_configuration_is_said_once_with_the_command_that_takes_it_out(
    manager: MCPClientManager, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        manager.add_server("my fs", {"command": "fs"})
        manager.disconnect_server("my fs")
    [said] = [record.getMessage() for record in caplog.records]
    assert said == f"kept in {file}; `gaia-bridge remove 'my fs' --config {file}` takes it out"
    caplog.clear()
    manager.remove_server("my fs")
    assert caplog.messages == ["MCP server 'my fs' is taken out of the configuration"]


def test_nothing_is_said_of_a_configuration_that_is_only_shown(
    manager: MCPClientManager, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ONLY_SHOWN.kept():
        manager.add_server("fs", {"command": "fs"})
        manager.remove_server("fs")
    assert caplog.messages == []
    assert remembered(file) == {}


def test_the_users_own_file_needs_no_option(
    manager: MCPClientManager, transports: dict[str, FakeTransport], caplog: pytest.LogCaptureFixture
) -> None:
    MCPClientManager().add_server("fs", {"command": "fs"}).disconnect()
    assert caplog.messages == ["kept in ~/.gaia/mcp_servers.json; `gaia-bridge remove fs` takes it out"]


def test_of_many_threads_that_add_one_server_one_succeeds(manager: MCPClientManager) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(8)

    def add(number: int) -> None:
        start.wait(PATIENCE)
        try:
            manager.add_server("fs", {"command": f"c{number}"})
        except ValueError:
            outcomes.append("refused")
        else:
            outcomes.append("added")

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(outcomes) == ["added", *["refused"] * 7]


@pytest.mark.requirement("S0-41")
def test_a_removed_server_is_disconnected_and_forgotten(
    manager: MCPClientManager, file: Path, transports: dict[str, FakeTransport]
) -> None:
    manager.add_server("fs", {"command": "fs"})
    manager.remove_server("fs")
    assert not transports["fs"].connected
    assert (manager.get_client("fs"), manager.list_servers(), remembered(file)) == (None, [], {})


@pytest.mark.requirement("S0-41")
def test_removing_an_unknown_server_is_a_warning(manager: MCPClientManager, caplog: pytest.LogCaptureFixture) -> None:
    manager.remove_server("nobody")
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_server_that_is_only_remembered_can_be_removed(file: Path) -> None:
    write(file, fs={"command": "fs"})
    MCPClientManager(MCPConfig(str(file))).remove_server("fs")
    assert remembered(file) == {}


def test_a_disconnected_server_stays_remembered(manager: MCPClientManager, file: Path) -> None:
    manager.add_server("fs", {"command": "fs"})
    manager.disconnect_server("fs")
    manager.disconnect_server("nobody")
    assert (manager.list_servers(), remembered(file)) == ([], {"fs": {"command": "fs"}})


@pytest.mark.requirement("S0-42")
def test_only_servers_that_are_alive_are_listed(
    manager: MCPClientManager, transports: dict[str, FakeTransport]
) -> None:
    for name in ("one", "two"):
        manager.add_server(name, {"command": name})
    assert manager.list_servers() == ["one", "two"]
    transports["one"].connected = False
    assert manager.list_servers() == ["two"]
    assert manager.get_client("nobody") is None


class Stuck(FakeTransport):
    """A server whose transport fails to disconnect."""

    def disconnect(self) -> None:
        raise OSError("stuck")


@pytest.mark.requirement("S0-43")
def test_all_are_disconnected_also_when_one_fails(
    manager: MCPClientManager, transports: dict[str, FakeTransport], caplog: pytest.LogCaptureFixture
) -> None:
    transports["stuck"] = Stuck()
    for name in ("one", "stuck", "two"):
        manager.add_server(name, {"command": name})
    manager.disconnect_all()
    assert [transports[name].connected for name in ("one", "two")] == [False, False]
    assert manager.list_servers() == []
    assert "MCP server 'stuck' did not disconnect in good order" in caplog.text


@pytest.mark.requirement("S0-44")
def test_loading_connects_what_it_can_and_says_why_it_cannot(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(
        file,
        one={"command": "one"},
        off={"command": "off", "disabled": True},
        nothing={"args": ["x"]},
        bad={"command": "missing"},
        two={"command": "two"},
    )
    with MCPClientManager(MCPConfig(str(file))) as manager:
        already = manager.add_server("one", {"command": "one"})
        manager.load_from_config()
        assert manager.list_servers() == ["one", "two"]
        assert manager.get_client("one") is already
    assert manager.list_servers() == []
    assert "MCP server 'bad' is not connected: the transport could not connect" in caplog.text
    assert "MCP server 'nothing'" in caplog.text
    assert "'off'" not in caplog.text
    assert list(remembered(file)) == ["one", "off", "nothing", "bad", "two"]


def test_the_status_of_each_server_that_was_to_be_connected_is_reported(
    file: Path, transports: dict[str, FakeTransport]
) -> None:
    write(file, up={"command": "up"}, off={"command": "off", "disabled": True}, nothing={}, bad={"command": "missing"})
    manager = MCPClientManager(MCPConfig(str(file)))
    manager.load_from_config()
    with pytest.raises(RuntimeError):
        manager.add_server("worse", {"command": "missing"})
    up, *failed = manager.get_status_report()
    assert up == {"name": "up", "connected": True, "tool_count": 1, "error": None}
    assert [status["name"] for status in failed] == ["nothing", "bad", "worse"]
    assert {(status["connected"], status["tool_count"]) for status in failed} == {(False, 0)}
    assert [bool(status["error"]) for status in failed] == [True] * 3
    manager.remove_server("worse")
    transports["up"].disconnect()
    ended, *others = manager.get_status_report()
    assert ended == {"name": "up", "connected": False, "tool_count": 0, "error": "its connection has ended"}
    assert [status["name"] for status in others] == ["nothing", "bad"]
    manager.load_from_config()
    assert manager.get_status_report() == [up, *others]
    manager.disconnect_all()
    assert manager.get_status_report() == []


def test_an_entry_that_is_no_entry_is_skipped_as_such(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(file, a=["uvx", "server"])
    manager = MCPClientManager(MCPConfig(file))
    manager.load_from_config()
    assert "'a' is skipped: Config: expected a config dict with a 'command' field, got list" in caplog.text
    assert manager.list_servers() == []


def test_servers_are_loaded_side_by_side(file: Path, transports: dict[str, FakeTransport]) -> None:
    together = threading.Barrier(3)

    class Meeting(FakeTransport):
        def connect(self) -> bool:
            together.wait(PATIENCE)
            return super().connect()

    names = ("one", "two", "three")
    transports |= {name: Meeting() for name in names}
    write(file, **{name: {"command": name} for name in names})
    manager = MCPClientManager(MCPConfig(str(file)))
    manager.load_from_config()
    assert manager.list_servers() == list(names)


def test_a_client_that_raises_while_it_is_loaded_is_skipped(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: MCPClient) -> bool:
        raise LookupError("not there")

    monkeypatch.setattr(MCPClient, "connect", fail)
    write(file, fs={"command": "fs"})
    manager = MCPClientManager(MCPConfig(str(file)))
    manager.load_from_config()
    assert manager.list_servers() == []
    assert "MCP server 'fs' is not connected" in caplog.text


@pytest.mark.requirement("S0-12")
def test_debug_is_handed_on_to_the_clients(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    client = MCPClientManager(MCPConfig(str(file)), debug=True).add_server("fs", {"command": "fs"})
    assert client.debug
    assert "MCP server 'fs': connected" in caplog.text
