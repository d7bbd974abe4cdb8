"""Which servers `serve` starts: what is wrong with one file costs only the servers that need it."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from gaia_bridge.cli.configured import ConfiguredServers
from gaia_bridge.config import TrustStore
from gaia_bridge.errors import ConfigError
from gaia_bridge.jsontypes import JSON

ENTRY = {"command": "a"}


def of_the_user(name: str, content: JSON | str) -> Path:
    return written(Path(os.environ["HOME"], ".gaia", name), content)


def written(file: Path, content: JSON | str) -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    file.chmod(0o600)
    return file


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; returns where its file would be."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mcp_servers.json"


def names(configured: ConfiguredServers) -> list[str]:
    return [spec.name for spec in configured.first()]


@pytest.mark.parametrize("content", ["", "no json", '{"approved": []}'])
def test_approvals_that_cannot_be_read_matter_to_nobody_who_needs_none(project: Path, content: str) -> None:
    of_the_user("mcp_servers.json", {"mcpServers": {"a": ENTRY}})
    approvals = of_the_user("trust.json", content)
    configured = ConfiguredServers(None)
    assert names(configured) == ["a"]
    assert configured.files[-1] == approvals
    assert [spec.name for spec in configured.again()] == ["a"]


@pytest.mark.requirement("S-25", "C-19")
@pytest.mark.parametrize(("content", "mode"), [("no json", 0o600), ('{"approved": {}}', 0o666)])
def test_approvals_that_cannot_be_read_leave_out_the_servers_of_the_project_and_say_why(
    project: Path, caplog: pytest.LogCaptureFixture, content: str, mode: int
) -> None:
    of_the_user("mcp_servers.json", {"mcpServers": {"a": ENTRY}})
    written(project, {"mcpServers": {"b": ENTRY, "c": {"command": "c", "disabled": True}}})
    approvals = of_the_user("trust.json", content)
    approvals.chmod(mode)
    with caplog.at_level(logging.WARNING):
        assert names(ConfiguredServers(None)) == ["a"]
    [text] = [record.getMessage() for record in caplog.records]
    assert text.startswith(f"{project}: server b is left out: ")
    assert str(approvals) in text


@pytest.mark.requirement("F-117")
def test_what_runs_stays_when_the_approvals_cannot_be_read_any_more(project: Path) -> None:
    written(project, {"mcpServers": {"b": ENTRY}})
    TrustStore().approve(project, "b", ENTRY)
    approvals = TrustStore().path
    kept = approvals.read_text(encoding="utf-8")
    configured = ConfiguredServers(None)
    assert names(configured) == ["b"]
    approvals.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match=str(approvals)):
        configured.again()
    approvals.write_text(kept, encoding="utf-8")
    assert [spec.name for spec in configured.again()] == ["b"]


def test_a_user_without_a_home_folder_is_served_what_needs_no_approval(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def homeless(path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", homeless)
    written(project, {"mcpServers": {"b": ENTRY}})
    configured = ConfiguredServers(None)
    with caplog.at_level(logging.WARNING):
        assert names(configured) == []
    assert configured.files[-1] == project
    assert any("server b is left out" in record.getMessage() for record in caplog.records)


def test_a_file_that_is_named_needs_no_approvals(project: Path) -> None:
    file = written(project.with_name("own.json"), {"mcpServers": {"b": ENTRY}})
    of_the_user("trust.json", "no json")
    configured = ConfiguredServers(file)
    assert names(configured) == ["b"]
    assert configured.files[0] == file
    assert [spec.name for spec in configured.again()] == ["b"]


def test_what_is_left_out_is_kept_with_its_reason_and_what_nobody_wants_is_not(project: Path) -> None:
    file = of_the_user("mcp_servers.json", {"mcpServers": {"bad": {}, "off": {"command": "a", "disabled": True}}})
    written(project, {"mcpServers": {"b": ENTRY}})
    configured = ConfiguredServers(None)
    assert names(configured) == []
    assert [(item.kind, item.name) for item in configured.left_out] == [("server", "bad"), ("server", "b")]
    assert "gaia-bridge trust" in configured.left_out[1].reason
    TrustStore().approve(project, "b", ENTRY)
    file.unlink()
    configured.again()
    assert configured.left_out == ()
    of_the_user("mcp_servers.json", "no json")
    configured = ConfiguredServers(None)
    assert names(configured) == ["b"]
    [left_out] = configured.left_out
    assert (left_out.kind, left_out.name) == ("file", f"{file}:1:1")


CHANGED = {"command": "b"}


@pytest.mark.requirement("F-261", "S-25")
@pytest.mark.parametrize("linked", [False, True])
def test_what_changes_where_agents_work_while_it_is_served_needs_an_approval(
    project: Path, caplog: pytest.LogCaptureFixture, linked: bool
) -> None:
    file = real = project.with_name("own.json")
    if linked:
        file = Path(os.environ["HOME"], "own.json")
        file.symlink_to(real)
    written(real, {"mcpServers": {"a": ENTRY, "b": ENTRY}})
    configured = ConfiguredServers(file)
    assert names(configured) == ["a", "b"]
    written(real, {"mcpServers": {"a": {**ENTRY, "timeout": 5}, "b": CHANGED, "c": ENTRY}})
    with caplog.at_level(logging.WARNING):
        assert [spec.name for spec in configured.again()] == ["a"]
    assert [(item.name, "gaia-bridge trust --config FILE " + item.name) for item in configured.left_out] == [
        (item.name, item.reason.rpartition("run: ")[2]) for item in configured.left_out
    ]
    assert [item.name for item in configured.left_out] == ["b", "c"]
    assert "server c is left out" in caplog.text
    TrustStore().approve(file, "b", CHANGED)
    assert [spec.name for spec in configured.again()] == ["a", "b"]
    written(real, {"mcpServers": {"a": ENTRY, "b": ENTRY}})
    assert [spec.name for spec in configured.again()] == ["a", "b"]


@pytest.mark.requirement("F-261")
def test_what_changes_where_no_agent_works_needs_none(project: Path) -> None:
    file = written(Path(os.environ["HOME"], "own.json"), {"mcpServers": {"a": ENTRY}})
    everywhere = of_the_user("mcp_servers.json", {"mcpServers": {"a": ENTRY}})
    for changed, configured in ((file, ConfiguredServers(file)), (everywhere, ConfiguredServers(None))):
        configured.first()
        written(changed, {"mcpServers": {"a": CHANGED, "b": ENTRY}})
        assert [spec.name for spec in configured.again()] == ["a", "b"]


@pytest.mark.requirement("F-260")
def test_what_launch_lines_name_is_known(project: Path) -> None:
    for name in ("s.sh", "key", "x.py"):
        written(project.with_name(name), "")
    entry = {"command": "./s.sh", "args": ["--load=x.py", "${file:key}", "nothing"]}
    file = written(project.with_name("own.json"), {"mcpServers": {"a": entry}})
    own = {path.name for path in ConfiguredServers(file).own_files}
    assert own == {"own.json", "trust.json", "s.sh", "x.py", "key"}


@pytest.mark.requirement("F-265", "F-099c")
def test_a_file_that_others_can_write_starts_nothing(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    everywhere = of_the_user("mcp_servers.json", {"mcpServers": {"a": ENTRY}})
    everywhere.chmod(0o666)
    configured = ConfiguredServers(None)
    assert names(configured) == []
    assert "other users can change what is started (mode 0666, expected 0600): run chmod go-w" in caplog.text
    assert [(item.kind, item.name) for item in configured.left_out] == [("file", str(everywhere))]
    with pytest.raises(ConfigError, match="mode 0666"):
        ConfiguredServers(everywhere).first()
    everywhere.chmod(0o600)
    assert [spec.name for spec in configured.again()] == ["a"]
