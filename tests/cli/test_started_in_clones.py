"""No way to start a server of the user's own runs what lies in the folder where a command was typed or that is served:
a stranger may have written it, or a client of an agent that writes files there."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from gaia.mcp import MCPClientManager
from gaia.mcp import aio as asynchronous
from gaia_bridge.bridge.configured_servers import ConfiguredServers, Reloader
from gaia_bridge_cli.serving.inspector import run_inspector
from tests.servers import raw_server
from tests.support.agents import one_tool
from tests.support.bridges import running_bridge, text_of

SERVER = Path(raw_server.__file__)

NPX = f"""#!{sys.executable}
import os, sys
package = sys.argv[2]
local = os.path.join("node_modules", ".bin", package)
if os.path.exists(local):
    os.execv(local, [local])
if package == "mem":
    os.execv(sys.executable, [sys.executable, "-S", {str(SERVER)!r}])
open({{ran!r}}, "w").close()
"""
"""As `npx -y PACKAGE`: what the folder has comes first."""

SERVERS: dict[str, dict[str, Any]] = {
    "module": {"command": sys.executable, "args": ["-m", "raw_server"], "env": {"PYTHONPATH": str(SERVER.parent)}},
    "package": {"command": "npx", "args": ["-y", "mem"]},
    "path": {"command": "./server"},
    "script": {"command": sys.executable, "args": ["server.py"]},
}

Way = Callable[[Any], None]


def way(kind: str) -> Way:
    """A way to start the servers, in process."""

    def command(run: Any) -> None:
        for name in ("module", "package", "path", "script"):
            words = {"call": ("call", name, "pid"), "doctor": ("doctor", "--server", name)}.get(kind, (kind, name))
            code, _, err = run(*words)
            assert code in (0, 1, 64, 69, 78), err

    def bridge(run: Any) -> None:
        anyio.run(_served)

    def manager(run: Any) -> None:
        with MCPClientManager() as servers:
            servers.load_from_config()
            assert {"module", "package"} <= set(servers.list_servers())

    def asynchronous_manager(run: Any) -> None:
        async def connected() -> None:
            async with asynchronous.MCPClientManager("~/.gaia/mcp_servers.json") as servers:
                assert {"module", "package"} <= set(servers.sessions)

        anyio.run(connected)

    def inspector(run: Any) -> None:
        anyio.run(run_inspector, "http://127.0.0.1:1/mcp")
        assert Path(os.environ["RAN"]).exists()

    ways = {"serve": bridge, "manager": manager, "asynchronous": asynchronous_manager, "inspector": inspector}
    return ways.get(kind, command)


async def _served() -> None:
    """What `serve`, `serve --stdio`, `dev` and the bridge behind `connect` do with the configuration."""
    async with running_bridge(one_tool(lambda _: "ours")) as running:
        configured = ConfiguredServers(None)
        reloader = Reloader(running.bridge, configured.again, lambda: configured.own_files)
        await reloader.apply(configured.first())
        async with running.client("auto") as client:
            for name in ("module", "package"):
                assert text_of(await client.call_tool(f"{name}__pid", {})).isdigit()


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: whatever is run of it leaves the file `mark`. Servers of the user's own file."""
    folder, mark, ran = tmp_path / "clone", tmp_path / "mark", tmp_path / "ran"
    python = f"#!{sys.executable}\nopen({str(mark)!r}, 'w').close()\n"
    planted = ("raw_server.py", "typing.py", "json.py", "server.py", "server", "anyio/__init__.py")
    for name in (*planted, "node_modules/.bin/mem", "node_modules/.bin/@modelcontextprotocol/inspector@2"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(python, encoding="utf-8")
        (folder / name).chmod(0o755)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "npx").write_text(NPX.format(ran=str(ran)), encoding="utf-8")
    (programs / "npx").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("RAN", str(ran))
    own = Path(os.environ["HOME"], ".gaia")
    own.mkdir(mode=0o700)
    (own / "mcp_servers.json").write_text(json.dumps({"mcpServers": SERVERS}), encoding="utf-8")
    (own / "mcp_servers.json").chmod(0o600)
    monkeypatch.chdir(folder)
    return mark


@pytest.mark.requirement("C-18", "C-19")
@pytest.mark.parametrize(
    "kind", ["serve", "doctor", "test-client", "tools", "call", "manager", "asynchronous", "inspector"]
)
def test_nothing_of_the_current_folder_is_run(kind: str, clone: Path, run: Any) -> None:
    way(kind)(run)
    assert not clone.exists()


@pytest.mark.requirement("S-25", "C-18")
def test_a_server_that_asks_for_the_current_folder_is_approved_in_each(
    run: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    entry = {"command": sys.executable, "args": ["-S", "server.py"], "cwd": "."}
    own = Path(os.environ["HOME"], ".gaia", "mcp_servers.json")
    own.parent.mkdir(mode=0o700)
    own.write_text(json.dumps({"mcpServers": {"here": entry}}), encoding="utf-8")
    own.chmod(0o600)
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "server.py").write_text(SERVER.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path / "one")
    code, _, err = run("tools", "here")
    assert (code, "was not approved there (run: gaia-bridge trust here)" in err) == (78, True)
    assert ConfiguredServers(None).first() == ()
    assert "server.py is run, and lies here" in run("trust", "--yes")[1]
    assert run("tools", "here")[0] == 0
    assert [spec.name for spec in ConfiguredServers(None).first()] == ["here"]
    (tmp_path / "one" / "server.py").write_text("changed", encoding="utf-8")
    assert (run("tools", "here")[0], ConfiguredServers(None).first()) == (78, ())
    monkeypatch.chdir(tmp_path / "other")
    assert (run("tools", "here")[0], ConfiguredServers(None).first()) == (78, ())
    assert run("trust", "--list")[1] == "here: not approved\n"


def test_what_add_was_given_means_the_folder_where_it_was_typed(run: Any, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "server.py").write_text(SERVER.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    code, _, err = run("add", "mine", f"{sys.executable} -S ./server.py .")
    assert (code, f". is kept as {tmp_path}, to be found from every folder" in err) == (0, True)
    monkeypatch.chdir("/")
    assert run("tools", "mine")[0] == 0
