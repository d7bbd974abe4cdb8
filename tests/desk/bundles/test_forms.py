"""Each form of a bundle: by its published schema, and by what of this machine must not be in it."""

from __future__ import annotations

import io
import os
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gaia_bridge.errors import ConfigError
from gaia_bridge.version import __version__
from gaia_bridge_desk.bundles import PluginForm, gathered, mcpb_bytes, mcpb_files, of_package, plugin_files
from tests.support.bundled import ABOUT, SECRET, contents, document, write_project
from tests.support.published_schemas import problems

OPEN, CLAUDE = PluginForm.AGENT_PLUGIN, PluginForm.CLAUDE


def all_forms(folder: Path) -> list[dict[str, bytes]]:
    found = contents(folder)
    return [plugin_files(ABOUT, found, OPEN), plugin_files(ABOUT, found, CLAUDE), mcpb_files(ABOUT, found)]


def test_an_agent_plugin_has_what_its_schemas_want(tmp_path: Path) -> None:
    files = plugin_files(ABOUT, contents(tmp_path), OPEN)
    manifest, servers = document(files["plugin.json"]), document(files["mcp.json"])
    assert problems("agent-plugin-1.0.0", manifest) == []
    assert problems("agent-plugin-mcp-1.0.0", servers) == []
    assert (manifest["name"], manifest["author"]) == ("hello", {"name": "Ada", "email": "ada@example.com"})
    assert list(files) == [
        "README.md",
        "mcp.json",
        "plugin.json",
        "server/greetings.py",
        "server/hello_agent.py",
        "server/servers.json",
        "skills/greet/SKILL.md",
        "skills/greet/references/names.md",
    ]
    assert re.search(rf'"gaia-mcp-bridge>={re.escape(__version__)},<[0-9.]+"', files["mcp.json"].decode())
    assert servers["mcpServers"]["hello"]["args"][3:] == [
        "serve",
        "--stdio",
        "--config",
        "${PLUGIN_ROOT}/server/servers.json",
        "${PLUGIN_ROOT}/server/hello_agent.py",
    ]


def test_the_plugin_of_claude_code_has_its_files_and_variables(tmp_path: Path) -> None:
    files = plugin_files(ABOUT, contents(tmp_path), CLAUDE)
    assert {".claude-plugin/plugin.json", ".mcp.json"} < set(files) and not {"plugin.json", "mcp.json"} & set(files)
    [server] = document(files[".mcp.json"])["mcpServers"].values()
    assert "${CLAUDE_PLUGIN_ROOT}/server/hello_agent.py" in server["args"]


def test_a_bundle_of_claude_desktop_has_what_its_schema_wants_and_asks_for_what_servers_need(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"tides": {"url": "https://${REGION:-eu}.example.com/mcp", "headers": {"X-Key": "${KEY}"}}}
    files = mcpb_files(ABOUT, contents(tmp_path, asked, ["OPENAI_API_KEY"]))
    manifest = document(files["manifest.json"])
    assert problems("mcpb-manifest-0.4", manifest) == []
    wanted = {
        name: (each["required"], each["sensitive"], each.get("default"))
        for name, each in manifest["user_config"].items()
    }
    assert wanted == {
        "KEY": (True, True, None),
        "OPENAI_API_KEY": (True, True, None),
        "REGION": (False, False, "eu"),
    }
    assert manifest["server"]["mcp_config"]["env"]["KEY"] == "${user_config.KEY}"
    assert manifest["server"]["entry_point"] in files


def test_nothing_of_this_machine_is_in_any_form(tmp_path: Path) -> None:
    for files in all_forms(tmp_path):
        everything = b"\n".join(files.values()).decode()
        assert SECRET not in everything
        assert (
            str(tmp_path) not in everything
            and "/usr/local" not in everything
            and os.path.expanduser("~") not in everything
        )
        assert "${input:" not in everything
        assert not [name for name in files if name.startswith("/") or ".." in name or "unrelated" in name]


def test_the_same_files_give_the_same_bundle(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = (mcpb_bytes(mcpb_files(ABOUT, contents(tmp_path / name))) for name in ("one", "two"))
    assert one == two
    with zipfile.ZipFile(io.BytesIO(one)) as archive:
        assert archive.namelist() == sorted(archive.namelist()) and archive.testzip() is None


def test_an_author_is_named_to_claude_desktop(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--author"):
        mcpb_files(replace(ABOUT, author=None), contents(tmp_path))


def test_the_bundle_of_a_package_has_no_file_of_its_agents(tmp_path: Path) -> None:
    write_project(tmp_path)
    found = of_package("weather-agent", "1.2.0", ["weather"], tmp_path)
    files = plugin_files(ABOUT, found, OPEN)
    assert list(files) == [
        "README.md",
        "mcp.json",
        "plugin.json",
        "skills/greet/SKILL.md",
        "skills/greet/references/names.md",
    ]
    [server] = document(files["mcp.json"])["mcpServers"].values()
    assert server["args"] == ["weather-agent==1.2.0", "serve", "--stdio", "--no-servers", "weather"]
    files = mcpb_files(ABOUT, found)
    assert problems("mcpb-manifest-0.4", document(files["manifest.json"])) == []
    assert b'"weather-agent==1.2.0",' in files["pyproject.toml"]
    assert b"'--stdio', '--no-servers', 'weather'])" in files["server.py"]
    with pytest.raises(ConfigError, match="announces no agents"):
        of_package("weather-agent", "1.2.0", [], tmp_path)


def test_what_agents_need_is_installed_with_them(tmp_path: Path) -> None:
    agent = write_project(tmp_path)
    header = (
        '# /// script\n# dependencies = ["httpx>=0.27", "gaia-mcp-bridge[llm]"]\n# ///\nimport httpx, numbers_of_mars\n'
    )
    agent.write_text(header + agent.read_text("utf-8"), "utf-8")
    found = gathered([agent.name], tmp_path, {}, tmp_path, ["rich"])
    assert found.requirements == (f"gaia-mcp-bridge[llm]>={__version__},<0.2", "httpx>=0.27", "rich")
    assert found.unknown == ("numbers_of_mars",)
    [server] = document(plugin_files(ABOUT, found, OPEN)["mcp.json"])["mcpServers"].values()
    assert server["args"][2:7] == ["--with", "httpx>=0.27", "--with", "rich", "gaia-bridge"]
    for wrong in ("./wheels/x.whl", "x @ https://example.com/x.whl", "git+https://example.com/x", "-r x", ""):
        with pytest.raises(ConfigError, match="expected a package that others can install"):
            gathered([agent.name], tmp_path, {}, tmp_path, [wrong])
