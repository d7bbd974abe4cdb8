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
    assert configured.files == [file]


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
