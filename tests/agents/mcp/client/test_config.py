"""`MCPConfig` as the specification describes it, on the files that people have."""

from __future__ import annotations

import json
import logging
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from gaia.mcp.client.config import MCPConfig
from gaia_bridge.errors import ConfigError
from gaia_bridge.model import StdioServerSpec

TIME = {"command": "uvx", "args": ["mcp-server-time"]}
ACER = {"command": "dotnet", "args": ["run", "--project", "/path/to/oem"]}


def home() -> Path:
    return Path(os.environ["HOME"], ".gaia", "mcp_servers.json")


def written(file: Path, content: Any) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(content), encoding="utf-8")
    return file


def content(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the file of the current folder would be."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mcp_servers.json"


@pytest.mark.requirement("S0-45", "S0-46")
def test_the_file_is_in_the_home_folder_by_default(local: Path) -> None:
    config = MCPConfig()
    assert config.config_file == home()
    assert stat.S_IMODE(home().parent.stat().st_mode) == 0o700
    assert not home().exists()


@pytest.mark.requirement("S0-45")
def test_a_tilde_in_an_explicit_path_is_the_home_folder(local: Path) -> None:
    written(home(), {"mcpServers": {"time": TIME}})
    config = MCPConfig("~/.gaia/mcp_servers.json")
    assert config.config_file == home()
    assert config.get_servers() == {"time": TIME}


@pytest.mark.requirement("S0-45", "S0-46")
def test_existing_servers_are_loaded_at_once(tmp_path: Path) -> None:
    config = MCPConfig(str(written(tmp_path / "servers.json", {"mcpServers": {"time": TIME}})))
    assert isinstance(config.config_file, Path)
    servers = config._servers  # pyright: ignore[reportPrivateUsage]  # the specification's name for it
    assert servers == {"time": TIME}


@pytest.mark.requirement("S0-47")
def test_the_old_key_is_read_and_the_new_one_written(tmp_path: Path) -> None:
    file = written(tmp_path / "servers.json", {"servers": {"time": TIME}})
    config = MCPConfig(str(file))
    assert config.get_server("time") == TIME
    config.add_server("acer", ACER)
    assert content(file) == {"mcpServers": {"time": TIME, "acer": ACER}}


@pytest.mark.requirement("S0-48")
def test_changes_are_saved_at_once(tmp_path: Path) -> None:
    file = tmp_path / "servers.json"
    config = MCPConfig(str(file))
    config.add_server("time", TIME)
    assert content(file) == {"mcpServers": {"time": TIME}}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    config.add_server("time", ACER)
    assert MCPConfig(str(file)).get_servers() == config.get_servers() == {"time": ACER}
    config.remove_server("time")
    assert content(file) == {"mcpServers": {}}
    assert not config.server_exists("time")


@pytest.mark.requirement("S0-48")
def test_removing_what_is_not_there_saves_nothing(tmp_path: Path) -> None:
    MCPConfig(str(tmp_path / "servers.json")).remove_server("time")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.requirement("S0-48")
def test_what_is_asked_for_is_a_copy(tmp_path: Path) -> None:
    config = MCPConfig(str(written(tmp_path / "servers.json", {"mcpServers": {"time": TIME}})))
    config.get_servers().clear()
    config.get_servers()["time"]["args"].append("x")
    config.get_server("time")["args"].append("x")
    assert config.get_server("time") == TIME
    assert config.server_exists("time")


@pytest.mark.requirement("S0-48")
def test_a_server_that_is_not_there_is_empty(tmp_path: Path) -> None:
    config = MCPConfig(str(written(tmp_path / "servers.json", {"mcpServers": {"odd": "npx"}})))
    assert config.get_server("time") == config.get_server("odd") == {}
    assert not config.server_exists("time")


@pytest.mark.requirement("S0-49")
def test_what_other_programs_wrote_survives(tmp_path: Path) -> None:
    before = {"globalShortcut": "Ctrl+Space", "mcpServers": {"time": {**TIME, "autoApprove": ["now"]}}, "theme": "dark"}
    file = written(tmp_path / "claude_desktop_config.json", before)
    MCPConfig(str(file)).add_server("acer", ACER)
    after = content(file)
    assert list(after) == ["globalShortcut", "mcpServers", "theme"]
    assert after == {**before, "mcpServers": {"time": {**TIME, "autoApprove": ["now"]}, "acer": ACER}}


@pytest.mark.requirement("S3-1", "S3-2", "S3-3")
def test_both_files_load(local: Path) -> None:
    written(home(), {"mcpServers": {"time": TIME}})
    assert MCPConfig().get_servers() == {"time": TIME}
    written(local, {"mcpServers": {"acer": ACER}})
    assert MCPConfig().get_servers() == {"time": TIME, "acer": ACER}
    written(home(), {"mcpServers": {}})
    assert MCPConfig().get_servers() == {"acer": ACER}


@pytest.mark.requirement("S3-4", "S3-9")
def test_the_local_version_wins(local: Path) -> None:
    written(home(), {"servers": {"time": {**TIME, "env": {"A": "1"}}}})
    written(local, {"servers": {"time": ACER}})
    assert MCPConfig().get_servers() == {"time": ACER}


@pytest.mark.requirement("S3-5")
def test_no_file_is_no_error(local: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert MCPConfig().get_servers() == {}
    assert caplog.records == []


@pytest.mark.requirement("S3-6")
def test_an_explicit_file_is_the_only_one(local: Path, tmp_path: Path) -> None:
    written(home(), {"mcpServers": {"time": TIME}})
    written(local, {"mcpServers": {"time": TIME}})
    config = MCPConfig(str(tmp_path / "explicit.json"))
    assert config.get_servers() == {}
    config.add_server("acer", ACER)
    assert config.config_file == tmp_path / "explicit.json"
    assert content(config.config_file) == {"mcpServers": {"acer": ACER}}
    assert content(home()) == content(local) == {"mcpServers": {"time": TIME}}


@pytest.mark.requirement("S3-7", "S3-8")
def test_a_new_server_goes_to_the_local_file_and_takes_nothing_with_it(local: Path) -> None:
    written(home(), {"mcpServers": {"time": {**TIME, "env": {"TOKEN": "s3cr3t"}}}})
    written(local, {"mcpServers": {}})
    config = MCPConfig()
    assert config.config_file == local
    config.add_server("acer", ACER)
    assert content(local) == {"mcpServers": {"acer": ACER}}
    config.remove_server("time")
    assert content(home()) == {"mcpServers": {}}
    assert content(local) == {"mcpServers": {"acer": ACER}}


@pytest.mark.requirement("S3-21")
def test_a_broken_file_is_named_and_never_overwritten(local: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(home(), {"mcpServers": {"time": TIME}})
    local.write_text('{"mcpServers": {,}}', encoding="utf-8")
    config = MCPConfig()
    assert config.get_servers() == {"time": TIME}
    [record] = caplog.records
    assert record.levelno == logging.ERROR
    assert f"{local}:1:17" in record.getMessage()
    with pytest.raises(ConfigError, match=str(local)):
        config.add_server("acer", ACER)
    assert local.read_text(encoding="utf-8") == '{"mcpServers": {,}}'


@pytest.mark.requirement("F-099c")
def test_loose_permissions_are_logged(local: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(local, {"mcpServers": {"time": TIME}}).chmod(0o666)
    assert MCPConfig().get_servers() == {"time": TIME}
    [record] = caplog.records
    assert "mode 0666" in record.getMessage()


@pytest.mark.requirement("F-098")
def test_an_impossible_name_is_refused(tmp_path: Path) -> None:
    config = MCPConfig(str(tmp_path / "servers.json"))
    with pytest.raises(ConfigError, match="cannot be the name of a server"):
        config.add_server("a\nb", TIME)
    assert config.get_servers() == {}


def test_the_report_says_what_each_file_contributes(local: Path) -> None:
    written(home(), {"mcpServers": {"time": TIME, "odd": {}}})
    written(local, {"mcpServers": {"acer": ACER}})
    report = MCPConfig().load_report
    assert [(layer.layer.path, [spec.name for spec in layer.servers]) for layer in report.layers] == [
        (home(), ["time"]),
        (local, ["acer"]),
    ]
    assert report.servers[1] == StdioServerSpec("acer", "dotnet", ("run", "--project", "/path/to/oem"))
    assert report.skipped[0].name == "odd"


def test_the_report_reads_as_the_dictionary_of_gaia_too(local: Path, tmp_path: Path) -> None:
    written(home(), {"mcpServers": {"time": TIME, "acer": TIME}})
    assert MCPConfig().load_report["local"] == {"path": local, "exists": False, "servers": []}
    written(local, {"mcpServers": {"acer": ACER, "odd": {}}})
    report: object = MCPConfig().load_report
    assert isinstance(report, Mapping)
    report = cast("Mapping[str, Any]", report)
    assert dict(report) == {
        "mode": "auto",
        "config_file": local,
        "global": {"path": home(), "exists": True, "servers": ["time", "acer"]},
        "local": {"path": local, "exists": True, "servers": ["acer", "odd"]},
        "overrides": ["acer"],
    }
    assert (report.get("none"), "mode" in report, len(report), bool(report)) == (None, True, 5, True)
    assert [*report] == list(report.keys()) == list(dict(report.items()))
    assert list(report.values())[0] == "auto"
    with pytest.raises(KeyError, match="none"):
        report["none"]
    named = written(tmp_path / "named.json", {"mcpServers": {"acer": ACER}})
    explicit = {"mode": "explicit", "config_file": named, "servers": ["acer"]}
    assert dict(MCPConfig(named).load_report) == explicit


def test_a_report_in_the_home_folders_own_place_has_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    written(home(), {"mcpServers": {"time": TIME}})
    monkeypatch.chdir(home().parent)
    report = MCPConfig().load_report
    assert (report["global"]["servers"], report["local"]["servers"], report["local"]["exists"]) == (["time"], [], False)


def test_relative_paths_begin_where_the_entry_is(local: Path) -> None:
    written(home(), {"mcpServers": {"time": TIME}})
    written(local, {"mcpServers": {"acer": ACER}})
    config = MCPConfig()
    assert [config.folder_of(name) for name in ("time", "acer", "none")] == [home().parent, local.parent, local.parent]


def test_a_home_that_cannot_be_used_stops_nothing(local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(local, {"mcpServers": {"acer": ACER}})
    monkeypatch.setenv("HOME", "/dev/null")
    config = MCPConfig()
    assert config.get_servers() == {"acer": ACER}
    local.unlink()
    with pytest.raises(ConfigError, match="cannot be saved"):
        MCPConfig().add_server("acer", ACER)


def test_what_names_files_of_the_current_folder_is_remembered_with_that_folder(local: Path) -> None:
    (local.parent / "server.py").touch()
    config = MCPConfig()
    script, other = {"command": "python", "args": ["server.py"]}, {"command": "python", "args": ["other.py"]}
    assert config.as_remembered("a", script) == {**script, "cwd": str(local.parent)}
    for entry in (other, TIME, {**script, "cwd": "/x"}, {"url": "https://x.org"}):
        assert config.as_remembered("a", entry) == entry
    written(local, {"mcpServers": {}})  # which speaks of this folder itself
    assert MCPConfig().as_remembered("a", script) == script


def test_servers_of_the_users_own_file_are_started_in_folders_of_their_own(local: Path) -> None:
    written(home(), {"mcpServers": {"mine": TIME, "placed": {**TIME, "cwd": "/x"}}})
    written(local, {"mcpServers": {"theirs": TIME}})
    servers, _ = MCPConfig().to_start()
    found = {name: server.entry.get("cwd") for name, server in servers.items()}
    assert found == {"mine": str(home().parent / "servers" / "mine"), "placed": "/x", "theirs": None}
